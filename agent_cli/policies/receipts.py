"""Receipts of checks: which tests and linters ran, what they counted, and on which files.

A command counts as a check by what it printed, the summary of a known tool, and not by its name:
`make test` is one, `pytest --version` none. Where the summary may come from elsewhere, such as a
log that `cat` shows, there is no receipt; no receipt says that anybody is wrong. It stands in the
details of the call, so it is recorded, resumed and forked with the conversation.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter, ValidationError

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json, Prompt, Success, ToolOutput
from agent_cli.contracts.tooling import ToolResult
from agent_cli.contracts.wording import counted, one_line
from agent_cli.policies.decisions import WRITERS
from agent_cli.policies.permission_rules import command_of
from agent_cli.policies.shell.starters import STARTERS, base_name
from agent_cli.policies.shell.syntax import descendants, source, syntax_tree
from agent_cli.system.records import dataclass

if TYPE_CHECKING:
    from tree_sitter import Node

RECEIPT: Final = "check"
"""The key of a receipt in the details of a call."""
_COMMAND_CHARS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One run of a check.

    Attributes:
        command: As the model wrote it.
        tools: The tools whose summaries it printed, such as "pytest".
        counts: Their figures, such as {"passed": 412}; none where they are not sure.
        exit_code: That of the check; None where it may be another program's.
        tree: A digest of the files after it; "" if it is unknown, or not sure what was checked.
        edits_since: How many edits followed.
        is_final: Whether the files are still those that were checked; None if that is not known.
    """

    command: str
    tools: tuple[str, ...]
    counts: Mapping[str, int]
    exit_code: int | None
    tree: str = ""
    edits_since: int = 0
    is_final: bool | None = None

    def to_json(self) -> dict[str, Json]:
        """Return the receipt as scripts read it."""
        return {
            "command": self.command,
            "tools": [*self.tools],
            "counts": {**self.counts},
            "exit_code": self.exit_code,
            "edits_since": self.edits_since,
            "is_final": self.is_final,
        }

    def line(self) -> str:
        """Return it as a person reads it."""
        has_failed = any(self.counts.get(name) for name in ("failed", "errors"))
        found = [_shown(name, self.counts[name]) for name in _SHOWN if self.counts.get(name)]
        if "ran" in self.counts and not has_failed:
            found.append("none failed")
        elif self.counts.get("errors") == 0 and not has_failed:
            found.insert(0, "no errors")
        if self.exit_code is not None and (not found or (self.exit_code and not has_failed)):
            found.append(f"exit {self.exit_code}")
        state = ""
        if self.edits_since:
            state = f"{counted(self.edits_since, 'edit')} ago"
        elif self.is_final is not None:
            state = "on the final state" if self.is_final else "files changed since"
        command = one_line(_FILTERED.sub("", _MOVED.sub("", self.command)), _COMMAND_CHARS)
        return " · ".join(filter(None, (command, ", ".join(found), state)))


async def with_receipt(
    call: ToolCall, result: ToolResult, tree: Callable[[int | None], Awaitable[str]]
) -> ToolResult:
    """Return *result* with the receipt of its command in its details, if that was a check.

    Args:
        tree: Returns a digest of the files; "" if it is unknown, or if one was changed since that
            time of `file_time_ns`, where one is given.
    """
    details = result.details
    code = details.get("exit_code") if isinstance(details, dict) else None
    if not isinstance(details, dict) or not isinstance(code, int):
        return result
    command = command_of(call)
    receipt = receipt_of(command, result.text, code)
    if receipt is None:
        return result
    since_ns, began_ns = None, details.get("began_ns")
    if isinstance(began_ns, int) and (_programs(command) != 1 or _writes_files(command)):
        # One of several programs may have changed what another had checked before.
        since_ns = began_ns
    receipt = replace(receipt, tree=await tree(since_ns))
    return replace(
        result, details={**details, RECEIPT: {**receipt.to_json(), "tree": receipt.tree}}
    )


def receipt_of(command: str, output: str, exit_code: int) -> Receipt | None:
    """Return the receipt of a command that ended; None unless it surely was a check.

    Args:
        output: What it printed, perhaps folded or without its middle.
    """
    text = _OUTCOME_BELOW.sub(r"\1 ", _ESCAPE.sub("", output))
    lines = [line.strip() for line in text.splitlines()]
    found = {
        tool: matches
        for tool, summary in _SUMMARIES.items()
        if (matches := [*filter(None, map(summary.fullmatch, lines))])
    }
    if not found or any(match[0] in command for all_ in found.values() for match in all_):
        return None
    programs = _programs(command)
    if programs is None:
        return None
    is_cut = _LEFT_OUT.search(output) is not None
    counts: dict[str, int] = {}
    for tool, matches in found.items():
        # Run twice, as with --lf, it is not sure which figures count.
        if len(matches) == 1 or (tool in _ONE_EACH and not is_cut):
            for name, number in _figures(matches):
                counts[name] = counts.get(name, 0) + number
    is_own = programs == 1 and _OTHERS_CODE.search(command) is None
    if not counts and not is_own:
        return None
    own_code = exit_code if is_own else None
    return Receipt(command=command, tools=tuple(found), counts=counts, exit_code=own_code)


