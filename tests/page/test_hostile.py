"""Texts of models, tools and clients that try to become code: nothing of them runs on any screen."""

from pathlib import Path

from tests.page.sample_gateway import Agent, Say
from tests.page.test_screens import perform, show, signed_in

SCRIPT = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
LINK = "javascript:window.hacked=1"
HOSTILE = f"\"'>{SCRIPT}</td></table></script><svg onload=window.hacked=1>{LINK}"


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    async def work() -> None:
        async with signed_in(tmp_path) as (tab, gateway, model):
            session = "'\"><img src=x onerror=window.hacked=1>"
            agent = Agent(gateway, session, sub_agent=SCRIPT, model=f"x{SCRIPT}")
            agent.tools = [{**agent.tools[0], "name": "Bash", "description": HOSTILE}]
            agent.settings = {SCRIPT: SCRIPT}
            model.says = [Say(HOSTILE, ("Bash", ("{command: '", f"echo {SCRIPT}", "',}")))]
            assert await agent.say(HOSTILE) == 200
            await tab.until("document.querySelector('a.row')")
            turn = await tab.run("document.querySelector('a.row').getAttribute('href')")
            await show(tab, turn, "Reply: upstream → client")
            await tab.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
            assert SCRIPT in await tab.run("document.querySelector('main').textContent")
            for address, text in (
                ("#/sessions", "claude-code"),
                (turn.replace("#/turn/", "#/session/").rpartition("/")[0], SCRIPT),
                ("#/spend?range=hour&by=model", "onerror"),
                (f"#/routes?model={SCRIPT}", "goes there"),
                (f"#/models?model={SCRIPT}", "takes the route"),
            ):
                await show(tab, address, text)
            assert await tab.run("window.hacked") is None
            assert (
                await tab.run("document.querySelectorAll('main img, main script, main iframe').length") == 0
            )
            links = "[...document.querySelectorAll('a')].map((each) => each.getAttribute('href'))"
            assert all(href.startswith("#") for href in await tab.run(links))

    perform(work)


def test_the_policy_stops_code_that_is_inserted_nevertheless(tmp_path: Path) -> None:
    """The second line of defence: also a mistake in the page's own code would run nothing."""

    async def work() -> None:
        async with signed_in(tmp_path) as (tab, _, __):
            refused = "try { document.body.innerHTML = '<b>x</b>'; 'parsed' } catch (error) { error.name }"
            assert await tab.run(refused) == "TypeError"
            refused = "try { document.body.setAttribute('onclick', '1'); 'set' } catch (error) { error.name }"
            assert await tab.run(refused) == "TypeError"
            outside = "fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')"
            assert await tab.run(outside) == "refused"
            assert len(await tab.run("violations")) >= 3
            # These were on purpose.
            await tab.run("violations.length = 0")
            tab.errors.clear()
            tab.requested = [url for url in tab.requested if not url.startswith("http://127.0.0.1:9/")]

    perform(work)
