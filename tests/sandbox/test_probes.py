"""What commands can do in each sandbox: a table, each row of which is really run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_cli.sandbox.guarded_files import PROTECTED_NAMES
from tests.sandbox.world import CANARY, Machine, World, machine, world

pytestmark = pytest.mark.skipif(not Path("/proc/self/ns").exists(), reason="not Linux")


@dataclass(frozen=True)
class Bench:
    """The place where the rows are run."""

    world: World
    machine: Machine


def _received(bench: Bench) -> bool:
    try:
        return bool(bench.machine.udp.recv(16))
    except BlockingIOError:
        return False


def _killed(bench: Bench) -> bool:
    return bench.machine.process.poll() is not None


def _python(code: str) -> str:
    return f"\"$PYTHON\" -c '{code}' && echo WORKED"


def _connect(family: str, address: str) -> str:
    return _python(
        f"import os, socket; s = socket.socket(socket.{family}); s.connect({address})".replace(
            "'", '"'
        )
    )


_SYSCALL = "import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall({0}) == -1)"


@dataclass(frozen=True)
class Row:
    """A command that prints WORKED, or the secret, if it succeeds; and which sandboxes allow it.

    Attributes:
        bwrap: Whether it works in bubblewrap.
        moved: Whether its files are moved away when it has ended.
        landlock: The same for Landlock; its changes there may be reverted afterwards.
        seen: A check from outside, if only that can tell whether it worked.
    """

    name: str
    command: str
    bwrap: bool = False
    moved: bool = False
    landlock: bool = False
    seen: Callable[[Bench], bool] | None = None


def works(name: str, command: str, *, landlock: bool = True) -> Row:
    return Row(name, command, bwrap=True, landlock=landlock)


def is_moved(name: str, command: str) -> Row:
    return Row(name, command, bwrap=True, landlock=True, moved=True)


_COMMIT = "git -c user.name=T -c user.email=t@example.com commit --quiet -m more"
_SERVE = (
    "import socket; s = socket.create_server(('127.0.0.1', 0));"
    " socket.create_connection(s.getsockname())"
)

ROWS = [
    works("write in the workspace", "echo x > new && echo WORKED"),
    works("write in TMPDIR", 'echo x > "$TMPDIR/x" && mktemp && echo WORKED'),
    works("make and rename a directory", "mkdir d && mv d e && echo WORKED"),
    works("python writes", _python('open("py", "w").write("x")')),
    works("shared memory", "echo x > /dev/shm/probe-$$ && rm /dev/shm/probe-$$ && echo WORKED"),
    works("a pseudo-terminal", _python("import pty; pty.openpty()")),
    works("git commit", f"echo x > f && git add f && {_COMMIT} && echo WORKED"),
    works("own server on loopback", f'"$PYTHON" -c "{_SERVE}" && echo WORKED', landlock=False),
    works("a process of its own can be ended", "sleep 300 & kill $! && echo WORKED"),
    Row("write /etc", "echo x > /etc/probe && rm /etc/probe && echo WORKED"),
    Row(
        "write a setting of the kernel",
        'f=/proc/sys/kernel/core_pattern; v=$(cat $f) && echo "$v" >$f && echo WORKED',
    ),
    Row("write a start file", "echo x >> ~/.bashrc && echo WORKED"),
    Row("delete outside", "rm ~/files/letter && echo WORKED"),
    Row("write through a symlink", "ln -s ~/.bashrc l; echo x >> l && echo WORKED"),
    Row("write through a hard link", "ln ~/.bashrc h && echo x >> h && echo WORKED"),
    Row("move from outside", "mv ~/files/letter . && echo WORKED"),
    Row(
        "change a mode outside",
        "chmod 777 ~/files/letter && stat -c %a ~/files/letter | grep 777 && echo WORKED",
        landlock=True,
    ),
    Row("read ~/.ssh", "cat ~/.ssh/id_ed25519"),
    Row("read ~/.aws", "cat ~/.aws/credentials"),
    Row("read through a symlink", "ln -s ~/.ssh s; cat s/id_ed25519"),
    Row("read through /proc", "cat /proc/self/root$HOME/.ssh/id_ed25519"),
    Row("read .env", "cat .env; git diff --no-index /dev/null .env", landlock=True),
    Row("write .git/hooks", "echo x > .git/hooks/post-commit && echo WORKED", landlock=True),
    Row("write .git/config", "git config core.fsmonitor x && echo WORKED", landlock=True),
    Row("swap .git", "mv .git .moved && mv .moved .git && echo WORKED", landlock=True),
    is_moved("create missing settings", "echo x > appsettings.toml && echo WORKED"),
    is_moved("create .agent-cli", "mkdir -p .agent-cli/skills && echo WORKED"),
    is_moved("link .mcp.json", "echo x > m; ln m .mcp.json && ln -s m .vscode && echo WORKED"),
    Row("TCP to this machine", _connect("AF_INET", '("127.0.0.1", int(os.environ["TCP"]))')),
    Row(
        "UDP to this machine",
        _python(
            'import os, socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b"x",'
            ' ("127.0.0.1", int(os.environ["UDP"])))'
        ),
        seen=_received,
    ),
    Row("/dev/tcp", "exec 3<>/dev/tcp/127.0.0.1/$TCP && echo WORKED"),
    Row("an abstract socket", _connect("AF_UNIX", '"\\0" + os.environ["ABSTRACT"]')),
    Row("a socket with a path", _connect("AF_UNIX", 'os.environ["SOCKET"]')),
    Row("kill a process outside", "kill -9 $PID", seen=_killed),
    Row("read its environment", "cat /proc/$PID/environ"),
    Row("ptrace", _python(_SYSCALL.format("101, 0, 0, 0, 0"))),
    Row("a user namespace", "unshare --user --map-root-user true && echo WORKED"),
    Row("mount", "mount -t tmpfs none /mnt && echo WORKED"),
    Row("io_uring", _python(_SYSCALL.format("425, 0, 0"))),
    Row("the kernel's keyring", _python(_SYSCALL.format("250, 0, -3, 0"))),
    Row("a socket of another family", _python("import socket; socket.socket(38, 5)")),
]


@pytest.fixture(scope="module")
def bubblewrap() -> Iterator[Bench]:
    with world("bwrap") as place, machine() as around:
        yield Bench(place, around)


@pytest.fixture(scope="module")
def landlock() -> Iterator[Bench]:
    with world("landlock") as place, machine() as around:
        yield Bench(place, around)


def _worked(bench: Bench, row: Row) -> tuple[bool, str]:
    run = bench.world.run(row.command, **bench.machine.variables())
    if row.seen is not None:
        return row.seen(bench), run.stderr
    return "WORKED" in run.stdout or CANARY in run.stdout, run.stdout + run.stderr


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_row_works_or_fails_in_bubblewrap_as_the_table_says(
    bubblewrap: Bench, row: Row
) -> None:
    """Threats 1, 2, 4 and 11: outside, links, secrets and git's ways to start programs."""
    worked, output = _worked(bubblewrap, row)

    assert worked is row.bwrap, output
    assert bool(bubblewrap.world.put_back) is row.moved
    assert all(
        "makes other programs run commands, so it was moved" in each
        for each in bubblewrap.world.put_back
    )
    assert not {path.name for path in bubblewrap.world.root.iterdir()} & {*PROTECTED_NAMES}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_row_works_or_fails_in_landlock_as_the_table_says(landlock: Bench, row: Row) -> None:
    """Threats 1 and 2: Landlock's gaps are listed here, and reverted afterwards."""
    worked, output = _worked(landlock, row)

    assert worked is row.landlock, output


def test_changes_that_landlock_cannot_prevent_are_reverted(landlock: Bench) -> None:
    """Threat 11: a hook or filter that is still there when the user next runs git has won."""
    root = landlock.world.root
    config = (root / ".git" / "config").read_bytes()

    landlock.world.run(
        "git config core.fsmonitor evil; echo evil > .git/hooks/pre-commit; echo {} > .mcp.json;"
        " mkdir -p .claude/skills/x"
    )

    assert (root / ".git" / "config").read_bytes() == config
    assert not (root / ".git" / "hooks" / "pre-commit").exists()
    assert not (root / ".mcp.json").exists()
    assert not (root / ".claude").exists()
    assert len(landlock.world.put_back) == 4
    changed, made = landlock.world.put_back[:2], landlock.world.put_back[2:]
    assert all("was put back" in line for line in changed)
    assert all("was moved to" in line for line in made)
