"""Agent sessions, made up from a seed: growing histories with edits, undo, compaction and changed tools.

`python -m tests.pipeline.sessions COUNT [FIRST]` plays so many sessions with remembered history, and compares
every request with its whole translation. Two callers and two targets share what is remembered.
"""

import random
import sys
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Iterator
from typing import Any

from dragoman import translate_request
from dragoman.config.provider import Provider
from dragoman.governance.settings import Governance
from dragoman.hub.errors import DragomanError
from dragoman.hub.seal import Seal, SealedItem, write_envelope
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.pipeline.remembered import OwnHistories, RememberedHistories
from dragoman.pipeline.target_request import TargetRequest
from tests.pipeline.session_bodies import encode_body, vary_items
from tests.pipeline.session_targets import UNGOVERNED, choose_facts, choose_governance

Json = dict[str, Any]

DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini")
MODEL = "model-1"
REQUESTS = 12

#: Names that some targets refuse, and that differ only behind the characters that they accept.
TOOLS = ("Read", "Write", "mcp__" + "server" * 12 + "__read", "a.b", "a_b", "Bash")
PADDING = "A description that makes the request as long as those of agents. " * 140
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
MARK = {"type": "ephemeral"}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": False}


def build_tool(name: str, variant: int) -> Json:
    properties = {"path": {"type": "string"}, f"option_{variant}": {"type": "integer", "$comment": "x"}}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}
    return {"name": name, "description": PADDING[:60], "input_schema": {**schema, "properties": properties}}


