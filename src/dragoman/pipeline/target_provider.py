"""What the pipeline must know of a provider."""

from collections.abc import Mapping
from typing import Protocol

from dragoman.providers.profile import Profile


class TargetProvider(Protocol):
    """What the pipeline must know of a provider. `config.provider.Provider` has it."""

    @property
    def wire_dialect(self) -> str: ...

    def has_stated_facts(self, model: str) -> bool:
        """Whether the configuration states facts about the model that hold for every client."""
        ...

    def merge_facts(self, model: str) -> Mapping[str, object]:
        """Everything that is known about the model, stated or from the catalogue."""
        ...

    def build_profile(self, model: str, *, only_stated: bool = False) -> Profile:
        """The profile of a model. `only_stated`: only with the facts that apply to clients of every API."""
        ...
