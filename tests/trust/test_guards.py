"""Guards of a workspace that was trusted: whatever changes, what they deny never runs."""

import json
import shutil
import subprocess
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest

from agent_cli.app.arguments import Arguments
from agent_cli.app.hooks import defined_hooks
from agent_cli.app.startup import start
from agent_cli.contracts.timeline import Json
from agent_cli.trust.store import TrustStore
from tests.e2e.program import Finished, agent_cli, in_terminal
from tests.hooks.test_scripts import YOLO, bash, command, hooks, script
from tests.messages_api import reply, serve_in_thread

WORKSPACE = Path("project")
GUARD = """
    #!/bin/sh
    if grep -q touch; then
        echo "touch is not wanted here" >&2
        exit 2
    fi
"""
SETTINGS = ".claude/settings.json"
SCRIPT = "guard.sh"
CALL: Json = command(f"$CLAUDE_PROJECT_DIR/{SCRIPT}", "Bash")


def git(folder: Path, *arguments: str) -> None:
    who = (
        "-c",
        "user.name=Ann",
        "-c",
        "user.email=ann@example.com",
        "-c",
        "init.defaultBranch=main",
    )
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(autouse=True)
def _trusted_repository() -> None:
    """A repository with one guard, which the user trusts."""
    WORKSPACE.mkdir()
    script(SCRIPT, GUARD, folder=WORKSPACE)
    hooks(WORKSPACE, PreToolUse=CALL)
    git(WORKSPACE, "init")
    git(WORKSPACE, "add", "--all")
    git(WORKSPACE, "commit", "-m", "one")
    TrustStore.of_user().trust(WORKSPACE.resolve())


def attempt(folder: Path, *options: str) -> tuple[Finished, bool]:
    """Have the model run what the guard denies, with nobody there; return whether it ran."""
    with serve_in_thread(reply(bash("touch a")), reply("ok")) as api, chdir(folder):
        run = agent_cli("-p", "go", *YOLO, *options, api=api)
    return run, (folder / "a").exists()


def edit_guard(folder: Path) -> None:
    script(SCRIPT, "#!/bin/sh\nexit 0\n", folder=folder)


def change_definition(folder: Path) -> None:
    hooks(folder, PreToolUse=command("true", "Bash"))


def remove_hooks(folder: Path) -> None:
    (folder / SETTINGS).write_text("{}")


def break_settings(folder: Path) -> None:
    (folder / SETTINGS).write_text("<<<<<<< ours\n{}\n")


def delete_script(folder: Path) -> None:
    (folder / SCRIPT).unlink()


def add_unrelated_key(folder: Path) -> None:
    document = json.loads((folder / SETTINGS).read_text())
    (folder / SETTINGS).write_text(json.dumps({**document, "cleanupPeriodDays": 7}))


def add_watching_hook(folder: Path) -> None:
    hooks(folder, PreToolUse=CALL, PostToolUse=command("true"))


def add_skill(folder: Path) -> None:
    skill = folder / ".claude/skills/pdf/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: pdf\ndescription: Read PDF files.\n---\nRead them.\n")


def add_settings(folder: Path) -> None:
    (folder / "appsettings.toml").write_text("max_rounds = 7\n")


def make_script_unexecutable(folder: Path) -> None:
    (folder / SCRIPT).chmod(0o644)


LOSES = (edit_guard, change_definition, remove_hooks, break_settings, delete_script)
KEEPS = (add_unrelated_key, add_watching_hook, add_skill, add_settings)


def lost_guards(folder: Path) -> tuple[str, ...]:
    """Return the guards that a start without a person misses; it is refused if there are some."""
    found = start(Arguments(), may_ask=False, workspace=folder.resolve())
    return tuple(found.lost_guards)


@pytest.mark.parametrize("change", [edit_guard, remove_hooks])
def test_headless_start_is_refused_if_a_trusted_guard_changed(
    change: Callable[[Path], None],
) -> None:
    """A pull must not switch off the guard of a pipeline; the exit code is its own."""
    change(WORKSPACE)

    run, ran = attempt(WORKSPACE)

    assert (run.code, ran) == (5, False)
    assert (SCRIPT if change is edit_guard else SETTINGS) in run.stderr
    assert "agent-cli trust" in run.stderr


def test_each_change_of_a_guard_is_missed() -> None:
    for change in LOSES:
        shutil.copytree(WORKSPACE, "before")
        change(WORKSPACE)

        lost = SCRIPT if change in (edit_guard, delete_script) else SETTINGS
        assert lost in lost_guards(WORKSPACE), change

        shutil.rmtree(WORKSPACE)
        Path("before").rename(WORKSPACE)
        assert lost_guards(WORKSPACE) == (), change


def test_guard_blocks_on_if_something_else_changed() -> None:
    for change in (*KEEPS, make_script_unexecutable):
        if change is make_script_unexecutable:
            run, ran = attempt(WORKSPACE)
            assert (run.code, ran) == (0, False)
        change(WORKSPACE)
        assert lost_guards(WORKSPACE) == (), change

    run, ran = attempt(WORKSPACE)

    assert (run.code, ran) == (0, False)


