"""The paths of the program's files."""

from pathlib import Path

import pytest
from platformdirs import PlatformDirs

from agent_cli.system import paths
from tests.tables import each_row


def test_file_paths_follow_the_current_xdg_variables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The environment is read at every call, so that a changed variable counts."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "s"))

    config, state = tmp_path / "c" / "agent-cli", tmp_path / "s" / "agent-cli"
    assert paths.user_settings_file() == config / "appsettings.toml"
    assert paths.user_env_file() == config / ".env"
    assert paths.permissions_file() == config / "permissions.toml"
    assert paths.sessions_dir() == state / "sessions"
    assert paths.log_file() == state / "logs" / "agent.log"
    assert paths.history_file() == state / "history"
    assert paths.trust_file() == state / "trust.json"
    assert list(tmp_path.iterdir()) == []


@each_row("home", ["/home/ada", "/home/ada/", "/", "", "ada", None])
@each_row("chosen", ["/c", "/c/", "c", "", " /c", None])
def test_own_directories_are_those_of_platformdirs(
    monkeypatch: pytest.MonkeyPatch, home: str | None, chosen: str | None
) -> None:
    """The first prompt does not wait for its import; what it would say must hold all the same."""
    variables = {"HOME": home, "XDG_CONFIG_HOME": chosen, "XDG_STATE_HOME": chosen}
    for name, value in variables.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    known = PlatformDirs("agent-cli", appauthor=False)

    found = (paths.config_dir(), paths.state_dir())

    assert found == (known.user_config_path, known.user_state_path)


def test_private_directory_is_accessible_to_the_user_only(tmp_path: Path) -> None:
    """This holds for every directory created; an existing one keeps its mode."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there").chmod(0o755)  # mkdir obeys the umask

    made = paths.private_dir(tmp_path / "there" / "a" / "b")

    modes = [folder.stat().st_mode & 0o777 for folder in (made, *list(made.parents)[:2])]
    assert modes == [0o700, 0o700, 0o755]


@pytest.mark.parametrize(
    ("home", "path", "shown"),
    [
        ("/home/ann", "/home/ann/src", "~/src"),
        ("/home/ann", "/home/ann", "~"),
        ("/home/ann", "/home/annex/src", "/home/annex/src"),
        ("/", "/src", "/src"),
    ],
)
def test_home_directory_is_shown_as_a_tilde(
    home: str, path: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This saves space in a row of 80 cells."""
    monkeypatch.setenv("HOME", home)

    assert paths.shown(path) == shown


def test_link_that_cannot_be_followed_is_no_file(tmp_path: Path) -> None:
    """`Path.is_file` raises for it."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "too long").symlink_to("a" * 300)
    (tmp_path / "loop").symlink_to("loop")

    names = ("file", "link", "too long", "loop", ".", "nothing")
    assert [name for name in names if paths.is_file(tmp_path / name)] == ["file", "link"]


@pytest.mark.parametrize("path", ["~no-such-user/x", "~a\0b", "plain"])
def test_tilde_of_no_user_stays_as_it_is(path: str) -> None:
    """The name of a file may begin with one; what needs the file reports that it is missing."""
    assert paths.expanded(path) == Path(path)


def test_name_that_no_file_can_have_has_no_identity(tmp_path: Path) -> None:
    """A model may write half a character, or a NUL, as the name of a file."""
    assert [paths.identity(tmp_path / name) for name in ("a\ud800", "a\0", "none")] == [None] * 3
    assert paths.identity(tmp_path) is not None
