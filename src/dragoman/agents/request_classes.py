"""Why an agent sends a request: for the user's work, or for a chore of its own such as a title.

`classify` compares a request with the rows of `SIGNS`. Every row describes requests of the agent that it
names. The first row that fits wins, so a row with a narrow sign stands above one with a wide sign.
"""

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from dragoman.agents.identity import ClientIdentity
from dragoman.agents.instructions import Instructions, find_last_user_text
from dragoman.hub.request import Request, list_declared_tools

#: `turn`: the user's work. `background`: any other work of the agent's own. `quota` and `warmup` are probes
#: whose answer the agent does not read.
RequestClass = Literal["turn", "background", "title", "quota", "warmup", "compaction"]
REQUEST_CLASSES: tuple[RequestClass, ...] = (
    "turn",
    "background",
    "title",
    "quota",
    "warmup",
    "compaction",
)


#: Characters of a prompt before the words that are its sign.
MAX_BEGINNING = 400


class ClassSign(msgspec.Struct, frozen=True, kw_only=True):
    """What all requests of one class have in common. Every field that is set must hold."""

    name: RequestClass
    #: The name of the agent in `AGENTS`.
    agent: str
    #: A header, and a pattern that is found in its value.
    header: str = ""
    value: re.Pattern[str] | None = None
    #: A pattern that is found in the model's name.
    model: re.Pattern[str] | None = None
    #: The whole last text of the user.
    prompt: str = ""
    #: Words at the beginning of the user's last text, before `MAX_BEGINNING` other characters have come.
    beginning: str = ""
    #: Words in the system text, of which one is there.
    instructions: tuple[str, ...] = ()
    #: Whether the request declares tools.
    has_tools: bool | None = None
    #: The limit of the answer, in tokens.
    max_tokens: int | None = None
    #: A property of the JSON schema that the answer must match.
    output_property: str = ""

    @property
    def needs_body(self) -> bool:
        """Whether a field needs the request's body, not only headers and model name."""
        texts = (self.prompt, self.beginning, self.instructions, self.output_property)
        return any(texts) or self.has_tools is not None or self.max_tokens is not None


SIGNS: tuple[ClassSign, ...] = (
    # Claude Code asks for one token to learn the limits of the account.
    ClassSign(name="quota", agent="claude-code", prompt="quota", max_tokens=1),
    # Older versions of Claude Code send it for each sub-agent at the start, to fill the prompt cache.
    ClassSign(name="warmup", agent="claude-code", prompt="Warmup"),
    ClassSign(name="title", agent="claude-code", has_tools=False, output_property="title"),
    ClassSign(
        name="compaction",
        agent="claude-code",
        beginning="Your task is to create a detailed summary of ",
    ),
    ClassSign(
        name="compaction",
        agent="claude-code",
        instructions=("tasked with summarizing conversations",),
    ),
    # Sent if the variable CLAUDE_CODE_GATEWAY_HINT_HEADERS is set.
    ClassSign(
        name="background",
        agent="claude-code",
        header="x-claude-code-request-class",
        value=re.compile("auxiliary"),
    ),
    # The small model, which Claude Code asks for its own chores.
    ClassSign(name="background", agent="claude-code", model=re.compile("haiku")),
    ClassSign(
        name="compaction",
        agent="codex",
        header="x-codex-turn-metadata",
        value=re.compile(r'"request_kind"\s*:\s*"compaction"'),
    ),
    ClassSign(
        name="warmup",
        agent="codex",
        header="x-codex-turn-metadata",
        value=re.compile(r'"request_kind"\s*:\s*"(?:prewarm|warmup)"'),
    ),
    # With the model `auto`, Gemini CLI asks a small model which model shall answer.
    ClassSign(name="background", agent="gemini-cli", has_tools=False, output_property="model_choice"),
    ClassSign(name="background", agent="gemini-cli", has_tools=False, output_property="complexity_score"),
    ClassSign(name="background", agent="gemini-cli", has_tools=False, output_property="next_speaker"),
    ClassSign(
        name="compaction",
        agent="gemini-cli",
        has_tools=False,
        instructions=("<state_snapshot>",),
    ),
    ClassSign(name="title", agent="opencode", instructions=("You are a title generator",)),
    ClassSign(
        name="compaction",
        agent="opencode",
        instructions=("tasked with summarizing conversations", "context summarization assistant"),
    ),
)


_SIGNS_OF_AGENT = {
    agent: tuple(sign for sign in SIGNS if sign.agent == agent)
    for agent in dict.fromkeys(sign.agent for sign in SIGNS)
}


def classify(
    identity: ClientIdentity,
    headers: Mapping[str, str],
    model: str,
    request: Request | None,
    instructions: Instructions | None,
) -> RequestClass:
    """The class of a request. `instructions` are those of the request.

    `request` is None if the body cannot be read: then only signs by header and model name can match.
    """
    for sign in _SIGNS_OF_AGENT.get(identity.agent, ()):
        if _fits(sign, headers, model, request, instructions):
            return sign.name
    return "turn"


def _fits(
    sign: ClassSign,
    headers: Mapping[str, str],
    model: str,
    request: Request | None,
    instructions: Instructions | None,
) -> bool:
    if sign.value is not None and not sign.value.search(headers.get(sign.header, "")):
        return False
    if sign.model is not None and not sign.model.search(model):
        return False
    if not sign.needs_body:
        return True
    return request is not None and instructions is not None and _fits_body(sign, request, instructions)


def _fits_body(sign: ClassSign, request: Request, instructions: Instructions) -> bool:
    """Whether the request's body matches the sign. Cheap tests come first."""
    if sign.max_tokens is not None and request.max_tokens != sign.max_tokens:
        return False
    if sign.output_property and sign.output_property not in _list_output_properties(request):
        return False
    if sign.has_tools is not None and sign.has_tools != any(list_declared_tools(request)):
        return False
    if sign.prompt or sign.beginning:
        text = find_last_user_text(request)
        end = MAX_BEGINNING + len(sign.beginning)
        if (sign.prompt and sign.prompt != text) or sign.beginning not in text[:end]:
            return False
    return not sign.instructions or instructions.contains(sign.instructions)


def _list_output_properties(request: Request) -> Mapping[str, object]:
    schema = request.output.schema if request.output else None
    properties = schema.get("properties") if schema else None
    return properties if isinstance(properties, dict) else {}
