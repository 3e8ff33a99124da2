"""Builds the response object of lifecycle events and whole replies, which repeats the client's request.

Strict clients require every field, so a field that the request does not set gets its default. The fields of
the request are encoded once and reused, because three events of each stream hold them and they can be large.
"""

from collections.abc import Sequence

import msgspec

from dragoman.dialects.interfaces import ClientContext, Json
from dragoman.dialects.openai_responses.names import COMPLETED, IN_PROGRESS, NAME, get_object
from dragoman.hub.blocks import Extras
from dragoman.hub.errors import UpstreamProtocolError
from dragoman.hub.events import ReplyStarted
from dragoman.hub.ids import IdSource
from dragoman.wire.fields import encode

#: The defaults of the API.
DEFAULTS: Extras = {
    "background": False,
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "tool_choice": "auto",
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
}
#: The types of fields whose default does not show them. A value of the upstream is used only if it fits.
TYPES: dict[str, tuple[type, ...]] = {
    "instructions": (str, list),
    "max_output_tokens": (int,),
    "max_tool_calls": (int,),
    "previous_response_id": (str,),
    "prompt_cache_key": (str,),
    "reasoning": (dict,),
    "safety_identifier": (str,),
    "text": (dict,),
    "tool_choice": (str, dict),
    "tools": (list,),
}
#: Fields that may be null.
NULLABLE = frozenset(name for name, default in DEFAULTS.items() if default is None) | {"reasoning"}

#: Fields that are repeated only if the client sent them.
OPTIONAL = ("conversation", "prompt", "prompt_cache_options", "prompt_cache_retention", "user")

#: Fields that the stream decides, with their values before any output.
LIVE: Extras = {
    "id": "",
    "object": "response",
    "created_at": 0,
    "model": None,
    "status": IN_PROGRESS,
    "completed_at": None,
    "error": None,
    "incomplete_details": None,
    "usage": None,
    "output": [],
}


def _complete_tool(tool: object) -> object:
    """A declared tool with the fields that clients expect in a response."""
    if not isinstance(tool, dict):
        return tool
    if tool.get("type") == "function":
        return {"description": None, "parameters": None, "strict": None, **tool}
    members = tool.get("tools")
    if tool.get("type") == "namespace" and isinstance(members, list):
        return {**tool, "tools": [_complete_tool(member) for member in members]}
    return tool


def repeat_request(body: Json) -> Extras:
    """The fields of a response that repeat its request."""
    fields: Extras = {
        name: default if body.get(name) is None else body[name] for name, default in DEFAULTS.items()
    }
    fields |= {name: body[name] for name in OPTIONAL if body.get(name) is not None}
    tools = body.get("tools")
    fields["tools"] = [_complete_tool(tool) for tool in tools] if isinstance(tools, list) else []
    fields["text"] = {"format": {"type": "text"}, **get_object(body, "text")}
    fields["reasoning"] = {"effort": None, "summary": None, **get_object(body, "reasoning")}
    return fields


def build_started_response(body: Json, response_id: str, created: int, status: str) -> Extras:
    """The response to a request before any output."""
    head = {"id": response_id, "created_at": created, "model": body.get("model"), "status": status}
    return {**LIVE, **head, **repeat_request(body)}


def is_valid(name: str, value: object) -> bool:
    """Whether clients accept this value of a field. Any value of an unknown field is valid."""
    if name not in DEFAULTS and name not in TYPES:
        return True
    if value is None:
        return name in NULLABLE
    types = TYPES.get(name) or (type(DEFAULTS[name]),)
    return type(value) in types or (float in types and type(value) is int)


class ResponseObject:
    """Writes the response of one stream at each lifecycle event."""

    def __init__(self, context: ClientContext, started: ReplyStarted, ids: IdSource) -> None:
        self._same_dialect = context.upstream == NAME
        times = (
            (started.created, context.created) if self._same_dialect else (context.created, started.created)
        )
        response_id = started.id if self._same_dialect else ""
        self._head: Extras = {
            "id": response_id or ids.adopt("resp_", started.id),
            "object": "response",
            "created_at": times[0] or times[1],
            "model": context.model or started.model,
        }
        self._echo = repeat_request(context.body)
        if self._same_dialect:
            self._echo |= _select_valid(started.extras)
        members = {name: msgspec.Raw(value) for name, value in context.reply_members.items()}
        self._head |= {name: members.pop(name) for name in tuple(members) if name in LIVE}
        self._decided: Extras = dict(members)
        self._echo |= self._decided
        self._written = encode(self._echo, error_class=UpstreamProtocolError)

    def render(
        self,
        status: str,
        *,
        output: Sequence[bytes] = (),
        usage: Extras | None = None,
        error: Extras | None = None,
        reason: str = "",
        extras: Extras | None = None,
    ) -> bytes:
        """The response as JSON. `extras`: the fields of an upstream of this dialect at the end."""
        late = extras if extras and self._same_dialect else {}
        details = {**get_object(late, "incomplete_details"), "reason": reason} if reason else None
        completed_at = self._head["created_at"] if status == COMPLETED and not self._same_dialect else None
        completed_at = late.get("completed_at", completed_at)
        live: Extras = {
            **self._head,
            "status": status,
            "completed_at": completed_at if type(completed_at) in (int, float) else None,
            "error": error,
            "incomplete_details": details,
            "usage": usage,
        }
        written = self._written
        if late:
            written = encode(
                {**self._echo, **_select_valid(late), **self._decided}, error_class=UpstreamProtocolError
            )
        head, items = encode(live, error_class=UpstreamProtocolError)[:-1], b",".join(output)
        return b'%b,"output":[%b],%b' % (head, items, written[1:])


def _select_valid(extras: Extras) -> Extras:
    """The fields from an upstream of this dialect that clients accept."""
    return {name: value for name, value in extras.items() if name not in LIVE and is_valid(name, value)}
