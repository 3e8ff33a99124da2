"""Lists the kinds of upstreams that are programs on this machine and not HTTP servers.

A new kind is one row here and one package of the same name in `upstream` (`upstream.kinds` describes it).
Every other package reads the fields of the row, and none compares a provider with the name of a program.
"""

import msgspec


class LocalProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A program that a provider's `dialect` can name instead of an API."""

    #: The API whose requests and replies it takes and gives.
    wire_dialect: str
    #: Its preset; empty: its own name.
    preset: str = ""
    #: Facts about all of its models.
    facts: dict[str, object] = {}
    takes_address: bool = False
    has_sessions: bool = False
    #: It answers in place of any model: it needs no model name, and tokens are counted as those of the model
    #: that the client names.
    is_stand_in: bool = False
    #: Its replies cost nothing.
    is_free: bool = False
    #: It is an agent itself: it serves applications, and `dragoman run` puts no agent in front of it.
    is_agent: bool = False
    #: The model runs inside the gateway, so that a trace shows no remote side.
    is_internal: bool = False
    #: `gen_ai.provider.name` of traces; empty: that of `wire_dialect`.
    telemetry_provider: str = ""
    #: The folder of its files below the state folder, which a killed gateway may leave behind.
    state_folder: str = ""
    #: The module without which it cannot be started, and the extra that installs it.
    module: str = ""
    extra: str = ""
    #: The doctor's advice if the program cannot be started.
    advice: str = "install the program"
    #: The default of `retries`.
    retries: int = 2


#: By the name that `dialect` has in the configuration file.
LOCAL_PROGRAMS = {
    "embedded": LocalProgram(
        wire_dialect="openai_chat",
        is_stand_in=True,
        is_free=True,
        is_internal=True,
        telemetry_provider="dragoman",
    ),
    # Claude Code, through its Agent SDK. It sets its own sampling, and accepts only results of calls that it
    # made. It retries by itself, and its upstream replaces a broken session.
    "claude_code": LocalProgram(
        wire_dialect="anthropic",
        preset="claude-code",
        facts={
            "strict_results": False,
            "repeated_calls": True,
            "prefill": False,
            "history_needs_tools": False,
            "tool_name_limit": 114,
            "tool_name_extra": "",
            "call_id_limit": 0,
            "call_id_extra": "*",
            "choices": ["auto", "none"],
            "sampling": [],
            "limits_output": False,
            "stop_limit": 0,
            "outputs": ["text"],
            "hosted_tools": [],
            "whole_calls": True,
        },
        takes_address=True,
        has_sessions=True,
        is_agent=True,
        state_folder="claude-code",
        module="claude_agent_sdk",
        extra="claude-code",
        advice="install Claude Code, or set sessions.command",
        retries=0,
    ),
}
