"""One run without a REPL, as scripts see it: streams, formats, exit codes."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from agent_cli.system import paths
from tests.e2e.program import (
    agent_cli,
    finished,
    new_agent_cli,
    results_in,
    said_by_user,
    started,
    text_of,
)
from tests.messages_api import Answer, Gate, error, raw, reply, serve_in_thread, tool_use
from tests.tables import each_row
from tests.waiting import wait_until

YOLO = ("--permission-mode", "yolo")
JSON = ("--output-format", "json")
STREAM = ("--output-format", "stream-json")
NO = "echo no touching >&2; exit 2"
RESULT_KEYS = ["type", "text", "stop_reason", "rounds", "usage", "cost_usd", "session_id"]
CORE = {
    "agent_start", "turn_start", "message_start", "message_update", "message_end",
    "tool_execution_start", "tool_execution_end", "turn_end", "agent_end",
}  # fmt: skip


def bash(command: str) -> dict[str, Any]:
    return tool_use("bash", {"command": command})


def test_stdout_carries_only_the_answer() -> None:
    """Text before a tool call is not part of the answer."""
    with serve_in_thread(reply("Looking.", bash("echo hi >&2")), reply("Done.")) as api:
        run = agent_cli("-p", "go", *YOLO, api=api)

    assert (run.code, run.stdout, run.stderr) == (0, "Done.\n", "")


def test_json_output_is_the_result_object_alone() -> None:
    """The `app.result` object has all fields a script needs."""
    with serve_in_thread(reply(bash("true")), reply("Done.")) as api:
        run = agent_cli("-p", "go", *YOLO, *JSON, api=api)

    [result] = run.lines
    assert list(result) == [*RESULT_KEYS, "exit_code"]
    assert (result["text"], result["stop_reason"], result["rounds"]) == ("Done.", "end_turn", 2)
    assert result["usage"]["output_tokens"] > 0
    assert result["cost_usd"] > 0
    assert result["exit_code"] == run.code == 0


def test_stream_json_prints_one_event_a_line_and_then_the_result() -> None:
    """Names are fixed; `type` comes first in every line."""
    with serve_in_thread(reply("Looking.", bash("true")), reply("Done.")) as api:
        run = agent_cli("-p", "go", *YOLO, *STREAM, api=api)

    kinds = [line["type"] for line in run.lines]
    assert set(kinds) >= CORE
    assert all(kind in CORE or kind.startswith("app.") or "update" in kind for kind in kinds)
    assert all(next(iter(line)) == "type" for line in run.lines)
    assert kinds[0] == "agent_start"
    assert kinds[-2:] == ["agent_end", "app.result"]
    assert run.result["text"] == "Done."


@pytest.mark.parametrize(
    ("arguments", "answers", "code", "stop_reason"),
    [
        ((), [error(400, "invalid_request_error", "bad")], 1, "error"),
        ((), [raw(200, b"<html>", content_type="text/html")], 1, "error"),
        ((), [reply("No.", stop_reason="refusal")], 1, "refusal"),
        (("--model", ""), [], 2, "error"),
        (("--add-dir", "nowhere"), [], 2, "error"),
        ((), [reply(bash("touch x")), reply("Without it.")], 3, "end_turn"),
        (("--deny", "bash", *YOLO), [reply(bash("true")), reply("No.")], 0, "end_turn"),
        (("--max-rounds", "1", *YOLO), [reply(bash("true"))], 4, "max_rounds"),
        (("--max-cost", "0.000001", *YOLO), [reply(bash("true"))], 4, "max_cost"),
        (("--replay", "nowhere.jsonl"), [], 2, "error"),
    ],
    ids=[
        *("400", "html", "refusal", "settings", "usage", "approval", "denied by rule"),
        *("max rounds", "max cost", "no recording"),
    ],
)
def test_last_line_is_the_result_however_the_run_ends(
    arguments: tuple[str, ...], answers: list[Answer], code: int, stop_reason: str
) -> None:
    """The exit codes are those documented; the object and the process agree."""
    with serve_in_thread(*answers) as api:
        run = agent_cli("-p", "go", *arguments, *STREAM, api=api)

    assert run.code == code
    assert run.result["exit_code"] == code
    assert run.result["stop_reason"] == stop_reason
    assert "Traceback" not in run.stderr
    assert bool(run.stderr) == (code != 0)


def test_tool_that_a_rule_denies_whole_is_not_offered() -> None:
    """C19: its definition cost tokens, and the model tried it; a call of it is still denied."""
    with serve_in_thread(reply("Hello.")) as api:
        agent_cli("-p", "hi", "--no-session", api=api)
    (usual,) = (each.body["tools"] for each in api.requests)
    everything = {tool["name"] for tool in usual}
    for rule, hidden in {
        "bash": {"bash"},
        "edit": {"edit", "write"},
        "*": everything,
        "bash(true)": set[str](),
    }.items():
        with serve_in_thread(reply(bash("true")), reply("No.")) as api:
            run = agent_cli("-p", "go", "--deny", rule, *YOLO, *STREAM, api=api)

        left = [each for each in usual if each["name"] not in hidden]
        assert [each.body.get("tools") or [] for each in api.requests] == [left, left], rule
        denied = [each["tool_name"] for each in run.result.get("denied_calls", [])]
        assert denied == ([] if rule == "edit" else ["bash"])
        assert api.refusals == []


def test_denied_tools_are_in_no_list() -> None:
    """S1c-9: neither at the start nor in /tools."""
    Path("script").write_text("/tools\n")
    with serve_in_thread() as api:
        none = agent_cli("--prompts-from", "script", "--deny", "*", api=api)
        some = agent_cli("--prompts-from", "script", "--deny", "bash", api=api)

    assert "tools: none\n" in none.stderr
    assert "no tools\n" in none.stderr + none.stdout
    assert "tools: read, edit, write, grep" in some.stderr
    assert "Run a command" not in some.stderr + some.stdout


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_signal_during_a_reply_still_prints_a_result(number: signal.Signals, code: int) -> None:
    """C18: the connection is closed at once, and the last line still comes."""
    gate = Gate()
    with (
        serve_in_thread(reply("A long answer that stands still", gate=gate, hold_at=5)) as api,
        started("-p", "go", *STREAM, api=api) as process,
    ):
        assert gate.reached.wait(60)
        process.send_signal(number)
        run = finished(process)
        assert api.requests[0].disconnected.wait(60)

    assert run.code == code
    assert (run.result["stop_reason"], run.result["exit_code"]) == ("aborted", code)
    assert "Traceback" not in run.stderr


def test_a_signal_while_a_tool_runs_ends_the_tool() -> None:
    """The exit code is 130, and the command does not continue in the background."""
    with (
        serve_in_thread(reply(bash("touch begun; sleep 300; touch ended"))) as api,
        started("-p", "go", *YOLO, *JSON, api=api) as process,
    ):
        wait_until(Path("begun").exists, "the command runs")
        process.send_signal(signal.SIGINT)
        run = finished(process)

    assert (run.code, run.result["exit_code"]) == (130, 130)
    assert not Path("ended").exists()


def test_a_missing_key_is_one_line_exit_code_2_and_no_request() -> None:
    """S1-26: also in the JSON formats, whose readers get their result."""
    with serve_in_thread() as api:
        plain = agent_cli("-p", "go", api=api, ANTHROPIC_API_KEY="")
        stream = agent_cli("-p", "go", *STREAM, api=api, ANTHROPIC_API_KEY="")
        repl = agent_cli(api=api, stdin="go\n", ANTHROPIC_API_KEY="")

        assert api.requests == []
    for run in (plain, stream, repl):
        [line] = run.stderr.splitlines()
        assert "ANTHROPIC_API_KEY is not set" in line
        assert run.code == 2
    assert plain.stdout == repl.stdout == ""
    assert stream.result["exit_code"] == 2


def test_key_in_a_workspace_that_is_not_trusted_is_named() -> None:
    """The one file with a key was there, and the advice was to get a key."""
    Path(".env").write_text("ANTHROPIC_API_KEY=sk-1\n")
    with serve_in_thread(reply("fine")) as api:
        untrusted = agent_cli("-p", "go", api=api, ANTHROPIC_API_KEY=None)
        trusted = agent_cli("-p", "go", "--trust", api=api, ANTHROPIC_API_KEY=None)

    assert (untrusted.code, untrusted.stderr) == (
        2,
        "agent-cli: ANTHROPIC_API_KEY in .env does not count: this workspace is not trusted; run"
        " `agent-cli trust`, start with --trust, or export the key\n",
    )
    assert (trusted.code, trusted.stdout) == (0, "fine\n")


def test_piped_text_is_appended_to_the_prompt_or_is_the_prompt() -> None:
    """`-p PROMPT` appends the text, `-p -` takes it as the prompt; an empty one is an error."""
    with serve_in_thread(reply("1"), reply("2")) as api:
        agent_cli("-p", "explain", api=api, stdin="some text\n")
        agent_cli("-p", "-", api=api, stdin="all of it\n")
        empty = agent_cli("-p", "-", api=api, stdin="  \n")

    first, second = (said_by_user(request.body) for request in api.requests)
    assert first == ["explain\n\nsome text"]
    assert second == ["all of it"]
    assert empty.code == 2
    assert "there is no prompt" in empty.stderr


@pytest.mark.parametrize("way", ["-p", "--prompt-file"])
def test_names_in_a_prompt_attach_no_file_outside_the_workspace(way: str, tmp_path: Path) -> None:
    """Threats 4 and 24: a script often puts others' text into a prompt; links count by target."""
    outside = tmp_path.with_name(f"{tmp_path.name}-outside.txt")
    (Path.home() / "mine.txt").write_text("content outside: home")
    outside.write_text("content outside: absolute")
    Path("link.txt").symlink_to(outside)
    Path("sub").mkdir()
    Path("sub", "link").symlink_to(tmp_path.parent)
    Path("inside.txt").write_text("content inside")
    names = ("inside.txt", "~/mine.txt", outside, "link.txt", f"sub/link/{outside.name}", "..")
    prompt = " ".join(f"@{name}" for name in names)
    Path("prompt.txt").write_text(prompt)
    with serve_in_thread(reply("ok")) as api:
        run = agent_cli(way, prompt if way == "-p" else "prompt.txt", api=api)

    sent = str(api.requests[0].body["messages"])
    assert (run.code, "content inside" in sent, "content outside" in sent) == (0, True, False)
    assert "the names in the folder .." not in sent
    assert run.stderr.count("outside the workspace") == 5
    assert f"it leads to {outside}, which is outside" in run.stderr


