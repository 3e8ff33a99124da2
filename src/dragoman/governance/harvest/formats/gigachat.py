"""GigaChat 3: a JSON object behind a turn named `function call`; 3.1 has a token of its own for it."""

from dragoman.governance.harvest.format import Format, Opener
from dragoman.governance.harvest.json_calls import JsonBody, json_reader

READ_TURN = json_reader(JsonBody(shapes=("object",), before=("function call<|role_sep|>",)))
READ_TOKEN = json_reader(JsonBody(shapes=("object",)))

FORMATS = (
    Format(
        name="gigachat",
        models="GigaChat 3 and 3.1",
        openers=(
            Opener(marker="<|message_sep|>", read=READ_TURN, safety="A"),
            Opener(marker="<|function_call|>", read=READ_TOKEN, safety="A"),
        ),
    ),
)
