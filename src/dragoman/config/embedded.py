"""What dragoman does with no configuration at all: every model name reaches the embedded model."""

from dragoman.config.model import Config, Provider, TargetName

EMBEDDED = "embedded"


def embedded_config() -> Config:
    return Config(
        providers={EMBEDDED: Provider(name=EMBEDDED, dialect="embedded")},
        default=(TargetName(EMBEDDED, EMBEDDED),),
    )