def test_rule_of_the_user_opens_what_it_names_outside_the_workspace(tmp_path: Path) -> None:
    """It had no effect with `-p`: the tool refused the path. A rule for every call opens none."""
    outside = tmp_path.with_name(f"{tmp_path.name}-outside")
    outside.mkdir()
    (outside / "a.txt").write_text("content outside\n")
    (outside / ".env").write_text("KEY=secret\n")
    paths.private_dir(paths.config_dir())
    (paths.config_dir() / "permissions.toml").write_text(f'allow = ["read({outside}/**)"]\n')
    calls = (
        tool_use("read", {"path": str(outside / "a.txt")}),
        tool_use("grep", {"path": str(outside), "pattern": "content"}),
        tool_use("read", {"path": str(outside / ".env")}),
        tool_use("write", {"path": str(outside / "a.txt"), "content": "changed"}),
    )
    with serve_in_thread(reply(*calls), reply("ok")) as api:
        run = agent_cli("-p", "go", "--allow", "write", api=api)

    read, found, secret, written = (text_of(each) for each in results_in(api.requests[1].body))
    assert run.code == 0
    assert "content outside" in read and "content outside" in found
    assert "may hold secrets" in secret and "is outside the workspace" in written
    assert (outside / "a.txt").read_text() == "content outside\n"


