"""What only the client's own vendor understands: stored state, account fields, fields without an equivalent.

State that the target does not have is refused: without it the request means something else. Other fields are
losses. Writers put extras back only into the dialect they came from, so nothing is removed here for them.
"""

from collections.abc import Mapping

from dragoman.fit.editing import is_foreign, replace
from dragoman.hub.blocks import (
    PRIVATE,
    AnyBlock,
    Opaque,
    Text,
    Tool,
    ToolDeclarations,
    ToolResult,
)
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.ids import digest
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, list_blocks
from dragoman.providers.profile import TargetFacts

SEND_ALL = "send the whole conversation instead"

#: Extras that change what the request means, and what the client can do instead.
REFUSED_EXTRAS: dict[str, str] = {
    # Gemini: the cache holds the beginning of the conversation, often its system text and tools.
    "cachedContent": "send the cached content itself instead of its name",
    "background": "leave it out and wait for the reply",
    # With this setting Anthropic returns a summary of the conversation and no answer to it.
    "compaction": "ask for a summary in a message instead",
    "conversation": SEND_ALL,
    "prompt": "send the prompt itself instead of its id",
    # Claude Code checks by itself if an error names the field. Without an error it relies on the results.
    "safeguards": "leave it out and check the reply yourself",
    "thread": SEND_ALL,
}

#: Types of these extras that refer to nothing stored. A new thread comes with its whole conversation.
COMPLETE_TYPES: dict[str, str] = {"thread": "create"}

#: Kinds of items that refer to something stored.
REFERENCES = frozenset({"item_reference"})

#: Vendors refuse longer user ids. Longer ones are a bundle of the client's own ids and are hashed.
USER_LIMIT = 64

#: The names that the vendors have for the same service tier.
TIERS: tuple[frozenset[str], ...] = (
    frozenset({"default", "standard", "standard_only"}),
    frozenset({"priority", "fast"}),
    frozenset({"flex"}),
)

#: Values of `include` that the reply fulfils without the target's help, or that are a setting of their own.
INCLUDED_ANYWAY = frozenset({"reasoning.encrypted_content", "message.output_text.logprobs"})

#: Bookkeeping of the source dialect and hints for its transport: the conversation loses nothing without them.
BOOKKEEPING = frozenset(
    {
        "id",
        "index",
        "object",
        "status",
        "type",
        "caller",
        "phase",
        "logprobs",
        "eager_input_streaming",
        "execution",
    }
)

#: Values that equal the default of the field.
DEFAULTS: dict[str, tuple[object, ...]] = {
    "format": ({"type": "text"},),
    "modalities": (["text"],),
    "responseModalities": (["TEXT"],),
    "speed": ("standard",),
    "stream_options": ({"include_obfuscation": True}, {"include_obfuscation": False}),
    "truncation": ("disabled",),
}

#: Objects that readers take apart: each remaining field is a loss of its own.
OPENED = frozenset({"output_config", "text"})

#: Extras by which a vendor shortens a conversation that is too long, and the value that forbids it.
#: OpenRouter has `transforms` and, as a plugin, context compression.
SHORTENING: dict[str, object] = {
    "context_management": None,
    "plugins": [],
    "transforms": [],
    "truncation": "disabled",
}

#: The one private extra whose content is a loss: the description of a group of tools.
GROUP = PRIVATE + "namespace"

_NO_EQUIVALENT = "no other dialect has this field"
_CITED = "only the vendor of a citation accepts it back"


def may_be_shortened(request: Request) -> bool:
    """Whether the client's own vendor may shorten the conversation before the model sees it."""
    return any(request.extras.get(name) not in (None, forbidding) for name, forbidding in SHORTENING.items())


