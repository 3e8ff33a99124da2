"""How a Gemini request was spelled where there is more than one way, so that it can be spelled so again.

Blocks and turns keep words separated by spaces, such as `no-id output`. Requests, tools and output
formats have more to remember; their `form` is the JSON of a struct from here.
"""

import msgspec

from dragoman.dialects.base import Json

#: Turns: `top` is the system instruction; the others say what `contents` held instead of a whole content.
TOP = "top"
TEXT_ONLY = "text"
BARE_PART = "bare"
ONE_PART = "one-part"
TEXT_PART = "text-part"
NO_PARTS = "no-parts"
NO_ROLE = "no-role"
ROLE = "role="

#: Parts: a string instead of an object; a thought without a word; a signature that is no proof.
STRING = "string"
THOUGHT = "thought"
SIGNATURE = "signature="
#: The call's signature was an envelope of ours, so the vendor never saw the call.
UNWRAPPED = "unwrapped"


class RequestForm(msgspec.Struct, omit_defaults=True):
    #: `text` or `object`: what stood in the place of the list of contents.
    contents: str = ""
    #: Paths of names that were spelled in snake_case.
    renamed: list[str] = []
    #: Entries of `tools` that declared nothing, by their place.
    empty_tools: dict[int, Json] = {}
    #: `generationConfig` was there and said nothing that we know.
    empty_config: bool = False
    thinking_level: str = ""
    #: The body named the model too, with this before the name.
    model_prefix: str | None = None


class ToolForm(msgspec.Struct, omit_defaults=True):
    #: Which entry of `tools` it stood in.
    group: int = 0
    #: The field that held the schema, and the schema itself if ours cannot be turned back into it.
    field: str = ""
    original: Json | None = None


class OutputForm(msgspec.Struct, omit_defaults=True):
    field: str = ""
    original: Json | None = None
    media_type: bool = False


def write_form(form: RequestForm | ToolForm | OutputForm) -> str:
    return msgspec.json.encode(form).decode()


def request_form(form: str) -> RequestForm:
    return msgspec.json.decode(form, type=RequestForm) if form else RequestForm()


def tool_form(form: str) -> ToolForm:
    return msgspec.json.decode(form, type=ToolForm) if form else ToolForm()


def output_form(form: str) -> OutputForm:
    return msgspec.json.decode(form, type=OutputForm) if form else OutputForm(media_type=True)


def value_of(form: str, prefix: str) -> str | None:
    """What follows a prefix such as `role=` in a form, or None."""
    for word in form.split(" "):
        if word.startswith(prefix):
            return word[len(prefix) :]
    return None
