"""Pages of the web: read as text, bounded, and never from inside the network."""

import asyncio
import gzip
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config.tools import WebFetchSettings
from dragoman.gateway_tools.hosted import HostedUses
from dragoman.gateway_tools.page_text import read_page
from dragoman.gateway_tools.tool import AskModel, ToolFailed, ToolOutcome, ToolRun
from dragoman.gateway_tools.web_client import is_public
from dragoman.gateway_tools.web_fetch import WebFetchTool
from dragoman.hub.blocks import SearchOptions, Text, Tool
from dragoman.hub.fold import Reply
from dragoman.hub.request import Request
from tests.gateway_tools.stub_server import html_answer, serve

PAGE = """<html><head><title> A  page </title><style>p {}</style></head><body><script>evil()</script>
<h2>News</h2><p>One &amp; <a href="https://example.org/x">two</a>.</p><ul><li>first<li>second</ul></body></html>"""


async def ask_nothing(name: str, request: Request) -> Reply:
    raise AssertionError


ASK: AskModel = ask_nothing


def hosted(options: SearchOptions | None = None) -> HostedUses:
    return HostedUses(Tool(name="web_fetch", kind="hosted", common_name="web_fetch", search=options))


async def read(url: str, uses: HostedUses | None = None, **settings: Any) -> ToolOutcome:
    tool = WebFetchTool(WebFetchSettings(**settings), with_search=True)
    context = uses or hosted()
    return await tool.run(ToolRun(name="web_fetch", arguments={"url": url}, context=context, ask_model=ASK))


def text_of(outcome: ToolOutcome) -> str:
    return "".join(block.text for block in outcome.content if isinstance(block, Text))


def resolve_to(*answers: str) -> Any:
    """A resolver that gives these addresses one after another; the last one for all that follow."""
    left = list(answers)

    async def resolve(host: str, port: int, **more: object) -> list[object]:
        address = left.pop(0) if len(left) > 1 else left[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    return resolve


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.3.4", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
        *("0.0.0.0", "224.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1"),  # noqa: S104 (read, not bound)
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fec0::1", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "no address", ""),
    ],
)
def test_addresses_inside_of_networks_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.215.14", "8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808"])
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(address)


@given(st.ip_addresses(network="127.0.0.0/8") | st.ip_addresses(network="fe80::/10"))
def test_no_loopback_or_link_local_address_is_public(address: object) -> None:
    assert not is_public(str(address))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::1]", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]", "internal.example"],
)
def test_this_machine_is_not_fetched(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> tuple[ToolOutcome, int]:
        async with serve({"/": html_answer("secret")}) as server:
            # The resolver understands every spelling of an address.
            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve_to("127.0.0.1"))
            return await read(f"http://{host}:{server.port}/"), len(server.requests)

    outcome, count = asyncio.run(scenario())
    assert outcome.is_error
    assert "secret" not in text_of(outcome)
    assert count == 0


def test_a_redirect_does_not_lead_inside() -> None:
    async def scenario() -> tuple[ToolOutcome, int]:
        async with serve({"/": html_answer("secret")}) as inner:
            moved = (302, {"location": f"http://127.0.0.1:{inner.port}/"}, b"")
            async with serve({"/": moved}) as outer:
                outcome = await read(f"{outer.url}/", private=(f"127.0.0.1:{outer.port}",))
                return outcome, len(inner.requests)

    outcome, count = asyncio.run(scenario())
    assert "not on the public internet" in text_of(outcome)
    assert count == 0


def test_a_name_is_resolved_once_so_that_it_cannot_change_after_the_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A rebinding server answers first with a public address, then with one of this machine.
    answers = ("93.184.215.14", "127.0.0.1")
    connected: list[object] = []

    async def scenario() -> ToolOutcome:
        async def connect(addresses: list[Any], **more: object) -> socket.socket:
            connected.extend(address[4][0] for address in addresses)
            raise OSError("no network here")

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve_to(*answers))
        monkeypatch.setattr("dragoman.upstream.http.connector.start_connection", connect)
        return await read("http://rebinding.example/")

    assert asyncio.run(scenario()).is_error
    assert connected == ["93.184.215.14"]


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "gopher://example.org/",
        "no address",
        "http://",
        "http://someone@host/",
        "http://a b/",
        "http://example.org:99999/",
        "http://a..ü/",
    ],
)
def test_other_addresses_are_refused(url: str) -> None:
    assert asyncio.run(read(url)).is_error


def fetch_page(answer: Any, **settings: Any) -> ToolOutcome:
    async def scenario() -> ToolOutcome:
        async with serve({"/p": answer}) as server:
            return await read(f"{server.url}/p?q=1", private=("127.0.0.1",), **settings)

    return asyncio.run(scenario())


def test_a_page_becomes_text_with_its_title_as_the_source() -> None:
    outcome = fetch_page(html_answer(PAGE))
    assert text_of(outcome) == "## News\n\nOne & two (https://example.org/x).\n\n- first\n- second"
    assert [source.title for source in outcome.sources] == ["A page"]
    assert outcome.sources[0].url.startswith("http://127.0.0.1:")


def test_size_and_kind_are_bounded() -> None:
    long = fetch_page(html_answer("x" * 100_000), max_mb=0.01, max_chars=500)
    assert text_of(long) == "x" * 500
    picture = fetch_page((200, {"content-type": "image/png"}, b"\x89PNG"))
    assert "no text (image/png)" in text_of(picture)
    assert "status 404" in text_of(fetch_page((404, {}, b"")))
    bomb = gzip.compress(b"a" * 5_000_000)
    inflated = fetch_page((200, {"content-type": "text/plain", "content-encoding": "gzip"}, bomb), max_mb=0.1)
    assert len(text_of(inflated)) == 40_000


