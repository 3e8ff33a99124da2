"""The models that the providers themselves report, for the model list. No request of a client waits for long.

A list is read in a thread when a client asks for models, and kept for some minutes. Until a provider has
answered, the model list has only the names of the configuration.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from threading import Thread

import msgspec

from dragoman.config.config import Config
from dragoman.config.provider import Provider, TargetName
from dragoman.routing.choose import ModelNotFound, choose, is_pattern, list_model_names

#: Seconds that the first client waits for the lists of the providers.
FIRST_WAIT = 0.5
#: Seconds until a list is read again, and until a provider without one is asked again.
MAX_AGE = 600.0
RETRY_AFTER = 60.0

#: The context windows of a provider's models, by name; 0: unknown. Empty if the provider reports nothing.
Reported = Mapping[str, int]
ReadModels = Callable[[Provider], Reported]


class ReportedList(msgspec.Struct, frozen=True):
    """The list of one provider, as it was configured, and when it was read."""

    provider: Provider
    models: Reported
    read_at: float


class ModelLists:
    """The lists of all providers. `read` asks one provider and may block; `clock` returns seconds."""

    def __init__(self, read: ReadModels, clock: Callable[[], float]) -> None:
        self._read, self._clock = read, clock
        self._lists: dict[str, ReportedList] = {}
        self._running: dict[str, asyncio.Future[None]] = {}

    async def find(self, config: Config) -> dict[str, Reported]:
        """The known lists by provider. Reads those that are missing or old."""
        providers = {name: each for name, each in config.providers.items() if _has_list(each)}
        for name, provider in providers.items():
            if name not in self._running and self._is_due(provider):
                self._start(provider)
        first = [future for name, future in self._running.items() if name not in self._lists]
        if first:
            await asyncio.wait(first, timeout=FIRST_WAIT)
        return {
            name: self._lists[name].models
            for name, provider in providers.items()
            if name in self._lists and self._lists[name].provider == provider
        }

    def _is_due(self, provider: Provider) -> bool:
        known = self._lists.get(provider.name)
        if known is None or known.provider != provider:
            return True
        return self._clock() - known.read_at > (MAX_AGE if known.models else RETRY_AFTER)

    def _start(self, provider: Provider) -> None:
        loop = asyncio.get_running_loop()
        future = self._running[provider.name] = loop.create_future()

        def keep(models: Reported) -> None:
            known = self._lists.get(provider.name)
            if not models and known is not None and known.provider == provider:
                models = known.models
            self._lists[provider.name] = ReportedList(provider, models, self._clock())
            del self._running[provider.name]
            if not future.done():
                future.set_result(None)

        def read() -> None:
            models = self._read(provider)
            # The gateway may have stopped meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(keep, models)

        # A thread of its own: the gateway does not wait for it when it stops.
        Thread(target=read, daemon=True).start()


def _has_list(provider: Provider) -> bool:
    """Whether the provider can be asked: over HTTP, by the gateway itself, and as requests reach it."""
    if provider.obstacle or provider.uses_client_credential or provider.proxy or provider.verify is not True:
        return False
    return provider.list_models and bool(provider.base_url) and provider.program is None


def list_served_models(config: Config, reported: Mapping[str, Reported]) -> dict[str, int]:
    """The names that clients can request, with the reported windows: first those of the configuration.

    A reported model has its own name if that leads to it, else the direct name, `provider/model`.
    """
    names = dict.fromkeys(list_model_names(config), 0)
    for target, window in _list_targets(reported):
        name = target.model if _leads_to(config, target) else str(target)
        # Ollama reports a model without a tag with this one.
        known = next((each for each in (name, name.removesuffix(":latest")) if each in names), name)
        names[known] = window
    return names


def _list_targets(reported: Mapping[str, Reported]) -> Iterator[tuple[TargetName, int]]:
    for provider, models in reported.items():
        for model, window in models.items():
            # Gateways such as LiteLLM also report patterns.
            if not is_pattern(model):
                yield TargetName(provider, model), window


def _leads_to(config: Config, target: TargetName) -> bool:
    with suppress(ModelNotFound):
        return choose(config, target.model).targets[:1] == (target,)
    return False
