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
    lines = list(lines)
    patterns = [GitIgnoreSpecPattern(line) for line in lines]
    for line, each in zip(lines, patterns, strict=True):
        # By its name: the library does not say whether its expressions are of text or bytes.
        found: re.Pattern[str] | None = getattr(each, "regex", None)
        if found is not None:  # else it is a comment or a blank line
            names = "".join(_atomic(found.pattern))
            if of_files and _ENDS_WILD.search(line):
                names = names.replace(_FOLDER_OR_FILE, "$")
            # A name may hold a newline, which a dot of the library does not match.
            each.regex = re.compile("".join(_in_one_pass(names)), re.DOTALL)
    return GitIgnoreSpec(patterns)


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
    is_class = found[0].startswith("[") and found[0] != _ONE
    return f"{_NO_SLASH}{found[0]}" if is_class else found[0]


def _without_classes(text: str) -> str:
    return _CLASSES.sub("", text.replace(_NO_SLASH, ""))