#: Pages whose time must be linear in their length, as parts that are repeated.
SLOW_PAGES = ["<a ", "<a =", '<a href="', "<!--", "</", "<?", "<![", "<svg></b>", "<title><b>", "<script></x"]


@pytest.mark.parametrize("part", SLOW_PAGES)
def test_a_page_that_is_made_to_be_slow_is_read(part: str) -> None:
    # With a time that is not linear this takes hours.
    title, _ = read_page("<title>T</title>" + part * (2_000_000 // len(part)))
    assert title == "T"


def test_a_charset_that_is_slow_to_read_is_not_used() -> None:
    body = b"a" * 2_000_000 + b"-" + b"b" * 2_000_000
    outcome = fetch_page((200, {"content-type": "text/plain; charset=punycode"}, body))
    assert text_of(outcome).startswith("aaaa")


def test_markup_that_is_not_closed_loses_no_text_before_it() -> None:
    html = "<head><title>A &lt; B</title><meta a='>'><body>3 < 4<br/>x <svg><title>no</title>no</svg>y"
    html += "<a class=it's href=https://q.example/?a=1&amp;b>z</a><!-- > no --></3>!<p"
    assert read_page(html) == ("A < B", "3 < 4\nx yz (https://q.example/?a=1&b)!")


def test_addresses_in_other_scripts_are_encoded() -> None:
    async def scenario() -> tuple[ToolOutcome, str]:
        async with serve({"/%C3%BC": html_answer("here")}) as server:
            outcome = await read(f"{server.url}/ü?q=ü&r=%20", private=("127.0.0.1",))
            return outcome, server.requests[0][0]

    outcome, head = asyncio.run(scenario())
    assert text_of(outcome) == "here"
    assert head.startswith("GET /%C3%BC?q=%C3%BC&r=%20 HTTP/1.1\r\n")


def test_a_host_in_another_script_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts: list[str] = []

    async def scenario() -> None:
        async def resolve(host: str, port: int, **more: object) -> list[object]:
            hosts.append(host)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
        assert "not on the public internet" in text_of(await read("https://bücher.example/a"))

    asyncio.run(scenario())
    assert hosts == ["xn--bcher-kva.example"]


@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(allowed_domains=("other.example",)),
        SearchOptions(blocked_domains=("127.0.0.1",)),
        SearchOptions(allowed_domains=("127.0.0.1/elsewhere",)),
    ],
)
def test_the_clients_domain_lists_hold_for_pages(options: SearchOptions) -> None:
    async def scenario() -> tuple[ToolOutcome, int]:
        async with serve({"/p": html_answer("secret")}) as server:
            outcome = await read(f"{server.url}/p", hosted(options), private=("127.0.0.1",))
            return outcome, len(server.requests)

    outcome, count = asyncio.run(scenario())
    assert "lists of domains" in text_of(outcome)
    assert count == 0


def test_the_clients_domain_lists_hold_after_a_redirect() -> None:
    async def scenario() -> ToolOutcome:
        moved = (302, {"location": "http://localhost/x"}, b"")
        async with serve({"/p": moved}) as server:
            uses = hosted(SearchOptions(allowed_domains=("127.0.0.1",)))
            return await read(f"{server.url}/p", uses, private=("127.0.0.1", "localhost"))

    assert "lists of domains" in text_of(asyncio.run(scenario()))


@pytest.mark.parametrize(
    "url",
    ["http://a.example:1@evil.example/", "http://evil.example?.a.example", "http://evil.example#.a.example"],
)
def test_a_domain_is_not_found_in_other_parts_of_an_address(url: str) -> None:
    assert not hosted(SearchOptions(allowed_domains=("a.example",))).allows(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.example./",
        "http://a.EVIL.example../",
        "http://evil。example/",
        "http://xn--bcher-kva.example/",
        "http://BÜCHER.example/x",
        "http://some.example/docs",
        "http://some.example/%64ocs/a",
        "http://some.example//docs/a",
        "http://some.example/./x/../docs/a",
        "http://some.example./docs",
    ],
)
def test_another_form_of_an_address_does_not_avoid_the_clients_lists(url: str) -> None:
    blocked = SearchOptions(blocked_domains=("evil.example", "bücher.example", "some.example/docs/"))
    assert not hosted(blocked).allows(url)
    assert not hosted(SearchOptions(allowed_domains=("other.example",))).allows(url)
    assert hosted(blocked).allows("http://some.example/other/docs")


def test_the_clients_limit_on_pages_holds() -> None:
    async def scenario() -> None:
        async with serve({"/p": html_answer("here")}) as server:
            uses = hosted(SearchOptions(max_uses=1))
            assert not (await read(f"{server.url}/p", uses, private=("127.0.0.1",))).is_error
            with pytest.raises(ToolFailed, match="allows 1 pages"):
                await read(f"{server.url}/p", uses, private=("127.0.0.1",))
            assert len(server.requests) == 1

    asyncio.run(scenario())


def test_redirects_end() -> None:
    outcome = fetch_page((301, {"location": "/p"}, b""))
    assert "redirects more than 5 times" in text_of(outcome)


@given(st.text(alphabet=st.sampled_from("<>/abhp=\"'! &;-\nscriptle"), max_size=200))
def test_any_page_can_be_read(html: str) -> None:
    title, text = read_page(html)
    assert isinstance(title, str)
    assert len(text) <= 3 * len(html) + 10
