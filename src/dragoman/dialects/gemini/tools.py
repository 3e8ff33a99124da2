"""Reads and writes tools, their schemas and the tool choice.

An entry of `tools` holds function declarations, tools that Gemini runs, or both. The hub has one flat list;
the form of a tool records the entry that it came from.

`read_schema` gives JSON Schema and `write_schema` Gemini's subset of OpenAPI, which writes types in capitals.
Each reverses the other for a schema that the other could have written. `schema.convert_to_openapi` decides
which keywords the subset accepts.
"""

from dragoman.dialects.gemini.hosted import find_common_name
from dragoman.dialects.gemini.names import (
    NameConverter,
    RequestForm,
    ToolForm,
    prefix_names,
    read_tool_form,
    to_snake,
    write_form,
)
from dragoman.dialects.interfaces import Json
from dragoman.dialects.search_options import take_domains
from dragoman.hub.blocks import Extras, SearchOptions, Tool
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, ToolChoice
from dragoman.providers.profile import TargetFacts
from dragoman.schema import edit_schema
from dragoman.wire.fields import Fields

DECLARATIONS = "functionDeclarations"
JSON_SCHEMA = "parametersJsonSchema"
SCHEMA = "parameters"

#: The names of hosted tools, by common name.
NAMES = {"web_search": "googleSearch", "web_fetch": "urlContext", "code_execution": "codeExecution"}

#: The name in the extras for the value of a hosted tool that was no object.
VALUE = "value"

#: The sites that a search excludes.
EXCLUDED = "excludeDomains"
PATHS = {"blocked_domains": EXCLUDED}

TOOL_CONFIG = "toolConfig"
CALLING = "functionCallingConfig"

#: The names of the modes, and the names that mean the same as each.
MODES = {"auto": "AUTO", "required": "ANY", "none": "NONE", "named": "ANY"}

TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})

#: These numbers have 64 bits, which the JSON of protobuf writes as strings.
SIZES = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
#: The subset's keywords in camelCase by their name in snake_case: clients use both.
KEYWORDS = {to_snake(name): name for name in (*SIZES, "anyOf", "propertyOrdering", "additionalProperties")}


def read_tools(body: Fields, converter: NameConverter, form: RequestForm) -> tuple[Tool, ...]:
    listed = body.maybe_list("tools")
    tools: list[Tool] = []
    for group, item in enumerate(listed or []):
        entry = converter.convert(body.child(item, "tools", group))
        read = [*_read_declarations(entry, converter, group), *_read_hosted(entry, group)]
        tools += read
        if not read:
            form.empty_tools[group] = {DECLARATIONS: []} if entry.has(DECLARATIONS) else {}
    if listed == []:
        body.rest()["tools"] = listed
    return tuple(tools)


def _read_declarations(entry: Fields, converter: NameConverter, group: int) -> list[Tool]:
    if entry.rest().get(DECLARATIONS) in (None, []):
        return []
    declarations = entry.maybe_objects(DECLARATIONS) or []
    return [_read_declaration(converter.convert(one), group) for one in declarations]


def _read_declaration(declaration: Fields, group: int) -> Tool:
    schema, field, original = read_schema_field(declaration, JSON_SCHEMA, SCHEMA)
    return Tool(
        name=declaration.text("name"),
        description=declaration.maybe_text("description"),
        schema=schema,
        form=write_form(ToolForm(group=group, field=field, original=original)),
        at=declaration.path,
        extras=declaration.rest(),
    )


def _read_hosted(entry: Fields, group: int) -> list[Tool]:
    """Read the hosted tools of an entry: every field other than the function declarations."""
    tools: list[Tool] = []
    for name, value in entry.rest().items():
        if name == DECLARATIONS:
            continue
        extras: Extras = value if isinstance(value, dict) else {VALUE: value}
        excluded = take_domains(extras, EXCLUDED)
        form = ToolForm(group=group, field="" if isinstance(value, dict) else VALUE)
        tools.append(
            Tool(
                name=name,
                kind="hosted",
                common_name=find_common_name(name),
                search=SearchOptions(blocked_domains=excluded, paths=PATHS) if excluded else None,
                form=write_form(form),
                at=entry.at(name),
                extras=extras,
            )
        )
    return tools


