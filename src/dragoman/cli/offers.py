"""The providers and models that `dragoman setup` can offer: running servers, and vendors whose key is set."""

import os
from collections.abc import Sequence

import msgspec

from dragoman.cli.connection import check_url
from dragoman.cli.new_config import build_config
from dragoman.config.load import load
from dragoman.config.provider import Provider
from dragoman.doctor.server_kinds import ServerModel
from dragoman.doctor.servers import (
    ModelServer,
    find_kind,
    find_server,
    find_servers,
    list_vendor_models,
)
from dragoman.hub.errors import ConfigError, suggest_spelling
from dragoman.providers.presets import load_presets


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that can be chosen. `server`: it answers on this machine, or at the address of `--url`."""

    preset: str
    title: str
    detail: str
    server: ModelServer | None = None
    #: The address, if it is not that of the preset.
    base_url: str = ""

    @property
    def is_testable(self) -> bool:
        """Whether a request can be sent: the server answers, or the key of the vendor is set."""
        return self.server is not None or bool(os.environ.get(load_presets()[self.preset].key))

    def build_provider(self, model: str) -> Provider:
        """The provider as the new configuration file has it."""
        config = load(build_config(self.preset, model, base_url=self.base_url), "", os.environ)
        return config.providers[self.preset]


def find_offers(provider: str | None, url: str) -> list[Offer]:
    """The offers: the one that `--url` or `--provider` names, else everything that can be used at once."""
    presets = load_presets()
    if provider is not None and provider not in presets:
        hint = suggest_spelling(provider, presets) or f"known providers: {', '.join(sorted(presets))}"
        raise ConfigError(f"there is no provider {provider!r}", hint=hint)
    if url:
        return [_find_at(provider, check_url(url))]
    if provider is not None:
        server = find_server(presets[provider].base_url) if find_kind(provider) else None
        return [_describe_server(server) if server else _describe_preset(provider)]
    offers = [_describe_server(server) for server in find_servers(os.environ)]
    return offers + [_describe_preset(name) for name, preset in presets.items() if os.environ.get(preset.key)]


def _find_at(provider: str | None, url: str) -> Offer:
    server = find_server(url)
    if server is not None and (provider is None or find_kind(provider)):
        return _describe_server(server)
    if provider is None:
        hint = "start it, or name the kind of server: --provider vllm"
        raise ConfigError(f"no model server answers at {url}", hint=hint)
    return Offer(preset=provider, title=provider, detail=url, base_url=url)


def _describe_server(server: ModelServer) -> Offer:
    count = len(server.models)
    return Offer(
        preset=server.kind,
        title=server.title,
        detail=f"{server.base_url}, {count} model{'' if count == 1 else 's'}",
        server=server,
        base_url="" if server.base_url == load_presets()[server.kind].base_url else server.base_url,
    )


def _describe_preset(name: str) -> Offer:
    preset, kind = load_presets()[name], find_kind(name)
    if kind:
        return Offer(preset=name, title=kind.title, detail=f"no server answers at {preset.base_url}")
    state = "is set" if os.environ.get(preset.key) else "is not set"
    return Offer(preset=name, title=name, detail=f"{preset.key} {state}" if preset.key else "")


def list_models(offer: Offer) -> Sequence[ServerModel]:
    """The models of an offer; empty if they are unknown."""
    if offer.server is not None:
        return offer.server.models
    if not offer.is_testable or not load_presets()[offer.preset].base_url:
        return ()
    return [ServerModel(name=name) for name in list_vendor_models(offer.build_provider("any"))]


def match_model(offer: Offer, wanted: str, models: Sequence[ServerModel]) -> str:
    """The name of the wanted model at its provider. Raises if its server has no such model."""
    names = [model.name for model in models]
    # Ollama adds `:latest` to a name without a tag.
    for name in (wanted, f"{wanted}:latest"):
        if name in names or not names:
            return name
    listed = ", ".join(names[:30])
    hint = suggest_spelling(wanted, names) or f"there are: {listed}"
    raise ConfigError(f"{offer.title} has no model {wanted!r}", hint=hint)


def describe_model(model: ServerModel) -> str:
    """What the server reports about the model, in one line."""
    tools = {True: "tools", False: "no tools: they are described as text", None: ""}[model.has_tools]
    images = "images" if model.has_images else ""
    window = f"{model.context or 'unknown':,}" if model.context else ""
    if model.context and model.largest_context > model.context:
        window += f" of {model.largest_context:,}"
    elif not model.context and model.largest_context:
        window = f"up to {model.largest_context:,}"
    return ", ".join(filter(None, (tools, images, f"{window} tokens of context" if window else "")))
