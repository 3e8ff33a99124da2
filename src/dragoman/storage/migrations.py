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

CLIENT_KEYS = """
CREATE TABLE client_keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    prefix TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE,
    former BLOB,
    former_until REAL NOT NULL DEFAULT 0,
    models TEXT NOT NULL,
    limits TEXT NOT NULL,
    created REAL NOT NULL,
    expires REAL NOT NULL DEFAULT 0,
    revoked REAL NOT NULL DEFAULT 0
);
CREATE TABLE key_generation (number INTEGER NOT NULL);
INSERT INTO key_generation (number) VALUES (0);
CREATE TABLE spending (
    key TEXT NOT NULL,
    period TEXT NOT NULL,
    start INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    PRIMARY KEY (key, period, start)
) WITHOUT ROWID;
CREATE TABLE buckets (
    key TEXT NOT NULL,
    unit TEXT NOT NULL,
    level REAL NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (key, unit)
) WITHOUT ROWID;
CREATE TABLE reservations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL,
    process TEXT NOT NULL,
    at REAL NOT NULL,
    tokens INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    least_tokens INTEGER NOT NULL,
    least_cost INTEGER NOT NULL
);
CREATE INDEX reservations_by_key ON reservations (key);
CREATE TABLE processes (id TEXT PRIMARY KEY, seen REAL NOT NULL);
CREATE TABLE usage (
    hour INTEGER NOT NULL,
    key TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    requests INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    input INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    output INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    PRIMARY KEY (hour, key, provider, model)
) WITHOUT ROWID
"""

#: Each is a script; the file remembers how many of them it has seen. New ones go to the end.
MIGRATIONS: tuple[str, ...] = (RESPONSES, CLIENT_KEYS)
