"""What is kept in private files: sign-ins to HTTP servers, and definitions of approved tools.

The stored text is read only by oauth.py; the key is the server's URL.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.servers import public_name
from agent_cli.system import paths, private_files
from agent_cli.system.json_text import json_object

if TYPE_CHECKING:
    from agent_cli.mcp_client.config import ServerConfig

_SERVICE = "agent-cli MCP"


class Credentials(Protocol):
    """Port to a store of secrets; blocks, so it is called in a thread."""

    def read(self, url: str) -> str | None:
        """Return the text stored for *url*, or None."""

    def write(self, url: str, text: str) -> None:
        """Store *text* for *url*."""

    def delete(self, url: str) -> bool:
        """Delete the text stored for *url*; return whether there was one."""
        ...

    def lock_file(self, url: str) -> Path | None:
        """Return the file whose lock a process holds to renew *url*'s text; None if it is ours."""
        ...


class MemoryCredentials:
    """Sign-ins in memory, lost when the program ends."""

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}

    def read(self, url: str) -> str | None:
        """Return the text stored for *url*, or None."""
        return self._kept.get(url)

    def write(self, url: str, text: str) -> None:
        """Store *text* for *url*."""
        self._kept[url] = text

    def delete(self, url: str) -> bool:
        """Delete the text stored for *url*; return whether there was one."""
        return self._kept.pop(url, None) is not None

    def lock_file(self, url: str) -> None:
        """Return None: no other process reads it."""


class FileCredentials:
    """A directory with one file (mode 0600) per server, so that processes do not conflict.

    Raises:
        SettingsError: A file cannot be read or written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, url: str) -> str | None:
        """Return the text stored for *url*, or None."""
        data = read_private(self._path(url))
        return None if data is None else data.decode(errors="replace")

    def write(self, url: str, text: str) -> None:
        """Store *text* for *url*."""
        write_private(self._path(url), text.encode())

    def delete(self, url: str) -> bool:
        """Delete the text stored for *url*; return whether there was one."""
        path = self._path(url)
        known = path.exists()
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise SettingsError(f"{path} cannot be deleted: {error.strerror}") from error
        return known

    def lock_file(self, url: str) -> Path:
        """Return the lock file beside the credentials of *url*."""
        return _lock_file(self._folder, url)

    def _path(self, url: str) -> Path:
        return self._folder / f"{_name(url)}.json"


class KeyringCredentials:
    """The keyring of the operating system, through the optional package `keyring`.

    Raises:
        SettingsError: It is locked, or its service is not available.
    """

    def __init__(self, keyring: "_Keyring", failure: type[Exception], folder: Path) -> None:
        """Use *keyring*, which raises *failure* or errors of the system; *folder* has the locks."""
        self._keyring = keyring
        self._failure = failure
        self._folder = folder

    def read(self, url: str) -> str | None:
        """Return the text stored for *url*, or None."""
        with self._answering():
            return self._keyring.get_password(_SERVICE, url)

    def write(self, url: str, text: str) -> None:
        """Store *text* for *url*."""
        with self._answering():
            self._keyring.set_password(_SERVICE, url, text)

    def delete(self, url: str) -> bool:
        """Delete the text stored for *url*; return whether there was one."""
        known = self.read(url) is not None
        if known:
            with self._answering():
                self._keyring.delete_password(_SERVICE, url)
        return known

    def lock_file(self, url: str) -> Path:
        """Return a file: a keyring has no locks."""
        return _lock_file(self._folder, url)

    @contextmanager
    def _answering(self) -> Generator[None]:
        try:
            yield
        except (self._failure, OSError, RuntimeError) as error:
            raise SettingsError(f"the system's keyring does not answer: {error}") from error


class _Keyring(Protocol):
    """The part of `keyring` used here."""

    def get_password(self, service: str, user: str) -> str | None: ...
    def set_password(self, service: str, user: str, password: str) -> None: ...
    def delete_password(self, service: str, user: str) -> None: ...


class UserCredentials:
    """The keyring if it works on this machine, else files below a directory.

    Decided at the first use, because loading `keyring` is slow.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, url: str) -> str | None:
        """Return the text stored for *url*, or None."""
        return self._store.read(url)

    def write(self, url: str, text: str) -> None:
        """Store *text* for *url*."""
        self._store.write(url, text)

    def delete(self, url: str) -> bool:
        """Delete the text stored for *url*; return whether there was one."""
        return self._store.delete(url)

    def lock_file(self, url: str) -> Path:
        """Return the same file for either store."""
        return _lock_file(self._folder, url)

    @cached_property
    def _store(self) -> Credentials:
        try:
            keyring = import_module("keyring")  # optional, slow to load, and it may ship no types
            failure = import_module("keyring.errors").KeyringError
            backend = keyring.get_keyring()
            # A back end without a working service has a priority of 0 or less.
            if backend.priority > 0:
                return KeyringCredentials(backend, failure, self._folder)
        except (ImportError, RuntimeError):
            pass
        return FileCredentials(self._folder)


def _lock_file(folder: Path, url: str) -> Path:
    return folder / f".{_name(url)}.lock"


def _name(url: str) -> str:
    return sha256(url.encode()).hexdigest()[:32]