def test_names_in_a_prompt_are_those_of_the_working_directory_that_the_settings_name(
    tmp_path: Path,
) -> None:
    """A file with that name, where the program was started, was refused as outside."""
    works = tmp_path / "works"
    works.mkdir()
    (works / "a.txt").write_text("content of the workspace")
    Path("a.txt").write_text("content of the folder of the shell")
    paths.private_dir(paths.config_dir())
    paths.user_settings_file().write_text(f'working_directory = "{works}"')
    with serve_in_thread(reply("ok")) as api:
        run = agent_cli("-p", "see @a.txt", api=api)

    sent = str(api.requests[0].body["messages"])
    assert (run.code, "content of the workspace" in sent) == (0, True)


@pytest.mark.parametrize(
    ("prompt", "is_warned_of"), [("/fix-it now", True), ("/", False), ("/etc what is it?", False)]
)
def test_name_of_no_command_is_sent_as_text_with_a_warning(
    prompt: str, *, is_warned_of: bool
) -> None:
    """A script with a mistyped name would let the model guess what was meant, and pay for it."""
    with serve_in_thread(reply("ok")) as api:
        run = agent_cli("-p", prompt, api=api)

    assert (run.code, run.stdout) == (0, "ok\n")
    warning = (
        "there is no command /fix-it: it is sent as text"
        " (--prompts-from runs the commands of the prompt)\n"
    )
    assert (warning in run.stderr) is is_warned_of
    assert prompt in said_by_user(api.requests[0].body)


