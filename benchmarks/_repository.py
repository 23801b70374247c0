"""A repository as people have them, made for a benchmark: large, old, and with files of others."""

import os
import subprocess
import sys
import time
from pathlib import Path

FOLDERS, FILES = 300, 2_000
LOOSE_OBJECTS = 5_000
PACKAGES, PACKAGE_FILES = 2_000, 10
SKILLS = 10
SERVERS = 2
_AHEAD_S = 3_600
_SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("bench")


@server.tool()
def look_up(word: str) -> str:
    return word


server.run()
"""


def make_repository(root: Path) -> None:
    """Fill *root* with a git repository, its worktree, a `.env` and installed packages.

    Every tenth folder has a time that lies in the future, as after a clock was set back.
    """
    for number in range(FILES):
        path = root / f"part{number % 20}" / f"module{number % FOLDERS}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"value = {number}\n")
    (root / ".gitignore").write_text("node_modules\n.env\n")
    _git(root, "init", "--quiet")
    _git(root, "add", ".")
    _git(root, "commit", "--quiet", "--message", "one")
    _git(root, "gc", "--quiet")
    (root / ".env").write_text("KEY=secret\n")
    for number in range(LOOSE_OBJECTS):
        path = root / ".git" / "objects" / f"{number % 256:02x}" / f"{number:038x}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    for number in range(PACKAGES):
        package = root / "node_modules" / f"package{number}"
        package.mkdir(parents=True)
        for each in range(PACKAGE_FILES):
            (package / f"file{each}.js").write_bytes(b"")
    _git(root, "worktree", "add", "--quiet", str(root.with_name(f"{root.name}-tree")))
    ahead_s = time.time() + _AHEAD_S
    for number, (folder, _, _) in enumerate(os.walk(root)):
        if number % 10 == 0:
            os.utime(folder, (ahead_s, ahead_s))


def add_extensions(home: Path) -> None:
    """Give the user of *home* ten skills and two MCP servers."""
    for number in range(SKILLS):
        folder = home / ".agents" / "skills" / f"skill{number}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(
            f"---\nname: skill{number}\ndescription: Do the thing number {number}.\n---\nDo it.\n"
        )
    program = home / "server.py"
    program.write_text(_SERVER)
    settings = home / ".config" / "agent-cli" / "appsettings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        "".join(
            f'[mcp.servers.bench{number}]\ncommand = "{sys.executable}"\nargs = ["{program}"]\n\n'
            for number in range(SERVERS)
        )
    )


def _git(root: Path, *arguments: str) -> None:
    who = ["-c", "user.name=bench", "-c", "user.email=bench@example.com"]
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)
