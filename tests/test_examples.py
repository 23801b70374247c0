"""The examples run unchanged, offline, and print their expected output."""

import ast
import runpy
from pathlib import Path

import pytest

import agent_cli
from tests.messages_api import Answer, reply, serve_in_thread, tool_use
from tests.tables import each_row

EXAMPLES = Path(__file__).parents[1] / "examples"
SAYS = {
    "quick_start": ["Hello! What can I do for you?"],
    "custom_tool": [
        "count {'n': 3}",
        "count {'n': 99}",
        "  failed: Invalid input for count: n: ",
        "  1 of 3",
        "  3 of 3",
        "  done: counted to 3",
        "Three it is.",
    ],
    "steering": [
        "toolResult: painted it red",
        "toolResult: Skipped",
        "user: Stop after red!",
        "assistant: Only red, then.",
        "user: And clean up.",
        "assistant: Cleaned up.",
    ],
    "custom_message": [
        "before: mail, weather",
        "history: mail, weather, user, assistant",
        "the model read: [New mail: Ann writes: lunch?]",
    ],
    "low_level_loop": [
        "['agent_start', 'turn_start', 'message_start', 'message_end', 'message_start',"
        " 'message_update', 'message_end', 'turn_end', 'agent_end']",
        "You said: Hello\n",
        "You said: Hello again\n",
        "4 messages",
    ],
    "streaming_tool": [
        "download begins",
        "  a.bin: 1 of 2",
        "  done: b.bin is complete",
        "Both are here.",
        "ended: end_turn",
    ],
    "review_bot": ["a.py: Fine.", "b.py: aborted", "c.py: An unused import."],
    "approval_screen": [
        "write {'path': 'notes.txt', 'content': 'milk\\n'}? (it changes a file) yes",
        "write {'path': 'other.txt', 'content': 'no\\n'}? (it changes a file) no",
        "Your notes are written.",
        "notes.txt\n",
    ],
}
# Programs with a whole session: the server's answers, and the lines that they print.
SERVED: dict[str, tuple[list[Answer], list[str]]] = {
    "session_question": ([reply("4")], ["4"]),
    "session_options": ([reply("A horse walks in.")], ["A horse walks in."]),
    "session_tools": (
        [
            reply(tool_use("write", {"path": "hello.py", "content": "print('Hello!')\n"})),
            reply("Done."),
        ],
        ["write {'path': 'hello.py', 'content': \"print('Hello!')\\n\"}"],
    ),
    "session_own_tool": (
        [reply(tool_use("greet", {"name": "Alice"})), reply("Alice is greeted.")],
        ["Alice is greeted."],
    ),
    "session_hook": (
        [
            reply(tool_use("bash", {"command": "./foo.sh --help"})),
            reply("It was declined."),
            reply(tool_use("bash", {"command": "echo Hello!"})),
            reply("It said Hello!"),
        ],
        ["It was declined.", "It said Hello!"],
    ),
    "session_resume": (
        [
            reply(
                tool_use("write", {"path": "notes.txt", "content": "milk\n"}),
                tool_use("write", {"path": "tea.txt", "content": "tea\n"}),
            ),
            reply("Noted."),
            reply("Milk."),
            reply(tool_use("read", {"path": "notes.txt"})),
        ],
        [
            "may it? write notes.txt",
            "may it? write tea.txt",
            "Noted.",
            "Milk.",
            "max_rounds: stopped after round 1, the limit max_rounds; send a message to go on",
            "['Note that milk is out', 'Note that milk is out']",
        ],
    ),
}


def test_every_example_has_an_expected_output() -> None:
    """`scripted` is a shared module; `real_model` needs a key."""
    named = {*SAYS, *SERVED, "scripted", "real_model"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == named


@each_row("path", sorted(EXAMPLES.glob("*.py")))
def test_examples_use_public_names_only(path: Path) -> None:
    """S3-26: they import from the package root only."""
    imports = [
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)
    ]
    ours = [node for node in imports if (node.module or "").startswith("agent_cli")]

    assert {node.module for node in ours} <= {"agent_cli"}
    assert {name.name for node in ours for name in node.names} <= set(agent_cli.__all__)


@pytest.mark.parametrize("name", SAYS)
def test_example_prints_its_expected_output(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """S3-01, S3-20, S3-21, S3-24, S0-68, S0-71: the lines in this order, nothing on stderr."""
    monkeypatch.syspath_prepend(EXAMPLES)

    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")

    printed = capfd.readouterr()
    assert printed.err == ""
    position = 0
    for line in SAYS[name]:
        found = printed.out.find(line, position)
        assert found >= position, (line, printed.out)
        position = found + len(line)


@pytest.mark.parametrize("name", SERVED)
def test_example_of_a_session_prints_its_expected_output(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The programs of docs/claude-agent-sdk.md, unchanged, against a server."""
    answers, lines = SERVED[name]
    with serve_in_thread(*answers) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")

    printed = capfd.readouterr()
    assert (printed.out.splitlines(), printed.err) == (lines, "")
    assert (len(api.requests), api.refusals) == (len(answers), [])
    sent = [str(request.body["messages"]) for request in api.requests]
    match name:
        case "session_own_tool":
            assert "Hello, Alice!" in sent[1]
        case "session_hook":
            assert "foo.sh must not run" in sent[1]
            assert "Hello!\\n[exit 0" in sent[3]
        case "session_tools":
            assert Path("hello.py").read_text() == "print('Hello!')\n"
        case "session_resume":
            assert (Path("notes.txt").exists(), Path("tea.txt").exists()) == (True, False)
        case _:
            pass
