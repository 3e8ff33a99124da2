"""What a gateway needs before it calls anybody: its file, its keys, its folder, its port."""

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from dragoman.config.find import state_folder
from dragoman.config.learned import learned_file
from dragoman.config.model import Config, Secret
from dragoman.doctor.finding import Finding
from dragoman.hub.errors import ConfigError
from dragoman.server.guard import check_exposure
from dragoman.server.run import bind
from dragoman.storage.database import FILE_NAME

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def surroundings(config: Config, environment: Mapping[str, str], *, running: str) -> Iterator[Finding]:
    """What is right and wrong around the gateway; `running` is the address of one that already listens."""
    yield _configuration(config)
    yield from _secrets(config)
    yield from _permissions(config, environment)
    yield _port(config, running)


def _configuration(config: Config) -> Finding:
    if not config.path:
        detail = "there is none, so that every model name reaches the embedded model"
        return Finding(name="configuration", state="lacks", detail=detail, advice="dragoman init writes one")
    try:
        check_exposure(config.server)
    except ConfigError as error:
        return Finding(name="configuration", state="fails", detail=error.message, advice=error.hint)
    learned = learned_file(config.path)
    beside = f" and {learned}" if learned.is_file() else ""
    return Finding(name="configuration", state="works", detail=f"{config.path}{beside}")


def _secrets(config: Config) -> Iterator[Finding]:
    """Variables that the file refers to and nobody has set."""
    wanted = [("server.keys", secret) for secret in config.server.keys]
    for provider in config.providers.values():
        wanted += [(f"providers.{provider.name}", secret) for secret in _of(provider.keys, provider.headers)]
    for place, secret in wanted:
        if not secret:
            yield Finding(
                name="keys",
                state="fails",
                detail=f"{place} needs the environment variable {secret.variable}, which is not set",
                advice=f"export {secret.variable}=…",
            )
    if wanted and all(secret for _, secret in wanted):
        yield Finding(name="keys", state="works", detail=_counted(len(wanted)))


def _of(keys: tuple[Secret, ...], headers: Mapping[str, Secret]) -> tuple[Secret, ...]:
    return (*keys, *headers.values())


def _counted(number: int) -> str:
    return "1 secret is there" if number == 1 else f"{number} secrets are there"


def _permissions(config: Config, environment: Mapping[str, str]) -> Iterator[Finding]:
    private = [
        path for path in (_with_secrets(config), state_folder(config, environment) / FILE_NAME) if path
    ]
    found = [path for path in private if path.is_file()]
    for path in found:
        if path.stat().st_mode & _OTHERS:
            yield Finding(
                name="permissions",
                state="fails",
                detail=f"{path} holds secrets, and others on this machine can read it",
                advice=f"chmod 600 {path}",
            )
    if found and not any(path.stat().st_mode & _OTHERS for path in found):
        yield Finding(name="permissions", state="works", detail=", ".join(map(str, found)))


def _with_secrets(config: Config) -> Path | None:
    """The file, if secrets stand in it themselves."""
    secrets = [*config.server.keys]
    for provider in config.providers.values():
        secrets += _of(provider.keys, provider.headers)
    return Path(config.path) if any(not secret.variable for secret in secrets) and config.path else None


def _port(config: Config, running: str) -> Finding:
    if running:
        return Finding(name="port", state="works", detail=f"a gateway listens on {running}")
    try:
        bind(config).close()
    except ConfigError as error:
        return Finding(name="port", state="fails", detail=error.message, advice=error.hint)
    return Finding(name="port", state="works", detail=f"{config.server.host}:{config.server.port} is free")