def write_tools(request: Request, target: TargetFacts, form: RequestForm, losses: Losses) -> list[Json]:
    """The entries of `tools`."""
    native = request.dialect == target.dialect
    entries: dict[int, Json] = dict(form.empty_tools) if native else {}
    for tool in request.tools:
        spelled = read_tool_form(tool.form) if native else ToolForm()
        if tool.kind == "function":
            entry = entries.setdefault(spelled.group, {})
            declarations = entry.setdefault(DECLARATIONS, [])
            if isinstance(declarations, list):
                declarations.append(_write_declaration(tool, target, spelled, native=native))
        elif tool.kind == "hosted":
            name = tool.name if native else NAMES.get(tool.common_name)
            if name is None:
                losses.add(tool.at, f"Gemini has no tool of its own for {tool.common_name or tool.name}")
                continue
            # Each hosted tool of another dialect gets its own entry, as in Google's examples.
            group = spelled.group if native else len(entries) + 1
            entries.setdefault(group, {})[name] = _write_hosted(tool, spelled, native=native)
        else:
            losses.add(tool.at, f"a tool of kind {tool.kind} cannot be declared to Gemini")
    return [entries[group] for group in sorted(entries)]


def _write_hosted(tool: Tool, form: ToolForm, *, native: bool) -> object:
    if native and form.field == VALUE:
        return tool.extras.get(VALUE)
    excluded = tool.search.blocked_domains if tool.search else ()
    return {**(tool.extras if native else {}), **({EXCLUDED: list(excluded)} if excluded else {})}


def _write_declaration(tool: Tool, target: TargetFacts, form: ToolForm, *, native: bool) -> Json:
    declaration: Json = {"name": tool.name}
    if tool.description is not None:
        declaration["description"] = tool.description
    elif not native:
        declaration["description"] = ""
    field = form.field or (JSON_SCHEMA if target.json_schema else SCHEMA)
    if field == JSON_SCHEMA and not target.json_schema:
        field = SCHEMA
    if tool.schema is not None and (form.field or not is_empty(tool.schema)):
        original = form.original if field == form.field else None
        declaration[field] = original or (write_schema(tool.schema) if field == SCHEMA else tool.schema)
    if native:
        declaration |= tool.extras
    return declaration


def read_choice(body: Fields, converter: NameConverter) -> ToolChoice | None:
    """Read the choice in `toolConfig`; its other fields stay in the extras of the request."""
    config = body.maybe_object(TOOL_CONFIG)
    if config is None:
        return None
    calling = converter.convert(config).maybe_object(CALLING)
    choice = None if calling is None else _read_calling(converter.convert(calling))
    left = config.rest()
    body.rest().update(prefix_names(TOOL_CONFIG, left) if left else {} if choice else {TOOL_CONFIG: {}})
    return choice


def _read_calling(calling: Fields) -> ToolChoice:
    mode = calling.maybe_text("mode")
    mode_name = (mode or "").upper()
    allowed = calling.texts("allowedFunctionNames")
    # The form is the mode as the client wrote it, or a dash if there was none.
    form = "-" if mode is None else mode
    extras = calling.rest()
    if mode_name == "NONE":
        return ToolChoice(mode="none", allowed=allowed, form=form, extras=extras)
    if mode_name == "ANY" and len(allowed) == 1:
        return ToolChoice(mode="named", name=allowed[0], form=form, extras=extras)
    if allowed:
        return ToolChoice(
            mode="allowed",
            allowed=allowed,
            allowed_mode="required" if mode_name == "ANY" else "auto",
            form=form,
            extras=extras,
        )
    return ToolChoice(mode="required" if mode_name == "ANY" else "auto", form=form, extras=extras)


