"""Turns of an assistant as published chat templates write them: what a model of that template has to emit.

The templates come from a package that `make clients` downloads (requirements/templates.txt). `published.toml`
names the family that reads each of them.
"""

import json
import tomllib
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import SandboxedEnvironment

from dragoman.governance.harvest import families
from dragoman.governance.tool_names import DeclaredTool

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[2] / ".clients" / "templates"
TEXT = "I look."
THOUGHT = "Hm."
#: The tool of the calls. Some templates do not end for a schema with several types in one place.
SEARCH = DeclaredTool(
    "search",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to find."},
            "limit": {"type": "integer"},
            "exact": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "filter": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}},
            },
        },
        "required": ["query"],
    },
)
#: Tokens that end a turn. A server stops at them and does not deliver them.
ENDS = (
    *(
        "<|im_end|>",
        "<eos>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end_of_text|>",
        "<|end|>",
        "<turn|>",
        "</assistant>",
    ),
    *(
        "<seed:eos>",
        "<end_of_sentence>",
        "<\uff5cend▁of▁sentence\uff5c>",
        "<SPECIAL_12>",
        "<sep>",
        "[e~[",
        "<|call|>",
    ),
    *(
        "<|message_sep|>",
        "<|role_end|>",
        "<\uff5chy_eos:opensource\uff5c>",
        "<|tool_response>",
        "<|END_OF_TURN_TOKEN|>",
    ),
    *("<|close|>message<|sep|>", "<|end_of_msg|>"),
    # The beginning of the next turn, which two templates write behind every message.
    *(
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|><|END_THINKING|>",
        "<\uff5cAssistant\uff5c>",
    ),
)


class PublishedTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """One row of `published.toml`, which describes the fields."""

    file: str
    family: str
    options: dict[str, Any] = {}
    is_single: bool = msgspec.field(name="single", default=False)
    is_textless: bool = msgspec.field(name="textless", default=False)
    is_unescaped: bool = msgspec.field(name="unescaped", default=False)
    is_thoughtless: bool = msgspec.field(name="thoughtless", default=False)

    def __str__(self) -> str:
        return f"{self.file} ({self.family})"

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts to write before the calls."""
        return ("",) if self.is_textless else (TEXT, "")

    @property
    def thoughts(self) -> tuple[str, ...]:
        """The thoughts to begin with: always one where the prompt opens the reasoning."""
        if self.is_thoughtless:
            return ("",)
        begins_inside = any(tags.in_prompt for tags in families()[self.family].reasoning)
        return (THOUGHT,) if begins_inside else (THOUGHT, "")


class GenerationTag(Extension):
    """`{% generation %}`, which marks the assistant's text for training and writes nothing itself."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it without ClassVar)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _write_json(value: object, indent: int | None = None, **settings: Any) -> str:
    """The filter `tojson` of chat templates, which escapes nothing for HTML."""
    return json.dumps(value, indent=indent, **{"ensure_ascii": False, **settings})


@cache
def _environment() -> SandboxedEnvironment:
    """An environment with the functions that chat templates are written for."""
    extensions: list[str | type[Extension]] = ["jinja2.ext.loopcontrols", GenerationTag]
    environment = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    environment.filters |= {"tojson": _write_json, "from_json": json.loads}
    environment.globals |= {"raise_exception": _raise_exception, "strftime_now": lambda _: "2026-11-16"}
    return environment


@cache
def published_templates() -> tuple[PublishedTemplate, ...]:
    rows = tomllib.loads((HERE / "published.toml").read_text(encoding="utf-8"))
    return msgspec.convert(rows["templates"], tuple[PublishedTemplate, ...])


def write_turn(
    template: PublishedTemplate, calls: list[dict[str, object]], *, text: str = "", thought: str = ""
) -> str:
    """What a model emits behind the template's prompt: a thought, a text and calls of `search`."""
    prompt = _render(template, [], add_generation_prompt=True)
    message: dict[str, object] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = _write_calls(calls)
    if thought:
        # Templates disagree about the name of this member.
        message |= {"reasoning_content": thought, "reasoning": thought, "thinking": thought}
    whole = _render(template, [message], add_generation_prompt=False)
    return _strip_ends(whole[_find_beginning(prompt, whole) :])


def write_call(template: PublishedTemplate) -> str:
    """One call as the template writes it, without what stands before it in its turn."""
    turn = write_turn(template, [{"query": "ls -la"}], text=template.texts[0], thought=template.thoughts[0])
    # `auto` reads the markers of messages, which may hold calls; the other frames never do.
    openers = [each for each in families()[template.family].openers if each.auto or not each.frames]
    rest = turn.rpartition(TEXT)[2].rpartition(THOUGHT)[2]
    return rest[min(rest.find(opener.marker) for opener in openers if opener.marker in rest) :]


def _find_beginning(prompt: str, whole: str) -> int:
    """Where the model's own text begins: behind the prompt, as far as the turn repeats it in whole tags."""
    equal = takewhile(lambda pair: pair[0] == pair[1], zip(prompt, whole, strict=False))
    shared = prompt[: sum(1 for _ in equal)]
    is_inside_tag = len(shared) < len(prompt) and shared.rfind("<") > shared.rfind(">")
    return shared.rfind("<") if is_inside_tag else len(shared)


def _render(
    template: PublishedTemplate, messages: list[dict[str, object]], *, add_generation_prompt: bool
) -> str:
    path = FOLDER / f"{template.file}.jinja"
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: run `make clients`")
    rendered: str = _compile(path).render(
        messages=[{"role": "user", "content": "Find it."}, *messages],
        tools=[_describe_search()],
        add_generation_prompt=add_generation_prompt,
        bos_token="<bos>",
        eos_token="<eos>",
        **template.options,
    )
    return rendered


@cache
def _compile(path: Path) -> Any:
    return _environment().from_string(path.read_text(encoding="utf-8"))


def _describe_search() -> dict[str, object]:
    function = {"name": SEARCH.name, "description": "Searches files.", "parameters": SEARCH.schema}
    return {"type": "function", "function": function}


def _write_calls(calls: list[dict[str, object]]) -> list[dict[str, object]]:
    return [
        {
            "id": f"call0000{number}",
            "type": "function",
            "function": {"name": "search", "arguments": arguments},
        }
        for number, arguments in enumerate(calls)
    ]


def _strip_ends(text: str) -> str:
    while True:
        stripped = text.rstrip()
        for end in ENDS:
            stripped = stripped.removesuffix(end)
        if stripped == text:
            return text
        text = stripped
