"""Makes the pictures of the documentation: the screens of the page, with the sessions of the tests.

`python -m tests.page.pictures docs/images/page` writes them. `--dark` shows the dark colours.
"""

import argparse
import asyncio
import tempfile
from pathlib import Path

from dragoman.accounts.keys import create_key
from dragoman.accounts.limits import Limits
from dragoman.storage.port import Transaction
from tests.page.browser import Tab
from tests.page.sample_gateway import Agent, Model, Say, play
from tests.page.test_processes import served
from tests.page.test_screens import SCREENS, show, signed_in
from tests.server.running import Running

#: Pixels. A screen that needs more height gets it, up to a limit.
WIDTH, HEIGHT, MAX_HEIGHT = 1400, 900, 1100

KEYS = {
    "ann": Limits(tokens_per_day=200_000, cost_per_month=50_000_000),
    "build server": Limits(requests_per_minute=30),
}


async def use_keys(gateway: Running, model: Model) -> None:
    """Create client keys, and send a request with one of them."""
    accounts, now = gateway.app.gateway.accounts, gateway.app.gateway.clock()

    async def create(transaction: Transaction) -> list[str]:
        return [(await create_key(transaction, name, now, limits=limits))[1] for name, limits in KEYS.items()]

    keys = await accounts.storage.run(create)
    accounts.keys.expire()
    await accounts.keys.refresh()
    model.says = [Say("Good morning.", None, 5200, 0, 60)]
    assert await Agent(gateway, "c4-ann", key=keys[0]).say("Good morning.") == 200


async def take_pictures(folder: Path, kind: str, *, is_dark: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="gateway-") as state:
        async with signed_in(Path(state)) as (tab, gateway, model):
            await tab.set_dark(is_dark)
            model.pause = 0.03
            await play(gateway, model)
            for name, (address, text) in SCREENS.items():
                if name == "doctor":
                    continue
                if name == "keys":
                    await use_keys(gateway, model)
                    text = "ann"
                await take_picture(tab, folder / f"{name}.{kind}", address, text, state)
    with tempfile.TemporaryDirectory(prefix="gateway-") as state:
        # The checks of doctor need a gateway in a process of its own.
        async with served(Path(state)) as (tab, _, __):
            await tab.set_dark(is_dark)
            address, text = SCREENS["doctor"]
            await take_picture(tab, folder / f"doctor.{kind}", address, text, state)


async def take_picture(tab: Tab, file: Path, address: str, text: str, state: str) -> None:
    """Take a picture of a screen with all its height. The folder `state` is shown by another name."""
    await tab.resize(WIDTH, HEIGHT)
    await show(tab, address, text)
    await tab.until("!document.querySelector('main').innerText.includes('loading …')")
    needed = await tab.run("document.documentElement.scrollHeight")
    await tab.resize(WIDTH, min(max(HEIGHT, int(needed)), MAX_HEIGHT))
    # The live view is renewed once a second.
    await asyncio.sleep(1.5)
    cells = f"[...document.querySelectorAll('td, dd')].filter((cell) => cell.textContent.includes({state!r}))"
    renamed = f"cell.textContent = cell.textContent.replace({state!r}, '/srv/gateway')"
    await tab.run(f"{cells}.forEach((cell) => {{ {renamed}; }})")
    await tab.take_picture(file, file.suffix[1:])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kind", choices=("webp", "png"), default="webp")
    parser.add_argument("--dark", action="store_true")
    given = parser.parse_args()
    asyncio.run(take_pictures(given.folder, given.kind, is_dark=given.dark))
