"""The next parameter ends a value whose closing tag is missing."""

import msgspec
import pytest

from dragoman.hub.blocks import ToolCall
from tests.governance.harvest.running import cut, harvested

#: A call of `search` with a query and a limit, and no closing tag behind the query. `%s` is the query.
TEXTS = {
    "qwen3_coder": "<tool_call>\n<function=search>\n<parameter=query>\n%s\n"
    "<parameter=limit>\n5\n</parameter>\n"
    "</function>\n</tool_call>",
    "glm": "<tool_call>search<arg_key>query</arg_key><arg_value>%s"
    "<arg_key>limit</arg_key><arg_value>5</arg_value></tool_call>",
    "minimax_m2": '</think><minimax:tool_call><invoke name="search"><parameter name="query">%s'
    '<parameter name="limit">5</parameter></invoke></minimax:tool_call>',
    "deepseek_v32": '<\uff5cDSML\uff5cfunction_calls><\uff5cDSML\uff5cinvoke name="search">'
    '<\uff5cDSML\uff5cparameter name="query" string="true">%s'
    '<\uff5cDSML\uff5cparameter name="limit" string="false">5</\uff5cDSML\uff5cparameter>'
    "</\uff5cDSML\uff5cinvoke></\uff5cDSML\uff5cfunction_calls>",
    "minicpm5": '<function name="search"><param name="query">%s<param name="limit">5</param></function>',
}


def arguments_of(family: str, pieces: list[str]) -> object:
    (call,) = harvested(family, pieces).blocks
    assert isinstance(call, ToolCall)
    return msgspec.json.decode(call.arguments)


@pytest.mark.rule("G6")
@pytest.mark.parametrize("family", TEXTS)
def test_a_missing_closing_tag_glues_no_parameters(family: str) -> None:
    text = TEXTS[family].replace("%s", "FIXME")
    for place in range(len(text)):
        assert arguments_of(family, cut(text, place)) == {"query": "FIXME", "limit": 5}
    if family != "minimax_m2":
        assert arguments_of("auto", [text]) == {"query": "FIXME", "limit": 5}


@pytest.mark.rule("G6")
@pytest.mark.parametrize("family", TEXTS)
def test_the_line_break_before_the_next_tag_is_layout(family: str) -> None:
    # Where the format puts every tag on its own line, the text has that line break already.
    written = "FIXME" if family == "qwen3_coder" else "FIXME\n"
    text = TEXTS[family].replace("%s", written)
    assert arguments_of(family, [text]) == {"query": "FIXME", "limit": 5}


@pytest.mark.rule("G6")
@pytest.mark.parametrize(
    "value", ["<parameter=other>x", "<parameter=query>x", "<arg_key>other</arg_key>", "<param"]
)
@pytest.mark.parametrize("family", TEXTS)
def test_tags_of_other_keys_are_data(family: str, value: str) -> None:
    text = TEXTS[family].replace("%s", value)
    assert arguments_of(family, [text]) == {"query": value, "limit": 5}
