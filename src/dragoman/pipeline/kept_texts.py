"""`KeptTexts`: the texts of remembered messages that rules can ask about. Everything here is pure."""

from collections.abc import Iterable, Sequence
from sys import getsizeof

import msgspec

from dragoman.agents.instructions import find_last_user_text
from dragoman.hub.blocks import Media, Text
from dragoman.hub.request import Message, find_block_kinds, has_image
from dragoman.tokens.request import SYSTEM_ROLES

#: All messages are kept until the conversation has both: then its beginning is complete.
_SPEAKERS = frozenset({"user", "assistant"})


class KeptTexts(msgspec.Struct, frozen=True, eq=False):
    """What is kept of the beginning of a conversation, without its leading system prompts."""

    #: The system prompts, and the first messages up to the first answer. They have only their texts.
    messages: tuple[Message, ...] = ()
    #: The last message of the user, with only its texts.
    last_user: Message | None = None
    has_images: bool = False

    def extend(self, following: Sequence[Message]) -> "KeptTexts":
        """What is kept if these messages follow."""
        messages, last_user = self.messages, self.last_user
        is_opening = not _SPEAKERS.issubset([message.role for message in messages])
        for message in following:
            if is_opening or message.role in SYSTEM_ROLES:
                messages = (*messages, _keep_texts(message))
                is_opening = not _SPEAKERS.issubset([each.role for each in messages])
        for message in reversed(following):
            if message.role == "user":
                last_user = _keep_texts(message)
                break
        has_images = self.has_images
        if not has_images and Media in find_block_kinds(following):
            has_images = any(map(has_image, following))
        return KeptTexts(messages, last_user, has_images)

    @property
    def size(self) -> int:
        """The bytes of the texts in memory."""
        return measure_texts((*self.messages, self.last_user) if self.last_user else self.messages)

    def find_last_user_text(self) -> str | None:
        """The last text of the user; None if the user has sent no message."""
        return find_last_user_text((self.last_user,)) if self.last_user else None


def measure_texts(messages: Iterable[Message]) -> int:
    """The bytes of the texts in memory. One character beyond ASCII makes a whole text take more."""
    return sum(getsizeof(block.text) for each in messages for block in each.blocks if type(block) is Text)


def _keep_texts(message: Message) -> Message:
    """The message with only its texts."""
    texts = tuple([block for block in message.blocks if type(block) is Text])
    return Message(role=message.role, blocks=texts, at=message.at)
