"""Hooks around the questions of MCP servers: they answer in place of the user, or after them."""

import json
import sys
from pathlib import Path
from typing import Any, cast

from agent_cli.contracts.timeline import Json
from tests.acp.test_server_questions import ALL, FULL_SERVER
from tests.acp.test_server_questions import results_of as results_in_editor
from tests.forked import arguments_of
from tests.hooks.test_scripts import YOLO, bash, command, hooks, printed, result_of
from tests.messages_api import reply, tool_use

USER_SAYS = {"action": "accept", "content": {"colour": "blue", "count": 2}}


def saying(event: str, action: str, content: Json = None) -> list[Json]:
    """Return hooks that record the event and answer it."""
    specific: Json = {"hookEventName": event, "action": action, "content": content or {}}
    answer = json.dumps({"hookSpecificOutput": specific})
    return command(f"cat > {event}.json; echo '{answer}'", "full|other")


def payload(event: str) -> dict[str, Json]:
    found: dict[str, Json] = json.loads(Path(f"{event}.json").read_text())
    return found


def full_server() -> None:
    """Write the configuration of the server, for `--mcp-config`."""
    full = {"command": sys.executable, "args": arguments_of(str(FULL_SERVER), "stdio")}
    Path("servers.json").write_text(json.dumps({"mcpServers": {"full": full}}))


def in_turn(*answers: list[Json]) -> list[Json]:
    """Return hooks that answer the first question as the first *answers* do, and so on."""
    for number, [group] in enumerate(answers, 1):
        [hook] = cast("Any", group)["hooks"]
        Path(f"answer{number}").write_text(hook["command"])
    return command("echo >> asked; . ./answer$(wc -l < asked)", "full|other")


def test_hook_answers_a_server_where_there_is_no_user() -> None:
    """What a hook says that cannot be used declines, with a sentence."""
    accepted = "accept: {'colour': 'green', 'count': 7}"
    expected = {
        accepted: saying("Elicitation", "accept", {"count": 7}),
        "cancel: None": saying("Elicitation", "cancel"),
    }
    declined = {
        "not on a Friday": command("echo 'not on a Friday' >&2; exit 2"),
        "does not fit": saying("Elicitation", "accept", {"count": "x"}),
        "action must be accept, decline or": saying("Elicitation", "perhaps"),
    }
    hooks(None, Elicitation=in_turn(*expected.values(), *declined.values()))
    full_server()

    run, requests = printed(
        *[reply(tool_use("mcp__full__ask", {}))] * 5,
        arguments=(*YOLO, "--mcp-config", "servers.json"),
    )

    results = [result_of(requests, number) for number in range(1, 6)]
    assert run.code == 0, run.stderr
    assert results == [*expected, *["decline: None"] * 3], run.stderr
    assert [told for told in declined if run.stderr.count(told) != 1] == []
    asked = payload("Elicitation")
    assert (asked["mcp_server_name"], asked["mode"]) == ("full", "form")
    assert "count" in str(asked["requested_schema"])


def test_two_answers_of_hooks_to_a_question_decline() -> None:
    seven, eight = (saying("Elicitation", "accept", {"count": count}) for count in (7, 8))
    hooks(None, Elicitation=[*seven, *eight])
    full_server()

    run, requests = printed(
        reply(tool_use("mcp__full__ask", {})), arguments=(*YOLO, "--mcp-config", "servers.json")
    )

    assert (run.code, result_of(requests)) == (0, "decline: None"), run.stderr
    assert "two hooks answer this question differently" in run.stderr


def test_hooks_of_a_question_do_not_wait_for_the_hooks_that_caused_it() -> None:
    """As many hooks call the server as may at once, and each call asks a question."""
    calls: list[Json] = [
        {"type": "mcp_tool", "server": "full", "tool": "ask", "timeout": 20 + number}
        for number in range(12)
    ]
    asked: Json = {"type": "mcp_tool", "server": "full", "tool": "where"}
    hooks(
        None,
        PostToolUse=[{"matcher": "Bash", "hooks": calls}],
        Elicitation=[*saying("Elicitation", "cancel"), {"hooks": [asked]}],
    )
    full_server()

    run, _ = printed(reply(bash("ls")), arguments=(*YOLO, "--mcp-config", "servers.json"))

    assert run.code == 0
    assert "longer than" not in run.stderr


async def test_hook_has_the_last_word_on_the_users_answer() -> None:
    """One that cannot run lets nothing pass: it may be there to hold secrets back."""
    expected = {
        "accept: {'colour': 'green', 'count': 9}": saying(
            "ElicitationResult", "accept", {"count": 9}
        ),
        "accept: {'colour': 'blue', 'count': 2}": command("cat > passed.json"),
        "decline: None": command("echo no >&2; exit 2"),
        "decline: None (cannot run)": command("/missing/filter"),
    }
    hooks(
        None,
        ElicitationResult=in_turn(*expected.values()),
        Notification=command("(cat; echo) >> notifications.jsonl", "elicitation_dialog"),
    )

    results = await results_in_editor("ask", capabilities=ALL, forms=(USER_SAYS,) * len(expected))

    assert results == [each.removesuffix(" (cannot run)") for each in expected]
    notified = [json.loads(line) for line in Path("notifications.jsonl").read_text().splitlines()]
    assert ["full" in str(each["message"]) for each in notified] == [True] * len(expected)
    for name in ("ElicitationResult", "passed"):
        given = payload(name)
        assert (given["action"], given["content"]) == ("accept", USER_SAYS["content"])
