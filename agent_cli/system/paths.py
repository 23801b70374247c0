"""The paths of this program's files: XDG directories, computed anew at every call.

Knows names only; nothing here opens a file, and only `private_dir` creates directories.
"""

import os
import sys
from itertools import islice
from pathlib import Path
from typing import TypeAlias

Identity: TypeAlias = tuple[int, int]
_APP = "agent-cli"
NO_FILE = "it is a named pipe, a device or a socket; replace or remove it"
"""Ends a sentence about what is left out because it is `is_special`."""


def shown(path: Path | str) -> str:
    """Return *path* for display, with `~` for the home directory."""
    home, text = os.path.expanduser("~"), str(path)  # noqa: PTH111 - as text
    inside = home != os.sep and (text == home or text.startswith(f"{home}{os.sep}"))
    return f"~{text[len(home) :]}" if inside else text


def is_too_long(path: str) -> bool:
    """Return whether no program can open *path*, because the kernel takes none of its length."""
    return len(path) > os.pathconf("/", "PC_PATH_MAX")


def expanded(path: Path | str) -> Path:
    """Return *path* with a home directory for its `~`; a `~name` of no user stays as it is."""
    try:
        return Path(os.path.expanduser(path))  # noqa: PTH111 - pathlib raises for no user
    except ValueError:  # a NUL in it
        return Path(path)


def config_dir() -> Path:
    """Return the folder of the user's settings, .env and permissions."""
    if (base := _base_dir("XDG_CONFIG_HOME", ".config")) is not None:
        return base / _APP
    from platformdirs import PlatformDirs  # on other systems

    return PlatformDirs(_APP, appauthor=False).user_config_path


def state_dir() -> Path:
    """Return the folder of the program's state: sessions, logs, history, trust."""
    if (base := _base_dir("XDG_STATE_HOME", ".local/state")) is not None:
        return base / _APP
    from platformdirs import PlatformDirs  # on other systems

    return PlatformDirs(_APP, appauthor=False).user_state_path


def _base_dir(variable: str, in_home: str) -> Path | None:
    """Return an XDG folder as platformdirs does; None where more than two variables decide.

    On Linux, where the import of platformdirs would be a third of Python's own start.
    """
    if sys.platform != "linux":
        return None
    chosen, home = os.environ.get(variable, ""), os.environ.get("HOME", "")
    if chosen.startswith("/"):
        return Path(chosen)
    return Path(home, in_home) if home.startswith("/") else None


def shared_instructions_file() -> Path:
    """Return the user's AGENTS.md, shared by agents of all vendors."""
    return xdg_config_dir() / "AGENTS.md"


def xdg_config_dir() -> Path:
    """Return the folder in which many programs keep their settings, also on macOS."""
    chosen = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return chosen if chosen.is_absolute() else Path.home() / ".config"


def skills_dir() -> Path:
    """Return the folder of the user's skills for this program alone."""
    return config_dir() / "skills"


def shared_skills_dir() -> Path:
    """Return the folder of the user's skills, shared by agents of all vendors."""
    return Path.home() / ".agents" / "skills"


def claude_dir() -> Path:
    """Return the user's Claude Code directory, whose formats are read too."""
    return Path.home() / ".claude"


def own_dirs() -> tuple[Path, ...]:
    """Return the folders of the user's agents, commands and styles: ours, then Claude Code's.

    Between them is what was imported of other agents.
    """
    return config_dir(), *imported_dirs(), claude_dir()


def private_dirs() -> tuple[Path, Path]:
    """Return the folders of this program alone, which commands must not read or change."""
    return config_dir(), state_dir()


def codex_dir() -> Path:
    """Return the user's Codex directory: its instructions and skills are read too."""
    chosen = Path(os.environ.get("CODEX_HOME", ""))
    return chosen if chosen.is_absolute() else Path.home() / ".codex"


def user_settings_file() -> Path:
    """Return the user's `appsettings.toml`; an `appsettings.json` beside it is read first."""
    return config_dir() / "appsettings.toml"


def user_env_file() -> Path:
    """Return the user's `.env` file."""
    return config_dir() / ".env"


def imported_dir() -> Path:
    """Return the folder of what `agent-cli import` took over, a folder for each program."""
    return config_dir() / "imported"


def imported_dirs() -> tuple[Path, ...]:
    """Return the folders of the programs from which something was imported."""
    folder = imported_dir()
    if not is_dir(folder):
        return ()
    return tuple(sorted(path for path in folder.iterdir() if path.name[0] != "." and is_dir(path)))


def permissions_file() -> Path:
    """Return the file of the user's permission rules."""
    return config_dir() / "permissions.toml"


def sessions_dir() -> Path:
    """Return the one folder for the sessions of all workspaces."""
    return state_dir() / "sessions"


def server_files_dir(session_id: str) -> Path:
    """Return the folder of files that MCP servers sent in a session."""
    return sessions_dir() / "files" / session_id


