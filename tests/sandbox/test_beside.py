"""Secrets and rules hold in all folders of a session, not only in the one it started in."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

from agent_cli.app import parts
from agent_cli.policies.permission_rules import RuleSet, parse_rule
from agent_cli.sandbox import PathRules, Sandbox, SandboxPolicy, State
from agent_cli.sandbox.secret_files import is_secret
from agent_cli.system.authorship import SessionFolders
from tests.sandbox.world import CANARY, Decider, World, git, only, run_confined, world
from tests.tables import each_row


def at(place: World, root: Path, state: State, **more: Any) -> World:
    """Return the same world for a session in *root*."""
    own = place.home / ".local" / "state" / "agent-cli"
    roots = SessionFolders.of(root).roots
    # Not the clone that the tests stand in: its environment has 50,000 files.
    beside = [folder for folder in roots if folder != root and folder.is_relative_to(place.base)]
    policy = SandboxPolicy(
        (root,), home=place.home, own=(own,), is_secret=is_secret, beside=beside, **more
    )
    sandbox = Sandbox(
        lambda: policy,
        mode="auto",
        state_dir=own,
        find=lambda *folders: only(state, *folders),
        person=Decider(answer=True),
    )
    return World(place.base, root, place.home, sandbox)


def rules_in(root: Path, *beside: Path) -> RuleSet:
    return RuleSet(deny=(parse_rule("read(priv/**)", "mine"),), beside=beside)


@each_row("state", ["bwrap", "landlock"])
def test_command_in_a_worktree_reads_no_secret_of_the_main_checkout(state: State) -> None:
    """Threat 4: an agent with `isolation: worktree` printed its `.env`, unasked."""
    with world(state) as place:
        tree = place.base / "trees" / "one"
        git(place.root, "worktree", "add", "--quiet", str(tree))
        for folder in (place.root / "deep" / "er", place.root / "priv", tree):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / ".env").write_text(f"{CANARY}\n")
        (place.root / "priv" / "notes").write_text(f"{CANARY}\n")
        (place.root / "README").write_text("readable\n")
        rules = rules_in(tree, place.root)
        hides = PathRules(hides=lambda path: rules.hides(path, tree))
        inside = at(place, tree, state, path_rules=hides)

        output = inside.output(
            f"cd {place.root}; cat .env deep/er/.env priv/notes priv/.env README;"
            " grep -rh CANARY .; echo changed > README; echo x > .env"
        )
        inside.sandbox.close()

        assert CANARY not in output
        assert "readable" in output
        assert (place.root / "README").read_text() == "readable\n"


@each_row("state", ["bwrap", "landlock"])
def test_command_in_a_folder_of_a_repository_reads_no_secret_of_that(state: State) -> None:
    """Threat 4: `cat ../.env` was one path away."""
    with world(state) as place:
        folder = place.root / "pkg" / "web"
        (place.root / "pkg" / "api").mkdir(parents=True)
        folder.mkdir()
        (place.root / "pkg" / "api" / ".env").write_text(f"{CANARY}\n")
        inside = at(place, folder, state)

        output = inside.output("cat ../../.env ../api/.env ../../.gitignore; touch fine")
        inside.sandbox.close()

        assert CANARY not in output
        assert ".env" in output.splitlines()
        assert (folder / "fine").exists()


def test_rules_of_the_workspace_hold_in_the_other_folders_of_the_session(tmp_path: Path) -> None:
    """Threat 4: a rule that denies `priv/**` means that of the main checkout, too."""
    main, tree, other = (tmp_path / name for name in ("main", "tree", "other"))
    rules = rules_in(tree, main)
    [rule] = rules.deny

    for root in (main, tree):
        assert rules.hides(root / "priv" / "x", tree)
        assert rules.touches(rule, "read", [str(root / "priv" / "x")], tree)
    assert not rules.hides(other / "priv" / "x", tree)
    assert not rules.hides(main / "src" / "priv" / "x", tree)


@each_row("around", ["/tmp", "/dev/shm"])
@each_row("state", ["bwrap", "landlock"])
@each_row("reads_only", [False, True])
def test_command_below_a_repository_in_tmp_sees_all_of_it(
    state: State, around: str, *, reads_only: bool
) -> None:
    """`git add -A` took the files above for deleted, and a commit deleted them."""
    with world(state) as place, TemporaryDirectory(dir=around) as folder:
        main = Path(folder, "main")
        (main / "pkg").mkdir(parents=True)
        files = {"above": "above", "pkg/own": "own", ".gitignore": ".env", ".env": CANARY}
        for name, content in files.items():
            (main / name).write_text(f"{content}\n")
        git(main, "init", "--quiet")
        git(main, "add", "--all")
        git(main, "commit", "--quiet", "--message", "one")
        inside = at(replace(place, base=Path(folder)), main / "pkg", state)
        commands = "git status --short; cat ../above; cat ../.env; echo x > ../above"

        if reads_only:
            confinement = asyncio.run(inside.sandbox.confine_read_only(main / "pkg"))
            assert confinement is not None
            run = run_confined(confinement, commands, main / "pkg", {"PATH": os.environ["PATH"]})
            confinement.release()
            output = run.stdout + run.stderr
        else:
            output = inside.output(commands)
        inside.sandbox.close()

        assert output.splitlines()[0] == "above"
        assert CANARY not in output
        assert (main / "above").read_text() == "above\n"


def test_folders_beside_the_workspace_are_those_of_its_repositories(tmp_path: Path) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    (main / "pkg").mkdir(parents=True)
    git(main, "init", "--quiet")
    git(main, "commit", "--quiet", "--allow-empty", "--message", "one")
    git(main, "worktree", "add", "--quiet", str(tree))

    def beside(workspace: Path, *added: Path) -> set[Path]:
        arguments = SimpleNamespace(add_dirs=added)
        return {
            *parts.beside(cast("Any", SimpleNamespace(workspace=workspace, arguments=arguments)))
        }

    assert beside(tree) == {main}
    assert beside(main / "pkg") == {main, tree}
    assert beside(tree, main) == set()
    assert beside(tmp_path) == set()
