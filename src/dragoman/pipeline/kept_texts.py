"""`KeptTexts`: the texts of remembered messages that rules can ask about. Everything here is pure."""

from collections.abc import Iterable

import msgspec

from dragoman.hub.blocks import Text
from dragoman.hub.request import Message, has_image
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
    #: The characters of the texts.
    size: int = 0

    def extend(self, following: Iterable[Message]) -> "KeptTexts":
        """What is kept if these messages follow."""
        messages, last_user, has_images = list(self.messages), self.last_user, self.has_images
        roles = {message.role for message in messages}
        for message in following:
            has_images = has_images or has_image(message)
            is_opening = not roles >= _SPEAKERS
            if not is_opening and message.role not in ("user", *SYSTEM_ROLES):
                continue
            texts = tuple(block for block in message.blocks if isinstance(block, Text))
            shortened = msgspec.structs.replace(message, blocks=texts, extras={})
            if message.role == "user":
                last_user = shortened
            if is_opening or message.role in SYSTEM_ROLES:
                messages.append(shortened)
                roles.add(message.role)
        known = [*messages, last_user] if last_user else messages
        size = sum(len(block.text) for each in known for block in each.blocks if isinstance(block, Text))
        return KeptTexts(tuple(messages), last_user, has_images, size)

    def list_messages(self) -> tuple[Message, ...]:
        """The kept messages in their order. The last one of the user comes last."""
        last = self.last_user
        if last is None or any(message is last for message in self.messages):
            return self.messages
        return (*self.messages, last)