def test_flags_reach_the_request() -> None:
    """C12: aliases, tokens, effort, prompts and directories."""
    Path("beside").mkdir()
    with serve_in_thread(reply("1"), reply("2")) as api:
        run = agent_cli(
            *("-p", "go", "--model", "high", "--max-tokens", "77", "--effort", "low"),
            *("--append-system-prompt", "Answer in rhymes.", "--add-dir", "beside"),
            api=api,
        )
        agent_cli("-p", "go", "--system-prompt", "You are a lamp.", "--model", "x-1", api=api)

    assert run.stderr == ""
    first, second = (request.body for request in api.requests)
    assert (first["model"], first["max_tokens"]) == ("claude-opus-5-5", 77)
    assert first["output_config"] == {"effort": "low"}
    assert "Answer in rhymes." in json.dumps(first["system"])
    assert str(Path("beside").resolve()) in json.dumps(first["system"], ensure_ascii=False)
    assert second["model"] == "x-1"
    assert second["system"][0]["text"] == "You are a lamp."


@pytest.mark.parametrize(
    ("named", "doubt"),
    [
        ("sonet", "sonet is not among the models known here (did you mean claude-sonnet-5-5?)"),
        ("sonnet-fast", "claude-sonnet-5-5-fast is not among the models known here"),
        ("opus-fast", ""),
        ("sonnet", ""),
        ("mine", ""),
    ],
)
def test_model_that_is_not_known_is_doubted_at_once(named: str, doubt: str) -> None:
    """Only the refusal of the API said so. An alias of the user's was written with care."""
    paths.config_dir().mkdir(parents=True)
    paths.user_settings_file().write_text('[models]\nmine = "a-deployment"\n')
    with serve_in_thread(reply("Done.")) as api:
        run = agent_cli("-p", "go", "--model", named, api=api)

    assert (run.code, doubt in run.stderr) == (0, True)
    assert doubt or not run.stderr


def test_rules_on_the_command_line_allow_and_deny() -> None:
    """Allowed calls run without a person; a denial wins over everything."""
    with serve_in_thread(
        reply(bash("echo one > one"), bash("echo two > two"), bash("rm one")),
        reply("Done."),
    ) as api:
        run = agent_cli(
            *("-p", "go", "--allow", "bash(echo *)", "--allow", "bash", "--deny", "bash(rm *)"),
            api=api,
        )

    results = results_in(api.requests[1].body)
    assert run.code == 0
    assert Path("one").exists()
    assert Path("two").exists()
    assert [bool(result.get("is_error")) for result in results] == [False, False, True]
    assert "bash(rm *)" in text_of(results[2])


