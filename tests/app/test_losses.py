"""The question before a command deletes more than its user expects."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_cli.app.losses import LossDecider
from agent_cli.app.person import ModelsPerson
from agent_cli.contracts.permission_modes import Mode
from agent_cli.policies.permission_rules import RuleSet, parse_rule
from agent_cli.policies.permissions import Permissions
from agent_cli.policies.shell import Place
from agent_cli.undo.logs import Loss
from tests.app.test_person import Dialogs

COMMAND = "make clean"


def loss(root: Path, *, files: int = 3, why_unkept: str = "") -> Loss:
    paths = [str(root / name) for name in ("held", "data/a.csv", "b.csv")][:files]
    return Loss(files, 4096 * files, paths, str(root / "next"), 12_300_000, why_unkept)


def decider(
    root: Path, dialogs: Dialogs | None, rule: str = "", mode: Mode = "ask"
) -> tuple[LossDecider, ModelsPerson]:
    rules = RuleSet(allow=(parse_rule(rule, "test"),)) if rule else RuleSet()
    permissions = Permissions(Place(root=root), rules=rules, mode=mode)
    person = ModelsPerson(lambda: permissions)
    person.dialogs = dialogs
    return LossDecider(person, lambda: permissions, root), person


def in_git(root: Path) -> None:
    (root / "held").touch()
    subprocess.run(["sh", "-c", "git init -q . && git add held"], cwd=root, check=True)


@pytest.mark.parametrize(("answer", "goes_on"), [("Go on", True), ("Stop", False), (None, False)])
async def test_person_reads_what_happened_and_what_git_does_not_hold(
    tmp_path: Path, answer: str | None, *, goes_on: bool
) -> None:
    """An answer in other words, or none, is no permission."""
    in_git(tmp_path)
    dialogs = Dialogs(answer)
    one, _person = decider(tmp_path, dialogs)

    assert await one.decide(COMMAND, loss(tmp_path)) is goes_on

    assert dialogs.asked == [
        "the command: `make clean` has deleted or overwritten 3 files (2 not in git: data/a.csv,"
        " b.csv) and wants to go on with next (12.3 MB). Everything is kept so far: /undo brings it"
        " back."
    ]


async def test_file_that_is_not_kept_is_said_so(tmp_path: Path) -> None:
    dialogs = Dialogs("Go on")
    one, _person = decider(tmp_path, dialogs)

    await one.decide(COMMAND, loss(tmp_path, files=0, why_unkept="the disk is nearly full"))

    assert dialogs.asked == [
        "the command: `make clean` wants to go on with next (12.3 MB). That file cannot be brought"
        " back: the disk is nearly full."
    ]


async def test_always_is_for_this_command_only(tmp_path: Path) -> None:
    dialogs = Dialogs("Always")
    one, _person = decider(tmp_path, dialogs)

    assert [await one.decide(each, loss(tmp_path)) for each in (COMMAND, COMMAND, "make all")]

    assert len(dialogs.asked) == 2


@pytest.mark.parametrize(
    ("rule", "mode", "goes_on"),
    [("", "auto-edit", False), ("bash(make *)", "ask", True), ("", "yolo", True)],
)
async def test_nobody_to_ask_refuses_unless_a_rule_allows(
    tmp_path: Path, rule: str, mode: Mode, *, goes_on: bool
) -> None:
    """`-p` names the command and ends with 3."""
    one, person = decider(tmp_path, None, rule, mode)

    assert await one.decide(COMMAND, loss(tmp_path)) is goes_on
    assert person.refused_commands == ([] if goes_on else [COMMAND])
