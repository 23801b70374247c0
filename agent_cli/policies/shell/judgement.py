"""The verdict about a script and its reasons, for `authorize_tool` and `permissions explain`."""

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, islice
from pathlib import PurePath
from typing import Literal, TypeAlias

from agent_cli.policies.shell.data_losses import DELETES_DATA, deletes_data
from agent_cli.policies.shell.deleted_folders import (
    FINDS,
    brings_paths,
    is_cache,
    with_whole_paths,
    without_others,
)
from agent_cli.policies.shell.destructive import (
    FOREIGN_FILE,
    destructions,
    lost_history,
    written_losses,
)
from agent_cli.policies.shell.effects import effects
from agent_cli.policies.shell.entered_folders import (
    IN_BACKGROUND,
    removals_in_entered,
    without_cd_apart,
    without_home,
)
from agent_cli.policies.shell.fed_scripts import all_scripts, fed_commands, texts_run
from agent_cli.policies.shell.known_words import with_known_words
from agent_cli.policies.shell.losses import lost_by_unknown_program
from agent_cli.policies.shell.plain import Part, Unknown, parse
from agent_cli.policies.shell.reach import Reach, has_only_words
from agent_cli.policies.shell.read_only import UNCERTAIN_FOLDER, objections
from agent_cli.policies.shell.readings import UNSEEN, Reading, all_commands, readings, seen_commands
from agent_cli.policies.shell.rules import CommandRule, allowing, strongest
from agent_cli.policies.shell.searches import removals
from agent_cli.policies.shell.starters import base_name, started_at
from agent_cli.policies.shell.syntax import (
    ENTERS_FIRST,
    TOO_LONG,
    has_no_structure,
    odd_character,
)
from agent_cli.system.loading import late_pattern
from agent_cli.system.paths import is_dir, real_path
from agent_cli.system.records import dataclass

_REASONS_MAX = 6
# "undecided": neither a rule nor our knowledge decides; the mode does.
ShellVerdict: TypeAlias = Literal["deny", "ask", "allow", "undecided"]

