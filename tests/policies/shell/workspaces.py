"""A throw-away workspace with everything in it that a command must not reach."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePath

from agent_cli.policies.shell import Reach

CANARY = "CANARY-4711"
_HOSTILE_GIT = {
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/config": "[core]\n\tfsmonitor = ./hook.sh\n\tpager = ./hook.sh\n",
    ".git/objects/info/packs": "",
    ".git/refs/heads/.keep": "",
}
_SECRETS = (".env", ".key", "id_rsa")


@dataclass(frozen=True, slots=True)
class Workspace:
    """The tree: `root` is the workspace, `outside` is next to it, `home` is the user's."""

    root: Path
    outside: Path
    home: Path

    @property
    def secrets(self) -> list[Path]:
        """Return every file with a canary in it."""
        return [
            *(self.root / ".env", self.root / "certs/server.key"),
            *(self.outside / "secret.txt", self.home / ".ssh/id_rsa"),
        ]

    def reach(self, *, git_is_safe: bool | None = False, secrets_are_masked: bool = False) -> Reach:
        """Return the place a command would run in."""
        return Reach(
            root=self.root,
            is_secret=is_secret,
            git_is_safe=git_is_safe,
            secrets_are_masked=secrets_are_masked,
            search_path=os.environ["PATH"],
        )


def is_secret(path: PurePath) -> bool:
    """Judge by the path alone, in any case, as the tools do."""
    name = path.name.casefold()
    return name.endswith(_SECRETS) or ".ssh" in path.parts


def make_workspace(folder: Path, *, plain_git: bool = False) -> Workspace:
    """Create the tree below *folder*; with *plain_git*, its repository names no program."""
    folder = Path(os.path.realpath(folder))
    workspace = Workspace(folder / "workspace", folder / "workspace-evil", folder / "home")
    files = {
        "README.md": "# Read me\n",
        "data.txt": "b\na\nb\n",
        "notes.md": "a\nc\n",
        "src/main.py": "import util\n\ndef main():  # TODO\n    pass\n",
        "src/util.py": "import os\n",
        "odd/--output=owned.txt": "x\n",
        "odd/plain.txt": "x\n",
        "odd/-rf": "x\n",
        "hook.sh": "touch hooked.txt\n",
        "hook.py": "open('hooked.txt', 'w')\n",
        "bin/ls": "#!/bin/sh\ntouch hooked.txt\n",
        **({} if plain_git else _HOSTILE_GIT),
    }
    for name, text in files.items():
        _write(workspace.root / name, text)
    for path in workspace.secrets:
        _write(path, f"KEY={CANARY}\n")
    for name in ("hook.sh", "bin/ls"):
        (workspace.root / name).chmod(0o755)
    links = workspace.root / "links"
    links.mkdir()
    (links / "passwd").symlink_to("/etc/passwd")
    (links / "environment").symlink_to("../.env")
    (links / "outside").symlink_to(workspace.outside)
    if plain_git:
        identity = ("-c", "user.name=A", "-c", "user.email=a@b")
        for command in (("init", "-q"), ("add", "data.txt", "src"), ("commit", "-qm", "first")):
            subprocess.run(["git", *identity, *command], cwd=workspace.root, check=True)
    return workspace


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
