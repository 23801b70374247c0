"""What `-p` prepares once its first reply comes: nothing, whatever tool the model calls."""

import json
from pathlib import Path

from agent_cli.system import paths
from benchmarks._repository import add_extensions
from tests.e2e.program import environment
from tests.forked import arguments_of, start
from tests.messages_api import Gate, ReceivedRequest, Reply, reply, serve_in_thread, tool_use

CALLS = (
    tool_use("read", {"path": "a.txt"}),
    tool_use("grep", {"pattern": "o+"}),
    tool_use("glob", {"pattern": "*.txt"}),
    tool_use("edit", {"path": "a.txt", "edits": [{"old": "one", "new": "two"}]}),
    tool_use("write", {"path": "new.txt", "content": "new\n"}),
    tool_use("bash", {"command": "cat a.txt | head -1"}),
    tool_use("todo", {"todos": [{"content": "read", "status": "pending"}]}),
    tool_use("skill", {"name": "skill0"}),
    tool_use("mcp__bench0__look_up", {"word": "x"}),
    tool_use("bash", {"command": "true", "background": True}),
    tool_use("bash", {"command": "sed -i s/t/T/ new.txt; mv new.txt old.txt; rm old.txt"}),
    tool_use("bash", {"command": "seq 40000"}),
    tool_use("bash", {"command": "exit 3"}),
    tool_use("agent", {"description": "look", "prompt": "look", "subagent_type": "explore"}),
)
OF_THE_JOB = tool_use("job_output", {"id": 1})

WATCHED = """
import atexit, os, sys, threading

from agent_cli.__main__ import main
from agent_cli.app.preparations import REPLY_MODULES, TOOL_MODULES, EarlyImports
from agent_cli.system.launching import Launcher

late = []
launchers = []

class Watch:
    def find_spec(name, path=None, target=None):
        if threading.current_thread().name != "background":
            late.append(name)

def watch():
    for thread in threading.enumerate():
        if thread.name == "background":
            thread.join(30)
    if not any(launchers):
        late.append("the launcher of commands")
    sys.meta_path.insert(0, Watch)
    print("imported", file=sys.stderr, flush=True)

def import_at_once(imports, modules, first=()):
    list(first)
    for module in modules:
        __import__(module)
    if modules is TOOL_MODULES:
        watch()

def start(launcher):
    start_now(launcher)
    launchers.append(launcher._running)

EarlyImports.begin = import_at_once
start_now, Launcher.start = Launcher.start, start
for module in (*REPLY_MODULES, *TOOL_MODULES):
    __import__(module)
# A run for each line: a fork of what every run has imported when it is watched.
while os.read(0, 1):
    if not os.fork():
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.argv = ["agent-cli", "-p", "go", "--permission-mode", "yolo"]
        atexit.register(lambda: print("late", late, file=sys.stderr, flush=True))
        sys.exit(main())
    os.wait()
"""


def test_calls_of_the_first_reply_wait_for_no_import_and_no_launcher(tmp_path: Path) -> None:
    """The half second until the first token is free; half a second after it is waited for.

    The process that starts commands runs by then, too; in other tests the first command starts it.
    The second start finds what the first remembered of the machine, and need not look again.
    """
    add_extensions(Path.home())
    fork_servers()
    script = tmp_path.with_suffix(".py")
    script.write_text(WATCHED)
    gates = [Gate(), Gate()]
    waiting = iter(gates)

    def answer(request: ReceivedRequest) -> Reply:
        blocks = request.body["messages"][-1]["content"]
        if len(blocks) == len(CALLS):
            return reply(OF_THE_JOB)
        said = [block.get("text") for block in blocks]
        return reply(*CALLS, gate=next(waiting), hold_at=0) if "go" in said else reply("done")

    with (
        serve_in_thread(answer=answer) as api,
        start(
            str(script),
            environment=environment(api, {}),
            fresh=True,
            limit_s=180,  # it imports everything, and runs twice
            folder=tmp_path,
        ) as runs,
    ):
        for gate in gates:
            (tmp_path / "a.txt").write_text("one\n")
            seen = len(api.requests)
            assert runs.poll() is None, (runs.returncode, runs.stderr.read())
            print(file=runs.stdin, flush=True)
            assert "imported\n" in runs.stderr  # reads up to that line
            gate.open()
            late = next(line for line in runs.stderr if line.startswith("late "))

            assert late == "late []\n", gates.index(gate)
            [results] = [
                content
                for request in api.requests[seen:]
                if len(content := request.body["messages"][-1]["content"]) == len(CALLS)
            ]
            assert [result.get("is_error", False) for result in results] == [False] * len(CALLS)


def fork_servers() -> None:
    """Have the servers of the settings file forked: their imports are not what is watched."""
    server = str(Path.home() / "server.py")
    file = paths.user_settings_file()
    forked = json.dumps(arguments_of(server))
    file.write_text(file.read_text().replace(json.dumps([server]), forked))
