"""A real Chromium, driven by its DevTools protocol: one tab that remembers its requests and errors."""

import asyncio
import base64
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import websockets

CLIENTS = Path(__file__).resolve().parents[2] / ".clients"
#: `tools/clients/install.sh` unpacks it. A Chromium of the system is preferred.
UNPACKED = CLIENTS / "chromium" / "chromium"
AXE = CLIENTS / "node_modules" / "axe-core" / "axe.min.js"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_LISTENS = re.compile(rb"DevTools listening on (ws://\S+)")
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
    *("--font-render-hinting=none", "--remote-debugging-port=0"),
)
SECONDS = 15.0

#: The tab reports each violation of its content security policy, from its first script on.
_WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation",
  (event) => violations.push(`${event.violatedDirective} ${event.blockedURI}`));
"""


def find_chromium() -> Path:
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    return Path(found) if found else UNPACKED


class PageFailed(Exception):
    """The page's code raised."""


class Tab:
    """One tab. `requested`: the addresses of all requests; `errors`: errors of console and scripts."""

    def __init__(self, connection: websockets.ClientConnection) -> None:
        self._connection = connection
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._count = 0
        self._session = ""
        self.requested: list[str] = []
        self.errors: list[str] = []
        self.dialogs: list[str] = []

    async def open(self) -> None:
        target = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self.call(f"{domain}.enable")
        await self.call("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)
        await self.resize(1400, 900)

    async def listen(self) -> None:
        async for message in self._connection:
            value = msgspec.json.decode(message)
            if "id" in value:
                self._answers.pop(value["id"]).set_result(value)
            else:
                self._note(value["method"], value["params"])

    def _note(self, method: str, params: dict[str, Any]) -> None:
        match method:
            case "Network.requestWillBeSent":
                self.requested.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.errors.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.errors.append(params["entry"]["text"])
            case "Page.javascriptDialogOpening":
                self.dialogs.append(params["message"])

    async def call(self, method: str, **params: object) -> dict[str, Any]:
        self._count += 1
        answer = self._answers[self._count] = asyncio.get_running_loop().create_future()
        message = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        await self._connection.send(msgspec.json.encode(message).decode())
        async with asyncio.timeout(SECONDS):
            value = await answer
        if "error" in value:
            raise PageFailed(f"{method}: {value['error']}")
        result: dict[str, Any] = value["result"]
        return result

    async def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        result = await self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        if "exceptionDetails" in result:
            raise PageFailed(str(result["exceptionDetails"]))
        return result["result"].get("value")

    async def until(self, script: str, seconds: float = SECONDS) -> Any:
        """Wait until an expression is true, and return its value."""
        try:
            async with asyncio.timeout(seconds):
                # An element has no value that could be returned.
                while not (value := await self.run(f"(found => found instanceof Node || found)({script})")):
                    await asyncio.sleep(0.03)
                return value
        except TimeoutError:
            text = await self.run("document.body.innerText")
            raise AssertionError(f"not true: {script}\n{self.errors}\n{text[:3000]}") from None

    async def visit(self, url: str) -> None:
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def press(self, *keys: str) -> None:
        for key in keys:
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            codes = {"Enter": 13, "Escape": 27, "Tab": 9}
            shared: dict[str, object] = {"key": key, "windowsVirtualKeyCode": codes.get(key, 0)}
            await self.call(
                "Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **shared
            )
            await self.call("Input.dispatchKeyEvent", type="keyUp", **shared)

    async def type(self, text: str) -> None:
        await self.call("Input.insertText", text=text)

    async def resize(self, width: int, height: int) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    async def set_dark(self, is_dark: bool) -> None:
        value = "dark" if is_dark else "light"
        features = [{"name": "prefers-color-scheme", "value": value}]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def set_offline(self, is_offline: bool) -> None:
        limits = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        await self.call("Network.emulateNetworkConditions", offline=is_offline, **limits)

    async def take_picture(self, file: Path, kind: str = "webp", quality: int = 70) -> None:
        shot = await self.call("Page.captureScreenshot", format=kind, quality=quality)
        file.write_bytes(base64.b64decode(shot["data"]))

    async def find_barriers(self) -> list[str]:
        """What axe-core finds against WCAG 2.2 AA and its own good practices."""
        await self.run(AXE.read_text("utf-8") + "; 1")
        found = await self.run(
            "axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations.map("
            "(each) => `${each.id}: ${each.nodes.slice(0, 3).map((node) => node.html).join(' | ')}`))"
        )
        return list(found)


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Tab]:
    """A Chromium with an empty profile in the folder, and one tab."""
    process = await asyncio.create_subprocess_exec(
        *(str(find_chromium()), *_OPTIONS, f"--user-data-dir={folder / 'chromium'}", "about:blank"),
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", "TZ": "UTC"},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with websockets.connect(await _read_address(process), max_size=None) as connection:
            tab = Tab(connection)
            listening = asyncio.ensure_future(tab.listen())
            try:
                await tab.open()
                yield tab
            finally:
                listening.cancel()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _read_address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    lines = []
    async with asyncio.timeout(SECONDS):
        while line := await process.stderr.readline():
            lines.append(line)
            if found := _LISTENS.search(line):
                return found[1].decode()
    raise RuntimeError(f"Chromium did not start: {b''.join(lines).decode('utf-8', 'replace')}")
