"""The verdict of rules about a call."""

import msgspec
import pytest

from dragoman.governance.guard.rules import read_rules
from dragoman.governance.guard.verdicts import (
    MAX_COMMANDS,
    MAX_SCRIPT,
    TOO_LONG,
    UNREADABLE,
    GuardRules,
    Verdict,
)
from dragoman.hub.blocks import ToolCall


def judged(
    rules: list[object], arguments: object, tool: str = "shell", schema: dict[str, object] | None = None
) -> Verdict | None:
    judgement = GuardRules(read_rules(rules, "guard"))
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return judgement.decide(ToolCall(id="1", name=tool), text, schema)


def kind_of(rules: list[object], arguments: object, tool: str = "shell") -> str:
    verdict = judged(rules, arguments, tool)
    return "" if verdict is None else verdict.kind


@pytest.mark.rule("R87")
@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("echo hi > file", "redirection"),
        ("echo hi >> file", "redirection"),
        ("cat <<EOF > file\nhi\nEOF", "redirection"),
        ("cat <<EOF\nhi\nEOF", "redirection"),
        ("ls &> log", "redirection"),
        ("bash -lc 'echo hi > file'", "redirection"),
        ("sed -i s/a/b/ file", "in-place-editor"),
        ("sed -i.bak s/a/b/ file", "in-place-editor"),
        ("sed -n --in-place p file", "in-place-editor"),
        ("perl -pi -e s/a/b/ file", "in-place-editor"),
        ("ls | tee file", "writing-command"),
        ("ed -s file", "writing-command"),
        ("sudo tee file", "writing-command"),
        ("dd if=a of=b", "raw-copy"),
        ("bash -lc 'ls", "unclosed-quote"),
        (["bash", "-lc", "echo hi > file"], "redirection"),
        (["tee", "file"], "writing-command"),
    ],
)
def test_writing_through_a_shell_is_denied(command: object, rule: str) -> None:
    verdict = judged(["shell_writes"], {"command": command})
    assert verdict is not None
    assert (verdict.kind, verdict.rules) == ("deny", (f"shell_writes/{rule}",))
    assert verdict.reason


@pytest.mark.rule("R87")
@pytest.mark.parametrize(
    "command",
    [
        "ls -la",
        "ls 2>/dev/null",
        "make 2>&1 | tail",
        "grep 'a > b' file",
        'echo "tee x"',
        "sed -n 1,5p file",
        "cat < file",
        "git commit -m 'use tee > file'",
        ["echo", ">", "file"],
        ["grep", "<<", "file"],
        "",
        [],
        None,
        7,
    ],
)
def test_reading_through_a_shell_is_not(command: object) -> None:
    assert judged(["shell_writes"], {"command": command}) is None


@pytest.mark.rule("R87")
@pytest.mark.parametrize(
    "command",
    [
        "git reset --hard",
        "git reset --hard HEAD~1",
        "cd x && git -C y reset --hard",
        "git clean -fdx",
        "git clean --force",
        "git checkout -f main",
        "git checkout .",
        "git checkout -- .",
        "git checkout -- a.py b.py",
        "git restore .",
        "git push --force",
        "git push -f origin main",
        "git push origin +main",
        "git branch -D old",
        "git stash clear",
        "git reflog expire --all",
        "git filter-branch --all",
        "sh -c 'git reset --hard'",
        "GIT_DIR=x /usr/bin/git reset --hard",
        ["git", "reset", "--hard"],
    ],
)
def test_git_commands_that_destroy_work_are_denied(command: object) -> None:
    assert kind_of(["git_destructive"], {"command": command}) == "deny"


@pytest.mark.rule("R87")
@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git reset --soft HEAD~1",
        "git checkout main",
        "git checkout -- a.py",
        "git checkout -b new",
        "git push",
        "git push --force-with-lease",
        "git branch -d merged",
        "git stash",
        "git reflog",
        "git clean -n",
        "git commit -m 'git reset --hard'",
        "echo git reset --hard",
    ],
)
def test_git_commands_that_do_not_are_not(command: str) -> None:
    assert judged(["git_destructive"], {"command": command}) is None


