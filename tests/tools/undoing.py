"""A small repository with files of each kind, and what there is to restore of it."""

import hashlib
import os
import stat
import subprocess
from pathlib import Path


def fill(root: Path) -> None:
    """Make a repository with a branch, files of each kind, and files that git does not hold."""
    (root / "src/deep").mkdir(parents=True, exist_ok=True)
    (root / "data").mkdir()
    for number in range(8):
        (root / f"src/a{number}.py").write_text(f"x = {number}\n" * 20)
        (root / f"data/p{number}.bin").write_bytes(bytes(range(100)) * number)
    (root / "src/deep/tool").write_text("tool")
    (root / "src/deep/tool").chmod(0o751)
    (root / "link").symlink_to("src/a1.py")
    (root / "hard").hardlink_to(root / "src/a2.py")
    with (root / "sparse").open("wb") as file:
        file.seek(500_000)
        file.write(b"x")
    script = (
        "git init -q . && git config user.name a && git config user.email a@b"
        " && git add src link && git commit -q -m x && git branch other"
        " && echo changed >> src/a3.py && echo new > untracked.txt"
    )
    subprocess.run(["bash", "-c", script], cwd=root, check=True)


def tree(root: Path) -> dict[str, tuple[object, ...]]:
    """Return each path with content, mode, owner, links, times and attributes.

    Objects of git only grow, so they are left out.
    """
    found: dict[str, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(root):
        if "objects" in folders and folder.endswith(".git"):
            folders.remove("objects")
        for name in (".", *folders, *files):
            path = Path(folder, name)
            state = path.lstat()
            kind: object = stat.S_IFMT(state.st_mode)
            if path.is_symlink():
                kind = path.readlink()
            elif path.is_file():
                kind = hashlib.sha256(path.read_bytes()).hexdigest()
            about = (oct(state.st_mode), state.st_uid, state.st_mtime_ns)
            links = 0 if path.is_dir() else state.st_nlink
            found[str(path.relative_to(root))] = (kind, *about, links)
    return found
