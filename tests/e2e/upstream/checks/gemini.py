"""What Gemini's generateContent refuses, in its own words, for models that check thought signatures.

Field names may be written in camel or snake case, as protocol buffers allow.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from tests.e2e.upstream.checks.rules import Checked, Json, Refused, Result, is_base64, need, only, words
from tests.e2e.upstream.vault import Vault

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
FIELDS = words(
    "contents systemInstruction tools toolConfig generationConfig safetySettings cachedContent labels "
    "model serviceTier store"
)
GENERATION = words(
    "temperature topP topK candidateCount maxOutputTokens stopSequences responseMimeType responseSchema "
    "responseJsonSchema responseModalities seed presencePenalty frequencyPenalty responseLogprobs "
    "logprobs thinkingConfig mediaResolution"
)
SCHEMA_WORDS = words(
    "type format title description nullable enum items minItems maxItems properties required "
    "propertyOrdering anyOf minimum maximum minLength maxLength pattern default example minProperties "
    "maxProperties"
)
TYPES = {"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"}
DATA = words("text inlineData fileData functionCall functionResponse executableCode codeExecutionResult")
MODIFIERS = {"thought", "thoughtSignature", "videoMetadata", "mediaResolution"}
TOOLS = {"functionDeclarations", "googleSearch", "urlContext", "codeExecution"}
UNKNOWN = 'Invalid JSON payload received. Unknown name "{}"{}: Cannot find field.'
SENTINEL = "skip_thought_signature_validator"


def check(body: Json, headers: Mapping[str, str], vault: Vault) -> Checked:
    del headers
    body = _camel(body)
    _fields(body, FIELDS, "")
    need(body.get("contents"), "* GenerateContentRequest.contents: contents is not specified")
    _generation(_camel(body.get("generationConfig") or {}))
    functions = [name for tool in body.get("tools") or [] for name in _tool(_camel(tool))]
    need(len(set(functions)) == len(functions), "Duplicate function declaration found")
    mode = _camel(_camel(body.get("toolConfig") or {}).get("functionCallingConfig") or {})
    need(not mode or functions, "Function calling config is set without function_declarations.")
    instruction = body.get("systemInstruction")
    if isinstance(instruction, dict):
        need(instruction.get("parts"), "system_instruction.parts: must not be empty")
    walk = _Walk(vault)
    walk.contents([_camel(content) for content in body["contents"]])
    return Checked(results=walk.results, seals=walk.seals, sentinels=walk.sentinels)


def _camel(value: Json) -> Json:
    """One level of an object with its names in camel case."""
    return {
        re.sub(r"_([a-z])", lambda found: found.group(1).upper(), name): inner
        for name, inner in value.items()
    }


def _fields(value: Json, allowed: frozenset[str] | set[str], at: str) -> None:
    only(value, allowed, UNKNOWN.format("{}", f" at '{at}'" if at else ""))


def _generation(config: Json) -> None:
    _fields(config, GENERATION, "generation_config")
    need(len(config.get("stopSequences") or []) <= 5, "stop_sequences must have at most 5 elements")
    need(0 <= config.get("temperature", 1) <= 2, "temperature must be in the range [0.0, 2.0]")
    thinking = _camel(config.get("thinkingConfig") or {})
    _fields(
        thinking, {"includeThoughts", "thinkingBudget", "thinkingLevel"}, "generation_config.thinking_config"
    )
    need(
        not ("thinkingBudget" in thinking and "thinkingLevel" in thinking),
        "You can only set one of thinking budget and thinking level.",
    )
    if "thinkingLevel" in thinking:
        need(
            str(thinking["thinkingLevel"]).upper() in ("MINIMAL", "LOW", "MEDIUM", "HIGH"),
            "Invalid thinking_level",
        )
    if "responseSchema" in config:
        _schema(config["responseSchema"], "generation_config.response_schema")
    wants_json = "responseSchema" in config or "responseJsonSchema" in config
    need(
        not wants_json or config.get("responseMimeType") == "application/json",
        "response_schema is only supported with response_mime_type application/json",
    )


def _tool(tool: Json) -> Iterator[str]:
    _fields(tool, TOOLS, "tools")
    for index, raw in enumerate(tool.get("functionDeclarations") or []):
        function, at = _camel(raw), f"tools[0].function_declarations[{index}]"
        _fields(
            function,
            {"name", "description", "parameters", "parametersJsonSchema", "response", "behavior"},
            at,
        )
        name = function.get("name", "")
        need(
            NAME.fullmatch(name),
            f"{at}.name: Invalid function name. Must start with a letter or an underscore.",
        )
        need(
            not ("parameters" in function and "parametersJsonSchema" in function),
            f"{at}: only one of parameters and parameters_json_schema can be set",
        )
        if "parameters" in function:
            _schema(function["parameters"], f"{at}.parameters")
        yield name


def _schema(schema: object, at: str) -> None:
    """The subset of OpenAPI that `parameters` takes."""
    if not isinstance(schema, dict):
        raise Refused(f"Invalid value at '{at}'")
    _fields(schema, SCHEMA_WORDS, at)
    kind = str(schema.get("type", "")).upper()
    need(kind in TYPES or "anyOf" in schema, f"Invalid value at '{at}.type': \"{schema.get('type')}\"")
    if kind == "OBJECT":
        need(schema.get("properties"), f"* {at}.properties: should be non-empty for OBJECT type")
    if kind == "ARRAY":
        need("items" in schema, f"* {at}.items: missing field.")
    for value in schema.get("enum") or []:
        need(isinstance(value, str), f"Invalid value at '{at}.enum' (TYPE_STRING)")
    properties = schema.get("properties") or {}
    for name in schema.get("required") or []:
        need(name in properties, f"* {at}.required: property is not defined: {name}")
    for name, inner in properties.items():
        _schema(inner, f"{at}.properties[{name}]")
    if "items" in schema:
        _schema(schema["items"], f"{at}.items")
    for inner in schema.get("anyOf") or []:
        _schema(inner, f"{at}.any_of")


class _Walk:
    """The contents, read once: calls, their responses in order, and signatures of the current turn."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._waiting: list[Json] = []
        self.results: list[Result] = []
        self.seals = 0
        self.sentinels = 0

    def contents(self, contents: list[Json]) -> None:
        need(
            contents[0].get("role", "user") == "user", "Please ensure that the first content is of role user."
        )
        current = _start_of_current_turn(contents)
        for index, content in enumerate(contents):
            at = f"contents[{index}]"
            _fields(content, {"role", "parts"}, at)
            role = content.get("role", "user")
            need(role in ("user", "model", "function"), "Please use a valid role: user, model.")
            parts = [_camel(part) for part in content.get("parts") or []]
            need(parts, f"* GenerateContentRequest.{at}.parts: contents.parts must not be empty.")
            for position, part in enumerate(parts):
                self._part(part, role, f"{at}.parts[{position}]")
            calls = [part for part in parts if "functionCall" in part]
            self._answers([_camel(part["functionResponse"]) for part in parts if "functionResponse" in part])
            if calls:
                self._calls(calls, index > current, at)
        need(
            contents[-1].get("role", "user") != "model",
            "Please ensure that the last content is of role user.",
        )
        need(not self._waiting, "Function call turn must be followed by function responses.")

    def _part(self, part: Json, role: str, at: str) -> None:
        _fields(part, DATA | MODIFIERS, at)
        data = [name for name in part if name in DATA]
        need(len(data) == 1, f"{at}: required oneof field 'data' must have one initialized field")
        signature = part.get("thoughtSignature")
        if data[0] == "text":
            need(part["text"] or signature, f"{at}: text parameter must not be empty")
        if data[0] == "inlineData":
            _inline(_camel(part["inlineData"]), at)
        if data[0] == "functionResponse":
            need(role != "model", f"{at}: function_response is not allowed for role model")
        if signature is not None:
            self._signature(signature, at)

    def _signature(self, signature: object, at: str) -> None:
        if signature == SENTINEL:
            self.sentinels += 1
            return
        # Protocol buffers take both alphabets of base64, and the Python SDK writes the other one.
        plain = str(signature).replace("-", "+").replace("_", "/")
        need(
            is_base64(plain),
            f"Invalid value at '{at}.thought_signature' (TYPE_BYTES), Base64 decoding failed",
        )
        need(self._vault.find("gemini", plain), f"{at}: Corrupted thought signature.")
        self.seals += 1

    def _calls(self, calls: list[Json], is_current: bool, at: str) -> None:
        need(not self._waiting, "Please ensure that function call turn comes after a function response turn.")
        for part in calls:
            call = _camel(part["functionCall"])
            need(NAME.fullmatch(call.get("name", "")), f"{at}: invalid function_call.name")
            need(isinstance(call.get("args", {}), dict), f"{at}: function_call.args must be an object")
            self._waiting.append(call)
        need(
            not is_current or "thoughtSignature" in calls[0],
            f"Function call `{self._waiting[0]['name']}` in {at} is missing a thought_signature.",
        )

    def _answers(self, responses: list[Json]) -> None:
        if not responses and not self._waiting:
            return
        responses = _without_echoes(responses)
        need(
            len(responses) == len(self._waiting),
            "Please ensure that the number of function response parts equals the number of function call "
            f"parts of the function call turn: {len(responses)} for {len(self._waiting)}.",
        )
        for call, response in zip(self._waiting, responses, strict=True):
            inner = response.get("response")
            if not isinstance(inner, dict):
                raise Refused("function_response.response: must be an object")
            need(response.get("name") == call["name"], "function_response.name must be the name of its call")
            if call.get("id") and response.get("id"):
                need(call["id"] == response["id"], "function_response.id must be the id of its call")
            for part in response.get("parts") or []:
                _inline(_camel(_camel(part).get("inlineData") or {}), "function_response.parts")
            self.results.append(
                Result(
                    call_id=str(call.get("id", "")),
                    name=call["name"],
                    arguments=msgspec.json.encode(call.get("args", {})).decode(),
                    text=msgspec.json.encode(inner).decode(),
                    failed="error" in inner,
                )
            )
        self._waiting = []


def _without_echoes(responses: list[Json]) -> list[Json]:
    """Google's own CLI sends every response twice when it resumes a session."""
    kept: list[Json] = []
    for response in responses:
        if not response.get("id") or response["id"] not in [one.get("id") for one in kept]:
            kept.append(response)
    return kept


def _start_of_current_turn(contents: list[Json]) -> int:
    """The index of the user's last new text: signatures are checked from there on."""
    for index in range(len(contents) - 1, -1, -1):
        parts = contents[index].get("parts") or []
        is_user = contents[index].get("role", "user") == "user"
        if is_user and not any("functionResponse" in _camel(part) for part in parts):
            return index
    return 0


def _inline(data: Json, at: str) -> None:
    need(isinstance(data.get("mimeType"), str), f"{at}.inline_data.mime_type: must not be empty")
    need(is_base64(data.get("data")), f"Invalid value at '{at}.inline_data.data' (TYPE_BYTES)")
