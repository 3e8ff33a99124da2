"""The clients that are recorded: how each is set up, run headless and led through a script.

Texts may hold the placeholders {url} (the mock), {home}, {project} (the folder the agent works in), {bin}
(where the clients are installed), {python} (an interpreter that has the SDKs) and {tools} (this folder).
"""

import msgspec

from tools.record.script import Call, Step, loop

FIRST_PROMPT = "Please read notes.txt and tell me what it says."
SECOND_PROMPT = "Thank you. Is that all?"


class Keep(msgspec.Struct, frozen=True):
    """Which request becomes a recording: the nth turn of the agent (-1: its last), or its nth side call."""

    scenario: str
    about: str
    number: int = -1
    is_main: bool = True


class Run(msgspec.Struct, frozen=True):
    """One client, in one setting, taken through one script. If `is_ours`, the application's words are too."""

    name: str
    client: str
    script: tuple[Step, ...]
    commands: tuple[tuple[str, ...], ...]
    keeps: tuple[Keep, ...]
    environment: dict[str, str] = {}
    files: dict[str, str] = {}
    is_ours: bool = False


FIRST_TURN = Keep("first-turn", "The first request of a session: no history yet.", 0)
FEATURES = Keep("features", "As many features of the API as fit into one request, written by the SDK.")
TOOL_LOOP = Keep("tool-loop", "A second prompt after a loop with a failed call, parallel calls and an image.")
NOTE = Call("mcp__notes__lookup", {"key": "alpha"})

# ---------------------------------------------------------------------------------------- Claude Code

CLAUDE_NAME = "claude-code 2.1.325"
CLAUDE = ("{bin}/claude", "-p", "--dangerously-skip-permissions", "--output-format", "json")
CLAUDE_WITH_NOTES = (*CLAUDE, "--mcp-config={home}/mcp.json")
CLAUDE_ENVIRONMENT = {
    "ANTHROPIC_BASE_URL": "{url}",
    "ANTHROPIC_API_KEY": "sk-recording",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "IS_SANDBOX": "1",
}
NOTES_CONFIG = '{"mcpServers": {"notes": {"command": "{python}", "args": ["{tools}/notes_server.py"]}}}'
CLAUDE_LOOP = loop("Read", "Bash", "file_path", "command", "{project}")
TOOL_SEARCH = Step(calls=(Call("ToolSearch", {"query": "select:mcp__notes__lookup,WebFetch"}),))
HELPER = Call(
    "Agent",
    {"description": "Read notes", "prompt": "Read the notes.", "subagent_type": "general-purpose"}
    | {"run_in_background": False},
)
WEB_SEARCH = Step(calls=(Call("WebSearch", {"query": "the notes"}),))
ANSWER_SCHEMA = '{"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}'

