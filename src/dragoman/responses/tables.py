"""The tables of stored responses, and the longer statements on them."""

from dragoman.storage.database import Schema

# The small columns come first, so that counting rows does not read the large ones.
RESPONSES_SCHEMA = Schema(
    "responses",
    (
        """
CREATE TABLE IF NOT EXISTS responses (
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
CREATE INDEX IF NOT EXISTS responses_by_parent ON responses (parent) WHERE parent IS NOT NULL;
CREATE INDEX IF NOT EXISTS responses_by_age ON responses (visible, created, size);
CREATE TABLE IF NOT EXISTS response_items (
    owner TEXT NOT NULL,
    item TEXT NOT NULL,
    response INTEGER NOT NULL REFERENCES responses (number) ON DELETE CASCADE,
    PRIMARY KEY (owner, item)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS response_items_by_response ON response_items (response)
""",
        "ALTER TABLE responses ADD COLUMN cancelled INTEGER NOT NULL DEFAULT 0",
    ),
)

SELECT_RESPONSE = """
SELECT one.id, one.owner, COALESCE(earlier.id, '') AS previous, one.created, one.status, one.input,
    one.output, one.body, one.events, one.runner, one.seen
FROM responses AS one LEFT JOIN responses AS earlier ON earlier.number = one.parent WHERE one.number = $1
"""
UPSERT_RESPONSE = """
INSERT INTO responses
    (id, owner, parent, visible, created, size, status, runner, seen, input, output, body, events)
VALUES ($1, $2, $3, 1, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (id) DO UPDATE SET
    size = excluded.size, status = excluded.status, runner = excluded.runner, seen = excluded.seen,
    output = excluded.output, body = excluded.body, events = excluded.events
RETURNING number
"""
UPSERT_ITEM = """
INSERT INTO response_items (owner, item, response) VALUES ($1, $2, $3)
ON CONFLICT (owner, item) DO UPDATE SET response = excluded.response
"""
SELECT_ITEM_OUTPUT = """
SELECT one.output FROM response_items AS item JOIN responses AS one ON one.number = item.response
WHERE item.owner = $1 AND item.item = $2
"""
#: A response and all that it continues. `place` counts from the last one.
_CONVERSATION = """
WITH RECURSIVE line (number, parent, place) AS (
    SELECT number, parent, 0 FROM responses WHERE number = $1
    UNION ALL
    SELECT one.number, one.parent, line.place + 1 FROM line JOIN responses AS one ON one.number = line.parent
)
"""
SUM_CONVERSATION = f"""{_CONVERSATION}
SELECT CAST(SUM(one.size) AS BIGINT), CAST(SUM(LENGTH(one.input) + LENGTH(one.output)) AS BIGINT)
FROM line JOIN responses AS one ON one.number = line.number
"""  # noqa: S608 (a constant)
SELECT_TURNS = f"""{_CONVERSATION}
SELECT one.input, one.output, one.id FROM line JOIN responses AS one ON one.number = line.number
ORDER BY line.place DESC
"""  # noqa: S608 (a constant)
DELETE_UNUSED = """
DELETE FROM responses WHERE number = $1 AND visible = 0
    AND NOT EXISTS (SELECT 1 FROM responses AS later WHERE later.parent = responses.number)
RETURNING parent, size
"""
