"""Command-line arguments: every option and command, and one sentence for each mistake."""

import difflib
import subprocess
import sys
from pathlib import Path
from typing import ForwardRef

import pytest

from agent_cli.app import option_table
from agent_cli.app.arguments import (
    Arguments,
    SessionFolder,
    help_text,
    parse_arguments,
)
from agent_cli.app.option_table import CHOOSE_SESSION, CommandEntry, OptionEntry
from agent_cli.contracts.errors import SettingsError, UsageError
from agent_cli.settings import Entry, Override
from agent_cli.settings.environment import Environment
from agent_cli.settings.load import load_settings
from tests.tables import each_row

_PARSED = (Arguments, SessionFolder, OptionEntry, CommandEntry, Override, Entry)


def test_no_arguments_start_the_repl() -> None:
    assert parse_arguments([]) == Arguments(command="repl")


def test_every_option_is_parsed() -> None:
    """Options that change settings become overrides that carry the option's name."""
    words = (
        "--output-format stream-json -p hello --settings s.toml --system-prompt one"
        " --append-system-prompt two --add-dir a --add-dir b --replay q --trust"
        " --verbose --resume 12 --model high --effort low --max-tokens 9 --permission-mode plan"
        " --allow x --deny y --allow z --max-rounds 3 --max-cost 0.5 --mcp-config m --no-mcp"
        " --require-tools read --no-session --vi --time-limit 1.5 --max-tokens-total 7"
        " --output-dir o --json-schema j"
    )

    assert parse_arguments(words.split()) == Arguments(
        command="print",
        print_prompt="hello",
        output_format="stream-json",
        time_limit_s=1.5,
        tokens_max=7,
        output_dir=Path("o"),
        json_schema=Path("j"),
        settings_file=Path("s.toml"),
        resume="12",
        system_prompt="one",
        append_system_prompt="two",
        add_dirs=(Path("a"), Path("b")),
        replay=Path("q"),
        trust=True,
        verbose=True,
        overrides=(
            Override("model", "high", "--model"),
            Override("effort", "low", "--effort"),
            Override("max_tokens", "9", "--max-tokens"),
            Override("permissions.mode", "plan", "--permission-mode"),
            Override("permissions.allow", ("x",), "--allow"),
            Override("permissions.deny", ("y",), "--deny"),
            Override("permissions.allow", ("z",), "--allow"),
            Override("max_rounds", "3", "--max-rounds"),
            Override("max_cost_usd", "0.5", "--max-cost"),
            Override("mcp.config", ("m",), "--mcp-config"),
            Override("mcp.enabled", False, "--no-mcp"),
            Override("mcp.require_tools", ("read",), "--require-tools"),
            Override("session.enabled", False, "--no-session"),
            Override("ui.vi", True, "--vi"),
        ),
    )


def test_options_override_settings_and_are_named_as_their_origin() -> None:
    """C11: the last layer; a wrong value names the option."""
    line = "--model high --max-cost 2 --allow a --allow b --no-mcp --mcp-config m"
    loaded = load_settings(
        Environment({}),
        workspace=Path(),
        trusted=False,
        overrides=parse_arguments(line.split()).overrides,
    )

    assert loaded.settings.model_id() == "claude-opus-5-5"
    assert loaded.settings.max_cost_usd == 2
    assert loaded.settings.permissions.allow == ("a", "b")
    assert loaded.settings.mcp[:2] == (False, (".mcp.json", "m"))
    assert loaded.origins["model"] == "flag --model"
    assert loaded.notices == ()


def test_option_sets_any_setting() -> None:
    """C11: as in a variable; lists are added to, later ones win, a project's limits do not hold."""
    line = (
        "--max-cost 2 --config max_cost_usd=0 --config ui.vi=true --allow a"
        ' --config permissions.allow=["b"] --config models.mine=claude-x --model mine'
    )
    loaded = load_settings(
        Environment({}),
        workspace=Path(),
        trusted=False,
        overrides=parse_arguments(line.split()).overrides,
    )

    assert loaded.settings.max_cost_usd == 0
    assert loaded.settings.ui.vi
    assert loaded.settings.permissions.allow == ("a", "b")
    assert loaded.settings.model_id() == "claude-x"
    assert loaded.origins["max_cost_usd"] == "flag --config=max_cost_usd"


