"""Images, documents, audio and video on their way to targets that may not take them."""

import pytest

from dragoman.hub.blocks import Media, MediaKind, Text, ToolResult
from dragoman.hub.request import Request
from tests.fit.building import FOREIGN, build_message, call, fitted, request, result, shape

IMAGE = Media(kind="image", media_type="image/png", data="AAAA", at="messages[0].content[1]")


@pytest.mark.rule("H46", "R130")
def test_an_image_stays_where_images_are_seen() -> None:
    asked = request(build_message("user", "Look", IMAGE))
    assert fitted(asked, "openai_chat")[0].messages == asked.messages


@pytest.mark.rule("H46", "R36")
def test_a_model_without_eyes_is_reported_that_there_was_an_image() -> None:
    after, losses = fitted(request(build_message("user", "Look", IMAGE)), "openai_chat", images=False)
    assert shape(after.messages) == [["user", "Look", "[image left out]"]]
    assert losses == ["messages[0].content[1]: the target takes no image"]


@pytest.mark.rule("H47")
@pytest.mark.parametrize(
    ("kind", "dialect"),
    [("audio", "anthropic"), ("video", "anthropic"), ("audio", "openai_responses"), ("video", "openai_chat")],
)
def test_sound_and_film_are_reported_as_lost_where_they_are_not_taken(kind: MediaKind, dialect: str) -> None:
    after, losses = fitted(request(build_message("user", Media(kind=kind, data="AAAA", at="here"))), dialect)
    assert shape(after.messages) == [["user", f"[{kind} left out]"]]
    assert losses == [f"here: the target takes no {kind}"]


@pytest.mark.rule("R130")
@pytest.mark.parametrize("kind", ["image", "document"])
@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "gemini"])
def test_media_without_a_known_source_are_a_loss_and_no_empty_file(kind: MediaKind, dialect: str) -> None:
    after, losses = fitted(request(build_message("user", "Look", Media(kind=kind, at="here"))), dialect)
    assert shape(after.messages) == [["user", "Look", f"[{kind} left out]"]]
    assert losses == ["here: its source is known to one vendor only"]


@pytest.mark.rule("H45", "R130")
def test_a_document_of_text_becomes_text_where_documents_are_not_taken() -> None:
    document = Media(kind="document", media_type="text/plain", text="All of it.", title="Notes")
    after, losses = fitted(request(build_message("user", document)), "openai_chat", documents=False)
    assert shape(after.messages) == [["user", "Notes\n\nAll of it."]]
    assert losses == []


@pytest.mark.rule("H45")
@pytest.mark.parametrize(
    "block",
    [
        Media(kind="document", file_id="file_1", at="here"),
        Media(kind="image", url="gs://bucket/a.png", at="here"),
    ],
)
def test_what_is_stored_with_one_vendor_cannot_go_to_another(block: Media) -> None:
    after, losses = fitted(request(build_message("user", block)), "openai_chat")
    assert isinstance(after.messages[0].blocks[0], Text)
    assert len(losses) == 1
    home = request(build_message("user", block), dialect="openai_chat")
    assert fitted(home, "openai_chat")[0] is home


@pytest.mark.rule("F12", "H45")
@pytest.mark.parametrize(("source", "target"), FOREIGN)
def test_a_file_id_goes_where_the_same_vendor_stores_the_file(source: str, target: str) -> None:
    file = Media(kind="document", file_id="file_1", at="here")
    asked = request(
        build_message("user", "Hi", file),
        build_message("assistant", call("1")),
        build_message("tool", result("1", file)),
        dialect=source,
    )
    after, losses = fitted(asked, target)
    ids = [block.file_id for block in _list_media(after)]
    is_shared = (source, target) == ("openai_chat", "openai_responses")
    assert ids == (["file_1", "file_1"] if is_shared else [])
    assert losses == ([] if is_shared else ["here: the file is stored with another vendor"])
    fitted_request, losses = fitted(asked, target, shared_files=[source])
    assert [block.file_id for block in _list_media(fitted_request)] == ["file_1", "file_1"]
    assert losses == []


