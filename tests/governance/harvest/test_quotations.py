"""A text that mentions, quotes or documents a call is text; a call that stands for itself is a call."""

import pytest

from dragoman.governance.harvest import AUTO
from dragoman.hub.blocks import Text, ToolCall
from tests.governance.harvest.running import harvested

#: Calls of the most common formats, by a family that writes them.
CALLS = {
    "hermes": '<tool_call>{"name": "read_file", "arguments": {"path": "a"}}</tool_call>',
    "glm": "<tool_call>read_file<arg_key>path</arg_key><arg_value>a</arg_value></tool_call>",
    "qwen3_coder": "<tool_call><function=read_file><parameter=path>a</parameter></function></tool_call>",
    "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0"
    '<|tool_call_argument_begin|>{"path": "a"}<|tool_call_end|><|tool_calls_section_end|>',
    "mistral": '[TOOL_CALLS][{"name": "read_file", "arguments": {"path": "a"}}]',
    "nemotron": '<TOOLCALL>[{"name": "read_file", "arguments": {"path": "a"}}]</TOOLCALL>',
}

#: Texts in which a call is quoted. `%s` is the call.
QUOTING = (
    "Never emit %s without asking first.",
    "%s is how a call looks.",
    "It must not contain %s, ever.",
    "The model wrote %s and stopped.",
    "「%s」",
    "It wrote 「%s」.",
    "«%s»",
    "« %s »",
    "(%s)",
    "(for example %s)",
    "See [%s].",
    "\uff08%s\uff09",
    "“%s”",
    '"%s"',
    "the form '%s' is old",
    "`%s`",
    "``%s``",
    "```\n%s\n```",
    "```xml\n%s\n```\nDone.",
    "~~~\n%s\n~~~",
    "> %s",
    "> It wrote:\n> %s",
    "<pre>%s</pre>",
    "<pre>\n%s\n</pre>",
    "<pre><code>\n%s\n</code></pre>",
    "<!-- %s -->",
    "<!--\n%s\n-->",
    "<table>\n<tr><td>%s</td></tr>\n</table>",
    "<table>\n<tr>\n<td>\n%s\n</td>\n</tr>\n</table>",
    "<![CDATA[%s]]>",
    "<![CDATA[\n%s\n]]>",
    "<details>\n<summary>The call</summary>\n%s\n</details>",
    '<div class="example">\n%s\n</div>',
    "<example>\n%s\n</example>",
    '<document index="1">\n%s\n</document>',
    "<li>%s</li>",
    "@@ -1,2 +1,2 @@\n-%s\n+done",
    "@@ -1,2 +1,2 @@\n+%s\n",
    "2026-11-16 10:00:00 INFO %s",
    "[10:00:00] model: %s",
    "10:00:00 DEBUG reply=%s trace=7",
    "As code:\n\n    %s\n",
    "As code:\n\n\t%s\n",
    "- %s",
    "* %s",
    "1. one\n- %s",
    "| format | example |\n|---|---|\n| hermes | %s |",
    "# %s",
    'print("""%s""")',
    'text = "%s"',
    "echo '%s' > a.txt",
    "assert reply == '%s'",
    '{"content": "%s"}',
    "The tag %s ends the turn; the tag below starts one.",
    "“\n%s\n”",
    "It wrote (\n%s\n)",
    "<xml><entry>\n%s\n</entry></xml>",
    "\\begin{verbatim}\n%s\n\\end{verbatim}",
    "raw = r'''\n%s\n'''",
    'raw = """\n%s\n"""',
    "@@ -1,2 +1,2 @@\n %s\n-a",
    "* the form:\n  %s",
)

#: Texts in which a call stands for itself. `%s` is the call.
CALLING = (
    "%s",
    "\n%s\n",
    "I'll read it.\n%s",
    "I'll read it:\n\n%s\n",
    "%s\n%s",
    "%s\n\nThen I go on.",
    "<think>\nHm.\n</think>\n\n%s",
    "<think>Hm.</think>I'll read it.\n%s",
    "%s<|im_end|>",
    "%s</s>",
    "See `a.py`:\n\n```py\nx = '<tool_call>'\n```\n\n%s",
    "<br>\n%s",
    "Use List<String> here.\n%s",
    "<pre>x</pre>\n%s",
    "> quoted\n\n%s",
    "- first\n- second\n\n%s",
    "- first\n- second\n%s",
    "**The plan**\n%s",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n%s",
    "I run 'ls' and \"cat\"\n%s",
    "<b><i>Now</i></b>\n%s",
    "<a><b></b></a>\n%s",
    "The object {x} of f(a)\n%s",
)


def count_calls(family: str, text: str) -> int:
    return sum(isinstance(block, ToolCall) for block in harvested(family, [text]).blocks)


@pytest.mark.rule("G2")
@pytest.mark.parametrize("text", QUOTING)
@pytest.mark.parametrize("family", CALLS)
def test_a_quoted_call_is_text(family: str, text: str) -> None:
    reply = text.replace("%s", CALLS[family])
    assert (count_calls(AUTO, reply), count_calls(family, reply)) == (0, 0)
    (block,) = harvested(AUTO, list(reply)).blocks
    assert isinstance(block, Text)
    assert block.text == reply


@pytest.mark.rule("G2")
@pytest.mark.parametrize("text", CALLING)
@pytest.mark.parametrize("family", CALLS)
def test_a_call_that_stands_for_itself_is_a_call(family: str, text: str) -> None:
    reply = text.replace("%s", CALLS[family])
    expected = text.count("%s")
    assert (count_calls(AUTO, reply), count_calls(family, reply)) == (expected, expected)


@pytest.mark.rule("G2")
@pytest.mark.parametrize("family", CALLS)
def test_a_call_that_a_text_behind_another_call_mentions_is_text(family: str) -> None:
    reply = f"{CALLS[family]}\nThat was {CALLS[family]} of course."
    for pieces in ([reply], list(reply)):
        for name in (AUTO, family):
            blocks = harvested(name, pieces).blocks
            assert [type(block).__name__ for block in blocks] == ["ToolCall", "Text"]


@pytest.mark.rule("G2")
@pytest.mark.parametrize("family", ["glm", "kimi_k2", "mistral"])
def test_a_call_right_behind_text_is_a_call_where_the_chat_template_writes_it_so(family: str) -> None:
    reply = f"On it, with {{a}} and `b`.{CALLS[family]}"
    assert (count_calls(AUTO, reply), count_calls(family, reply)) == (1, 1)
