"""The front of a request: everything but its conversation, as it was read, fitted and written.

Requests of one conversation have the same front, so it is fitted and written once and remembered.
"""

import msgspec

from dragoman.dialects.dialect import Dialect
from dragoman.dialects.registry import dialect_named
from dragoman.fit.front import FittedFront
from dragoman.hub.blocks import CacheMark, Text, Tool
from dragoman.hub.loss import Loss, Losses
from dragoman.hub.request import Message, Request
from dragoman.pipeline.outline import strip_tools
from dragoman.providers.profile import TargetFacts
from dragoman.tokens.request import (
    SMALL_PROMPT,
    PromptSample,
    count_leading_messages,
    sample_front,
    sample_messages,
)
from dragoman.tokens.tokenizers import ToolsForm
from dragoman.wire.fields import encode

#: What objects take in memory beside the bytes that they hold, roughly.
OVERHEAD = 1_000
#: Tools as Python objects take several times the bytes of their JSON.
TOOL_FACTOR = 6

#: The text and the path of the placeholder. No path of a client's body contains a space.
_NAME = "remembered turns"
#: Stands for the remembered turns of a conversation while the rest is translated.
PLACEHOLDER = Message(role="user", blocks=(Text(text=_NAME),), at=_NAME)
_MARKED_PLACEHOLDER = Message(role="user", blocks=(Text(text=_NAME, cache=CacheMark()),), at=_NAME)


class Front(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Everything of a request but its conversation: as it was fitted and written."""

    outline_tools: tuple[Tool, ...]
    fitted: FittedFront
    #: The fitted request; of the messages, the leading instructions and a placeholder.
    request: Request
    #: The JSON before and after the written turns.
    head: bytes
    tail: bytes
    losses: tuple[Loss, ...]
    #: The samples for token estimates: of the settings and tools, and of these system prompts.
    sample: PromptSample
    system: tuple[Message, ...]
    system_sample: PromptSample

    def join_sample(self, conversation: PromptSample | None) -> PromptSample | None:
        """The token sample of the prompt with this conversation.

        None if that of the conversation is not known, or if the prompt is so small that all of it is sampled.
        """
        if conversation is None:
            return None
        sample = self.sample + self.system_sample + conversation
        return sample if sample.length > SMALL_PROMPT else None

    @property
    def size(self) -> int:
        """The bytes in memory, without the tools."""
        return len(self.head) + len(self.tail) + OVERHEAD

    @property
    def tools_size(self) -> int:
        """The bytes of the tools in memory, which conversations with the same `fitted` share."""
        return TOOL_FACTOR * (len(self.head) + len(self.tail))


def _replace_messages(fitted: Request, messages: tuple[Message, ...]) -> Request:
    """The request with other messages, and without what only a writer of the client's dialect uses."""
    return msgspec.structs.replace(fitted, messages=messages, extras={}, form="")


class FrontWriter:
    """Writes the front of requests to one target."""

    def __init__(self, facts: TargetFacts) -> None:
        self._facts = facts
        self._dialect: Dialect = dialect_named(facts.dialect)

    def build(
        self, request: Request, front: FittedFront, sent: Request, count: int, tools_as: ToolsForm
    ) -> Front | None:
        """The front of a conversation that begins; None if cache marks in the conversation change it.

        `request` is the client's, `sent` the one that is written; it has `count` leading instructions.
        """
        system = request.messages[: count_leading_messages(request.messages)]
        plain = _replace_messages(sent, (*sent.messages[:count], PLACEHOLDER))
        written = self._write(plain)
        if written is None:
            return None
        head, tail, losses = written
        return Front(
            outline_tools=strip_tools(request.tools),
            fitted=front,
            request=plain,
            head=head,
            tail=tail,
            losses=losses,
            # Without tools that open messages declare: an undo removes them.
            sample=sample_front(_replace_messages(request, ()), tools_as),
            system=system,
            system_sample=sample_messages(system),
        )

    def update(self, front: Front, asked: Request, sent: Request, count: int) -> Front | None:
        """The front of this request: the same, unless a setting or a system prompt differs.

        None if cache marks in the conversation change it.
        """
        system = asked.messages[: count_leading_messages(asked.messages)]
        if system != front.system:
            front = msgspec.structs.replace(front, system=system, system_sample=sample_messages(system))
        request = _replace_messages(sent, (*sent.messages[:count], PLACEHOLDER))
        if request == front.request:
            return front
        written = self._write(request)
        if written is None:
            return None
        head, tail, losses = written
        return msgspec.structs.replace(front, request=request, head=head, tail=tail, losses=losses)

    def _write(self, request: Request) -> tuple[bytes, bytes, tuple[Loss, ...]] | None:
        """The JSON before and after the conversation, and the losses of writing it.

        None if cache marks in the conversation change it. The last message is the placeholder.
        """
        head, tail, losses = self._write_around(request)
        marked = msgspec.structs.replace(request, messages=(*request.messages[:-1], _MARKED_PLACEHOLDER))
        return (head, tail, losses) if (head, tail) == self._write_around(marked)[:2] else None

    def _write_around(self, request: Request) -> tuple[bytes, bytes, tuple[Loss, ...]]:
        """The JSON before and after the placeholder, and the losses of writing it."""
        losses = Losses()
        body = self._dialect.write_request(request, self._facts, losses)
        member = self._dialect.history.conversation
        names = list(body)
        place = names.index(member)
        leading = encode(body[member])
        # The placeholder is the last item.
        items = encode(self._dialect.write_messages(request, request.messages[-1:], self._facts, losses))
        before = encode({name: body[name] for name in names[:place]})[1:-1]
        after = encode({name: body[name] for name in names[place + 1 :]})[1:]
        head = b"{%b%b:%b" % (before + b"," if before else b"", encode(member), leading[: 1 - len(items)])
        return head, (b"]," if len(after) > 1 else b"]") + after, losses.as_tuple()