def test_declined_guard_blocks_every_call() -> None:
    """In the REPL, whose user did not trust the new files."""
    edit_guard(WORKSPACE)
    found = start(Arguments(), may_ask=False, workspace=WORKSPACE.resolve())

    [lost] = defined_hooks(found)[0]

    assert (lost.event, lost.matcher, lost.guards) == ("PreToolUse", "", True)
    assert "agent-cli trust" in lost.fault


def test_change_during_a_session_revokes_only_what_changed() -> None:
    """The model or the user adds a file; a guard that is as it was holds on."""
    found = start(Arguments(), may_ask=False, workspace=WORKSPACE.resolve())
    add_skill(WORKSPACE)
    added = (found.objection(), found.guard_objection())
    edit_guard(WORKSPACE)

    assert (bool(added[0]), added[1]) == (True, "")
    assert "changed; run `agent-cli trust`" in found.guard_objection()
    TrustStore.of_user().trust(WORKSPACE.resolve())
    assert (found.objection(), found.guard_objection()) == ("", "")


def by_pull(change: Callable[[Path], None]) -> Path:
    shutil.copytree(WORKSPACE, "upstream")
    change(Path("upstream"))
    git(Path("upstream"), "commit", "--all", "-m", "two")
    git(WORKSPACE, "pull", str(Path("upstream").resolve()))
    return WORKSPACE


def by_checkout(change: Callable[[Path], None]) -> Path:
    git(WORKSPACE, "checkout", "-b", "other")
    change(WORKSPACE)
    git(WORKSPACE, "commit", "--all", "-m", "two")
    git(WORKSPACE, "checkout", "main")
    git(WORKSPACE, "checkout", "other")
    return WORKSPACE


def by_merge(change: Callable[[Path], None]) -> Path:
    by_checkout(change)
    git(WORKSPACE, "checkout", "main")
    git(WORKSPACE, "merge", "other")
    return WORKSPACE


def by_worktree(change: Callable[[Path], None]) -> Path:
    by_checkout(change)
    git(WORKSPACE, "checkout", "main")
    git(WORKSPACE, "worktree", "add", "../tree", "other")
    return Path("tree")


@pytest.mark.parametrize("event", [by_pull, by_checkout, by_merge, by_worktree])
@pytest.mark.parametrize("change", [edit_guard, delete_script])
def test_guard_changed_by_git_is_missed(
    event: Callable[[Callable[[Path], None]], Path], change: Callable[[Path], None]
) -> None:
    found = start(Arguments(), may_ask=False, workspace=event(change).resolve())

    assert (found.trusted, found.lost_guards) == (False, (SCRIPT,))


def test_worktree_with_the_same_files_is_as_trusted_as_its_repository() -> None:
    git(WORKSPACE, "worktree", "add", "../tree")

    run, ran = attempt(Path("tree"))

    assert (run.code, ran, run.stderr.count("ignored")) == (0, False, 0)


def test_folder_that_only_claims_to_be_a_worktree_is_not_trusted() -> None:
    """Only the repository itself says which worktrees it has."""
    git(WORKSPACE, "worktree", "add", "../tree")
    forged = Path("forged")
    shutil.copytree("tree", forged)

    assert not TrustStore.of_user().is_trusted(forged)


def test_clone_of_a_trusted_repository_is_not_run_without_its_guards() -> None:
    """Nothing of it is run either: the files beside the guard may be others."""
    git(Path(), "clone", str(WORKSPACE.resolve()), "clone")
    add_skill(Path("clone"))

    run, ran = attempt(Path("clone"))

    assert (run.code, ran) == (5, False)
    for change in (edit_guard, delete_script, remove_hooks):
        change(Path("clone"))
        assert lost_guards(Path("clone")), change


def test_second_clone_whose_guards_changed_is_known_by_its_remote() -> None:
    """As in CI: each checkout is a new folder. Another project with such a script is its own."""
    git(WORKSPACE, "remote", "add", "origin", "git@Example.com:ann/shop.git")
    for name, url in {"clone": "https://example.com/ann/shop", "other": "../shop"}.items():
        shutil.copytree(WORKSPACE, name)
        git(Path(name), "remote", "set-url", "origin", url)
        edit_guard(Path(name))

    found = {
        name: start(Arguments(), may_ask=False, workspace=Path(name).resolve()).lost_guards
        for name in ("clone", "other")
    }

    assert found == {"clone": (SETTINGS, SCRIPT), "other": ()}
    agent_cli("trust", "--revoke", str(Path("clone").resolve()))
    assert attempt(Path("clone"))[0].code == 0


def test_user_at_a_terminal_opens_a_clone_without_guards_as_any_folder() -> None:
    git(Path(), "clone", str(WORKSPACE.resolve()), "clone")
    git(Path("clone"), "rm", "-rq", SETTINGS, SCRIPT)

    assert not start(Arguments(), may_ask=True, workspace=Path("clone").resolve()).lost_guards