class Session:
    """An agent's session in Anthropic's API. Each call of `advance` changes it as agents and users do."""

    def __init__(self, seed: int, *, is_plain: bool = False) -> None:
        self._random = random.Random(seed)  # noqa: S311 (not for secrets)
        self._calls = 0
        #: Two of three sessions have none of the oddities that real agents rarely send.
        self._oddity = 0 if is_plain else self._random.choice((0, 0, 0, 0, 1, 3))
        self._marks = self._random.choice((0, 1, 2))
        #: Results that come later than the message behind their calls.
        self._late: list[Json] = []
        self._front_marks = self._random.random() < 0.2
        self.variant = 0
        self.tools = self._random.sample(TOOLS, self._random.randint(0, len(TOOLS)))
        self.settings: Json = {"max_tokens": 1000}
        self.system: object = [{"type": "text", "text": PADDING}]
        self.messages: list[Json] = [self._write_user()]
        if self._is_odd(0.1):
            self.messages.insert(0, {"role": "assistant", "content": self._words()})

    def grow(self, steps: int) -> None:
        """Add answers of the model, and what the agent and the user send after each."""
        for _ in range(steps):
            self._add_step()

    def advance(self) -> None:
        roll = self._random.random()
        self.grow(self._random.choice((1, 1, 1, 2, 5)))
        if roll < 0.08:
            self._undo()
        elif roll < 0.16:
            self._edit()
        elif roll < 0.2:
            self.messages = [self._write_user(), *self.messages[-2:]]
            self._begin_with_user()
        elif roll < 0.26:
            self.variant += 1
        elif roll < 0.3:
            self.tools = self._random.sample(TOOLS, self._random.randint(0, len(TOOLS)))
            self.settings.pop("tool_choice", None)
        elif roll < 0.36:
            self.settings = self._choose_settings()
        elif roll < 0.42:
            note = {"type": "text", "text": f"x-anthropic-billing-header: {roll}"}
            self.system = self._random.choice(
                ([note, {"type": "text", "text": PADDING}], [note], [], "", self._words() + PADDING)
            )
        elif roll < 0.48:
            self._marks = self._random.choice((0, 1, 2, 5))

    def write(self) -> Json:
        """The body of the request at this point."""
        messages = [dict(message) for message in self.messages]
        users = [message for message in messages if message["role"] == "user"]
        for message in users[max(len(users) - self._marks, 0) :] if self._marks else ():
            if message["content"] and isinstance(message["content"], list):
                last = {**message["content"][-1], "cache_control": MARK}
                message["content"] = [*message["content"][:-1], last]
        body = {"model": MODEL, "system": self.system, "messages": messages, **self.settings}
        if self.tools:
            body["tools"] = [build_tool(name, self.variant) for name in self.tools]
            body["tools"][0]["description"] = PADDING
            if self.variant % 3 == 2:
                body["tools"][-1]["defer_loading"] = True
            if self.variant % 4 == 3:
                body["tools"].append(SEARCH)
            if self._front_marks:
                body["tools"][-1]["cache_control"] = MARK
        return body

    def _add_step(self) -> None:
        calls = [self._write_call() for _ in range(self._random.choice((0, 1, 1, 1, 2, 3)))]
        content: list[Json] = []
        if self._random.random() < 0.3:
            content.append(self._write_thinking(calls))
        if self._random.random() < 0.6 or not calls:
            content.append({"type": "text", "text": self._words()})
        if self._is_odd(0.06):
            content, calls = self._write_empty(), []
        if self._is_odd(0.03):
            content += self._write_search()
        answer: list[Json] = [*content, *calls]
        parts = [answer[:1], answer[1:]] if len(answer) > 1 and self._is_odd(0.05) else [answer]
        self.messages += [{"role": "assistant", "content": part} for part in parts]
        results = [self._write_result(call) for call in calls if not self._is_odd(0.05)]
        self._random.shuffle(results)
        if self._is_odd(0.05):
            results += results[:1]
        if results and self._is_odd(0.08):
            # It comes late, or a second time.
            self._late.append(results[-1])
            results = results[: len(results) - self._random.randint(0, 1)]
        elif self._late and self._random.random() < 0.4:
            results.insert(0, self._late.pop())
        if self._is_odd(0.02):
            # The client ended the session between an answer and its results.
            return
        user = self._write_user()["content"] if not results or self._random.random() < 0.2 else []
        self.messages.append({"role": "user", "content": [*results, *user]})
        if self._is_odd(0.04):
            self.messages.append({"role": "user", "content": self._random.choice(("", " ", self._words()))})
        if self._random.random() < 0.05:
            self.messages.append({"role": "system", "content": self._words()})

    def _write_thinking(self, calls: list[Json]) -> Json:
        """Reasoning of Anthropic, or of another vendor: then an envelope has the seal."""
        if self._random.random() < 0.5:
            return {"type": "thinking", "thinking": self._words(), "signature": "c2lnbmVk"}
        seal = Seal(self._random.choice(DIALECTS), self._random.choice(("", "model-2")), "c2VhbA==")
        text = self._words()
        items = [SealedItem(kind="reasoning", seal=seal, parts=(text,))]
        if self._random.random() < 0.5:
            known = [*calls, *(block for block in self._list_blocks() if block["type"] == "tool_use")]
            call_id = self._random.choice(known[:6])["id"] if known else ""
            items.append(SealedItem(kind="call", seal=seal, call_id=call_id))
        if self._random.random() < 0.3:
            items.append(SealedItem(kind="text", seal=seal))
        return {"type": "thinking", "thinking": text, "signature": write_envelope(items)}

    def _list_blocks(self) -> list[Json]:
        """The blocks of all messages but those that are a text."""
        lists = [message["content"] for message in self.messages if isinstance(message["content"], list)]
        return [block for content in lists for block in content]

    def _write_empty(self) -> list[Json]:
        """An answer of which some targets get nothing."""
        thinking = {"type": "thinking", "thinking": self._words(), "signature": "c2lnbmVk"}
        redacted = {"type": "redacted_thinking", "data": "c2lnbmVk"}
        return self._random.choice(([thinking], [redacted], [{"type": "text", "text": ""}], []))

    def _write_search(self) -> list[Json]:
        self._calls += 1
        call = {"type": "server_tool_use", "id": f"srvtoolu_{self._calls}", "name": "web_search", "input": {}}
        result = {"type": "web_search_tool_result", "tool_use_id": call["id"], "content": []}
        return [call] if self._random.random() < 0.3 else [call, result]

    def _write_user(self) -> Json:
        content: list[Json] = [{"type": "text", "text": self._words()}]
        if self._random.random() < 0.1:
            content.insert(0, IMAGE)
        if self._is_odd(0.04):
            content = [{"type": "text", "text": " "}]
        return {"role": "user", "content": content}

    def _write_call(self) -> Json:
        self._calls += 1
        # A few ids come twice, are too long for some targets, or are encoded as the gateway does it.
        number = self._random.randint(1, self._calls) if self._is_odd(0.06) else self._calls
        call_id = f"toolu_{number}" + ("x" * 60 if self._random.random() < 0.1 else "")
        if self._is_odd(0.06):
            call_id = "dgi_" + urlsafe_b64encode(call_id.encode()).decode().rstrip("=")
        names = self.tools or list(TOOLS)
        name = self._random.choice(TOOLS if self._is_odd(0.04) else names)
        return {"type": "tool_use", "id": call_id, "name": name, "input": {"path": self._words()}}

    def _write_result(self, call: Json) -> Json:
        result: Json = {"type": "tool_result", "tool_use_id": call["id"], "content": self._words()}
        roll = self._random.random()
        if roll < 0.1:
            result["content"] = [{"type": "text", "text": self._words()}, IMAGE]
        elif roll < 0.2:
            result["is_error"] = True
        elif roll < 0.25:
            result["content"] = ""
        elif roll < 0.3:
            result["content"] = []
        elif self.tools and self._is_odd(0.05):
            name = self._random.choice(TOOLS if self._is_odd(0.3) else self.tools)
            result["content"] = [{"type": "tool_reference", "tool_name": name}]
        elif self._is_odd(0.05):
            text = {"type": "text", "text": self._words(), "cache_control": MARK, "unknown": 1}
            result["content"] = [text, {"type": "text", "text": ""}]
        return result

    def _undo(self) -> None:
        count = self._random.randint(1, len(self.messages))
        self.messages = self.messages[:count]
        self._begin_with_user()

    def _edit(self) -> None:
        """Change a message anywhere, often one of the last."""
        last = len(self.messages) - 1
        at = self._random.choice((self._random.randint(0, last), max(last - 2, 0), max(last - 3, 0)))
        message = self.messages[at]
        content = message["content"]
        roll = self._random.random()
        if self._is_odd(0.3) and message["role"] == "assistant":
            self.messages[at] = {**message, "content": self._write_empty()}
        elif self._is_odd(0.3):
            del self.messages[at]
            self._begin_with_user()
        elif roll < 0.1 and len(content) == 1 and isinstance(content, list) and "text" in content[0]:
            self.messages[at] = {**message, "content": content[0]["text"]}
        elif roll < 0.2 and isinstance(content, str):
            self.messages[at] = {**message, "content": [{"type": "text", "text": content}]}
        elif isinstance(content, list):
            texts = [{**b, "text": self._words()} if b["type"] == "text" else b for b in content]
            self.messages[at] = {**message, "content": texts}

    def _begin_with_user(self) -> None:
        while self.messages and self.messages[0]["role"] != "user":
            self.messages.pop(0)
        if not self.messages:
            self.messages.append(self._write_user())

    def _choose_settings(self) -> Json:
        settings: Json = {"max_tokens": self._random.choice((1000, 5000))}
        if self._random.random() < 0.5:
            settings["temperature"] = 0.5
        if self._random.random() < 0.3:
            settings["thinking"] = {"type": "enabled", "budget_tokens": 2000}
            settings["max_tokens"] = 5000
        if self.tools and self._random.random() < 0.4:
            named = {"type": "tool", "name": self._random.choice(self.tools)}
            choices: tuple[Json, ...] = ({"type": "auto", "disable_parallel_tool_use": True}, {"type": "any"})
            settings["tool_choice"] = self._random.choice((*choices, {"type": "none"}, named))
        if self._random.random() < 0.2:
            settings["metadata"] = {"user_id": "someone"}
        if self._random.random() < 0.2:
            settings["unknown_field"] = {"x": 1}
        if self._random.random() < 0.2:
            settings["stream"] = True
        if self._random.random() < 0.15:
            settings["output_config"] = {"format": {"type": "json_schema", "schema": SCHEMA}}
        if self._random.random() < 0.15:
            settings["output_config"] = {"effort": self._random.choice(("low", "high"))}
        if self._random.random() < 0.1:
            settings["stop_sequences"] = ["END", " "]
        return settings

    def _is_odd(self, share: float) -> bool:
        return self._oddity > 0 and self._random.random() < share * self._oddity

    def _words(self) -> str:
        words = ("the", "file", "reads", "naïve", "tokens", "and", "x = 1", '"quoted"', "日本", "\n", "end.")
        return " ".join(self._random.choice(words) for _ in range(self._random.randint(1, 12)))