# Characters of a script without structure that is read again with its known words.
_UNCLEAR_MAX = 4_000
_OF_WORKSPACE = late_pattern(r"[^/~$]+/")
# What ends a command in a text, and what may stand before its program.
_PARTS = late_pattern(r"[\n;&|()`{}]+")
_REDIRECT = late_pattern(r"\d*[<>]+[&|]?\s*(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|()`{}\"']+)+")
_QUOTES = late_pattern(r"[\"'\\$]")
_SETTING = late_pattern(r"\w+(?:\[\w*\])?\+?=")
# The path of a folder that may be an added one: a home that `~` names is not looked up.
_OPENED = late_pattern(r"(?:/|\.\./)[^~]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict and its reasons.

    Attributes:
        reason: The reason for a person: one clause, no full stop.
        rule: The rule that decided, as written between the brackets; None when none did.
        construct: The construct that is not understood, e.g. "redirect > out.txt"; None if plain.
        read_only: Every command only reads files of the workspace; plan mode may run it.
        commands: The commands found, in order; ? stands for unknown words.
    """

    verdict: ShellVerdict
    reason: str
    rule: str | None = None
    construct: str | None = None
    read_only: bool = False
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRules:
    """The user's rules about commands: deny wins over ask, ask over allow."""

    allow: Sequence[CommandRule] = ()
    ask: Sequence[CommandRule] = ()
    deny: Sequence[CommandRule] = ()


def judge(script: str, rules: CommandRules, reach: Reach) -> Judgement:
    """Judge *script* within *reach* by *rules* and our own knowledge of commands."""
    commands = parse(script, reach.variables)
    construct = commands.construct if isinstance(commands, Unknown) else None
    verdict, reason, rule, read_only = _forbidden(script, rules, reach) or _permitted(
        script, commands, rules, reach
    )
    return Judgement(
        verdict=verdict,
        reason=reason,
        rule=rule.written if rule else None,
        construct=construct,
        read_only=read_only,
        commands=tuple(seen_commands(script)),
    )


def losses_of(script: str, seen: Sequence[Reading], reach: Reach) -> list[str]:
    """Return descriptions of what *script*, whose readings are *seen*, cannot take back."""
    has_only_words.cache_clear()  # the command before may have made a folder
    found = _losses_as_written(script, seen, reach)
    # Of a line that goes on, the patterns of texts see only a part.
    whole = script if found else script.replace("\\\n", "")
    return found if whole == script else _losses_as_written(whole, readings(whole), reach)


def _losses_as_written(script: str, seen: Sequence[Reading], reach: Reach) -> list[str]:
    # A folder of the workspace in /tmp lies in the sandbox's, too.
    is_own = reach.has_own_temporary and not any(
        each.is_relative_to("/tmp") for each in (reach.root, *reach.extra_dirs)
    )
    reach = replace(reach, has_own_temporary=is_own)
    # What is read by `.` may set anything, as may a program of an unknown name.
    is_read = any(words[:1] in ((".",), (None,)) for words in seen)
    if not is_read and (by_paths := without_home(script, reach)) != script:
        script, seen = by_paths, readings(by_paths)

    def loses(part: str) -> bool:
        return bool(_losses_in_folders(part, [*readings(part)], reach))

    if not is_read and (here := without_cd_apart(script, loses)) != script:
        script, seen = here, readings(here)
    found = _losses_in_folders(script, seen, reach)
    # In a workspace that lies in a cache, a pattern of what is there may be one of all its files.
    is_clear = len(script) < _UNCLEAR_MAX or not has_no_structure(script)
    if found and TOO_LONG not in found and is_clear and not is_cache(str(reach.root)):
        known = with_known_words(script, own_temporary=is_own, is_whole=True)
        each_loss = (_losses_in_folders(each, [*readings(each)], reach) for each in known)
        found = [*dict.fromkeys(chain.from_iterable(each_loss))] if known else found
    folders = (reach.root, *reach.extra_dirs)
    texts = (script, *chain.from_iterable(map(texts_run, all_scripts(script))))
    if not found and any(any(removals_in_entered(each, folders)) for each in texts):
        found = [FOREIGN_FILE]
    return found


def _losses_in_folders(script: str, seen: Sequence[Reading], reach: Reach) -> list[str]:
    found = _losses(script, seen, reach.root)
    is_kept = found and reach.extra_dirs and _keeps_to_folders(script, seen, reach)
    return [] if is_kept else found


def _keeps_to_folders(script: str, seen: Sequence[Reading], reach: Reach) -> bool:
    """Return whether *script* loses nothing, as it is judged in each folder that it works in.

    It enters an added one first, or names what it deletes there by whole paths.
    """
    folders = (reach.root, *reach.extra_dirs)
    entered = ENTERS_FIRST.fullmatch(script)
    if (
        entered
        and entered["sure"]
        and _OPENED.fullmatch(entered["folder"])
        # In the background, the folder would be that of a shell of its own.
        and not IN_BACKGROUND.search(entered["rest"])
    ):
        folder = real_path(os.path.normpath(reach.root / entered["folder"]))
        is_opened = is_dir(folder) and any(map(folder.is_relative_to, reach.extra_dirs))
        # The workspace in it would be one of its folders.
        if is_opened and not any(folder in each.parents for each in folders):
            rest = entered["rest"]
            there = replace(reach, root=folder, extra_dirs=())
            return not losses_of(rest, [*readings(rest)], there)
    commands = [*seen, *_fed(script)]
    if UNSEEN in seen or brings_paths(commands):
        return False
    opened = [each for each in reach.extra_dirs if not any(each in it.parents for it in folders)]
    commands = [*with_whole_paths(commands, all_commands(script), reach.root, opened)]
    started: set[Reading] = set()
    for folder in (*opened, reach.root):
        own = [*filter(None, (without_others(each, folder, opened) for each in commands))]
        searches = [("find", *each[1:]) for each in own if base_name(each[0] or "") in FINDS]
        if folder != reach.root:
            # What `find` starts for the files that it finds there.
            by_search = {each for words in searches for each, _ in removals(words, folder)}
            own += by_search.intersection(commands)
            started |= by_search
        elif not searches:
            own = [each for each in own if each not in started]
        if _losses(script, seen, folder, own):
            return False
    return True


# Cached: a decision asks for those of the same script twice.
@lru_cache(maxsize=8)
def _fed(script: str) -> Sequence[Reading]:
    return tuple(fed_commands(script))


def _losses(
    script: str, seen: Sequence[Reading], root: PurePath, run: Sequence[Reading] | None = None
) -> list[str]:
    """Return what *script* loses; *run* are the commands that it may run, if not all of them."""
    fed = _fed(script) if run is None else ()
    commands = [*seen, *fed] if run is None else run
    found = destructions(commands, root, script)
    whole = () if found else all_scripts(script)
    found += chain.from_iterable(written_losses(each, root) for each in whole)
    # What stands in the script itself may delete what the others have moved.
    if not found and fed:
        found = lost_history((*fed, *seen), root, script)
    programs = [(each[0], each[1:]) for each in seen if each and each[0]]
    if not found and deletes_data(script, {base_name(program) for program, _ in programs}):
        found = [DELETES_DATA]
    # Text that may run counts for nothing here: in prose, any word may pass for a program. Nor does
    # a program named by a path of the workspace: what is developed there is tried on its own data.
    # Nor does a word amid a line of a script that cannot be parsed.
    named = _first_words(script) if UNSEEN in seen and has_no_structure(script) else None
    unknown = (
        lost_by_unknown_program(base_name(program), arguments)
        for program, arguments in programs
        if not _OF_WORKSPACE.match(program) and (named is None or program in named)
    )
    return found or [*islice(filter(None, unknown), 1)]


def _first_words(script: str) -> Collection[str]:
    """Return the words of *script* with which a command may begin, behind a starter any one."""
    found: set[str] = set()
    for part in _PARTS.split(_REDIRECT.sub(" ", script)):
        words = _QUOTES.sub("", part).split()
        # A variable may be empty, or hold `sudo`.
        is_any = words and (
            part.lstrip().startswith("$")
            or started_at(words) is not None
            or _SETTING.match(words[0])
        )
        found.update(words if is_any else words[:1])
    return found


_Finding: TypeAlias = tuple[ShellVerdict, str, CommandRule | None, bool]


def _forbidden(script: str, rules: CommandRules, reach: Reach) -> _Finding | None:
    """Return the verdict of deny and ask rules on *script*, valid in every mode."""
    seen = list(readings(script))
    denied, deny = strongest(rules.deny, seen)
    if deny and denied == "yes":
        return "deny", f"denied by the rule {deny.written}", deny, False
    losses = losses_of(script, seen, reach)
    asked, ask = strongest(rules.ask, seen)
    if ask and asked == "yes":
        return "ask", _joined([f"the rule {ask.written} asks", *losses]), ask, False
    if losses:
        return "ask", _joined(losses), None, False
    if maybe := deny or ask:
        return "ask", f"may run a command that the rule {maybe.written} covers", maybe, False
    return None


def _permitted(
    script: str, commands: Sequence[Part] | Unknown, rules: CommandRules, reach: Reach
) -> _Finding:
    """Return "allow" if each command is read-only or allowed by a rule."""
    if isinstance(commands, Unknown):
        # A hidden character is a reason of its own: the text is not what it seems to be.
        known = effects(script, reach)
        reasons = [commands.construct, *known] if odd_character(script) else known
        reasons = reasons or [commands.construct]
        return "undecided", _joined(reasons), None, False
    used: CommandRule | None = None
    against: list[str] = []
    for command, objection in objections(commands, reach):
        if objection is None:
            continue
        rule = allowing(rules.allow, command, reach)
        used = used or rule
        if rule is None:
            against.append(objection)
    if against:
        against = [each for each in against if each != UNCERTAIN_FOLDER] or against
        return "undecided", _joined(against), None, False
    if used:
        return "allow", f"allowed by the rule {used.written}", used, False
    return "allow", "only reads", None, True


def _joined(reasons: Sequence[str]) -> str:
    """Join all *reasons*, so that a person does not miss the later ones."""
    different = list(dict.fromkeys(reasons))
    more = len(different) - _REASONS_MAX
    return "; ".join(different[:_REASONS_MAX]) + (f"; and {more} more reasons" if more > 0 else "")
