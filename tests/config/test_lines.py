"""Every key of a file is found on its line, in every notation of TOML."""

import tomllib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config.lines import KeyPath, find_lines

FILE = '''\
# a comment with [brackets] and = signs
default = "a/b"

[server]
port = 1  # a remark

[ providers . "my.server" ]
headers = { first = "1", "second one" = "}" }
timeouts.connect = 3
note = """
[not.a.table]
port = 2
"""
list = [
  "a", # ]
  { inner = 1 },
]
raw = \'\'\'
[[routes]]
\'\'\'

[[routes]]
match = "a"

[[routes]]
match = "b"
target = ["x",
          "y"]
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("default",), 2),
        (("server",), 4),
        (("server", "port"), 5),
        (("providers", "my.server"), 7),
        (("providers", "my.server", "headers", "second one"), 8),
        (("providers", "my.server", "timeouts", "connect"), 9),
        (("providers", "my.server", "list"), 14),
        (("providers", "my.server", "list", 1, "inner"), 16),
        (("routes", 0, "match"), 23),
        (("routes", 1), 25),
        (("routes", 1, "match"), 26),
        (("routes", 1, "target", 1), 28),
    ],
)
def test_a_key_is_found_on_its_line(path: KeyPath, line: int) -> None:
    tomllib.loads(FILE)
    assert find_lines(FILE)[path] == line


def test_what_only_looks_like_a_key_is_not_one() -> None:
    assert ("not", "a", "table") not in find_lines(FILE)
    assert find_lines(FILE)[("server", "port")] == 5


def test_lines_are_counted_alike_with_either_line_end() -> None:
    assert find_lines(FILE.replace("\n", "\r\n")) == find_lines(FILE)


def test_a_text_that_is_no_toml_is_read_as_far_as_it_goes() -> None:
    assert find_lines("a = 1\nb ! 2\nc = 3") == {("a",): 1, ("b",): 2}
    assert find_lines("a = 1\n[ ]\nc = 3") == {("a",): 1}


names = st.text("abcXYZ-_09", min_size=1, max_size=6) | st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=6
)
scalars = (
    st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(names, st.dictionaries(names, values, max_size=4), max_size=4)


def quoted(text: str) -> str:
    return '"' + "".join(c if c >= " " and c not in '"\\\x7f' else f"\\u{ord(c):04x}" for c in text) + '"'


def written(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case list():
            return "[" + ", # [ {\n".join(map(written, value)) + " ]"
        case dict():
            return "{ " + ", ".join(f"{quoted(key)} = {written(item)}" for key, item in value.items()) + " }"
        case _:
            return repr(value)


def paths_in(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths_in(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from paths_in(item, (*path, number))


@given(document=documents)
def test_every_value_that_toml_reads_has_a_line_that_names_its_key(
    document: dict[str, dict[str, object]],
) -> None:
    lines: list[str] = []
    for table, pairs in document.items():
        lines.append(f"[{quoted(table)}]")
        lines += [f"{quoted(key)} = {written(value)}" for key, value in pairs.items()]
    text = "\n".join(lines)
    assert tomllib.loads(text) == document
    found = find_lines(text)
    assert set(found) == set(paths_in(document)) - {()}
    for path, line in found.items():
        if isinstance(path[-1], str):
            assert quoted(path[-1]) in text.split("\n")[line - 1]