def play(seed: int, source: str, requests: int = REQUESTS) -> Iterator[bytes]:
    """The requests of a session in the API `source`."""
    session = Session(seed)
    chooser = random.Random(seed)  # noqa: S311 (not for secrets)
    style = chooser.randrange(8)
    for _ in range(requests):
        session.advance()
        body: Json = session.write()
        if source != "anthropic":
            body = dict(translate_request(body, source="anthropic", target=source).body)
        vary_items(body, source, seed)
        style = chooser.randrange(8) if chooser.random() < 0.05 else style
        yield encode_body(body, source, style)


def build(
    body: bytes,
    source: str,
    target: str,
    own: OwnHistories | None,
    facts: Json | None = None,
    governance: Governance = UNGOVERNED,
) -> TargetRequest:
    """The request for a server of `target`, and whether it continues a remembered one."""
    plan = RequestPlan(RequestMetadata(dialect=source, model=MODEL if source == "gemini" else ""), body)
    plan.histories = own
    plan.peek()
    models = {"*": facts} if facts else {}
    provider = Provider(name="server", dialect=target, base_url="http://127.0.0.1:9", models=models)
    target_request = plan.build_target_request(provider, "model-2", governance=governance)
    plan.keep_history()
    return target_request


def compare_session(seed: int, source: str, target: str, counts: Counter[str]) -> None:
    """Play a session with remembered history. Every request must equal its whole translation.

    A few requests come from another caller or go to the same model with other facts and governance.
    """
    remembered = RememberedHistories(50_000_000)
    usual, others = ((choose_facts(each), choose_governance(each)) for each in (seed, seed + 1))
    chooser = random.Random(seed)  # noqa: S311 (not for secrets)
    for number, body in enumerate(play(seed, source)):
        own = OwnHistories(remembered, 1 if chooser.random() < 0.9 else 2)
        facts, governance = others if chooser.random() < 0.05 else usual
        difference = compare_request(counts, body, source, target, own, facts, governance)
        assert not difference, f"seed {seed}, {source} to {target}, request {number}: {difference}"


