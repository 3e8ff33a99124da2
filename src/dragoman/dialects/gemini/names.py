"""The names of the API, and the flags that record how a request was written.

Protobuf accepts snake_case and camelCase for every name. Readers see only camelCase. Each renamed field is
recorded as a path in the original converter, so that a request of this dialect can be written exactly as it
was received. Names that the client chose (arguments, schemas, labels) do not change, because these functions
are never called on them.

The form of a block or message is a list of flags separated by spaces, such as `no-id output`. The form of a
request, a tool or an output format is the JSON of a struct of this module.
"""

import re

import msgspec

from dragoman.dialects.interfaces import Json
from dragoman.wire.fields import Fields

NAME = "gemini"

NAMES = (
    "allowedFunctionNames",
    "blockReason",
    "boolValue",
    "cachedContent",
    "cachedContentTokenCount",
    "candidateCount",
    "candidatesTokenCount",
    "citationMetadata",
    "codeExecution",
    "codeExecutionResult",
    "computerUse",
    "createTime",
    "displayName",
    "enterpriseWebSearch",
    "executableCode",
    "fileData",
    "fileSearch",
    "fileUri",
    "finishMessage",
    "finishReason",
    "frequencyPenalty",
    "functionCall",
    "functionCallingConfig",
    "functionDeclarations",
    "functionResponse",
    "generationConfig",
    "googleMaps",
    "googleSearch",
    "googleSearchRetrieval",
    "groundingMetadata",
    "includeThoughts",
    "inlineData",
    "jsonPath",
    "logprobsResult",
    "maxOutputTokens",
    "mcpServers",
    "mimeType",
    "modelVersion",
    "nullValue",
    "numberValue",
    "parametersJsonSchema",
    "partialArgs",
    "presencePenalty",
    "promptFeedback",
    "promptTokenCount",
    "responseId",
    "responseJsonSchema",
    "responseLogprobs",
    "responseMimeType",
    "responseSchema",
    "safetySettings",
    "serviceTier",
    "stopSequences",
    "stringValue",
    "systemInstruction",
    "thinkingBudget",
    "thinkingConfig",
    "thinkingLevel",
    "thoughtSignature",
    "thoughtsTokenCount",
    "toolCall",
    "toolConfig",
    "toolResponse",
    "toolUsePromptTokenCount",
    "topK",
    "topP",
    "totalTokenCount",
    "urlContext",
    "usageMetadata",
    "willContinue",
)

_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")
_SEGMENT = re.compile(r"([^.\[\]]+)|\[(\d+)\]")

#: Flags of messages: `top` is the system instruction; the others name what `contents` held instead of a
#: content.
TOP = "top"
TEXT_ONLY = "text"
BARE_PART = "bare"
ONE_PART = "one-part"
TEXT_PART = "text-part"
NO_PARTS = "no-parts"
EMPTY_PARTS = "empty-parts"
NO_ROLE = "no-role"
ROLE = "role="

#: Flags of parts: a string instead of an object; a thought without text; a signature that is a sentinel.
STRING = "string"
THOUGHT = "thought"
SIGNATURE = "signature="
#: The call's signature was an envelope of this gateway, so Gemini never saw the call.
UNWRAPPED = "unwrapped"

#: Flags in a block's `form`: the fields that the part did not have.
NO_ID = "no-id"
NO_ARGUMENTS = "no-args"


def to_snake(name: str) -> str:
    return _HUMP.sub(r"_\1", name).lower()


CAMEL: dict[str, str] = {to_snake(name): name for name in NAMES}
_SNAKES = frozenset(CAMEL)


def to_camel(value: Json) -> Json:
    """The object with its known names in camelCase; the same object if nothing changes. Not recursive."""
    if _SNAKES.isdisjoint(value):
        return value
    # If both spellings are present, both stay: the one in snake_case is then an unknown field.
    return {
        CAMEL[key] if key in CAMEL and CAMEL[key] not in value else key: inner for key, inner in value.items()
    }


class NameConverter:
    """Converts the names of one body to camelCase and records the paths of those in snake_case."""

    __slots__ = ("renamed",)

    def __init__(self) -> None:
        self.renamed: list[str] = []

    def convert(self, fields: Fields) -> Fields:
        """Convert the known names of an object to camelCase in place."""
        values = fields.rest()
        if not _SNAKES.isdisjoint(values):
            for key in [key for key in values if key in CAMEL and CAMEL[key] not in values]:
                values[CAMEL[key]] = values.pop(key)
                self.renamed.append(fields.at(key))
        return fields


def restore_snake_names(body: Json, paths: list[str]) -> None:
    """Restore the snake_case of the names at these paths, the innermost first."""
    for path in reversed(paths):
        *segments, last = [name or int(index) for name, index in _SEGMENT.findall(path)]
        place: object = body
        for segment in segments:
            if isinstance(place, dict) and isinstance(segment, str):
                place = place.get(segment)
            elif isinstance(place, list) and isinstance(segment, int) and segment < len(place):
                place = place[segment]
            else:
                place = None
        if isinstance(place, dict) and isinstance(last, str) and CAMEL.get(last) in place:
            place[last] = place.pop(CAMEL[last])


class RequestForm(msgspec.Struct, omit_defaults=True):
    """The form of a request, as JSON: how the client wrote what the hub keeps in one way."""

    #: `text` or `object`: what `contents` held instead of a list.
    contents: str = ""
    #: Paths of the names that were in snake_case.
    renamed: list[str] = []
    #: Entries of `tools` that declared nothing, by their index.
    empty_tools: dict[int, Json] = {}
    #: `generationConfig` was present but had no known field.
    empty_config: bool = False
    thinking_level: str = ""
    #: The prefix of the model's name in the body; None if the body had no model.
    model_prefix: str | None = None


class ToolForm(msgspec.Struct, omit_defaults=True):
    """The form of a tool, as JSON."""

    #: The index of its entry in `tools`.
    group: int = 0
    #: The field that held the schema, and the original schema if it cannot be written from the hub's.
    field: str = ""
    original: Json | None = None


class OutputForm(msgspec.Struct, omit_defaults=True):
    """The form of the output format, as JSON: the field of its schema, and the original schema."""

    field: str = ""
    original: Json | None = None
    media_type: bool = False


def write_form(form: RequestForm | ToolForm | OutputForm) -> str:
    return msgspec.json.encode(form).decode()


def read_request_form(form: str) -> RequestForm:
    return msgspec.json.decode(form, type=RequestForm) if form else RequestForm()


def read_tool_form(form: str) -> ToolForm:
    return msgspec.json.decode(form, type=ToolForm) if form else ToolForm()


def read_output_form(form: str) -> OutputForm:
    return msgspec.json.decode(form, type=OutputForm) if form else OutputForm(media_type=True)


def find_flag(form: str, prefix: str) -> str | None:
    """The rest of the first flag in `form` that begins with `prefix`, such as `role=`; None without one."""
    for flag in form.split(" "):
        if flag.startswith(prefix):
            return flag[len(prefix) :]
    return None


def prefix_names(name: str, left: Json) -> Json:
    """The remaining fields of an inner object, each under its path in the client's body."""
    return {f"{name}.{key}": value for key, value in left.items()}


def extract_below(name: str, extras: Json) -> Json:
    """The fields of an inner object, from the paths that `prefix_names` made."""
    return {
        key.removeprefix(f"{name}."): value for key, value in extras.items() if key.startswith(f"{name}.")
    }
