"""What a guard denies never runs, by whichever door.

A guard of a trusted repository, whatever its life brings: forms of change, by each event that
changes files. And each call gets the decision that its mode, rule and hook give it together.
"""

import asyncio
import json
import shutil
import stat
from collections.abc import Callable
from contextlib import chdir
from itertools import product
from pathlib import Path
from typing import TypeAlias

import pytest
from acp.exceptions import RequestError

from agent_cli.trust.store import TrustStore
from tests.acp.editor import editor_of_program
from tests.e2e.program import AGENT_CLI, agent_cli, environment
from tests.hooks.test_scripts import bash, command, hooks, script
from tests.mcp_server.test_server import serving_program
from tests.messages_api import FakeMessagesApi, reply, serve_in_thread, tool_use
from tests.repl.terminal import Terminal
from tests.trust.test_guards import (
    CALL,
    GUARD,
    SCRIPT,
    add_skill,
    add_unrelated_key,
    delete_script,
    edit_guard,
    git,
    remove_hooks,
)

Form: TypeAlias = Callable[[Path], None]
Event: TypeAlias = Callable[[Form], Path]

REPOSITORY = Path("project")
QUESTION = "until they change? [y/N]"
WORDS = ("none", "allow", "ask", "deny")
# Answers with the last word of the command, which names a file.
DECIDES = r"""
    #!/bin/sh
    word=$(sed -n 's/.*"command":"[^"]*-\([a-z]*\)".*/\1/p')
    [ "$word" = none ] || echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse",' \
        '"permissionDecision": "'"$word"'"}}'
"""


def _print(api: FakeMessagesApi) -> object:
    return agent_cli("-p", "go", api=api).code


def _new_worktree(api: FakeMessagesApi) -> object:
    return agent_cli("-p", "go", "--worktree", api=api).code


def _batch(api: FakeMessagesApi) -> object:
    Path("../tasks.jsonl").write_text(
        json.dumps({"id": "a", "prompt": "go", "cwd": str(Path.cwd())})
    )
    return agent_cli("batch", "../tasks.jsonl", "--output-dir", "../out", api=api).code


def _terminal(api: FakeMessagesApi) -> object:
    """The user does not trust the changed files."""
    with Terminal(AGENT_CLI, **environment(api, {})) as terminal:
        terminal.until(lambda: QUESTION in terminal.text or "? or /help" in terminal.text)
        if QUESTION in terminal.text:
            terminal.send("n\r")
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("done then")
        return terminal.text


def _acp(api: FakeMessagesApi) -> object:
    async def prompt() -> object:
        async with editor_of_program(api) as (client, _):
            client.permissions.extend(["reject_once"] * len(WORDS) ** 2)
            try:
                await client.say(await client.open(), "go")
            except RequestError as refused:
                return str(refused)
            return client.text()

    return asyncio.run(prompt())


def _serve(api: FakeMessagesApi) -> object:
    async def ask() -> object:
        async with serving_program(api) as client:
            return str(await client.call_tool("ask", {"prompt": "go"}))

    return asyncio.run(ask())


DOORS: dict[str, Callable[[FakeMessagesApi], object]] = {
    "-p": _print,
    "-p --worktree": _new_worktree,
    "agent": _print,
    "REPL": _terminal,
    "batch": _batch,
    "ACP": _acp,
    "mcp serve": _serve,
}


@pytest.fixture(autouse=True)
def _nobody_is_asked_about_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_CLI_PERMISSIONS__MODE", "yolo")


def change_mode(folder: Path) -> None:
    path = folder / SCRIPT
    path.chmod(path.stat().st_mode & ~(stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH))


def add_file_beside(folder: Path) -> None:
    """A local settings file that would switch the guard off."""
    (folder / ".claude/settings.local.json").write_text('{"disableAllHooks": true}')


FORMS = (
    edit_guard,
    add_unrelated_key,
    add_skill,
    delete_script,
    remove_hooks,
    change_mode,
    add_file_beside,
)


def _commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "-m", "two")


def by_hand(change: Form) -> Path:
    change(REPOSITORY)
    return REPOSITORY


def by_pull(change: Form) -> Path:
    shutil.copytree(REPOSITORY, "upstream")
    change(Path("upstream"))
    _commit(Path("upstream"))
    git(REPOSITORY, "pull", str(Path("upstream").resolve()))
    return REPOSITORY


def by_checkout(change: Form) -> Path:
    git(REPOSITORY, "checkout", "-b", "other")
    change(REPOSITORY)
    _commit(REPOSITORY)
    git(REPOSITORY, "checkout", "main")
    git(REPOSITORY, "checkout", "other")
    return REPOSITORY


def by_merge(change: Form) -> Path:
    by_checkout(change)
    git(REPOSITORY, "checkout", "main")
    git(REPOSITORY, "merge", "other")
    return REPOSITORY


def by_worktree(change: Form) -> Path:
    by_checkout(change)
    git(REPOSITORY, "checkout", "main")
    git(REPOSITORY, "worktree", "add", "../tree", "other")
    return Path("tree")


def by_clone(change: Form) -> Path:
    by_checkout(change)
    git(Path(), "clone", str(REPOSITORY.resolve()), "clone")
    return Path("clone")


def by_stash(change: Form) -> Path:
    change(REPOSITORY)
    git(REPOSITORY, "stash", "push", "--include-untracked")
    git(REPOSITORY, "stash", "pop")
    return REPOSITORY


