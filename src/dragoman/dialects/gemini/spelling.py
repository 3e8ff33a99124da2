"""Converts field names between snake_case and camelCase, because protobuf accepts both for every name.

Readers see only camelCase. Each renamed field is recorded as a path in the original converter, so that a
request of this dialect can be written exactly as it was received. Names that the client chose (arguments,
schemas, labels) do not change, because these functions are never called on them.
"""

import re

from dragoman.dialects.base import Json
from dragoman.wire.fields import Fields

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
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


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
        *steps, last = [name or int(index) for name, index in _STEP.findall(path)]
        place: object = body
        for step in steps:
            if isinstance(place, dict) and isinstance(step, str):
                place = place.get(step)
            elif isinstance(place, list) and isinstance(step, int) and step < len(place):
                place = place[step]
            else:
                place = None
        if isinstance(place, dict) and isinstance(last, str) and CAMEL.get(last) in place:
            place[last] = place.pop(CAMEL[last])
