"""The values that a plugin asks its user for: `userConfig` of its manifest, in Claude's format.

A text refers to a value as `${user_config.KEY}`. In what runs, that becomes a variable of the
environment, which a shell expands without reading its value as code. A reference in other code
(`python3 -c`, `ssh`, a shell in a shell) stays as it is, and that code fails.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Final, Literal

from agent_cli.contracts.errors import UsageError
from agent_cli.system.paths import expanded, is_dir, is_file
from agent_cli.system.records import dataclass
from agent_cli.system.shapes import is_array, is_object

VARIABLE: Final = "CLAUDE_PLUGIN_OPTION_"
_KEY: Final = re.compile(r"[A-Za-z_]\w{0,63}", re.ASCII)
_REFERENCE: Final = re.compile(r"\$\{user_config\.([A-Za-z_]\w*)\}", re.ASCII)
_KINDS: Final = ("string", "number", "boolean", "directory", "file")
_YES_NO: Final[Mapping[str, str]] = {
    **dict.fromkeys(("true", "yes", "y", "1"), "true"),
    **dict.fromkeys(("false", "no", "n", "0"), "false"),
}
_RUN: Final = frozenset({"command", "args"})
_SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh", "ash"})
_OTHER_SHELLS: Final = frozenset({"eval", "ssh", "fish", "cmd", "pwsh", "powershell"})
_LANGUAGES: Final = frozenset(
    {"python", "python3", "node", "bun", "deno", "perl", "ruby", "php", "lua", "osascript"}
)
_CODE_OPTION: Final = re.compile(r"-\w*[ce]|--eval|--command")


@dataclass(frozen=True, slots=True)
class PluginOption:
    """A value that a plugin asks for; `default` is "" for none."""

    key: str
    kind: str
    title: str
    description: str
    default: str
    is_required: bool
    is_secret: bool
    choices: tuple[str, ...] = ()
    least: float = -math.inf
    most: float = math.inf

    @property
    def variable(self) -> str:
        """The variable of the environment that holds the value."""
        return VARIABLE + self.key.upper()

    def checked(self, text: str) -> str:
        """Return *text* in the form that is stored.

        Raises:
            UsageError: It is no value of this kind.
        """
        if self.choices and text not in self.choices:
            raise UsageError(f"{self.key} must be one of {', '.join(self.choices)}")
        if self.kind == "boolean":
            if text.lower() not in _YES_NO:
                raise UsageError(f"{self.key} must be true or false")
            return _YES_NO[text.lower()]
        if self.kind == "number" and not self._is_within(text):
            raise UsageError(f"{self.key} must be a number{self._limits()}")
        if self.kind in ("directory", "file"):
            path = expanded(text)
            if not (is_dir if self.kind == "directory" else is_file)(path):
                raise UsageError(f"{self.key} must be an existing {self.kind}")
            return str(path.absolute())
        if not text.isprintable():
            raise UsageError(f"{self.key} must be one line of text")
        return text

    def _is_within(self, text: str) -> bool:
        try:
            return math.isfinite(float(text)) and self.least <= float(text) <= self.most
        except ValueError:
            return False

    def _limits(self) -> str:
        found = [f"at least {self.least:g}"] if self.least > -math.inf else []
        found += [f"at most {self.most:g}"] if self.most < math.inf else []
        return f" of {' and '.join(found)}" if found else ""


def read_options(written: object) -> tuple[PluginOption, ...]:
    """Return the options in a manifest's `userConfig`.

    Raises:
        UsageError: It is not as it must be.
    """
    if written is None:
        return ()
    if not is_object(written):
        raise UsageError("userConfig must be an object")
    found = tuple(_option(key, each) for key, each in written.items())
    if len({each.variable for each in found}) < len(found):
        raise UsageError("userConfig has two keys that differ only in uppercase and lowercase")
    return found


def in_hook(written: object, values: Mapping[str, str]) -> object:
    """Return a hook's group with variables in what runs, and *values* in what a model reads."""
    if is_array(written):
        return [in_hook(each, values) for each in written]
    if not is_object(written):
        return written
    if "hooks" in written:
        return {**written, "hooks": in_hook(written["hooks"], values)}
    found = {
        key: each if key in _RUN else _with_values(each, values) for key, each in written.items()
    }
    found |= {key: with_variables(written[key]) for key in ("url", "headers") if key in written}
    if "args" in written:
        return found | _program(written)
    return found | {"command": _shell_command(str(written.get("command", "")))}