#: Made up, in the shape of the real ones.
SECRETS = [
    "-----BEGIN RSA PRIVATE KEY-----",
    "AKIA" + "ABCD" * 4,
    "ghp_" + "a1" * 18,
    "github_pat_" + "a1" * 11,
    "glpat-" + "a1" * 10,
    "xoxb-1234567890-abc",
    "sk-ant-api03-" + "a1" * 20,
    "sk-proj-" + "a1" * 20,
    "AIza" + "a" * 35,
    "sk_live_" + "a1" * 12,
    "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl".replace(".", "abcdefgh."),
    "postgres://user:hunter22@db.example/x",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_secrets_are_asked_about_wherever_they_stand(secret: str) -> None:
    for arguments in ({"a": f"x {secret} y"}, {"a": [{"b": ["x", secret]}]}, {"a": {"b": f"'{secret}'"}}):
        assert kind_of(["secrets"], arguments, "anything") == "ask"


@pytest.mark.parametrize(
    "text",
    [
        "task-runner-with-a-very-long-name-indeed-that-is-not-a-key",
        "AKIASHORT",
        "https://example.com/a:b@c",
        "https://user@example.com",
        "-----BEGIN PUBLIC KEY-----",
        "the key is in the keyring",
    ],
)
def test_what_is_no_secret_passes(text: str) -> None:
    assert judged(["secrets"], {"a": text}) is None


@pytest.mark.rule("R87", "R88")
def test_a_command_that_needs_a_shell_gets_one() -> None:
    verdict = judged(["shell_fold"], {"command": ["cd", "x", "&&", "ls"], "timeout": 5})
    assert verdict is not None
    assert (verdict.kind, verdict.rules) == ("rewrite", ("shell_fold/control-operators",))
    assert msgspec.json.decode(verdict.arguments) == {"command": ["bash", "-lc", "cd x && ls"], "timeout": 5}


@pytest.mark.rule("R87")
def test_a_command_line_becomes_a_list_only_where_the_tool_takes_one() -> None:
    schema: dict[str, object] = {"properties": {"command": {"type": "array"}}}
    assert judged(["shell_fold"], {"command": "ls | wc"}) is None
    verdict = judged(["shell_fold"], {"command": "ls | wc"}, schema=schema)
    assert verdict is not None
    assert msgspec.json.decode(verdict.arguments) == {"command": ["bash", "-lc", "ls | wc"]}


def test_what_was_rewritten_is_judged_as_rewritten() -> None:
    verdict = judged(["shell_fold", "shell_writes"], {"command": ["echo", "hi", ">", "file"]})
    assert verdict is not None
    assert (verdict.kind, len(verdict.rules)) == ("deny", 2)


@pytest.mark.rule("R83", "C19")
def test_tools_that_no_rule_names_pass() -> None:
    assert judged(["shell_writes", "git_destructive"], {"command": "echo > x"}, "Bash") is None
    assert not GuardRules(read_rules(["shell_writes"], "guard")).covers("Bash")


def test_the_first_rule_that_decides_has_the_last_word() -> None:
    allow = {"tools": ["shell"], "paths": ["command"], "pattern": "^echo", "verdict": "allow"}
    assert kind_of([allow, "shell_writes"], {"command": "echo > x"}) == "allow"
    assert kind_of(["shell_writes", allow], {"command": "echo > x"}) == "deny"
    assert kind_of([allow, "shell_writes"], {"command": "ls > x"}) == "deny"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a", False),
        ("a.b", False),
        ("a.b.0", True),
        ("a.b.*", True),
        ("a.*.0", True),
        ("*.*.*", True),
        ("a.b.1", False),
        ("a.c", False),
        ("b", False),
        ("a.b.0.x", False),
    ],
)
def test_paths_lead_through_members_and_items(path: str, found: bool) -> None:
    rule = {"paths": [path], "verdict": "rewrite", "replacement": "<{value}>"}
    verdict = judged([rule], {"a": {"b": ["text", 1]}})
    assert (verdict is not None) is found
    if verdict is not None:
        assert msgspec.json.decode(verdict.arguments) == {"a": {"b": ["<text>", 1]}}


def test_a_pattern_sees_numbers_as_they_are_spelled_and_everything_below_its_path() -> None:
    rule = {"paths": ["a"], "pattern": "^(?:7|true|deep)$", "verdict": "deny"}
    for value in (7, True, "deep", [["deep"]], {"x": {"y": "deep"}}):
        assert kind_of([rule], {"a": value}) == "deny"
    assert judged([rule], {"b": 7}) is None


def test_a_rule_that_looks_for_nothing_is_about_every_call_of_its_tools() -> None:
    rule = {"tools": ["mcp__*"], "verdict": "ask"}
    assert kind_of([rule], {}, "mcp__files__write") == "ask"
    assert judged([rule], {}, "other") is None


def test_a_rule_with_only_a_path_is_about_calls_that_have_it() -> None:
    rule = {"paths": ["force"], "verdict": "deny"}
    assert kind_of([rule], {"force": False}) == "deny"
    assert judged([rule], {}) is None


def test_arguments_that_cannot_be_read_are_denied_where_anything_is_forbidden() -> None:
    assert judged(["shell_writes"], "{'command'") == UNREADABLE
    assert judged(["shell_fold"], "{'command'") is None


def test_free_text_is_judged_as_a_whole() -> None:
    judgement = GuardRules(
        read_rules([{"paths": ["command"], "operators": [">"], "verdict": "deny"}], "guard")
    )
    call = ToolCall(id="1", name="shell", kind="custom")
    verdict = judgement.decide(call, "ls > x", None)
    assert verdict is not None
    assert verdict.kind == "deny"
    assert judgement.decide(call, "ls", None) is None


def test_free_text_is_rewritten_as_a_whole() -> None:
    judgement = GuardRules(read_rules([{"verdict": "rewrite", "replacement": "set -e; {value}"}], "guard"))
    verdict = judgement.decide(ToolCall(id="1", name="x", kind="custom"), "ls", None)
    assert verdict is not None
    assert verdict.arguments == "set -e; ls"


