"""`agent-cli completion bash|zsh|fish`: a completion script, generated from the option table.

The script calls `agent-cli completion sessions` and `agent-cli completion models` for live values.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from agent_cli.app.arguments import Arguments
from agent_cli.app.option_table import (
    COMMANDS,
    FILES,
    MODELS,
    OPTIONS,
    SESSIONS,
    SHORT_OPTIONS,
    OptionEntry,
    Takes,
)
from agent_cli.contracts.errors import UsageError

_LIVE: Final = {
    SESSIONS: "$(agent-cli completion sessions 2>/dev/null)",
    MODELS: "$(agent-cli completion models 2>/dev/null)",
}
# For zsh as well, through bashcompinit, which does not split words at "=". Without our choices the
# shell offers files.
_BASH: Final = """\
_agent_cli() {
  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"
  local choices="" typed="" before="" count=0 i=1 word
  COMPREPLY=()
  if [ "$cur" = "=" ]; then cur=""
  elif [ "$prev" = "=" ]; then prev="${COMP_WORDS[COMP_CWORD-2]}"
  fi
  case "$cur" in
    --*=*) before="${cur%%=*}="; prev="${cur%%=*}"; cur="${cur#*=}" ;;
    -*) prev="" ;;
  esac
  case "$prev" in
@VALUES@
  esac
  while [ "$i" -lt "$COMP_CWORD" ]; do
    word="${COMP_WORDS[i]}"
    case "$word" in
      @TAKING@) [ "${COMP_WORDS[i+1]}" = "=" ] && i=$((i + 1)); i=$((i + 1)) ;;
      --) return ;;
      -*) ;;
      *) typed="$typed $word"; count=$((count + 1)) ;;
    esac
    i=$((i + 1))
  done
  case "$cur" in
    -*)
      choices="@OPTIONS@"
      case "${typed# }" in
@SWITCHES@
      esac ;;
    *)
      case "$count:${typed# }" in