@pytest.mark.parametrize(
    ("options", "reasons"),
    [
        (
            ("--deny", "bash(touch *)", *YOLO),
            ("The rule bash(touch *) denies this call", "no touching"),
        ),
        (("--permission-mode", "plan"), ("Plan mode: only reading is allowed",)),
    ],
    ids=["rule and hook", "mode"],
)
def test_result_lists_the_calls_that_were_denied(
    options: tuple[str, ...], reasons: tuple[str, ...]
) -> None:
    """A script learns what was not done without reading the stream; no person could change it."""
    settings = Path.home() / ".claude" / "settings.json"
    settings.parent.mkdir()
    hook = {"matcher": "Write", "hooks": [{"type": "command", "command": NO}]}
    settings.write_text(json.dumps({"hooks": {"PreToolUse": [hook]}}))
    inputs = [{"command": "touch made"}, {"path": "made", "content": "x"}][: len(reasons)]
    called = [*zip(("bash", "write"), inputs, strict=False)]

    with serve_in_thread(reply(*(tool_use(*each) for each in called)), reply("Done.")) as api:
        run = agent_cli("-p", "go", *options, *JSON, api=api)

    calls = run.result["denied_calls"]
    assert [(denied["tool_name"], denied["input"]) for denied in calls] == called
    for reason, denied in zip(reasons, calls, strict=True):
        assert reason in denied["reason"]
        assert denied["tool_call_id"].startswith("toolu_")
    assert (run.code, "declined_calls" in run.result, Path("made").exists()) == (0, False, False)


def test_recorded_run_is_replayed_without_server_or_key() -> None:
    """--record and --replay: the same answer, the same tools, and no key in the file."""
    answers = [reply("Writing.", bash("echo x >> made")), reply("Made.")]
    with serve_in_thread(*answers) as api:
        first = agent_cli("-p", "go", *YOLO, "--record", "run.jsonl", api=api)
    again = agent_cli("-p", "go", *YOLO, "--replay", "run.jsonl", ANTHROPIC_API_KEY="")

    assert first.stdout == again.stdout == "Made.\n"
    assert again.code == 0
    assert Path("made").read_text() == "x\nx\n"


def test_closed_stdout_ends_the_run_without_a_traceback() -> None:
    """`agent-cli -p ... | head -1`: it stops without a traceback on the terminal."""
    with (
        serve_in_thread(reply("word " * 20_000, chunk_chars=1_000)) as api,
        started("-p", "go", *STREAM, api=api) as process,
    ):
        process.stdout.readline()
        process.stdout.close()
        run = finished(process)

    assert run.code == 141
    assert "Traceback" not in run.stderr


