"""Shell text is taken apart as a shell would, and argument lists that need one get one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.governance.guard.commands import read_script
from dragoman.governance.guard.shell import UNCLOSED
from dragoman.governance.guard.shell_fold import fold_command


def words_of(text: str | list[str]) -> list[tuple[str, ...]]:
    return [command.words for command in read_script(text).commands]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ls -la", [("ls", "-la")]),
        ("a && b || c; d & e | f |& g", [("a",), ("b",), ("c",), ("d",), ("e",), ("f",), ("g",)]),
        ("echo 'a > b' \"c && d\" e\\ f", [("echo", "a > b", "c && d", "e f")]),
        ("echo a#b # c", [("echo", "a#b")]),
        ('echo "$(rm x)"', [("rm", "x"), ("echo", "")]),
        ("echo `date; tee x`", [("date",), ("tee", "x"), ("echo", "")]),
        ("(cd a; ls)", [("cd", "a"), ("ls",)]),
        ("diff <(ls a) <(ls b)", [("ls", "a"), ("ls", "b"), ("diff", "", "")]),
        ("cat <<E > f\nx > y\nE\nls", [("cat",), ("ls",)]),
        ("cat <<-'E'\n\tx > y\n\tE\nls", [("cat",), ("ls",)]),
        ("echo $'it\\'s' $HOME \"a\\d\\$\"", [("echo", "it\\'s", "$HOME", "a\\d$")]),
        ("a \\\n b", [("a", "b")]),
        ("2>&1", [()]),
        ("", []),
    ],
)
def test_commands_are_reported_apart(text: str, words: list[tuple[str, ...]]) -> None:
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("command", "inner"),
    [
        (["bash", "-lc", "git reset --hard"], ("git", "reset", "--hard")),
        ("sudo /bin/sh -c 'rm x'", ("rm", "x")),
        ("bash -c \"bash -c 'rm x'\"", ("rm", "x")),
        ("eval 'rm x'", ("rm", "x")),
        ("A=1 bash -xc 'rm x'", ("rm", "x")),
    ],
)
def test_commands_inside_shells_are_found(command: str | list[str], inner: tuple[str, ...]) -> None:
    assert inner in words_of(command)


@pytest.mark.parametrize("text", ["echo 'a", 'echo "a', "echo $(a", "echo `a", "(a", "$'a", "(" * 99])
def test_what_is_never_closed_is_reported(text: str) -> None:
    assert UNCLOSED in read_script(text).operators


@pytest.mark.parametrize("text", ["ls 2>/dev/null", "ls 2>&1", "ls >&2", "ls &>/dev/null", "cat < f"])
def test_silencing_is_no_writing(text: str) -> None:
    assert not read_script(text).has_operator([">", ">>", "&>", ">&"])


@pytest.mark.parametrize("text", ["ls > f", "ls >f", "ls 2> f", "ls >& f", "> f", "ls | tee x > f", "ls >"])
def test_redirections_to_files_are_found(text: str) -> None:
    assert read_script(text).has_operator([">", ">&"])


@given(text=st.text(alphabet="ab '\"\\$(`)<>&|;#\n=-c", max_size=40))
def test_any_text_is_read(text: str) -> None:
    read_script(text)


@pytest.mark.parametrize("piece", ["$(", "sudo eval eval ", "bash -c '", "<<E\n", '"`', "sudo sh -c a "])
def test_hostile_text_takes_no_long(piece: str) -> None:
    read_script(piece * 20_000)


@pytest.mark.rule("R87")
@pytest.mark.parametrize(
    ("command", "after"),
    [
        (["cd", "x", "&&", "ls", "my file"], ["bash", "-lc", "cd x && ls 'my file'"]),
        (["ls", "*.py", "|", "wc", "-l"], ["bash", "-lc", "ls *.py | wc -l"]),
        (["make", "2>&1"], ["bash", "-lc", "make 2>&1"]),
        (["bash", "-lc", "ls", "-la", "my file"], ["bash", "-lc", "ls -la 'my file'"]),
        (["bash", "-lc", "cd x &&", "ls|wc"], ["bash", "-lc", "cd x && ls|wc"]),
        (["ls -la | wc"], ["bash", "-lc", "ls -la | wc"]),
        ("ls | wc", ["bash", "-lc", "ls | wc"]),
        (
            ["find", ".", "(", "-name", "x", ")", "-exec", "ls", "{}", ";", "|", "wc"],
            ["bash", "-lc", "find . '(' -name x ')' -exec ls {} ';' | wc"],
        ),
    ],
)
def test_what_needs_a_shell_gets_one(command: object, after: list[str]) -> None:
    assert fold_command(command, wants_list=True) == after


@pytest.mark.rule("R87")
@pytest.mark.parametrize(
    "command",
    [
        ["ls", "-la"],
        ["ls"],
        ["grep", "a|b", "f"],
        ["bash", "-lc", "ls | wc"],
        ["bash", "script.sh", "a", "b"],
        ["find", ".", "-exec", "ls", "{}", ";"],
        ["find", ".", "-exec", "ls", "{}", "+"],
        ["ls", 1],
        [],
        "",
        None,
    ],
)
def test_what_needs_no_shell_stays(command: object) -> None:
    assert fold_command(command, wants_list=True) is None


@pytest.mark.rule("R87")
def test_a_command_line_stays_one_where_the_tool_takes_one() -> None:
    assert fold_command("ls | wc", wants_list=False) is None


@pytest.mark.rule("S4")
@pytest.mark.parametrize("uses", ["$a " * 5000, "$a" * 5000], ids=["words", "one word"])
def test_the_values_of_variables_are_not_multiplied_without_bound(uses: str) -> None:
    script = read_script("a=" + "x" * 20_000 + ";" + uses)
    assert UNCLOSED in script.operators
    assert sum(len(word) for command in script.commands for word in command.words) < 100_000