@OPERANDS@
      esac ;;
  esac
  COMPREPLY=( $(compgen -W "$choices" -- "$cur") )
}
complete -o default -F _agent_cli agent-cli
"""
_PLAIN: Final = re.compile(r"\w[\w.:/@-]*", re.ASCII)
_NO_COMMAND: Final = "__fish_use_subcommand"
_ZSH: Final = """\
autoload -Uz compinit bashcompinit
(( $+functions[compdef] )) || compinit
bashcompinit
"""


def complete(arguments: Arguments) -> int:
    """Print the script for a shell, or the live values that a script asks for.

    Raises:
        UsageError: There is no script for this shell.
        SettingsError: The settings cannot be read.
    """
    shell = arguments.operands[0]
    if shell not in _PRINTED:
        raise UsageError(f"there is no completion for {shell!r}: bash, zsh or fish")
    sys.stdout.write(_PRINTED[shell](arguments))
    return 0


def _bash(_arguments: Arguments) -> str:
    parts = {
        "VALUES": _value_cases(),
        "TAKING": ["|".join(name for name, each in _options() if each.takes is not Takes.NOTHING)],
        "OPERANDS": _operand_cases(),
        "OPTIONS": [" ".join(name for name in OPTIONS if name not in _switches())],
        "SWITCHES": _switch_cases(),
    }
    script = _BASH
    for name, lines in parts.items():
        script = script.replace(f"@{name}@", "\n".join(lines))
    return script


def _zsh(arguments: Arguments) -> str:
    return _ZSH + _bash(arguments)


def _options() -> Iterator[tuple[str, OptionEntry]]:
    yield from OPTIONS.items()
    yield from ((short, OPTIONS[name]) for short, name in SHORT_OPTIONS.items())


def _switches() -> Sequence[str]:
    """Return the options that belong to single commands."""
    return [f"--{name}" for command in COMMANDS.values() for name in command.switches]


def _value_cases() -> Iterator[str]:
    for name, option in _options():
        if option.takes is not Takes.NOTHING:
            yield f"    {name}) {_choosing(option.values)} ;;"


def _choosing(values: str) -> str:
    """Return bash code that offers *values* and returns."""
    if values in ("", FILES):
        return "return"
    return (
        f'COMPREPLY=( $(compgen -P "$before" -W "{_LIVE.get(values, values)}" -- "$cur") ); return'
    )


def _operand_cases() -> Iterator[str]:
    for typed, words in _next_words().items():
        yield f'        "{len(typed.split())}:{typed}") choices="{" ".join(words)}" ;;'
    for name, command in COMMANDS.items():
        for number, values in enumerate(command.completes):
            before = f'"{name}"' if number == 0 else f'"{name} "*'
            yield f"        {number + len(name.split())}:{before}) {_choosing(values)} ;;"
        if command.completes and command.operands.partition(" ")[0].endswith("..."):
            yield f'        *:"{name} "*) {_choosing(command.completes[-1])} ;;'


def _next_words() -> Mapping[str, Sequence[str]]:
    """Return the next words of commands, keyed by the preceding word or ""."""
    found: dict[str, dict[str, None]] = {"": {}}
    for name in COMMANDS:
        first, _, second = name.partition(" ")
        found[""][first] = None
        if second:
            found.setdefault(first, {})[second] = None
    return {typed: [*words] for typed, words in found.items()}


def _switch_cases() -> Iterator[str]:
    for name, command in COMMANDS.items():
        if command.switches:
            names = " ".join(f"--{switch}" for switch in command.switches)
            yield f'        "{name}"*) choices="{names} $choices" ;;'


def _fish(_arguments: Arguments) -> str:
    lines = ["complete -c agent-cli -f"]
    shorts = {name: f" -s {short[1:]}" for short, name in SHORT_OPTIONS.items()}
    for name, option in OPTIONS.items():
        if name not in _switches():
            required = " -r" if option.values == FILES else " -x"
            choices = _fish_choices(option.values)
            taken = "" if option.takes is Takes.NOTHING else f"{required}{choices}"
            lines.append(f"complete -c agent-cli -l {name[2:]}{shorts.get(name, '')}{taken}")
    for typed, words in _next_words().items():
        when = f"{_seen(typed)}; and not {_seen(' '.join(words))}" if typed else _NO_COMMAND
        lines.append(f"complete -c agent-cli -n '{when}' -a '{' '.join(words)}'")
    for name, command in COMMANDS.items():
        when = "; and ".join(map(_seen, name.split()))
        lines += [
            f"complete -c agent-cli -n '{when}'{_fish_choices(values)}"
            for values in command.completes
        ]
        lines += [f"complete -c agent-cli -n '{when}' -l {switch}" for switch in command.switches]
    return "\n".join(lines) + "\n"


def _seen(words: str) -> str:
    return f"__fish_seen_subcommand_from {words}"


def _fish_choices(values: str) -> str:
    if values == FILES:
        return " -F"
    asked = _LIVE.get(values, values).replace("$(", "(")
    return f" -a '{asked}'" if asked else ""


def _session_ids(_arguments: Arguments) -> str:
    from agent_cli.session_store import SessionStore  # each pays for itself
    from agent_cli.system import paths

    return _listed(path.stem for path in SessionStore(paths.sessions_dir()).files())


def _model_names(arguments: Arguments) -> str:
    from agent_cli.app.startup import start  # each pays for itself

    models = start(arguments, may_ask=False).loaded.settings.models
    return _listed([*models, *models.values()])


def _listed(words: Iterable[str]) -> str:
    # bash expands completions again: a model named $(...) would be executed.
    return "".join(f"{word}\n" for word in dict.fromkeys(words) if _PLAIN.fullmatch(word))


_PRINTED: Final[Mapping[str, Callable[[Arguments], str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
    "sessions": _session_ids,
    "models": _model_names,
}
