"""A client in a pseudo-terminal, as a person uses it: what its screen shows, and what is typed."""

import asyncio
import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.e2e.clients.client import end_group

ROWS, COLUMNS = 45, 150
#: A loaded machine may need this long.
SECONDS_TO_SEE = 60.0
#: Seconds between a text and the key that sends it: what comes at once is taken for a pasted line.
SECONDS_BEFORE_ENTER = 0.5
_CONTROLS = re.compile(r"\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]|\s")


class Terminal:
    """The terminal of one process. Texts are compared without blanks, which screens write as movements."""

    def __init__(self, master: int) -> None:
        self._master = master
        self._output = bytearray()
        self._has_grown = asyncio.Event()
        asyncio.get_running_loop().add_reader(master, self._read)

    def _read(self) -> None:
        try:
            self._output += os.read(self._master, 65536)
        except OSError:
            asyncio.get_running_loop().remove_reader(self._master)
        self._has_grown.set()

    @property
    def screen(self) -> str:
        return _CONTROLS.sub("", self._output.decode("utf-8", "replace"))

    async def see(self, text: str) -> None:
        """Wait until the screen has shown the text since the last call of `forget`."""
        wanted = _CONTROLS.sub("", text)
        try:
            async with asyncio.timeout(SECONDS_TO_SEE):
                while wanted not in self.screen:
                    self._has_grown.clear()
                    await self._has_grown.wait()
        except TimeoutError:
            raise AssertionError(f"{text!r} is not on the screen: {self.screen[-3000:]}") from None

    def forget(self) -> None:
        """Forget what the screen has shown."""
        self._output.clear()

    async def enter(self, text: str) -> None:
        """Type a text, wait until it is on the screen, and send it."""
        os.write(self._master, text.encode())
        await self.see(text)
        await asyncio.sleep(SECONDS_BEFORE_ENTER)
        os.write(self._master, b"\r")

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)


@asynccontextmanager
async def open_terminal(
    command: list[str], folder: Path, environment: Mapping[str, str]
) -> AsyncIterator[Terminal]:
    """Run a command in a terminal of its own. At the end it is stopped, with all that it started."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**environment, "TERM": "xterm-256color"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    terminal = Terminal(master)
    try:
        yield terminal
    finally:
        end_group(process.pid)
        await process.wait()
        terminal.close()
