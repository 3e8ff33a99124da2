"""The present output of dragoman for the inputs of a case."""

from collections.abc import Iterable

import msgspec

from dragoman.dialects.registry import dialect_named
from dragoman.hub.errors import Failure
from dragoman.hub.events import ReplyFailed
from dragoman.hub.ids import IdSource
from dragoman.pipeline import StreamTranslator, translate_error, translate_reply, translate_request
from dragoman.providers.profile import Profile
from tests.cases.case_file import HERE, Case, Outcome, Section, fold_envelopes, given_bytes
from tests.sse import collect_sse

CREATED = 1_763_000_000
GEMINI_MODEL = "gemini-3.5-pro"

#: Ways for a stream to end that are not in its bytes: what the owner of the connection would report.
ENDINGS = {
    "reset": ReplyFailed(
        "truncated", Failure(kind="overloaded", status=502, message="the connection to the upstream was lost")
    ),
    "silence": ReplyFailed(
        "failed", Failure(kind="timeout", message="the upstream has been silent for too long")
    ),
    "cancelled": ReplyFailed("cancelled", Failure(kind="cancelled", message="the client went away")),
}
REFUSED = Failure(kind="server", status=502, message="the upstream refused the connection")


def request_of(case: Case, client: str) -> bytes:
    """The client's body: the case's own, or the usual one of its dialect."""
    section = case.find("request", client)
    if section:
        return fold_envelopes(section.text).encode()
    return (HERE / "requests" / f"{client}.json").read_bytes()


def model_of(case: Case, client: str) -> str:
    """The model in the URL: only Gemini has it there."""
    section = case.find("request", client)
    if client != "gemini":
        return ""
    return section.words[0] if section and section.words else GEMINI_MODEL


def profile_of(case: Case, dialect: str) -> Profile | None:
    section = case.find("profile", dialect)
    return Profile(**msgspec.json.decode(section.text)) if section else None


def upstream_of(case: Case) -> Section:
    section = case.find("upstream")
    if section is None:
        raise ValueError(f"{case.name}: no upstream section")
    return section


def status_of(upstream: Section) -> int | None:
    """The HTTP status of an upstream that answered with an error instead of a stream."""
    return next((int(word) for word in upstream.words if word.isdigit()), None)


def is_stream(case: Case) -> bool:
    upstream = upstream_of(case)
    return status_of(upstream) is None and "refused" not in upstream.words


def translator_of(case: Case, client: str, *, ids: str = "case") -> StreamTranslator:
    source = upstream_of(case).dialect
    return StreamTranslator(
        source=source,
        target=client,
        request=request_of(case, client),
        profile=profile_of(case, source),
        ids=IdSource(ids),
        created=CREATED,
        model=model_of(case, client),
    )


def run_stream(case: Case, client: str, pieces: Iterable[bytes]) -> tuple[bytes, StreamTranslator]:
    """The client's bytes, with the upstream's cut into these pieces."""
    translator = translator_of(case, client)
    output = [translator.feed(piece) for piece in pieces]
    endings = [ENDINGS[word] for word in upstream_of(case).words if word in ENDINGS]
    output += [translator.fail(ending.failure, ending.ending) for ending in endings]
    output.append(translator.close())
    return b"".join(output), translator


def run_reply(case: Case, client: str) -> Outcome:
    upstream = upstream_of(case)
    if not is_stream(case):
        return _run_error(upstream, client)
    stream, translator = run_stream(case, client, [given_bytes(upstream)])
    text = stream.decode()
    if text and not text.endswith("\n\n"):
        raise ValueError(f"{case.name}: the stream for {client} ends in the middle of a frame")
    return Outcome(text.removesuffix("\n\n"), translator.losses)


def _run_error(upstream: Section, client: str) -> Outcome:
    status = status_of(upstream)
    if status is None:
        dialect = dialect_named(client)
        code, headers, body = (
            dialect.error_status(REFUSED),
            dialect.error_headers(REFUSED),
            dialect.write_error(REFUSED),
        )
    else:
        head, _, given = (
            upstream.text.partition("\n\n") if upstream.text[:1] not in "{<[" else ("", "", upstream.text)
        )
        pairs = dict(line.split(": ", 1) for line in head.split("\n") if line)
        code, headers, body = translate_error(
            status, pairs, given.encode(), source=upstream.dialect, target=client
        )
    lines = [f"HTTP {code}", *(f"{name}: {value}" for name, value in headers.items())]
    return Outcome("\n".join(lines) + "\n\n" + pretty(body))


def run_request(case: Case, target: str) -> Outcome:
    section = case.find("request")
    if section is None:
        raise ValueError(f"{case.name}: no request section")
    translation = translate_request(
        request_of(case, section.dialect),
        source=section.dialect,
        target=target,
        profile=profile_of(case, target),
        model=model_of(case, section.dialect),
        stream=section.dialect == "gemini",
    )
    return Outcome(pretty(translation.body), translation.losses)


def run_whole(case: Case, client: str) -> dict[str, object]:
    """The body that the client gets when the same upstream answers in one piece."""
    upstream = upstream_of(case)
    stream, _ = run_stream(case, upstream.dialect, [given_bytes(upstream)])
    return translate_reply(
        collect_sse(dialect_named(upstream.dialect), stream),
        source=upstream.dialect,
        target=client,
        request=request_of(case, client),
        profile=profile_of(case, upstream.dialect),
        ids=IdSource("case"),
        created=CREATED,
        model=model_of(case, client),
    ).body


def pretty(body: object) -> str:
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()
