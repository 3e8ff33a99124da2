"""The files of the page over HTTP: who gets them, with which headers, and how large they are."""

import re
from pathlib import Path

import pytest

from dragoman.config.settings import ServerSettings
from dragoman.server.web_page import FOLDER, read_files
from tests.server.running import OPERATOR, config_for, running
from tests.upstream.byte_server import run

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
#: Bytes of all files.
MAX_SIZE = 150 * 1024


def test_a_browser_gets_the_page_and_an_agent_the_health() -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            page = await gateway.ask("GET", "/", headers=BROWSER)
            assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
            assert (await gateway.ask("GET", "/")).json()["status"] == "ok"
            assert (await gateway.ask("HEAD", "/", headers=BROWSER)).headers["etag"] == page.headers["etag"]
            for name, file in read_files().items():
                got = await gateway.ask("GET", f"/page/{name}")
                assert (got.status, got.body) == (200, file.data)
                again = await gateway.ask("HEAD", f"/page/{name}", headers={"if-none-match": file.tag})
                assert again.status == 304

    run(scenario)


def test_the_policy_allows_own_files_only() -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            for path in ("/", "/page/app.js"):
                headers = (await gateway.ask("GET", path, headers=BROWSER)).headers
                policy = dict(
                    each.strip().split(" ", 1) for each in headers["content-security-policy"].split(";")
                )
                assert policy["default-src"] == "'none'"
                assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
                assert policy["require-trusted-types-for"] == "'script'"
                assert {policy[name] for name in ("base-uri", "form-action", "frame-ancestors")} == {"'none'"}
                assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")

    run(scenario)


@pytest.mark.parametrize(
    "headers",
    [{"origin": "https://evil.example"}, {"origin": "null"}, {"host": "evil.example"}],
    ids=["foreign origin", "no origin", "foreign host"],
)
def test_foreign_pages_get_neither_the_page_nor_the_data(headers: dict[str, str]) -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            for path in ("/", "/page/app.js", "/admin/status", "/admin/records/live"):
                got = await gateway.ask("GET", path, headers={**BROWSER, **OPERATOR, **headers})
                assert got.status == 403, path

    run(scenario)


def test_the_page_is_off_with_the_admin_api() -> None:
    async def scenario() -> None:
        async with running(config_for(server=ServerSettings(port=0, admin="off"))) as gateway:
            got = await gateway.ask("GET", "/", headers=BROWSER)
            assert (got.status, b"the admin API is off" in got.body) == (403, True)
            assert (await gateway.ask("GET", "/page/app.js")).status == 403

    run(scenario)


@pytest.mark.parametrize(
    "path", ["/page/..%2fpage.py", "/page/../page.py", "/page/none.js", "/page/", "/page/app.js/x"]
)
def test_no_path_leads_to_another_file(path: str) -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            assert (await gateway.ask("GET", path)).status == 404

    run(scenario)


def test_the_data_needs_the_token() -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            for name in ("config", "models", "facts?model=any", "explain?model=any", "keys"):
                assert (await gateway.ask("GET", f"/admin/{name}")).status == 401
                assert (await gateway.ask("GET", f"/admin/{name}", headers=OPERATOR)).status == 200, name
            for name in ("facts", "explain", "explain?session=none&number=x"):
                assert (await gateway.ask("GET", f"/admin/{name}", headers=OPERATOR)).status == 400, name

    run(scenario)


def test_the_page_is_small_and_makes_no_markup_of_text() -> None:
    files = read_files()
    assert sum(len(file.data) for file in files.values()) <= MAX_SIZE
    for path in sorted(Path(FOLDER).glob("*.js")):
        text = path.read_text("utf-8")
        sinks = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|srcdoc|https?://"
        assert re.findall(sinks, text.replace("http://www.w3.org/2000/svg", "")) == [], path.name
