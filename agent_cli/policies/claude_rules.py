"""Translate permission rules of Claude Code's settings into ours.

    Bash(npm run test:*)   bash(npm run test *)
    Bash(rm -rf*)          bash(rm -rf *); what else begins so is asked about, if the rule guards
    Edit(/src/**)          edit(./src/**): there, / is the project and // the root
    KillShell              nothing: there is no such tool here

A rule that allows becomes the same or narrower. One that asks or denies becomes the same, or a
narrower one together with a question about the rest; where that is impossible, it has a reason.
"""

import re
from typing import Final, NamedTuple

from agent_cli.contracts.claude_tools import CLAUDE_NAMES, OF_SERVERS, our_tool_name
from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.permissions import Rule
from agent_cli.contracts.tooling import WEB_FETCH_TOOL, WEB_SEARCH_TOOL
from agent_cli.policies.permission_rules import COMMAND_TOOL, parse_rule

_RULE: Final = re.compile(r"(?P<tool>\*|[\w-]+\*?)(?:\((?P<text>.*)\))?", re.DOTALL)
_PARAMETER: Final = re.compile(r"[a-z_]+:(?!\*$)\S+")
_OF_FILES: Final = frozenset({"read", "edit", "write", "grep", "glob"})
_WEB: Final = frozenset({WEB_FETCH_TOOL, WEB_SEARCH_TOOL})


class Translation(NamedTuple):
    """Our rules for one rule of Claude Code, by kind.

    Attributes:
        rules: (kind, rule as text), none if it cannot be translated.
        note: What differs, or the reason why there is none; "" if it means the same.
        is_lost: A guard that holds nothing here although it could matter.
    """

    rules: tuple[tuple[str, str], ...] = ()
    note: str = ""
    is_lost: bool = False


def claude_rules(kind: str, written: str, *, origin: str) -> tuple[tuple[str, Rule], ...]:
    """Return our rules for one rule of Claude Code, each with its kind."""
    found = translated(kind, written).rules
    return tuple((kind, parse_rule(text, origin)) for kind, text in found)


def translated(kind: str, written: str) -> Translation:
    """Return our rules for the rule *written* of the *kind* allow, ask or deny."""
    found = _RULE.fullmatch(written.strip())
    if not found:
        return _none(kind, "it is not a rule")
    name, text = found["tool"], (found["text"] or "").strip()
    tool = our_tool_name(name)
    if tool not in CLAUDE_NAMES and not tool.startswith(OF_SERVERS) and tool != "*":
        return Translation(note=f"there is no tool {name} here")
    if text in ("", "*"):
        return _checked(kind, ((kind, tool),))
    if tool == COMMAND_TOOL:
        return _command(kind, text)
    if tool in _OF_FILES:
        return _checked(kind, ((kind, f"{tool}({_path(text)})"),))
    if tool in _WEB and text.startswith("domain:"):
        return _checked(kind, ((kind, f"{tool}({text})"),))
    if kind == "allow":
        return _none(kind, f"a rule about some calls of {name} cannot be said here: each one asks")
    return _checked(
        kind,
        (("ask", tool),),
        f"a rule about some calls of {name} cannot be said here, so every one asks",
    )


def _command(kind: str, text: str) -> Translation:
    if _PARAMETER.fullmatch(text):
        return _none(kind, "rules about a parameter of a command cannot be said here")
    prefix = text.removesuffix(":*")
    if prefix != text:
        return _words(kind, f"{prefix} *")
    return _words(kind, text)


def _words(kind: str, text: str) -> Translation:
    """Translate the words of a command, in which * may stand anywhere."""
    words = text.split()
    end = words[-1] == "*"
    plain = words[:-1] if end else words
    if not any("*" in word for word in plain):
        return _checked(kind, ((kind, f"{COMMAND_TOOL}({' '.join(words)})"),))
    at = next(number for number, word in enumerate(plain) if "*" in word)
    is_prefix = not end and at == len(plain) - 1 and plain[at].count("*") == 1
    narrow: tuple[tuple[str, str], ...] = ()
    if is_prefix and plain[at].endswith("*") and plain[at] != "*":
        narrow = ((kind, f"{COMMAND_TOOL}({' '.join([*plain[:at], plain[at][:-1]])} *)"),)
    if kind == "allow":
        if narrow:
            return _checked(kind, narrow, "* stands for whole words here, not for a part of one")
        return _none(kind, "in a rule about commands, * may only be the last word here")
    if at == 0:
        reason = "* stands for whole words here, not for a part of one" if narrow else ""
        reason = reason or "in a rule about commands, * may only be the last word here"
        found = _checked(kind, narrow, reason) if narrow else _none(kind, reason)
        return found._replace(is_lost=True)
    broad = ("ask", f"{COMMAND_TOOL}({' '.join(plain[:at])} *)")
    return _checked(kind, (*narrow, broad), f"what else begins with {' '.join(plain[:at])!r} asks")


def _path(text: str) -> str:
    if text.startswith("//"):
        return text[1:]
    return f".{text}" if text.startswith("/") else text


def _checked(kind: str, rules: tuple[tuple[str, str], ...], note: str = "") -> Translation:
    try:
        for _, text in rules:
            parse_rule(text)
    except SettingsError:
        return _none(kind, "its text cannot be said as a rule here")
    return Translation(rules, note)


def _none(kind: str, reason: str) -> Translation:
    return Translation(note=reason, is_lost=kind != "allow")
