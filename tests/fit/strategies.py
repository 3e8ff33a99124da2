"""Random requests of the hub: any blocks in any messages, and conversations that grow as real ones do."""

from hypothesis import strategies as st

from dragoman.hub.blocks import (
    AnyBlock,
    CacheMark,
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    Tool,
    ToolCall,
    ToolDeclarations,
    ToolReference,
    ToolResult,
)
from dragoman.hub.request import EFFORTS, Message, OutputFormat, ReasoningSettings, Request, ToolChoice
from dragoman.hub.seal import Seal
from tests.fit.building import DIALECTS

words = st.sampled_from(["", " ", "a", "Hello.", "x-anthropic-billing-header: y", "<system-reminder>"])
names = st.sampled_from(["Read", "a.b", "mcp__" + "s" * 60 + "__read", "mcp__read", "shell", "", "n__a"])
call_ids = st.sampled_from(["1", "2", "call 3", "x" * 50, "dgi_ZnVuY3Rpb25zLlJlYWQ6MA", ""])
kinds = st.sampled_from(["function", "custom", "tool_search", "local_shell", "shell", "apply_patch"])
seals = st.none() | st.builds(
    Seal, issuer=st.sampled_from(DIALECTS), model=st.sampled_from(["", "m", "other"]), value=st.just("v")
)
marks = st.none() | st.just(CacheMark())
schemas: st.SearchStrategy[dict[str, object] | None] = st.sampled_from(
    [None, {}, {"type": "object"}, {"$schema": "x", "type": "object", "properties": {"a": {"const": 1}}}]
)

texts = st.builds(Text, text=words, seal=seals, cache=marks)
media = st.builds(
    Media,
    kind=st.sampled_from(["image", "document", "audio", "video"]),
    data=st.sampled_from(["", "AA"]),
    file_id=st.sampled_from(["", "f"]),
    text=st.sampled_from(["", "t"]),
)
opaques = st.builds(
    Opaque, kind=st.just("odd"), value=st.just({"type": "odd"}), text=st.sampled_from(["", "said"])
)
tools = st.builds(
    Tool,
    name=names,
    kind=st.sampled_from(["function", "custom", "shell", "tool_search", "typed", "hosted"]),
    namespace=st.sampled_from(["", "", "n"]),
    common_name=st.sampled_from(["", "bash", "web_search", "odd"]),
    description=st.none() | words,
    schema=schemas,
    strict=st.none() | st.booleans(),
    deferred=st.booleans(),
    cache=marks,
)
declarations = st.builds(ToolDeclarations, tools=st.lists(tools, max_size=2).map(tuple))
calls = st.builds(
    ToolCall,
    id=call_ids,
    name=names,
    arguments=st.sampled_from(["", "{}", '{"a":1}', "free"]),
    kind=kinds,
    namespace=st.sampled_from(["", "n"]),
    seal=seals,
)
inner: st.SearchStrategy[AnyBlock] = st.one_of(
    st.builds(Text, text=words, cache=marks),
    media,
    opaques,
    declarations,
    st.builds(ToolReference, name=names),
)
results = st.builds(
    ToolResult,
    call_id=call_ids,
    content=st.lists(inner, max_size=3).map(tuple),
    is_error=st.booleans(),
    name=st.sampled_from(["", "Read"]),
    kind=kinds,
    cache=marks,
)
blocks: st.SearchStrategy[AnyBlock] = st.one_of(
    texts,
    texts,
    calls,
    results,
    media,
    opaques,
    declarations,
    st.builds(
        Reasoning,
        parts=st.sampled_from([(), ("why",)]),
        seal=seals,
        redacted=st.booleans(),
    ),
    st.builds(Refusal, text=words),
    st.builds(HostedCall, id=call_ids, tool=st.just("web_search")),
    st.builds(HostedResult, call_id=call_ids, tool=st.just("web_search"), text=words),
)
messages = st.builds(
    Message,
    role=st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
    blocks=st.lists(blocks, max_size=4).map(tuple),
)
wishes = st.builds(
    ReasoningSettings,
    mode=st.sampled_from([None, "off", "on", "adaptive"]),
    effort=st.none() | st.sampled_from(EFFORTS),
    budget=st.none() | st.sampled_from([-1, 0, 100, 5_000, 40_000]),
    show=st.none() | st.booleans(),
)
choices = st.builds(
    ToolChoice,
    mode=st.sampled_from(["auto", "required", "none", "named", "allowed"]),
    name=names,
    allowed=st.lists(names, max_size=2).map(tuple),
    allowed_mode=st.sampled_from(["auto", "required"]),
)


