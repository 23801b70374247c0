"""The GitHub Action: its description, and its script with the real program and local servers."""

import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.e2e.program import AGENT_CLI, KEY, environment
from tests.forked import arguments_of
from tests.messages_api import FakeMessagesApi, reply, serve_in_thread, tool_use

ACTION = Path(__file__).parents[2] / "integrations" / "github-action"
TOKEN = "ghs-canary-77aa"
# After GitHub's "Metadata syntax" for composite actions.
TEXT = {"type": "string", "minLength": 1}
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
SCHEMA = {
    "type": "object",
    "required": ["name", "description", "runs"],
    "additionalProperties": False,
    "properties": {
        "name": TEXT,
        "author": TEXT,
        "description": {**TEXT, "maxLength": 125},
        "branding": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"icon": TEXT, "color": TEXT},
        },
        "inputs": {
            "type": "object",
            "propertyNames": {"pattern": "^[a-z_][a-z0-9_-]*$"},
            "additionalProperties": {
                "type": "object",
                "required": ["description"],
                "additionalProperties": False,
                "properties": {
                    "description": TEXT,
                    "required": {"type": "boolean"},
                    "default": {"type": "string"},
                    "deprecationMessage": TEXT,
                },
            },
        },
        "outputs": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["description", "value"],
                "additionalProperties": False,
                "properties": {"description": TEXT, "value": TEXT},
            },
        },
        "runs": {
            "type": "object",
            "required": ["using", "steps"],
            "additionalProperties": False,
            "properties": {
                "using": {"const": "composite"},
                "steps": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {
                            **dict.fromkeys(("name", "id", "if", "uses", "run", "shell"), TEXT),
                            "env": TEXTS,
                            "with": TEXTS,
                        },
                        "oneOf": [{"required": ["run", "shell"]}, {"required": ["uses"]}],
                    },
                },
            },
        },
    },
}


def action() -> Any:  # Any: YAML
    return yaml.safe_load((ACTION / "action.yml").read_text())


def test_action_description_is_valid_and_its_inputs_are_documented() -> None:
    """Inputs reach commands as variables only: inside a command, an issue's text would run."""
    described = action()

    jsonschema.validate(described, SCHEMA)
    steps = described["runs"]["steps"]
    assert all("${{" not in step.get("run", "") for step in steps)
    used = json.dumps(steps)
    assert [name for name in described["inputs"] if f"inputs.{name}" not in used] == []
    readme = (ACTION / "README.md").read_text()
    assert [name for name in described["inputs"] if f"`{name}`" not in readme] == []


