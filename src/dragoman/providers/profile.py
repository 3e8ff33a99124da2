"""What is known about one model (`Profile`), and the complete facts for one request to it (`TargetFacts`).

A fact that a profile does not state comes from the target's dialect, or permits everything if the client
uses the same dialect: such a client knows what its server accepts, and its request must not change.
"""

from collections.abc import Mapping
from functools import cache

import msgspec

from dragoman.providers.dialect_facts import DIALECT_FACTS
from dragoman.providers.facts import PERMISSIVE, Facts

#: The names of everything that a profile can state.
PROFILE_FIELDS = ("dialect", "provider", "model", *Facts.__struct_fields__)


class TargetFacts(Facts, frozen=True, kw_only=True):
    """The model that a request goes to, with all facts. The fit passes and the request writers read it."""

    dialect: str
    provider: str = ""
    #: The model's name at the provider; empty: the name that the client sent.
    model: str = ""


class Profile:
    """The stated facts about one model at one provider: `Profile(dialect="openai_chat", images=False)`.

    The keywords are the fields of `Facts`; None means unknown, as does leaving it out. `stated` holds the
    facts that are known, `facts` the same with permissive defaults for the others. An unknown name or a value
    of the wrong type raises `msgspec.ValidationError`.
    """

    __slots__ = ("dialect", "facts", "model", "provider", "stated", "target_facts", "variants")

    def __init__(
        self, *, dialect: str, provider: str | None = None, model: str | None = None, **facts: object
    ) -> None:
        self.dialect = dialect
        self.provider = provider or ""
        self.model = model or ""
        known = {name: value for name, value in facts.items() if value is not None}
        place = {"dialect": dialect, "provider": self.provider, "model": self.model}
        self.facts: Facts = msgspec.convert({**place, **known}, TargetFacts)
        self.stated: Mapping[str, object] = {name: getattr(self.facts, name) for name in known}
        #: The results of `build_target_facts`, by the client's dialect.
        self.target_facts: dict[str, TargetFacts] = {}
        #: The results of `without`.
        self.variants: dict[tuple[str, ...], Profile] = {}

    def without(self, *features: str) -> "Profile":
        """The profile of this model with these facts false. It is built once."""
        variant = self.variants.get(features)
        if variant is None:
            variant = self.variants[features] = self.with_facts(**dict.fromkeys(features, False))
        return variant

    def with_facts(self, **facts: object) -> "Profile":
        """The profile of this model with more facts; a stated fact of the same name is replaced."""
        stated = {**self.stated, **facts}
        return Profile(dialect=self.dialect, provider=self.provider, model=self.model, **stated)

    def __repr__(self) -> str:
        return f"Profile({self.dialect!r}, {self.provider!r}, {self.model!r}, {self.stated!r})"


def build_target_facts(profile: Profile, client_dialect: str) -> TargetFacts:
    """The complete facts for a request that a client sends in `client_dialect`."""
    facts = profile.target_facts.get(client_dialect)
    if facts is None:
        usual = _usual_facts(profile.dialect, is_own=client_dialect == profile.dialect)
        place = {"provider": profile.provider, "model": profile.model}
        facts = msgspec.structs.replace(usual, **place, **profile.stated)
        profile.target_facts[client_dialect] = facts
    return facts


@cache
def _usual_facts(dialect: str, *, is_own: bool) -> TargetFacts:
    facts = PERMISSIVE if is_own else DIALECT_FACTS.get(dialect, PERMISSIVE)
    return msgspec.convert(
        {**msgspec.structs.asdict(facts), "dialect": dialect, "issuer": dialect}, TargetFacts
    )
