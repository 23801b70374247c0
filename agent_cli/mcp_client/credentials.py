"""The sign-ins to HTTP servers, in memory, in files or in the system's keyring, by URL.

Only token_storage.py reads the stored texts.
"""

from collections.abc import Generator
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Protocol

from agent_cli.contracts.errors import SettingsError
from agent_cli.mcp_client.stored_files import read_private, write_private

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


class _SharedCredentials:
    """A store that other processes use too; *folder* holds a lock for each server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def lock_file(self, url: str) -> Path:
        """Return the file whose lock a process holds to renew the text of *url*."""
        return self._folder / f".{_name(url)}.lock"


class FileCredentials(_SharedCredentials):
    """A directory with one file (mode 0600) per server, so that processes do not conflict.

    Raises:
        SettingsError: A file cannot be read or written.
    """

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

    def _path(self, url: str) -> Path:
        return self._folder / f"{_name(url)}.json"


class KeyringCredentials(_SharedCredentials):
    """The keyring of the operating system, through the optional package `keyring`.

    Raises:
        SettingsError: It is locked, or its service is not available.
    """

    def __init__(self, keyring: "_Keyring", failure: type[Exception], folder: Path) -> None:
        """Use *keyring*, which raises *failure* or errors of the system; *folder* has the locks."""
        super().__init__(folder)
        self._keyring = keyring
        self._failure = failure

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


class UserCredentials(_SharedCredentials):
    """The keyring if it works on this machine, else files below a directory.

    Decided at the first use, because loading `keyring` is slow.
    """

    def read(self, url: str) -> str | None:
        """Return the text stored for *url*, or None."""
        return self._store.read(url)

    def write(self, url: str, text: str) -> None:
        """Store *text* for *url*."""
        self._store.write(url, text)

    def delete(self, url: str) -> bool:
        """Delete the text stored for *url*; return whether there was one."""
        return self._store.delete(url)

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


def _name(url: str) -> str:
    return sha256(url.encode()).hexdigest()[:32]