def requests(dialects: tuple[str, ...] = DIALECTS) -> st.SearchStrategy[Request]:
    """Any request that a reader could make, and many that none would."""
    return st.builds(
        Request,
        dialect=st.sampled_from(dialects),
        model=st.just("m"),
        messages=st.lists(messages, max_size=6).map(tuple),
        tools=st.lists(tools, max_size=4).map(tuple),
        tool_choice=st.none() | choices,
        parallel_calls=st.none() | st.booleans(),
        max_tokens=st.none() | st.sampled_from([-1, 1, 100, 100_000]),
        stop=st.lists(st.sampled_from(["", "\n", "a", "b", "c", "d", "e"]), max_size=6).map(tuple),
        temperature=st.none() | st.sampled_from([0.0, 1.0, 1.5]),
        top_p=st.none() | st.just(0.5),
        top_k=st.none() | st.just(3),
        logprobs=st.none() | st.booleans(),
        reasoning=st.none() | wishes,
        output=st.none()
        | st.builds(
            OutputFormat, kind=st.sampled_from(["text", "json_object", "json_schema"]), schema=schemas
        ),
        verbosity=st.sampled_from(["", "low"]),
        service_tier=st.sampled_from(["", "auto", "flex", "default"]),
        cache_key=st.sampled_from(["", "k"]),
        cache=marks,
        user=st.sampled_from(["", "u", "u" * 100]),
        metadata=st.none() | st.just({"a": 1}),
    )


@st.composite
def growing_conversations(draw: st.DrawFn) -> list[tuple[Message, ...]]:
    """One conversation as it stood each time the model was asked, from first to last."""
    conversation = [
        Message(role="system", blocks=(Text(text="S"),)),
        Message(role="user", blocks=(Text(text="Hi"),)),
        *draw(st.lists(_build_user_message(), max_size=2)),
    ]
    stages = [tuple(conversation)]
    for step in range(draw(st.integers(1, 3))):
        calls, parts = draw(_build_assistant_messages(step))
        conversation += parts
        answers = draw(_answers(calls))
        conversation += answers
        if not answers or draw(st.booleans()):
            conversation.append(draw(_build_user_message()))
        stages.append(tuple(conversation))
    return stages


@st.composite
def _build_user_message(draw: st.DrawFn) -> Message:
    role = draw(st.sampled_from(["user", "user", "user", "system"]))
    blocks = tuple(
        Text(text=text) for text in draw(st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2))
    )
    return Message(role="system", blocks=blocks) if role == "system" else Message(role="user", blocks=blocks)


@st.composite
def _build_assistant_messages(draw: st.DrawFn, step: int) -> tuple[list[ToolCall], list[Message]]:
    """What one reply left in the history: in one message, or in a message for each part of it."""
    count = draw(st.integers(0, 3))
    restarts = draw(st.booleans())
    called = [
        ToolCall(id=f"call_{n}" if restarts else f"call:{step}.{n}", name="a.b", arguments="{}")
        for n in range(count)
    ]
    blocks: list[AnyBlock] = [Reasoning(parts=("why",)), Text(text="well"), *called]
    if draw(st.booleans()):
        return called, [Message(role="assistant", blocks=tuple(blocks))]
    return called, [Message(role="assistant", blocks=(block,)) for block in blocks]


@st.composite
def _answers(draw: st.DrawFn, calls: list[ToolCall]) -> list[Message]:
    """The results in any order, in one message or several; some never come, some come twice."""
    image = Media(kind="image", data="AA")
    answers = [
        ToolResult(call_id=each.id, content=(image,) if draw(st.booleans()) else (Text(text="ok"),))
        for each in draw(st.permutations(calls))
        for _ in range(draw(st.sampled_from([1, 1, 1, 0, 2])))
    ]
    if draw(st.booleans()):
        return [Message(role="tool", blocks=(answer,)) for answer in answers]
    return [Message(role="user", blocks=tuple(answers))] if answers else []
