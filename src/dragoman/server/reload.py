"""Reads the configuration again while the gateway runs: when its file changes, on a signal, or when asked.

A file that is wrong changes nothing: the configuration that was in force stays, and the error is kept for
whoever asks.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import suppress

import msgspec

from dragoman.config.find import find_config_path
from dragoman.config.model import Config
from dragoman.config.model_facts import learned_path
from dragoman.exchange.gateway import Gateway
from dragoman.hub.errors import ConfigError
from dragoman.server.guard import check_exposure
from dragoman.telemetry.log import log_reload, log_reload_refused, set_up_logging

#: Seconds between two looks at the file.
WATCHED_EVERY = 1.0

#: Settings that only a new start can change, because something was built upon them.
FIXED = ("host", "port", "state")

#: Enough of each file to notice that it is another one.
Print = tuple[tuple[int, int, int], ...]


class Reloads:
    """`read` gives the configuration anew; without it there is nothing to reload from."""

    def __init__(self, gateway: Gateway, read: Callable[[], Config] | None = None) -> None:
        self._gateway = gateway
        self._read = read
        self._traces = gateway.config.telemetry.traces
        self._lock = asyncio.Lock()
        self._under_way: set[asyncio.Task[object]] = set()
        self._watching: asyncio.Task[None] | None = None
        #: The file as it was when it was last read.
        self._read_as: Print = ()
        #: When the configuration in force was read, and how often there was a new one.
        self.loaded_at = gateway.clock()
        self.count = 0
        self.refused = 0
        #: What was wrong with the last that was read, and when; empty if it was fine.
        self.error = ""
        self.failed_at = 0.0
        #: What differs from the file until the gateway is started again.
        self.waiting: tuple[str, ...] = ()

    def start(self) -> None:
        if self._read is not None:
            self._watching = asyncio.get_running_loop().create_task(self._watch(), name="dragoman-reload")

    def stop(self) -> None:
        for task in (self._watching, *self._under_way):
            if task is not None:
                task.cancel()

    def soon(self, why: str) -> None:
        """For whoever cannot wait, such as a signal. A refusal is in the log."""
        task = asyncio.get_running_loop().create_task(self._quietly(why))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def now(self, why: str) -> dict[str, object]:
        """Take the configuration that is there now, and tell what changed; raises what is wrong with it."""
        if self._read is None:
            raise ConfigError("this gateway was started without a configuration that could be read again")
        async with self._lock:
            self._read_as = self._look()
            try:
                config, waiting = self._acceptable(await asyncio.to_thread(self._read))
            except ConfigError as error:
                self.refused += 1
                self.error = f"{error.message} ({error.hint})" if error.hint else error.message
                self.failed_at = self._gateway.clock()
                log_reload_refused(why, self.error)
                raise
            before = self._gateway.config
            changes = dict(_changes(before, config))
            self._gateway.reload(config)
            if config.server.log != before.server.log:
                set_up_logging(config.server.log)
            self.count += 1
            self.error, self.failed_at = "", 0.0
            self.loaded_at = self._gateway.clock()
            self.waiting = waiting
            log_reload(why, config.path, changes, waiting)
            return {"config": config.path, "changed": changes, "needs_restart": list(waiting)}

    def _acceptable(self, config: Config) -> tuple[Config, tuple[str, ...]]:
        """The new configuration on the old address, and what it would have changed about that."""
        old, new = self._gateway.config.server, config.server
        waiting = [f"server.{name}" for name in FIXED if getattr(old, name) != getattr(new, name)]
        if config.telemetry.traces != self._traces:
            waiting.append("telemetry.traces")
        server = msgspec.structs.replace(new, **{name: getattr(old, name) for name in FIXED})
        check_exposure(server, has_stored_keys=self._gateway.accounts.keys.has_keys)
        return msgspec.structs.replace(config, server=server), tuple(waiting)

    async def _quietly(self, why: str) -> None:
        try:
            await self.now(why)
        except ConfigError:
            return

    def _look(self) -> Print:
        """The state of the file that is loaded; without one, of the file that a reload would find."""
        return _print_of(self._gateway.config.path or find_config_path(None, os.environ))

    async def _watch(self) -> None:
        """A change counts when it has stood for one look: editors write in several steps."""
        changed = self._look()
        # A file may have appeared since the gateway started without one.
        self._read_as = changed if self._gateway.config.path else ()
        while True:
            await asyncio.sleep(WATCHED_EVERY)
            seen = self._look()
            if seen == changed and seen and seen != self._read_as:
                await self._quietly("the file changed")
            changed = seen


def _print_of(path: str) -> Print:
    """Of the file and of what was learned beside it; nothing while there is no file."""
    if not path:
        return ()
    prints = []
    with suppress(OSError):
        for each in (path, learned_path(path)):
            found = os.stat(each)
            prints.append((found.st_mtime_ns, found.st_size, found.st_ino))
    return tuple(prints)


def _changes(old: Config, new: Config) -> Iterator[tuple[str, object]]:
    """What is different, in the words of the file; never a value."""
    for name in new.__struct_fields__:
        before, after = getattr(old, name), getattr(new, name)
        if before == after:
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            names = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
            yield name, names
        elif isinstance(after, msgspec.Struct) and type(before) is type(after):
            yield (
                name,
                [key for key in after.__struct_fields__ if getattr(before, key) != getattr(after, key)],
            )
        else:
            yield name, True
