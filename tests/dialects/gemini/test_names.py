"""Converts names between snake_case and camelCase."""

from dragoman.dialects.gemini.names import CAMEL, NAMES, restore_snake_names, to_camel, to_snake
from dragoman.dialects.interfaces import Json


def test_every_name_has_a_spelling_of_its_own() -> None:
    assert len(CAMEL) == len(NAMES)
    assert to_snake("parametersJsonSchema") == "parameters_json_schema"


def test_a_name_that_is_there_twice_keeps_both_spellings() -> None:
    assert to_camel({"top_k": 1, "topK": 2, "top_p": 3}) == {"top_k": 1, "topK": 2, "topP": 3}


def test_paths_that_are_no_longer_there_are_not_respelled() -> None:
    body: Json = {"contents": [{"parts": []}]}
    restore_snake_names(
        body, ["contents[3].parts[0].inline_data", "tools[0].google_search", "generation_config", "x"]
    )
    assert body == {"contents": [{"parts": []}]}
