"""Pages in a browser and clients without a key are refused; the user's own clients are not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.accounts.errors import InvalidKey
from dragoman.accounts.keys import ANONYMOUS
from dragoman.config.settings import Secret, ServerSettings, is_loopback
from dragoman.hub.errors import ConfigError
from dragoman.server.access import (
    AccessRefused,
    authenticate,
    check_exposure,
    check_origin,
)

LOCAL = ServerSettings()
GUARDED = ServerSettings(keys=(Secret("first-key"), Secret("second-key")))
PUBLIC = ServerSettings(host="192.0.2.1", keys=(Secret("first-key"),))
NAMED = ServerSettings(host="192.0.2.1", keys=(Secret("first-key"),), hosts=("gateway.example",))


@pytest.mark.rule("R124")
@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8484", "localhost", "LOCALHOST:1", "localhost.", "[::1]:8484", "app.localhost", "127.9.9.9"],
)
def test_loopback_is_served_under_all_its_names(host: str) -> None:
    check_origin({"host": host}, LOCAL)


@pytest.mark.rule("R124")
@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:8484",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "user@localhost",
        "localhost/evil.example",
        "[::1",
        "192.0.2.1",
        "2130706433",
        "localhost:8484:1",
    ],
)
def test_a_name_that_a_page_made_up_is_refused(host: str) -> None:
    with pytest.raises(AccessRefused) as caught:
        check_origin({"host": host}, LOCAL)
    assert (caught.value.status, caught.value.hint) == (403, "add it to server.hosts")


def test_a_request_without_a_host_is_refused() -> None:
    with pytest.raises(AccessRefused):
        check_origin({}, LOCAL)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "", "ftp://x", "http://user@localhost"])
def test_a_page_of_another_origin_is_refused_even_under_our_name(origin: str) -> None:
    with pytest.raises(AccessRefused, match="origin"):
        check_origin({"host": "localhost", "origin": origin}, LOCAL)


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1", "http://[::1]:1"])
def test_a_page_of_this_machine_is_served(origin: str) -> None:
    check_origin({"host": "localhost", "origin": origin}, LOCAL)


def test_names_of_the_configuration_are_served() -> None:
    server = ServerSettings(hosts=("gateway.example",))
    check_origin({"host": "gateway.example:80", "origin": "https://gateway.example"}, server)
    check_origin({"host": "localhost"}, server)
    check_origin({"host": "192.0.2.7"}, ServerSettings(host="192.0.2.7", keys=(Secret("k"),), hosts=("x",)))


def test_a_public_gateway_with_keys_takes_every_name_until_names_are_given() -> None:
    check_origin({"host": "anything.example"}, PUBLIC)
    with pytest.raises(AccessRefused):
        check_origin({"host": "anything.example"}, NAMED)


def test_a_public_gateway_still_refuses_pages_of_other_origins() -> None:
    with pytest.raises(AccessRefused):
        check_origin({"host": "anything.example", "origin": "https://evil.example"}, PUBLIC)


@pytest.mark.rule("R124")
def test_only_loopback_can_be_served_without_keys() -> None:
    check_exposure(LOCAL)
    check_exposure(PUBLIC)
    with pytest.raises(ConfigError, match="which others can reach"):
        check_exposure(ServerSettings(host="192.0.2.1"))


@pytest.mark.rule("R124")
@pytest.mark.parametrize(
    ("headers", "query"),
    [({}, ""), ({"x-api-key": "any"}, ""), ({"authorization": "Bearer any"}, ""), ({}, "key=any")],
)
def test_without_keys_every_request_of_loopback_is_anonymous(headers: dict[str, str], query: str) -> None:
    assert authenticate(headers, query, LOCAL) is ANONYMOUS
    for server in (GUARDED, ServerSettings(host="192.0.2.1")):
        with pytest.raises(InvalidKey):
            authenticate(headers, query, server)


@pytest.mark.rule("R124")
@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({"x-api-key": "first-key"}, ""),
        ({"x-goog-api-key": "second-key"}, ""),
        ({"authorization": "Bearer first-key"}, ""),
        ({"authorization": "bearer  second-key "}, ""),
        ({}, "alt=sse&key=first-key"),
        ({"x-api-key": "left-over", "authorization": "Bearer first-key"}, ""),
    ],
)
def test_a_key_is_found_where_clients_put_it(headers: dict[str, str], query: str) -> None:
    shown = f"{headers} {query}"
    assert authenticate(headers, query, GUARDED).id == ("config-1" if "first-key" in shown else "config-2")


@pytest.mark.rule("R124")
@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({}, ""),
        ({"x-api-key": ""}, "key="),
        ({"x-api-key": "first-ke"}, ""),
        ({"x-api-key": "first-key-and-more"}, ""),
        ({"x-api-key": "FIRST-KEY"}, ""),
        ({"authorization": "Basic first-key"}, ""),
        ({"authorization": "first-key"}, ""),
        ({"x-api-key": "\u00e4\udcff"}, ""),
        ({"cookie": "key=first-key"}, ""),
    ],
)
def test_anything_else_is_no_key(headers: dict[str, str], query: str) -> None:
    with pytest.raises(InvalidKey) as caught:
        authenticate(headers, query, GUARDED)
    assert (caught.value.status, caught.value.code) == (401, "invalid_api_key")
    assert "first-key" not in caught.value.failure.message


@given(key=st.text(max_size=40))
def test_only_the_very_key_opens(key: str) -> None:
    if key.strip() not in ("first-key", "second-key"):
        with pytest.raises(InvalidKey):
            authenticate({"x-api-key": key}, "", GUARDED)


@given(host=st.text(max_size=40))
def test_any_host_is_judged(host: str) -> None:
    try:
        check_origin({"host": host, "origin": f"http://{host}"}, LOCAL)
    except AccessRefused:
        return
    assert (
        is_loopback(host.lower().strip("[]").rpartition(":")[0] or host.lower())
        or "localhost" in host.lower()
    )
