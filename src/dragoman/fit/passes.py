"""The passes that make a request legal for its target, in their order, and the scope of each."""

from collections.abc import Callable
from enum import Enum
from functools import lru_cache

import msgspec

from dragoman.fit.caching import fit_caching
from dragoman.fit.choice import fit_choice
from dragoman.fit.content import fit_content, fit_media, mark_errors, move_media_from_results
from dragoman.fit.editing import replace
from dragoman.fit.generation import fit_max_tokens, fit_sampling, refuse_candidates
from dragoman.fit.history import fit_history, remove_empty
from dragoman.fit.ids import fit_ids
from dragoman.fit.messages import (
    begin_with_user,
    fit_last_message,
    fit_system,
    join_leading_messages,
    merge_messages,
)
from dragoman.fit.names import fit_names
from dragoman.fit.reasoning import add_blank_reasoning, fit_calls_without_reasoning, fit_reasoning
from dragoman.fit.schemas import fit_output, fit_schemas
from dragoman.fit.seals import fit_seals
from dragoman.fit.stops import fit_stops
from dragoman.fit.tools import fit_calls, fit_references, fit_tools, move_declarations
from dragoman.fit.vendor_fields import (
    fit_account,
    refuse_stored_items,
    refuse_stored_state,
    report_message_extras,
    report_request_extras,
    report_tool_extras,
)
from dragoman.hub.blocks import (
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Refusal,
    ToolCall,
    ToolDeclarations,
    ToolReference,
    ToolResult,
)
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request, find_block_kinds
from dragoman.providers.profile import TargetFacts


class Scope(Enum):
    """Which parts of a request a pass reads and changes, besides the facts and the settings.

    The settings are all fields of a `Request` but `messages` and `tools`. The scope decides what can be
    reused when a conversation grows: the result of a `MESSAGE` pass for one message never depends on another
    message.
    """

    #: Nothing else.
    SETTINGS = "settings"
    #: The tools.
    TOOLS = "tools"
    #: Each message by itself; one message may become several or none. Settings and tools stay as they are.
    MESSAGE = "message"
    #: The messages in relation to each other. Tools stay as they are.
    MESSAGES = "messages"
    #: Tools and messages in relation to each other.
    REQUEST = "request"


class Pass(msgspec.Struct, frozen=True):
    """One pass of `fit`. `apply` returns its argument if there is nothing to change.

    `kinds`: the kinds of blocks that the pass is about. It changes nothing in a request that has none of
    them, and no pass before it adds one: so the client's messages tell whether it is needed. Empty: it
    is always needed.
    """

    name: str
    apply: Callable[[Request, TargetFacts, Losses], Request]
    scope: Scope
    kinds: frozenset[type] = frozenset()


def set_model(request: Request, target: TargetFacts, losses: Losses) -> Request:
    return replace(request, model=target.model) if target.model not in ("", request.model) else request


PASSES: tuple[Pass, ...] = (
    # Refusals come first: no work for a request that cannot be sent. Extras next, before anything changes.
    Pass("stored state", refuse_stored_state, Scope.SETTINGS),
    Pass("stored items", refuse_stored_items, Scope.MESSAGE, frozenset({Opaque})),
    Pass("candidates", refuse_candidates, Scope.SETTINGS),
    Pass("extras of the request", report_request_extras, Scope.SETTINGS),
    Pass("extras of the tools", report_tool_extras, Scope.TOOLS),
    Pass("extras of the messages", report_message_extras, Scope.MESSAGE),
    # Names need the namespaces and kinds that `tools` and `calls` remove; declarations that become text need
    # the names; schemas need the functions that `tools` makes.
    Pass("names", fit_names, Scope.REQUEST),
    Pass("declarations", move_declarations, Scope.REQUEST, frozenset({ToolDeclarations})),
    Pass("tools", fit_tools, Scope.REQUEST),
    Pass("calls", fit_calls, Scope.MESSAGE, frozenset({ToolCall, ToolResult})),
    Pass("references", fit_references, Scope.MESSAGE, frozenset({ToolReference})),
    Pass("schemas", fit_schemas, Scope.TOOLS),
    # Blocks that the target knows, in messages that it knows. Each of these can leave texts and messages
    # empty.
    Pass("seals", fit_seals, Scope.MESSAGES),
    Pass("content", fit_content, Scope.MESSAGE, frozenset({HostedCall, HostedResult, Opaque, Refusal})),
    Pass("errors of results", mark_errors, Scope.MESSAGE, frozenset({ToolResult})),
    Pass("media", fit_media, Scope.MESSAGE, frozenset({Media})),
    Pass("system", fit_system, Scope.MESSAGES),
    Pass("empty messages", remove_empty, Scope.MESSAGES),
    # Calls next to results; then ids, which need to know which result belongs to which call; then media out
    # of results, labelled with those ids.
    Pass("history", fit_history, Scope.MESSAGES),
    Pass("ids", fit_ids, Scope.MESSAGES),
    Pass("media of results", move_media_from_results, Scope.MESSAGE, frozenset({Media})),
    # The order of messages comes after every pass that adds or moves one.
    Pass("output", fit_output, Scope.MESSAGES),
    Pass("leading messages", join_leading_messages, Scope.MESSAGES),
    Pass("last message", fit_last_message, Scope.MESSAGES),
    Pass("alternation", merge_messages, Scope.MESSAGES),
    Pass("first message", begin_with_user, Scope.MESSAGES),
    Pass("blank reasoning", add_blank_reasoning, Scope.MESSAGE),
    # The token cap comes before reasoning, which must fit below it. Choice and sampling depend on reasoning.
    Pass("token cap", fit_max_tokens, Scope.SETTINGS),
    Pass("reasoning", fit_reasoning, Scope.SETTINGS),
    Pass("calls without reasoning", fit_calls_without_reasoning, Scope.MESSAGES),
    Pass("tool choice", fit_choice, Scope.REQUEST),
    Pass("sampling", fit_sampling, Scope.SETTINGS),
    Pass("stop sequences", fit_stops, Scope.SETTINGS),
    Pass("account", fit_account, Scope.SETTINGS),
    # Cache marks need the final order of blocks.
    Pass("caching", fit_caching, Scope.REQUEST),
    Pass("model", set_model, Scope.SETTINGS),
)


def list_needed_passes(messages: tuple[Message, ...]) -> tuple[Pass, ...]:
    """The passes that a request with these messages needs, in their order."""
    return _select_passes(frozenset(find_block_kinds(messages)))


@lru_cache(maxsize=1024)
def _select_passes(kinds: frozenset[type]) -> tuple[Pass, ...]:
    """The passes for messages with these kinds of blocks."""
    return tuple(each for each in PASSES if not each.kinds or not each.kinds.isdisjoint(kinds))


def fit(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Make a request legal for the target; the same object if there is nothing to change.

    What cannot be sent as the client sent it is added to `losses`, with its path in the client's JSON.
    """
    for each in list_needed_passes(request.messages):
        request = each.apply(request, target, losses)
    return request