def by_sparse_checkout(change: Form) -> Path:
    """The folder of the guard goes from the working tree, and comes back changed."""
    change(REPOSITORY)
    _commit(REPOSITORY)
    git(REPOSITORY, "sparse-checkout", "set", "--no-cone", "/*", "!/.claude/")
    git(REPOSITORY, "sparse-checkout", "disable")
    return REPOSITORY


def by_sparse_checkout_without_it(change: Form) -> Path:
    """No file of the guard is left in the working tree."""
    change(REPOSITORY)
    _commit(REPOSITORY)
    git(REPOSITORY, "sparse-checkout", "set", "--no-cone", "/keep")
    return REPOSITORY


def by_link(change: Form) -> Path:
    """The folder of the guard becomes a link to another one, which holds the changed files."""
    change(REPOSITORY)
    (REPOSITORY / ".claude").rename(REPOSITORY / "config")
    (REPOSITORY / ".claude").symlink_to("config")
    _commit(REPOSITORY)
    return REPOSITORY


def by_submodule(change: Form) -> Path:
    """The folder of the guard becomes a submodule, updated to the changed files."""
    change(REPOSITORY)
    inner = Path("inner").resolve()
    (REPOSITORY / ".claude").rename(inner)
    git(inner, "init")
    _commit(inner)
    git(REPOSITORY, "rm", "-r", "-q", "--cached", ".claude")
    git(
        REPOSITORY,
        *("-c", "protocol.file.allow=always"),
        *("submodule", "add", str(inner), ".claude"),
    )
    _commit(REPOSITORY)
    git(REPOSITORY, "submodule", "update", "--init")
    return REPOSITORY


EVENTS = (
    *(by_hand, by_pull, by_checkout, by_merge, by_worktree, by_clone, by_stash),
    *(by_sparse_checkout, by_sparse_checkout_without_it, by_link, by_submodule),
)


def ran(door: str, event: Event, form: Form) -> bool:
    """Trust a repository, change it, and have the model run what the guard denied."""
    REPOSITORY.mkdir()
    script(SCRIPT, GUARD, folder=REPOSITORY)
    hooks(REPOSITORY, PreToolUse=CALL)
    git(REPOSITORY, "init")
    _commit(REPOSITORY)
    TrustStore.of_user().trust(REPOSITORY.resolve())
    folder = event(form)
    answers = [reply(bash("touch ran-anyway")), reply("done then")]
    if door == "agent":
        task = {"description": "go", "prompt": "go", "subagent_type": "general"}
        answers = [reply(tool_use("agent", task)), *answers, reply("done then")]
    with serve_in_thread(*answers) as api, chdir(folder):
        DOORS[door](api)
    return bool([*Path().rglob("ran-anyway")])


@pytest.mark.parametrize("door", DOORS)
def test_guard_that_a_pull_changed_lets_nothing_through(door: str) -> None:
    """Whoever starts the run: the person who declines the new guard, or nobody."""
    assert not ran(door, by_pull, edit_guard)


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("form", FORMS)
def test_nothing_in_a_repositorys_life_switches_a_guard_off(
    door: str, event: Event, form: Form
) -> None:
    """539 ways. Whoever opens a clone at a terminal decides about its guards as in any folder."""
    if (door, event) == ("REPL", by_clone):
        pytest.skip("the person who declined its guards is there")

    assert not ran(door, event, form)


def may_run(mode: str, rule: str, hook: str) -> bool:
    """Return whether a call runs where each question is answered by a no, or by nobody."""
    if {"deny", "ask"} & {rule, hook} or mode == "plan":
        return False
    return "allow" in (rule, hook) or mode == "yolo"


def all_that_ran(door: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Have the model make a call for each rule with each hook; return the files they made."""
    settings = {word: f'["bash(touch {word} *)"]' for word in WORDS[1:]} | {"mode": mode}
    for name, value in settings.items():
        monkeypatch.setenv(f"AGENT_CLI_PERMISSIONS__{name.upper()}", value)
    monkeypatch.setenv("AGENT_CLI_SANDBOX__MODE", "off")
    hooks(PreToolUse=command(script("decides", DECIDES), "Bash"))
    calls = [bash(f"touch {rule} ran-{rule}-{hook}") for rule, hook in product(WORDS, WORDS)]
    answers = [reply(*calls), reply("done then")]
    if door == "agent":
        task = {"description": "go", "prompt": "go", "subagent_type": "general"}
        answers = [reply(tool_use("agent", task)), *answers, reply("done then")]
    REPOSITORY.mkdir()
    (REPOSITORY / "keep").touch()
    git(REPOSITORY, "init")
    _commit(REPOSITORY)
    with serve_in_thread(*answers) as api, chdir(REPOSITORY):
        DOORS[door](api)
        assert len(api.requests) == len(answers)
    return {path.name for path in Path().rglob("ran-*")}


def allowed(mode: str) -> set[str]:
    calls = product(WORDS, WORDS)
    return {f"ran-{rule}-{hook}" for rule, hook in calls if may_run(mode, rule, hook)}


@pytest.mark.parametrize("mode", ["ask", "plan", "yolo"])
def test_call_gets_the_strictest_of_what_mode_rule_and_hook_say(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What denies wins, then what asks: nothing that allows takes the question of another back."""
    assert all_that_ran("-p", mode, monkeypatch) == allowed(mode)


@pytest.mark.slow
@pytest.mark.parametrize("door", [door for door in DOORS if door != "REPL"])
@pytest.mark.parametrize("mode", ["ask", "auto-edit", "plan", "yolo"])
def test_call_gets_the_same_decision_by_every_door(
    door: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all_that_ran(door, mode, monkeypatch) == allowed(mode)
