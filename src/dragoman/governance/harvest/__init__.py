"""Harvest: tool calls and reasoning that a model wrote into its text become calls and reasoning again.

Only text in the form of the chosen model family counts, only for declared tools, and only outside code and
quotations. Everything else stays text, unchanged and in its place.

Modules, in the order in which a reply passes them:

- `stage`: `HarvestStage`, the step on reply events. It owns block numbers, call ids and reports.
- `echo`: text that repeats the request, and calls of the server that repeat a harvested call.
- `whole_reply`: the stage for replies that are not streamed.
- `candidates`: `SearchPlan`, what to look for under a family or `auto`; the readers behind one marker.
- `scanner`: `TextScanner`, one text block as it arrives: text, reasoning, calls.
- `plain_text`: `PlainText`, text without any marker, which need not be scanned.
- `quoting`: `QuoteTracker`, whether a place in the text is code or a quotation.
- `parts`: what the scanner returns.
- `format`: what a family is: markers with readers, and reasoning tags.
- `cursor`: `TextCursor`, on which readers read text that is still arriving.
- `json_text`, `python_literals`, `schema_values`: values inside calls.
- `call_formats`: the families, one module per mechanism; `call_formats.families` lists them.

State: one `HarvestStage` per reply, one `TextScanner` per text block, one `TextCursor` per reader. Formats
and plans are immutable and shared.

Call order: `feed` every event of the reply in order, `take_overdue` on a timer; the last event is
`ReplyFinished` or `ReplyFailed`. Readers are generators; see `cursor`.

To add a format: choose the module of `call_formats` by how the call looks (`json_in_tags`,
`tagged_parameters`, `python_calls`, `token_sections`, `channels`, `bare_calls`, `vendor_tokens`), add a row
to its `FORMATS`, a row to `docs/harvest.md`, and `tests/governance/harvest/cases/<family>.txt`.
"""

from dragoman.governance.harvest.call_formats import AUTO, families
from dragoman.governance.harvest.echo import EchoStage, RequestText
from dragoman.governance.harvest.stage import HarvestStage
from dragoman.governance.harvest.whole_reply import WholeHarvestStage

__all__ = ["AUTO", "EchoStage", "HarvestStage", "RequestText", "WholeHarvestStage", "families"]
