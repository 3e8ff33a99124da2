"""What dragoman does with no configuration at all: every model name reaches the embedded model."""

from collections.abc import Mapping

from dragoman.config.model import Config, Provider, TargetName
from dragoman.governance.settings import Governance, apply_switches

EMBEDDED = "embedded"


def embedded_config(environment: Mapping[str, str]) -> Config:
    governance = apply_switches(Governance(), environment)
    return Config(
        providers={EMBEDDED: Provider(name=EMBEDDED, dialect="embedded", governance=governance)},
        default=(TargetName(EMBEDDED, EMBEDDED),),
    )