@contextmanager
def github(status: int = 201) -> Generator[tuple[str, list[tuple[str, str, Any]]]]:
    """Serve the parts of GitHub's API that the script needs; yield its address and requests."""
    posted: list[tuple[str, str, Any]] = []

    class Api(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            posted.append((self.path, self.headers["authorization"], body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Api)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", posted
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run(api: FakeMessagesApi | None, **variables: str) -> tuple[int, str, str]:
    """Run the step as the runner does; return its code, its log and its outputs."""
    ask = action()["runs"]["steps"][-1]
    defaults = {name: str(each.get("default", "")) for name, each in action()["inputs"].items()}
    step = {
        name: defaults[text.removeprefix("${{ inputs.").removesuffix(" }}")]
        for name, text in ask["env"].items()
    }
    output = Path("output.txt")
    output.write_text("")
    temporary = Path("temporary").absolute()
    temporary.mkdir(exist_ok=True)
    # The program, as a fork: its imports take most of the time of a step.
    program = Path("bin/agent-cli").absolute()
    program.parent.mkdir(exist_ok=True)
    program.write_text(
        f'#!/bin/sh\nexec {shlex.join([sys.executable, *arguments_of(AGENT_CLI)])} "$@"'
    )
    program.chmod(0o755)
    path = os.pathsep.join(
        [str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    )
    given = {
        **environment(api, {}),
        **step,
        "ANTHROPIC_API_KEY": KEY,
        "ACTION_TOKEN": TOKEN,
        "GITHUB_ACTION_PATH": str(ACTION),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(Path("summary.md").absolute()),
        "GITHUB_REPOSITORY": "someone/project",
        "RUNNER_TEMP": str(temporary),
        "PATH": path,
        **variables,
    }
    ran = subprocess.run(
        ["bash", "-e", "-c", ask["run"]],
        env=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not any(temporary.iterdir())
    return ran.returncode, ran.stdout + ran.stderr, output.read_text()


def test_action_outputs_the_answer_and_posts_it_as_a_comment() -> None:
    """The prompt is passed outside the shell, and no secret goes to a wrong place."""
    prompt = "Look; $(touch pwned) `touch pwned` \"'\n::set-output name=x::y @own.txt"
    Path("own.txt").write_text("the content of a file")
    env = tool_use("bash", {"command": "env; cat /proc/$PPID/cmdline"})
    with serve_in_thread(reply(env), reply("It is\nthe queue.")) as api, github() as (url, posted):
        code, log, outputs = run(
            api,
            ACTION_PROMPT=prompt,
            ACTION_ARGS="--no-mcp\n--permission-mode\nyolo",
            ACTION_COMMENT_ON="7",
            GITHUB_API_URL=url,
        )
        sent = [json.dumps(request.body) for request in api.requests]

    assert (code, posted) == (
        0,
        [
            (
                "/repos/someone/project/issues/7/comments",
                f"Bearer {TOKEN}",
                {"body": "It is\nthe queue."},
            )
        ],
    )
    assert json.dumps(prompt)[1:-1] in sent[0]
    assert "the content of a file" not in sent[0]
    assert not Path("pwned").exists()
    assert "text<<end-" in outputs
    assert "It is\nthe queue.\nend-" in outputs
    assert "exit-code<<" in outputs
    assert Path("summary.md").read_text() == "It is\nthe queue.\n"
    assert [secret for secret in (KEY, TOKEN) if secret in log + outputs + sent[-1]] == []


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"ACTION_PROMPT": " "}, "prompt is empty"),
        ({"ACTION_PROMPT": "x", "ACTION_COMMENT_ON": "1/../2"}, "must be a number"),
        (
            {
                "ACTION_PROMPT": "x",
                "ACTION_TRUST": "true",
                "GITHUB_EVENT_NAME": "pull_request_target",
            },
            "trust: true is refused on pull_request_target",
        ),
        (
            {
                "ACTION_PROMPT": "x",
                "ACTION_TRUST": "true",
                "GITHUB_EVENT_NAME": "issue_comment",
                "GITHUB_EVENT_PATH": "event.json",
            },
            "trust: true is refused on issue_comment",
        ),
    ],
)
def test_unsafe_or_invalid_action_inputs_are_refused(variables: dict[str, str], told: str) -> None:
    """They are refused before any request."""
    Path("event.json").write_text('{"issue": {"number": 1, "pull_request": {}}}')

    code, log, outputs = run(None, **variables)

    assert (code, outputs) == (2, "")
    assert told in log


def test_a_missing_approval_and_a_failed_comment_fail_the_step() -> None:
    """The exit code is 3 as in a shell; the message names the missing permission."""
    write = tool_use("write", {"path": "a", "content": "b"})
    with (
        serve_in_thread(reply(write), reply("No."), reply("Fine.")) as api,
        github(status=403) as (url, _),
    ):
        waits, _, outputs = run(api, ACTION_PROMPT="go", ACTION_PERMISSION_MODE="ask")
        failed, log, _ = run(api, ACTION_PROMPT="go", ACTION_COMMENT_ON="7", GITHUB_API_URL=url)

    assert waits == 3
    assert "exit-code<<" in outputs
    assert failed == 1
    assert "issues: write" in log