def test_option_for_a_setting_that_does_not_exist_says_where_all_are() -> None:
    overrides = parse_arguments(["--config", "frobnicate.x=1"]).overrides

    with pytest.raises(SettingsError, match=r"frobnicate.*config example lists all"):
        load_settings(Environment({}), workspace=Path(), trusted=False, overrides=overrides)


@each_row(
    ("words", "prompt"),
    [
        (["-p", "-"], "-"),
        (["-p", "- a list"], "- a list"),
        (["-p", "-x"], "-x"),
        (["-phello"], "hello"),
        (["-p=hello"], "hello"),
        (["--print=a=b"], "a=b"),
        (["--print", "a", "--verbose"], "a"),
        (["-p", ""], ""),
        (["-p"], "-"),
        (["-p", "-c"], "-"),
        (["-p", "--model", "x"], "-"),
        (["-p", "-c", "go on"], "go on"),
        (["-p", "--", "--model"], "--model"),
        (["-p", "--verbose", "--", "-c"], "-c"),
    ],
)
def test_print_prompt_may_contain_any_text(words: list[str], prompt: str) -> None:
    parsed = parse_arguments(words)

    assert (parsed.command, parsed.print_prompt) == ("print", prompt)


@pytest.mark.parametrize(
    ("words", "resume"), [([], CHOOSE_SESSION), (["--verbose"], CHOOSE_SESSION), (["7"], "7")]
)
def test_resume_option_takes_an_id_or_lets_the_user_choose(words: list[str], resume: str) -> None:
    assert parse_arguments(["--resume", *words]).resume == resume


@each_row(
    ("line", "expected"),
    [
        ("demo", Arguments("demo")),
        ("doctor --verbose", Arguments("doctor", verbose=True)),
        ("config show", Arguments("config show")),
        ("config show --origin", Arguments("config show", origin=True)),
        ("trust", Arguments("trust")),
        ("trust dir --revoke", Arguments("trust", ("dir",), revoke=True)),
        ("sessions list", Arguments("sessions list")),
        ("sessions show 1", Arguments("sessions show", ("1",))),
        ("sessions export 1", Arguments("sessions export", ("1",))),
        ("sessions verify", Arguments("sessions verify")),
        ("sessions delete 1 2 --yes", Arguments("sessions delete", ("1", "2"), yes=True)),
        ("permissions explain bash -- -x", Arguments("permissions explain", ("bash", "-x"))),
        ("--verbose replay f", Arguments("replay", ("f",), verbose=True)),
        ("--fork 3", Arguments(fork="3")),
        ("--fork 3@4", Arguments(fork="3@4")),
        ("sessions show 1 --entries", Arguments("sessions show", ("1",), entries=True)),
        ("--continue", Arguments(continue_session=True)),
        ("-c", Arguments(continue_session=True)),
        ("-r", Arguments(resume=CHOOSE_SESSION)),
        ("-r 12 go-on", Arguments(resume="12", prompt="go-on")),
        ("-- demo", Arguments(prompt="demo")),
        ("-c fix-it", Arguments(continue_session=True, prompt="fix-it")),
        ("--prompts-from - --verbose", Arguments(prompts_from="-", verbose=True)),
        ("help", Arguments("help")),
        ("version", Arguments("version")),
        ("-h", Arguments("help")),
        ("--help --version nonsense", Arguments("help", ("nonsense",))),
        ("--version", Arguments("version")),
    ],
)
def test_every_command_is_parsed(line: str, expected: Arguments) -> None:
    assert parse_arguments(line.split()) == expected


SESSIONS = "list, search, show, export, verify, delete, approve, reject"


