"""What is known about a provider's models, and whence: its preset, the catalogue, the doctor, the file."""

from dragoman.config.check import Place
from dragoman.config.keys import model_keys
from dragoman.config.model import Layer, Models
from dragoman.providers.catalogue import catalogue

LEARNED = "learned"


def stated_models(place: Place) -> Models:
    """The facts in the tables below `models`, checked."""
    models: Models = {}
    for name, table in place.table("models").named_tables():
        table.check(model_keys())
        models[name] = {key: value for key, value in table.values.items() if key != "governance"}
    return models


def layers_below(
    preset: str, preset_facts: dict[str, object], vendor: str, learned: Models
) -> tuple[Layer, ...]:
    """What is known without the file, the weakest first. Both names are empty where no preset is used."""
    known = catalogue(vendor)
    layers = (
        Layer(source=f"preset {preset}", models={"*": preset_facts} if preset_facts else {}),
        Layer(
            source=f"catalogue {known.checked}" if known else "",
            models=known.models if known else {},
            is_stated=False,
        ),
        Layer(source=LEARNED, models=learned),
    )
    return tuple(layer for layer in layers if layer.models)
