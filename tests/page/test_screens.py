"""The page in a real Chromium: every screen, live, by keyboard alone, and with 10,000 turns."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from dragoman.records.store import NAMES, open_records
from tests.page.browser import Tab, browser
from tests.page.sample_gateway import Agent, Model, Say, play, run_sample_gateway
from tests.server.running import ADMIN_TOKEN, Running

SESSION = "4f7c1f0e-parser"
#: The hash of each screen, and a text that it shows when it is complete.
SCREENS = {
    "now": ("#/now", "Latest turns"),
    "sessions": ("#/sessions", "/srv/parser"),
    "session": (f"#/session/{SESSION}", "Turns, the latest first"),
    "turn": (f"#/turn/{SESSION}/4", "Reply: upstream → client"),
    "compare": (f"#/compare/{SESSION}/b21d9a44-docs", "Turn by turn"),
    "spend": ("#/spend?range=hour", "cache hits"),
    "models": ("#/models?model=qwen3-coder", "Facts about local/qwen3-coder"),
    "routes": ("#/routes?model=claude-opus-5", "Why claude-opus-5 goes there"),
    "keys": ("#/keys", "there are no client keys"),
    "config": ("#/config", "Effective values"),
    "doctor": ("#/doctor", "Checks of this installation"),
}

NAVIGATION = ("now", "sessions", "spend", "models", "routes", "keys", "config", "doctor")


def perform(work: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario with a browser, which needs longer on a busy machine."""

    async def bounded() -> None:
        async with asyncio.timeout(90):
            await work()

    asyncio.run(bounded())


@asynccontextmanager
async def signed_in(folder: Path) -> AsyncIterator[tuple[Tab, Running, Model]]:
    """A tab that shows the page of a gateway. At the end it has done nothing that it must not do."""
    async with run_sample_gateway(folder) as (gateway, model), browser(folder) as tab:
        await tab.visit(f"http://127.0.0.1:{gateway.port}/")
        await tab.until("document.activeElement.id === 'token'")
        await tab.type(ADMIN_TOKEN)
        await tab.press("Enter")
        await tab.until("document.querySelector('now-screen h1')")
        yield tab, gateway, model
        await check_manners(tab, gateway)


async def check_manners(tab: Tab, gateway: Running) -> None:
    origin = f"http://127.0.0.1:{gateway.port}/"
    assert [url for url in tab.requested if not url.startswith(origin)] == []
    assert [url for url in tab.requested if ADMIN_TOKEN in url] == []
    assert ADMIN_TOKEN not in await tab.run("document.documentElement.outerHTML + location.href")
    assert await tab.run("violations") == []
    assert tab.errors == []
    assert tab.dialogs == []


async def show(tab: Tab, address: str, text: str) -> None:
    await tab.run(f"location.hash = {address!r}")
    await tab.until(f"document.querySelector('main').innerText.includes({text!r})")


def test_every_screen_is_shown_without_barriers_in_light_and_dark(tmp_path: Path) -> None:
    async def work() -> None:
        async with signed_in(tmp_path) as (tab, gateway, model):
            await play(gateway, model)
            for name, (address, text) in SCREENS.items():
                await show(tab, address, text)
                await tab.until("!document.querySelector('main').innerText.includes('loading …')")
                for is_dark in (False, True):
                    await tab.set_dark(is_dark)
                    assert await tab.find_barriers() == [], (name, is_dark)
                assert await tab.run("document.querySelector('.problem:not(:empty)') === null"), name
                assert await tab.run("document.documentElement.scrollWidth <= innerWidth"), name

    perform(work)


#: Tables and pages that are wider than what shows them.
TOO_WIDE = """[document.documentElement, ...document.querySelectorAll('.scroll:has(table)')]
    .filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.ariaLabel ?? 'page')"""


def test_tables_are_read_on_a_telephone_without_scrolling_sideways(tmp_path: Path) -> None:
    async def work() -> None:
        async with signed_in(tmp_path) as (tab, gateway, model):
            await play(gateway, model)
            await tab.resize(400, 800)
            too_wide = {}
            for name, (address, text) in SCREENS.items():
                await show(tab, address, text)
                await tab.until("!document.querySelector('main').innerText.includes('loading …')")
                too_wide[name] = await tab.run(TOO_WIDE)
            assert {name: found for name, found in too_wide.items() if found} == {}
            await show(tab, *SCREENS["sessions"])
            shown = await tab.run("getComputedStyle(document.querySelector('td'), '::before').content")
            assert shown == '"last turn"'
            assert await tab.find_barriers() == []

    perform(work)


