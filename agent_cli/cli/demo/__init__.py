"""`agent-cli demo`: the real loop and the real tools on a small broken project, offline.

Only the model's replies are scripted: a recording of its streams is played, and the tools run on a
copy of `project/` in a temporary directory.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.resources import as_file, files
from pathlib import Path

from agent_cli.app.app import App
from agent_cli.app.arguments import Arguments
from agent_cli.app.startup import StartupContext
from agent_cli.repl import Look, repl
from agent_cli.repl.dialogue import Choice
from agent_cli.repl.hosting import Interrupts
from agent_cli.repl.plain.shell import Shell
from agent_cli.settings.environment import Environment
from agent_cli.settings.load import Loaded
from agent_cli.settings.schema import Settings
from agent_cli.system.programs import use_shielded_path
from agent_cli.terminal.abilities import may_color
from agent_cli.terminal.writer import Writer

PROMPT = "The tests fail. Find out why, fix it, and show me that they pass."
BANNER = """\
agent-cli demo: offline, without a key, in a temporary directory.
The model's words are scripted (a recording is played). The loop and the tools are real:
the files are read and edited, the tests run.
"""


async def run_demo() -> int:
    """Play the demo on this process's streams; return 0 when the project is repaired.

    If a signal ends it, return 128 plus the signal's number.
    """
    # The recorded commands start `python3`, which not every system has beside this interpreter.
    os.environ["PATH"] = os.pathsep.join(
        [os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)]
    )
    use_shielded_path()
    color = may_color(os.environ)
    writer = Writer(sys.stdout, sys.stderr, color=color)
    writer.answer(f"{BANNER}\n")
    ended_by_signal = 0
    with tempfile.TemporaryDirectory(prefix="agent-cli-demo-") as folder:
        workspace = Path(folder).resolve() / "basket"
        with as_file(files(__name__) / "project") as project:
            shutil.copytree(project, workspace, ignore=shutil.ignore_patterns("__pycache__"))
        with as_file(files(__name__) / "recording.jsonl") as recording:
            startup = demo_start(workspace, Arguments(replay=recording))
            if repl.has_screen():
                history = Path(folder) / "history"
                ended_by_signal = await _play_on_screen(startup, history, color=color)
            else:
                await _play(startup, writer)
        mended = "quantity >= BULK_FROM" in (workspace / "basket.py").read_text(encoding="utf-8")
    return ended_by_signal or int(not mended)


async def _play_on_screen(startup: StartupContext, history: Path, *, color: bool) -> int:
    """Play it as an interactive session that leaves at its end; return the exit code."""
    look = Look(color=color, show_thinking=True)  # no user is there to press Ctrl-T
    options = repl.ReplOptions(history, look, first_lines=[PROMPT], stays=False)
    return await repl.run(options, lambda: App(startup, one_shot=True))


async def _play(startup: StartupContext, writer: Writer) -> None:
    """Play it line by line, as for a pipe."""
    async with App(startup, one_shot=True) as app:
        shell = Shell(
            app, prompt=_Nobody(), writer=writer, interrupts=Interrupts(lambda _stop: None)
        )
        writer.answer(f"you> {PROMPT}\n\n")
        await shell.handle(PROMPT)
        writer.end_answer()


def demo_start(workspace: Path, arguments: Arguments) -> StartupContext:
    """Return the start-up context of a session that reads no user files and asks nothing."""
    settings = Settings()
    settings = settings._replace(
        permissions=settings.permissions._replace(mode="yolo"),
        session=settings.session._replace(enabled=False),
        mcp=settings.mcp._replace(enabled=False),
        logging=settings.logging._replace(sinks=()),
    )
    loaded = Loaded(settings, {}, ())
    return StartupContext(arguments, workspace, False, Environment({}), loaded, ())


class _Nobody:
    """A prompt that never answers: the demo asks nothing."""

    can_ask = False

    async def select(
        self,
        message: str,
        choices: Sequence[Choice],
        *,
        text: str,
        ctrl_c: str = "stops the run",
        anew: bool = False,
    ) -> Choice | str:
        """Raise: the demo asks nothing."""
        del ctrl_c, anew
        raise EOFError(f"{message!r} cannot be answered with {choices!r} or {text!r}")

    async def choose(self, message: str, keys: str) -> str:
        """Raise: the demo asks nothing."""
        raise EOFError(f"nobody answers {message!r} with one of {keys!r}")

    choose_next = choose

    async def choose_key(self, message: str, keys: Sequence[str], *, at_once: bool = False) -> str:
        """Raise: the demo asks nothing."""
        del at_once
        return await self.choose(message, "".join(keys))

    def above(self, write: Callable[[], None]) -> None:
        """Print at once: there is no prompt below."""
        write()

    def lend(self, *, to_run: bool) -> None:
        """Do nothing: there is no prompt below."""
