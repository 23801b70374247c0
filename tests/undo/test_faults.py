"""Faults of our recording: the command goes on as if it were not watched, and the log says so."""

import errno
import os
import select
import shutil
import signal
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from agent_cli.undo.logs import is_incomplete, read_log, unkept
from agent_cli.undo.records import INCOMPLETE, LOG
from agent_cli.undo.reversal import Step, carry_out, write_plan
from agent_cli.undo.stopped_calls import why_missing
from agent_cli.undo.watchable import may_gain_rights

pytestmark = [
    pytest.mark.skipif(why_missing() != "", reason=why_missing() or "-"),
    # Of Python 3.12 and later, if a thread of an earlier test has not ended; the child needs none.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

# A keeper that does only what concerns the watch: the real filter, log and threads.
KEEPER = """
import os, sys, time
from agent_cli.undo import kept_files, watch as module
from agent_cli.undo.locations import Locations
from agent_cli.undo.undo_log import UndoLog
from agent_cli.undo.recorder import ChangeRecorder
module.CALL_LIMIT_S = 20.0  # for a keeper that a busy machine holds up
limit, ask = 0, None
folder, root, command, fault = sys.argv[1:]
exec(fault)
order = {
    "folder": folder, "roots": [root], "copy_bytes_max": 10**6, "header": {"command": command},
    "ask_beyond_files": limit, "ask_beyond_bytes": 0, "alone_since_ns": 0,
}
watch = module.CommandWatch(order, begun=-1, ask=ask)
def start():
    child = os.fork()
    if child == 0:
        os.chdir(root)
        os.execv("/bin/sh", ["sh", "-c", command])
    return child
child = watch.start(start)
while True:
    watch.look()
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended:
        break
    time.sleep(0.01)
watch.end()
print(watch.reason, flush=True)  # nothing is flushed by what follows
os._exit(os.waitstatus_to_exitcode(status))
"""
COMMAND = "rm one; echo x > two; mv three four; chmod 600 four; mkdir five"
RAISES = """
def fail(*_arguments, **_options):
    raise {error}
{target} = fail
"""
HANGS = """
module.CALL_LIMIT_S = 0.5
def hang(*_arguments, **_options):
    time.sleep(600)
{target} = hang
"""
# The thread that starts the command says so late, when there is nothing else to wait for.
SAYS_LATE = """
import threading, types
begin, has_started, is_closed = module.CommandWatch._begin, threading.Event(), threading.Event()
def write(descriptor, data):
    if data == b"s":
        has_started.set()
        is_closed.wait(0.5)
    try:
        return os.write(descriptor, data)
    except OSError:
        os._exit(9)
def close(descriptor):
    os.close(descriptor)
    is_closed.set() if has_started.is_set() else None
def _begin(self):
    begin(self)
    has_started.wait()
module.os = types.SimpleNamespace(**{**vars(os), "write": write, "close": close})
module.CommandWatch._begin = _begin
"""
LIMIT_S = 30


def run(tmp_path: Path, fault: str, command: str = COMMAND, *, may_trace: bool = True) -> Path:
    """Run *command* in a keeper with a *fault*; return the folder of the log.

    Unless it *may_trace*, the keeper may not look at every process, even as root.
    """
    root, log = tmp_path / "work", tmp_path / "log"
    log.mkdir()
    root.mkdir()
    for name in ("one", "two", "three"):
        (root / name).write_text(name)
    arguments = [str(log), str(root), command, fault]
    if may_trace or os.geteuid():
        assert forked_keeper(arguments) == 0
    else:
        rights = ["setpriv", "--bounding-set=-sys_ptrace"]
        keeper = [*rights, sys.executable, "-c", KEEPER, *arguments]
        subprocess.run(keeper, check=True, timeout=LIMIT_S)
    return log


def forked_keeper(arguments: list[str]) -> int:
    """Run KEEPER in a fork, which has imported all of it; return its exit code."""
    if (child := os.fork()) == 0:
        try:
            sys.argv = ["-c", *arguments]
            exec(KEEPER, {})
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    descriptor = os.pidfd_open(child)
    has_ended = select.select([descriptor], [], [], LIMIT_S)[0]
    os.close(descriptor)
    if not has_ended:
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


ERRORS = ("OSError(28, 'full')", "OSError(24, 'files')", "KeyError(1)", "SystemExit(3)")


@pytest.mark.parametrize(
    "target",
    ["ChangeRecorder.before", "Locations.named", "kept_files.keep_link", "kept_files.keep_copy"],
)
@pytest.mark.parametrize("fault", [*(RAISES.replace("{error}", each) for each in ERRORS), HANGS])
def test_fault_of_the_recording_never_harms_the_command(
    tmp_path: Path, fault: str, target: str
) -> None:
    """ENOSPC, EMFILE, an exception, a hang: in the whole, in the look-up, and in the keeping."""
    log = run(tmp_path, fault.format(target=target))

    root = tmp_path / "work"
    assert sorted(each.name for each in root.iterdir()) == ["five", "four", "two"]
    assert (root / "two").read_text() == "x\n"
    assert is_incomplete(log)
    assert unkept(log)
    assert (found := read_log(log))
    assert found.lost
    assert found.ended_ns


@pytest.mark.parametrize(
    ("number", "is_noted"),
    [
        *((noted, True) for noted in (errno.ESTALE, errno.ENOTCONN, errno.EPERM, errno.EINVAL)),
        *((fails, False) for fails in (errno.ENOENT, errno.EACCES, errno.ELOOP, errno.EFAULT)),
    ],
)
def test_change_whose_place_cannot_be_looked_up_is_noted_once(
    tmp_path: Path, number: int, is_noted: bool
) -> None:
    """A share that has gone; but a path that leads nowhere lets the call fail as well."""
    error = f"OSError({number}, 'fault')"

    log = run(tmp_path, RAISES.format(target="Locations.named", error=error))

    found = read_log(log)
    assert found
    assert is_incomplete(log) == is_noted
    assert [each.to for each in found.records if each.kind == "lost"] == [
        f"{os.strerror(number)}, while its place was looked up"
    ] * is_noted


def test_process_that_lets_nobody_look_at_it_is_noted(tmp_path: Path) -> None:
    """Programs with secrets make themselves undumpable; their changes cannot be recorded."""
    program = tmp_path / "hidden.py"
    program.write_text(
        "import ctypes, os\nassert ctypes.CDLL(None).prctl(4, 0) == 0\n"
        "os.unlink('one')\nopen('two', 'w').close()\n"
    )

    log = run(tmp_path, "", f"{sys.executable} -S {program}; rm three", may_trace=False)

    found = read_log(log)
    assert found
    assert not (tmp_path / "work/one").exists()
    assert is_incomplete(log)
    assert [Path(each.path).name for each in found.records if each.kind == "gone"] == ["three"]


def test_dead_answering_thread_holds_no_call(tmp_path: Path) -> None:
    """The keeper takes over if the thread that answers ends in the midst of a call."""
    fault = RAISES.format(target="module.CommandWatch._record", error="SystemExit(3)")

    run(tmp_path, fault)

    assert sorted(each.name for each in (tmp_path / "work").iterdir()) == ["five", "four", "two"]


def test_new_folder_with_the_inode_of_one_outside_is_recorded(tmp_path: Path) -> None:
    """File systems reuse inodes at once; a folder outside was remembered as not to be recorded."""
    command = "; ".join(
        f"mkdir ../out; echo > ../out/file; rm -r ../out; mkdir new{number}; echo > new{number}/in"
        for number in range(3)
    )

    found = read_log(run(tmp_path, "", command))

    assert found
    made = [Path(each.path).parent.name for each in found.records if each.path.endswith("/in")]
    assert made == ["new0", "new1", "new2"]


def test_rehearsal_of_the_watch_changes_nothing(tmp_path: Path) -> None:
    """A keeper that waits uses the code once, so that its command is not kept waiting."""
    run(tmp_path, "module.rehearse()")

    assert sorted(each.name for each in (tmp_path / "work").iterdir()) == ["five", "four", "two"]
    assert (found := read_log(tmp_path / "log"))
    assert not found.lost


FULL = """
mount -t tmpfs -o size={size} none {at} && cd {at} && mkdir log work && cd work && {first}
"$0" -c "$1" {at}/log {at}/work "{command}" "{fault}" &&
ls && stat -c %a ../log/{log} && df --output=pcent . | tail -n 1
"""


def on_small_disk(
    tmp_path: Path, size: str, first: str, command: str, fault: str = ""
) -> tuple[str, ...]:
    """Run *command* on a small file system; return the lines of FULL."""
    namespace = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=256k none {tmp_path}"
    if (
        not shutil.which("unshare")
        or subprocess.run([*namespace, mount], capture_output=True, check=False).returncode
    ):
        pytest.skip("no file system can be mounted here")
    script = FULL.format(size=size, at=tmp_path, log=LOG, first=first, command=command, fault=fault)
    done = subprocess.run(
        [*namespace, script, sys.executable, KEEPER],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    return tuple(done.stdout.split("\n"))


@pytest.mark.parametrize(
    ("floor", "command"),
    [
        ("", "rm big; head -c 6M /dev/zero > new"),
        ("1000000", "rm big; head -c 1500K /dev/zero > new; head -c 6M /dev/zero >> new"),
    ],
    ids=["nearly-full-before", "filled-by-the-command"],
)
def test_kept_file_never_takes_the_space_that_the_command_needs(
    tmp_path: Path, floor: str, command: str
) -> None:
    """A deleted file that is kept holds its space, so it is given up while the disk is full."""
    fault = floor and f"from agent_cli.undo import kept_files; kept_files.FLOOR_BYTES = {floor}"

    reason, name, mode, _used, *_ = on_small_disk(
        tmp_path, "8m", "head -c 6M /dev/zero > big;", f"set -e; {command}", fault
    )

    assert (reason, name, mode) == ("", "new", "400")


# As the kernel does with a large file: its name is gone before its space is free.
SLOW_UNLINK = """
kept_files.FLOOR_BYTES = 1_000_000
unlink = os.unlink
def slow_unlink(path):
    os.rename(path, folder + '/../going')
    time.sleep(0.3)
    unlink(folder + '/../going')
os.unlink = slow_unlink
"""


def test_call_waits_for_the_thread_that_frees_the_space_it_needs(tmp_path: Path) -> None:
    """The keeper's main thread looks at the disk, too, and may be amid giving up a large file."""
    wait = "until [ -e ../going ]; do :; done"

    reason, name, mode, _used, *_ = on_small_disk(
        tmp_path,
        "8m",
        "head -c 6M /dev/zero > big;",
        f"set -e; rm big; head -c 1500K /dev/zero > new; {wait}; head -c 6M /dev/zero >> new",
        SLOW_UNLINK,
    )

    assert (reason, name, mode) == ("", "new", "400")


@pytest.mark.parametrize("first", ["", "cat /dev/zero > fill;"])
def test_command_frees_a_full_disk(tmp_path: Path, first: str) -> None:
    """A real file system that is full to the last byte, with the log on it: before or by it."""
    reason, name, mode, used, *_ = on_small_disk(
        tmp_path,
        "2m",
        f"touch $(seq 99); {first}",
        "cat /dev/zero > fill; rm ?; rm ??; rm fill; echo x > new",
    )

    assert name == "new"
    assert (reason, mode) == ("No space left on device" if first else "", "400")
    assert int(used.strip(" %")) < 20


ASKS = """
limit = 20
def ask(question):
    watch.answer(goes_on={goes_on})
"""
NO_ROOM = """
opened = os.open
def full(path, *more, **options):
    if str(path).endswith(module.LOG):
        raise OSError(28, os.strerror(28))
    return opened(path, *more, **options)
os.open = full
"""


@pytest.mark.parametrize("goes_on", [True, False])
def test_loss_on_a_full_disk_is_asked_about(tmp_path: Path, *, goes_on: bool) -> None:
    """A real one, on which the log has no room: after a no the file stays."""
    floor = "from agent_cli.undo import kept_files; kept_files.FLOOR_BYTES = 0"
    _reason, *names, mode, _used, _end = on_small_disk(
        tmp_path,
        "2m",
        "echo x > mine; cat /dev/zero > fill;",
        ": > new; rm mine; true",
        floor + ASKS.format(goes_on=goes_on),
    )

    assert names == (["fill", "new"] if goes_on else ["fill", "mine", "new"])
    assert mode == "400"


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize(
    "fault",
    [
        NO_ROOM,
        RAISES.format(target="UndoLog.write", error="OSError(28, os.strerror(28))"),
    ],
    ids=["no-log", "full-by-then"],
)
def test_loss_that_cannot_be_recorded_is_asked_about(
    tmp_path: Path, fault: str, *, goes_on: bool
) -> None:
    """What the command makes is no loss, and nothing is kept in half."""
    run(tmp_path, fault + ASKS.format(goes_on=goes_on), ": > new; rm one; echo > two; rm new; true")

    root = tmp_path / "work"
    left = {each.name for each in root.iterdir()}
    assert ("one" in left, "new" in left) == (not goes_on, not goes_on)
    assert (root / "two").read_text() == ("\n" if goes_on else "two")
    assert {each.name for each in (tmp_path / "log").iterdir()} <= {LOG}


KEPT_UNRECORDED = """
written = UndoLog.write
def write(self, kind, *rest):
    if kind == "write":
        raise OSError(28, os.strerror(28))
    written(self, kind, *rest)
UndoLog.write = write
"""


@pytest.mark.parametrize("goes_on", [True, False])
def test_overwriting_is_asked_about_if_its_kept_content_cannot_be_recorded(
    tmp_path: Path, *, goes_on: bool
) -> None:
    """A kept file that no record names brings nothing back."""
    run(tmp_path, KEPT_UNRECORDED + ASKS.format(goes_on=goes_on), "echo > two; true")

    assert (tmp_path / "work/two").read_text() == ("\n" if goes_on else "two")
    assert {each.name for each in (tmp_path / "log").iterdir()} == {LOG}


def test_loss_whose_record_failed_is_counted_once(tmp_path: Path) -> None:
    """Its call is looked at again, to ask: the first look counted it."""
    asked = """
def ask(question):
    with open(f"{root}.asked", "w") as asked:
        print(question["files"], question["bytes"], *question["paths"], file=asked)
    watch.answer(goes_on=True)
"""

    run(tmp_path, KEPT_UNRECORDED + "limit = 20" + asked, "echo > two; true")

    assert (tmp_path / "work.asked").read_text() == "0 0\n"


@pytest.mark.parametrize(
    ("user", "sandbox", "restricts_itself", "expected"),
    [
        (1000, [], False, True),
        (1000, [], True, False),
        (1000, ["plain"], False, False),
        (1000, ["set-user-id"], False, True),
        (1000, ["missing"], False, True),
        (0, [], False, False),
    ],
)
def test_command_that_may_gain_rights(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    user: int,
    sandbox: list[str],
    restricts_itself: bool,
    expected: bool,
) -> None:
    """Without a sandbox a user's script may call sudo, so it is not watched."""
    if "NoNewPrivs:\t1" in Path("/proc/self/status").read_text():
        pytest.skip("no command gains rights here")
    for name, mode in (("plain", 0o755), ("set-user-id", 0o4755)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    monkeypatch.setattr("os.geteuid", lambda: user)

    paths = [str(tmp_path / each) for each in sandbox]

    assert may_gain_rights(paths, restricts_itself=restricts_itself) == expected


FUZZ = """
import os, random, threading, sys
outside, seed = sys.argv[1], int(sys.argv[2])
r = random.Random(seed)
def flip():
    while True:
        try:
            os.rename("flip", "flip2"); os.symlink(outside, "flip")
            os.unlink("flip"); os.rename("flip2", "flip")
        except OSError: pass
os.makedirs("flip/sub")
threading.Thread(target=flip, daemon=True).start()
folder = os.open(outside, os.O_RDONLY)
inside = os.open(".", os.O_RDONLY)
starts = [outside, "flip", "../outside", "flip/../../outside", f"/proc/self/fd/{folder}",
    f"/proc/self/fd/{inside}/flip", "/proc/self/cwd/../outside", "./flip/.", "link",
    f"/dev/fd/{folder}"]
os.symlink(outside, "link")
for _ in range(400):
    at = f"{r.choice(starts)}/{r.choice(['secret', 'sub', '../one', '.', '..', 'made'])}"
    try:
        match r.randrange(7):
            case 0: open(at, "r+").close()
            case 1: os.chmod(at, 0o755, dir_fd=folder)
            case 2: os.chmod(at, 0o700)
            case 3: os.link(at, "hard"); os.unlink("hard")
            case 4: os.truncate(at, 14)
            case 5: os.close(os.open(at, os.O_WRONLY, dir_fd=r.choice([folder, inside])))
            case 6: os.utime(at)
    except OSError: pass
"""


@pytest.mark.parametrize("seed", range(2))
def test_no_file_outside_is_kept_or_restored(tmp_path: Path, seed: int) -> None:
    """Paths outside, `..`, /proc/self/fd, links that change while we look."""
    outside = tmp_path / "outside"
    (outside / "sub").mkdir(parents=True)
    (outside / "secret").write_text("secret content")
    program = tmp_path / "fuzz.py"
    program.write_text(FUZZ)
    log = run(tmp_path, "", f"{sys.executable} {program} {outside} {seed}")
    found = read_log(log)
    assert found

    write_plan(tmp_path / "plan", [Step(str(log), each) for each in reversed(found.records)], {})
    carry_out(tmp_path / "plan")

    root = tmp_path / "work"
    assert all(each.path.startswith(f"{root}") for each in found.records if each.kind != "lost")
    kept = [each for each in log.iterdir() if each.is_file() and not each.is_symlink()]
    assert not [each for each in kept if each.read_bytes() == b"secret content"]
    assert (outside / "secret").read_text() == "secret content"
    assert sorted(each.name for each in outside.iterdir()) == ["secret", "sub"]


def test_container_that_forbids_seccomp_is_told_from_an_old_kernel() -> None:
    """Or its user would look for a newer kernel."""
    script = """
import ctypes, struct
from agent_cli.undo import stopped_calls
from agent_cli.undo.stopped_calls import machine
code = struct.pack(
    "=" + "HBBI" * 4, 0x20, 0, 0, 0, 0x15, 0, 1, machine().seccomp,
    0x06, 0, 0, 0x50001, 0x06, 0, 0, 0x7FFF0000,  # EPERM, or allowed
)
text = ctypes.create_string_buffer(code, len(code))
program = struct.pack("@HP", 4, ctypes.addressof(text))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program) == 0
print(stopped_calls.why_missing())
"""

    said = subprocess.check_output([sys.executable, "-c", script], text=True)

    assert said == "the system forbids to stop calls, as some containers do\n"


def test_thread_that_starts_the_command_is_waited_for(tmp_path: Path) -> None:
    """If it fails because its pipe is closed, it ends, and the kernel kills the command."""
    log = run(tmp_path, SAYS_LATE)

    assert not (tmp_path / "work/one").exists()
    assert not is_incomplete(log)


def test_record_that_cannot_be_read_is_a_reason_for_what_an_undo_cannot_bring_back(
    tmp_path: Path,
) -> None:
    """The command has run: its result must not be lost with its record."""
    (tmp_path / LOG).mkdir(mode=INCOMPLETE)

    assert unkept(tmp_path) == "its record cannot be read (Is a directory)"


def test_folder_that_the_command_made_unreadable_does_not_cost_the_end_of_the_log(
    tmp_path: Path,
) -> None:
    """Without its end, the undo takes what a later program writes for what the command left."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data/one").write_text("one")
    (tmp_path / "log").mkdir()
    script = """
import os, sys
from agent_cli.undo.kept_files import KeptSpace
from agent_cli.undo.named_copies import NamedCopies
from agent_cli.undo.records import LOG
log = os.open(f"log/{LOG}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
here = os.getcwd()
named = {
    "paths": [f"{here}/data", f"{here}/data/one"], "absent": [f"{here}/new"], "unkept": {},
    "by_link": False,
}
copies = NamedCopies("log", log, KeptSpace("log", "", copy_bytes_max=10**6), named)
copies.keep(b'{"command":"","at":1}\\n')
os.system("rm data/one; mkdir new; touch new/in; chmod 0 new data")
copies.end()
"""
    # So that root may not read them either.
    rights = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    program = [sys.executable, "-c", script]

    subprocess.run(
        program if os.geteuid() else [*rights, *program], check=True, cwd=tmp_path, timeout=LIMIT_S
    )
    (tmp_path / "data").chmod(0o700)
    (tmp_path / "new").chmod(0o700)

    log = read_log(tmp_path / "log")
    assert log is not None
    assert log.ended_ns
    kinds = [(each.kind, each.path) for each in log.records]
    assert {("write", f"{tmp_path}/data/one"), ("made", f"{tmp_path}/new")} <= {*kinds}
