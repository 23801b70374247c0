"""Options and commands of other agents: those that mean the same work, the others name ours."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from agent_cli.app.arguments import Arguments, parse_arguments
from agent_cli.app.option_table import COMMANDS, OPTIONS, SHORT_OPTIONS, Takes
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.foreign_names import (
    FOREIGN_COMMANDS,
    FOREIGN_OPTIONS,
    FOREIGN_SLASH_COMMANDS,
    Foreign,
)
from tests.tables import each_row

PAGE: Final = Path(__file__).parents[2] / "docs" / "coming-from.md"

OF_PROMPTS = ("--print", "--prompt-file")
PROMPTS = sorted(name for name, each in FOREIGN_OPTIONS.items() if each.ours in OF_PROMPTS)
ALIASES = sorted(
    name for name, each in FOREIGN_OPTIONS.items() if each.ours and name not in PROMPTS
)
OTHERS = sorted(set(FOREIGN_OPTIONS) - {*ALIASES, *PROMPTS})


@each_row("name", ALIASES)
def test_option_that_means_the_same_works(name: str) -> None:
    """As if ours had been typed, also behind a bare `-p`."""
    ours = FOREIGN_OPTIONS[name].ours.split()
    takes_value = OPTIONS[ours[0]].takes is not Takes.NOTHING and len(ours) == 1
    value = ["1"] if takes_value else []

    meant = parse_arguments(["-p", *ours, *value, "go on"])

    assert meant.print_prompt == "go on" or meant.command == "version"
    assert parse_arguments(["-p", name, *value, "go on"]) == meant
    assert parse_arguments(["-p", "go on", "=".join([name, *value])]) == parse_arguments(
        ["-p", "go on", *ours, *value]
    )


@pytest.mark.parametrize("name", PROMPTS)
def test_option_with_a_prompt_begins_one_run(name: str) -> None:
    ours = FOREIGN_OPTIONS[name].ours
    meant = parse_arguments([ours, "go on"])

    assert meant.command == "print"
    assert parse_arguments([name, "go on"]) == parse_arguments([f"{name}=go on"]) == meant


@each_row("name", OTHERS)
def test_option_without_a_counterpart_names_ours(name: str) -> None:
    foreign = FOREIGN_OPTIONS[name]

    for words in ([name], [f"{name}=x"], ["-p", name, "x"]):
        with pytest.raises(UsageError) as raised:
            parse_arguments(words)
        assert str(raised.value) == f"{name} is an option of {foreign.agents}: {foreign.instead}"


@each_row(
    ("words", "setting"),
    [
        (["-c", 'model="o3"'], ("model", "o3")),
        (["-cmodel=o3"], ("model", "o3")),
        (["-c=model='o3'"], ("model", "o3")),
        (["exec", "-c", "a.b=1", "x"], ("a.b", "1")),
        (["--config", "a.b=c=d"], ("a.b", "c=d")),
    ],
)
def test_setting_of_codex_behind_c_is_not_sent_as_a_prompt(
    words: list[str], setting: tuple[str, str]
) -> None:
    """-c is --continue here; its prompt may have a "=" behind a space, or after --."""
    parsed = parse_arguments(words)

    assert [each[:2] for each in parsed.overrides] == [setting]
    assert not parsed.continue_session
    assert parsed.print_prompt == ("x" if "x" in words else None)

    for prompt in (["why is a = b?"], ["--", "a=b"]):
        parsed = parse_arguments(["-c", *prompt])
        assert (parsed.continue_session, parsed.prompt) == (True, prompt[-1])


def test_options_of_ours_are_not_shadowed() -> None:
    assert FOREIGN_OPTIONS.keys().isdisjoint({*OPTIONS, *SHORT_OPTIONS})
    assert FOREIGN_COMMANDS.keys().isdisjoint(key.split()[0] for key in COMMANDS)


@pytest.mark.parametrize(
    ("words", "rules"),
    [
        (["Bash(git log:*),Edit Read"], ["Bash(git log:*)", "Edit", "Read"]),
        (["Bash(npm run test, lint)"], ["Bash(npm run test, lint)"]),
        (["Read", "mcp__docs__*", "Bash(ls *)"], ["Read", "mcp__docs__*", "Bash(ls *)"]),
    ],
)
def test_rules_come_in_one_text_or_word_by_word(words: list[str], rules: list[str]) -> None:
    """The word behind them that is no rule is the prompt."""
    parsed = parse_arguments(["-p", "--allowedTools", *words, "Fix it"])

    assert [override.value for override in parsed.overrides] == [(rule,) for rule in rules]
    assert parsed.print_prompt == "Fix it"


@each_row(
    ("theirs", "ours"),
    [
        ("acceptEdits", "auto-edit"),
        ("bypassPermissions", "yolo"),
        ("default", "ask"),
        ("auto_edit", "auto-edit"),
        ("plan", "plan"),
        ("nonsense", "nonsense"),
    ],
)
def test_modes_of_other_agents_are_understood(theirs: str, ours: str) -> None:
    parsed = parse_arguments(["--permission-mode", theirs])

    assert [override.value for override in parsed.overrides] == [ours]


@each_row(
    ("words", "expected"),
    [
        (["exec", "fix it"], Arguments("print", print_prompt="fix it")),
        (["exec"], Arguments("print", print_prompt="-")),
        (
            ["exec", "--json", "fix it"],
            Arguments("print", print_prompt="fix it", output_format="stream-json"),
        ),
        (["resume"], Arguments(resume="")),
        (["resume", "12", "go on"], Arguments(resume="12", prompt="go on")),
        (["resume", "--last"], Arguments(continue_session=True)),
        (["exec", "resume", "12", "go"], Arguments("print", print_prompt="go", resume="12")),
        (["exec", "resume", "12"], Arguments("print", print_prompt="-", resume="12")),
        (
            ["exec", "resume", "--last", "go"],
            Arguments("print", print_prompt="go", continue_session=True),
        ),
        (["exec", "resume"], Arguments("print", print_prompt="-", resume="")),
        (["plugin", "list"], Arguments("plugins", ("list",))),
        (["-p", "--verbose", "review"], Arguments("print", print_prompt="review", verbose=True)),
        (["--", "login"], Arguments(prompt="login")),
    ],
)
def test_command_that_means_the_same_works(words: list[str], expected: Arguments) -> None:
    assert parse_arguments(words) == expected


@each_row("name", [name for name, each in FOREIGN_COMMANDS.items() if each.instead])
def test_command_without_a_counterpart_names_ours(name: str) -> None:
    """It is not sent to the model as a prompt."""
    foreign = FOREIGN_COMMANDS[name]

    with pytest.raises(UsageError) as raised:
        parse_arguments([name])

    assert str(raised.value) == f"{name} is a command of {foreign.agents}: {foreign.instead}"


@pytest.mark.parametrize("words", [["--yolo=1"], ["--allowedTools"], ["--allowedTools", "-c"]])
def test_wrong_values_are_reported(words: list[str]) -> None:
    with pytest.raises(UsageError, match=r"takes no value|needs a value"):
        parse_arguments(words)


@pytest.mark.parametrize(
    ("heading", "names", "before"),
    [
        ("Options", FOREIGN_OPTIONS, ""),
        ("Commands", FOREIGN_COMMANDS, ""),
        ("Slash commands", FOREIGN_SLASH_COMMANDS, "/"),
    ],
)
def test_docs_have_the_table_of_the_code(
    heading: str, names: Mapping[str, Foreign], before: str
) -> None:
    """Written anew from the code, the page would be the same."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")
    rows = [line for line in section[0].splitlines() if line.startswith("| `")]

    assert rows == [
        f"| `{before}{name}` | {each.agents} |"
        f" {f'`{before}{each.ours}`' if each.ours else each.instead} |"
        for name, each in names.items()
    ]
