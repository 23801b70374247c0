"""A key press behind an @ in a repository of 50,000 files: the CPU time of its completions.

Bar: at most 30 ms for the slowest key of several words, in the program's own completer. The list
itself is made in the background; its duration is printed too.
"""

import subprocess
import tempfile
import time
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from agent_cli.repl.live.input.completion import Completions
from agent_cli.repl.live.input.file_completion import FileChoices
from agent_cli.repl.live.input.workspace_files import WorkspaceFiles

FILES = 50_000
WORDS = ("component_4999", "mdlcmpn4999", "e", "pkgs/prt-3/cmp", "zzzz", "source/module_77")


def make_repository(root: Path) -> None:
    for number in range(FILES):
        folder = root / f"packages/part-{number % 97}/source/module_{number % 1_000}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"component_{number}.py").touch()
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)


def slowest_key_ms(completer: Completions, word: str) -> float:
    slowest_s = 0.0
    for end in range(len(word) + 1):
        begun_s = time.thread_time()
        list(completer.get_completions(Document(f"look at @{word[:end]}"), CompleteEvent()))
        slowest_s = max(slowest_s, time.thread_time() - begun_s)
    return slowest_s * 1_000


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="agent-cli-bench-") as folder:
        make_repository(Path(folder))
        begun_s = time.perf_counter()
        completer = Completions([FileChoices(WorkspaceFiles(Path(folder)), lambda: None)])
        slowest_key_ms(completer, "")
        print(f"{FILES:,} files listed in {time.perf_counter() - begun_s:.2f} s")
        for word in WORDS:
            print(f"@{word}: slowest key {slowest_key_ms(completer, word):.1f} ms (bar: 30)")


if __name__ == "__main__":
    main()