def write_config(request: Request, losses: Losses, *, native: bool) -> Json:
    """Write `toolConfig`. Gemini accepts a choice only if there are functions, and only among functions."""
    choice = request.tool_choice
    if native:
        return {} if choice is None else {CALLING: write_choice(choice, native=native)}
    hosted = {tool.name for tool in request.tools if tool.kind == "hosted"}
    functions = any(tool.kind == "function" for tool in request.tools)
    config: Json = {}
    if choice is not None and choice.mode == "named" and choice.name in hosted:
        losses.add(request.path_of("tool_choice"), "Gemini cannot be made to use a tool of its own")
    elif choice is not None and functions:
        config[CALLING] = write_choice(choice, native=native)
    elif choice is not None and choice.mode == "required":
        losses.add(request.path_of("tool_choice"), "Gemini cannot be made to use a tool of its own")
    if hosted and functions:
        # Models that support hosted tools and functions together require this flag.
        config["includeServerSideToolInvocations"] = True
    return config


def write_choice(choice: ToolChoice, *, native: bool) -> Json:
    """Write `functionCallingConfig`."""
    if choice.mode == "allowed":
        # Only this mode allows a free choice among some of the functions.
        mode = "ANY" if choice.allowed_mode == "required" else "VALIDATED"
    else:
        mode = MODES[choice.mode]
    config: Json = {"mode": choice.form if native and choice.form else mode}
    if native and choice.form == "-":
        del config["mode"]
    names = [choice.name] if choice.mode == "named" else list(choice.allowed)
    if names:
        config["allowedFunctionNames"] = names
    return config | choice.extras if native else config


def read_schema_field(fields: Fields, json_schema: str, openapi: str) -> tuple[Json | None, str, Json | None]:
    """Take the schema from the first of the two named fields that is set.

    Returns the JSON Schema (None without one), the name of its field, and the original if the schema would be
    written in another way.
    """
    for field in (json_schema, openapi):
        found = fields.maybe_object(field)
        if found is not None:
            original = found.rest()
            schema = read_schema(original, is_openapi=field == openapi)
            written = write_schema(schema) if field == openapi else schema
            return schema, field, None if written == original else original
    return None, "", None


def read_schema(schema: Json, *, is_openapi: bool) -> Json:
    """The schema as JSON Schema: types in lower case; from the subset, `nullable` as a type, and numbers."""
    return edit_schema(schema, _read_openapi if is_openapi else _lower_types)


def write_schema(schema: Json) -> Json:
    """The schema in the subset: types in capitals, and `nullable` for a second type `null`."""
    return edit_schema(schema, _write_openapi)


def _lower_types(schema: Json) -> Json:
    kind = schema.get("type")
    if isinstance(kind, str):
        lowered = _lower(kind)
        return schema if lowered == kind else {**schema, "type": lowered}
    if isinstance(kind, list):
        return {**schema, "type": [_lower(inner) if isinstance(inner, str) else inner for inner in kind]}
    return schema


def _lower(kind: str) -> str:
    return kind if kind in TYPES or kind.lower() not in TYPES else kind.lower()


def _read_openapi(schema: Json) -> Json:
    schema = _lower_types({KEYWORDS.get(name, name): value for name, value in schema.items()})
    kind = schema.get("type")
    if isinstance(kind, str) and kind in TYPES and schema.get("nullable") is True:
        schema["type"] = [kind, "null"]
        del schema["nullable"]
    for name in SIZES:
        size = schema.get(name)
        if isinstance(size, str) and size.isascii() and size.isdigit() and len(size) < 20:
            schema[name] = int(size)
    return schema


def _write_openapi(schema: Json) -> Json:
    kind = schema.get("type")
    if isinstance(kind, list):
        types = [inner for inner in kind if inner != "null"]
        if len(types) == 1 and isinstance(types[0], str):
            nullable: Json = {"nullable": True} if len(kind) > 1 else {}
            return {**schema, "type": types[0].upper(), **nullable}
    elif isinstance(kind, str) and kind in TYPES:
        return {**schema, "type": kind.upper()}
    return schema


def is_empty(schema: Json | None) -> bool:
    """Whether a schema has no rules. The subset rejects an object without properties."""
    return not schema or (
        schema.get("type", "object") == "object"
        and not schema.get("properties")
        and schema.keys() <= {"type", "properties", "required", "additionalProperties", "$schema"}
        and not schema.get("required")
    )
