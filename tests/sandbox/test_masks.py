"""Secrets stay hidden from commands: in any folder, under any name, and after being moved."""

import asyncio
import os
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from agent_cli.contracts.errors import ToolError
from agent_cli.policies.permission_rules import RuleSet, parse_rule
from agent_cli.sandbox import PathRules, Sandbox, SandboxPolicy, hidden_paths
from agent_cli.sandbox.hidden_paths import OtherNames
from agent_cli.sandbox.secret_files import holds_token, is_secret
from agent_cli.sandbox.secret_index import PathMarks, SecretIndex
from agent_cli_tools import Workspace
from tests.e2e.program import agent_cli
from tests.messages_api import reply, serve_in_thread, tool_use
from tests.sandbox.world import CANARY, only, world
from tests.tables import each_row


def denied(*written: str) -> Callable[[Path], PathRules]:
    """Return the effect of the rules *written* on commands."""

    def path_rules(root: Path) -> PathRules:
        rules = RuleSet(deny=tuple(parse_rule(each.format(root=root)) for each in written))
        return PathRules(
            hides=lambda path: rules.hides(path, root),
            locks=lambda path: rules.locks(path, root),
            elsewhere=tuple(rules.hidden_elsewhere(root)),
        )

    return path_rules


def secret(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{CANARY}\n")
    return path


@each_row(
    "rule", ["read(priv/**)", "read(priv/a.txt)", "read(priv)", "read({root}/priv/**)", "read(/**)"]
)
def test_read_deny_rule_hides_files_from_commands(rule: str) -> None:
    """Threat 4: with a slash and without, relative and absolute."""
    with world("bwrap", rules=denied(rule)) as place:
        secret(place.root / "priv" / "a.txt")

        output = place.output("cat priv/a.txt; grep -r CANARY priv; echo ran")

        assert CANARY not in output
        assert "ran" in output


def test_read_deny_rule_hides_files_outside_the_workspace_from_commands() -> None:
    """Threat 4: as a whole folder, and by a pattern in it."""

    def outside(rule: str, root: Path) -> PathRules:
        return denied(rule.format(base=root.parent))(root)

    for rule in ("read({base}/notes/**)", "read({base}/notes/*.txt)", "read({base}/n*/a.txt)"):
        with world("bwrap", rules=partial(outside, rule)) as place:
            secret(place.base / "notes" / "a.txt")

            assert CANARY not in place.output("cat ../notes/a.txt")


def test_deny_option_with_a_slash_hides_files_from_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 4, C19: through the whole program, in the mode that asks nothing."""
    monkeypatch.chdir(tmp_path)
    secret(tmp_path / "priv" / "a.txt")
    calls = (
        tool_use("bash", {"command": each}) for each in ("cat priv/a.txt", "grep -r CANARY priv")
    )

    with serve_in_thread(reply(*calls), reply("Done.")) as api:
        run = agent_cli(
            *("-p", "go", "--permission-mode", "yolo", "--deny", "read(priv/**)"), api=api
        )

    assert run.code in (0, 3), run.stderr
    assert CANARY not in str(api.requests[-1].body["messages"])


def test_secrets_of_skills_are_hidden_from_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threat 4: commands may read skills since they are to run their scripts."""
    with world("bwrap") as place:
        monkeypatch.chdir(place.root)
        config = place.home / ".config"
        skill = config / "agent-cli" / "skills" / "pdf"
        secret(skill / ".env")
        (skill / "run.sh").write_text("echo a skill\n")
        command = f"cat {skill}/.env; sh {skill}/run.sh"

        with serve_in_thread(reply(tool_use("bash", {"command": command})), reply("Done.")) as api:
            run = agent_cli(
                *("-p", "go", "--permission-mode", "yolo"),
                api=api,
                HOME=str(place.home),
                XDG_CONFIG_HOME=str(config),
            )

        assert run.code == 0, run.stderr
        result = str(api.requests[-1].body["messages"])
        assert "a skill" in result
        assert CANARY not in result


def test_edit_deny_rule_keeps_commands_from_changing_the_file() -> None:
    with world("bwrap", rules=denied("edit(locked.txt)")) as place:
        for command in ("echo x >> locked.txt", "rm -f locked.txt", "mv new locked.txt"):
            (place.root / "locked.txt").write_text("mine")
            (place.root / "new").write_text("theirs")

            place.run(command)

            assert (place.root / "locked.txt").read_text() == "mine", command


def test_new_file_that_matches_an_edit_deny_rule_is_moved_away() -> None:
    with world("bwrap", rules=denied("edit(*.lock)")) as place:
        place.run("mkdir sub; echo x > sub/new.lock; echo y > sub/other")

        assert [path.name for path in (place.root / "sub").iterdir()] == ["other"]
        [sentence] = place.put_back
        assert "new.lock" in sentence


def test_secrets_in_generated_folders_are_hidden() -> None:
    """Threat 4: a build copies them there."""
    folders = ("dist", "vendor", "node_modules/x", "venv/lib", "target", ".git")
    with world("bwrap") as place:
        for folder in folders:
            secret(place.root / folder / ".env")
            (place.root / folder / "k.pem").write_text(f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n")
            (place.root / folder / "ca.pem").write_text(
                f"-----BEGIN CERTIFICATE-----\nof {folder}\n"
            )

        output = place.output(
            "; ".join(f"grep -r CANARY {each}; cat {each}/.env {each}/*.pem" for each in folders)
        )

        assert CANARY not in output
        missing = [each for each in folders if f"of {each}\n" not in output]
        assert missing == [], "programs need the certificates they bring"


def test_secret_moved_by_a_command_stays_hidden() -> None:
    """Threat 4: inside the sandbox the mask moves too; the next command gets new masks."""
    with world("bwrap", rules=denied("read(priv/**)")) as place:
        secret(place.root / "config" / "prod" / "k.pem")
        secret(place.root / "priv" / "a.txt")
        (place.root / "dist").mkdir()

        output = place.output(
            "mv config dist/c && cat dist/c/prod/k.pem; mv priv pub; cat pub/a.txt"
        )
        output += place.output("cat dist/c/prod/k.pem pub/a.txt")
        output += place.output("mv pub pub2; mv dist d2; cat pub2/a.txt")
        output += place.output("cat pub2/a.txt d2/c/prod/k.pem")

        assert CANARY not in output
        assert (place.root / "d2" / "c" / "prod" / "k.pem").read_text() == f"{CANARY}\n"


def test_hard_link_to_a_secret_is_hidden_from_commands() -> None:
    """Threats 2 and 4: of one in the workspace, of one in a rule, of one in the home directory."""
    with world("bwrap", rules=denied("read(secret.txt)")) as place:
        root = place.root
        for number, path in enumerate(
            (root / ".env", secret(root / "secret.txt"), place.home / ".ssh" / "id_ed25519")
        ):
            (root / f"notes{number}.txt").hardlink_to(path)

        output = place.output("cat notes0.txt notes1.txt notes2.txt")

        assert CANARY not in output
        assert output.count("Permission denied") == 3


def test_hard_link_made_beside_a_command_is_hidden_from_the_next(tmp_path: Path) -> None:
    """Threat 4: the search after a command, or a decision about one, sees the new link first."""
    root = tmp_path / "ws"
    key = secret(root / ".env")
    (root / "first.txt").hardlink_to(key)
    policy = SandboxPolicy((root,), home=tmp_path / "home", own=(), is_secret=is_secret)
    _, before = policy.survey()

    (root / "second.txt").hardlink_to(key)
    policy.acting(before)
    after_command = policy.rules()
    (root / "third.txt").hardlink_to(key)
    policy.is_complete()
    after_decision = policy.rules()

    assert root / "second.txt" in after_command.hidden
    assert root / "third.txt" in after_decision.hidden


@each_row("mode", ["000", "444"])
def test_folder_closed_to_us_is_hidden_from_commands(mode: str) -> None:
    """Threat 4: a command could remove our permission, and restore it in the next call."""
    if os.geteuid() == 0:
        return  # Root can read everything.
    with world("bwrap") as place:
        secret(place.root / "config" / ".env")
        place.run(f"chmod {mode} config")

        output = place.output("chmod 700 config; cat config/.env")
        (place.root / "config").chmod(0o700)

        assert CANARY not in output


def test_known_secret_stays_hidden_when_the_search_limit_is_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Threat 4: a secret found once stays hidden even if the search stops before reaching it."""
    with world("bwrap") as place:
        monkeypatch.setattr(place.sandbox._policy._inside[0], "_directories_max", 50)
        secret(place.root / "config" / "prod" / ".env")
        for folder in (place.root / ".git").rglob("*"):
            if folder.name in {"info", "refs", "branches"}:
                (folder / "x").mkdir(exist_ok=True)

        place.run("for i in $(seq 100); do mkdir a$i; done")

        assert CANARY not in place.output("cat config/prod/.env")


async def test_tree_too_large_to_search_is_reported_as_incompletely_masked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Threat 4: folders are then searched before a command may read them unasked."""
    policy = pytest.importorskip("agent_cli.sandbox").SandboxPolicy
    root = Path.cwd() / "ws"
    for number in range(10):
        (root / str(number)).mkdir(parents=True)
    made = policy((root,), home=Path.cwd(), own=(), is_secret=is_secret)
    assert made.is_complete()

    monkeypatch.setattr(made._inside[0], "_directories_max", 10)

    assert not made.is_complete()


def test_secret_index_reports_whether_its_search_was_complete(tmp_path: Path) -> None:
    for number in range(3):
        secret(tmp_path / str(number) / ".env")

    few = SecretIndex(tmp_path, PathMarks(is_secret), directories_max=3).contents()
    all_of_it = SecretIndex(tmp_path, PathMarks(is_secret), directories_max=4).contents()
    shallow = SecretIndex(tmp_path, PathMarks(is_secret), depth_max=1).contents()

    assert (few.is_complete, len(few.secrets)) == (False, 2)
    assert (all_of_it.is_complete, len(all_of_it.secrets)) == (True, 3)
    assert (shallow.is_complete, shallow.secrets) == (True, [])


def test_moved_secret_is_followed_but_a_reused_inode_number_is_not(tmp_path: Path) -> None:
    """The inode number of a deleted file is soon reused."""
    names = OtherNames([tmp_path])
    moved, deleted = secret(tmp_path / "a"), secret(tmp_path / "b")
    names.remember([moved, deleted], is_changed=True)

    (tmp_path / "sub").mkdir()
    moved.rename(tmp_path / "sub" / "a")
    number = deleted.stat().st_ino
    deleted.unlink()
    for each in range(50):
        (tmp_path / f"other{each}").write_text("something else")
        if (tmp_path / f"other{each}").stat().st_ino == number:
            break
    names.follow()

    assert names.known() == [tmp_path / "sub" / "a"]


SETTINGS = (
    (".npmrc", f"//registry.npmjs.org/:_authToken={CANARY}\n", True),
    (".npmrc", f"_auth = {CANARY}\n", True),
    (".npmrc", "//registry.npmjs.org/:_authToken=${NPM_TOKEN}\nsave-exact=true\n", False),
    (".yarnrc.yml", f'npmAuthToken: "{CANARY}"\n', True),
    (".yarnrc.yml", "nodeLinker: node-modules\n", False),
    ("pip.conf", f"[global]\nindex-url = https://user:{CANARY}@example.com/simple\n", True),
    ("pip.conf", "[global]\nindex-url = https://example.com/simple\n", False),
)


def test_a_package_managers_settings_are_hidden_if_they_hold_a_token() -> None:
    """Threat 4: in most projects they hold no token, and the package manager needs them."""
    with world("bwrap") as place:
        for number, (name, text, holds) in enumerate(SETTINGS):
            file = f"{number}/{name}"  # a path that held a secret stays hidden
            (place.root / file).parent.mkdir()
            (place.root / file).write_text(text)

            assert (place.output(f"cat {file}") == text) is not holds, text
            with nullcontext() if not holds else pytest.raises(ToolError, match="may hold secrets"):
                Workspace(place.root).resolve(file)


@pytest.mark.parametrize(("before", "holds"), [(99_999, True), (100_000, False)])
def test_the_first_100_kilobytes_of_a_package_managers_settings_are_searched(
    tmp_path: Path, before: int, *, holds: bool
) -> None:
    """Threat 4: far more than such a file has; a larger one is none of theirs."""
    token = f"_auth={CANARY[0]}"
    (tmp_path / ".npmrc").write_text("\n" * (before + 1 - len(token)) + token)

    assert holds_token(tmp_path / ".npmrc") is holds


@pytest.mark.parametrize(("entries", "is_complete"), [(12, True), (13, False)])
def test_folders_with_too_many_files_for_other_names_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: int, is_complete: bool
) -> None:
    """Threat 4: before the first command, for good: a moved secret that is not found is lost."""
    monkeypatch.setattr(hidden_paths, "_ENTRIES_MAX", 13)
    # The folder of a run of all tests holds thousands of folders, if it is not below /tmp.
    monkeypatch.setattr(hidden_paths, "HIDDEN_MAX", 1_000_000)
    root = tmp_path / "ws"
    (root / "notes.txt").hardlink_to(secret(root / ".env"))
    (root / "deep").mkdir()
    for number in range(entries - 3):
        (root / str(number)).touch()
    (root / "deep" / "x").touch()
    policy = SandboxPolicy((root,), home=tmp_path / "home", own=(), is_secret=is_secret)

    first, before = policy.is_complete(), policy.survey()[1]
    for number in range(entries - 3):
        (root / str(number)).unlink()
    policy.acting(before)

    assert (first, policy.is_complete()) == (is_complete, is_complete)
    assert (policy.read_only_rules() is not None) is is_complete


def test_warning_that_the_workspace_is_too_large_comes_once() -> None:
    """Threat 4: whoever lets commands run unasked must know it."""
    warned: list[str] = []
    with world("bwrap") as place:
        own = place.base / "state" / "other"
        policy = SandboxPolicy((place.root,), home=place.home, own=(own,), is_secret=is_secret)
        sandbox = Sandbox(
            lambda: policy,
            mode="auto",
            state_dir=own,
            find=lambda *folders: only("bwrap", *folders),
            warn=warned.append,
        )
        before = asyncio.run(sandbox.outlook())
        policy._inside[0]._directories_max = 1
        (place.root / "new").mkdir()

        reports = [asyncio.run(sandbox.outlook()) for _ in range(2)]
        sandbox.close()

    assert before.hides_secrets
    assert [each.hides_secrets for each in reports] == [False, False]
    [sentence] = warned
    assert sentence.startswith("sandbox: the workspace is too large to find every secret in it")