def test_a_turn_is_shown_in_four_panes(tmp_path: Path) -> None:
    async def work() -> None:
        async with signed_in(tmp_path) as (tab, gateway, model):
            model.pause = 0.01
            await play(gateway, model)
            await show(tab, f"#/turn/{SESSION}/4", "Reply: upstream → client")
            await tab.until("document.querySelector('#client-request')")
            text = await tab.run("document.querySelector('main').innerText")
            assert "pass: model" in text
            table = "[...document.querySelectorAll('[aria-label=\"Context window\"] tbody tr')]"
            assert await tab.run(f"{table}.map((row) => row.cells[0].innerText)") == [
                *(
                    "system",
                    "tools",
                    "messages of the user",
                    "answers of the model",
                    "results of tools",
                    "all",
                )
            ]
            # The call that was not JSON, as it came in two pieces and as it left.
            assert "commas, quotes, bare_keys" in text
            assert "{command: 'sed -n 40,80p" in text
            assert '{"command": "sed -n 40,80p src/parser.py"}' in text
            assert await tab.run(
                "document.querySelector('#client-request').innerText.includes('Fix the parser.')"
            )
            assert await tab.run(
                "document.querySelector('#upstream-request').innerText.includes('include_usage')"
            )
            rows = "[...document.querySelectorAll('.events tbody tr')].map((row) => row.innerText)"
            events = await tab.run(rows)
            # An event of the upstream and the client's event that it became stand in one row.
            assert any(
                re.search(r"data\s+(\w+)\s.*content_block_delta\s+\1", row, re.DOTALL) for row in events
            )
            await tab.press("[")
            await tab.until("document.querySelector('h1')?.textContent === 'Turn 3'")
            await show(tab, f"#/turn/{SESSION}/5", "Reply: upstream → client")
            text = await tab.run("document.querySelector('main').innerText")
            assert "--hard HEAD~3" in text
            assert "it would throw away work" in text

    perform(work)


def test_a_session_shows_its_losses_and_what_to_do_about_them(tmp_path: Path) -> None:
    async def work() -> None:
        async with signed_in(tmp_path) as (tab, gateway, _):
            agent = Agent(gateway, "lossy-1")
            await agent.say("hello")
            await show(tab, "#/session/lossy-1", "Turns, the latest first")
            assert await tab.run("document.querySelector('[aria-label=\"Losses of the session\"]')") is None
            agent.settings = {"top_k": 5, "service_tier": "standard_only"}
            rows = "[...document.querySelectorAll('table[aria-label=\"Losses of the session\"] tbody tr')]"
            cells = f"{rows}.map((row) => [...row.cells].map((cell) => cell.innerText))"
            for number in (2, 3):
                await agent.say("again")
                await tab.until(f"{cells}[0]?.[3] === '{number}'")
            found = {place: rest for place, *rest in await tab.run(cells)}
            assert found["top_k"] == [
                *("the target has no such setting", "2", "3", "add it to sampling if the model has it")
            ]
            assert await tab.find_barriers() == []
            assert await tab.run(f"{rows}[0].querySelector('a').getAttribute('href')") == "#/turn/lossy-1/3"

    perform(work)


def test_what_the_cache_saved_stands_beside_the_cost(tmp_path: Path) -> None:
    async def work() -> None:
        async with signed_in(tmp_path) as (tab, gateway, model):
            # A million tokens of the prompt cost 0.4 dollars, 0.08 from the cache, and the answer 1.6.
            model.says = [Say("One.", None, 100_000, 0, 10), Say("Two.", None, 100_000, 90_000, 10)]
            agent = Agent(gateway, "saving-1")
            for text in ("hello", "again"):
                await agent.say(text)
            names = "[...document.querySelectorAll('.facts dt')]"
            pairs = f"{names}.map((each) => [each.innerText, each.nextSibling.innerText])"
            for address, text in (
                ("#/session/saving-1", "Turns, the latest first"),
                ("#/spend", "cache hits"),
            ):
                await show(tab, address, text)
                found = dict(await tab.run(pairs))
                assert (found["cost"], found["saved by the cache"]) == ("$0.051", "$0.029"), address

    perform(work)


def test_an_exchange_appears_while_it_runs_and_its_turn_when_it_ends(tmp_path: Path) -> None:
    async def work() -> None:
        async with signed_in(tmp_path) as (tab, gateway, model):
            model.gate.clear()
            model.says = [Say("A first word.")]
            asking = asyncio.ensure_future(Agent(gateway, "live-1").say("hello"))
            await tab.until("document.querySelector('.card')?.innerText.includes('qwen3-coder')")
            model.gate.set()
            assert await asking == 200
            await tab.until("document.querySelector('a.row')?.getAttribute('href') === '#/turn/live-1/1'")
            await tab.until("!document.querySelector('.card')")
            await show(tab, "#/session/live-1", "Turns, the latest first")
            await Agent(gateway, "live-1").say("again")
            await tab.until("document.querySelectorAll('a.row').length === 2")

    perform(work)


