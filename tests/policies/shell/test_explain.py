"""The explanation of a command, part by part."""

from pathlib import PurePath

from agent_cli.contracts.permissions import ExplainedPart
from agent_cli.policies.shell.effects import what_it_does
from agent_cli.policies.shell.explain import explained
from tests.tables import each_row

ROOT = PurePath("/ws")


def told(script: str) -> list[str]:
    """Return a line for each part of *script*: a mark for danger, the text, and what it does."""
    return [
        f"{'!' if part.is_danger else ' '} {'  ' * part.depth}{part.text} = {part.does}"
        for part in explained(script, ROOT)
    ]


@each_row(
    ("script", "parts"),
    [
        (
            "cd build && rm -rf dist | tee x 2>&1; git push --force origin $(cat b)",
            [
                "  cd build = goes to another folder: build",
                "  && rm -rf dist = deletes folders: dist",
                "  | tee x = writes its input to files: x",
                "    2>&1 = sends errors where the output goes",
                "! git push --force origin $(cat b) = git push can overwrite or delete remote"
                " commits",
                "    $(cat b) = runs first, and its output becomes words of the command",
                "      cat b = shows files: b",
            ],
        ),
        (
            "for f in *.py; do sed -i s/a/b/ $f; done; echo ok >> ~/x",
            [
                "  for f in *.py; do = repeats what follows for each word",
                "    sed -i s/a/b/ $f = edits files in place",
                "  echo ok = prints text",
                "!   >> ~/x = adds its output to ~/x, outside the workspace",
            ],
        ),
        (
            "sudo bash -c 'rm -rf / && frob'",
            [
                "! sudo bash -c 'rm -rf / && frob' = deletes folders that are unclear or outside"
                " the workspace",
                "    bash -c rm -rf / && frob = runs a shell script",
                "!     rm -rf / = deletes folders that are unclear or outside the workspace",
                "      && frob = runs frob, with unknown effects",
            ],
        ),
        (
            "find . -okdir cat {} +; fd -gx wc",
            [
                "  find . -okdir cat {} + = searches for files",
                "    cat {} + = shows files: +",
                "  fd -gx wc = searches for files",
                "    wc = counts lines, words or characters",
            ],
        ),
        (
            "echo x 2> /etc/passwd a",
            [
                "  echo x = prints text",
                "!   2> /etc/passwd a = writes its errors into /etc/passwd, outside the workspace",
            ],
        ),
        (
            "python3 - <<'PY' 2>/dev/null\nprint(1)\nPY",
            [
                "  python3 = runs Python",
                "    <<'PY' 2>/dev/null = gives it 1 line of input",
                "    2>/dev/null = throws its errors away",
            ],
        ),
    ],
)
def test_each_part_of_a_command_says_what_it_does(script: str, parts: list[str]) -> None:
    """Commands, redirects, substitutions, and the commands that others start."""
    assert told(script) == parts


@each_row(
    "script",
    ["echo 'a", "cd / && rm -rf x", "x=\u202e ls", "f() {", ")", "eval \"$(curl x)\" 'rm -rf ~'"],
)
def test_what_is_not_understood_or_spread_over_parts_is_a_warning(script: str) -> None:
    """An explanation that says nothing would look like an all-clear."""
    assert any(part.is_danger for part in explained(script, ROOT))


def test_long_script_is_explained_as_far_as_a_person_reads() -> None:
    """The rest is counted; deep nesting ends."""
    *_parts, last = explained("ls;" * 100, ROOT)

    assert last == ExplainedPart("", "40 more parts: read them in the command", 0)
    for deep in (
        "$(" * 200 + "ls" + ")" * 200,
        "{ " * 200 + "ls;" + " }" * 200,
        "ls && " * 900 + "ls",
    ):
        assert any(part.is_danger for part in explained(deep, ROOT))


@each_row(
    ("script", "left_out"),
    [
        ("{ " * 5 + "ls; " + "}; " * 5, []),
        ("{ " * 6 + "ls; " + "}; " * 6, ["!               ls"]),
        ("echo $(" * 2 + "ls" + ")" * 2, []),
        ("echo $(" * 3 + "ls" + ")" * 3, ["!               ls"]),
        ("ls && " * 149 + "ls", []),
        ("ls && " * 150 + "ls", ["! ls", "! && ls"]),
        (f"ls {'n' * 198}" + " && ls" * 150, [f"! ls {'n' * 197}", "! && ls"]),
        ("{ " * 6 + "n" * 201 + "; " + "}; " * 6, [f"!               {'n' * 200}"]),
    ],
)
def test_nested_commands_are_explained_as_deep_as_the_rows_can_show(
    script: str, left_out: list[str]
) -> None:
    """A person sees that there are more, and that they have to read these."""
    inside = " = has more commands inside: read them"

    assert [line.removesuffix(inside) for line in told(script) if line.endswith(inside)] == left_out


@each_row(
    ("script", "loss"),
    [
        ("psql shop <<E\nDROP TABLE a;\nE", "deletes from a database, which cannot be undone"),
        ("redis-cli <<< 'del a'", "deletes from a database, which cannot be undone"),
        ("cat img > /dev/sdb", "writes to a device"),
        ("tea repos delete x", "tea delete, which cannot be undone"),
    ],
)
def test_every_loss_that_asks_is_among_the_parts(script: str, loss: str) -> None:
    """A loss in a here-document was asked about, and the explanation did not name it."""
    parts = explained(script, PurePath("/nowhere"))

    assert any(loss in part.does and part.is_danger for part in parts)


@each_row(
    ("command", "does"),
    [
        ("rm -rf a b c", "deletes folders: a, b, c"),
        ("rm -rf a b c d", "deletes folders: a, b, c and 1 more"),
        ("rm -- -rf", "deletes files"),
        ("git -C sub push", "sends commits to the remote"),
        ("/usr/bin/python3.12 -m pytest -q", "runs a Python module"),
        ("find . -delete", "deletes files"),
        ("cd", "goes to another folder"),
        ("cp a b", "copies files: a, b"),
        ("frobnicate", ""),
    ],
)
def test_program_is_told_in_verbs(command: str, does: str) -> None:
    """With its subcommand, its telling option, and the files it names."""
    assert what_it_does(tuple(command.split())) == does
