"""Sessions of Claude Code and Codex: listed, searched, shown, and gone on with in a copy."""

import json
from pathlib import Path

import pytest

from agent_cli.contracts.timeline import Block, Json, text_block
from agent_cli.foreign_sessions.timeline import UserRecord, prompts_of
from tests.e2e.program import agent_cli
from tests.messages_api import reply, serve_in_thread

CLAUDE_ID = "0f5a1c1e-0000-4000-8000-000000000001"
CODEX_ID = "0f5a1c1e-0000-7000-8000-000000000002"
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def claude_line(number: int, kind: str, content: Json, *, after: int, **more: Json) -> Json:
    message: Json = {"role": kind, "content": content, **({"id": "m1"} if more.get("m") else {})}
    return {
        "type": kind,
        "uuid": f"u{number}",
        "parentUuid": f"u{after}" if after else None,
        "cwd": "/old/place",
        "timestamp": "2026-11-01T10:00:00.000Z",
        "message": message,
        **more,
    }


def call(id: str, name: str) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": {"x": 1}}


def result(id: str, content: Json, **more: Json) -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


IMAGE: Json = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": PNG},
}
THINKING: Json = {"type": "thinking", "thinking": "hm", "signature": "of another request"}
# The first call's result hangs beside the chain, one call has none, and an agent talks beside it.
CLAUDE: list[Json] = [
    {"type": "queue-operation", "operation": "enqueue"},
    claude_line(1, "user", "Count the <b>zebras</b>", after=0),
    claude_line(2, "assistant", [THINKING], after=1, m=1),
    claude_line(3, "assistant", [call("t1", "Mcp.Tool/odd")], after=2, m=1),
    claude_line(4, "user", [result("t1", [{"type": "tool_reference"}, IMAGE])], after=3),
    claude_line(5, "assistant", [call("t2", "Bash")], after=3, m=1),
    claude_line(6, "user", [result("t2", "", is_error=True)], after=5),
    claude_line(7, "assistant", [call("bad id!", "Read")], after=6),
    claude_line(8, "user", "taken back", after=6),
    claude_line(9, "user", [{"type": "text", "text": "from the agent"}], after=1, isSidechain=True),
    claude_line(
        10, "user", "<command-name>/ship</command-name><command-args>x</command-args>", after=7
    ),
    claude_line(11, "assistant", [{"type": "text", "text": "Seven zebras."}], after=10),
]
SUMMARY: list[Json] = [
    {"type": "system", "uuid": "u12", "parentUuid": None, "logicalParentUuid": "u11"},
    claude_line(13, "user", "There were seven.", after=12, isCompactSummary=True),
    claude_line(14, "user", "And lions?", after=13),
    claude_line(15, "assistant", [{"type": "text", "text": "None."}], after=14),
]


def codex_line(payload: Json, kind: str = "response_item") -> Json:
    return {"timestamp": "2026-11-02T10:00:00.000Z", "type": kind, "payload": payload}


def codex_said(role: str, text: str) -> Json:
    return codex_line(
        {"type": "message", "role": role, "content": [{"type": "text", "text": text}]}
    )


CODEX: list[Json] = [
    codex_line({"id": CODEX_ID, "cwd": "/old/other"}, "session_meta"),
    codex_said("developer", "be good"),
    codex_said("user", "<environment_context>x</environment_context>"),
    codex_said("user", "Count the okapis"),
    codex_line({"type": "reasoning", "encrypted_content": "abc"}),
    codex_line({"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{bad"}),
    codex_line({"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "+a"}),
    codex_line({"type": "function_call_output", "call_id": "c1", "output": "one okapi"}),
    codex_said("assistant", "One."),
    codex_said("user", "taken back"),
    codex_line({"type": "thread_rolled_back", "num_turns": 1}, "event_msg"),
]


def write(path: Path, lines: list[Json]) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, lines)) + '\n{"torn": ')
    return path.read_bytes()


@pytest.fixture(autouse=True)
def files() -> dict[Path, bytes]:
    claude = Path.home() / ".claude" / "projects" / "-old-place" / f"{CLAUDE_ID}.jsonl"
    codex = (
        Path.home() / ".codex/sessions/2026/11/02" / f"rollout-2026-11-02T10-00-00-{CODEX_ID}.jsonl"
    )
    return {claude: write(claude, CLAUDE), codex: write(codex, CODEX)}


@pytest.mark.parametrize(
    ("id", "lines", "holds", "lacks"),
    [
        (
            CLAUDE_ID,
            CLAUDE,
            ["Seven zebras.", "/ship x", "Mcp_Tool_odd", PNG],
            ["hm", "taken back"],
        ),
        (CLAUDE_ID, [*CLAUDE, *SUMMARY], ["There were seven.", "None."], ["Seven zebras."]),
        (CLAUDE_ID, [CLAUDE[1], *CLAUDE[3:]], ["Count the <b>zebras</b>", PNG], ["taken back"]),
        (CODEX_ID, CODEX, ["One.", "one okapi", "apply_patch"], ["taken back", "be good", "abc"]),
    ],
    ids=["claude", "claude-summarised", "claude-with-a-lost-line", "codex"],
)
def test_session_is_gone_on_with_in_a_copy(
    id: str, lines: list[Json], holds: list[str], lacks: list[str], files: dict[Path, bytes]
) -> None:
    """The strict server takes the request; the other program's file stays as it is."""
    path = next(path for path in files if id in path.name)
    before = write(path, lines)
    with serve_in_thread(reply("Yes.")) as api:
        missing = agent_cli("-r", "ffff", "-p", "Go on", api=api)
        run = agent_cli("-r", id, "-p", "Go on", api=api)
    sent = json.dumps(api.requests[0].body["messages"])
    again = json.loads(agent_cli("sessions", "list", "--json").stdout)

    assert "'ffff' does not exist" in missing.stderr
    assert (run.code, api.refusals) == (0, []), run.stderr
    for text in holds:
        assert text in sent
    for text in (*lacks, "from the agent", "of another request"):
        assert text not in sent
    assert path.read_bytes() == before
    assert [each["id"] != id for each in again] == [True]


