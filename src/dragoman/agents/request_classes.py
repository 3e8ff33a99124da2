"""Why an agent sends a request: for the user's work, or for a chore of its own such as a title.

`classify` compares a request with the rows of `SIGNS`. Every row describes requests of the agent that it
names. The first row that fits wins, so a row with a narrow sign stands above one with a wide sign.
"""

import re
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from dragoman.agents.identity import ClientIdentity
from dragoman.agents.instructions import Instructions
from dragoman.hub.request import OutputFormat

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
    def texts(self) -> tuple[str, ...]:
        """Texts of which one is in each body with the sign, outside the settings; empty if there are none."""
        text = self.prompt or self.beginning
        return (text,) if text else self.instructions


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


def _needs_body(sign: ClassSign) -> bool:
    """Whether a field needs the request's body, not only headers and model name."""
    texts = (sign.prompt, sign.beginning, sign.instructions, sign.output_property)
    return any(texts) or sign.has_tools is not None or sign.max_tokens is not None


#: The signs of each agent, and whether they need the body.
_SIGNS_OF_AGENT = {
    agent: tuple((sign, _needs_body(sign)) for sign in SIGNS if sign.agent == agent)
    for agent in dict.fromkeys(sign.agent for sign in SIGNS)
}


class ClassifiedBody(msgspec.Struct, frozen=True):
    """The parts of a request's body that a `ClassSign` can require."""

    max_tokens: int | None
    output: OutputFormat | None
    has_tools: bool
    #: The last text of the user.
    last_text: str
    instructions: Instructions

    def matches(self, sign: ClassSign) -> bool:
        """Whether the body has everything that the sign requires of it. Cheap tests come first."""
        if sign.max_tokens is not None and self.max_tokens != sign.max_tokens:
            return False
        if sign.has_tools is not None and sign.has_tools is not self.has_tools:
            return False
        if sign.prompt and sign.prompt != self.last_text:
            return False
        if sign.output_property and sign.output_property not in self._list_output_properties():
            return False
        if sign.beginning and sign.beginning not in self.last_text[: MAX_BEGINNING + len(sign.beginning)]:
            return False
        return not sign.instructions or self.instructions.contains(sign.instructions)

    def _list_output_properties(self) -> Mapping[str, object]:
        schema = self.output.schema if self.output else None
        properties = schema.get("properties") if schema else None
        return properties if isinstance(properties, dict) else {}


def classify(
    identity: ClientIdentity,
    headers: Mapping[str, str],
    model: str,
    may_match: Callable[[ClassSign], bool],
    read_body: Callable[[], ClassifiedBody | None],
) -> RequestClass:
    """The class of a request.

    `may_match` tells whether the body may have a sign, so that it is read only then. `read_body` returns None
    if the body cannot be read: then only signs by header and model name can match.
    """
    for sign, needs_body in _SIGNS_OF_AGENT.get(identity.agent, ()):
        if sign.value is not None and not sign.value.search(headers.get(sign.header, "")):
            continue
        if sign.model is not None and not sign.model.search(model):
            continue
        if not needs_body or (may_match(sign) and (body := read_body()) is not None and body.matches(sign)):
            return sign.name
    return "turn"
