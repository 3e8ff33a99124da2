"""How each agent is connected to the gateway: variables, arguments and private files.

The user's own settings are never changed. To add an agent, write a function that builds its `AgentLaunch` and
add a row to `AGENTS`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec

from dragoman.cli.claude_settings import (
    add_status_line,
    describe_settings,
    find_variable,
    merge_settings,
    split_settings,
)
from dragoman.cli.codex_catalogue import write_catalogue
from dragoman.cli.gemini_home import (
    EXPERIMENTS_FILE,
    EXPERIMENTS_VARIABLE,
    SETTINGS_FILE,
    build_gemini_experiments,
    build_gemini_home,
    build_gemini_settings,
    keep_gemini_files,
)
from dragoman.server.access import KEY_HEADER

#: In variables and arguments: replaced by the folder of the private files.
FOLDER = "{folder}"

_CLAUDE_MODELS = (
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
)
_CLAUDE_MENU = ("ANTHROPIC_CUSTOM_MODEL_OPTION", "ANTHROPIC_CUSTOM_MODEL_OPTION_NAME")
#: Claude Code warns about a CLAUDE_CODE_AUTO_COMPACT_WINDOW outside of this range.
_CLAUDE_COMPACT_RANGE = (100_000, 1_000_000)
#: The window of Claude Code without the extension to a million tokens.
_CLAUDE_USUAL_WINDOW = 200_000
#: Headers of the user for every request of Claude Code, one per line.
_CLAUDE_HEADERS = "ANTHROPIC_CUSTOM_HEADERS"
#: Claude Code compacts when what the answer and this margin leave of the window is full. In windows below
#: this size, the answer may take only this part of the window, and the conversation may fill this one.
_CLAUDE_MARGIN = 13_000
_CLAUDE_SMALL_WINDOW = 128_000
_CLAUDE_OUTPUT_PART = 0.125
_CLAUDE_FILLED_PART = 0.75
#: The part of the window that OpenCode keeps for the answer if the model's own limit is unknown.
_OPENCODE_OUTPUT_PART = 4
_CLAUDE_FILE = "claude.json"
#: Variables that would connect Claude Code to another server.
_CLAUDE_ELSEWHERE = (
    "ANTHROPIC_API_KEY",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_VERTEX",
)
#: Those of them that are the user's own login.
_CLAUDE_CREDENTIALS = frozenset({"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"})
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_LOCAL_HOSTS = "127.0.0.1,localhost,::1"


class ModelLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of the model that answers, in tokens; 0: unknown, so that the agent keeps its own value."""

    context: int = 0
    output: int = 0


class GatewayAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The URL and the key with which an agent uses the gateway, and the model names that it may request."""

    url: str
    key: str
    #: The model that the agent shall request; empty leaves the choice to the agent.
    model: str = ""
    #: All model names that the gateway offers.
    names: tuple[str, ...] = ()
    #: The name of the model that the agent requests first: `model`, or the agent's own default.
    requested: str = ""
    #: The model that answers it, as `provider/model`; empty if it is unknown.
    answering: str = ""
    #: The limits of the models that answer these names.
    limits: dict[str, ModelLimits] = {}
    #: The gateway relays the agent's own login to a provider. `key` is then empty if the gateway needs none.
    relays_credential: bool = False

    def find_limits(self, name: str = "") -> ModelLimits:
        """The limits of the model that answers `name`; default: the one that answers first."""
        return self.limits.get(name or self.requested, _UNKNOWN_LIMITS)


_UNKNOWN_LIMITS = ModelLimits()


class AgentLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """What to add to the start of an agent."""

    environment: dict[str, str]
    arguments: tuple[str, ...] = ()
    #: Texts of files in the private folder.
    files: dict[str, str] = {}
    #: Fills the private folder instead of `files`, if it depends on the user's environment. It returns
    #: further arguments for the agent.
    prepare: Callable[[Path, Mapping[str, str]], tuple[str, ...]] | None = None
    #: Called with the private folder when the agent has ended.
    finish: Callable[[Path, Mapping[str, str]], None] | None = None
    #: Variables to remove: they would connect the agent to another server.
    unset: tuple[str, ...] = ()


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that `dragoman run` can start."""

    title: str
    program: str
    #: The npm package.
    package: str
    build_launch: Callable[[GatewayAccess], AgentLaunch]
    #: The model that the agent requests by default; empty if it has no default. `other_models`: those that it
    #: requests for other purposes.
    default_model: str = ""
    other_models: tuple[str, ...] = ()
    #: Arguments that resume a session. The command that the agent itself prints at its end does not work: the
    #: private files are gone by then.
    resume: str = ""
    #: Arguments with which the agent answers one prompt and ends.
    headless: tuple[str, ...] = ()
    #: What to do after some exit codes of the agent whose reason it does not show.
    exit_hints: dict[int, str] = {}
    #: Merges the launch with arguments, variables and settings of the user that would replace each other.
    #: Returns the launch, and the arguments that are left.
    merge_own: (
        Callable[[AgentLaunch, tuple[str, ...], Mapping[str, str], Path], tuple[AgentLaunch, tuple[str, ...]]]
        | None
    ) = None
    #: Adds the gateway's status line to a private file, unless the user has one: in the arguments, or in the
    #: settings that the environment and the folder lead to.
    add_status_line: Callable[[str, tuple[str, ...], Mapping[str, str], Path], str] | None = None
    #: Lines about the user's settings that concern the gateway, for a folder and the environment.
    describe_settings: Callable[[GatewayAccess, AgentLaunch, Path, Mapping[str, str]], list[str]] | None = (
        None
    )


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _launch_claude(access: GatewayAccess) -> AgentLaunch:
    environment = {"ANTHROPIC_BASE_URL": access.url}
    unset: tuple[str, ...] = _CLAUDE_ELSEWHERE
    if access.relays_credential:
        # A token would take the place of the user's own login, which the gateway relays.
        unset = tuple(name for name in unset if name not in _CLAUDE_CREDENTIALS)
        if access.key:
            environment[_CLAUDE_HEADERS] = f"{KEY_HEADER}: {access.key}"
    else:
        environment["ANTHROPIC_AUTH_TOKEN"] = access.key
    if access.model:
        environment |= dict.fromkeys(_CLAUDE_MODELS, access.model)
        # The entry of the gateway's model in Claude Code's /model menu.
        environment |= dict.fromkeys(_CLAUDE_MENU, access.model)
    environment |= _build_claude_limits(access.find_limits())
    # Empty values in the settings, because the user's settings may have these variables too.
    settings: dict[str, object] = {"env": {**dict.fromkeys(unset, ""), **environment}}
    if access.names:
        names = dict.fromkeys(filter(None, (access.model, *access.names)))
        # With a model for all purposes, the names that Claude Code knows lead to no other one.
        settings["modelPicker"] = {
            "options": [_describe_claude_model(name, access) for name in names],
            "replaceBuiltInOptions": bool(access.model),
        }
    return AgentLaunch(
        environment=environment,
        # Variables in the user's settings take precedence over those of the process. Settings on the command
        # line take precedence over both.
        arguments=("--settings", f"{FOLDER}/{_CLAUDE_FILE}"),
        files={_CLAUDE_FILE: _encode(settings)},
        unset=unset,
    )


def _describe_claude_model(name: str, access: GatewayAccess) -> dict[str, object]:
    """A row of Claude Code's /model menu."""
    context = access.find_limits(name).context
    size = f", {context:,} tokens of context" if context else ""
    return {"model": name, "label": name, "description": f"A model of the gateway{size}"}


