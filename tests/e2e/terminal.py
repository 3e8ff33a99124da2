"""A terminal in which a test sees and uses a program as a person does."""

import asyncio
import codecs
import fcntl
import os
import re
import signal
import struct
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyte

#: No person waits so long; a loaded machine may.
SECONDS = 90.0
COLUMNS, LINES = 150, 50
KEYS = {"Enter": "\r", "Escape": "\x1b", "Up": "\x1b[A", "Down": "\x1b[B", "Tab": "\t", "Ctrl-C": "\x03"}
#: Questions of programs about the keyboard and colours, which the emulator does not know.
_UNKNOWN = re.compile(r"\x1b\[[<>=][0-9;]*[A-Za-z]|\x1b\[\?[0-9;]*[mu]|\x1bP.*?\x1b\\", re.DOTALL)

#: A sequence whose end has not come yet.
_BEGINNING = re.compile(r"\x1b(\[[0-?]*)?\Z")


class Terminal:
    """A program in a pseudo terminal, with the screen that a person would see. A context manager."""

    def __init__(self, command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> None:
        self._command, self._folder = list(command), folder
        self._variables = {"TERM": "xterm-256color", "LANG": "C.UTF-8", **variables}
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.Stream(self._screen)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._process: asyncio.subprocess.Process | None = None
        self._master = -1
        self._rest = ""

    async def __aenter__(self) -> "Terminal":
        self._master, end = os.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        # The answers of the terminal to questions of the program, such as the place of the cursor.
        vars(self._screen)["write_process_input"] = self._send
        os.set_blocking(self._master, False)
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            cwd=self._folder,
            env=self._variables,
            stdin=end,
            stdout=end,
            stderr=end,
            start_new_session=True,
            # The terminal becomes the one that controls the new session.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(end)
        asyncio.get_running_loop().add_reader(self._master, self._read)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            await asyncio.wait_for(self._process.wait(), 20)
        except TimeoutError:
            os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)

    def _read(self) -> None:
        try:
            data = os.read(self._master, 65_536)
        except BlockingIOError:
            return
        except OSError:
            # The last process of the terminal has ended.
            asyncio.get_running_loop().remove_reader(self._master)
            return
        text = self._rest + self._decoder.decode(data)
        cut = _BEGINNING.search(text)
        end = cut.start() if cut else len(text)
        self._rest = text[end:]
        self._stream.feed(_UNKNOWN.sub("", text[:end]))

    def _send(self, text: str) -> None:
        os.write(self._master, text.encode())

    @property
    def text(self) -> str:
        """The screen as text, without the blank ends of its lines."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    async def see(self, pattern: str) -> re.Match[str]:
        """Wait until the screen shows the pattern."""
        try:
            async with asyncio.timeout(SECONDS):
                while not (found := re.search(pattern, self.text)):
                    await asyncio.sleep(0.1)
                return found
        except TimeoutError:
            raise AssertionError(f"{pattern!r} is not on the screen:\n{self.text}") from None

    async def wait(self) -> int:
        """Wait until the program has ended; its exit status."""
        assert self._process is not None
        return await asyncio.wait_for(self._process.wait(), SECONDS)

    async def press(self, *keys: str) -> None:
        for key in keys:
            self._send(KEYS[key])
            # Several keys in one read would be taken for pasted text.
            await asyncio.sleep(0.3)

    async def write(self, text: str) -> None:
        """Write a line. Its end comes later: otherwise it would be taken for a pasted line."""
        self._send(text)
        await asyncio.sleep(0.5)
        await self.press("Enter")
