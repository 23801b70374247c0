"""Rules about commands, a prefix of words or all words, as "always this session" makes them."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypeAlias

from agent_cli.contracts.errors import SettingsError
from agent_cli.policies.shell.expressions import EXPRESSIONS
from agent_cli.policies.shell.plain import SimpleCommand, Unknown, parse
from agent_cli.policies.shell.programs import PROGRAMS
from agent_cli.policies.shell.reach import Reach
from agent_cli.policies.shell.read_only import objections, started_by
from agent_cli.policies.shell.readings import Reading
from agent_cli.policies.shell.starters import GIT_OPTIONS_WITH_VALUE, STARTERS, base_name
from agent_cli.policies.shell.words import Word
from agent_cli.sandbox.git_config import is_harmless_key
from agent_cli.system.loading import late_pattern
from agent_cli.system.records import dataclass

Match: TypeAlias = Literal["yes", "maybe", "no"]


@dataclass(frozen=True, slots=True)
class CommandRule:
    """A rule as written, and its words; `open_ended` if any words may follow."""

    written: str
    words: tuple[str, ...]
    open_ended: bool

    def allows(self, command: SimpleCommand) -> bool:
        """Return whether this rule matches *command* exactly as written.

        The star of a rule with words stands for no option that runs another program or writes a
        file: `rg *` is said of searches, not of `rg --pre PROGRAM`.
        """
        words, count = command.words, len(self.words)
        if command.reads or any(word.unknown for word in words[:count]):
            return False  # Redirected input is not part of the words, and $? has an unknown value.
        fits = len(words) >= count if self.open_ended else len(words) == count
        if not fits or tuple(word.text for word in words[:count]) != self.words:
            return False
        return not (self.open_ended and self.words and _reaches_further(words, count))

    def touches(self, reading: Reading) -> Match:
        """Return whether this rule matches *reading*, or might at run time.

        Programs are compared by name only: /bin/rm and ./rm are rm. Options behind the name, with
        their values, may be skipped: `git -C x push`.
        """
        match = self._touches(reading, 1)
        if match == "yes" or len(reading) < 2 or not (reading[1] or "").startswith("-"):
            return match
        if reading[0] is None or not self._names(reading[0]):
            return match
        skipped = {self._touches(reading, at) for at in range(2, len(reading))}
        return "yes" if "yes" in skipped else "maybe" if "maybe" in skipped else match

    def _names(self, program: str) -> bool:
        return not self.words or base_name(program) == base_name(self.words[0])

    def _touches(self, reading: Reading, begin: int) -> Match:
        """Return whether this rule matches the name in *reading* with its words from *begin* on."""
        if not self.words:
            return "yes" if self.open_ended or not reading else "no"
        if not reading:
            return "no"
        if reading[0] is None:
            return "maybe"
        if not self._names(reading[0]):
            return "no"
        for at, expected in enumerate(self.words[1:], begin):
            if at >= len(reading):
                return "no"
            if (word := reading[at]) is None:
                return "maybe"
            if word != expected:
                return "no"
        if self.open_ended or len(reading) < begin + len(self.words):
            return "yes"
        rest = reading[begin + len(self.words) - 1 :]
        # An expansion may result in no word at all.
        return "maybe" if all(word is None for word in rest) else "no"


def command_rule(written: str | None) -> CommandRule:
    """Parse the rule *written*; None and * mean every command.

    Raises:
        SettingsError: A quote is not closed, or a * is not the last word.
    """
    text = (written or "*").strip()
    try:
        words = shlex.split(text)
    except ValueError:
        words = ["*", ""]
    open_ended = words[-1:] == ["*"]
    if open_ended:
        words.pop()
    if "*" in words or not (words or open_ended):
        raise SettingsError(
            f"permissions: bash({written}) is not a rule: write the first words of a command, close"
            " all quotes, and use * only as the last word"
        )
    return CommandRule(text, tuple(words), open_ended)


def allowing(
    rules: Sequence[CommandRule], command: SimpleCommand, reach: Reach
) -> CommandRule | None:
    """Return the first rule that allows *command*, or a command that it only times or limits."""
    started: SimpleCommand | None = command
    while started:
        for rule in rules:
            if rule.allows(started):
                return rule
        started = started_by(started, reach)
    return None


def strongest(
    rules: Sequence[CommandRule], readings: Iterable[Reading]
) -> tuple[Match, CommandRule | None]:
    """Return the best match between any rule and reading, and the first rule with that match."""
    best: tuple[Match, CommandRule | None] = ("no", None)
    by_name = _by_name(rules)
    for reading in readings:
        program = reading[0] if reading else None
        # Of thousands of rules few are about one program, and a script may have thousands.
        fitting = rules if program is None else by_name.get(base_name(program), by_name[None])
        for rule in fitting:
            match rule.touches(reading):
                case "yes":
                    return "yes", rule
                case "maybe" if best[0] == "no":
                    best = ("maybe", rule)
                case _:
                    pass
    return best


def _by_name(rules: Sequence[CommandRule]) -> Mapping[str | None, Sequence[CommandRule]]:
    """Map each program to the rules that may touch it, in their order; None to the general ones."""
    of_all = [rule for rule in rules if not rule.words]
    names = {base_name(rule.words[0]) for rule in rules if rule.words}
    found: dict[str | None, list[CommandRule]] = {name: [] for name in names} | {None: of_all}
    for rule in rules:
        for name in [base_name(rule.words[0])] if rule.words else names:
            found[name].append(rule)
    return found


# Options that run another program, or write a file where the program otherwise only reads. Those
# of programs that run the project's code anyway, as `make` and `pytest` do, are not here.
_REACHES_FURTHER: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        program: late_pattern(options, re.DOTALL)
        for programs, options in (
            ("rg", r"--(?:pre|hostname-bin)(?:=.*)?"),
            ("sort", r"-[bcCdfghiMmnRrsuVz]*o.*|--o.*|--comp.*"),
            (
                "tar gtar bsdtar",
                r"-[AcdrtuxBhijJklmnOpPsSvwWzZ]*[IF].*|--to-c.*|--checkpoint-a.*|--use-c.*"
                r"|--info-s.*|--new-v.*|--rs.*|--rm.*",
            ),
            ("zip", r"-\w*TT.*|--unz.*"),
            ("split csplit", r"--f.*"),
            ("find gfind", r"-(?:exec|ok)(?:dir)?|-delete|-fprint[0f]?|-fls"),
            ("fd fdfind", r"-[^-]*[xX].*|--exec.*"),
            ("fzf", r"--(?:preview|bind|become)\b.*"),
            ("man", r"-\w*[PH].*|--(?:pa|ht).*"),
            ("ag ack bat batcat delta", r"--pager(?:=.*)?"),
            ("tree", r"-\w*o.*|--output.*"),
            ("shuf", r"-[eirz]*o.*|--o.*"),
            ("tcpdump", r"-\w*[zwW].*|--postrotate.*"),
            ("pylint", r"--(?:init-hook|load-plugins).*"),
            ("go", r"--?(?:exec|toolexec|vettool)(?:=.*)?"),
            ("gcc g++ cc c++ clang clang++", r"-wrapper|-fplugin=.*|-Xclang|-B.*"),
            ("rustc", r"(?:-C)?linker=.*"),
            ("yq", r"-[^-]*[is].*|--inplace.*|--split-e.*"),
            ("less", r"-[^-]*[oO].*|--(?i:log-f).*|\+.*!.*"),
            ("iconv sdiff xmllint pygmentize", r"-o.*|--o.*"),
            ("tidy", r"-\w*m.*|-o.*|--output-f.*"),
            ("file", r"-[^-]*C.*|--comp.*"),
            ("psql mysql mariadb", r".*\\[!gowecisTP].*|-[oL].*|--(?:ou|lo|pa|te).*|system\s.*"),
            ("sqlite3", r"-(?:init|cmd)|\s*\.(?!dump|help|ind|schema|show|tables).*"),
        )
        for program in programs.split()
    }
)
# Programs that write their second operand, with the options whose value is the next word.
_WRITES_SECOND: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        program: late_pattern(options)
        for programs, options in (
            ("uniq guniq", r"-[fsw]|--(?:skip-f\w*|skip-c\w*|ch\w*)"),
            ("xxd", r"-(?:[cglnosR]|cols|groupsize|len|name|offset|seek)"),
            ("cpp", r"-[ADIUox]|-M[FQT]|-(?:i\w+|include)"),
            ("ps2ascii rst2html rst2html5 rst2latex rst2man rst2xml", r"--\w[\w-]*"),
        )
        for program in programs.split()
    }
)
# Of git by its subcommand; "" stands for all.
_GIT_REACHES_FURTHER: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        subcommand: late_pattern(options, re.DOTALL)
        for subcommand, options in (
            ("", r"--outp(?:u|ut)?(?:=.*)?|--output-d.*|--(?:upl|rec|exe|open-f|ext-d).*"),
            ("grep", r"-[^-]*O.*"),
            ("clone", r"-[^-]*[cu].*|--(?:co|te).*"),
            ("rebase", r"-[^-]*x.*"),
            ("difftool", r"-[^-]*[xt].*|--(?:ext|to).*"),
            ("mergetool", r"-[^-]*t.*|--to.*"),
            ("archive", r"-o.*|--rem.*"),
            ("format-patch", r"-o.*"),
            ("submodule", "foreach"),
            ("bisect", "run"),
        )
    }
)
_PLAIN_GIT_OPTION = late_pattern(r"-[PC]|--no-pager|--paginate|--no-optional-locks|--.*-pathspecs")
_BEGINS_AS_PATTERN = ("*", "?", "[")


def _reaches_further(words: Sequence[Word], begin: int) -> bool:
    """Return whether *words* of a command from *begin* on run another program, or write a file."""
    name = base_name(words[0].text)
    texts = [word.text for word in words]
    if name == "git":
        return _git_reaches_further(texts, begin)
    if (values := _WRITES_SECOND.get(name.removesuffix(".py"))) is not None:
        return _names_output(words, begin, values)
    options = _REACHES_FURTHER.get(name)
    if options is None:
        return False
    if name.endswith("tar") and len(texts) > 1:  # `tar xf` is `tar -xf`
        texts[1] = f"-{texts[1].removeprefix('-')}" if texts[1][:2] != "--" else texts[1]
    return any(
        options.fullmatch(text)
        # A file may have the name of an option.
        or word.unknown
        or (word.glob and text.startswith(_BEGINS_AS_PATTERN) and "--" not in texts[:at])
        for at, (word, text) in enumerate(zip(words, texts, strict=True))
        if at >= begin
    )


def _names_output(words: Sequence[Word], begin: int, values: re.Pattern[str]) -> bool:
    """Return whether a second operand may be among *words* from *begin* on."""
    count, is_value, only_operands = 0, False, False
    for at, word in enumerate(words[1:], 1):
        is_option = word.text[:1] == "-" and word.text != "-" and not (only_operands or word.glob)
        if not is_option and not is_value:
            # A pattern may stand for several names, and one of them for an option.
            count += 2 if word.glob or word.unknown else 1
            if count > 1 and at >= begin:
                return True
        only_operands = only_operands or word.text == "--"
        is_value = is_option and values.fullmatch(word.text) is not None
    return False


def _git_reaches_further(texts: Sequence[str], begin: int) -> bool:
    at = 1
    while at < len(texts) and texts[at].startswith("-"):
        value = texts[at + 1] if at + 1 < len(texts) else ""
        is_plain = _PLAIN_GIT_OPTION.fullmatch(texts[at]) is not None
        is_setting = texts[at] == "-c" and is_harmless_key(value.partition("=")[0])
        if at >= begin and not (is_plain or is_setting):
            return True
        at += 2 if texts[at] in GIT_OPTIONS_WITH_VALUE else 1
    subcommand = texts[at] if at < len(texts) else ""
    patterns = [_GIT_REACHES_FURTHER[""], *filter(None, [_GIT_REACHES_FURTHER.get(subcommand)])]
    return any(each.fullmatch(text) for each in patterns for text in texts[max(begin, at + 1) :])


PREFIXES_MAX = 5

# The number of words that determine a command's effect; one for all others.
_TWO = (
    *("apt", "apt-get", "brew", "bun", "bundle", "cargo", "composer", "conda", "dotnet", "gem"),
    *("gh", "git", "go", "gradle", "hatch", "helm", "just", "make", "mix", "mvn", "nox", "npm"),
    *("pdm", "pip", "pip3", "pnpm", "poetry", "rake", "rustup", "rye", "task", "terraform"),
    *("tox", "uv", "yarn"),
)
_THREE = (
    *("npm run", "pnpm run", "yarn run", "bun run", "poetry run", "uv run", "hatch run"),
    *("rye run", "pdm run", "composer run", "git stash", "git remote", "gh pr", "gh issue"),
    *("gh run", "uv pip"),
)
_ARITY = MappingProxyType(dict.fromkeys(_TWO, 2) | dict.fromkeys(_THREE, 3))
_START_BY_SUBCOMMAND = frozenset({"uv", "poetry", "hatch", "rye", "pdm"})
# The arguments determine the effect of these: no prefix is enough.
_NEVER = (STARTERS - _START_BY_SUBCOMMAND) | {
    *("awk", "gawk", "mawk", "sed", "perl", "ruby", "node", "deno", "python", "pypy", "ipython"),
    *("php", "lua", "tclsh", "java", "Rscript", "julia", "osascript", "pwsh", "vi", "vim", "nvim"),
    *("emacs", "ed", "ex", "crontab", "at", "systemctl", "cd", "pushd", "export", "alias", "set"),
    *("unset", "rm", "rmdir", "shred", "dd", "mv", "ln", "cp", "tee", "install", "chmod", "chown"),
    *("kill", "pkill", "killall", "curl", "wget", "nc", "ncat", "socat", "telnet", "ftp", "scp"),
    *("sftp", "rsync"),
}
_NEVER_BEGINNINGS = frozenset(
    {
        *("npm exec", "bundle exec", "go run", "go tool", "cargo run", "git config", "git push"),
        *("git rebase", "git bisect", "git submodule", "git filter-branch", "git difftool"),
        *("git mergetool", "git reset", "git clean"),
    }
)
_EXACT_CHARS_MAX = 120
_PROGRAM = late_pattern(r"[\w.][\w./+-]*|/[\w./+-]+", re.ASCII)
_SUBCOMMAND = late_pattern(r"\w[\w.:+-]*", re.ASCII)
_VERSION = late_pattern(r"(?<![\d.-])[\d.-]+$")


def session_prefixes(script: str, reach: Reach) -> tuple[str, ...]:
    """Return rules that would allow *script* and similar ones, e.g. `npm run test *`.

    Returns:
        One for each command that does more than read; none if the effect of one is unclear, or if
        there are more than a person would read.
    """
    commands = parse(script, reach.variables)
    if isinstance(commands, Unknown):
        return ()
    asking = [command for command, objection in objections(commands, reach) if objection]
    prefixes = [_prefix(command, reach) for command in asking]
    known = dict.fromkeys(prefix for prefix in prefixes if prefix)
    if None in prefixes or len(known) > PREFIXES_MAX:
        return ()
    return tuple(known)


def _prefix(command: SimpleCommand, reach: Reach) -> str | None:
    while inner := started_by(command, reach):
        command = inner
    if command.reads or any(word.unknown for word in command.words):
        return None
    words = [word.text for word in command.words]
    count = _ARITY.get(" ".join(words[:2]), _ARITY.get(words[0], 1))
    program, *subcommands = beginning = words[:count]
    if not _PROGRAM.fullmatch(program) or not all(map(_SUBCOMMAND.fullmatch, subcommands)):
        return None
    if " ".join(words[:2]) in _NEVER_BEGINNINGS or not _NEVER.isdisjoint(map(_name, beginning)):
        return None
    # Programs that read run unasked otherwise: only this call of one was found worth a question.
    if program in PROGRAMS or program in EXPRESSIONS or _reaches_further(command.words, count):
        return _exactly(command.words)
    # A command with fewer words, such as `make`, is allowed only exactly as written.
    return " ".join(beginning if len(beginning) < count else (*beginning, "*"))


def _exactly(words: Sequence[Word]) -> str | None:
    """Return the rule that allows *words* and nothing else; None if a person would not read it."""
    texts = tuple(word.text for word in words)
    written = shlex.join(texts)
    is_short = len(written) <= _EXACT_CHARS_MAX and written.isprintable()
    if not is_short or any(word.glob for word in words) or "*" in texts:
        return None
    return written


def _name(program: str) -> str:
    """Return a program's name without folder and version: python for /usr/bin/python3.12."""
    name = program.rpartition("/")[2]
    return _VERSION.sub("", name) or name
