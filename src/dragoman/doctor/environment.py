"""Checks of everything around the models: the file, the keys, the permissions, the port and the providers."""

import asyncio
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from dragoman.config.config import Config
from dragoman.config.find import find_state_folder
from dragoman.config.model_facts import learned_path
from dragoman.config.provider import Provider
from dragoman.config.settings import Secret, is_loopback
from dragoman.dialects.registry import dialect_named
from dragoman.doctor.examine import Progress
from dragoman.doctor.findings import Finding
from dragoman.hub.errors import ConfigError, DragomanError, Failure
from dragoman.server.access import check_exposure
from dragoman.server.run import bind
from dragoman.storage.database import FILE_NAME
from dragoman.telemetry.redaction import Redactor
from dragoman.upstream.http.upstream import HttpUpstream
from dragoman.upstream.kinds import check_program
from dragoman.upstream.port import Upstream, UpstreamRequest

#: Seconds for the answer of a provider.
PROVIDER_TIMEOUT = 15.0
#: Bytes of an error that are read.
MAX_ERROR = 64 * 1024
#: Texts in errors about a key. Gemini, for example, refuses a wrong key with status 400.
_KEY_ERRORS = ("api key", "api_key", "apikey", "unauthorized")
_CHECK_ADDRESS = "check the address, and that the server runs"
_GROUP_OR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_environment(
    config: Config, environment: Mapping[str, str], *, running: str, is_own: bool = True
) -> Iterator[Finding]:
    """Check the file, the keys, the permissions and the port.

    `running` is the address of a gateway that already listens on the port; empty if there is none. `is_own`:
    that gateway uses the same configuration file.
    """
    yield _check_file(config)
    yield from _check_keys(config)
    yield from _check_permissions(config, environment)
    yield _check_port(config, running, is_own=is_own)


def _check_file(config: Config) -> Finding:
    if not config.path:
        detail = "no file: the embedded model answers for every model name"
        return Finding(name="configuration", state="lacks", detail=detail, advice="dragoman setup writes one")
    try:
        check_exposure(config.server)
    except ConfigError as error:
        return _fail("configuration", error.message, error.hint)
    learned = learned_path(config.path)
    suffix = f" and {learned}" if learned.is_file() else ""
    return Finding(name="configuration", state="works", detail=f"{config.path}{suffix}")


def _secrets(config: Config, *, local: bool = True) -> Iterator[tuple[str, Secret]]:
    """All secrets of the configuration, with the table that refers to them.

    Without `local`, those of servers on this machine are left out: they often accept any key.
    """
    for secret in config.server.keys:
        yield "server.keys", secret
    for provider in config.providers.values():
        if not local and is_loopback(urlsplit(provider.base_url).hostname or ""):
            continue
        for secret in (*provider.keys, *provider.headers.values()):
            yield f"providers.{provider.name}", secret


def _check_keys(config: Config) -> Iterator[Finding]:
    secrets = list(_secrets(config))
    for place, secret in secrets:
        if not secret:
            detail = f"{place} needs the environment variable {secret.variable}, which is not set"
            yield _fail("keys", detail, f"export {secret.variable}=…")
    if secrets and all(secret for _, secret in secrets):
        detail = "1 secret is set" if len(secrets) == 1 else f"{len(secrets)} secrets are set"
        yield Finding(name="keys", state="works", detail=detail)