def test_turns_that_end_while_the_connection_is_lost_are_shown_afterwards(tmp_path: Path) -> None:
    async def work() -> None:
        async with signed_in(tmp_path) as (tab, gateway, _):
            agent = Agent(gateway, "lost-1")
            await agent.say("hello")
            rows = "[...document.querySelectorAll('a.row')].map((row) => row.getAttribute('href'))"
            expected: list[str] = []
            for count, screen in enumerate(("#/now", "#/session/lost-1"), 2):
                await show(tab, screen, "latest" if "session" in screen else "Latest turns")
                await tab.set_offline(True)
                # Without a network an open stream goes on. The gateway ends it.
                gateway.app.exchanges.is_closing = True
                await tab.until("document.querySelector('#pulse').textContent.includes('lost')")
                gateway.app.exchanges.is_closing = False
                await agent.say("again")
                await tab.set_offline(False)
                expected = [f"#/turn/lost-1/{number}" for number in range(count, 0, -1)]
                await tab.until(f"JSON.stringify({rows}) === '{msgspec.json.encode(expected).decode()}'")
            # The browser reports each attempt without a network.
            tab.errors.clear()

    perform(work)


def test_everything_can_be_reached_by_keys(tmp_path: Path) -> None:
    async def work() -> None:
        async with signed_in(tmp_path) as (tab, gateway, model):
            await play(gateway, model)
            for number, name in enumerate(NAVIGATION, 1):
                await tab.press(str(number))
                await tab.until(f"document.querySelector('{name}-screen h1')")
                assert await tab.run("document.querySelector('nav [aria-current]').dataset.screen") == name
            await tab.press("2")
            await tab.until("document.querySelectorAll('sessions-screen a.row').length === 3")
            await tab.press("j", "j", "j", "k", "k", "j", "j", "Enter")
            await tab.until(f"location.hash === '#/session/{SESSION}'")
            await tab.until("document.querySelector('session-screen a.row')")
            assert await tab.run("document.querySelector('a.row').closest('tr').cells[1].innerText") == "6"
            await tab.press("j", "Enter")
            await tab.until(f"location.hash === '#/turn/{SESSION}/6'")
            await tab.until("document.querySelector('turn-screen h1')")
            await tab.press("Escape")
            await tab.until("document.querySelector('session-screen h1')")
            await tab.press("u")
            await tab.until("document.querySelector('sessions-screen a.row')")
            await tab.press("/")
            await tab.type("agent:codex")
            await tab.press("Enter")
            await tab.until("document.querySelectorAll('sessions-screen a.row').length === 1")
            assert await tab.run("location.hash") == "#/sessions?filter=agent%3Acodex"
            await tab.run("document.activeElement.blur()")
            await tab.press("?")
            await tab.until("document.querySelector('dialog[open]')")
            await tab.press("Escape")
            await tab.until("!document.querySelector('dialog[open]')")

    perform(work)


def test_a_wrong_token_and_a_wrong_filter_are_explained(tmp_path: Path) -> None:
    async def work() -> None:
        async with run_sample_gateway(tmp_path) as (gateway, _), browser(tmp_path) as tab:
            await tab.visit(f"http://127.0.0.1:{gateway.port}/#/sessions?filter=colour%3Ared")
            await tab.until("document.activeElement.id === 'token'")
            await tab.type("wrong")
            await tab.press("Enter")
            await tab.until("document.querySelector('.problem')?.textContent.includes('does not accept')")
            await tab.run("document.querySelector('#token').focus()")
            await tab.type(ADMIN_TOKEN)
            await tab.press("Enter")
            await tab.until(
                "document.querySelector('.problem')?.textContent.includes('there is no field colour')"
            )

    perform(work)


def test_ten_thousand_turns_stay_usable(tmp_path: Path) -> None:
    count = 10_000

    async def work() -> None:
        async with signed_in(tmp_path) as (tab, gateway, _):
            await Agent(gateway, "long").say("hello")
            recorder = gateway.app.recorder
            assert recorder is not None
            while not recorder.status.written:
                await asyncio.sleep(0.01)
            names = ", ".join(NAMES)
            copied = ", ".join(
                {"number": "each.value", "started": "started + each.value * 7"}.get(name, name)
                for name in NAMES
            )
            query = f"""
                INSERT INTO turns ({names}, details)
                WITH RECURSIVE each(value) AS
                    (SELECT 2 UNION ALL SELECT value + 1 FROM each WHERE value < {count})
                SELECT {copied}, details FROM turns, each WHERE turns.id = 1
            """  # noqa: S608 (column names of our own)
            open_records(recorder.file, lambda connection: connection.execute(query))
            await show(tab, "#/session/long", "Turns, the latest first")
            # The latest turns come first; the others are added while the list is scrolled.
            assert (
                await tab.run("document.querySelector('a.row').getAttribute('href')")
                == f"#/turn/long/{count}"
            )
            shown = await tab.run("document.querySelectorAll('a.row').length")
            assert shown < count
            await tab.press("j", "j", "j")
            assert await tab.run("document.activeElement.getAttribute('href')") == f"#/turn/long/{count - 2}"
            await tab.run("document.querySelector('.end').scrollIntoView()")
            await tab.until(f"document.querySelectorAll('a.row').length > {shown}")
            await show(tab, "#/spend?range=all&by=session", "long")

    perform(work)
