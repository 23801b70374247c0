"""Files and commands that could stand at the cursor."""

import subprocess
import time
from pathlib import Path

from agent_cli.repl.live.completion import matches, workspace_files


def test_a_part_of_the_path_comes_before_characters_in_order_and_short_before_long() -> None:
    """The list is sorted by length; nothing is named twice."""
    paths = sorted(["src/app.py", "a/p/p.py", "docs/map.md", "app.py", "App/x"], key=len)

    assert list(matches("app", paths)) == ["App/x", "app.py", "src/app.py", "a/p/p.py"]
    assert list(matches("", paths)) == paths
    assert list(matches("zzz", paths)) == []


def test_ignored_files_are_not_offered_and_new_ones_are() -> None:
    """As git sees the workspace."""
    subprocess.run(["git", "init", "-q"], check=True)
    Path(".gitignore").write_text("*.log\n")
    for name in ("kept.py", "b.log"):
        Path(name).touch()

    assert workspace_files() == ["kept.py", ".gitignore"]


def test_without_git_the_folders_are_walked() -> None:
    """Hidden folders and caches aside."""
    for name in ("src/a.py", ".hidden/b.py", "node_modules/c.js"):
        Path(name).parent.mkdir()
        Path(name).touch()

    assert workspace_files() == ["src/a.py"]


def test_50_000_paths_take_no_longer_than_a_person_notices() -> None:
    """The bar is 30 ms a key on a quiet machine; here against the cost of one plain pass."""
    paths = [f"packages/part-{n % 97}/source/module_{n}/component_{n}.py" for n in range(50_000)]
    typed = "mdlcmpn4999"

    started_s = time.process_time()
    for _ in range(3):
        sum(len(path.lower()) for path in paths)
    plain_s = time.process_time() - started_s
    started_s = time.process_time()
    found = list(matches(typed, paths))
    matching_s = time.process_time() - started_s

    assert "packages/part-52/source/module_4999/component_4999.py" in found
    assert matching_s < 20 * plain_s