CLAUDE_RUNS = (
    Run(
        "claude-code",
        CLAUDE_NAME,
        (*CLAUDE_LOOP[:3], TOOL_SEARCH, Step(text="Now the note.", calls=(NOTE,)), *CLAUDE_LOOP[3:]),
        ((*CLAUDE_WITH_NOTES, FIRST_PROMPT), (*CLAUDE_WITH_NOTES, "--continue", SECOND_PROMPT)),
        (
            FIRST_TURN,
            Keep("tool-search", "A tool search was answered with tool references: the tools are loaded.", 4),
            Keep("tool-loop", "A second prompt after failed, parallel, image, search and MCP calls."),
        ),
        CLAUDE_ENVIRONMENT,
        {"mcp.json": NOTES_CONFIG},
    ),
    Run(
        "claude-code-sonnet",
        CLAUDE_NAME,
        (CLAUDE_LOOP[0], WEB_SEARCH, *CLAUDE_LOOP[3:]),
        ((*CLAUDE, FIRST_PROMPT),),
        (
            Keep("web-search", "The inner request of a web search: one server tool.", 0, is_main=False),
            Keep("tool-loop", "All tools inline, thinking by budget, no system role in messages."),
        ),
        CLAUDE_ENVIRONMENT | {"ANTHROPIC_MODEL": "claude-sonnet-4-5", "ENABLE_TOOL_SEARCH": "false"},
    ),
    Run(
        "claude-code-unknown-model",
        CLAUDE_NAME,
        CLAUDE_LOOP,
        ((*CLAUDE, FIRST_PROMPT),),
        (Keep("tool-loop", "A model name that the client does not know."),),
        CLAUDE_ENVIRONMENT | {"ANTHROPIC_MODEL": "local-model"},
    ),
    Run(
        "claude-code-no-betas",
        CLAUDE_NAME,
        CLAUDE_LOOP,
        ((*CLAUDE, FIRST_PROMPT),),
        (Keep("tool-loop", "Experimental betas and thinking are switched off."),),
        CLAUDE_ENVIRONMENT
        | {"CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1", "CLAUDE_CODE_DISABLE_THINKING": "1"},
    ),
    Run(
        "claude-code",
        CLAUDE_NAME,
        (Step(text="I will ask a helper.", calls=(HELPER,)), *CLAUDE_LOOP[3:]),
        ((*CLAUDE, FIRST_PROMPT),),
        (
            Keep("subagent", "A request of a sub-agent, in the middle of its parent's turn.", 1),
            Keep("subagent-result", "The parent's next request, with the sub-agent's report."),
        ),
        CLAUDE_ENVIRONMENT,
    ),
    Run(
        "claude-code",
        CLAUDE_NAME,
        (Step(calls=(Call("StructuredOutput", {"answer": "hello"}),)), *CLAUDE_LOOP[3:]),
        ((*CLAUDE, f"--json-schema={ANSWER_SCHEMA}", FIRST_PROMPT),),
        (Keep("json-schema", "The answer must follow a schema: asked for by a tool, not by a field."),),
        CLAUDE_ENVIRONMENT,
    ),
    Run(
        "claude-agent-sdk",
        "claude-agent-sdk 0.2.182",
        (CLAUDE_LOOP[0], Step(calls=(NOTE,)), *CLAUDE_LOOP[3:]),
        (("{python}", "-m", "tools.record.sdk_loops", "claude-agent-sdk"),),
        (Keep("tool-loop", "The Agent SDK with a tool of its own and a system prompt of its own."),),
        CLAUDE_ENVIRONMENT | {"ENABLE_TOOL_SEARCH": "false"},
    ),
)

# -------------------------------------------------------------------------------------------- Codex

