"""Command A and R7B: a JSON list between action tokens; the answer stands between response tokens."""

from dragoman.governance.harvest.format import Format, Opener, Reasoning
from dragoman.governance.harvest.json_calls import JsonBody, json_reader

MARKER = "<|START_ACTION|>"
READ = json_reader(
    JsonBody(shapes=("list",), closers=("<|END_ACTION|>",), barred=(MARKER,), names=("tool_name", "name"))
)

FORMATS = (
    Format(
        name="command",
        models="Command A, Command R7B",
        openers=(Opener(marker=MARKER, read=READ, safety="A"),),
        reasoning=(
            Reasoning(
                opens="<|START_THINKING|>",
                closes="<|END_THINKING|>",
                wraps=(("<|START_RESPONSE|>", "<|END_RESPONSE|>"),),
            ),
        ),
    ),
)