@pytest.mark.parametrize(
    "text", ["[" * 150 + "1" + "]" * 150, '"' + "a" * 200_000 + '"', '["a"' + ',"b"' * 20_000 + "]"]
)
def test_large_arguments_take_no_long(text: str) -> None:
    judged(["secrets", "shell_writes", "git_destructive", "shell_fold"], f'{{"command":{text}}}')


@pytest.mark.rule("G12")
@pytest.mark.parametrize(
    "command",
    [
        "echo 'git reset --hard' | sh",
        "printf 'git clean -fd' | bash -s",
        "bash <<EOF\ngit reset --hard\nEOF",
        "sh -s <<< 'git reset --hard'",
        "find . -name x -exec git reset --hard ';'",
        "g=git; $g reset --hard",
        "c='git reset --hard'; $c",
        "G=git R=reset; ${G} ${R} --hard",
        "python3 -c \"import os; os.system('git reset --hard')\"",
        "python -c \"import subprocess as s; s.run(['git', 'reset', '--hard'])\"",
        "perl -e 'system(\"git reset --hard\")'",
        "flock /run/l git reset --hard",
        "git update-ref -d refs/heads/main",
        "rm -rf .git",
        "rm -rf ./.git/objects",
    ],
)
def test_destructive_git_is_found_behind_other_programs(command: str) -> None:
    assert kind_of(["git_destructive"], {"command": command}) == "deny"


@pytest.mark.rule("G12")
@pytest.mark.parametrize(
    "command",
    [
        "cp a b",
        "mv a b",
        "git apply x.patch",
        "curl -o x https://e.invalid",
        "gawk -i inplace 1 x",
        "rsync a b",
    ],
)
def test_writes_by_other_programs_are_found(command: str) -> None:
    assert kind_of(["shell_writes"], {"command": command}) == "deny"


ONLY: dict[str, object] = {
    "name": "read-only",
    "tools": ["shell"],
    "paths": ["command"],
    "only": ["ls", "cat", "git status|diff|log"],
    "verdict": "deny",
}


@pytest.mark.rule("G12")
@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "ls -la src"},
        {"command": "git status --porcelain && git diff | cat"},
        {"command": "git log 2>/dev/null"},
        {"command": "cat 'a $b'"},
        {"command": ["git", "status"]},
        {"command": ["bash", "-lc", "ls; git diff"]},
    ],
)
def test_an_allow_list_lets_its_commands_pass(arguments: dict[str, object]) -> None:
    assert kind_of([ONLY], arguments) == ""


@pytest.mark.rule("G12")
@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "rm -rf build"},
        {"command": "ls; rm x"},
        {"command": "ls $(rm x)"},
        {"command": "ls `rm x`"},
        {"command": "ls $X"},
        {"command": 'cat "${X}"'},
        {"command": "ls > x"},
        {"command": "cat <<E\nx\nE"},
        {"command": "git -c core.pager=evil log"},
        {"command": "git push"},
        {"command": "PAGER=evil git log"},
        {"command": "/opt/bin/ls"},
        {"command": "sudo ls"},
        {"command": "find . -exec ls ';'"},
        {"command": "ls() { rm x; }; ls"},
        {"command": "cat 'x"},
        {"command": "python -c 'print(1)'"},
        {"command": "bash script.sh"},
        {"command": "bash -c 'rm x'"},
        {"command": ["bash", "-lc", "ls; rm x"]},
        {"command": ""},
        {"command": 5},
        {"cmd": "ls"},
    ],
)
def test_an_allow_list_denies_everything_else(arguments: dict[str, object]) -> None:
    assert kind_of([ONLY], arguments) == "deny"


@pytest.mark.rule("S4")
@pytest.mark.parametrize(
    "command",
    [
        "a && " * 700_000,
        "a;" * (MAX_COMMANDS + 1),
        "x" * (MAX_SCRIPT + 1),
        ["x" * MAX_SCRIPT, "y"],
        "bash -c '" + "a;" * MAX_COMMANDS + "'",
    ],
    ids=["long", "commands", "one word", "list", "inner"],
)
def test_a_command_that_is_too_long_to_be_judged_is_denied(command: object) -> None:
    assert judged(["git_destructive"], {"command": command}) == TOO_LONG


@pytest.mark.rule("S4")
def test_many_texts_of_one_call_count_together() -> None:
    rules: list[object] = [{"tools": ["shell"], "command": ["git"], "verdict": "deny"}]
    texts = [f"{number} " + "x" * 1000 for number in range(MAX_SCRIPT // 1000)]
    assert judged(rules, {"texts": {str(number): text for number, text in enumerate(texts)}}) == TOO_LONG


@pytest.mark.rule("S4")
def test_a_command_of_the_longest_size_is_judged() -> None:
    command = "echo " + "x" * (MAX_SCRIPT - 30) + "; git push --force"
    assert kind_of(["git_destructive"], {"command": command}) == "deny"
    assert judged(["git_destructive"], {"command": command}) != TOO_LONG
    assert kind_of(["git_destructive"], {"command": "echo x; " * (MAX_COMMANDS - 1)}) == ""