def receipts(prompts: Sequence[Prompt], tree: str) -> list[Receipt]:
    """Return the last receipt of each kind in the last run that has one.

    Args:
        tree: A digest of the files now; "" if it is unknown.
    """
    found: dict[tuple[str, ...], Receipt] = {}
    edits = 0
    for prompt in reversed(prompts):
        for output in reversed(_done(prompt)):
            receipt = _recorded(output)
            if receipt is not None and receipt.tools not in found:
                is_final = tree == receipt.tree if tree and receipt.tree else None
                found[receipt.tools] = replace(receipt, edits_since=edits, is_final=is_final)
            edits += output.name in WRITERS
        if found:
            break
    return [*reversed(found.values())]


def has_changed_files(prompt: Prompt) -> bool:
    """Return whether a call of *prompt* is known to have changed files."""
    return any(
        output.name in WRITERS or "changed_count" in _details(output) for output in _done(prompt)
    )


def _done(prompt: Prompt) -> list[ToolOutput]:
    """Return the calls of *prompt* that were successful."""
    calls = (output for output in prompt.output if isinstance(output, ToolOutput))
    return [call for call in calls if isinstance(call.result, Success)]


def _details(call: ToolOutput) -> Mapping[str, Json]:
    details = call.result.details if isinstance(call.result, Success) else None
    return details if isinstance(details, Mapping) else {}


def _recorded(call: ToolOutput) -> Receipt | None:
    data = _details(call).get(RECEIPT)
    if data is None:
        return None
    try:
        return TypeAdapter(Receipt).validate_python(data)
    except ValidationError:  # of a later version
        return None


def _programs(script: str) -> int | None:
    """Return how many programs of *script* do something; None if they may show others' words.

    What stands behind a pipe only passes on what it reads. Programs that show files, logs or what
    happens elsewhere may print the summary of a check that ran at another time.
    """
    tree = syntax_tree(script)
    if tree.has_error:
        return None
    count = 0
    for node in descendants(tree):
        if node.type != "command":
            continue
        words = [source(each) for each in node.named_children if each.type not in _NO_WORDS]
        head, *rest = words or ["?"]
        name = base_name(head)
        if _is_fed(node):
            if name not in _FILTERS:
                return None
        elif name not in _SILENT:
            if not _PROGRAM.fullmatch(head) or _shows_others_words(name, rest):
                return None
            count += 1
    return count


def _shows_others_words(name: str, rest: Sequence[str]) -> bool:
    if name in _TELLERS or (name in STARTERS and not _TELLERS.isdisjoint(rest)):
        return True
    if name == "git":
        return not _TELLING_GIT.isdisjoint(rest)
    runs_text = not rest or rest[0] in ("-", "-c", "-e", "-p", "-lc", "--eval", "--print")
    return _INTERPRETER.fullmatch(name) is not None and runs_text


def _writes_files(script: str) -> bool:
    """Return whether output of *script* goes to files; `echo` is silent, but `echo > a.py` is not.

    Nothing is written by `> /dev/null` and `2>&1`.
    """
    redirects = (each for each in descendants(syntax_tree(script)) if each.type == "file_redirect")
    return any(_REDIRECT.fullmatch(source(each)) is None for each in redirects)


def _is_fed(node: "Node") -> bool:
    """Return whether a pipe leads to *node*."""
    while (parent := node.parent) is not None:
        if parent.type == "pipeline" and parent.named_children[0] != node:
            return True
        node = parent
    return False


def _figures(matches: Sequence[re.Match[str]]) -> Iterator[tuple[str, int]]:
    """Yield the figures of summaries: of a list such as `3 failed, 409 passed`, or of groups."""
    for match in matches:
        groups = match.groupdict()
        for number, name in _LISTED.findall(groups.pop("listed", None) or ""):
            yield "errors" if name == "error" else name, int(number)
        for name, text in groups.items():
            if text is not None:
                yield name.rstrip("_"), int(text) if text.isdecimal() else 0


def _shown(name: str, number: int) -> str:
    if name == "errors":
        return counted(number, "error")
    return counted(number, "test") if name == "ran" else f"{number:,} {name}"


