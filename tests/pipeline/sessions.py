"""Agent sessions, made up from a seed: growing histories with edits, undo, compaction and changed tools.

`python -m tests.pipeline.sessions COUNT [FIRST]` plays so many sessions with remembered history, and compares
every request with its whole translation.
"""

import random
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from dragoman import translate_request
from dragoman.config.provider import Provider
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.pipeline.remembered import OwnHistories, RememberedHistories
from dragoman.pipeline.target_request import TargetRequest

DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini")
MODEL = "model-1"
REQUESTS = 12

Json = dict[str, Any]

#: Names that some targets refuse, and that differ only behind the characters that they accept.
TOOLS = ("Read", "Write", "mcp__" + "server" * 12 + "__read", "a.b", "a_b", "Bash")
PADDING = "A description that makes the request as long as those of agents. " * 140
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
MARK = {"type": "ephemeral"}


def build_tool(name: str, variant: int) -> Json:
    properties = {"path": {"type": "string"}, f"option_{variant}": {"type": "integer", "$comment": "x"}}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}
    return {"name": name, "description": PADDING[:60], "input_schema": {**schema, "properties": properties}}


class Session:
    """An agent's session in Anthropic's API. Each call of `advance` changes it as agents and users do."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 (not for secrets)
        self._calls = 0
        #: Two of three sessions have none of the oddities that real agents rarely send.
        self._oddity = self._random.choice((0, 0, 1))
        self._marks = self._random.choice((0, 1, 2))
        self.variant = 0
        self.tools = self._random.sample(TOOLS, self._random.randint(0, len(TOOLS)))
        self.settings: Json = {"max_tokens": 1000}
        self.system: object = [{"type": "text", "text": PADDING}]
        self.messages: list[Json] = [self._write_user()]

    def advance(self) -> None:
        roll = self._random.random()
        for _ in range(self._random.choice((1, 1, 1, 2, 5))):
            self._add_step()
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
        elif roll < 0.36:
            self.settings = self._choose_settings()
        elif roll < 0.42:
            note = {"type": "text", "text": f"x-anthropic-billing-header: {roll}"}
            self.system = [note, {"type": "text", "text": PADDING}]

    def write(self) -> Json:
        """The body of the request at this point."""
        messages = [dict(message) for message in self.messages]
        users = [message for message in messages if message["role"] == "user"]
        for message in users[len(users) - self._marks :]:
            message["content"] = [*message["content"][:-1], {**message["content"][-1], "cache_control": MARK}]
        body = {"model": MODEL, "system": self.system, "messages": messages, **self.settings}
        if self.tools:
            body["tools"] = [build_tool(name, self.variant) for name in self.tools]
            body["tools"][0]["description"] = PADDING
        return body

    def _add_step(self) -> None:
        calls = [self._write_call() for _ in range(self._random.choice((0, 1, 1, 1, 2, 3)))]
        content: list[Json] = []
        if self._random.random() < 0.3:
            content.append({"type": "thinking", "thinking": self._words(), "signature": "c2lnbmVk"})
        if self._random.random() < 0.6 or not calls:
            content.append({"type": "text", "text": self._words()})
        if self._is_odd(0.03):
            content = [{"type": "thinking", "thinking": self._words(), "signature": "c2lnbmVk"}]
            calls = []
        self.messages.append({"role": "assistant", "content": [*content, *calls]})
        results = [self._write_result(call) for call in calls if not self._is_odd(0.05)]
        self._random.shuffle(results)
        if self._is_odd(0.05):
            results += results[:1]
        user = self._write_user()["content"] if not results or self._random.random() < 0.2 else []
        self.messages.append({"role": "user", "content": [*results, *user]})
        if self._random.random() < 0.05:
            self.messages.append({"role": "system", "content": self._words()})

    def _write_user(self) -> Json:
        content: list[Json] = [{"type": "text", "text": self._words()}]
        if self._random.random() < 0.1:
            content.insert(0, IMAGE)
        if self._is_odd(0.04):
            content = [{"type": "text", "text": " "}]
        return {"role": "user", "content": content}

    def _write_call(self) -> Json:
        self._calls += 1
        # A few ids come twice, or are too long for some targets.
        number = 1 if self._is_odd(0.04) else self._calls
        call_id = f"toolu_{number}" + ("x" * 60 if self._random.random() < 0.1 else "")
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
        return result

    def _undo(self) -> None:
        count = self._random.randint(1, len(self.messages))
        self.messages = self.messages[:count]
        self._begin_with_user()

    def _edit(self) -> None:
        at = self._random.randrange(len(self.messages))
        message = self.messages[at]
        if isinstance(message["content"], list):
            texts = [{**b, "text": self._words()} if b["type"] == "text" else b for b in message["content"]]
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
            settings["tool_choice"] = {"type": self._random.choice(("auto", "any", "none"))}
        if self._random.random() < 0.2:
            settings["metadata"] = {"user_id": "someone"}
        if self._random.random() < 0.2:
            settings["unknown_field"] = {"x": 1}
        return settings

    def _is_odd(self, share: float) -> bool:
        return self._oddity > 0 and self._random.random() < share

    def _words(self) -> str:
        words = ("the", "file", "reads", "naïve", "tokens", "and", "x = 1", '"quoted"', "日本", "\n", "end.")
        return " ".join(self._random.choice(words) for _ in range(self._random.randint(1, 12)))


def play(seed: int, source: str, requests: int = REQUESTS) -> Iterator[bytes]:
    """The requests of a session in the API `source`."""
    session = Session(seed)
    for _ in range(requests):
        session.advance()
        body: Json = session.write()
        if source != "anthropic":
            body = dict(translate_request(body, source="anthropic", target=source).body)
        yield msgspec.json.encode(body)


def build(body: bytes, source: str, target: str, own: OwnHistories | None) -> TargetRequest:
    """The request for a server of `target`, and whether it continues a remembered one."""
    plan = RequestPlan(RequestMetadata(dialect=source, model=MODEL if source == "gemini" else ""), body)
    plan.histories = own
    plan.peek()
    provider = Provider(name="server", dialect=target, base_url="http://127.0.0.1:9")
    target_request = plan.build_target_request(provider, "model-2")
    plan.keep_history()
    return target_request


def compare_session(seed: int, source: str, target: str, counts: Counter[str]) -> None:
    """Play a session with remembered history. Every request must equal its whole translation."""
    own = OwnHistories(RememberedHistories(50_000_000), "caller")
    for number, body in enumerate(play(seed, source)):
        continued = build(body, source, target, own)
        whole = build(body, source, target, None)
        counts["requests"] += 1
        counts["continued"] += continued.is_continued
        difference = continued.compare(whole)
        assert not difference, f"seed {seed}, {source} to {target}, request {number}: {difference}"


def main(count: int, first: int = 0) -> None:
    pairs = [(source, target) for source in DIALECTS for target in DIALECTS if source != target]
    counts: Counter[str] = Counter()
    for seed in range(first, first + count):
        compare_session(seed, *pairs[seed % len(pairs)], counts)
    played = f"{counts['requests']} requests, {counts['continued']} continued, all equal"
    print(f"{count} sessions from seed {first}: {played}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
