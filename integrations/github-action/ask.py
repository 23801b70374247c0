"""The script of the action: ask agent-cli, hand its answer on, comment with it where asked to.

Standard library only. Inputs come in variables (action.yml); nothing secret is ever an argument,
and agent-cli gets neither the inputs nor the token of the workflow.
"""

import json
import os
import secrets
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

COMMENT_CHARS_MAX = 60_000
COMMENT_LIMIT_S = 30
FAILED, USAGE = 1, 2
# Whoever opens a pull request from a fork writes what would be trusted.
UNTRUSTED_EVENTS = frozenset({"pull_request_target", "workflow_run"})
KEPT_BACK = ("ACTION_", "GITHUB_TOKEN", "GH_TOKEN", "ACTIONS_")


def main(environment: Mapping[str, str]) -> int:
    """Run the action; return what agent-cli returned, or why it was not asked."""
    wanted = {
        name.removeprefix("ACTION_"): value
        for name, value in environment.items()
        if name.startswith("ACTION_")
    }
    number = wanted.get("COMMENT_ON", "").strip()
    if number and not (number.isascii() and number.isdecimal()):
        return refuse(f"comment-on must be a number, not {number!r}")
    if not wanted.get("PROMPT", "").strip():
        return refuse("the input prompt is empty")
    trusts = wanted.get("TRUST", "").strip().lower() == "true"
    if trusts and (
        environment.get("GITHUB_EVENT_NAME") in UNTRUSTED_EVENTS
        or is_about_pull_request(environment)
    ):
        return refuse(
            f"trust: true is refused on {environment['GITHUB_EVENT_NAME']}: the files may be a"
            " stranger's; use the event pull_request, or leave trust out"
        )
    result = asked(wanted, environment, trusts=trusts)
    text = str(result.get("text") or "")
    hand_on(result, text, environment)
    code = int(result.get("exit_code", FAILED))
    if number and text and not comment(text, number, wanted.get("TOKEN", ""), environment):
        return code or FAILED
    return code


def is_about_pull_request(environment: Mapping[str, str]) -> bool:
    """Return whether somebody commented on a pull request, whose files a workflow may check out."""
    if environment.get("GITHUB_EVENT_NAME") != "issue_comment":
        return False
    try:
        event = json.loads(Path(environment["GITHUB_EVENT_PATH"]).read_bytes())
        return "pull_request" in event["issue"]
    except (OSError, ValueError, LookupError, TypeError):
        return True


def refuse(sentence: str) -> int:
    """Say why nothing was asked."""
    sys.stdout.write(f"::error title=agent-cli::{sentence}\n")
    return USAGE


def asked(
    wanted: Mapping[str, str], environment: Mapping[str, str], *, trusts: bool
) -> dict[str, Any]:
    """Return the result of the run; no shell and no list of processes sees the prompt."""
    kept = {name: value for name, value in environment.items() if not name.startswith(KEPT_BACK)}
    with tempfile.TemporaryDirectory(dir=environment.get("RUNNER_TEMP")) as folder:
        prompt = Path(folder, "prompt.txt")
        prompt.write_text(wanted["PROMPT"], encoding="utf-8")
        command = [
            *("agent-cli", "--prompt-file", str(prompt), "--output-format", "json"),
            *("--permission-mode", wanted.get("PERMISSION_MODE") or "plan"),
            *("--max-cost", wanted.get("MAX_COST") or "1"),
            "--no-attach",  # whoever writes an issue must not choose files; --attach in args does
            *("--time-limit", wanted.get("TIME_LIMIT") or "900"),
            *(("--trust",) if trusts else ()),
            *filter(None, map(str.strip, wanted.get("ARGS", "").splitlines())),
        ]
        ran = subprocess.run(command, env=kept, stdout=subprocess.PIPE, text=True, check=False)
    lines = ran.stdout.strip().splitlines()
    try:
        result = json.loads(lines[-1] if lines else "")
    except ValueError:
        result = None
    return result if isinstance(result, dict) else {"exit_code": ran.returncode or FAILED}


def hand_on(result: Mapping[str, Any], text: str, environment: Mapping[str, str]) -> None:
    """Set the step's outputs and its summary."""
    outputs = {
        "text": text,
        "exit-code": str(result.get("exit_code", FAILED)),
        "cost-usd": "" if result.get("cost_usd") is None else str(result["cost_usd"]),
        "session-id": str(result.get("session_id") or ""),
    }
    # Whoever writes the text must not guess where it ends, or it would set outputs of its own.
    mark = f"end-{secrets.token_hex(16)}"
    lines = [f"{name}<<{mark}\n{value}\n{mark}\n" for name, value in outputs.items()]
    append(environment.get("GITHUB_OUTPUT"), "".join(lines))
    append(environment.get("GITHUB_STEP_SUMMARY"), f"{text}\n")


def append(file: str | None, text: str) -> None:
    """Add *text* to one of the runner's files, if there is such a file."""
    if file:
        with Path(file).open("a", encoding="utf-8") as stream:
            stream.write(text)


def comment(text: str, number: str, token: str, environment: Mapping[str, str]) -> bool:
    """Comment on an issue or pull request; return whether that worked."""
    if len(text) > COMMENT_CHARS_MAX:
        text = f"{text[:COMMENT_CHARS_MAX]}\n\n… (cut; the step's summary has all of it)"
    api = environment.get("GITHUB_API_URL", "https://api.github.com")
    request = urllib.request.Request(
        f"{api}/repos/{environment.get('GITHUB_REPOSITORY', '')}/issues/{number}/comments",
        data=json.dumps({"body": text}).encode(),
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
        },
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=COMMENT_LIMIT_S):
            return True
    except (urllib.error.URLError, OSError, ValueError) as error:
        sys.stdout.write(
            f"::error title=agent-cli::the comment could not be written ({error}); the job needs"
            " `permissions: issues: write`, or `pull-requests: write` for pull requests\n"
        )
        return False


if __name__ == "__main__":
    sys.exit(main(os.environ))
