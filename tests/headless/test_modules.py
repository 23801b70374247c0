"""The modules that one answer to a pipe loads: before its first request is sent, and in all."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.e2e.program import environment
from tests.messages_api import reply, serve_in_thread

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

NEEDED = {
    *("httpx2", "httpcore2", "h11", "idna", "anyio", "truststore"),  # HTTP
    *("tenacity", "sniffio", "typing_extensions"),
}
LATER = {
    "agent_cli.app.agents.workspaces",
    "agent_cli.app.agents.worker",
    "agent_cli.app.overview",
    "agent_cli.attachments.images",
    "agent_cli.cli.completion",
    "agent_cli.contracts.listings",
    "agent_cli.core.branching",
    "agent_cli.headless.output_dir",
    "agent_cli.headless.structured",
    "agent_cli.mcp_client.config",
    "agent_cli.mcp_client.connection",
    "agent_cli.mcp_client.entries",
    "agent_cli.mcp_client.forms",
    "agent_cli.plugins.reminders",
    "agent_cli.policies.shell.judgement",
    "agent_cli.policies.shell.plain",
    "agent_cli.providers.recording",
    "agent_cli.providers.anthropic.reply_builder",
    "agent_cli.providers.anthropic.sdk_client",
    "agent_cli.providers.events",
    "agent_cli.sandbox.backends",
    "agent_cli.sandbox.denials",
    "agent_cli.sandbox.confinement",
    "agent_cli.sandbox.policy",
    "agent_cli.sandbox.probe",
    "agent_cli.sandbox.tripwire",
    "agent_cli.session_store.export",
    "agent_cli.session_store.listing",
    "agent_cli.session_store.transcripts",
    "agent_cli.session_store.upkeep",
    "agent_cli.system.launcher",
    "agent_cli.system.worktrees",
    "agent_cli_tools.atomic_write",
    "agent_cli_tools.command_run",
    "agent_cli_tools.diffs",
    "agent_cli_tools.excerpts",
    "agent_cli_tools.search_runs",
    "agent_cli_tools.job",
    "agent_cli_tools.job_reading",
    "agent_cli_tools.matching",
    "agent_cli_tools.searches",
    "agent_cli_tools.snapshots.journal",
    *("ctypes", "difflib", "html"),
}

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
is_sent = preparations.Preparations.request_sent

def tell(waiting):
    print(*sys.modules, file=sys.stderr)
    return is_sent(waiting)

preparations.Preparations.request_sent = tell

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


def test_answer_to_a_pipe_loads_the_listed_modules_only(tmp_path: Path) -> None:
    """C17: scripts call `-p` in a loop; each further import before its request costs up to 50 ms.

    Speed 5: in all, rich, pygments and attrs were loaded for nothing; and 56 patterns compiled.
    """
    with serve_in_thread(reply("done")) as api:
        done = subprocess.run(
            [sys.executable, "-P", "-c", WATCHED],
            env=environment(api, {}),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    until_sent, *_, at_the_end = (line.split() for line in done.stderr.splitlines())
    installed = {name.partition(".")[0] for name in until_sent} - sys.stdlib_module_names
    assert all(map(find_spec, LATER))
    assert {name for name in installed if _is_a_package(name)} <= NEEDED
    assert LATER & {*until_sent} == set()
    assert [name for name in until_sent if name.startswith("agent_cli.hooks")] == []  # none is set
    count, patterns, *loaded = at_the_end
    ours = {"agent_cli", "agent_cli_tools", "__main__", "__mp_main__", "sitecustomize"}
    assert done.stdout == "done\n"
    assert {name for name in loaded if not name.startswith("_")} - ours <= LIBRARIES.keys()
    assert int(count) <= MODULES_MAX
    assert 0 < int(patterns) <= PATTERNS_MAX


def _is_a_package(name: str) -> bool:
    """Whether pip installed *name*; a virtual environment has its own start-up files."""
    return not name.startswith(("_", "agent_cli", "sitecustomize", "usercustomize"))