def in_server(written: object) -> object:
    """Return the entry of an MCP server with variables in place of `${user_config.KEY}`."""
    if not is_object(written):
        return written
    found = {key: each if key in _RUN else with_variables(each) for key, each in written.items()}
    return found | _program(written)


def with_variables(written: object, *, for_shell: bool = False) -> object:
    """Return *written* with variables in place of `${user_config.KEY}`.

    Args:
        written: A text, or what holds texts.
        for_shell: Only a shell fills the variables in.
    """
    if is_object(written):
        return {key: with_variables(each, for_shell=for_shell) for key, each in written.items()}
    if is_array(written):
        return [with_variables(each, for_shell=for_shell) for each in written]
    if not isinstance(written, str):
        return written
    end = "-}" if for_shell else "}"  # `${NAME-}` means the same to a shell, and nothing to others
    return _REFERENCE.sub(lambda found: f"${{{VARIABLE}{found[1].upper()}{end}", written)


def with_texts(text: str, values: Mapping[str, str]) -> str:
    """Return *text* with *values* in place of `${user_config.KEY}`; others stay."""
    return _REFERENCE.sub(lambda found: values.get(found[1], found[0]), text)


def values_of(
    options: Iterable[PluginOption], entered: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Return the values by key, "" where there is none, and the required keys that lack one."""
    values = {each.key: entered.get(each.key, each.default) for each in options}
    return values, [each.key for each in options if each.is_required and not values[each.key]]


def _shell_command(command: str) -> object:
    """Return a shell command; unchanged, references included, where a value would stand in code."""
    words = re.split(r"[\s;&|()`'\"]+", command)
    is_code = any(_kind(words[:i]) for i in range(len(words) + 1))
    return command if is_code else with_variables(command, for_shell=True)


def _program(written: Mapping[str, object]) -> dict[str, object]:
    """Return the program and arguments of a hook or server; code gets variables of a shell only."""
    args = written.get("args")
    words = [str(each) for each in (written.get("command", ""), *(args if is_array(args) else ()))]
    found: list[object] = []
    for i, word in enumerate(words):
        kind = _kind(words[:i])
        found.append(
            word if kind == "other" else with_variables(word, for_shell=kind == "for a shell")
        )
    named: dict[str, object] = {"command": found[0]} if "command" in written else {}
    return named | ({"args": found[1:]} if is_array(args) else {})


def _kind(before: Sequence[str]) -> Literal["", "for a shell", "other"]:
    """Return the kind of code that the word behind the words *before* is; "" for none."""
    if _is_one_of(before, _OTHER_SHELLS):
        return "other"
    if not (before and _CODE_OPTION.fullmatch(before[-1])):
        return ""
    if _is_one_of(before, _SHELLS):
        return "for a shell"
    return "other" if _is_one_of(before, _LANGUAGES) else ""


def _is_one_of(words: Iterable[str], programs: frozenset[str]) -> bool:
    return not programs.isdisjoint(PurePath(word).name.removesuffix(".exe") for word in words)


def _with_values(written: object, values: Mapping[str, str]) -> object:
    if is_object(written):
        return {key: _with_values(each, values) for key, each in written.items()}
    if is_array(written):
        return [_with_values(each, values) for each in written]
    return with_texts(written, values) if isinstance(written, str) else written


def _option(key: str, written: object) -> PluginOption:
    if not _KEY.fullmatch(key) or not is_object(written):
        raise UsageError(f"userConfig {key!r} must be an object, and its key a name")
    kind = written.get("type", "string")
    if kind not in _KINDS:
        raise UsageError(f"userConfig {key}: type must be one of {', '.join(_KINDS)}")
    limits = [written.get("min", -math.inf), written.get("max", math.inf)]
    least, most = (each if isinstance(each, int | float) else math.nan for each in limits)
    if math.isnan(least) or math.isnan(most):
        raise UsageError(f"userConfig {key}: min and max must be numbers")
    choices = written.get("options")
    return PluginOption(
        key=key,
        kind=kind,
        title=" ".join(str(written.get("title") or key).split()),
        description=" ".join(str(written.get("description") or "").split()),
        default=_default(written.get("default")),
        is_required=written.get("required") is True,
        is_secret=written.get("sensitive") is True,
        choices=tuple(map(str, choices)) if is_array(choices) else (),
        least=least,
        most=most,
    )


def _default(written: object) -> str:
    if isinstance(written, bool):
        return str(written).lower()
    if is_array(written):  # `multiple`
        return ",".join(map(str, written))
    return "" if written is None else str(written)