def test_revoked_trust_lets_a_run_do_without_the_guards() -> None:
    """The user has decided; a folder that was never trusted runs without its files, too."""
    edit_guard(WORKSPACE)
    agent_cli("trust", "--revoke", str(WORKSPACE))

    run, ran = attempt(WORKSPACE)

    assert (run.code, ran) == (0, True)
    assert "ignored: this workspace is not trusted" in run.stderr


def test_start_after_a_no_to_a_changed_guard_says_that_calls_are_blocked() -> None:
    """At a terminal; the line about hooks called the guard that blocks an active one."""
    by_pull(edit_guard)
    with serve_in_thread() as api, chdir(WORKSPACE), in_terminal(api) as terminal:
        terminal.until("until they change? [y/N]")
        assert f"  {SCRIPT} (changed since you trusted it)\n" in terminal.text
        assert f"  {SETTINGS}\n" in terminal.text
        terminal.send("n\r")
        terminal.until("calls are blocked: ")
        shown = " ".join(terminal.text.split())

    lost = f"a guard in {SCRIPT} changed after you trusted it; `agent-cli trust` trusts it again"
    assert f"hooks: none active; calls are blocked: {lost}" in shown


def test_prompt_that_a_changed_guard_blocks_gets_the_reason_once() -> None:
    """In a session that goes on after a pull; the same sentence stood there twice."""
    hooks(WORKSPACE, UserPromptSubmit=command("true"))
    TrustStore.of_user().trust(WORKSPACE.resolve())
    with serve_in_thread() as api, chdir(WORKSPACE), in_terminal(api) as terminal:
        terminal.until("hooks: 1 active (guards: 1)")
        terminal.until_prompt()
        hooks(Path(), UserPromptSubmit=command("true 2"))
        terminal.send("hello\r")
        terminal.until("a hook blocked this prompt; it was not sent: ")
        terminal.until_prompt()
        shown = " ".join(terminal.text.split())

    assert shown.count("run `agent-cli trust` in another terminal to trust them again") == 1


def test_trust_for_one_run_takes_the_guard_as_it_is() -> None:
    script(SCRIPT, GUARD.replace("wanted", "liked"), folder=WORKSPACE)

    run, ran = attempt(WORKSPACE, "--trust")

    assert (run.code, ran) == (0, False)


def test_rule_of_a_trusted_project_denies_on_if_another_setting_changes() -> None:
    settings = WORKSPACE / "appsettings.toml"
    settings.write_text('max_rounds = 7\n[permissions]\ndeny = ["bash(touch *)"]\n')
    TrustStore.of_user().trust(WORKSPACE.resolve())
    settings.write_text(settings.read_text().replace("7", "8"))
    kept = start(Arguments(), may_ask=False, workspace=WORKSPACE.resolve())
    settings.write_text("max_rounds = 8\n")
    lost = start(Arguments(), may_ask=False, workspace=WORKSPACE.resolve())

    assert [rule.text for rule in kept.loaded.rules] == ["bash(touch *)"]
    assert kept.loaded.settings.max_rounds == 100
    assert (kept.lost_guards, lost.lost_guards) == ((), ("appsettings.toml",))


def test_claude_rule_of_a_trusted_project_denies_and_its_allowing_ones_do_not_count() -> None:
    """A project's settings may restrict the model, and never free it; a lost guard stops `-p`."""
    hooks(WORKSPACE)
    path = WORKSPACE / SETTINGS
    path.write_text(json.dumps({"permissions": {"deny": ["Bash(touch:*)"], "allow": ["Bash"]}}))
    TrustStore.of_user().trust(WORKSPACE.resolve())
    denied, ran = attempt(WORKSPACE)
    add_skill(WORKSPACE)
    still, ran_with_skill = attempt(WORKSPACE)
    rules = start(Arguments(), may_ask=False, workspace=WORKSPACE.resolve()).loaded.rules
    path.write_text(json.dumps({"permissions": {"allow": ["Bash"]}}))
    without, ran_without = attempt(WORKSPACE)

    assert (denied.code, ran, still.code, ran_with_skill) == (0, False, 0, False)
    assert [(rule.kind, rule.text) for rule in rules] == [("deny", "Bash(touch:*)")]
    assert (without.code, ran_without) == (5, False)


def test_trust_stored_by_an_earlier_version_misses_its_guards() -> None:
    """It was one hash of everything; nobody knows which guards it covered."""
    store = TrustStore.of_user()
    store.trust(WORKSPACE.resolve())
    path = store._path
    path.write_text(json.dumps({str(WORKSPACE.resolve()): "0" * 64}))

    assert store.standing(WORKSPACE.resolve()).lost == (SETTINGS, SCRIPT)


def test_script_of_the_project_that_a_guard_of_the_user_runs_is_part_of_it() -> None:
    """The user's definition stays, but a pull changes what it does."""
    (WORKSPACE / SETTINGS).unlink()
    hooks(PreToolUse=CALL)
    TrustStore.of_user().trust(WORKSPACE.resolve())
    before, ran_before = attempt(WORKSPACE)
    edit_guard(WORKSPACE)
    after, ran_after = attempt(WORKSPACE)

    assert (before.code, ran_before) == (0, False)
    assert (after.code, ran_after) == (5, False)
    assert SCRIPT in after.stderr