def changes_dir() -> Path:
    """Return the folder of the changes that the agent made to files, by session."""
    return state_dir() / "changes"


def plugins_dir() -> Path:
    """Return the folder of the plugins that the user added."""
    return state_dir() / "plugins"


def plugins_file() -> Path:
    """Return the list of the plugins that the user added; missing where there are none."""
    return plugins_dir() / "plugins.json"


def log_file() -> Path:
    """Return the log file of a file sink without a path."""
    return state_dir() / "logs" / "agent.log"


def history_file() -> Path:
    """Return the file of the prompt history, shared by all sessions."""
    return state_dir() / "history"


def trust_file() -> Path:
    """Return the file of the workspaces that the user trusts."""
    return state_dir() / "trust.json"


def answer_key_file() -> Path:
    """Return the secret with which answers to questions are signed; made with the first one."""
    return state_dir() / "answer.key"


def answers_dir() -> Path:
    """Return the folder of signed answers on their way to a program."""
    return state_dir() / "answers"


def private_dir(path: Path) -> Path:
    """Create *path* and its parents so that only the user can enter them; return *path*.

    An existing directory keeps its mode: it may be shared on purpose.
    """
    for missing in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    return path


def current_folder() -> Path:
    """Return the current directory; if it was deleted, the path that it had, by all we know."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path(os.environ.get("PWD", "/"))


def exists(path: Path) -> bool:
    """Return whether *path* exists; False if that cannot be found out, as in `is_file`."""
    return os.path.exists(path)  # noqa: PTH110


_NAMES_CHECKED_MAX = 10_000
_PLAIN = str.maketrans("\xa0\u2007\u2009\u202f\u3000\u2018\u2019", "     ''")


def as_named(path: Path) -> Path:
    """Return *path*, or the only existing one that looks the same, if *path* does not exist.

    macOS puts a narrow space into the names of screenshots, or an apostrophe that is no ASCII, and
    takes letters and their accents apart: neither keyboards nor models type these.
    """
    text = str(path)
    may_differ = " " in text or "'" in text or not text.isascii()
    return (may_differ and not os.path.lexists(path) and _lookalike(path)) or path


def _lookalike(path: Path) -> Path | None:
    """Return the only path with the characters of *path*, whatever their spaces and accents."""
    found = Path(path.anchor)
    for name in path.parts[1:]:
        if os.path.lexists(found / name):
            found /= name
            continue
        plain = _plain_name(name)
        try:
            entries = islice(found.iterdir(), _NAMES_CHECKED_MAX)
            alike = [entry for entry in entries if _plain_name(entry.name) == plain]
        except OSError:
            return None
        if len(alike) != 1:
            return None
        [found] = alike
    return found


def _plain_name(name: str) -> str:
    from unicodedata import normalize  # hardly ever needed

    return normalize("NFC", name).translate(_PLAIN)


def real_path(path: Path | str) -> Path:
    """Return *path* absolute and without links, as far as they can be followed.

    `Path.resolve` raises a RuntimeError for a link to itself, which any repository may contain.
    """
    return Path(os.path.realpath(path))


def is_utf8(name: str) -> bool:
    """Return whether the file name *name* is UTF-8: another cannot be typed, shown or sent."""
    try:
        return name.isascii() or bool(name.encode())
    except UnicodeEncodeError:
        return False


def is_dir(path: Path) -> bool:
    """Return whether *path* is a directory; False if that cannot be found out, as in `is_file`."""
    return os.path.isdir(path)  # noqa: PTH112


def is_file(path: Path) -> bool:
    """Return whether *path* is a regular file; False if that cannot be found out.

    `Path.is_file` raises for a link to a name that is too long, or into a folder of someone else.
    """
    return os.path.isfile(path)  # noqa: PTH113


def is_special(path: Path) -> bool:
    """Return whether *path* is a named pipe, a device or a socket; reading one may never end."""
    return exists(path) and not is_file(path) and not is_dir(path)


def identity(path: Path | str, *, follow_symlinks: bool = True) -> Identity | None:
    """Return the device and inode of *path*, the same for all its names; None if it is missing."""
    try:
        found = os.stat(path, follow_symlinks=follow_symlinks)  # noqa: PTH116 - for speed
    except (OSError, ValueError):  # with a NUL or half a character in its name, it is none
        return None
    return found.st_dev, found.st_ino


# A day before the end of the year 9999, for every time zone.
_LATEST_MS = 253_402_214_400_000


def unix_ms(file_time_ns: int) -> int:
    """Return the time of a file in Unix ms, within the years that a calendar can name.

    A broken clock, or a program that unpacks archives, may have set any time.
    """
    return min(max(0, file_time_ns // 1_000_000), _LATEST_MS)


def stamp(path: Path) -> object:
    """Return a value that changes with the file, without opening it; None if it does not exist."""
    try:
        found = os.stat(path)  # noqa: PTH116 - for speed: called per file at each completion
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
