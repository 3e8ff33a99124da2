"""A lower bound of the prompt tokens of a request, for decisions that must not be wrong.

The estimate of an unusual text may be far too high: of one that repeats a short pattern, or for a model whose
tokenizer is unknown. So half of the estimate counts, a run of one character counts as two, and of all
tokenizers of models the one with the fewest tokens decides. What some vendor does not count or does not see
is left out: media, the reasoning of earlier messages, blocks of one vendor, the schemas of tools.
"""

import re
from collections.abc import Iterable, Iterator

from dragoman.hub.blocks import AnyBlock, Refusal, Text, ToolCall, ToolResult
from dragoman.hub.request import Request
from dragoman.tokens.text import TOKENIZERS, estimate_text_tokens

#: The estimate is at most this many times the true count.
SAFETY = 2

#: Tokenizers have single tokens for long runs of spaces, dashes and line ends.
_RUN = re.compile(r"(.)\1{3,}", re.DOTALL)


def find_lower_bound(request: Request) -> int:
    """The smallest number of tokens that the prompt can have with any model."""
    texts = [text for message in request.messages for text in _list_texts(message.blocks)]
    texts += (tool.description or "" for tool in request.tools if not tool.deferred)
    text = _RUN.sub(r"\1\1", "\n".join(texts))
    return int(min(estimate_text_tokens(text, tokenizer) for tokenizer in TOKENIZERS) / SAFETY)


def _list_texts(blocks: Iterable[AnyBlock]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Text | Refusal):
            yield block.text
        elif isinstance(block, ToolCall):
            yield block.arguments
        elif isinstance(block, ToolResult):
            yield from _list_texts(block.content)
