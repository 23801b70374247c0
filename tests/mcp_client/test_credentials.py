import errno
import fcntl
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace

import pytest

from agent_cli.contracts.errors import SettingsError
from agent_cli.mcp_client.config import ServerConfig
from agent_cli.mcp_client.credentials import (
    Credentials,
    FileCredentials,
    KeyringCredentials,
    MemoryCredentials,
    UserCredentials,
)
from agent_cli.mcp_client.host import Pins
from agent_cli.mcp_client.stored_files import locked
from agent_cli.mcp_client.user_servers import UserServers


class FakeKeyring:
    """A keyring in memory."""

    def __init__(self, priority: float) -> None:
        self.priority = priority
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, user: str) -> str | None:
        return self.kept.get((service, user))

    def set_password(self, service: str, user: str, password: str) -> None:
        self.kept[service, user] = password

    def delete_password(self, service: str, user: str) -> None:
        del self.kept[service, user]


@pytest.mark.parametrize("kind", ["file", "memory", "keyring"])
def test_stored_credentials_are_found_until_deleted(kind: str, tmp_path: Path) -> None:
    places: dict[str, Credentials] = {
        "file": FileCredentials(tmp_path / "kept"),
        "memory": MemoryCredentials(),
        "keyring": KeyringCredentials(FakeKeyring(1), LookupError, tmp_path),
    }
    place = places[kind]
    place.write("https://a/mcp", "one")
    place.write("https://b/mcp", "two")

    assert (place.read("https://a/mcp"), place.read("https://c")) == ("one", None)
    assert (place.delete("https://a/mcp"), place.delete("https://a/mcp")) == (True, False)
    assert (place.read("https://a/mcp"), place.read("https://b/mcp")) == (None, "two")


def test_credential_files_are_readable_by_the_user_only(tmp_path: Path) -> None:
    FileCredentials(tmp_path / "kept").write("https://a/mcp", "secret")

    [file] = (tmp_path / "kept").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_unwritable_credentials_folder_is_a_settings_error(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file in the way")

    with pytest.raises(SettingsError, match="cannot be written"):
        FileCredentials(tmp_path / "kept").write("https://a", "x")


def test_locked_keyring_is_a_settings_error() -> None:
    """Its service may also be missing; neither may end the program."""

    class Locked(FakeKeyring):
        def get_password(self, service: str, user: str) -> str | None:
            raise LookupError(f"{service} is locked")

    place = KeyringCredentials(Locked(1), LookupError, Path())

    for use in (place.read, place.delete):
        with pytest.raises(SettingsError, match="keyring does not answer: agent-cli MCP is locked"):
            use("https://a")


@pytest.mark.parametrize(("priority", "in_keyring"), [(5, True), (0, False)])
def test_credentials_go_to_the_keyring_only_if_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, priority: float, in_keyring: bool
) -> None:
    """The package may be installed on a machine without a keyring service."""
    keyring = FakeKeyring(priority)
    module = SimpleNamespace(get_keyring=lambda: keyring)
    monkeypatch.setitem(sys.modules, "keyring", module)
    errors = SimpleNamespace(KeyringError=LookupError)
    monkeypatch.setitem(sys.modules, "keyring.errors", errors)
    UserCredentials(tmp_path / "kept").write("https://a", "x")

    assert bool(keyring.kept) is in_keyring
    assert (tmp_path / "kept").exists() is not in_keyring


def test_credentials_go_to_files_without_the_keyring_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    UserCredentials(tmp_path / "kept").write("https://a", "x")

    assert UserCredentials(tmp_path / "kept").read("https://a") == "x"


SESSIONS = 4


def test_tools_pinned_by_several_sessions_at_once_are_all_kept(tmp_path: Path) -> None:
    """The runs of a batch begin together; a lost pin would hide a later change of the tool."""
    together, file, server = Barrier(SESSIONS), tmp_path / "pins.json", ServerConfig(name="web")

    def pin(session: int) -> None:
        pins = Pins(file)
        for number in range(10):
            together.wait()
            pins.pin(server, {f"{session}.{number}": "as it was"})

    with ThreadPoolExecutor(SESSIONS) as threads:
        list(threads.map(pin, range(SESSIONS)))

    assert len(Pins(file).of_server(server)) == SESSIONS * 10


def test_servers_added_and_removed_by_several_programs_at_once_are_all_kept(tmp_path: Path) -> None:
    """A script that sets up a machine may run `agent-cli mcp add` several times at once."""
    together, servers = Barrier(SESSIONS), UserServers(tmp_path / "mcp.json")

    def add(program: int) -> None:
        for number in range(10):
            together.wait()
            assert servers.add({f"{program}.{number}": {"command": "x"}, "shared": {}}) in (
                (),
                ("shared",),
            )
            if number:
                servers.remove(f"{program}.{number - 1}")

    with ThreadPoolExecutor(SESSIONS) as threads:
        list(threads.map(add, range(SESSIONS)))

    assert sorted(servers.names()) == [*(f"{each}.9" for each in range(SESSIONS)), "shared"]


def test_file_system_without_locks_is_not_taken_for_another_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """So it is on some network file systems: "try again" never helped."""

    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)

    with (
        pytest.raises(SettingsError, match=r"\.lock cannot be locked: No locks available$"),
        locked(tmp_path / "mcp.json"),
    ):
        pytest.fail("not locked")
