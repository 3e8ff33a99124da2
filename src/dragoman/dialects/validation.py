"""What FastAPI servers answer to a request that they cannot read: a list of places and complaints."""

#: More than this tells nobody anything.
MOST = 10


def detail_text(detail: object) -> str:
    """The `detail` of such an answer: a text, or what is wrong where; empty for anything else."""
    if isinstance(detail, str):
        return detail
    complaints = detail[:MOST] if isinstance(detail, list) else []
    return "; ".join(text for text in map(complaint, complaints) if text)


def complaint(item: object) -> str:
    """One complaint, such as `body.messages.0.role: Field required`."""
    message = item.get("msg") or item.get("message") if isinstance(item, dict) else item
    if not isinstance(message, str) or not message.strip():
        return ""
    place = item.get("loc") if isinstance(item, dict) else None
    steps = [str(step) for step in place if type(step) in (str, int)] if isinstance(place, list) else []
    return f"{'.'.join(steps)}: {message}" if steps else message
