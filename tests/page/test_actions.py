"""Compare, replay, fork and prompt rules on the page, and sessions whose ids need an encoded address."""

from pathlib import Path

from tests.page.sample_gateway import Agent, Say, play
from tests.page.test_hostile import SCRIPT
from tests.page.test_screens import SESSION, perform, show, signed_in
from tests.upstream.byte_server import eventually

TEXT = "document.querySelector('main').innerText"


def test_two_sessions_are_compared_up_to_the_turn_where_they_part(tmp_path: Path) -> None:
    async def work() -> None:
        async with signed_in(tmp_path) as (tab, gateway, model):
            for session, last in (("one", "good"), ("two", f"bad {SCRIPT}")):
                agent = Agent(gateway, session)
                model.says = [Say("same"), Say(last)]
                for text in ("begin", "go on"):
                    assert await agent.say(text) == 200
            recorder = gateway.app.recorder
            assert recorder is not None
            await eventually(lambda: recorder.status.written == 4, within=30)
            await show(tab, "#/compare/one", "Two sessions")
            await tab.run("document.querySelector('input[name=second]').focus()")
            await tab.type("two")
            await tab.press("Enter")
            await tab.until("location.hash === '#/compare/one/two'")
            await tab.until(f"{TEXT}.includes('The model answered differently to equal requests.')")
            assert (
                await tab.run("document.querySelector('dl.facts a').getAttribute('href')") == "#/turn/one/2"
            )
            assert SCRIPT in await tab.run(TEXT)
            assert await tab.run("window.hacked") is None
            await show(tab, "#/compare/one/one", "The sessions are equal.")
            await tab.press("Escape")
            await tab.until("location.hash === '#/sessions'")

    perform(work)


def test_a_session_shows_how_to_replay_and_fork_it_and_tries_prompt_rules(tmp_path: Path) -> None:
    async def work() -> None:
        async with signed_in(tmp_path) as (tab, gateway, model):
            await play(gateway, model)
            await show(tab, f"#/session/{SESSION}", "Turns, the latest first")
            await tab.run("document.querySelector('#actions').open = true")
            replay = await tab.run("document.querySelector('#replay').textContent")
            assert replay == f"dragoman replay {SESSION} claude"
            await tab.run(
                "(() => { const at = document.querySelector('input[name=at]'); at.value = 3;"
                " at.dispatchEvent(new Event('input', { bubbles: true })); })()"
            )
            fork = await tab.run("document.querySelector('#fork').textContent")
            assert fork.startswith(f"dragoman fork {SESSION} --at 3 --model ")
            assert fork.endswith(" claude")
            assert await tab.find_barriers() == []
            await tab.run("document.querySelector('input[name=turn]').focus()")
            await tab.press("Enter")
            await tab.until("document.querySelector('#preview').innerText.includes('No prompt rule applies')")

    perform(work)


def test_a_session_whose_id_has_slashes_and_quotes_is_opened(tmp_path: Path) -> None:
    async def work() -> None:
        async with signed_in(tmp_path) as (tab, gateway, _):
            assert await Agent(gateway, "team/a b's/50%2F").say("hello") == 200
            await tab.until("document.querySelector('a.row')")
            await tab.run("location.hash = document.querySelector('a.row').getAttribute('href')")
            await tab.until(f"{TEXT}.includes('Reply: upstream → client')")
            await tab.press("Escape")
            await tab.until(f"{TEXT}.includes('Turns, the latest first')")
            replay = await tab.run("document.querySelector('#replay').textContent")
            assert replay == r"dragoman replay 'team/a b'\''s/50%2F' claude"

    perform(work)