CODEX_NAME = "codex 0.166.0"
CODEX_OPTIONS = ("--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
CODEX_CONFIG = """\
model_provider = "recording"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.recording]
name = "recording"
base_url = "{url}/v1"
env_key = "RECORDING_KEY"
wire_api = "responses"
[mcp_servers.notes]
command = "{python}"
args = ["{tools}/notes_server.py"]
"""
CODEX_ENVIRONMENT = {"CODEX_HOME": "{home}/.codex", "RECORDING_KEY": "sk-recording"}
CODEX_LOOP = (
    Step(
        text="I will read the notes.",
        reasoning="The notes come first.",
        calls=(Call("exec_command", {"cmd": "cat notes.txt"}),),
    ),
    Step(calls=(Call("exec_command", {"cmd": "cat missing.txt"}),)),
    Step(
        text="One file is missing. Two more things at once.",
        reasoning="These two do not depend on each other.",
        calls=(Call("exec_command", {"cmd": "echo hi"}), Call("view_image", {"path": "{project}/pixel.png"})),
    ),
)
CODEX_NOTE = Step(calls=(Call("lookup", {"key": "alpha"}, namespace="mcp__notes"),))
CODEX_SEARCH = Step(calls=(Call("tool_search", {"query": "notes lookup", "limit": 2}, kind="tool_search"),))
PATCH = "*** Begin Patch\n*** Add File: hello.txt\n+hello\n*** End Patch\n"
CODEX_PATCH = Step(calls=(Call("apply_patch", kind="custom", input=PATCH),))
LITE_READ = 'const result = await tools.exec_command({cmd: "cat notes.txt"});\ntext(result.output);\n'
LITE_FAIL = 'throw new Error("missing");\n'
LITE_LOOP = (
    Step(
        text="I will read the notes.",
        reasoning="The notes come first.",
        calls=(Call("exec", kind="custom", input=LITE_READ),),
    ),
    Step(calls=(Call("exec", kind="custom", input=LITE_FAIL),)),
)
CODEX_END = CLAUDE_LOOP[3:]


def codex(model: str, script: tuple[Step, ...], *keeps: Keep, options: tuple[str, ...] = ()) -> Run:
    start = ("{bin}/codex", "exec", *CODEX_OPTIONS, "-m", model, *options)
    again = ("{bin}/codex", "exec", "resume", "--last", *CODEX_OPTIONS, "-m", model, *options, SECOND_PROMPT)
    return Run(
        f"codex-{model}",
        CODEX_NAME,
        script,
        ((*start, "-i", "pixel.png", "--", FIRST_PROMPT), again),
        keeps,
        CODEX_ENVIRONMENT,
        {".codex/config.toml": CODEX_CONFIG, "schema.json": ANSWER_SCHEMA},
    )


CODEX_RUNS = (
    codex("local-model", (*CODEX_LOOP, CODEX_NOTE, *CODEX_END), FIRST_TURN, TOOL_LOOP),
    codex(
        "gpt-5.5",
        (*CODEX_LOOP, CODEX_PATCH, CODEX_SEARCH, CODEX_NOTE, *CODEX_END),
        Keep("tool-loop", "A second prompt after function, custom, tool search and namespaced calls."),
    ),
    codex(
        "gpt-6.1-sol",
        (*LITE_LOOP, *CODEX_END),
        Keep("first-turn", "No top-level tools: they come as an input item, in namespaces.", 0),
        Keep("tool-loop", "A second prompt after custom calls of which one failed."),
    ),
    msgspec.structs.replace(
        codex(
            "gpt-5.5",
            (CODEX_LOOP[0], *CODEX_END),
            Keep("output-schema", "The final answer must follow a strict JSON schema.", 0),
            options=("--output-schema", "{home}/schema.json"),
        ),
        name="codex",
    ),
    msgspec.structs.replace(
        codex(
            "local-model",
            (msgspec.structs.replace(CODEX_LOOP[0], input_tokens=90_000), *CODEX_END),
            Keep(
                "compaction",
                "A summary of the conversation is asked for: calls, but an empty tool list.",
                0,
                is_main=False,
            ),
            options=("-c", "model_auto_compact_token_limit=80000"),
        ),
        name="codex",
    ),
)

# --------------------------------------------------------------------------------------- Gemini CLI

GEMINI_SETTINGS = (
    '{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false},'
    ' "general": {"enableAutoUpdate": false}, "telemetry": {"enabled": false},'
    ' "mcpServers": {"notes": {"command": "{python}", "args": ["{tools}/notes_server.py"], "trust": true}}}'
)
GEMINI_ENVIRONMENT = {
    "GEMINI_API_KEY": "sk-recording",
    "GOOGLE_GEMINI_BASE_URL": "{url}",
    "GEMINI_CLI_TRUST_WORKSPACE": "true",
}
GEMINI_LOOP = loop("read_file", "run_shell_command", "file_path", "command", "{project}")
GEMINI_NOTE = Step(text="Now the note.", calls=(Call("mcp_notes_lookup", {"key": "alpha"}),))
GEMINI_SEARCH = Step(calls=(Call("google_web_search", {"query": "the notes"}),))


def gemini(name: str, model: str, script: tuple[Step, ...], *keeps: Keep) -> Run:
    start = ("{bin}/gemini", "-m", model, "-o", "stream-json", "--yolo")
    return Run(
        name,
        "gemini-cli 0.61.0",
        script,
        ((*start, "-p", FIRST_PROMPT), (*start, "--resume", "latest", "-p", SECOND_PROMPT)),
        keeps,
        GEMINI_ENVIRONMENT,
        {".gemini/settings.json": GEMINI_SETTINGS},
    )


GEMINI_RUNS = (
    gemini(
        "gemini-cli",
        "gemini-3-pro-preview",
        (*GEMINI_LOOP[:3], GEMINI_NOTE, *GEMINI_LOOP[3:]),
        FIRST_TURN,
        Keep("tool-loop", "Failed, parallel, image and MCP calls; signatures as they came.", 4),
        Keep("resumed", "A resumed session: results doubled, signatures gone."),
    ),
    gemini(
        "gemini-cli-2.5",
        "gemini-2.5-pro",
        (GEMINI_LOOP[0], GEMINI_SEARCH, *GEMINI_LOOP[3:]),
        Keep("tool-loop", "A model that thinks by budget.", 2),
        Keep("web-search", "The inner request of a web search: one server tool.", 0, is_main=False),
    ),
    gemini(
        "gemini-cli-auto",
        "auto",
        GEMINI_LOOP[3:],
        Keep(
            "router",
            "A side call that picks the model: a JSON schema with upper-case types.",
            0,
            is_main=False,
        ),
    ),
)

# ----------------------------------------------------------------------------------------- OpenCode

OPENCODE_LOOP = loop("read", "bash", "filePath", "command", "{project}")
OPENCODE_CONFIG = (
    '{"autoupdate": false, "share": "disabled", "provider": {"mock": {"npm": "%s", "name": "Mock",'
    ' "options": {"baseURL": "{url}%s", "apiKey": "sk-recording"}, "models": {"%s": {"name": "Mock",'
    ' "reasoning": true, "tool_call": true, "attachment": true, "modalities": {"input": ["text", "image"],'
    ' "output": ["text"]}, "limit": {"context": 200000, "output": 32000}}}}}}'
)
OPENCODE_TITLE = Keep("title", "A side call for a title: no tools, two user texts.", 0, is_main=False)


def opencode(package: str, prefix: str, model: str, *keeps: Keep) -> Run:
    start = ("{bin}/opencode", "run", "--format", "json", "--auto", "-m", f"mock/{model}")
    return Run(
        "opencode",
        "opencode 1.18.33",
        OPENCODE_LOOP,
        ((*start, FIRST_PROMPT), (*start, "--continue", SECOND_PROMPT)),
        keeps,
        {"OPENCODE_DISABLE_AUTOUPDATE": "1"},
        {".config/opencode/opencode.json": OPENCODE_CONFIG % (package, prefix, model)},
    )


OPENCODE_RUNS = (
    opencode("@ai-sdk/openai-compatible", "/v1", "local-model", OPENCODE_TITLE, FIRST_TURN, TOOL_LOOP),
    opencode("@ai-sdk/anthropic", "/v1", "claude-sonnet-4-5", OPENCODE_TITLE, TOOL_LOOP),
    opencode("@ai-sdk/openai", "/v1", "gpt-5.5", TOOL_LOOP),
    opencode("@ai-sdk/google", "/v1beta", "gemini-3-pro-preview", TOOL_LOOP),
)

# --------------------------------------------------------------------------------------------- SDKs

SDK_LOOP = loop("read_file", "run", "path", "command", "{project}")


def sdk(name: str, client: str, *keeps: Keep, program: str = "sdk_loops") -> Run:
    command = ("{python}", "-m", f"tools.record.{program}", name)
    return Run(name, client, SDK_LOOP, (command,), keeps, is_ours=True)


SDK_RUNS = (
    sdk("anthropic-python", "anthropic 2.8.0", TOOL_LOOP),
    sdk("openai-python-chat", "openai 3.49.0", TOOL_LOOP),
    sdk("openai-python-responses", "openai 3.49.0", TOOL_LOOP),
    sdk("openai-agents-chat", "openai-agents 0.24.0", TOOL_LOOP),
    sdk("openai-agents-responses", "openai-agents 0.24.0", TOOL_LOOP),
    sdk("google-genai", "google-genai 3.1.0", TOOL_LOOP),
    sdk("anthropic-python", "anthropic 2.8.0", FEATURES, program="sdk_features"),
    sdk("openai-python-chat", "openai 3.49.0", FEATURES, program="sdk_features"),
    sdk("openai-python-responses", "openai 3.49.0", FEATURES, program="sdk_features"),
    sdk("google-genai", "google-genai 3.1.0", FEATURES, program="sdk_features"),
)

RUNS = (*CLAUDE_RUNS, *CODEX_RUNS, *GEMINI_RUNS, *OPENCODE_RUNS, *SDK_RUNS)
