"""Reads and writes the options of web search that several dialects write in the same way, and its queries.

The `take_` functions are tolerant: a value of another form than expected stays in the object.
"""

from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import PRIVATE, HostedCall, Location
from dragoman.wire.partial_json import parse_object

LOCATION = "user_location"
PLACES = ("city", "region", "country", "timezone")


def take_domains(values: Json, name: str) -> tuple[str, ...]:
    """Take a list of site names; an empty list stays."""
    domains = values.get(name)
    if not isinstance(domains, list) or not domains:
        return ()
    texts = tuple(domain for domain in domains if isinstance(domain, str))
    if len(texts) != len(domains):
        return ()
    del values[name]
    return texts


def take_location(values: Json) -> Location | None:
    """Take the user's location; None if it cannot be read.

    If `write_location` would not give the same object, a private extra keeps the original.
    """
    value = values.get(LOCATION)
    if not isinstance(value, dict) or value.get("type") != "approximate":
        return None
    known: dict[str, str] = {}
    for name, place in value.items():
        if name in PLACES and isinstance(place, str):
            known[name] = place
        elif name != "type" and place is not None:
            return None
    del values[LOCATION]
    location = Location(**known)
    if write_location(location) != value:
        values[PRIVATE + LOCATION] = value
    return location


def write_location(location: Location) -> Json:
    places = {name: value for name in PLACES if (value := getattr(location, name))}
    return {"type": "approximate", **places}


def find_queries(call: HostedCall) -> tuple[str, ...]:
    """The queries of a web search that a vendor ran; empty for another tool or another action."""
    arguments = parse_object(call.arguments) if call.tool == "web_search" else None
    if not arguments:
        return ()
    queries = arguments.get("queries")
    values = queries if isinstance(queries, list) and queries else [arguments.get("query")]
    return tuple(query for query in values if isinstance(query, str) and query)
