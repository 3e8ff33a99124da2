"""The log line of an exchange for a terminal: one short line instead of all fields.

    06:03:11 ✓ claude-cli  claude-opus-5-5 → ollama/qwen3-coder  11.4k → 37 tokens  first token 0.8 s, 1.2 s

Losses are shown once for each agent and target. Agents send some fields with every request that no other API
has; their loss has no consequence, and is not shown at all (`HARMLESS`). Other forms of the log have all.
"""

import re
from collections.abc import Iterator, Mapping

#: By the beginning of the agent's name: paths of losses that every request of the agent has, without indexes.
HARMLESS: dict[str, frozenset[str]] = {
    # Thinking of earlier messages, the effort of each message, a billing note, and marks for the prompt
    # cache.
    "claude-cli": frozenset({"context_management", "messages.output_config.effort", "system", "messages"}),
    # The ids of its session, titles of groups of tools, and the length of answers.
    "codex": frozenset({"client_metadata", "reasoning.context", "input.tools.description", "text.verbosity"}),
    "GeminiCLI": frozenset({"generationConfig.topK"}),
}

_GREEN, _YELLOW, _RED, _DIM = "32", "33", "31", "2"
_INDEX = re.compile(r"\[\d+\]|\d+")
#: Agents, targets and losses in memory. It is bounded because clients choose the names.
MAX_SEEN = 2000
#: Characters of an error and of a list of losses.
MAX_ERROR = 300
MAX_LOST = 120
#: Dollars. A smaller cost would be shown as $0.0000.
LEAST_COST = 0.0001


class ShortLine:
    """Formats exchanges. It remembers the losses that it has shown."""

    def __init__(self, *, has_colours: bool) -> None:
        self._has_colours = has_colours
        self._seen: set[tuple[str, str, str]] = set()

    def format(self, fields: Mapping[str, object]) -> str:
        """The line of an exchange without the time. `fields` are those of the record."""
        is_finished = fields.get("ending") == "finished"
        mark = self._paint("✓", _GREEN) if is_finished else self._paint("✗", _RED)
        agent = re.split(r"[/ ]", str(fields.get("agent", "")), maxsplit=1)[0] or str(
            fields.get("client", "")
        )
        model, target = str(fields.get("model", "")), str(fields.get("target", ""))
        path = model if target in ("", model) else f"{model} → {target}"
        parts = [f"{mark} {agent}", path, *filter(None, self._describe(fields))]
        return "  ".join(parts)

    def _describe(self, fields: Mapping[str, object]) -> Iterator[str]:
        yield _format_tokens(fields)
        yield _format_cost(fields)
        yield _format_times(fields)
        yield _count(fields.get("tools"), "tool call")
        yield _count(fields.get("changes"), "change")
        failed = fields.get("failed")
        yield self._paint(f"after {failed}", _YELLOW) if failed else ""
        lost = self._list_new_losses(fields)
        yield self._paint(f"lost: {lost}", _DIM) if lost else ""
        if fields.get("ending") != "finished":
            error = str(fields.get("error", ""))[:MAX_ERROR]
            status = fields.get("status") or ""
            yield self._paint(f"{fields.get('ending')} {status} {error}".replace("  ", " ").rstrip(), _RED)

    def _list_new_losses(self, fields: Mapping[str, object]) -> str:
        agent, target = str(fields.get("agent", "")), str(fields.get("target", ""))
        harmless = next((paths for name, paths in HARMLESS.items() if agent.startswith(name)), frozenset())
        shown = []
        for loss in str(fields.get("lost", "")).split("; "):
            path, separator, _ = loss.partition(":")
            general = _INDEX.sub("", path)
            seen = (agent, target, general)
            # The last part of a long list has no path: "and 3 more".
            is_new = separator and general not in harmless and seen not in self._seen
            if is_new and len(self._seen) < MAX_SEEN:
                self._seen.add(seen)
                shown.append(path)
        text = ", ".join(dict.fromkeys(shown))
        return text if len(text) <= MAX_LOST else f"{text[:MAX_LOST]}…"

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._has_colours else text


def _format_tokens(fields: Mapping[str, object]) -> str:
    sent, received = fields.get("input"), fields.get("output")
    if not isinstance(sent, int) and not isinstance(received, int):
        return ""
    cached = fields.get("cached")
    share = f" ({_shorten(cached)} cached)" if isinstance(cached, int) and cached else ""
    return f"{_shorten(sent)}{share} → {_shorten(received)} tokens"


def _format_cost(fields: Mapping[str, object]) -> str:
    """The cost in dollars, or `free` for a price of 0. Empty without a price, or if nothing was used."""
    cost = fields.get("cost")
    if not isinstance(cost, float):
        return ""
    if not cost:
        return "free" if fields.get("input") or fields.get("output") else ""
    return f"${cost:.4f}" if cost >= LEAST_COST else f"<${LEAST_COST:.4f}"


def _shorten(number: object) -> str:
    if not isinstance(number, int):
        return "?"
    return f"{number / 1000:.1f}k" if number >= 1000 else str(number)


def _format_times(fields: Mapping[str, object]) -> str:
    first, seconds = fields.get("first_token"), fields.get("seconds")
    begins = f"first token {first:.1f} s, " if isinstance(first, float) else ""
    return f"{begins}{seconds:.1f} s" if isinstance(seconds, float | int) else ""


def _count(number: object, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}" if isinstance(number, int) and number else ""
