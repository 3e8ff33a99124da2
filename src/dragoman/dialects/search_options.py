"""Options of hosted web tools that several dialects spell alike, taken from and put back into JSON objects.

Taking is tolerant: what is not of the expected shape stays where it is.
"""

from dragoman.dialects.base import Json
from dragoman.hub.content import Location

#: Names that begin so are notes of a reader to its own writer.
NOTE = "@"

LOCATION = "user_location"
PLACES = ("city", "region", "country", "timezone")


def take_domains(values: Json, name: str) -> tuple[str, ...]:
    """A list of names of sites; an empty one stays."""
    domains = values.get(name)
    if not isinstance(domains, list) or not domains:
        return ()
    texts = tuple(domain for domain in domains if isinstance(domain, str))
    if len(texts) != len(domains):
        return ()
    del values[name]
    return texts


def take_location(values: Json) -> Location | None:
    """The user's location. One that was spelled in another way than ours is noted as it came."""
    told = values.get(LOCATION)
    if not isinstance(told, dict) or told.get("type") != "approximate":
        return None
    known: dict[str, str] = {}
    for name, value in told.items():
        if name in PLACES and isinstance(value, str):
            known[name] = value
        elif name != "type" and value is not None:
            return None
    del values[LOCATION]
    location = Location(**known)
    if spell_location(location) != told:
        values[NOTE + LOCATION] = told
    return location


def spell_location(location: Location) -> Json:
    places = {name: value for name in PLACES if (value := getattr(location, name))}
    return {"type": "approximate", **places}
