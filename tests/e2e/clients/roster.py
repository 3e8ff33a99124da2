"""Every client that the matrix runs, and with which upstreams."""

from tests.e2e.clients.claude import AGENT_SDK, CLAUDE_CODE, CLAUDE_CODE_SONNET
from tests.e2e.clients.client import Client
from tests.e2e.clients.codex import CODEX_ON_SOCKETS, CODEX_PATCHING, CODEX_PLAIN, CODEX_SCRIPTING
from tests.e2e.clients.gemini import GEMINI_CLI, GEMINI_CLI_OLDER
from tests.e2e.clients.js_apps import AI_SDK_APPS, JS_APPS
from tests.e2e.clients.opencode import OPENCODE
from tests.e2e.clients.python_apps import PYTHON_APPS
from tests.e2e.clients.stored_apps import STORED_APPS
from tests.e2e.upstream.reply_writers.registry import DIALECTS

OPENCODE_ON_CHAT, OPENCODE_ON_ANTHROPIC, OPENCODE_ON_RESPONSES, OPENCODE_ON_GEMINI = OPENCODE
AGENTS = (CLAUDE_CODE, CODEX_PLAIN, CODEX_PATCHING, CODEX_SCRIPTING, GEMINI_CLI, OPENCODE_ON_CHAT)

#: What is run with every upstream dialect.
EVERYWHERE = (
    *AGENTS,
    *CODEX_ON_SOCKETS,
    CLAUDE_CODE_SONNET,
    AGENT_SDK,
    *PYTHON_APPS,
    *STORED_APPS,
    *JS_APPS,
    *AI_SDK_APPS,
)

#: Slow ones whose way of speaking is already covered by a faster client: one foreign upstream each.
SAMPLED = (
    (GEMINI_CLI_OLDER, "anthropic"),
    (OPENCODE_ON_ANTHROPIC, "gemini"),
    (OPENCODE_ON_RESPONSES, "anthropic"),
    (OPENCODE_ON_GEMINI, "openai_responses"),
)
PAIRS: tuple[tuple[Client, str], ...] = (
    *((client, dialect) for client in EVERYWHERE for dialect in DIALECTS),
    *SAMPLED,
)

#: One client to each dialect that is forwarded without a change.
FORWARDED = (CLAUDE_CODE, CODEX_PATCHING, GEMINI_CLI, AI_SDK_APPS[1], *STORED_APPS[:2])
