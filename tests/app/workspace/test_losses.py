"""The question before a command deletes more than its user expects."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_cli.app.person import ModelsPerson
from agent_cli.app.workspace.losses import LossDecider, OthersWorkGuard, left_out, unkept
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.permission_modes import Mode
from agent_cli.contracts.wording import one_line
from agent_cli.policies.permission_rules import RuleSet, parse_rule
from agent_cli.policies.permissions import Permissions
from agent_cli.policies.shell import Reach
from agent_cli.settings.schema import UndoSettings
from agent_cli.system.launching import NamedFiles
from agent_cli.undo import stopped_calls
from agent_cli.undo.logs import Loss
from agent_cli_tools import Workspace
from agent_cli_tools.bash import BashParameters, bash_tool
from tests.app.test_person import Dialogs
from tests.tables import each_row

COMMAND = "make clean"


def loss(root: Path, *, files: int = 3, why_unkept: str = "") -> Loss:
    paths = [str(root / name) for name in ("held", "data/a.csv", "b.csv")][:files]
    return Loss(files, 4096 * files, paths, str(root / "next"), 12_300_000, why_unkept)


def decider(
    root: Path, dialogs: Dialogs | None, rule: str = "", mode: Mode = "ask"
) -> tuple[LossDecider, ModelsPerson]:
    rules = RuleSet(allow=(parse_rule(rule, "test"),)) if rule else RuleSet()
    permissions = Permissions(Reach(root=root), rules=rules, mode=mode)
    person = ModelsPerson(lambda: permissions)
    person.dialogs = dialogs
    return LossDecider(person, lambda: permissions, root), person


def in_git(root: Path, then: str = ":") -> None:
    (root / "held").touch()
    script = f"git init -q . && git add held && {then}"
    subprocess.run(["sh", "-c", script], cwd=root, check=True)


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
        "The command: `make clean` has deleted or overwritten 3 files (2 not in git: data/a.csv,"
        " b.csv) and wants to go on with next (12.3 MB). Everything is kept so far: /undo brings it"
        " back."
    ]


@pytest.mark.parametrize(("answer", "sent"), [("keep b.csv!", ["keep b.csv!"]), ("Stop", [])])
async def test_words_in_place_of_an_answer_go_to_the_model(
    tmp_path: Path, answer: str, sent: list[str]
) -> None:
    """They refuse as "Stop" does; the model read nothing of them."""
    read: list[str] = []
    one, person = decider(tmp_path, Dialogs(answer))
    person.steer = read.append

    assert not await one.decide(COMMAND, loss(tmp_path))

    assert read == sent


async def test_file_that_is_not_kept_is_said_so(tmp_path: Path) -> None:
    dialogs = Dialogs("Go on")
    one, _person = decider(tmp_path, dialogs)

    await one.decide(COMMAND, loss(tmp_path, files=0, why_unkept="the disk is nearly full"))

    assert dialogs.asked == [
        "The command: `make clean` wants to go on with next (12.3 MB). That file cannot be brought"
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
    assert [*person.refused_commands] == ([] if goes_on else [COMMAND])


def others_work(
    root: Path, dialogs: Dialogs | None, rule: str = "", *, others: Sequence[str] = ("held", "b.c")
) -> tuple[OthersWorkGuard, ModelsPerson]:
    _decider, person = decider(root, dialogs, rule)
    rules = RuleSet(allow=(parse_rule(rule, "test"),)) if rule else RuleSet()
    permissions = Permissions(Reach(root=root), rules=rules)
    paths = [root / name for name in others]
    return OthersWorkGuard(person, lambda: permissions, root, lambda: {"0a1b2c3d4e": paths}), person


@pytest.mark.parametrize(
    "command",
    [
        *("git add -A", "git add .", "git -C . commit -qam x", "git stash", "git reset --hard"),
        *("git checkout main", "make && git switch -c new", "bash -c 'git stash -u'"),
        *("git commit -m 'fix all'", "git commit --amend", "git commit -i -m x mine"),
        *("git add mine; git commit --author 'a <b>' -qm x", 'git commit -m "$(cat note)"'),
        *(". <(printf 'git reset --hard\\n')", "source <(echo git stash)", "git $what"),
        *("eval \"$(printf 'git add -A')\"", "echo 'git add -A' | sh", "sh <<< 'git stash'"),
        *("bash <(echo git clean -fd)", "sh <<E\ngit stash\nE", "x='git stash'; $x"),
    ],
)
async def test_command_that_takes_the_work_of_another_session_is_asked_about(
    tmp_path: Path, command: str
) -> None:
    in_git(tmp_path)
    dialogs = Dialogs("Leave it")
    guard, _person = others_work(tmp_path, dialogs)

    with pytest.raises(ToolError, match="not committed of another session 0a1b2c3d: held"):
        await guard(command)

    assert dialogs.asked == [
        f"The command: `{one_line(command)}` also takes what is not committed of another session"
        " 0a1b2c3d: held. That session is open in this folder."
    ]


@pytest.mark.parametrize(("files", "named"), [("abc", "a, b, c"), ("abcd", "a, b, c, …")])
async def test_questions_name_three_files(tmp_path: Path, files: str, named: str) -> None:
    """Enough to see whose they are; a list of hundreds would hide the question."""
    in_git(tmp_path, f"touch {' '.join(files)}")
    dialogs = Dialogs("Stop")
    guard, _person = others_work(tmp_path, dialogs, others=files)
    one, _person = decider(tmp_path, dialogs)
    paths = [str(tmp_path / name) for name in files]

    with pytest.raises(ToolError):
        await guard("git add -A")
    await one.decide(COMMAND, Loss(len(files), 1, paths, str(tmp_path / "next"), 1, ""))

    assert f"another session 0a1b2c3d: {named}." in dialogs.asked[0]
    assert f"({len(files)} not in git: {named})" in dialogs.asked[1]


@pytest.mark.parametrize(
    "command",
    [
        *("git add held", "git commit -m 'fix all' mine", "git stash list", "git status"),
        *("git push", "git log --all", "git diff -a", "echo digit -A", "make git"),
        *("git commit -m x -- mine", "git add held && git commit -m x", "echo git add -A"),
        *("git commit --pathspec-from-file=list", 'eval "$(ssh-agent)"; git add held'),
    ],
)
async def test_command_that_takes_only_what_it_names_is_not_asked_about(
    tmp_path: Path, command: str
) -> None:
    in_git(tmp_path)
    guard, _person = others_work(tmp_path, Dialogs(None))

    await guard(command)


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        *(("git add src", 1), ("git add ./src/ held", 1), ("git rm -rq --cached src", 1)),
        *(("git mv src lib", 1), ("git commit -m x src", 1), ("git add src/..", 1)),
        *(("git add docs", 0), ("git add src/mine", 0), ("git add src/theirs", 0)),
    ],
)
async def test_folder_in_which_another_session_works_is_asked_about(
    tmp_path: Path, command: str, asked: int
) -> None:
    """The advice is to name one's own files, and a folder is named as easily."""
    in_git(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/theirs").touch()
    dialogs = Dialogs("Run it")
    guard, _person = others_work(tmp_path, dialogs, others=("src/theirs",))

    await guard(command)

    assert len(dialogs.asked) == asked


async def test_commit_takes_only_what_another_session_has_staged(tmp_path: Path) -> None:
    """What is changed and not staged stays, as with `git add` of a file of one's own."""
    in_git(tmp_path)
    (tmp_path / "b.c").touch()
    guard, _person = others_work(tmp_path, Dialogs(None), others=("b.c",))

    await guard("git commit -m x")


async def test_committed_work_of_another_session_is_not_at_stake(tmp_path: Path) -> None:
    in_git(tmp_path, "git -c user.name=a -c user.email=b commit -qm x")
    guard, _person = others_work(tmp_path, Dialogs(None))

    await guard("git stash")


async def test_question_about_the_work_of_others_starts_no_program_of_the_repository(
    tmp_path: Path,
) -> None:
    """Threat 11: `git status` runs the filters of a repository, and ours is in no sandbox."""
    root, ran = tmp_path / "repository", tmp_path / "ran"
    root.mkdir()
    (root / ".gitattributes").write_text("* filter=x\n")
    in_git(root, f"git config filter.x.clean 'touch {ran}; cat'")
    dialogs = Dialogs("Leave it")
    guard, _person = others_work(root, dialogs)

    with pytest.raises(ToolError, match="not committed of another session"):
        await guard("git add -A")

    assert not ran.exists()


@pytest.mark.parametrize(("answer", "questions"), [("Run it", 2), ("Always", 1)])
async def test_answer_about_the_work_of_others_holds_once_or_for_the_session(
    tmp_path: Path, answer: str, questions: int
) -> None:
    in_git(tmp_path)
    dialogs = Dialogs(answer)
    guard, _person = others_work(tmp_path, dialogs)

    await guard("git add -A")
    await guard("git add .")

    assert len(dialogs.asked) == questions


async def test_nobody_to_ask_protects_the_work_of_others_unless_a_rule_allows(
    tmp_path: Path,
) -> None:
    in_git(tmp_path)
    guard, person = others_work(tmp_path, None)
    allowed, _person = others_work(tmp_path, None, "bash(git add *)")

    await allowed("git add -A")
    with pytest.raises(ToolError, match="Name your own files"):
        await guard("git add -A")

    assert person.refused_commands == {"git add -A": ["bash(git add -A)"]}


@each_row(
    ("command", "entry"),
    [
        *(("make -j4", "make *"), ("make && npm run build", "make *"), ("cargo test", "")),
        *(("make; rm -rf data", ""), ("echo 'make", ""), ("npm run buildx", "")),
    ],
)
def test_command_is_left_out_of_the_undo_only_if_all_that_it_runs_is_named(
    command: str, entry: str
) -> None:
    """Else `make; rm -rf data` would lose the data."""
    assert left_out(["make *", "npm run build"], command) == entry


LARGE = "it is larger than undo.max_mb"


def test_question_says_why_the_undo_would_not_cover_a_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the setting, or because the machine cannot; nothing is said where the undo is off."""
    limits = UndoSettings(commands="auto", leave_out=("make *",))

    def named(command: str, why: str) -> NamedFiles | None:
        unkept = {path: LARGE for path in command.split()[1:] if path != "a"}
        return NamedFiles(why=why, unkept=unkept) if command.startswith("rm") else None

    def told(command: str, limits: UndoSettings = limits) -> str:
        return unkept(limits, lambda: None, named, command)

    assert told("make all") == "/undo does not cover it: undo.leave_out has make *"
    old = "the kernel is older than 5.0"
    monkeypatch.setattr(stopped_calls, "why_missing", lambda: old)
    assert told("ls") == f"/undo does not cover it: {old}"
    assert told("rm a") == f"/undo covers only the files that it names: {old}"
    but = "/undo covers only the files that it names, but not"
    assert told("rm a big") == f"{but} big ({LARGE}): {old}"
    assert told("rm b c d") == f"{but} b ({LARGE}), c ({LARGE}), d ({LARGE}): {old}"
    assert told("rm b c d e f") == f"{but} b ({LARGE}), c ({LARGE}), d ({LARGE}) and 2 more: {old}"
    assert told("make all", UndoSettings(commands="off")) == ""


async def test_why_the_undo_would_not_cover_a_command_stands_in_its_question(
    tmp_path: Path,
) -> None:
    permissions = Permissions(Reach(root=tmp_path), unkept=lambda command: f"not {command}")
    call = ToolCall("1", "bash", {"command": "make"})

    await permissions(
        call, bash_tool(Workspace(tmp_path)), BashParameters.model_validate(call.input)
    )

    assert "not make" in permissions.asked_about(call).facts