@each_row(
    ("arguments", "words"),
    [
        (("--modle", "x"), "--model"),
        (("docter",), "doctor"),
        (("fix", "it"), "quotes"),
        (("-p", "x", "--output-format", "xml"), "text, json, stream-json"),
        (("--max-rounds", "many", "-p", "x"), "max_rounds"),
        (("trust", "/nowhere/at/all"), "/nowhere/at/all"),
        (("config", "shwo"), "config has no 'shwo' (did you mean show?)"),
        (("mcp", "lits"), "mcp: argument COMMAND: invalid choice: 'lits'"),
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_exit_code_2(
    arguments: tuple[str, ...], words: str
) -> None:
    """There is neither a usage screen nor a traceback."""
    run = agent_cli(*arguments)

    assert (run.code, run.stdout) == (2, "")
    assert re.match(r"agent-cli: (?!agent-cli).*\n$", run.stderr)
    assert words in run.stderr


def test_version_and_help_are_printed_on_stdout_without_a_key() -> None:
    """The help names the commands."""
    version, shown = agent_cli("--version"), agent_cli("--help")

    assert re.fullmatch(r"agent-cli \d+\.\d+\.\d+\S*\n", version.stdout)
    assert all(word in shown.stdout for word in ("demo", "doctor", "--print", "exit codes"))
    assert (version.code, shown.code) == (0, 0)


def test_internal_error_still_prints_a_json_result() -> None:
    """A broken installation serves as the bug: one line, exit code 1, no traceback."""
    Path("broken").mkdir()
    Path("broken/tenacity.py").write_text("raise ZeroDivisionError('a bug')\n")
    with serve_in_thread() as api:
        run = new_agent_cli("-p", "go", *STREAM, api=api, PYTHONPATH=str(Path("broken").resolve()))

    assert run.code == 1
    assert run.result["exit_code"] == 1
    assert [line["type"] for line in run.lines] == ["app.error", "app.result"]
    assert len(run.stderr.splitlines()) == 1
    assert "a bug" in run.stderr


@pytest.mark.parametrize("arguments", [("-p", "go"), ("sessions", "list"), ("doctor",)])
def test_damaged_installation_is_reported_in_one_line(arguments: tuple[str, ...]) -> None:
    """No module of ours that needs inspect can be imported, which is nearly everything."""
    Path("broken").mkdir()
    Path("broken/inspect.py").write_text("raise ZeroDivisionError('a bug')\n")
    broken = {"PYTHONPATH": str(Path("broken").resolve())}
    with serve_in_thread() as api:
        run = new_agent_cli(*arguments, api=api, **broken)
        shown = new_agent_cli(*arguments, "--verbose", api=api, **broken)

    assert (run.code, run.stdout, len(run.stderr.splitlines())) == (1, "", 1)
    assert "internal error: ZeroDivisionError: a bug" in run.stderr
    assert "inspect.py:1)" in run.stderr
    assert "Traceback" in shown.stderr


def test_too_few_open_files_are_named_as_the_cause() -> None:
    """Another installation would not help: the remedy is the limit of the shell."""
    Path("broken").mkdir()
    Path("broken/inspect.py").write_text("raise OSError(24, 'Too many open files', 'a.py')\n")
    with serve_in_thread() as api:
        run = new_agent_cli("-p", "go", api=api, PYTHONPATH=str(Path("broken").resolve()))

    assert (run.code, run.stdout) == (1, "")
    assert run.stderr == (
        "agent-cli: too many files are open (a.py): raise the limit of your shell (`ulimit -n`)\n"
    )


def test_unknown_option_still_prints_a_json_result() -> None:
    """S1-30: the last line is always `app.result`, whatever happened."""
    run = agent_cli("-p", "go", "--output-format", "json", "--nope")

    assert (run.code, run.result["exit_code"], len(run.lines)) == (2, 2, 1)
    assert "unknown option --nope" in run.stderr


def test_file_that_nobody_decided_about_is_named_and_makes_the_run_end_with_3() -> None:
    """Threat 11: a command made it, or another program did; a script must not go on unaware."""
    made = bash("mkdir -p a/.vscode && touch a/.vscode/tasks.json")
    with serve_in_thread(reply(made), reply("Done.")) as api:
        run = agent_cli("-p", "go", *YOLO, *JSON, api=api)

    [result] = run.lines
    if "sandbox: no" in run.stderr:
        pytest.skip("no sandbox works here")
    here = str(Path.cwd() / "a" / ".vscode")
    assert (result["undecided_files"], result["text"]) == ([here], "Done.")
    assert result["exit_code"] == run.code == 3
    assert f"sandbox: {here} appeared while a command ran" in run.stderr


@pytest.mark.parametrize("depth", [700, 20_000])
def test_write_to_a_very_deep_path_takes_no_minutes(depth: int) -> None:
    """The program looked in each folder for instructions and repositories, and did not stop."""
    deep_path = "a/" * depth + "f"
    call = tool_use("write", {"path": deep_path, "content": "x"})
    with serve_in_thread(reply(call), reply("Done.")) as api:
        run = agent_cli("-p", "go", *YOLO, api=api)

    assert (run.code, run.stdout) == (0, "Done.\n")
    assert ("too long" in str(api.requests[1].body)) is (depth == 20_000)
