"""Abridge a script for a reader with little room: leave out lines of data that seem to do nothing.

Only lines of here-documents that become a source file or are run as one, in a language that is no
shell. A line stays if a word in it can open, start, remove, send or decode something, or hides what
it does. This is a list of words and no proof: a program can be written so that no line shows what
it does. Whoever reads a call that only runs a file sees even less of it.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from agent_cli.policies.shell.syntax import descendants, opened_file, source, syntax_tree
from agent_cli.system.late_patterns import late_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

_LINES_MIN: Final = 3
"""Fewer are not worth the words that say that they were left out."""

_TELLING: Final = late_pattern(
    # Files and processes.
    r"\bos\b|\bopen|\bpath\(|\bio\.|write|shutil|tempfile|mkdir|rmdir|\brm\b|remove|delet|unlink|rename"
    r"|truncate|chmod|chown|link|\bkill|signal|subprocess|spawn|system|popen|\bexec|\beval|\brun\("
    r"|\bcall\(|check_|fork|pty|child_process|process\.|sudo|\bsh\b|bash|\bdd\b|mkfs|mount|/dev/"
    # Other machines.
    r"|socket|http|url|request|fetch|ftp|smtp|mail|telnet|\bssh|scp\b|rsync|curl|wget|\bnc\b|dns"
    r"|connect|upload|download|push|deploy|publish|boto|webhook|://|\bgit\b|docker|kubectl"
    # Secrets and places outside.
    r"|environ|getenv|\benv\b|\.env|passw|secret|token|credential|\bkey\b|api_?key|private|keyring"
    r"|netrc|cookie|home|expanduser|~|\.\./|['\"]/|/etc|/root|/var|/usr|/tmp|\$"
    # Code that is not there to be read, and what takes it.
    r"|base64|b64|codecs|fromhex|unhex|decode|encode\(|zlib|gzip|pickle|marshal|yaml\.load|chr\(|\\x"
    r"|\\u|\\[0-7]{3}|compile|importlib|import_module|getattr|setattr|globals|locals|vars\(|builtins"
    r"|ctypes|cffi|\bsys\.(?!path|exit|argv|std|version|executable)|settrace|atexit|sitecustomize"
    r"|inspect|reversed|\[::-1\]|\.join\(|lambda|drop|grant|insert|`|%x|qx"
    r"|__(?!init__|name__|main__|file__|str__|repr__|class__|dict__|eq__|hash__|call__|len__|doc__"
    r"|version__|all__|module__|qualname__|iter__|getitem__)",
    re.IGNORECASE,
)
_LONG_LINE: Final = 200
_SOURCES: Final = (
    *(
        ".py",
        ".js",
        ".jsx",
        ".mjs",
        ".ts",
        ".tsx",
        ".go",
        ".rs",
        ".java",
        ".c",
        ".h",
        ".cc",
        ".cpp",
    ),
    *(".css", ".html", ".md", ".rst", ".txt", ".csv", ".patch", ".diff"),
)
"""Not those of which every line may act: scripts of a shell, build files, configuration."""

_INTERPRETER: Final = late_pattern(r"(python[0-9.]*|node)( -u)?( -)?")
_DELIMITER: Final = late_pattern(r"(?P<quote>['\"])(?P<word>\w+)(?P=quote)")
_RUNS_SHELL: Final = late_pattern(
    r"\b(bash|sh|dash|ksh|zsh|source|eval|exec|chmod)\b|(^|[;&\s])\.\s"
)
"""Then a file of any name may be a script of a shell."""


def abridged(script: str) -> str:
    """Return *script* without the lines of its here-documents that seem to do nothing.

    What is left out is counted where it stood. A script that cannot be parsed is returned whole.
    """
    root = syntax_tree(script)
    if root.has_error:
        return script
    bodies = [*_bodies(root)]
    text = outside = script.encode(errors="replace")
    for body in reversed(bodies):
        outside = outside[: body.start_byte] + outside[body.end_byte :]
        kept = _kept(source(body))
        text = text[: body.start_byte] + kept.encode() + text[body.end_byte :]
    return script if _RUNS_SHELL.search(outside.decode()) else text.decode()


def _bodies(root: "Node") -> Iterator["Node"]:
    """Yield the here-documents that may be abridged."""
    for node in descendants(root):
        if node.type != "heredoc_redirect" or not (statement := node.parent):
            continue
        parts = {child.type: child for child in node.children}
        start, body = parts.get("heredoc_start"), parts.get("heredoc_body")
        end = parts.get("heredoc_end")
        if not (start and body and end and _DELIMITER.fullmatch(source(start))):
            continue  # bash expands what stands in it, or ends it elsewhere
        word = source(start)[1:-1]
        is_next = body.start_point == (start.end_point[0] + 1, 0)
        ends_there = end.start_point[1] == 0 and source(end) == word
        is_whole = is_next and ends_there and word not in source(body).splitlines()
        if is_whole and "<<-" not in parts and _is_source(statement, node):
            yield body


def _is_source(statement: "Node", document: "Node") -> bool:
    """Return whether *document* of *statement* is written to a source file, or run as one."""
    above = statement.parent
    if statement.type != "redirected_statement" or not above or above.type == "pipeline":
        return False
    if any(child.type in ("|", "|&", "pipeline") for child in document.children):
        return False
    command = statement.child_by_field_name("body")
    while command and command.type == "list":  # bash redirects the last command alone
        command = command.children[-1]
    written = [
        source(opened).strip("'\"")
        for node in (*statement.children, *document.children)
        if node.type == "file_redirect" and (opened := opened_file(node))
    ]
    name = source(command) if command and command.type == "command" else ""
    if name == "cat":
        return len(written) == 1 and written[0].endswith(_SOURCES)
    return bool(_INTERPRETER.fullmatch(name))


def _kept(body: str) -> str:
    found: list[str] = []
    quiet: list[str] = []
    for line in body.splitlines(keepends=True):
        if _TELLING.search(line) or len(line) > _LONG_LINE or not line.isascii():
            found += [*_counted(quiet), line]
            quiet = []
        else:
            quiet.append(line)
    return "".join([*found, *_counted(quiet)])


def _counted(lines: list[str]) -> list[str]:
    if len(lines) < _LINES_MIN:
        return lines
    return [f"[{len(lines)} lines]\n"]
