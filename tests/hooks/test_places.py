"""Where hooks run: what the workspace holds, or may hold, runs in the sandbox."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from agent_cli.app.hooks.confinement import HookConfinement
from agent_cli.app.startup import StartupContext
from agent_cli.hooks.answers import HookOutcome
from agent_cli.hooks.definition import Hook, HookGroup, parse_hooks
from agent_cli.hooks.run import HookEnvironment, run_hook
from agent_cli.sandbox import Sandbox
from agent_cli.settings import WrittenHooks
from agent_cli.settings.hook_files import scripts_of
from tests.sandbox.world import CANARY, Decider, World, world


@dataclass
class Startup:
    """The part of a startup that says where hooks run."""

    workspace: Path
    trusted: bool = True
    guarded: bool = False


@pytest.fixture(params=["bwrap", "landlock"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with world(request.param) as made:
        monkeypatch.setenv("HOME", str(made.home))
        yield made


def ran(place: World, hook: Hook, sandbox: Sandbox | None = None, **more: Any) -> HookOutcome:
    startup = cast("StartupContext", Startup(place.root, **more))
    places = HookConfinement(startup, sandbox or place.sandbox)
    around = HookEnvironment(place.root, dict(os.environ), prepare=places)
    return asyncio.run(run_hook(hook, {"hook_event_name": "Stop"}, around))


def user(command: str, **more: Any) -> Hook:
    return Hook(event="Stop", command=command, **more)


ESCAPES = "cat; touch ran; touch ~/out; cat ~/.ssh/id_ed25519 >&2; exit 2"


CONFINED = [
    user(ESCAPES, is_project=True),
    user("./x.sh; true"),
    user("x.sh>/dev/null; ./x.sh"),
    user("test -x x.sh&&./x.sh"),
    user("cd scripts && ./inner.sh"),
    user("cat x.sh|sh"),
    user("make -s"),
    user('"$CLAUDE_PROJECT_DIR"/x.sh'),
    user("./x.sh", args=()),
    user("~/linked.sh"),
    user("bash -c 'make -s'"),
]


def test_hook_that_may_run_a_file_of_the_workspace_runs_in_the_sandbox(place: World) -> None:
    """Threat 10: a command rewrote the script of a hook, which then ran outside (3 of 3)."""
    (place.root / "scripts").mkdir()
    for script in (place.root / "x.sh", place.root / "scripts" / "inner.sh"):
        script.write_text(f"#!/bin/sh\n{ESCAPES}\n")
        script.chmod(0o755)
    (place.root / "Makefile").write_text("all:\n\t@./x.sh\n")
    (place.home / "linked.sh").symlink_to(place.root / "x.sh")

    for hook in CONFINED:
        outcome = ran(place, hook)

        marks = [*place.root.rglob("ran")]
        assert marks != [], (hook, outcome, "it has run")
        assert not (place.home / "out").exists(), hook
        assert CANARY not in outcome.stdout + outcome.stderr, hook
        assert "|" in hook.command or "hook_event_name" in outcome.stdout, "it can read its payload"
        for mark in marks:
            mark.unlink()


def test_hook_uses_no_cache_that_commands_write(place: World) -> None:
    """Threat 10: uv and Go start programs of their caches, and a hook judges commands."""
    (place.root / "x.sh").write_text(
        "for f in $UV_CACHE_DIR $GOCACHE; do cat $f/x >> seen; mkdir -p $f && touch $f/mine; done\n"
        "ls $UV_CACHE_DIR $GOCACHE >> seen\n"
    )
    evil = "for f in $UV_CACHE_DIR /tmp/.cache/uv /var/tmp/.cache/uv $GOCACHE; do mkdir -p $f; "

    place.run(f"{evil} echo {CANARY} > $f/x; done")
    outcome = ran(place, user("sh ./x.sh"))
    place.run(f"{evil} rm -f $f/mine; echo {CANARY} > $f/x; done")
    ran(place, user("sh ./x.sh"))

    assert (place.root / "seen").read_text().count("mine\n") == 4, outcome
    assert CANARY not in (place.root / "seen").read_text()


def test_hook_runs_in_the_sandbox_beside_hundreds_of_long_names(place: World) -> None:
    """Without bubblewrap the allowed paths are arguments, and each is 128 KiB at most."""
    (place.root / "x.sh").write_text("touch ran\n")
    for number in range(600):
        (place.home / f"{number}-{'x' * 240}").touch()

    outcome = ran(place, user("sh ./x.sh"))

    assert (outcome.code, outcome.fault) == (0, "")
    assert (place.root / "ran").exists()


def test_hook_of_the_user_runs_outside_where_it_runs_only_files_of_the_user(place: World) -> None:
    script = place.home / ".claude" / "hooks" / "guard.sh"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\ntouch ~/out\n")
    script.chmod(0o755)

    for command in ("~/.claude/hooks/guard.sh", "$HOME/.claude/hooks/guard.sh", "touch ~/out"):
        assert ran(place, user(command)).fault == ""
        (place.home / "out").unlink()
    assert ran(place, user("make -s -f /dev/null x; touch ~/out", outside=True)).fault == ""
    assert (place.home / "out").exists()


def test_hook_of_a_plugin_writes_to_the_workspace_and_its_own_folder_only(place: World) -> None:
    """Its folder lies among the files of this program, which commands must not read."""
    plugins = place.home / ".local" / "state" / "agent-cli" / "plugins"
    top, data = plugins / "shop", plugins / "shop" / "data"
    data.mkdir(parents=True)
    (top / "note").write_text("sold")
    (plugins / "list").write_text(CANARY)
    hook = user(
        'cat > "${CLAUDE_PLUGIN_DATA}/told"; touch "$CLAUDE_PLUGIN_DATA/../out"; touch ~/out here;'
        ' cat "$CLAUDE_PLUGIN_ROOT/note" "$CLAUDE_PLUGIN_ROOT/../list" > here',
        root=str(top),
        variables=(("CLAUDE_PLUGIN_ROOT", str(top)), ("CLAUDE_PLUGIN_DATA", str(data))),
    )

    outcome = ran(place, hook)

    assert "hook_event_name" in (data / "told").read_text(), outcome
    assert (place.root / "here").read_text() == "sold"
    assert not (data.parent / "out").exists()
    assert not (place.home / "out").exists()


def test_uncertain_hook_without_a_sandbox_runs_only_where_the_user_trusts_the_folder(
    place: World,
) -> None:
    off = Sandbox(lambda: place.sandbox._policy, mode="off", state_dir=place.base / "state")

    assert ran(place, user("git --version"), off).fault == ""
    outcome = ran(place, user("git --version"), off, trusted=False)
    assert "there is no sandbox for it here" in outcome.fault
    assert outcome.is_broken
    missing = Sandbox(
        lambda: place.sandbox._policy,
        mode="required",
        state_dir=place.base / "state",
        find=lambda *_places: [],
    )
    assert "no sandbox works on this machine" in ran(place, user("make"), missing).fault


def test_only_a_file_of_the_user_can_take_a_hook_out_of_the_sandbox() -> None:
    written = {"hooks": [{"type": "command", "command": "make", "sandbox": False}]}

    (own,), _ = parse_hooks([HookGroup("Stop", written, "mine")])
    (project,), _ = parse_hooks([HookGroup("Stop", written, "theirs", is_project=True)])

    assert (own.outside, project.outside) == (True, False)
    assert own.ignored == ()


@pytest.mark.parametrize(
    "command",
    [
        *("./x.sh; true", "x.sh>/dev/null", "test -x x.sh&&./x.sh", "cd scripts && ./in.sh"),
        *("cat x.sh|sh", "sh<x.sh", "(./x.sh)", "`./x.sh`", "$(./x.sh)", "sh -c './x.sh'"),
        *("X=x.sh; $X", "./x''.sh", '"./x.sh"', "env A=./x.sh true", "~/link.sh", "./{x.sh,y}"),
    ],
)
def test_script_of_the_workspace_is_found_wherever_a_command_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Threat 10: 6 of 8 forms ran an untrusted repository's script under a hook of the user."""
    home, workspace = tmp_path / "home", tmp_path / "ws"
    (workspace / "scripts").mkdir(parents=True)
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("x.sh", "scripts/in.sh"):
        (workspace / name).touch()
    (home / "link.sh").symlink_to(workspace / "x.sh")
    (home / "own.sh").touch()

    def found(text: str) -> tuple[Path, ...]:
        return scripts_of([WrittenHooks("Stop", {"hooks": [{"command": text}]}, "mine")], workspace)

    assert len(found(command)) == 1
    assert found("~/own.sh; echo x") == ()


def test_hook_runs_in_the_sandbox_while_a_file_beside_a_command_is_undecided(place: World) -> None:
    """Threat 11: `git status` of a user's hook runs what a planted repository names."""
    outside = user("touch ~/out", outside=True)
    person = cast("Decider", place.sandbox._person)
    person.answer = None
    place.run("mkdir -p new/.vscode")
    ran(place, outside)
    assert not (place.home / "out").exists()

    (place.root / "new" / ".vscode").rmdir()
    ran(place, outside)

    assert (place.home / "out").exists()