@each_row(
    ("line", "sentence"),
    [
        ("--modle x", "unknown option --modle (did you mean --model?); see agent-cli --help"),
        (
            "-p x --max-cost 0.00",
            "--max-cost 0.00 would set no limit: name an amount, or leave it out"
            " (--config max_cost_usd=0 lifts the limit of the settings)",
        ),
        ("-x", "unknown option -x; see agent-cli --help"),
        ("--model", "--model needs a value; see agent-cli --help"),
        ("--config", "--config needs a value; see agent-cli --help"),
        ("--config ui.vi", "--config takes KEY=VALUE, such as max_rounds=20, not 'ui.vi'"),
        ("--config =x", "--config takes KEY=VALUE, such as max_rounds=20, not '=x'"),
        ("--model -p x", "--model needs a value; see agent-cli --help"),
        ("--trust=yes", "--trust takes no value"),
        ("trsut", "unknown command 'trsut' (did you mean trust?); a prompt goes after --"),
        ("sesions list", "unknown command 'sesions' (did you mean sessions list?)"),
        ("fix the bug", "put quotes around the prompt: 'fix the' ..."),
        ("-p x -p y", "give --print only once: the second would replace the first"),
        (
            "--prompt-file f --prompt-file g",
            "give --prompt-file only once: the second would replace the first",
        ),
        ("-p fix the", "put quotes around the prompt: 'fix the' ..."),
        ("--prompts-from f -p x", "-p and --prompts-from cannot be combined; use one of them"),
        ("--prompts-from f doctor", "--prompts-from and the command doctor cannot be combined"),
        ("sessions", f"sessions needs one of: {SESSIONS}"),
        (
            "sessions lst",
            f"sessions has no 'lst' (did you mean list?); it needs one of: {SESSIONS}",
        ),
        (
            "config set a 1",
            "config has no 'set'; it needs one of: example, show; settings stand in files:"
            " docs/settings.md",
        ),
        ("sessions show", "usage: agent-cli sessions show ID [--entries]"),
        ("sessions list --entries", "--entries does not belong here; see agent-cli --help"),
        ("demo now", "usage: agent-cli demo"),
        ("demo -p x", "-p and the command demo cannot be combined"),
        ("--origin", "--origin does not belong here; see agent-cli --help"),
        ("doctor --revoke", "--revoke does not belong here; see agent-cli --help"),
        (
            "--output-format json",
            "--output-format needs -p PROMPT, sessions approve or sessions reject",
        ),
        ("--output-dir x doctor", "--output-dir needs -p PROMPT or --prompt-file FILE"),
        ("--time-limit 3", "--time-limit needs -p PROMPT or --prompt-file FILE"),
        ("--require-check x", "--require-check needs -p PROMPT or --prompt-file FILE"),
        ("-p x --jobs 2", "--jobs needs the command batch TASKS.jsonl"),
        ("batch t --jobs 0", "--jobs must be a whole number from 1 to 1000, not '0'"),
        ("batch t --engine k8s", "--engine must be one of local, ray, not 'k8s'"),
        ("-p x --engine ray", "--engine needs the command batch TASKS.jsonl"),
        ("batch t --budget nan", "--budget must be dollars above 0, not 'nan'"),
        (
            "-p x --time-limit 0",
            "--time-limit must be a number of seconds above 0, not '0'",
        ),
        (
            "-p x --time-limit nan",
            "--time-limit must be a number of seconds above 0, not 'nan'",
        ),
        (
            "-p x --max-tokens-total 1_0",
            "--max-tokens-total must be a whole number from 1, not '1_0'",
        ),
        ("trust --show --revoke", "--show and --revoke cannot be combined; use one of them"),
        ("-p x --prompt-file f", "-p and --prompt-file cannot be combined; use one of them"),
        ("--prompt-file f doctor", "--prompt-file and the command doctor cannot be combined"),
        (
            "--output-format xml -p x",
            "--output-format must be one of text, json, stream-json, not 'xml'",
        ),
        (
            "--continue --fork 1",
            "--continue and --fork cannot be combined; use one of them",
        ),
        (
            "-p x --replay a --record b",
            "--record and --replay cannot be combined; use one of them",
        ),
    ],
)
def test_each_argument_mistake_is_reported_in_one_sentence(line: str, sentence: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_arguments(line.split())

    assert str(raised.value) == sentence


def test_prompt_argument_starts_the_repl_with_that_prompt() -> None:
    """`agent-cli "fix the bug"`, as users of other agents type it."""
    assert parse_arguments(["fix the bug", "--vi"]).prompt == "fix the bug"
    assert parse_arguments(["fix the bug"]).command == "repl"
    assert parse_arguments(["--", "/review now"]).prompt == "/review now"


def test_parsed_arguments_are_immutable() -> None:
    """S1-28: the user's request stays unchanged."""
    parsed = parse_arguments([])

    with pytest.raises(AttributeError):
        parsed.command = "demo"  # type: ignore[misc]  # the very mistake


def test_help_text_names_every_option_and_command() -> None:
    """The text is written by hand; this test compares it with the parser."""
    text = help_text()

    known = [
        *option_table.OPTIONS,
        *option_table.SHORT_OPTIONS,
        *(name.split()[0] for name in option_table.COMMANDS),
    ]
    assert [name for name in known if name not in text] == []
    assert max(map(len, text.splitlines())) <= 100


@each_row(
    ("argv", "shown", "left_out"),
    [
        (["sessions", "export", "--help"], "sessions export ID [FORMAT]", "agent-cli trust"),
        (["help", "trust"], "trust [DIR] [--show] [--revoke]", "agent-cli sessions"),
        (["hooks", "test", "-h"], "lifecycle hooks: docs/hooks.md", "agent-cli trust"),
        (["batch", "--help"], "the key or the disk ended (default 2)", "--model ID"),
        (["fix the tests", "--help"], "agent-cli trust", "nothing"),
    ],
)
def test_help_of_a_command_is_about_that_alone(argv: list[str], shown: str, left_out: str) -> None:
    """Behind each command stood all 120 lines, and `hooks --help` was refused."""
    arguments = parse_arguments(argv)

    text = help_text(*arguments.operands[:1])

    assert (arguments.command, shown in text, left_out in text) == ("help", True, False)


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["help", "confg"], "there is no command 'confg' (did you mean config?)"),
        (["confg", "--help"], "there is no command 'confg' (did you mean config?)"),
        (["help", "zz"], "there is no command 'zz'; agent-cli --help lists all"),
        (["help", "login"], "login is a command of Claude Code and Codex: set ANTHROPIC_API_KEY"),
    ],
)
def test_help_of_no_command_names_the_word(argv: list[str], error: str) -> None:
    """All 130 lines were printed, without a word about the name."""
    arguments = parse_arguments(argv)

    with pytest.raises(UsageError) as raised:
        help_text(*arguments.operands[:1])

    assert str(raised.value).startswith(error)


