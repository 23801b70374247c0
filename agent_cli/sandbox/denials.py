"""Recognise in the output of a command which access the sandbox denied."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

# Match error codes as whole words: Python's "ModuleNotFoundError" contains "eNotFound".
_READ_ONLY = re.compile(
    r"read-only file ?system|\bEROFS\b"
    r"|^unable to create config file located at",  # hatch, without the reason
    re.IGNORECASE | re.MULTILINE,
)
_NETWORK = re.compile(
    r"network is unreachable|could ?n[o']t resolve (?:host|proxy)"
    r"|temporary failure in name resolution|name or service not known|name resolution"
    r"|failed to establish a new connection|no address associated with hostname"
    r"|connection ?refused|failed to lookup address|cannot assign requested address"
    r"|could(?:n't| not) connect to (?:the )?server"
    r"|\b(?:ENETUNREACH|EAI_AGAIN|ENOTFOUND|ECONNREFUSED)\b",
    re.IGNORECASE,
)
# Lines of programs that look for a host, so that a log which quotes such an error does not count.
_NO_HOST = re.compile(
    r"^(?:curl: \(6\) |wget: unable to resolve |(?:fatal|ssh|error): .*could ?n[o']t resolve host"
    r"|WARNING: Retrying .*(?:name resolution|a new connection)"
    r"|npm (?:err!|error) .*(?:EAI_AGAIN|ENOTFOUND))",
    re.IGNORECASE | re.MULTILINE,
)
_DENIED = re.compile(
    r"permission denied|operation not permitted|\b(?:EACCES|EPERM)\b", re.IGNORECASE
)
_CONNECTING = re.compile(
    r"/dev/(?:tcp|udp)/|\bport \d+|\bconnect(?:ion|ing)?\b|\bsocket\b|\w://|:\d{2,5}\b"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}\b"
    # Python names the file of an error, so an error without a name is a socket's.
    r"|\[Errno 13\] Permission denied>?$",
    re.IGNORECASE,
)
_SIGNING = re.compile(
    r"gpg failed to sign the data|could(?:n't| not) load public key|unable to sign the tag",
    re.IGNORECASE,
)
_HOLDS_KEYS = frozenset({".gnupg", ".ssh"})
_BUSY = re.compile(r"device or resource busy|\bEBUSY\b", re.IGNORECASE)
# Git writes file by file. At one that it may not write, `checkout` goes on, and others stop.
_OF_GIT = re.compile(
    r"^(?:error|warning): (?:unable to (?:unlink old|create file)|(?P<is_gone>unable to unlink"
    r"|failed to remove)) '?(?P<file>[^'\n]+?)'?: (?:read-only file system|permission denied"
    r"|operation not permitted|device or resource busy)",
    re.IGNORECASE | re.MULTILINE,
)
_WENT_ON = re.compile(
    r"^(?:Switched to |HEAD is now at |Fast-forward$|Merge made by )", re.MULTILINE
)
# Up to the next one, or a long command takes minutes.
_GIT = r"\bgit\b(?:(?!\bgit\b)[^|;&\n])*?"
# For an exit code of another program, as in `git pull | tail`, or a git that says little (-q).
_CHECKS_OUT = re.compile(rf"{_GIT} (?:checkout|switch|restore)\b")
_STOPS = re.compile(rf"{_GIT} (?:pull|merge|rebase|stash|cherry-pick|revert|am|apply)\b")
# `git submodule add` and `git checkout --track` end with 0 although they could not write it.
_NOT_CONFIGURED = re.compile(
    r"^error: could not (?:write|lock) config file \S*\.git/", re.MULTILINE
)
# It made the branch, whatever failed behind it, as in `git checkout --track x && make`.
_TRACKS = re.compile(
    rf"{_NOT_CONFIGURED.pattern}.*\n(?:.*\n)?Switched to a new branch ", re.MULTILINE
)
_RUNS_GIT = re.compile(r"\bgit\b")
_FILES_NAMED = 3
NETWORK = "network"
PAST_THE_PROXY = "a connection that does not go through the proxy in HTTPS_PROXY"
_WRITE = "writing here (outside the workspace, or a protected file)"
_PERHAPS_WRITE = "perhaps: a file outside the workspace, or a socket"
WRITES = frozenset({_WRITE, _PERHAPS_WRITE})
_SET_UP = re.compile(r"^bwrap: (.+)", re.MULTILINE)


def denial(
    output: str, *, network: bool, hidden: Sequence[Path], strict: bool, failed: bool = True
) -> str | None:
    """Return the denied access in a few words; None if there is no sign of one.

    Args:
        output: The end of the output of a command.
        network: Whether the command could reach other hosts.
        hidden: The paths that the command could not read.
        strict: Whether the sandbox refuses writes with "permission denied" (Landlock).
        failed: Whether the exit code is not 0. Another program's may hide the code of one that
            reached no host, as in `pip install x | tail`.
    """
    if not failed:
        return NETWORK if not network and _NO_HOST.search(output) else None
    if found := _SET_UP.search(output):
        return f"the command did not start ({found[1]})"
    if _SIGNING.search(output) and any(path.name in _HOLDS_KEYS for path in hidden):
        return "perhaps: the key that signs commits"
    if _READ_ONLY.search(output):
        return _WRITE
    if not network and _NETWORK.search(output):
        return NETWORK
    denied = [line for line in output.splitlines() if _DENIED.search(line)]
    # Landlock refuses a connection, also to this machine, with the words for files.
    if not network and any(map(_CONNECTING.search, denied)):
        return NETWORK
    if denied and any(_names(path, line) for line in denied for path in hidden):
        return "a file that may hold secrets"
    if _BUSY.search(output) and ".git" in output:
        return "a change of git's configuration or hooks"
    if denied and strict:
        return _PERHAPS_WRITE
    return None


def stopped_git(output: str, command: str, *, strict: bool, failed: bool) -> str | None:
    """Return a sentence if git could not write a protected file; the others are as above.

    It says more than `denial`: without the sandbox the command would fail on the files that git
    wrote before it stopped.
    """
    if not (_READ_ONLY.search(output) or _BUSY.search(output) or strict):
        return None
    unwritten = _TRACKS if failed else _NOT_CONFIGURED
    if unwritten.search(output) and _RUNS_GIT.search(command):
        return (
            "blocked by the sandbox: git could not write .git/config, and did the rest, so do not"
            " repeat that git command: where it is needed, `git submodule init` or `git branch"
            " --set-upstream-to=UPSTREAM`, alone, with unsandboxed=true asks the user"
        )
    found = [*_OF_GIT.finditer(output)]
    if not found:
        return None
    # Of `git checkout x && git merge y`, the last one counts.
    went_on = _WENT_ON.search(output, found[-1].end())
    if not failed and not went_on and not _STOPS.search(command):
        went_on = _CHECKS_OUT.search(command)
        if not went_on:
            return None  # a log is shown
    files = {each["file"]: bool(each["is_gone"]) for each in found}
    shown = [*files][:_FILES_NAMED]
    names = " ".join(map(shlex.quote, shown)) + " and more" * (len(files) > len(shown))
    if went_on:
        command = " && ".join(_taking_over({name: files[name] for name in shown}))
        return (
            f"blocked by the sandbox: git left {names} as before, so do not commit that:"
            f" `{command}`, alone, with unsandboxed=true asks the user"
        )
    return (
        f"blocked by the sandbox: git may not write {names}, and stopped half-way: put back what"
        " `git status` shows that it wrote (`git checkout HEAD -- FILE`; delete new files), and"
        " nothing else, then --abort what it shows in progress; only then does it work with"
        " unsandboxed=true, which asks the user"
    )


def _taking_over(files: Mapping[str, bool]) -> Iterator[str]:
    """Yield git commands that make *files* as in the commit, where some are gone."""
    for command, is_gone in (("git checkout HEAD --", False), ("git clean -fx --", True)):
        # Git names them from the top of the repository, wherever it runs.
        if paths := [f":/{name}" for name, gone in files.items() if gone is is_gone]:
            yield f"{command} {shlex.join(paths)}"


def is_refused(output: str) -> bool:
    """Return whether *output* of a read-only command shows any sign of a refused access."""
    signs = (_SET_UP, _READ_ONLY, _NETWORK, _DENIED, _BUSY)
    return any(sign.search(output) for sign in signs)


def _names(path: Path, output: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(path.name)}(?![\w-])", output) is not None


def sentence(blocked: str) -> str:
    """Return the line about a denied access for the model."""
    return f"blocked by the sandbox: {blocked}; call again with unsandboxed=true to ask the user"
