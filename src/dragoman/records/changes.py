"""Explains how the gateway changed a recorded request: the differences by path, and the pass that made each.

Client and upstream may use different dialects. So the upstream's request is read and written in the client's
dialect, and compared there: what remains are changes of the meaning. The passes run again on the recorded
request, with the facts of the current configuration.
"""

from typing import Any

import msgspec

from dragoman.config.config import Config
from dragoman.config.provider import TargetName
from dragoman.dialects.interfaces import Json
from dragoman.dialects.registry import dialect_named
from dragoman.fit import PASSES
from dragoman.hub.errors import DragomanError
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.pipeline.bodies import read_object
from dragoman.providers.profile import Profile, build_target_facts
from dragoman.records.differences import Difference, compare

#: Differences that no pass makes, by their paths.
_KNOWN_CAUSES = {
    "model": "route: the target's model name",
    "stream_options": "usage: the gateway asks the upstream for the usage",
}


#: The members that hold a text or a list of blocks.
_TEXTS = frozenset({"content", "system"})


class RequestChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between the client's request and the upstream's, in the client's dialect.

    `is_translated`: the upstream's request was translated back for the comparison.
    """

    differences: list[Difference]
    is_translated: bool = False
    #: Why the requests cannot be compared in one dialect, or the passes cannot run again; else empty.
    problem: str = ""


def explain_changes(
    config: Config,
    client_body: bytes,
    upstream_body: bytes,
    *,
    client: str,
    upstream: str,
    model: str,
    target: str,
    losses: list[dict[str, str]],
) -> RequestChanges:
    """Compare the two requests of a turn. `client` and `upstream` are dialects, `losses` those recorded."""
    try:
        before, after = read_object(client_body), read_object(upstream_body)
        is_translated = client != upstream
        if is_translated:
            # The same way for both: values that a dialect can spell in several ways are no differences.
            after = _unify_texts(_write(_read(after, upstream, model), client))
            before = _unify_texts(_write(_read(before, client, model), client))
    except (DragomanError, RecursionError) as error:
        return RequestChanges(differences=[], problem=str(error))
    problem, causes = "", {}
    try:
        causes = find_pass_causes(config, read_object(client_body), client, model, target)
    except (DragomanError, RecursionError, KeyError) as error:
        problem = f"the passes cannot run again: {error}"
    found = [
        msgspec.structs.replace(each, cause=_find_cause(each.path, causes, losses))
        for each in compare(before, after)
    ]
    return RequestChanges(differences=found, is_translated=is_translated, problem=problem)


def find_pass_causes(config: Config, body: Json, client: str, model: str, target: str) -> dict[str, str]:
    """The name of the last pass that changed each path of the request, by running the passes again.

    Raises `KeyError` if the target's provider is not configured now.
    """
    provider, _, name = target.partition("/")
    profile = config.providers[TargetName(provider, name).provider].build_profile(name)
    facts = build_target_facts(profile, client)
    request = _read(body, client, model)
    causes: dict[str, str] = {}
    before = _write(request, client)
    for each in PASSES:
        changed = each.apply(request, facts, Losses())
        if changed is request:
            continue
        request = changed
        after = _write(request, client)
        causes |= {difference.path: f"pass: {each.name}" for difference in compare(before, after)}
        before = after
    return causes


def _read(body: Json, dialect: str, model: str) -> Request:
    return dialect_named(dialect).read_request(body, Losses(), model=model, stream=False)


def _write(request: Request, dialect: str) -> Json:
    facts = build_target_facts(Profile(dialect=dialect), dialect)
    written: Json = msgspec.json.decode(
        msgspec.json.encode(dialect_named(dialect).write_request(request, facts, Losses()))
    )
    return written


def _unify_texts(value: Any, name: str = "") -> Any:
    """The value with every text of a message as a list of one block: the dialects know both forms."""
    if isinstance(value, dict):
        return {key: _unify_texts(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_unify_texts(each) for each in value]
    return [{"type": "text", "text": value}] if name in _TEXTS and isinstance(value, str) else value


def _find_cause(path: str, causes: dict[str, str], losses: list[dict[str, str]]) -> str:
    """The cause of a path or of the nearest path around it; else of a path inside it."""
    for loss in losses:
        if loss["path"] and path.startswith(loss["path"]):
            return f"loss: {loss['reason']}"
    around = [known for known in causes if path == known or path.startswith((f"{known}.", f"{known}["))]
    inside = [known for known in causes if known.startswith((f"{path}.", f"{path}["))]
    if around or inside:
        return causes[max(around, key=len) if around else inside[0]]
    return next((cause for known, cause in _KNOWN_CAUSES.items() if path.startswith(known)), "")
