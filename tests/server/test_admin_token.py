"""The admin token: created once, private, and hard to guess."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dragoman.hub.errors import ConfigError
from dragoman.server.admin_token import FILE_NAME, VARIABLE, find_or_create_token, find_token


def test_the_first_start_makes_a_token_that_the_next_start_finds(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "dragoman"
    assert find_token(folder, {}) is None
    made = find_or_create_token(folder, {})
    assert len(made.reveal()) >= 32
    assert find_or_create_token(folder, {}) == made == find_token(folder, {})
    assert [path.name for path in folder.iterdir()] == [FILE_NAME]


def test_only_the_user_can_read_the_token(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    token = find_or_create_token(folder, {})
    assert stat.S_IMODE((folder / FILE_NAME).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert token.reveal() not in repr(token)


def test_gateways_that_start_together_agree_on_one_token(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        tokens = list(
            pool.map(lambda number: find_or_create_token(tmp_path / str(number % 4), {}), range(32))
        )
    assert len(set(tokens)) == 4


def test_a_token_from_the_environment_goes_before_the_file(tmp_path: Path) -> None:
    find_or_create_token(tmp_path, {})
    given = "a-token-from-the-environment"
    assert find_or_create_token(tmp_path, {VARIABLE: f"{given}\n"}).reveal() == given


@pytest.mark.parametrize("given", ["short", "with blanks in between it", "umlauts-äöü-äöü-äöü-äöü"])
def test_a_token_that_is_easy_to_guess_or_cannot_be_sent_is_refused(tmp_path: Path, given: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_token(tmp_path, {VARIABLE: given})
    assert given not in caught.value.message
    assert VARIABLE in caught.value.message
    (tmp_path / FILE_NAME).write_text(given, "utf-8")
    with pytest.raises(ConfigError) as caught:
        find_or_create_token(tmp_path, {})
    assert given not in caught.value.message


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "ascii")
    with pytest.raises(ConfigError) as caught:
        find_or_create_token(tmp_path / "file" / "below", {})
    assert VARIABLE in caught.value.hint or "cannot read" in caught.value.message


def plant(folder: Path, mode: int) -> Path:
    """A token that another user may have written."""
    folder.mkdir(exist_ok=True)
    path = folder / FILE_NAME
    path.write_text("known-to-somebody-else\n")
    path.chmod(mode)
    return path


@pytest.mark.rule("S9")
@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602])
def test_a_token_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    plant(tmp_path, mode)
    with pytest.raises(ConfigError, match="other users can write it"):
        find_or_create_token(tmp_path, {})


@pytest.mark.rule("S9")
def test_a_token_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    path = plant(folder, 0o600)
    if os.geteuid() != 0:
        pytest.skip("only root can make a file of another user")
    os.chown(path, 4321, 4321)
    with pytest.raises(ConfigError, match="belongs to another user"):
        find_or_create_token(folder, {})


@pytest.mark.rule("S9")
def test_a_token_that_is_a_link_is_refused(tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text("known-to-somebody-else\n")
    (tmp_path / FILE_NAME).symlink_to(known)
    with pytest.raises(ConfigError, match="cannot read the admin token"):
        find_or_create_token(tmp_path, {})


@pytest.mark.rule("S9")
def test_a_folder_and_a_token_that_others_can_read_are_closed_to_them(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    path = plant(folder, 0o644)
    folder.chmod(0o777)
    find_or_create_token(folder, {})
    assert (folder.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