def test_help_of_another_agents_command_is_that_of_ours() -> None:
    """Who comes from Codex types its `exec`, and `plugin` for our `plugins`."""
    assert help_text("plugin") == help_text("plugins")
    assert help_text("exec") == help_text("-p")
    assert help_text("resume") == help_text("help") == help_text()


def test_mistyped_option_is_compared_with_all_that_may_be_close() -> None:
    """Names with too few letters of it are left out before, which must lose no suggestion."""
    for known in option_table.OPTIONS:
        for wrong in (f"{known[:-3]}q", f"--{known[:1:-1]}", f"{known[:4]}-xyzw"):
            with pytest.raises(UsageError) as raised:
                parse_arguments([wrong, "--"])
            close = difflib.get_close_matches(wrong, option_table.OPTIONS, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            assert f"unknown option {wrong}{hint};" in str(raised.value)


def test_every_option_maps_to_a_field_or_a_setting() -> None:
    """Otherwise a typo in the table would show only when the option is used."""
    known = Arguments._fields

    assert [
        n for n, o in option_table.OPTIONS.items() if not o.setting and o.field not in known
    ] == []


def test_parsing_arguments_imports_little() -> None:
    """--version and a first prompt take little longer than the start of Python."""
    script = (
        "import sys; from agent_cli.app.arguments import parse_arguments\n"
        "parse_arguments(['--help', '--model', 'x']); parse_arguments(['go'])\n"
        "print({'argparse', 'difflib', 'json', 'pathlib'} & set(sys.modules))"
    )

    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )

    assert run.stdout == "set()\n"


def test_no_annotation_of_the_arguments_is_compiled() -> None:
    """A NamedTuple compiles those in quotes as it is defined, which took a twelfth of the start."""
    kinds = [kind for each in _PARSED for kind in each.__annotations__.values()]

    assert [kind for kind in kinds if isinstance(kind, ForwardRef)] == []
