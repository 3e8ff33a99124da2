"""Repair of tool-call arguments: nearly-JSON text in, the text of one JSON object out.

The repair is linear and bounded. It works in named steps and reports every step that it used. Where a text
has two plausible meanings it repairs nothing and returns an object that shows the raw text. `repair` of its
own output changes nothing.

Modules, in the order in which a repair uses them:

- `arguments`: `repair`, the only entry point; the rules for calls that were cut off.
- `candidates`: the objects that a text can mean, the most conservative first.
- `reader`: one pass over one JSON value; corrects what is wrong and keeps the rest byte for byte.
- `reader_states`: the reader's states and patterns, and the search for the end of a string with wrong quotes.
- `tokens`: white space, comments, strings and bare values as models write them.
- `schema_fit`: changes that the tool's schema justifies: wrapper, names, types.
- `schema`: what a tool's JSON Schema states, and the reader's position in it.
- `steps`: the names of the steps, and the edits that carry them.

State: `LenientReader` and its `Edits` and `Nesting` live for one pass. Everything else is a pure function.

To add a step: name it in `steps.RepairStep` at its place in the order, apply it in `reader` (inside the
object), `candidates` (around the object) or `schema_fit` (by the schema), and add a row to `docs/repair.md`
and cases to `tests/governance/repair/malformed.txt`.
"""

from dragoman.governance.repair.arguments import LIMIT, RAW_KEY, RepairResult, repair
from dragoman.governance.repair.steps import STEPS

__all__ = ["LIMIT", "RAW_KEY", "STEPS", "RepairResult", "repair"]
