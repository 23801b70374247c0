"""The questions asked in two sessions of 200 commands, in each mode, with and without a sandbox.

The sessions are written in the style of recorded ones: half of the commands look around, the rest
build, test and commit; a few cannot be undone, or leave the workspace. The user answers "always
this session" wherever that is offered, or never.

Bars: at most 20 questions in "auto-edit" with a sandbox and in "yolo", and in mode "ask" questions
about at most a third of the commands if the answer is "always".
"""

import asyncio
import itertools
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.permission_modes import Mode
from agent_cli.contracts.tooling import Ask, Tool
from agent_cli.policies.permissions import Permissions
from agent_cli.policies.shell import Reach
from agent_cli.sandbox import Report
from agent_cli.sandbox.secret_files import is_secret
from agent_cli_tools.bash import BashParameters

COMMANDS = 200
MODES: tuple[Mode, ...] = ("ask", "auto-edit", "plan", "yolo")
HELD_MAX = 20
LOOKING = (
    *("ls -la", "git status --short", "git diff --stat", "cat README.md", "rg -n TODO src"),
    *("sed -n 1,80p src/app.py", "head -40 src/app.py", "wc -l src/app.py | sort -n", "pwd"),
    *("git log --oneline -10", "find src -name '*.py'", "grep -rn import src | head -20"),
    *("tail -n 30 src/app.py", "git show HEAD --stat", "git branch -a", "ls src && cat src/app.py"),
)
PYTHON = (
    *("pytest -q", "pytest -q tests/test_app.py", "pytest -x tests 2>&1 | tail -20"),
    *("ruff check .", "ruff format src", "mypy src", "python -m pytest -q", "git add src"),
    *("git commit -m 'Fix the total'", "pip install -e .", "python -c 'print(1)'", "mkdir -p out"),
    *(
        "cd src && python app.py",
        "pytest -q | tee out/log.txt",
        "uv run pytest",
        "touch src/new.py",
    ),
    *("sed -i 's/a/b/' src/app.py", "rm -rf out", "git stash", "make test"),
)
NODE = (
    *("npm test", "npm run build", "npm run lint -- --fix", "npm run test -- --watch=false"),
    *("npx tsc --noEmit", "npm ci", "git add -A", "git commit -m 'Add the cart'"),
    *("node scripts/check.js", "rm -rf dist", "mv src/app.py src/main.py", "cp README.md out.md"),
    *("npm run build && npm test", "echo done > out.txt", "npm run typecheck", "yarn build"),
    *("for f in src/*; do wc -l $f; done", "git checkout -b cart", "make lint", "mkdir -p dist"),
)
FINAL = ("git push origin main", "git reset --hard HEAD~1", "git clean -fd", "rm -rf ~/cache")
OUTSIDE = ("npm publish", "git push --force origin cart")


def session(working: Sequence[str], last: Sequence[str]) -> list[str]:
    """Return 200 commands: looking and working in turns, *last* at the end."""
    pairs = zip(itertools.cycle(LOOKING), itertools.cycle(working), strict=False)
    commands = itertools.chain.from_iterable(pairs)
    return [*itertools.islice(commands, COMMANDS - len(last)), *last]


async def questions(
    commands: Sequence[str], reach: Reach, mode: Mode, report: Report, *, always: bool
) -> int:
    """Return the number of questions to the user."""

    async def ready() -> Report:
        return report

    permissions = Permissions(reach, mode=mode, trusted=True, sandbox=ready)
    asked = 0
    for number, command in enumerate(commands):
        call = ToolCall(str(number), "bash", {"command": command})
        if isinstance(await permissions(call, BASH, None), Ask):
            asked += 1
            if always:
                permissions.remember(call)
    return asked


async def _never(*_call: object) -> str:
    raise AssertionError("nothing runs here")


BASH = Tool(name="bash", label="Bash", description="", parameters=BashParameters, execute=_never)


async def main() -> None:
    sessions = {"python": session(PYTHON, FINAL), "node": session(NODE, FINAL + OUTSIDE)}
    with tempfile.TemporaryDirectory(prefix="agent-cli-bench-") as folder:
        root = Path(os.path.realpath(folder))
        (root / "src").mkdir()
        (root / "src" / "app.py").write_text("import os\n")
        (root / "README.md").write_text("# Read me\n")
        reach = Reach(root=root, is_secret=is_secret, search_path=os.environ["PATH"])
        print(f"questions in {COMMANDS} commands; plan mode refuses instead of asking")
        for name, commands in sessions.items():
            for state, mode, always in itertools.product(("none", "bwrap"), MODES, (False, True)):
                report = Report("bwrap") if state == "bwrap" else Report("none")
                asked = await questions(commands, reach, mode, report, always=always)
                answer = "always" if always else "once"
                print(f"{name:7} sandbox {state:6} {mode:10} answered {answer:7} {asked:4}")
                if (state, mode) == ("bwrap", "auto-edit") or mode == "yolo":
                    assert asked <= HELD_MAX
                if mode == "ask" and always:
                    assert asked <= COMMANDS // 3


if __name__ == "__main__":
    asyncio.run(main())