def _check_permissions(config: Config, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Other users must not read the state file, nor a configuration that contains secrets itself."""
    private = [find_state_folder(config, environment) / FILE_NAME]
    if config.path and any(not secret.variable for _, secret in _secrets(config, local=False)):
        private.insert(0, Path(config.path))
    private = [path for path in private if path.is_file()]
    readable = [path for path in private if path.stat().st_mode & _GROUP_OR_OTHERS]
    for path in readable:
        detail = f"{path} contains secrets, and other users of this machine can read it"
        yield _fail("permissions", detail, f"chmod 600 {path}")
    if private and not readable:
        yield Finding(name="permissions", state="works", detail=", ".join(map(str, private)))


def _check_port(config: Config, running: str, *, is_own: bool) -> Finding:
    if running and not is_own:
        detail = f"a gateway with another configuration listens on {running}"
        return _fail("port", detail, "stop it, or set another server.port")
    if running:
        return Finding(name="port", state="works", detail=f"a gateway listens on {running}")
    try:
        bind(config).close()
    except ConfigError as error:
        return _fail("port", error.message, error.hint)
    return Finding(name="port", state="works", detail=f"{config.server.host}:{config.server.port} is free")


async def check_providers(
    config: Config, *, make_upstream: Callable[[Provider], Upstream] = HttpUpstream, progress: Progress
) -> list[Finding]:
    """Check all providers at the same time: is the address right, and does the server accept the key?

    Each server gets an empty request. It checks the key first and then refuses the request, at no cost.
    """
    providers = [
        each for each in config.providers.values() if not (each.program and each.program.is_internal)
    ]
    for provider in providers:
        progress(f"provider {provider.name}")
    return list(await asyncio.gather(*(_check_provider(each, make_upstream) for each in providers)))


async def _check_provider(provider: Provider, make_upstream: Callable[[Provider], Upstream]) -> Finding:
    name = f"provider {provider.name}"
    if any(not key for key in provider.keys):
        return Finding(name=name, state="skipped", detail="the key is not set")
    if provider.uses_client_credential:
        return Finding(name=name, state="skipped", detail="each client sends its own credential")
    if provider.program is not None:
        return await _check_program(name, provider, provider.program.advice)
    try:
        upstream = make_upstream(provider)
        try:
            async with asyncio.timeout(PROVIDER_TIMEOUT):
                failure = await _send_empty_request(provider, upstream)
        finally:
            await upstream.close()
    except TimeoutError:
        return _fail(name, f"no answer within {PROVIDER_TIMEOUT:g} seconds", _CHECK_ADDRESS)
    except DragomanError as error:
        return _fail(name, error.message, error.hint or _CHECK_ADDRESS)
    return _judge_failure(name, provider, Redactor(provider).redact_failure(failure) if failure else None)


async def _check_program(name: str, provider: Provider, advice: str) -> Finding:
    """Check that a local program is installed."""
    try:
        return Finding(name=name, state="works", detail=await check_program(provider))
    except DragomanError as error:
        return _fail(name, error.message, error.hint or advice)


async def _send_empty_request(provider: Provider, upstream: Upstream) -> Failure | None:
    """Send `{}` and read the error; None if the server accepts it."""
    answer = await upstream.send(UpstreamRequest(body=b"{}", model="dragoman-doctor", stream=False))
    try:
        if answer.status < 300:
            return None
        body = bytearray()
        async for piece in answer.pieces():
            body += piece[: MAX_ERROR - len(body)]
        return dialect_named(provider.wire_dialect).read_error(answer.status, answer.headers, bytes(body))
    finally:
        answer.close()


def _judge_failure(name: str, provider: Provider, failure: Failure | None) -> Finding:
    if failure is None:
        return Finding(name=name, state="works", detail=provider.base_url)
    kind, status, message = failure.kind, failure.http_status, failure.message
    is_request_error = kind in ("invalid_request", "context_overflow", "too_large")
    is_about_key = is_request_error and any(text in message.lower() for text in _KEY_ERRORS)
    if is_about_key or kind in ("authentication", "permission"):
        detail = f"the key is not accepted (status {status}): {message}"
        return _fail(name, detail, _advise_key(provider))
    if is_request_error:
        return Finding(name=name, state="works", detail=provider.base_url)
    if kind == "not_found":
        # Some servers look for the model before anything else; others do not know the path.
        detail = f"{provider.base_url} answers with status {status}: {message}"
        advice = f"if requests fail too, check base_url: dragoman doctor {provider.name}/MODEL sends one"
        return Finding(name=name, state="unclear", detail=detail, advice=advice)
    if kind in ("rate_limit", "quota", "billing"):
        return Finding(name=name, state="unclear", detail=message, advice="check the provider's account")
    detail = f"status {status}: {message}"
    if status == 500:
        # Some servers fail on an empty request and answer every other one.
        advice = f"check whether a model answers: dragoman doctor {provider.name}/MODEL"
        return Finding(name=name, state="unclear", detail=detail, advice=advice)
    return _fail(name, detail, "try again later")


def _advise_key(provider: Provider) -> str:
    if not provider.keys:
        return 'set a key: api_key = "env:NAME"'
    variables = [key.variable for key in provider.keys if key.variable]
    return f"check the variable {variables[0]}" if variables else "check api_key"


def _fail(name: str, detail: str, advice: str) -> Finding:
    return Finding(name=name, state="fails", detail=detail, advice=advice)
