"""Records which of several spellings a Gemini request used, so that it can be written in the same way again.

The form of a block or turn is a list of notes separated by spaces, such as `no-id output`. The form of a
request, a tool or an output format is the JSON of a struct of this module.
"""

import msgspec

from dragoman.dialects.base import Json

#: Notes of turns: `top` is the system instruction; the others name what `contents` held instead of a content.
TOP = "top"
TEXT_ONLY = "text"
BARE_PART = "bare"
ONE_PART = "one-part"
TEXT_PART = "text-part"
NO_PARTS = "no-parts"
NO_ROLE = "no-role"
ROLE = "role="

#: Notes of parts: a string instead of an object; a thought without text; a signature that is a sentinel.
STRING = "string"
THOUGHT = "thought"
SIGNATURE = "signature="
#: The call's signature was an envelope of this gateway, so Gemini never saw the call.
UNWRAPPED = "unwrapped"


class RequestForm(msgspec.Struct, omit_defaults=True):
    #: `text` or `object`: what `contents` held instead of a list.
    contents: str = ""
    #: Paths of the names that were in snake_case.
    renamed: list[str] = []
    #: Entries of `tools` that declared nothing, by their index.
    empty_tools: dict[int, Json] = {}
    #: `generationConfig` was present but had no known field.
    empty_config: bool = False
    thinking_level: str = ""
    #: The prefix of the model's name in the body; None if the body had no model.
    model_prefix: str | None = None


class ToolForm(msgspec.Struct, omit_defaults=True):
    #: The index of its entry in `tools`.
    group: int = 0
    #: The field that held the schema, and the original schema if it cannot be written from the hub's.
    field: str = ""
    original: Json | None = None


class OutputForm(msgspec.Struct, omit_defaults=True):
    field: str = ""
    original: Json | None = None
    media_type: bool = False


def write_form(form: RequestForm | ToolForm | OutputForm) -> str:
    return msgspec.json.encode(form).decode()


def read_request_form(form: str) -> RequestForm:
    return msgspec.json.decode(form, type=RequestForm) if form else RequestForm()


def read_tool_form(form: str) -> ToolForm:
    return msgspec.json.decode(form, type=ToolForm) if form else ToolForm()


def read_output_form(form: str) -> OutputForm:
    return msgspec.json.decode(form, type=OutputForm) if form else OutputForm(media_type=True)


def find_note(form: str, prefix: str) -> str | None:
    """The value of the note with a prefix such as `role=`, or None."""
    for note in form.split(" "):
        if note.startswith(prefix):
            return note[len(prefix) :]
    return None