_POLL_S = 0.02


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Keep other programs from changing *path* between reading and writing it; blocks.

    Raises:
        SettingsError: It cannot be locked.
    """
    lock = path.with_name(f".{path.name}.lock")
    try:
        descriptor = _opened(lock)
    except OSError as error:
        raise SettingsError(f"{lock} cannot be written: {error.strerror}") from error
    try:
        try:
            private_files.wait_for_lock(descriptor, lock)
        except OSError as error:
            raise SettingsError(f"{lock} is held by another agent-cli: try again") from error
        yield
    finally:
        os.close(descriptor)


@asynccontextmanager
async def held(lock: Path, limit_s: float) -> AsyncGenerator[None]:
    """Hold the file *lock* alone among all processes; the others' event loops go on meanwhile.

    Raises:
        TimeoutError: Another process holds it for longer than *limit_s*.
        OSError: It cannot be locked.
    """
    descriptor = _opened(lock)
    try:
        async with asyncio.timeout(limit_s):
            while not private_files.try_lock(descriptor):  # noqa: ASYNC110 - held by other processes
                await asyncio.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _opened(lock: Path) -> int:
    paths.private_dir(lock.parent)
    return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def write_private(path: Path, data: bytes) -> None:
    """Replace the content of *path* by *data*, as `private_files.write_private`.

    Raises:
        SettingsError: It cannot be written.
    """
    try:
        private_files.write_private(path, data)
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from error


def read_private(path: Path) -> bytes | None:
    """Return the content of *path*, None if it does not exist.

    Raises:
        SettingsError: It cannot be read.
    """
    if paths.is_special(path):
        raise SettingsError(f"{path} cannot be read: {paths.NO_FILE}")
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error


class PrivateTable:
    """A JSON file, key → name → value, that several processes change.

    Raises:
        SettingsError: The file cannot be read or written, or is damaged.
    """

    def __init__(self, path: Path, *, remedy: str) -> None:
        """Read nothing yet; *remedy* ends the error about a damaged file: "delete it to ..."."""
        self._path = path
        self._remedy = remedy

    def of(self, key: str) -> Mapping[str, Any]:
        """Return name → value, {} if nothing is stored."""
        return self._read().get(key, {})

    def update(self, key: str, values: Mapping[str, Any]) -> None:
        """Store *values* beside those that *key* has; thread-safe."""
        if values.items() <= self.of(key).items():
            return
        with locked(self._path):  # or two processes would overwrite each other's entries
            table = self._read()
            table.setdefault(key, {}).update(values)
            write_private(self._path, json.dumps(table, indent=1, sort_keys=True).encode())

    def _read(self) -> dict[str, dict[str, Any]]:
        data = read_private(self._path)
        stored = {} if data is None else json_object(data)
        if stored is None:
            raise SettingsError(f"{self._path} is damaged; {self._remedy}")
        return stored


# A server can pass every check with a harmless tool and change it later. A tool is pinned at its
# first call, together with the server's instructions. A read-only mark is only its author's claim:
# such a tool runs without approval once a person has approved it.
READS_ONLY = "\nIt says that it only reads: it runs unasked.\n"
"""The end of the definition of a tool marked read-only."""

_READING = " only reads"


class Pins:
    """A private table: server → tool → the approved definition."""

    def __init__(self, path: Path) -> None:
        self._table = PrivateTable(path, remedy="delete it, then approve all tools again")

    def pin(self, config: "ServerConfig", approved: Mapping[str, str]) -> None:
        """Store *approved*, tool → definition; thread-safe.

        Raises:
            SettingsError: The file cannot be read or written.
        """
        self._table.update(_identity(config), approved)

    def vouch(self, config: "ServerConfig", tool: str, definition: str) -> None:
        """Store that a person approved *tool*, which is marked read-only; as `pin()`."""
        self._table.update(_identity(config) + _READING, {tool: definition})

    def vouched(self, config: "ServerConfig") -> Mapping[str, str]:
        """Return tool → the definition with which a person approved it as read-only.

        Raises:
            SettingsError: The file cannot be read.
        """
        return self._table.of(_identity(config) + _READING)

    def reads_unasked(self, config: "ServerConfig", name: str) -> bool:
        """Return whether a person approved the tool with this public *name* as read-only.

        Raises:
            SettingsError: The file cannot be read.
        """
        return any(
            definition.endswith(READS_ONLY) and public_name(config.name, tool) == name
            for tool, definition in self.vouched(config).items()
        )

    def of_server(self, config: "ServerConfig") -> Mapping[str, str]:
        """Return tool → the approved definition.

        Raises:
            SettingsError: The file cannot be read.
        """
        return self._table.of(_identity(config))


def difference(tool: str, approved: str, now: str) -> str:
    """Return the change as a unified diff."""
    import difflib  # where a tool changed

    lines = difflib.unified_diff(
        approved.splitlines(), now.splitlines(), f"{tool} (approved)", f"{tool} (now)", lineterm=""
    )
    return "\n".join(lines)


def _identity(config: "ServerConfig") -> str:
    """Return the server's name with a hash of its configuration, to tell programs apart."""
    what = json.dumps([config.transport, config.command, config.args, config.url])
    return f"{config.name} {sha256(what.encode(errors='surrogatepass')).hexdigest()[:16]}"
