"""What fills the context window: the estimated tokens of the kinds of content in a recorded request."""

from msgspec import Struct
from msgspec.structs import replace

from dragoman.config.config import Config
from dragoman.dialects.interfaces import Tokenizer
from dragoman.dialects.registry import dialect_named
from dragoman.hub.blocks import AnyBlock, HostedResult, ToolResult
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request
from dragoman.pipeline.bodies import read_object
from dragoman.tokens.request import SYSTEM_ROLES, estimate_from_samples
from dragoman.tokens.tokenizers import find_tokenizer

#: Kinds of content, in the order in which they are shown. `results`: of tools.
KINDS = ("system", "tools", "user", "answers", "results")


class ContextUse(Struct, frozen=True, kw_only=True):
    """The estimated tokens of a prompt by kind, and the context window of the model; None: unknown."""

    parts: dict[str, int]
    total: int
    window: int | None = None


def measure_context(config: Config, body: bytes, *, client: str, model: str, target: str) -> ContextUse:
    """Estimate what a client's request fills with the tokenizer of the target. `client` is its dialect."""
    provider, _, name = target.partition("/")
    found = config.providers.get(provider)
    tokenizer = find_tokenizer(name or model, found.wire_dialect if found else client)
    request = dialect_named(client).read_request(read_object(body), Losses(), model=model, stream=False)
    parts = estimate_kinds(request, tokenizer)
    window = found.build_profile(name).facts.context_tokens if found and name else 0
    return ContextUse(parts=parts, total=sum(parts.values()), window=window or None)


def estimate_kinds(request: Request, tokenizer: Tokenizer) -> dict[str, int]:
    """The estimated tokens of each kind of content; 0 if the request has none."""
    messages: dict[str, list[Message]] = {kind: [] for kind in KINDS}
    for message in request.messages:
        blocks: dict[str, list[AnyBlock]] = {}
        for block in message.blocks:
            blocks.setdefault(_find_kind(message, block), []).append(block)
        for kind, some in blocks.items():
            messages[kind].append(replace(message, blocks=tuple(some)))
    plain = replace(request, messages=(), tools=(), tool_choice=None, output=None)
    requests = {kind: replace(plain, messages=tuple(some)) for kind, some in messages.items() if some}
    if request.tools:
        requests["tools"] = replace(plain, tools=request.tools)
    return {
        kind: estimate_from_samples(requests[kind], tokenizer) if kind in requests else 0 for kind in KINDS
    }


def _find_kind(message: Message, block: AnyBlock) -> str:
    if isinstance(block, (ToolResult, HostedResult)):
        return "results"
    if message.role in SYSTEM_ROLES:
        return "system"
    return "answers" if message.role == "assistant" else "user"