_SHOWN: Final = ("failed", "errors", "passed", "ran")
_LISTED: Final = re.compile(r"(\d+) (failed|passed|errors?)\b")
_SUMMARIES: Final = {
    "pytest": re.compile(
        r"(?:=+ )?(?=.*\b(?:passed|failed|errors?)\b)"
        r"(?P<listed>(?:\d+ (?:subtests )?[a-z]+(?:, )?)+)"
        r" in [\d.]+s(?: \([\d:]+\))?(?: =+)?"
    ),
    "unittest": re.compile(
        r"Ran (?P<ran>\d+) tests? in [\d.]+s (?:(?P<failed_>OK)(?: \(.*\))?"
        r"|FAILED \((?:failures=(?P<failed>\d+))?(?:, )?(?:errors=(?P<errors>\d+))?.*\))"
    ),
    "jest": re.compile(r"Tests: +(?P<listed>(?:\d+ (?:failed|skipped|todo|passed), )+)\d+ total"),
    "vitest": re.compile(r"Tests +(?P<listed>\d+ (?:failed|passed)(?: \| \d+ [a-z]+)*) \(\d+\)"),
    "cargo test": re.compile(
        r"test result: (?:ok|FAILED)\. (?P<listed>\d+ passed; \d+ failed); \d+ ignored; .*"
    ),
    "go test": re.compile(r"(?:ok {2}|FAIL)\t\S+(?:\t| \[).+"),
    "rspec": re.compile(r"(?P<ran>\d+) examples?, (?P<failed>\d+) failures?(?:, \d+ pending)?"),
    "phpunit": re.compile(
        r"OK \((?P<passed>\d+) tests?, \d+ assertions?\)"
        r"|Tests: (?P<ran>\d+), Assertions: \d+(?:, Errors: (?P<errors>\d+))?"
        r"(?:, Failures: (?P<failed>\d+))?(?:, [A-Z][A-Za-z ]+: \d+)*\."
    ),
    "maven": re.compile(
        r"\[(?:INFO|ERROR|WARNING)\] Tests run: (?P<ran>\d+), Failures: (?P<failed>\d+),"
        r" Errors: (?P<errors>\d+), Skipped: \d+"
    ),
    "ruff": re.compile(
        r"(?P<errors_>All checks passed!)"
        r"|Found (?:\d+ errors? \(\d+ fixed, )?(?P<errors>\d+) (?:errors?|remaining\))\."
    ),
    "mypy": re.compile(
        r"(?P<errors_>Success: no issues found) in \d+ source files?"
        r"|Found (?P<errors>\d+) errors? in \d+ files? \([^()]+\)"
    ),
    "pyright": re.compile(r"(?P<errors>\d+) errors?, \d+ warnings?, \d+ informations?"),
    "tsc": re.compile(r"Found (?P<errors>\d+) errors? in (?:\d+ files\.|\S+:\d+)"),
    "eslint": re.compile(r"✖ \d+ problems? \((?P<errors>\d+) errors?, \d+ warnings?\)"),
    "rubocop": re.compile(
        r"\d+ files? inspected, (?:(?P<errors_>no)|(?P<errors>\d+)) offenses? detected"
    ),
}
"""The line with which each tool ends. A tool whose success is silent cannot be known by it."""
_ONE_EACH: Final = frozenset({"cargo test"})
"""Tools that print one summary for each program or package, so that these add up."""

_ESCAPE: Final = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_OUTCOME_BELOW: Final = re.compile(r"(Ran \d+ tests? in [\d.]+s)\s*\n\s*")  # of unittest
_LEFT_OUT: Final = re.compile(r"^\[… [\d,]+ (?:of [\d,]+ )?characters left out", re.MULTILINE)
_OTHERS_CODE: Final = re.compile(r"[|;\n]|(?:^|[\s&])!\s")
_MOVED: Final = re.compile(r"\A\s*cd [^;&|\n]+ && ")
_FILTERED: Final = re.compile(
    r"(?<!\s)(?:\s*2>&1)?(?:\s*\|\s*(?:tail|head)(?: -\S+)*(?: \d+)?)?\s*\Z"
)
_NO_WORDS: Final = frozenset({"variable_assignment", "file_redirect", "herestring_redirect"})
_PROGRAM: Final = re.compile(r"[\w./@+~-]+")
_INTERPRETER: Final = re.compile(
    r"(?:python|node|perl|ruby|php|lua|deno|bun)[\d.]*|(?:ba|da|z|k)?sh|fish"
)
_FILTERS: Final = frozenset({"tail", "head", "grep", "egrep", "rg", "tee", "cat", "ts"})
_REDIRECT: Final = re.compile(r"\d*(<.*|>&\s*[\d-]+|(&>|>)>?\s*/dev/null)", re.DOTALL)
"""A redirection that writes no file."""
_SILENT: Final = frozenset(
    {
        *("cd", "echo", "printf", "pwd", "export", "set", "source", ".", "true", ":", "test", "["),
        *("mkdir", "sleep", "wait", "ulimit", "exit", "date", "ls"),
    }
)
_TELLERS: Final = frozenset(
    {
        *("cat", "tac", "nl", "head", "tail", "less", "more", "bat", "strings", "diff", "xxd"),
        *("grep", "egrep", "fgrep", "zgrep", "zcat", "rg", "ag", "ack", "sed", "awk", "gawk"),
        *("jq", "yq", "sort", "uniq", "cut", "tr", "paste", "column", "base64", "dd", "tee"),
        *("gh", "glab", "curl", "wget", "http", "ssh", "kubectl", "docker", "podman"),
        *("journalctl", "tmux", "screen", "script", "eval", "agent-cli"),
    }
)
"""Programs that show what is written elsewhere, or that run something on another machine."""
_TELLING_GIT: Final = frozenset(
    {"log", "show", "diff", "grep", "blame", "cat-file", "reflog", "notes", "stash", "bisect"}
)
