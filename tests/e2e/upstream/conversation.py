"""One client's talk with the pretended model: its script, and everything that reached the upstream.

A conversation is recognised by its key, a word that stands in the user's prompt; so many clients can talk
to one upstream at once, whatever model they ask for.
"""

import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tests.e2e.upstream.checks.rules import Checked
from tests.e2e.upstream.script import Grip, Manner, Step

Json = dict[str, Any]
KEY = re.compile(rb"conversation-[0-9a-z]+")


class Received(msgspec.Struct, kw_only=True):
    """A request as it arrived. `is_main`: it is a turn of the agent, not a side call."""

    provider: str
    dialect: str
    path: str
    headers: dict[str, str]
    raw: bytes
    body: Json
    is_main: bool = False
    checked: Checked | None = None
    #: Why the vendor refused it, if it did.
    refusal: str = ""
    #: The client went away before the reply was complete.
    left: bool = False


class Conversation:
    def __init__(
        self,
        key: str,
        steps: Sequence[Step] | Mapping[str, Sequence[Step]],
        grips: Mapping[str, Grip],
        manner: Manner | None = None,
    ) -> None:
        """`steps` answer any provider's requests; where providers differ, each has its own."""
        self.key = key
        self.grips = grips
        self.manner = manner or Manner()
        self._steps = steps
        self._taken: dict[str, int] = {}
        self._lock = threading.Lock()
        self.received: list[Received] = []
        #: What went wrong in the script itself, such as an undeclared tool.
        self.problems: list[str] = []

    def next_step(self, provider: str) -> Step:
        if isinstance(self._steps, Mapping):
            steps, counter = self._steps[provider], provider
        else:
            steps, counter = self._steps, ""
        with self._lock:
            taken = self._taken.get(counter, 0)
            self._taken[counter] = taken + 1
        return steps[min(taken, len(steps) - 1)]

    @property
    def turns(self) -> list[Received]:
        return [received for received in self.received if received.is_main]

    @property
    def refusals(self) -> list[str]:
        return [received.refusal for received in self.received if received.refusal]

    def from_provider(self, provider: str) -> list[Received]:
        return [received for received in self.received if received.provider == provider]