def test_a_prompt_that_quotes_a_command_of_claude_code_is_kept_whole(
    files: dict[Path, bytes],
) -> None:
    """Only the program writes a line that begins with such a tag."""
    prompt = "Why is <command-name>/ship</command-name> in my log?"
    path = next(path for path in files if CLAUDE_ID in path.name)
    write(path, [claude_line(1, "user", prompt, after=0)])

    shown = agent_cli("sessions", "show", CLAUDE_ID)

    assert f"you> {prompt}" in shown.stdout


def test_what_codex_adds_to_a_prompt_is_no_title(files: dict[Path, bytes]) -> None:
    """Its extensions name the open files before each prompt; they stay for the model."""
    wrapped = (
        "# Context from my IDE setup:\n\n## Active file: a.py\n\n## My request for Codex:\nFix it"
    )
    path = next(path for path in files if CODEX_ID in path.name)
    added = [
        codex_said("user", f"<{tag}>\nx\n</{tag}>") for tag in ("recommended_plugins", "skill")
    ]
    write(path, [CODEX[0], *added, codex_said("user", wrapped)])

    listed = json.loads(agent_cli("sessions", "list", "--all", "--json").stdout)
    shown = agent_cli("sessions", "show", CODEX_ID).stdout

    assert [each["title"] for each in listed if each["id"] == CODEX_ID] == ["Fix it"]
    assert "Active file: a.py" in shown
    assert "recommended_plugins" not in shown


def test_what_an_editor_adds_to_a_prompt_of_claude_code_is_no_title(
    files: dict[Path, bytes],
) -> None:
    """Its extensions put the open file and the selection before each prompt."""
    opened = "<ide_opened_file>The user opened the file /w/a.py.</ide_opened_file>"
    selected = "<ide_selection>Lines 1 to 2 of /w/a.py:\nx = 1\n</ide_selection>"
    blocks: list[Json] = [
        {"type": "text", "text": text} for text in (opened, selected, "Explain this")
    ]
    path = next(path for path in files if CLAUDE_ID in path.name)
    shell = claude_line(2, "user", "<bash-input>git status</bash-input>", after=1)
    write(path, [claude_line(1, "user", blocks, after=0), shell])

    listed = json.loads(agent_cli("sessions", "list", "--all", "--json").stdout)
    shown = agent_cli("sessions", "show", CLAUDE_ID).stdout

    assert [each["title"] for each in listed if each["id"] == CLAUDE_ID] == ["Explain this"]
    assert "x = 1" in shown
    assert "The user opened" not in shown
    assert "you> !git status" in shown


def test_note_in_place_of_a_file_is_not_what_was_typed() -> None:
    """Claude Code puts pictures and PDFs behind the prompt, which a summary must keep."""
    document: Block = {"type": "document", "source": {"type": "base64", "data": "JVBE"}}

    (prompt,) = prompts_of([UserRecord(0, (text_block("Read this"), document))])

    assert prompt.input
    assert prompt.input.content == (text_block("[document]"), text_block("Read this"))


@pytest.mark.parametrize("title", ["count the okapis", "Count  the Okapis "])
def test_session_is_gone_on_with_by_its_title(title: str) -> None:
    """As one of the program's own; what fits nothing is told where all are listed."""
    with serve_in_thread(reply("Yes.")) as api:
        run = agent_cli("-r", title, "-p", "Go on", api=api)
        missing = agent_cli("-r", "count the", "-p", "Go on", api=api)

    assert run.code == 0, run.stderr
    assert "one okapi" in json.dumps(api.requests[0].body["messages"])
    assert "`agent-cli sessions list --all` shows all" in missing.stderr


def test_title_of_several_sessions_is_refused_with_their_ids(files: dict[Path, bytes]) -> None:
    path = next(path for path in files if CODEX_ID in path.name)
    write(path.with_name(path.name.replace("7000", "7001")), CODEX)

    shown = agent_cli("sessions", "show", "Count the okapis")

    assert shown.code == 2
    assert CODEX_ID in shown.stderr and CODEX_ID.replace("7000", "7001") in shown.stderr


def test_sessions_are_listed_searched_and_shown_with_their_program() -> None:
    listed = json.loads(agent_cli("sessions", "list", "--all", "--json").stdout)
    own = json.loads(agent_cli("sessions", "list", "--json").stdout)
    found = json.loads(agent_cli("sessions", "search", "--all", "--json", "ZEBRAS").stdout)
    shown = agent_cli("sessions", "show", CODEX_ID)

    assert {(each["program"], each["title"], each["workspace"]) for each in listed} == {
        ("claude", "Count the <b>zebras</b>", "/old/place"),
        ("codex", "Count the okapis", "/old/other"),
    }
    assert own == []
    assert [each["program"] for each in found] == ["claude"]
    assert "one okapi" in shown.stdout
