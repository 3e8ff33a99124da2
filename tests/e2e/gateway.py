"""The gateway under test: the installed command in a process of its own, as users run it."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

LISTENS = re.compile(r"dragoman listens on (http://\S+)")
SECONDS_TO_START = 20.0
SECONDS_TO_STOP = 10.0
KEPT_LINES = 60
#: All lines, for tests that search for what must not be there.
LOG_NAME = "log.txt"


class Gateway:
    """A running gateway; `url` is its root, `log` its last lines."""

    def __init__(
        self, config: str, folder: Path, command: Sequence[str] = (sys.executable, "-m", "dragoman")
    ) -> None:
        self._config = config
        self._command = command
        self.folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self.url = ""
        self.log: list[str] = []

    async def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [*self._command, "serve", "--port", "0"]
        if self._config:
            path = self.folder / "dragoman.toml"
            path.write_text(self._config, encoding="utf-8")
            command += ["--config", str(path)]
        self._process = await asyncio.create_subprocess_exec(
            *command,
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        self._reading = asyncio.create_task(self._read())
        await asyncio.wait_for(self._ready.wait(), SECONDS_TO_START)
        if not self.url:
            raise RuntimeError("the gateway did not start:\n" + self.tail())

    async def _read(self) -> None:
        """Keep the last lines of the log, and find the address among the first."""
        assert self._process is not None
        assert self._process.stderr is not None
        with (self.folder / LOG_NAME).open("ab") as log:
            async for raw in self._process.stderr:
                log.write(raw)
                self._note(raw.decode("utf-8", "replace").rstrip())
        self._ready.set()

    def _note(self, line: str) -> None:
        found = LISTENS.search(line)
        if found and not self.url:
            self.url = found.group(1)
            self._ready.set()
        self.log.append(line)
        del self.log[:-KEPT_LINES]

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    def tail(self) -> str:
        return "\n".join(self.log[-25:])

    async def kill(self) -> None:
        """End it as a crash does, without a last word."""
        assert self._process is not None
        assert self._reading is not None
        self._process.kill()
        await self._process.wait()
        await self._reading

    async def stop(self) -> int:
        """Stop as a user does, and give the exit status."""
        assert self._process is not None
        assert self._reading is not None
        # `send_signal` could collect the status of a process that has just ended; asyncio then reports 255.
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGINT)
        try:
            await asyncio.wait_for(self._process.wait(), SECONDS_TO_STOP)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reading
        return self._process.returncode if self._process.returncode is not None else -1
