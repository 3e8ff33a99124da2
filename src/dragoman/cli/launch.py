"""How each agent is pointed at the gateway: variables, arguments and private files, nothing of the user's."""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from dragoman.cli.gemini_home import PLACE, SETTINGS, mirror, settings_text

#: Stands for the folder of the private files, in variables and arguments.
FOLDER = "{folder}"


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """Where the gateway is, and what to ask for there."""

    url: str
    key: str
    #: The model the agent shall ask for; empty leaves it to the agent.
    model: str = ""
    #: Every model there is.
    names: tuple[str, ...] = ()


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What to add to an agent's start."""

    environment: dict[str, str]
    arguments: tuple[str, ...] = ()
    #: Files that must exist in the private folder.
    files: dict[str, str] = {}
    #: Makes the private folder out of the user's environment, where there is more to it than those files.
    prepare: Callable[[Path, Mapping[str, str]], None] | None = None
    #: Variables of the user's that would lead the agent elsewhere.
    unset: tuple[str, ...] = ()


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    program: str
    package: str
    launch: Callable[[Door], Launch]
    #: A model that it asks for unless it is told another; empty if it has none of its own.
    asks_for: str = ""


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


_CLAUDE_MODELS = (
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
)


def _claude(door: Door) -> Launch:
    environment = {"ANTHROPIC_BASE_URL": door.url, "ANTHROPIC_AUTH_TOKEN": door.key}
    if door.model:
        environment |= dict.fromkeys(_CLAUDE_MODELS, door.model)
    return Launch(
        environment=environment,
        # Variables in the user's settings go before those of the process; settings on the command line
        # go before the user's.
        arguments=("--settings", f"{FOLDER}/claude.json"),
        files={"claude.json": _json({"env": environment})},
        unset=(
            "ANTHROPIC_API_KEY",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_FOUNDRY",
            "CLAUDE_CODE_USE_VERTEX",
        ),
    )


def _codex(door: Door) -> Launch:
    # A JSON string is a TOML string too.
    provider = (
        f'{{name = "dragoman", base_url = {_json(f"{door.url}/v1")}, '
        'env_key = "DRAGOMAN_CLIENT_KEY", wire_api = "responses"}'
    )
    model = ("-c", f"model={_json(door.model)}") if door.model else ()
    return Launch(
        environment={"DRAGOMAN_CLIENT_KEY": door.key},
        arguments=("-c", f"model_providers.dragoman={provider}", "-c", 'model_provider="dragoman"', *model),
    )


def _gemini(door: Door) -> Launch:
    return Launch(
        environment={
            "GEMINI_API_KEY": door.key,
            "GOOGLE_GEMINI_BASE_URL": door.url,
            "GEMINI_CLI_HOME": FOLDER,
            **({"GEMINI_MODEL": door.model} if door.model else {}),
        },
        prepare=mirror,
        files={f"{PLACE}/{SETTINGS}": settings_text({})},
        unset=("GOOGLE_API_KEY", "GOOGLE_GENAI_USE_GCA", "GOOGLE_GENAI_USE_VERTEXAI"),
    )


def _opencode(door: Door) -> Launch:
    names = dict.fromkeys((door.model, *door.names))
    config = {
        "model": f"dragoman/{door.model}",
        "small_model": f"dragoman/{door.model}",
        "provider": {
            "dragoman": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "dragoman",
                "options": {"baseURL": f"{door.url}/v1", "apiKey": door.key},
                "models": {name: {"name": name} for name in names},
            }
        },
    }
    return Launch(environment={"OPENCODE_CONFIG_CONTENT": _json(config)})


AGENTS: dict[str, Agent] = {
    "claude": Agent(
        title="Claude Code",
        program="claude",
        package="@anthropic-ai/claude-code",
        launch=_claude,
        asks_for="claude-opus-5-5",
    ),
    "codex": Agent(
        title="Codex CLI", program="codex", package="@openai/codex", launch=_codex, asks_for="gpt-6.1-sol"
    ),
    "gemini": Agent(
        title="Gemini CLI",
        program="gemini",
        package="@google/gemini-cli",
        launch=_gemini,
        asks_for="gemini-3.5-flash-lite",
    ),
    "opencode": Agent(title="OpenCode", program="opencode", package="opencode-ai", launch=_opencode),
}


def settled(launch: Launch, folder: Path, environment: Mapping[str, str]) -> Launch:
    """Fill the private folder, and name it in the variables and arguments."""
    if launch.prepare:
        launch.prepare(folder, environment)
    else:
        for name, text in launch.files.items():
            (folder / name).write_text(text, "utf-8")
    return msgspec.structs.replace(
        launch,
        environment={name: value.replace(FOLDER, str(folder)) for name, value in launch.environment.items()},
        arguments=tuple(argument.replace(FOLDER, str(folder)) for argument in launch.arguments),
    )


_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_OWN_HOSTS = "127.0.0.1,localhost,::1"


def past_proxies(environment: dict[str, str]) -> dict[str, str]:
    """The environment, changed so that a proxy for the world is not asked for this machine."""
    if not any(environment.get(name) for name in _PROXIES):
        return environment
    excepted = environment.get("no_proxy") or environment.get("NO_PROXY")
    hosts = f"{excepted},{_OWN_HOSTS}" if excepted else _OWN_HOSTS
    return {**environment, "no_proxy": hosts, "NO_PROXY": hosts}