def compare_request(
    counts: Counter[str],
    body: bytes,
    source: str,
    target: str,
    own: OwnHistories,
    facts: Json,
    governance: Governance,
) -> str:
    """Build a request with remembered history. Returns how it differs from its whole translation.

    Also for a request that is not continued: its front is fitted to be remembered.
    """
    continued = try_build(body, source, target, own, facts, governance)
    counts["requests"] += 1
    whole = try_build(body, source, target, None, facts, governance)
    if isinstance(continued, TargetRequest) and isinstance(whole, TargetRequest):
        counts["continued"] += continued.is_continued
        counts["governed"] += continued.is_continued and not governance.is_off
        return continued.compare(whole)
    counts["refused"] += 1
    return "" if continued == whole else f"{continued} or {whole}"


def try_build(
    body: bytes,
    source: str,
    target: str,
    own: OwnHistories | None,
    facts: Json,
    governance: Governance = UNGOVERNED,
) -> TargetRequest | str:
    """The request, or the error with which it is refused."""
    try:
        return build(body, source, target, own, facts, governance)
    except DragomanError as error:
        return str(error)


def main(count: int, first: int = 0) -> None:
    pairs = [(source, target) for source in DIALECTS for target in DIALECTS if source != target]
    counts: Counter[str] = Counter()
    for seed in range(first, first + count):
        compare_session(seed, *pairs[seed % len(pairs)], counts)
    played = ", ".join(f"{counts[name]} {name}" for name in ("requests", "continued", "governed", "refused"))
    print(f"{count} sessions from seed {first}: {played}, all equal")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
