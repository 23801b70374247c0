"""Patterns for paths, as `.gitignore` means them, matched in a time that no pattern can stretch.

The library's expressions try each way to spread the text over the stars of a name, so that
`*a*a*a*a*a*b` takes seconds, and over the `**` of a path. Only the last star of a name, and the
last `**`, has a choice: an earlier one may stop at the first place where the text behind it fits,
and never needs to look back.
"""

import re
from collections.abc import Iterable, Iterator

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

_STAR = "[^/]*"
_ONE = "[^/]"
_NO_SLASH = "(?!/)"
# What the library writes for `**`, and what takes as few folders as possible.
_FOLDERS = {"(?:.+/)?": "(?:[^/]+/)*?", "(?:/.+)?": "(?:/[^/]+)*?"}
_ANY_FOLDERS = re.compile(f"({'|'.join(map(re.escape, _FOLDERS))})")
# What the library writes at the end of a name: of a folder, then of a file.
_FOLDER_OR_FILE = "(?:(?P<ps_d>/)|$)"
_ENDS_WILD = re.compile(r"[*?][^/]*\Z")
_CLASSES = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")


def path_patterns(lines: Iterable[str], *, of_files: bool = False) -> GitIgnoreSpec:
    """Return the matcher of *lines*.

    Args:
        lines: The patterns.
        of_files: Whether `src/*` names files only, and none in the folders of `src`.

    Raises:
        ValueError: One is no pattern.
        re.error: The same.
    """
    return GitIgnoreSpec([_pattern(line, of_files=of_files) for line in lines])


def _pattern(line: str, *, of_files: bool) -> GitIgnoreSpecPattern:
    regex, include = GitIgnoreSpecPattern.pattern_to_regex(line)
    if regex is None:  # a comment or a blank line
        return GitIgnoreSpecPattern(None)
    names = "".join(_atomic(regex))
    if of_files and _ENDS_WILD.search(line):
        names = names.replace(_FOLDER_OR_FILE, "$")
    # A name may hold a newline, which a dot of the library does not match.
    return GitIgnoreSpecPattern(re.compile("".join(_in_one_pass(names)), re.DOTALL), include)


def _atomic(regex: str) -> Iterator[str]:
    """Yield *regex* with each star but the last of a name, and the text behind it, as one atom.

    As in git, but not in the library, a class such as [!a] matches no slash.
    """
    first, *behind = _CLASSES.sub(_within_name, regex).split(_STAR)
    yield first
    for at, text in enumerate(behind, 1):
        if not text and at < len(behind):
            continue  # another star follows: the two match what one matches
        is_within_name = text and not re.search(r"[/(|)]", _without_classes(text))
        if is_within_name and at < len(behind):
            yield f"(?>{_STAR}?{text})"
        else:
            yield _STAR + text


def _in_one_pass(regex: str) -> Iterator[str]:
    """Yield *regex* with each `**` but the last, and the names behind it, as one atom."""
    first, *behind = _ANY_FOLDERS.split(regex)
    yield first
    for at in range(0, len(behind), 2):
        folders, names = behind[at], behind[at + 1]
        is_last = at + 2 == len(behind)
        yield folders + names if is_last else f"(?>{_FOLDERS[folders]}{names}(?=/))"


def _within_name(found: re.Match[str]) -> str:
    if not found[0].startswith("[") or found[0] == _ONE:
        return found[0]
    # Python warns of a class with a bracket, as in `[[...slug]].tsx`, unless that is escaped.
    return f"{_NO_SLASH}[{found[0][1:].replace('[', chr(92) + '[')}"


def _without_classes(text: str) -> str:
    return _CLASSES.sub("", text.replace(_NO_SLASH, ""))
