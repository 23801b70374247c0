"""Start a front end on the program in scripted_app.py, which is imported as late as the real one.

`python scripted.py repl` or `python scripted.py headless FORMAT PROMPT`, each in a separate
directory; the differences between tests come in the environment.
"""

import asyncio
import importlib
import os
import sys
from pathlib import Path
from typing import Any

from agent_cli.repl import Look
from agent_cli.repl.repl import ReplOptions, run


def build() -> Any:  # Any: scripted_app is beside this file, where no type checker looks
    Path("modules").write_text("\n".join(sys.modules))
    sys.path.append(str(Path(__file__).parents[2]))
    return importlib.import_module("scripted_app").build()


def main(front_end: str, *arguments: str) -> int:
    if front_end == "headless":
        headless = importlib.import_module("agent_cli.headless.run")
        output_format, prompt = arguments
        return int(asyncio.run(headless.run(prompt, build, output_format=output_format)))
    look = Look(
        color="NO_COLOR" not in os.environ,
        streaming="sequential" if "SEQUENTIAL" in os.environ else "live",
        show_thinking="SHOW_THINKING" in os.environ,
        chars_per_second=float(os.environ.get("CHARS_PER_SECOND", "0")),
        notify="off" if "NO_BELL" in os.environ else "bell",
        screen_reader="SCREEN_READER" in os.environ,
    )
    history = Path(os.environ.get("HISTORY", "state/history"))
    options = ReplOptions(history, look, first_lines=os.environ.get("FIRST_LINE", "").splitlines())
    return asyncio.run(run(options, build))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