def refuse_stored_state(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Refuse a request that refers to responses, conversations or prompts stored at another vendor."""
    if not is_foreign(request, target):
        return request
    if request.previous_response_id:
        path = request.path_of("previous_response_id")
        raise ClientProtocolError(
            "this target keeps no earlier responses",
            path=path,
            hint=SEND_ALL,
            code="previous_response_not_found",
        )
    check_vendor_extras(request.extras)
    return request


def refuse_stored_items(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Refuse a request whose conversation refers to items stored at another vendor."""
    if is_foreign(request, target):
        for block in list_blocks(request.messages):
            if type(block) is Opaque and block.kind in REFERENCES:
                raise ClientProtocolError("this target keeps no items", path=block.at, hint=SEND_ALL)
    return request


def check_vendor_extras(extras: Mapping[str, object]) -> None:
    """Raise if a request has a field that only its vendor's servers support and that changes its meaning.

    `extras`: the fields of the request, or those of them that the hub does not know. For targets of another
    dialect, and for programs that use a vendor's dialect without its servers.
    """
    for name, hint in REFUSED_EXTRAS.items():
        value = extras.get(name)
        complete = COMPLETE_TYPES.get(name)
        is_complete = complete is not None and isinstance(value, dict) and value.get("type") == complete
        if value not in (None, False) and not is_complete:
            raise ClientProtocolError("this target does not support it", path=name, hint=hint)


def fit_account(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """The end user, metadata, storage and the service tier."""
    request = _fit_service_tier(request, target, losses)
    if not is_foreign(request, target):
        return request
    changes: dict[str, object] = {}
    if len(request.user) > USER_LIMIT:
        changes["user"] = "user_" + digest(request.user)
    if request.metadata is not None:
        if any(value is not None for value in request.metadata.values()):
            losses.add(request.path_of("metadata"), "metadata stays with the client's own vendor")
        changes["metadata"] = None
    if request.store is not None:
        if request.store:
            losses.add(request.path_of("store"), "the target does not store replies")
        changes["store"] = None
    if not INCLUDED_ANYWAY.issuperset(request.include):
        losses.add(request.path_of("include"), "the target's replies cannot include it")
        changes["include"] = tuple(name for name in request.include if name in INCLUDED_ANYWAY)
    return replace(request, **changes) if changes else request


def _fit_service_tier(request: Request, target: TargetFacts, losses: Losses) -> Request:
    tier = request.service_tier
    if not tier or target.service_tiers is None or tier in target.service_tiers:
        return request
    names = next((names for names in TIERS if tier in names), frozenset())
    known = sorted(names & target.service_tiers)
    if not known and tier != "auto":
        losses.add(request.path_of("service_tier"), f"the target has no tier {tier!r}")
    return replace(request, service_tier=known[0] if known else "")


def report_request_extras(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Report the extras of the settings. Changes nothing."""
    if not is_foreign(request, target):
        return request
    report_extras("", request.extras, losses, frozenset())
    for name in ("tool_choice", "reasoning", "output"):
        part = getattr(request, name)
        if part is not None and part.extras:
            report_extras(request.path_of(name), part.extras, losses, BOOKKEEPING | {"tools"})
    return request


def report_tool_extras(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Report the extras of the tools. Changes nothing."""
    if is_foreign(request, target):
        for tool in request.tools:
            _report_tool(tool, losses)
    return request


def report_message_extras(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Report the extras and citations of the conversation. Changes nothing."""
    if not is_foreign(request, target):
        return request
    for message in request.messages:
        if message.extras:
            report_extras(message.at, message.extras, losses)
        _report_blocks(message.blocks, losses)
    return request


def _report_blocks(blocks: tuple[AnyBlock, ...], losses: Losses) -> None:
    for block in blocks:
        if block.extras:
            report_extras(block.at, block.extras, losses)
        if type(block) is Text:
            if block.citations:
                losses.add(block.at, _CITED)
        elif type(block) is ToolResult:
            _report_blocks(block.content, losses)
        elif type(block) is ToolDeclarations:
            for tool in block.tools:
                _report_tool(tool, losses)


def _report_tool(tool: Tool, losses: Losses) -> None:
    # The settings of a vendor's own tool matter only if the target has an equal tool (`tools`).
    if tool.extras and tool.kind not in ("hosted", "typed"):
        report_extras(tool.at, tool.extras, losses)
    group = tool.extras.get(GROUP)
    if isinstance(group, dict) and group.get("description"):
        losses.add(f"{tool.at.rpartition('.')[0]}.description", "no other dialect describes groups of tools")


def report_extras(
    at: str, extras: Mapping[str, object], losses: Losses, ignored: frozenset[str] = BOOKKEEPING
) -> None:
    """Add a loss for each extra that is not ignored and does not just repeat a default."""
    for name, value in extras.items():
        if name in ignored or name.startswith(PRIVATE) or value in (None, False, "", [], {}):
            continue
        path = f"{at}.{name}" if at else name
        if name in OPENED and isinstance(value, dict):
            report_extras(path, value, losses, ignored)
        elif value not in DEFAULTS.get(name.rpartition(".")[2], ()):
            losses.add(path, _CITED if name == "annotations" else _NO_EQUIVALENT)
