"""Ways of taking fields that leave behind what must be written again as it came."""

from dragoman.wire.fields import Fields


def said(fields: Fields, name: str) -> str:
    """A text that is not empty; an empty one is left where it is."""
    text = fields.maybe_text(name)
    if text == "":
        fields.rest()[name] = ""
    return text or ""


def set_flag(fields: Fields, name: str) -> bool:
    """Whether a flag is set; one that says no is left where it is."""
    flag = fields.maybe_flag(name)
    if flag is False:
        fields.rest()[name] = False
    return bool(flag)
