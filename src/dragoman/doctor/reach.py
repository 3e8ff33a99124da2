"""Can each provider be reached, and does it take its key?

The question is an empty one: a server refuses it without working, and without charging, but only after it has
looked at the key.
"""

import asyncio
from collections.abc import Callable

from dragoman.config.model import Config, Provider
from dragoman.dialects.registry import dialect_named
from dragoman.doctor.examine import Progress
from dragoman.doctor.finding import Finding
from dragoman.exchange.secrets import Secrets
from dragoman.hub.errors import DragomanError, Failure
from dragoman.upstream.claude_code.sdk import find_executable
from dragoman.upstream.http.upstream import HttpUpstream
from dragoman.upstream.port import Upstream, UpstreamRequest

#: Seconds that a provider gets.
PATIENCE = 15.0
MAX_ERROR = 64 * 1024
#: What servers say of a key that they do not take, where they have no status for it.
_ABOUT_KEYS = ("api key", "api_key", "apikey", "unauthorized")
#: A model that nobody has.
NOBODY = "dragoman-doctor"


async def reach(
    config: Config, *, make: Callable[[Provider], Upstream] = HttpUpstream, progress: Progress
) -> list[Finding]:
    """All at once; one that cannot be reached does not keep the others waiting."""
    providers = [provider for provider in config.providers.values() if provider.dialect != "embedded"]
    for provider in providers:
        progress(f"provider {provider.name}")
    return list(await asyncio.gather(*(_reached(provider, make) for provider in providers)))


async def _reached(provider: Provider, make: Callable[[Provider], Upstream]) -> Finding:
    name = f"provider {provider.name}"
    if any(not key for key in provider.keys):
        return Finding(name=name, state="skipped", detail="its key is not set")
    if provider.dialect == "claude_code":
        return await _installed(name, provider)
    try:
        upstream = make(provider)
        try:
            async with asyncio.timeout(PATIENCE):
                failure = await _asked(provider, upstream)
        finally:
            await upstream.close()
    except TimeoutError:
        return _fails(name, f"no answer within {PATIENCE:g} seconds", "is the address right, is it running?")
    except DragomanError as error:
        return _fails(name, error.message, error.hint or "is the address right, is it running?")
    return _judged(name, provider, Secrets(provider).told(failure) if failure else None)


async def _installed(name: str, provider: Provider) -> Finding:
    """Claude Code is no server: whether it can be started is all there is to know without asking a model."""
    try:
        return Finding(name=name, state="works", detail=await find_executable(provider))
    except DragomanError as error:
        return _fails(name, error.message, "see docs/claude-code-backend.md")


async def _asked(provider: Provider, upstream: Upstream) -> Failure | None:
    answer = await upstream.send(UpstreamRequest(body=b"{}", model=NOBODY, stream=False))
    try:
        if answer.status < 300:
            return None
        body = bytearray()
        async for piece in answer.pieces():
            body += piece[: MAX_ERROR - len(body)]
        return dialect_named(provider.wire_dialect).read_error(answer.status, answer.headers, bytes(body))
    finally:
        answer.close()


def _judged(name: str, provider: Provider, failure: Failure | None) -> Finding:
    where = provider.base_url
    if failure is None or failure.kind in ("invalid_request", "context_overflow", "too_large"):
        if failure and any(words in failure.message.lower() for words in _ABOUT_KEYS):
            return _wrong_key(name, provider, failure)
        return Finding(name=name, state="works", detail=where)
    if failure.kind in ("authentication", "permission"):
        return _wrong_key(name, provider, failure)
    if failure.kind == "not_found":
        # Some look for the model before they look at anything else, others have no such path.
        detail = f"{where} answers that something was not found: {failure.message}"
        return Finding(name=name, state="works", detail=detail, advice="if requests fail too, check base_url")
    if failure.kind in ("rate_limit", "quota", "billing"):
        return Finding(name=name, state="unclear", detail=failure.message, advice="look at the account")
    detail = f"status {failure.http_status}: {failure.message}"
    if failure.http_status == 500:
        # Some servers break at an empty request and answer every other one.
        advice = f"see whether a model answers: dragoman doctor {provider.name}/MODEL"
        return Finding(name=name, state="unclear", detail=detail, advice=advice)
    return _fails(name, detail, "try again later")


def _wrong_key(name: str, provider: Provider, failure: Failure) -> Finding:
    variables = [key.variable for key in provider.keys if key.variable]
    place = f"the variable {variables[0]}" if variables else "api_key"
    advice = f"check {place}" if provider.keys else 'it wants a key: api_key = "env:NAME"'
    return _fails(name, f"the key is not accepted (status {failure.http_status}): {failure.message}", advice)


def _fails(name: str, detail: str, advice: str) -> Finding:
    return Finding(name=name, state="fails", detail=detail, advice=advice)
