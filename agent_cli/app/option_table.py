"""The options and commands of the command line, as tables.

arguments.py reads these tables; help.txt documents them.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.permission_modes import Mode, our_mode_name
from agent_cli.contracts.wording import USD_MAX

if TYPE_CHECKING:
    from pathlib import Path

CHOOSE_SESSION = ""
"""The value of `Arguments.resume` when no id was given: the user chooses."""
NEW_WORKTREE = ""
"""The value of `Arguments.worktree` when no name was given: a new one is made."""
FILES: Final = "@files"
SESSIONS: Final = "@sessions"
MODELS: Final = "@models"
ENGINES: Final = ("local", "ray")
_FORMATS: Final = ("text", "json", "stream-json")
_JOBS_MAX: Final = 1_000
_RETRIES_MAX = 100


class Takes(Enum):
    """The kind of value that an option takes."""

    NOTHING = auto()
    VALUE = auto()
    SEVERAL = auto()
    PERHAPS = auto()
    SETTING = auto()
    """KEY=VALUE, of any setting."""


class OptionEntry(NamedTuple):
    """One option and the target of its value: a field of `Arguments`, or the key of a setting.

    `convert` raises ValueError with what the value must be. `values` is the completion for shells:
    words, `FILES`, `SESSIONS` or `MODELS`.
    """

    takes: Takes
    field: str = ""
    setting: str = ""
    convert: Callable[[str], object] = str
    constant: object = True
    values: str = ""


def _limit_usd(text: str) -> str:
    """Refuse 0, which the setting takes as no limit: a script may pass what is left of a budget."""
    with suppress(ValueError):
        if float(text) == 0:
            raise UsageError(
                f"--max-cost {text} would set no limit: name an amount, or leave it out"
                " (--config max_cost_usd=0 lifts the limit of the settings)"
            )
    return text


def _number(kind: str, fits: Callable[[float], bool]) -> Callable[[str], float]:
    def read(text: str) -> float:
        with suppress(ValueError):
            if fits(number := float(text)):  # never NaN
                return number
        raise ValueError(kind)

    return read


def _whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    def read(text: str) -> int:
        # Not int() alone: it takes "1_000", signs and digits of other scripts.
        if text.isascii() and text.isdigit() and len(text) <= 15:
            number = int(text)
            if least <= number and (most is None or number <= most):
                return number
        raise ValueError(f"a whole number from {least}{'' if most is None else f' to {most}'}")

    return read


def _one_of(words: Sequence[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return text

    return read


def _check(text: str) -> str:
    if not text.strip():
        raise UsageError("--require-check must be a command, such as 'make test'")
    return text


def _path(text: str) -> "Path":
    from pathlib import Path  # seldom given, and slow to import

    return Path(text)


def _schema(text: str) -> "Path | str":
    return text if text.lstrip().startswith("{") else _path(text)


def _name(text: str) -> str:
    if not (name := " ".join(text.split())):
        raise UsageError("--name must be a name for the session, such as 'login bug'")
    return name


_SECONDS = _number("a number of seconds above 0", lambda seconds: 0 < seconds < math.inf)
_WAIT = _number("a number of seconds from 0", lambda seconds: 0 <= seconds < math.inf)
_DOLLARS = _number("dollars above 0", lambda dollars: 0 < dollars <= USD_MAX)
_RAY_CPUS = _number("a number from 0.01 to 1024", lambda cpus: 0.01 <= cpus <= 1024)

OPTIONS = {
    "--print": OptionEntry(Takes.VALUE, "print_prompt"),
    "--prompts-from": OptionEntry(Takes.VALUE, "prompts_from", values=FILES),
    "--prompt-file": OptionEntry(Takes.VALUE, "prompt_file", convert=_path, values=FILES),
    "--time-limit": OptionEntry(Takes.VALUE, "time_limit_s", convert=_SECONDS),
    "--max-tokens-total": OptionEntry(Takes.VALUE, "tokens_max", convert=_whole_number(1)),
    "--output-dir": OptionEntry(Takes.VALUE, "output_dir", convert=_path, values=FILES),
    "--json-schema": OptionEntry(Takes.VALUE, "json_schema", convert=_schema, values=FILES),
    "--require-check": OptionEntry(Takes.VALUE, "require_check", convert=_check),
    "--park": OptionEntry(Takes.NOTHING, "park"),
    "--jobs": OptionEntry(Takes.VALUE, "jobs", convert=_whole_number(1, _JOBS_MAX)),
    "--retries": OptionEntry(Takes.VALUE, "retries", convert=_whole_number(0, _RETRIES_MAX)),
    "--wait": OptionEntry(Takes.VALUE, "outage_wait_s", convert=_WAIT),
    "--retry-failed": OptionEntry(Takes.NOTHING, "retry_failed"),
    "--engine": OptionEntry(
        Takes.VALUE, "engine", convert=_one_of(ENGINES), values=" ".join(ENGINES)
    ),
    "--batch-api": OptionEntry(Takes.NOTHING, "batch_api"),
    "--ray-address": OptionEntry(Takes.VALUE, "ray_address"),
    "--ray-cpus": OptionEntry(Takes.VALUE, "ray_cpus", convert=_RAY_CPUS),
    "--ray-copy": OptionEntry(Takes.NOTHING, "ray_copy"),
    "--ray-wait": OptionEntry(Takes.VALUE, "ray_wait_s", convert=_SECONDS),
    "--budget": OptionEntry(Takes.VALUE, "budget_usd", convert=_DOLLARS),
    "--output-format": OptionEntry(
        Takes.VALUE, "output_format", convert=_one_of(_FORMATS), values=" ".join(_FORMATS)
    ),
    "--settings": OptionEntry(Takes.VALUE, "settings_file", convert=_path, values=FILES),
    "--config": OptionEntry(Takes.SETTING, "overrides"),
    "--continue": OptionEntry(Takes.NOTHING, "continue_session"),
    "--resume": OptionEntry(Takes.PERHAPS, "resume", constant=CHOOSE_SESSION, values=SESSIONS),
    "--fork": OptionEntry(Takes.VALUE, "fork", values=SESSIONS),
    "--name": OptionEntry(Takes.VALUE, "name", convert=_name),
    "--system-prompt": OptionEntry(Takes.VALUE, "system_prompt"),
    "--append-system-prompt": OptionEntry(Takes.VALUE, "append_system_prompt"),
    "--add-dir": OptionEntry(Takes.SEVERAL, "add_dirs", convert=_path, values=FILES),
    "--record": OptionEntry(Takes.VALUE, "record", convert=_path, values=FILES),
    "--replay": OptionEntry(Takes.VALUE, "replay", convert=_path, values=FILES),
    "--worktree": OptionEntry(Takes.PERHAPS, "worktree", constant=NEW_WORKTREE),
    "--trust": OptionEntry(Takes.NOTHING, "trust"),
    "--verbose": OptionEntry(Takes.NOTHING, "verbose"),
    "--version": OptionEntry(Takes.NOTHING, "command", constant="version"),
    "--help": OptionEntry(Takes.NOTHING, "command", constant="help"),
    "--origin": OptionEntry(Takes.NOTHING, "origin"),
    "--revoke": OptionEntry(Takes.NOTHING, "revoke"),
    "--show": OptionEntry(Takes.NOTHING, "show"),
    "--json": OptionEntry(Takes.NOTHING, "json"),
    "--entries": OptionEntry(Takes.NOTHING, "entries"),
    "--yes": OptionEntry(Takes.NOTHING, "yes"),
    "--all": OptionEntry(Takes.NOTHING, "all"),
    "--dry-run": OptionEntry(Takes.NOTHING, "dry_run"),
    "--undo": OptionEntry(Takes.NOTHING, "undo"),
    "--model": OptionEntry(Takes.VALUE, setting="model", values=MODELS),
    "--model-fallback": OptionEntry(Takes.SEVERAL, setting="model_fallback", values=MODELS),
    "--effort": OptionEntry(
        Takes.VALUE, setting="effort", values="off minimal low medium high xhigh"
    ),
    "--max-tokens": OptionEntry(Takes.VALUE, setting="max_tokens"),
    "--permission-mode": OptionEntry(
        Takes.VALUE,
        setting="permissions.mode",
        convert=our_mode_name,
        values=" ".join(get_args(Mode)),
    ),
    "--allow": OptionEntry(Takes.SEVERAL, setting="permissions.allow"),
    "--deny": OptionEntry(Takes.SEVERAL, setting="permissions.deny"),
    "--max-rounds": OptionEntry(Takes.VALUE, setting="max_rounds"),
    "--max-cost": OptionEntry(Takes.VALUE, setting="max_cost_usd", convert=_limit_usd),
    "--attach": OptionEntry(Takes.NOTHING, setting="attach", constant=True),
    "--no-attach": OptionEntry(Takes.NOTHING, setting="attach", constant=False),
    "--mcp-config": OptionEntry(Takes.SEVERAL, setting="mcp.config", values=FILES),
    "--require-tools": OptionEntry(Takes.SEVERAL, setting="mcp.require_tools"),
    "--no-mcp": OptionEntry(Takes.NOTHING, setting="mcp.enabled", constant=False),
    "--no-plugins": OptionEntry(Takes.NOTHING, setting="plugins.enabled", constant=False),
    "--vi": OptionEntry(Takes.NOTHING, setting="ui.vi"),
    "--screen-reader": OptionEntry(Takes.NOTHING, setting="ui.screen_reader"),
    "--no-session": OptionEntry(Takes.NOTHING, setting="session.enabled", constant=False),
}
# Switches of single commands: the fields that they set.
SWITCHES = ("origin", "revoke", "show", "json", "entries", "yes", "all", "dry_run", "undo")
SHORT_OPTIONS = {"-p": "--print", "-c": "--continue", "-r": "--resume", "-h": "--help"}
# At most one option of each group, and the field it sets.
EXCLUSIVE = (
    (("--continue", "continue_session"), ("--resume", "resume"), ("--fork", "fork")),
    (("--record", "record"), ("--replay", "replay")),
    (("--show", "show"), ("--revoke", "revoke")),
    (
        *(("-p", "print_prompt"), ("--prompt-file", "prompt_file")),
        *(("--prompts-from", "prompts_from"), ("a prompt", "prompt")),
    ),
)
# Options of one run without the REPL, and the fields they set.
ONE_RUN = (
    ("--time-limit", "time_limit_s"),
    ("--max-tokens-total", "tokens_max"),
    ("--output-dir", "output_dir"),
    ("--json-schema", "json_schema"),
)
# Options of one run of `-p` that a batch does not have.
ONE_PROMPT = (("--require-check", "require_check"), ("--park", "park"))
# Options of a batch, and the fields they fill.
BATCH = (
    *(("--jobs", "jobs"), ("--budget", "budget_usd")),
    *(("--retries", "retries"), ("--wait", "outage_wait_s"), ("--retry-failed", "retry_failed")),
    *(("--engine", "engine"), ("--batch-api", "batch_api"), ("--ray-address", "ray_address")),
    *(("--ray-cpus", "ray_cpus"), ("--ray-wait", "ray_wait_s")),
    ("--ray-copy", "ray_copy"),
)


class CommandEntry(NamedTuple):
    """A command's operands, their minimum and maximum number, and its own switches.

    `completes` is the completion of each operand, as in `OptionEntry.values`; the last one holds
    for all further operands if `operands` begins with a word and `...`.
    """

    operands: str
    fewest: int = 0
    most: int = 0
    switches: tuple[str, ...] = ()
    completes: tuple[str, ...] = ()


COMMANDS = {
    "help": CommandEntry("[COMMAND]", most=2),
    "version": CommandEntry(""),
    "demo": CommandEntry(""),
    "doctor": CommandEntry(""),
    "config example": CommandEntry(""),
    "config show": CommandEntry("[--origin] [--json]", switches=("origin", "json")),
    "trust": CommandEntry(
        "[DIR] [--show] [--yes] [--revoke]",
        most=1,
        switches=("show", "yes", "revoke"),
        completes=(FILES,),
    ),
    "models": CommandEntry("[--json]", switches=("json",)),
    "sessions list": CommandEntry("[--all] [--json]", switches=("all", "json")),
    "sessions search": CommandEntry(
        "WORD... [--all] [--json]", 1, 10_000, switches=("all", "json")
    ),
    "sessions show": CommandEntry(
        "ID [--entries]", 1, 1, switches=("entries",), completes=(SESSIONS,)
    ),
    "sessions export": CommandEntry(
        "ID [md|html|json|atif]", 1, 2, completes=(SESSIONS, "md html json atif")
    ),
    "sessions verify": CommandEntry(
        "[ID] [--json]", most=1, switches=("json",), completes=(SESSIONS,)
    ),
    "sessions delete": CommandEntry(
        "ID... [--yes]", 1, 10_000, switches=("yes",), completes=(SESSIONS,)
    ),
    "sessions approve": CommandEntry("ID [CALL]", 1, 2, completes=(SESSIONS,)),
    "sessions reject": CommandEntry("ID [CALL] [REASON]", 1, 3, completes=(SESSIONS,)),
    "answer": CommandEntry("TOKEN", 1, 1),
    "permissions explain": CommandEntry("TOOL INPUT [--json]", 2, 2, switches=("json",)),
    "batch": CommandEntry("TASKS.jsonl", 1, 1, completes=(FILES,)),
    "acp": CommandEntry(""),
    "completion": CommandEntry("bash|zsh|fish", 1, 1, completes=("bash zsh fish",)),
    "hooks": CommandEntry(
        "list|test EVENT [--input FILE]|import", 1, 10_000, completes=("list test import",)
    ),
    "mcp": CommandEntry(
        "serve|add|add-json|list|get|remove|enable|disable|test|import|exercise"
        "|approve|login|logout ...",
        1,
        10_000,
        completes=(
            "serve add add-json list get remove enable disable test import exercise"
            " approve login logout",
        ),
    ),
    "import": CommandEntry(
        "[claude|codex|gemini|opencode] [--dry-run] [--undo] [--json]",
        most=1,
        switches=("dry_run", "undo", "json"),
        completes=("claude codex gemini opencode",),
    ),
    "plugins": CommandEntry(
        "add SOURCE[@REF] [NAME]|list|show NAME|set NAME [KEY]|update [NAME]|remove NAME [--yes]",
        1,
        3,
        switches=("yes",),
        completes=("add list show set update remove",),
    ),
    "undo": CommandEntry(
        "list [FILE] [--json]|show FILE|restore FILE",
        1,
        2,
        switches=("json",),
        completes=("list show restore", FILES),
    ),
    "replay": CommandEntry("FILE", 1, 1, completes=(FILES,)),
}
