"""Short conversations of messages that fit changes, merges or removes, made up from a seed.

`python -m tests.pipeline.small_conversations COUNT [FIRST]` sends the requests of so many conversations with
remembered history, and compares every request with its whole translation. The requests of a conversation
have the same beginning and different ends, as after an undo. Long sessions: `tests.pipeline.sessions`.
"""

import random
import sys
from collections import Counter
from typing import Any
from unittest.mock import patch

import msgspec

from dragoman import translate_request
from dragoman.dialects.registry import dialect_named
from dragoman.governance.settings import Governance
from dragoman.hub.errors import DragomanError
from dragoman.pipeline import body_parts
from dragoman.pipeline.remembered import OwnHistories, RememberedHistories
from tests.pipeline.session_bodies import vary_items
from tests.pipeline.session_targets import choose_facts, choose_governance
from tests.pipeline.sessions import DIALECTS, IMAGE, MARK, PADDING, build_tool, compare_request

Json = dict[str, Any]

THINKING = {"type": "thinking", "thinking": "x", "signature": "c2lnbmVk"}
REFERENCE = {"type": "tool_reference", "tool_name": "Later"}


def _say(role: str, *content: Json | str) -> Json:
    blocks = [{"type": "text", "text": each} if isinstance(each, str) else each for each in content]
    return {"role": role, "content": blocks}


def _mark(text: str) -> Json:
    return {"type": "text", "text": text, "cache_control": MARK}


def _call(call_id: str, name: str = "Read") -> Json:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}


def _answer(call_id: str, content: object = "done") -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def _list_messages() -> list[Json]:
    """Messages that a conversation is made of. An id `dgi_YQ` means `a` at the target."""
    found: Json = {"type": "web_search_tool_result", "content": []}
    hosted: Json = {"type": "server_tool_use", "name": "web_search", "input": {}}
    messages = [_say("user", text) for text in ("Hi.", "Go.", " ")]
    messages += [_say("assistant", text) for text in ("One.", "Two.", "")]
    messages += [_say("assistant", THINKING), _say("assistant"), _say("assistant", THINKING, "Three.")]
    messages += [{"role": "system", "content": "Note."}, _say("user", IMAGE, "See."), _say("user")]
    messages += [_say("user", _mark("Marked.")), _say("assistant", _mark("Marked."))]
    messages += [_say("assistant", _call("a"), _call("b")), _say("user", _answer("a"), _answer("b"))]
    messages.append(_say("user", _answer("a", [REFERENCE])))
    for call_id in ("a", "b"):
        searched = [{**hosted, "id": call_id}, {**found, "tool_use_id": call_id}]
        messages += [_say("assistant", _call(call_id)), _say("user", _answer(call_id))] * 2
        messages += [_say("assistant", "x", _call(call_id)), _say("user", _answer(call_id), "and")]
        messages += [_say("user", _answer(call_id, content)) for content in ([IMAGE], [_mark("y")])]
        messages += [_say("assistant", *searched[:1]), _say("assistant", *searched, "Found.")]
        messages += [_say("assistant", *searched[1:]), _say("assistant", _call(call_id, "Undeclared"))]
    return [*messages, _say("assistant", _call("dgi_YQ")), _say("user", _answer("dgi_YQ"))]


MESSAGES = _list_messages()
BEGINNINGS = [_say("user", "Begin."), _say("user", " "), _say("user", PADDING)]


class Conversation:
    """The client and the target of a conversation, and its requests."""

    def __init__(self, seed: int) -> None:
        self._random = chooser = random.Random(seed)  # noqa: S311 (not for secrets)
        self.source, self.target = chooser.sample(DIALECTS, 2)
        self.facts = choose_facts(seed)
        self.governance = choose_governance(seed) if chooser.random() < 0.3 else Governance()
        self._seed = seed
        settings: Json = {"model": "m", "max_tokens": 10}
        roll = chooser.random()
        if roll < 0.7:
            settings["tools"] = [build_tool("Read", 0)]
        if roll < 0.2:
            settings["tools"].append({**build_tool("Later", 0), "defer_loading": True})
        if roll < 0.7 and chooser.random() < 0.2:
            settings["tool_choice"] = {"type": chooser.choice(("none", "any"))}
        begun = [chooser.choice([*BEGINNINGS, chooser.choice(MESSAGES)]), *self._choose(0, 6)]
        continued = [*begun, *self._choose(1, 4)]
        ends = [[*begun, *self._choose(1, 4)], continued, [*continued, *self._choose(1, 3)]]
        self.requests = [self._add_system({**settings, "messages": messages}) for messages in ends]

    def _choose(self, least: int, most: int) -> list[Json]:
        return self._random.choices(MESSAGES, k=self._random.randint(least, most))

    def _add_system(self, request: Json) -> Json:
        systems = ("Be brief.", "Be long.", [_mark("Be.")])
        return {**request, "system": self._random.choice(systems)} if self._random.random() < 0.3 else request

    def list_bodies(self) -> list[bytes]:
        """The requests in the client's API, up to the first that this API cannot express."""
        bodies: list[bytes] = []
        for request in self.requests:
            body = request
            if self.source != "anthropic":
                try:
                    body = dict(translate_request(request, source="anthropic", target=self.source).body)
                except DragomanError:
                    break
            if body[dialect_named(self.source).history.conversation]:
                vary_items(body, self.source, self._seed)
            bodies.append(msgspec.json.encode(body))
        return bodies


def compare_conversation(seed: int, counts: Counter[str]) -> None:
    """Send the requests with remembered history. Each must equal its whole translation."""
    conversation = Conversation(seed)
    own = OwnHistories(RememberedHistories(1_000_000), "caller")
    place = (conversation.source, conversation.target)
    with patch.object(body_parts, "MIN_BODY", 0):
        for number, body in enumerate(conversation.list_bodies()):
            settings = (conversation.facts, conversation.governance)
            difference = compare_request(counts, body, *place, own, *settings)
            assert not difference, f"seed {seed}, {place}, request {number}: {difference}"


def main(count: int, first: int = 0) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + count):
        compare_conversation(seed, counts)
    sent = ", ".join(f"{counts[name]} {name}" for name in ("requests", "continued", "refused"))
    print(f"{count} conversations from seed {first}: {sent}, all equal")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
