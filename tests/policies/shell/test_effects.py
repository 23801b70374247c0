"""The reason of a question says what the command does; which commands hide their errors."""

import os
from pathlib import Path

import pytest

from agent_cli.policies.shell import CommandRules, Reach, judge
from agent_cli.policies.shell.effect_table import effect_table
from agent_cli.policies.shell.effects import effects, hides_errors
from tests.tables import each_row


def _reason(script: str, root: Path) -> str:
    reach = Reach(root=root.resolve(), search_path=os.defpath, home="/home/somebody")
    return judge(script, CommandRules(), reach).reason


@each_row(
    ("script", "reason"),
    [
        ("find . -name '*.pyc' -delete", "deletes files"),
        ("find . -exec sed -ni.bak s/a/b/ {} +", "edits files in place"),
        ("sed --in-place=.bak s/a/b/ x.py", "edits files in place"),
        ("docker compose -f x.yml up -d", "starts containers"),
        ("docker ps", "looks at containers"),
        ("echo hi > out.txt", "writes out.txt"),
        (
            "echo x > /etc/passwd a",
            "runs a, with unknown effects; writes /etc/passwd, outside the workspace",
        ),
        ("cat > 1", "writes 1"),
        ("cat a >> ../x.log", "writes ../x.log, outside the workspace"),
        ('echo hi > "$X"', "writes a file whose name is known only when it runs"),
        ("make 2>&1 | tee -a log", "runs the build; writes log"),
        ("cd /tmp && ls", "works in /tmp, outside the workspace"),
        ("cd /tmp && make", "works in /tmp, outside the workspace; runs the build"),
        ("mkdir -p b && cd b && cmake ..", "creates folders; runs the build"),
        ("python3.12 - <<'PY'\nprint(1)\nPY", "runs Python"),
        ("python -m pytest -q", "runs the tests"),
        ("FOO=1 timeout 10 uv run pytest", "runs the tests"),
        ("git commit -m 'push it'", "makes a commit"),
        ("git -C src push", "sends commits to the remote"),
        ("git branch -D x", "deletes a branch, which git cannot undo"),
        ("npm publish", "publishes a package, which cannot be undone"),
        ("tar xzf a.tgz", "unpacks files"),
        ("sudo apt-get install x", "runs with other rights; installs programs"),
        ("bash -c 'rm -r x; curl y | sh'", "deletes folders; uses the network; "),
        ("f() { rm x; }; f", "deletes files"),
        ("x=$(frobnicate y); make", "runs frobnicate, with unknown effects; runs the build"),
        ("while read x; do rm $x; done < list", "deletes everything that a command lists"),
        ("$CMD x", "runs a program whose name is known only when it runs"),
        ("source ./env.sh", "runs the script ./env.sh"),
        ("./run.sh", "runs ./run.sh, which may be any program"),
        ("cat /etc/passwd", "reads /etc/passwd, outside the workspace"),
        ("ls --frobnicate", "ls --frobnicate may do more than read"),
        ("ls $(cat x)", "contains a command substitution: $(cat x)"),
        ("eval " * 1_000 + "ls", "runs commands that are nested too deep"),
    ],
)
def test_reason_of_a_question_says_in_verbs_what_the_command_does(
    script: str, reason: str, tmp_path: Path
) -> None:
    """Not which list of ours it is missing from."""
    assert _reason(script, tmp_path).startswith(reason)


@each_row("wrapper", ["nice", "eval"])
@each_row(("count", "is_found"), [(4, True), (5, False)])
def test_command_behind_four_wrappers_is_still_told(
    wrapper: str, count: int, *, is_found: bool
) -> None:
    """More of them is no way in which anybody writes a command."""
    reach = Reach(root=Path("/ws"), search_path=os.defpath, home="/home/somebody")

    found = effects(f"{wrapper} " * count + "rm -r x", reach)

    assert ("deletes folders" in found) is is_found


@pytest.mark.parametrize(
    ("name", "shown"), [("n" * 60, "n" * 60), ("n" * 61, f"{'n' * 60}…")], ids=["whole", "cut"]
)
def test_long_name_is_cut_in_the_reason_of_a_question(
    name: str, shown: str, tmp_path: Path
) -> None:
    """The question has one row, and the command stands above it whole."""
    assert _reason(f"echo hi > {name}", tmp_path) == f"writes {shown}"
    assert _reason(f"{name} x", tmp_path) == f"runs {shown}, with unknown effects"


@pytest.mark.parametrize(("count", "more"), [(6, ""), (7, "; and 1 more reasons")])
def test_question_names_six_reasons_and_counts_the_others(
    count: int, more: str, tmp_path: Path
) -> None:
    """A person would read no longer list."""
    script = "; ".join(f"frob{number} > /dev/null" for number in range(count))

    named = "; ".join(f"runs frob{number}, with unknown effects" for number in range(6))
    assert _reason(script, tmp_path) == named + more


def test_every_effect_of_the_table_begins_with_a_verb_and_no_call_stands_twice() -> None:
    """A second line for the same call would never be said."""
    table = effect_table()
    assert table
    for name, entries in table.items():
        calls = [(each.subcommand, each.options) for each in entries]
        assert len(calls) == len(set(calls)), name
        assert all(each.says.split()[0].endswith("s") for each in entries), name


@each_row(
    "script",
    [
        "x 2>/dev/null",
        "x 2>>log || true",
        "x &>/dev/null",
        "x >/dev/null 2>&1",
        "x >& log",
        "x 2>&-",
        "x 2>&1 | tail -1",
        "x |& tail -1",
        "y=$(x 2>&1)",
        "cat <(x 2>&1)",
        "x 3>&1 1>&2 2>&3",
        "{ x; y; } 2>/dev/null",
        "for i in 1 2; do x; done 2> log",
        "exec 2>/dev/null; x",
        "(cd a && x 2>/dev/null)",
        "x 2> >(cat > log)",
    ],
)
def test_errors_that_go_elsewhere_are_hidden(script: str) -> None:
    """Threat 25: away, to a file, or to a program that may drop them."""
    assert hides_errors(script)


@each_row(
    "script",
    [
        "x",
        "x || true",
        "x >/dev/null",
        "x 2>&1",
        "x 2>&1 >/dev/null",
        "x >&2",
        "x | y 2>&1",
        "x 2<&0",
    ],
)
def test_errors_that_stay_in_the_output_are_not(script: str) -> None:
    assert not hides_errors(script)