def _merge_claude(
    launch: AgentLaunch, arguments: tuple[str, ...], environment: Mapping[str, str], folder: Path
) -> tuple[AgentLaunch, tuple[str, ...]]:
    kept, values = split_settings(arguments)
    variables = dict(launch.environment)
    if _CLAUDE_HEADERS in variables:
        own = find_variable(_CLAUDE_HEADERS, values, environment, folder)
        variables[_CLAUDE_HEADERS] = "\n".join(filter(None, (own.strip(), variables[_CLAUDE_HEADERS])))
    text = merge_settings(launch.files[_CLAUDE_FILE], values, variables)
    return msgspec.structs.replace(launch, environment=variables, files={_CLAUDE_FILE: text}), kept


def _describe_claude_settings(
    access: GatewayAccess, launch: AgentLaunch, folder: Path, environment: Mapping[str, str]
) -> list[str]:
    variables = {**dict.fromkeys(_CLAUDE_ELSEWHERE, ""), **launch.environment}
    # The user's headers are kept.
    variables.pop(_CLAUDE_HEADERS, None)
    return list(describe_settings(environment, folder, variables, access.model))


def _build_claude_limits(limits: ModelLimits) -> dict[str, str]:
    """The variables with which Claude Code 2.1 learns the limits of a model.

    CLAUDE_CODE_MAX_CONTEXT_TOKENS is read for model names that Claude Code does not know. Without it the
    window is a million tokens. For the names that it knows, only the window for compaction can be set.
    """
    context, output = limits.context, limits.output
    variables = {}
    if 0 < context < _CLAUDE_SMALL_WINDOW:
        # For an unknown model it takes 32,000 tokens, and then compacts before every request.
        part = int(context * _CLAUDE_OUTPUT_PART)
        output = min(output or part, part)
        # The margin leaves so little of a small window that it refuses to go on ("Autocompact is thrashing").
        context = max(context, int(context * _CLAUDE_FILLED_PART) + output + _CLAUDE_MARGIN)
    if context:
        variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(context)
        lowest, highest = _CLAUDE_COMPACT_RANGE
        variables["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(min(max(context, lowest), highest))
        if context <= _CLAUDE_USUAL_WINDOW:
            # Without it, the entry `Default` of the menu is `NAME[1m]`: the same model with a million tokens.
            # For a larger window Claude Code warns at every start that it does not enforce 200,000 tokens.
            variables["CLAUDE_CODE_DISABLE_1M_CONTEXT"] = "1"
    if output:
        variables["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(output)
    return variables


def _launch_codex(access: GatewayAccess) -> AgentLaunch:
    # The arguments are TOML. A JSON string is a valid TOML string.
    provider = (
        f'{{name = "dragoman", base_url = {_encode(f"{access.url}/v1")}, '
        'env_key = "DRAGOMAN_CLIENT_KEY", wire_api = "responses"}'
    )
    model = ("-c", f"model={_encode(access.model)}") if access.model else ()
    context = access.find_limits().context
    window = ("-c", f"model_context_window={context}") if context else ()
    names = dict.fromkeys(filter(None, (access.model, *access.names)))
    windows = {name: access.find_limits(name).context for name in names}
    return AgentLaunch(
        environment={"DRAGOMAN_CLIENT_KEY": access.key},
        arguments=(
            "-c",
            f"model_providers.dragoman={provider}",
            "-c",
            'model_provider="dragoman"',
            *model,
            *window,
        ),
        prepare=partial(write_catalogue, windows=windows, hides_known=bool(access.model)),
    )


def _launch_gemini(access: GatewayAccess) -> AgentLaunch:
    context = access.find_limits().context
    return AgentLaunch(
        environment={
            "GEMINI_API_KEY": access.key,
            "GOOGLE_GEMINI_BASE_URL": access.url,
            "GEMINI_CLI_HOME": FOLDER,
            **({EXPERIMENTS_VARIABLE: f"{FOLDER}/{EXPERIMENTS_FILE}"} if context else {}),
            **({"GEMINI_MODEL": access.model} if access.model else {}),
        },
        prepare=partial(build_gemini_home, context=context),
        finish=keep_gemini_files,
        files={
            SETTINGS_FILE: build_gemini_settings({}, context),
            **({EXPERIMENTS_FILE: build_gemini_experiments(context)} if context else {}),
        },
        unset=("GOOGLE_API_KEY", "GOOGLE_GENAI_USE_GCA", "GOOGLE_GENAI_USE_VERTEXAI"),
    )


def _launch_opencode(access: GatewayAccess) -> AgentLaunch:
    names = dict.fromkeys((access.model, *access.names))
    config = {
        "model": f"dragoman/{access.model}",
        "small_model": f"dragoman/{access.model}",
        "provider": {
            "dragoman": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "dragoman",
                "options": {"baseURL": f"{access.url}/v1", "apiKey": access.key},
                "models": {name: _describe_opencode_model(name, access.find_limits(name)) for name in names},
            }
        },
    }
    return AgentLaunch(environment={"OPENCODE_CONFIG_CONTENT": _encode(config)})


def _describe_opencode_model(name: str, limits: ModelLimits) -> dict[str, object]:
    """A model in OpenCode's configuration. Its `limit` needs both numbers."""
    if not limits.context:
        return {"name": name}
    output = limits.output or limits.context // _OPENCODE_OUTPUT_PART
    return {"name": name, "limit": {"context": limits.context, "output": output}}


AGENTS: dict[str, Agent] = {
    "claude": Agent(
        title="Claude Code",
        program="claude",
        package="@anthropic-ai/claude-code",
        build_launch=_launch_claude,
        default_model="claude-opus-5-5",
        other_models=("claude-sonnet-5-5", "claude-haiku-5-5"),
        resume="--continue",
        headless=("-p", "--print"),
        merge_own=_merge_claude,
        add_status_line=add_status_line,
        describe_settings=_describe_claude_settings,
    ),
    "codex": Agent(
        title="Codex CLI",
        program="codex",
        package="@openai/codex",
        build_launch=_launch_codex,
        default_model="gpt-6.1-sol",
        resume="resume --last",
    ),
    "gemini": Agent(
        title="Gemini CLI",
        program="gemini",
        package="@google/gemini-cli",
        build_launch=_launch_gemini,
        default_model="gemini-3.5-flash-lite",
        resume="--resume latest",
        headless=("-p", "--prompt"),
        exit_hints={
            55: "Gemini CLI does not trust this folder: add --skip-trust, or start it once without -p"
        },
    ),
    "opencode": Agent(
        title="OpenCode",
        program="opencode",
        package="opencode-ai",
        build_launch=_launch_opencode,
        resume="--continue",
    ),
}


def is_session(agent: Agent, arguments: tuple[str, ...]) -> bool:
    """Whether the agent works as a session with a person: with options or a prompt, not as a subcommand."""
    first = arguments[0] if arguments else "-"
    # A prompt in one argument has several words, a subcommand has one.
    return (first.startswith("-") or " " in first) and not set(agent.headless).intersection(arguments)


def prepare_launch(launch: AgentLaunch, folder: Path, environment: Mapping[str, str]) -> AgentLaunch:
    """Write the private files, and put the path of the folder into the variables and arguments."""
    more: tuple[str, ...] = ()
    if launch.prepare:
        more = launch.prepare(folder, environment)
    else:
        for name, text in launch.files.items():
            (folder / name).write_text(text, "utf-8")
    return msgspec.structs.replace(
        launch,
        environment={name: value.replace(FOLDER, str(folder)) for name, value in launch.environment.items()},
        arguments=(*(argument.replace(FOLDER, str(folder)) for argument in launch.arguments), *more),
    )


def bypass_proxies(environment: dict[str, str]) -> dict[str, str]:
    """The environment, changed so that requests to this machine do not go through a proxy."""
    if not any(environment.get(name) for name in _PROXIES):
        return environment
    exceptions = environment.get("no_proxy") or environment.get("NO_PROXY")
    hosts = f"{exceptions},{_LOCAL_HOSTS}" if exceptions else _LOCAL_HOSTS
    return {**environment, "no_proxy": hosts, "NO_PROXY": hosts}
