"""The libraries that one answer to a pipe loads: a list, with what each costs."""

from pathlib import Path

from tests.headless.watched import run_watched

# Milliseconds of its import, of about 300 in all, by `python -X importtime`.
# What a new library costs stands here before it is loaded.
LIBRARIES = {
    "httpx2": 11,
    "httpcore2": 2,
    "h11": 1,
    "anyio": 8,
    "sniffio": 1,
    "certifi": 1,
    "idna": 1,
    "structlog": 6,
    "tenacity": 5,
    "truststore": 1,
    "typing_extensions": 1,
}
MODULES_MAX = 690
PATTERNS_MAX = 28
"""Of our own, which take 0.1 ms each; those for what an answer does not hold are late ones."""

WATCHED = """
import atexit, re._compiler, sys

compiled = 0
compile_now = re._compiler.compile

def counted(pattern, flags=0):
    global compiled
    caller = sys._getframe(1)
    while caller.f_globals["__name__"] == "re":
        caller = caller.f_back
    compiled += caller.f_globals["__name__"].startswith("agent_cli")
    return compile_now(pattern, flags)

re._compiler.compile = counted
from agent_cli.__main__ import main
from agent_cli.app import preparations

# The reply comes at once, also on a busy machine: while a run waits, it loads its tools.
preparations._REPLY_IS_LATE_S = 60

def show():
    ours = {name.partition(".")[0] for name in [*sys.modules]}  # a thread may import meanwhile
    print(len(sys.modules), compiled, *sorted(ours - sys.stdlib_module_names), file=sys.stderr)

import os
leave = os._exit
os._exit = lambda code: (show(), sys.stderr.flush(), leave(code))
atexit.register(show)
sys.argv = ["agent-cli", "-p", "go"]
main()
"""


def test_answer_to_a_pipe_loads_the_listed_libraries_only(tmp_path: Path) -> None:
    """Speed 5: rich, pygments and attrs were loaded for nothing; and 56 patterns compiled."""
    done = run_watched(WATCHED, tmp_path)

    count, patterns, *loaded = done.stderr.splitlines()[-1].split()
    ours = {"agent_cli", "agent_cli_tools", "__main__", "__mp_main__", "sitecustomize"}
    assert done.stdout == "done\n"
    assert {name for name in loaded if not name.startswith("_")} - ours <= LIBRARIES.keys()
    assert int(count) <= MODULES_MAX
    assert 0 < int(patterns) <= PATTERNS_MAX
