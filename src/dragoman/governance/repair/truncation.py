"""What may be done for a call whose stream broke off: next to nothing.

Half a command must not run, and half its parameters are no better: behind a complete value there may have
been more to come. So a bracket is added only where the schema proves that nothing was left to say.
"""

import re

from dragoman.governance.repair.readings import decode_object
from dragoman.governance.repair.schema import leaves_nothing_open
from dragoman.wire.partial_json import JsonPrefix

#: Ends of values that cannot go on. A number could: the next character may have been a digit.
_WHOLE = re.compile(r'(?:["}\]]|true|false|null)\s*+\Z')
_REACH = 100


def closed(text: str, schema: object) -> str | None:
    """The text with the one bracket that it lacks; None if it may lack more."""
    prefix = JsonPrefix()
    if prefix.feed(text) < len(text) or prefix.closing() != "}":
        return None
    if not _WHOLE.search(text, max(0, len(text) - _REACH)):
        return None
    whole = text + "}"
    value = decode_object(whole)
    return whole if value and leaves_nothing_open(schema, list(value)) else None