def _list_media(asked: Request) -> list[Media]:
    blocks = [block for each in asked.messages for block in each.blocks]
    inner = [each for block in blocks if isinstance(block, ToolResult) for each in block.content]
    return [block for block in (*blocks, *inner) if isinstance(block, Media)]


@pytest.mark.rule("H20", "R36", "P38")
def test_an_image_in_a_result_moves_behind_the_results_and_states_whose_it_is() -> None:
    asked = request(
        build_message("user", "Hi"),
        build_message("assistant", call("1"), call("2")),
        build_message("tool", result("1", "Here:", IMAGE), result("2", "b")),
        build_message("user", "So?"),
    )
    after, losses = fitted(asked, "openai_chat")
    assert shape(after.messages)[2:] == [
        ["tool", "result 1: Here: [image: see the next message]", "result 2: b"],
        ["user", "The image that call 1 returned:", "Media"],
        ["user", "So?"],
    ]
    assert after.messages[3].blocks[1] == IMAGE
    assert losses == []


@pytest.mark.rule("H20", "H41")
def test_where_sides_alternate_the_image_joins_the_users_message() -> None:
    asked = request(
        build_message("user", "Hi"),
        build_message("assistant", call("1")),
        build_message("user", result("1", IMAGE), "So?"),
    )
    after, _ = fitted(asked, "gemini", media_in_results=False)
    assert [type(block).__name__ for block in after.messages[2].blocks] == [
        "ToolResult",
        "Text",
        "Media",
        "Text",
    ]


@pytest.mark.rule("H20", "P38")
@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses", "gemini"])
def test_an_image_in_a_result_stays_where_results_take_images(dialect: str) -> None:
    asked = request(
        build_message("user", "Hi"),
        build_message("assistant", call("1")),
        build_message("tool", result("1", IMAGE)),
    )
    (answer,) = fitted(asked, dialect)[0].messages[2].blocks
    assert isinstance(answer, ToolResult)
    assert answer.content == (IMAGE,)


def test_an_image_that_the_assistant_made_is_taken_back_by_gemini_alone() -> None:
    asked = request(
        build_message("user", "Draw"), build_message("assistant", IMAGE), build_message("user", "Nice")
    )
    assert shape(fitted(asked, "gemini")[0].messages)[1] == ["assistant", "Media"]
    assert shape(fitted(asked, "anthropic")[0].messages)[1] == ["assistant", "[image left out]"]


def test_at_home_the_same_passes_heed_what_the_profile_states() -> None:
    asked = request(build_message("user", IMAGE), dialect="openai_chat")
    assert fitted(asked, "openai_chat")[0] is asked
    assert shape(fitted(asked, "openai_chat", images=False)[0].messages) == [["user", "[image left out]"]]


@pytest.mark.rule("H20")
def test_at_home_an_image_moves_behind_the_results_of_its_own_message() -> None:
    asked = request(build_message("user", "So?", result("1", IMAGE)), dialect="anthropic")
    after, _ = fitted(asked, "anthropic", media_in_results=False)
    assert shape(after.messages) == [
        ["user", "result 1: [image: see the next message]", "The image that call 1 returned:", "Media", "So?"]
    ]


@pytest.mark.rule("H45")
def test_a_title_comes_before_its_document_where_documents_have_none() -> None:
    document = Media(kind="document", media_type="application/pdf", data="AAAA", title="Report")
    asked = request(
        build_message("user", document),
        build_message("assistant", call("1")),
        build_message("tool", result("1", document)),
    )
    after, losses = fitted(asked, "gemini")
    bare = Media(kind="document", media_type="application/pdf", data="AAAA")
    answer = after.messages[2].blocks[0]
    assert after.messages[0].blocks == (Text(text="Report"), bare)
    assert isinstance(answer, ToolResult)
    assert answer.content == (Text(text="Report"), bare)
    assert losses == []
    assert fitted(asked, "gemini", media_titles=True)[0].messages[0].blocks == (document,)
