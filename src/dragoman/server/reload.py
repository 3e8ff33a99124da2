"""`ConfigReloader`: reads the configuration again when its file changes, on a signal, or on request.

A file with an error changes nothing: the previous configuration stays in force. The status shows the error.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from dragoman.config.config import Config
from dragoman.config.find import find_config_path
from dragoman.config.load_rules import list_function_files
from dragoman.config.model_facts import learned_path
from dragoman.exchange.gateway import Gateway
from dragoman.hub.errors import ConfigError
from dragoman.server.access import check_exposure
from dragoman.telemetry.log import log_reload, log_reload_refused, log_warning, set_up_logging

#: Seconds between two checks of the file.
WATCH_INTERVAL = 1.0

#: Settings of the server that need a restart.
FIXED = ("host", "port", "state", "workers")

#: The time, size and inode of each file: another value means another content.
FileStamp = tuple[tuple[int, int, int], ...]


class ConfigReloader:
    """`read` reads the configuration; without it nothing can be reloaded."""

    def __init__(self, gateway: Gateway, read: Callable[[], Config] | None = None) -> None:
        self._gateway = gateway
        self._read = read
        self._traces = gateway.config.telemetry.traces
        self._lock = asyncio.Lock()
        self._reloading: set[asyncio.Task[object]] = set()
        self._watching: asyncio.Task[None] | None = None
        #: The stamp of the file that was read last. Not later: it may change while the gateway starts.
        self._read_stamp: FileStamp = self._read_current_stamp() if read and gateway.config.path else ()
        #: When the current configuration was read, and the numbers of reloads and of refused files.
        self.loaded_at = gateway.clock()
        self.count = 0
        self.refused = 0
        #: The error of the last file that was read, and its time; empty if the file was valid.
        self.error = ""
        self.failed_at = 0.0
        #: The keys whose new value needs a restart.
        self.needs_restart: tuple[str, ...] = ()

    def start(self) -> None:
        if self._read is not None:
            self._watching = asyncio.get_running_loop().create_task(self._watch(), name="dragoman-reload")

    def stop(self) -> None:
        for task in (self._watching, *self._reloading):
            if task is not None:
                task.cancel()

    def reload_soon(self, reason: str) -> None:
        """Reload from code that cannot wait, such as a signal handler. An error goes to the log."""
        task = asyncio.get_running_loop().create_task(self._reload_and_log(reason))
        self._reloading.add(task)
        task.add_done_callback(self._reloading.discard)

    async def reload(self, reason: str) -> dict[str, object]:
        """Read and use the configuration. Returns what changed; raises what is wrong with the file."""
        if self._read is None:
            raise ConfigError("this gateway was started without a configuration that can be read again")
        async with self._lock:
            config_stamp, before = self._read_config_stamp(), self._gateway.config
            self._read_stamp = config_stamp + _read_stamp(list_function_files(before))
            try:
                config, needs_restart = self._check(await asyncio.to_thread(self._read))
                self._gateway.reload(config)
            except ConfigError as error:
                self.refused += 1
                self.error = f"{error.message} ({error.hint})" if error.hint else error.message
                self.failed_at = self._gateway.clock()
                log_reload_refused(reason, self.error)
                raise
            self._read_stamp = config_stamp + _read_stamp(list_function_files(config))
            changes = dict(_list_changes(before, config))
            if config.server.log != before.server.log:
                set_up_logging(config.server.log)
            self.count += 1
            self.error, self.failed_at = "", 0.0
            self.loaded_at = self._gateway.clock()
            self.needs_restart = needs_restart
            log_reload(reason, config.path, changes, needs_restart)
            for warning in config.warnings:
                log_warning("configuration", warning=str(warning))
            return {"config": config.path, "changed": changes, "needs_restart": list(needs_restart)}

    def _check(self, config: Config) -> tuple[Config, tuple[str, ...]]:
        """The new configuration with the old values of what needs a restart, and the keys of these."""
        old, new = self._gateway.config.server, config.server
        needs_restart = [f"server.{name}" for name in FIXED if getattr(old, name) != getattr(new, name)]
        if config.telemetry.traces != self._traces:
            needs_restart.append("telemetry.traces")
        if config.state != self._gateway.config.state:
            needs_restart.append("state")
        server = msgspec.structs.replace(new, **{name: getattr(old, name) for name in FIXED})
        check_exposure(server, has_stored_keys=self._gateway.accounts.keys.has_keys)
        fixed = msgspec.structs.replace(config, server=server, state=self._gateway.config.state)
        return fixed, tuple(needs_restart)

    async def _reload_and_log(self, reason: str) -> None:
        try:
            await self.reload(reason)
        except ConfigError:
            return

    def _read_current_stamp(self) -> FileStamp:
        """The stamp of all files that a reload reads, and of the functions that it imports again."""
        return self._read_config_stamp() + _read_stamp(list_function_files(self._gateway.config))

    def _read_config_stamp(self) -> FileStamp:
        """The stamp of the loaded file; without one, of the file that a reload would find."""
        path = self._gateway.config.path or find_config_path(None, os.environ)
        return _read_stamp((path, learned_path(path))) if path else ()

    async def _watch(self) -> None:
        """Reload a changed file when it has been stable for one interval: editors write in several steps."""
        last = self._read_current_stamp()
        while True:
            await asyncio.sleep(WATCH_INTERVAL)
            stamp = self._read_current_stamp()
            if stamp == last and stamp and stamp != self._read_stamp:
                await self._reload_and_log("the file changed")
            last = stamp


def _read_stamp(paths: Iterable[str | Path]) -> FileStamp:
    """The stamp of those of the files that exist."""
    stamps = []
    for each in paths:
        with suppress(OSError):
            found = os.stat(each)
            stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
    return tuple(stamps)


def _list_changes(old: Config, new: Config) -> Iterator[tuple[str, object]]:
    """The keys that differ, by the names in the file. Values are left out: they may be secrets."""
    for name in new.__struct_fields__:
        if name == "warnings":
            continue
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
