"""A lack of descriptors, which other programs may cause, takes nothing away from the sandbox."""

import asyncio
import os
import resource
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

import pytest

from agent_cli.sandbox import Sandbox, SandboxPolicy, landlock
from agent_cli.sandbox.acting import linked_from_home
from agent_cli.sandbox.git_folders import GitSearch
from agent_cli.sandbox.hidden_paths import OtherNames
from agent_cli.sandbox.secret_files import holds_token, is_secret
from agent_cli.sandbox.secret_index import PathMarks, SecretIndex
from tests.sandbox.world import git, world

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sandboxes of Linux")


@contextmanager
def few_descriptors(free: int = 0) -> Generator[None]:
    """Leave so many descriptors *free* in this process."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(int(each.name) for each in Path("/proc/self/fd").iterdir()) + 40
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, limits[1]))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open("/", os.O_RDONLY))
        for descriptor in taken[:free]:
            os.close(descriptor)
        del taken[:free]
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("free", range(8))
def test_sandbox_that_could_not_be_tried_is_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    """In the mode "auto" all commands of the session would then run without one."""
    with world("bwrap"):  # else it cannot be tried here
        pass
    monkeypatch.chdir(sys.prefix)  # so the bundled program is run from a copy
    (root := tmp_path / "ws").mkdir()
    own = tmp_path / "own"
    policy = SandboxPolicy((root,), home=tmp_path, own=(own,), is_secret=is_secret)
    sandbox = Sandbox(lambda: policy, mode="auto", state_dir=own)

    async def use() -> tuple[str, bool]:
        await asyncio.to_thread(int)  # a thread for the probe
        with few_descriptors(free), suppress(OSError):
            await sandbox.ready()
        confinement = await sandbox.confine(root)
        return (await sandbox.ready()).state, bool(confinement and confinement.is_sandbox)

    try:
        state, is_confined = asyncio.run(use())
    finally:
        sandbox.close()

    assert is_confined
    assert state == "bwrap" or (free < 2 and landlock.abi() >= landlock.ABI_MIN)


def test_secrets_are_found_once_folders_can_be_listed_again(tmp_path: Path) -> None:
    """A folder that cannot be listed for now is not one that is gone."""
    secrets = [tmp_path / "a" / "b" / ".env", tmp_path / "a" / ".npmrc"]
    secrets[0].parent.mkdir(parents=True)
    secrets[0].write_text("KEY=1\n")
    secrets[1].write_text("//registry.example/:_authToken=abc\n")
    index = SecretIndex(tmp_path, PathMarks(is_secret))

    with few_descriptors(), pytest.raises(OSError, match="Too many open files"):
        index.contents()
    with few_descriptors(1):  # a folder at a time can be listed, but no file beside it read
        first = index.contents().secrets

    assert {*secrets} <= {*first}
    assert sorted(index.contents().secrets) == sorted(secrets)


def test_settings_file_that_cannot_be_read_for_now_may_hold_a_token(tmp_path: Path) -> None:
    (settings := tmp_path / ".npmrc").write_text("color=true\n")

    with few_descriptors():
        is_kept_back = holds_token(settings)

    assert is_kept_back
    assert not holds_token(settings)


def test_moved_secret_is_found_once_folders_can_be_listed_again(tmp_path: Path) -> None:
    secret, moved = tmp_path / ".env", tmp_path / "moved.txt"
    secret.write_text("KEY=1\n")
    names = OtherNames([tmp_path])
    names.remember([secret], is_changed=True)
    secret.rename(moved)

    with few_descriptors(), pytest.raises(OSError, match="Too many open files"):
        names.follow()
    names.follow()

    assert names.known() == [moved]


def test_settings_of_git_are_protected_once_they_can_be_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what programs outside start by a link from the home, which is looked for once."""
    monkeypatch.setenv("HOME", str(home := tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    root = tmp_path / "ws"
    root.mkdir()
    git(root, "init", "--quiet")
    (program := root / "program").touch()
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "program").symlink_to(program)

    with few_descriptors(), pytest.raises(OSError, match="Too many open files"):
        GitSearch().around(root)
    with few_descriptors(), pytest.raises(OSError, match="Too many open files"):
        linked_from_home([root])

    policy = SandboxPolicy((root,), home=home, own=(), is_secret=is_secret)
    with few_descriptors(), pytest.raises(OSError, match="Too many open files"):
        policy.rules()
    assert {program, root / ".git" / "config"} <= {*policy.rules().read_only}


def test_command_ends_although_what_it_added_cannot_be_looked_for() -> None:
    """It is said, so that nothing that acts is used unseen; the end of the next one finds it."""
    with world("bwrap") as place:
        confinement = asyncio.run(place.sandbox.confine(place.root))
        assert confinement
        git(place.root, "init", "--quiet", "new")
        (hook := place.root / "new/.git/hooks/pre-commit").write_text("#!/bin/sh\n")
        (setting := place.root / ".mcp.json").write_text("{}")
        import_module("structlog")  # as the program has by then
        with few_descriptors():
            [sentence] = confinement.release()
        following = asyncio.run(place.sandbox.confine(place.root))
        assert following
        following.release()
        left = asyncio.run(place.sandbox.settle())

    assert "could not be looked for (Too many open files)" in sentence
    assert [sum(str(path) in each for each in left) for path in (hook.parent, setting)] == [1, 1]


def test_command_that_runs_longer_finds_what_was_there_before_the_failed_search() -> None:
    """Where the shorter one began later, what appeared in between is old to it alone."""
    with world("bwrap") as place:
        longer = asyncio.run(place.sandbox.confine(place.root))
        git(place.root, "init", "--quiet", "new")
        (hook := place.root / "new/.git/hooks/pre-commit").write_text("#!/bin/sh\n")
        shorter = asyncio.run(place.sandbox.confine(place.root))
        assert longer
        assert shorter
        import_module("structlog")  # as the program has by then
        with few_descriptors():
            shorter.release()
        longer.release()
        left = asyncio.run(place.sandbox.settle())

    assert sum(str(hook.parent) in each for each in left) == 1
