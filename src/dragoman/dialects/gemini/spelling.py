"""Two spellings of every name: protobuf takes `generation_config` for `generationConfig`.

Readers see camelCase only. What was renamed is noted as a path in the original spelling, so that the
same dialect can be given back exactly what it sent; names of the client's own (arguments, schemas,
labels) are never touched, because nobody calls this on them.
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


def snake(name: str) -> str:
    return _HUMP.sub(r"_\1", name).lower()


CAMEL: dict[str, str] = {snake(name): name for name in NAMES}
_SNAKES = frozenset(CAMEL)


def camel(value: Json) -> Json:
    """The object with its known names in camelCase: itself if they are. Names inside stay as they are."""
    if _SNAKES.isdisjoint(value):
        return value
    # A name that is there in both spellings keeps both: the second one is unknown.
    return {
        CAMEL[key] if key in CAMEL and CAMEL[key] not in value else key: inner for key, inner in value.items()
    }


class Spelling:
    """Collects where a body was spelled in snake_case."""

    __slots__ = ("renamed",)

    def __init__(self) -> None:
        self.renamed: list[str] = []

    def canonical(self, fields: Fields) -> Fields:
        """The same fields, their known names in camelCase from now on."""
        values = fields.rest()
        if not _SNAKES.isdisjoint(values):
            for key in [key for key in values if key in CAMEL and CAMEL[key] not in values]:
                values[CAMEL[key]] = values.pop(key)
                self.renamed.append(fields.at(key))
        return fields


def respell(body: Json, paths: list[str]) -> None:
    """Give the names at these paths their snake_case back, the innermost first."""
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
