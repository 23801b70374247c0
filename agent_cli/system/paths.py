"""Where files of this program live: XDG directories, asked for anew at every call.

Knows names only; nothing here opens a file, and only `private_dir` makes anything.
"""

import os
from pathlib import Path

from platformdirs import PlatformDirs

_APP = "agent-cli"


def shown(path: Path | str) -> str:
    """Return *path* as people write it, with `~` for the home directory."""
    home, text = os.path.expanduser("~"), str(path)  # noqa: PTH111 - as text
    inside = home != os.sep and (text == home or text.startswith(f"{home}{os.sep}"))
    return f"~{text[len(home) :]}" if inside else text


def config_dir() -> Path:
    """The user's settings, .env and permissions."""
    return PlatformDirs(_APP, appauthor=False).user_config_path


def state_dir() -> Path:
    """What the program remembers: sessions, logs, history, trust."""
    return PlatformDirs(_APP, appauthor=False).user_state_path


def shared_instructions_file() -> Path:
    """The AGENTS.md that the user keeps for all agents, of whatever make."""
    chosen = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return (chosen if chosen.is_absolute() else Path.home() / ".config") / "AGENTS.md"


def shared_skills_dir() -> Path:
    """The skills that the user keeps for all agents, of whatever make."""
    return Path.home() / ".agents" / "skills"


def claude_dir() -> Path:
    """Return the user's directory of Claude Code, whose formats are read too."""
    return Path.home() / ".claude"


def user_settings_file() -> Path:
    """The user's `appsettings.toml`; an `appsettings.json` beside it is read first."""
    return config_dir() / "appsettings.toml"


def user_env_file() -> Path:
    """The user's `.env`."""
    return config_dir() / ".env"


def permissions_file() -> Path:
    """The user's permission rules."""
    return config_dir() / "permissions.toml"


def sessions_dir() -> Path:
    """One folder for all sessions of all workspaces."""
    return state_dir() / "sessions"


def changes_dir() -> Path:
    """What the agent did to files, a folder for each session."""
    return state_dir() / "changes"


def log_file() -> Path:
    """The log a file sink without a path writes to."""
    return state_dir() / "logs" / "agent.log"


def history_file() -> Path:
    """What the user typed at the prompt, across sessions."""
    return state_dir() / "history"


def trust_file() -> Path:
    """Which workspaces the user trusts."""
    return state_dir() / "trust.json"


def private_dir(path: Path) -> Path:
    """Create *path* so that only the user can enter it, parents too; return it.

    A directory that exists keeps its mode: it may be shared on purpose.
    """
    for missing in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    return path


def stamp(path: Path) -> object:
    """Return what changes when the file does, without opening it; None where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - one call a file, at each key that completes
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
