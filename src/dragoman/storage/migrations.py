"""The tables of the file, as the steps that lead to them. A step that has been released is never changed."""

#: Responses that clients may come back to. `parent` is the response that one continues; a row that is no
#: longer `visible` stays only while others continue it. The small columns stand first: whoever counts them
#: need not read the large ones.
RESPONSES = """
CREATE TABLE responses (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    parent INTEGER REFERENCES responses (number),
    visible INTEGER NOT NULL,
    created REAL NOT NULL,
    size INTEGER NOT NULL,
    status TEXT NOT NULL,
    runner TEXT NOT NULL,
    seen REAL NOT NULL,
    input BLOB NOT NULL,
    output BLOB NOT NULL,
    body BLOB NOT NULL,
    events BLOB NOT NULL
);
CREATE INDEX responses_by_parent ON responses (parent) WHERE parent IS NOT NULL;
CREATE INDEX responses_by_age ON responses (visible, created, size);
CREATE TABLE response_items (
    owner TEXT NOT NULL,
    item TEXT NOT NULL,
    response INTEGER NOT NULL REFERENCES responses (number) ON DELETE CASCADE,
    PRIMARY KEY (owner, item)
) WITHOUT ROWID;
CREATE INDEX response_items_by_response ON response_items (response)
"""

#: Each is a script; the file remembers how many of them it has seen. New ones go to the end.
MIGRATIONS: tuple[str, ...] = (RESPONSES,)
