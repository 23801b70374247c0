"""Scripts as Claude Code's documentation describes them, run unchanged by the whole program."""

import json
import stat
import textwrap
from pathlib import Path
from shlex import quote

import pytest

from agent_cli.contracts.timeline import Json
from agent_cli.system import paths
from tests.e2e.program import Finished, agent_cli, results_in, text_of
from tests.messages_api import Answer, reply, serve_in_thread, tool_use
from tests.messages_api.script import Payload
from tests.tables import each_row

YOLO = ("--permission-mode", "yolo")


def script(name: str, text: str, *, folder: Path | None = None) -> str:
    """Write an executable to *folder* or the user's own folder of hooks; return its command."""
    path = (folder or Path.home() / ".claude" / "hooks") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text).lstrip())
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return quote(str(path))


def hooks(folder: Path | None = None, **events: Json) -> None:
    """Write Claude Code's settings file, in the home directory or in *folder*."""
    path = (folder or Path.home()) / ".claude" / "settings.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"hooks": events}))


def command(run: str, matcher: str = "", **more: Json) -> list[Json]:
    entry: dict[str, Json] = {"type": "command", "command": run, **more}
    return [{"matcher": matcher, "hooks": [entry]}]


def printed(
    *answers: Answer, arguments: tuple[str, ...] = YOLO, prompt: str = "go"
) -> tuple[Finished, list[Payload]]:
    with serve_in_thread(*answers, *[reply("ok")] * 6) as api:
        run = agent_cli("-p", prompt, *arguments, api=api)
        assert api.refusals == []
    return run, [request.body for request in api.requests]


def bash(run: str) -> Payload:
    return tool_use("bash", {"command": run})


def result_of(requests: list[Payload], number: int = 1) -> str:
    return text_of(results_in(requests[number])[0])


GUARD = """
    #!/usr/bin/env python3
    import json, re, sys

    data = json.load(sys.stdin)
    if data.get("tool_name") != "Bash":
        sys.exit(1)
    if re.search(r"^touch", data["tool_input"].get("command", "")):
        print("touch is not wanted here", file=sys.stderr)
        sys.exit(2)
"""


def test_guards_stop_the_calls_they_name_and_replace_the_input_of_another(tmp_path: Path) -> None:
    """The exit code is 2, and the model reads stderr; `updatedInput` runs in place of its own.

    A guard of files compares absolute paths; our tools accept relative ones, too. In a workspace
    that is not trusted Python finds modules beside the script, and only where they are named.
    """
    script("words.py", "WORD = 'mkdir'")
    (tmp_path / "words.py").write_text("open('imported', 'w')")
    importing = """
        import sys, words
        sys.exit(2 if words.WORD in sys.stdin.read() else 0)
    """
    rewrite = """
        #!/usr/bin/env python3
        import json, sys
        data = json.load(sys.stdin)
        if "unsafe" not in data["tool_input"]["command"]:
            sys.exit()
        data["tool_input"]["command"] = "echo safe > out"
        print(json.dumps({"hookSpecificOutput": {
            "hookEventName": "PreToolUse", "permissionDecision": "allow",
            "updatedInput": data["tool_input"]}}))
    """
    protect = (
        'python3 -c "import json, sys; data=json.load(sys.stdin);'
        " path=data.get('tool_input',{}).get('file_path','');"
        " sys.exit(2 if path.startswith('/') and path.endswith('package-lock.json') else 0)\""
    )
    hooks(
        PreToolUse=[
            *command(script("guard.py", GUARD), "Bash"),
            *command(f"python3 {script('importing.py', importing)}", "Bash"),
            *command(script("rewrite.py", rewrite), "Bash"),
            *command(protect, "Edit|MultiEdit|Write"),
        ]
    )

    run, requests = printed(
        reply(bash("touch a")),
        reply(bash("ls")),
        reply(bash("mkdir d")),
        reply(tool_use("write", {"path": "package-lock.json", "content": "{}"})),
        reply(bash("echo unsafe > out")),
    )

    touch, ls, mkdir, write, echo = (result_of(requests, number) for number in range(1, 6))
    assert "touch is not wanted here" in touch
    assert "declined" not in ls and "cannot be used" not in ls
    assert "importing.py says no" in mkdir
    assert "declined this call" in write
    assert "echo safe > out" in echo
    assert (tmp_path / "out").read_text() == "safe\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "words.py"]
    assert run.code == 0


def test_hooks_behind_calls_format_log_and_tell_the_model(tmp_path: Path) -> None:
    """For the model a failed command is an answer; for hooks, as in Claude Code, a failed call."""
    with_python = (
        "python3 -c \"import json,sys; print(json.load(sys.stdin)['tool_input']['file_path'])\""
        " | xargs sed -i 's/  */ /g'"
    )
    log = """
        #!/usr/bin/env python3
        import json, os, sys
        data = json.load(sys.stdin)
        with open(os.path.join(os.environ["CLAUDE_PROJECT_DIR"], "log.txt"), "a") as log:
            log.write(data["tool_input"]["command"] + " " + data["hook_event_name"] + "\\n")
    """
    reason = 'cat > ran.json; echo \'{"decision": "block", "reason": "run the tests"}\''
    hooks(
        PostToolUse=[
            *command(with_python, "Edit|Write"),
            *command(script("log.py", log), "Bash"),
            *command(reason, "Bash"),
        ],
        PostToolUseFailure=[
            *command("cat > failed_read.json", "Read"),
            *command("cat > failed_command.json", "Bash"),
        ],
    )

    _, requests = printed(
        reply(tool_use("write", {"path": "a.py", "content": "a  =   1\n"})),
        reply(bash("echo yes")),
        reply(bash("echo no; exit 3")),
        reply(tool_use("read", {"path": "gone.txt"})),
    )

    assert (tmp_path / "a.py").read_text() == "a = 1\n"
    assert (tmp_path / "log.txt").read_text() == "echo yes PostToolUse\n"
    told = ["run the tests" in result_of(requests, number) for number in range(1, 5)]
    assert told == [False, True, False, False]
    names = ("ran", "failed_command", "failed_read")
    ran, failed, read = (json.loads((tmp_path / f"{name}.json").read_text()) for name in names)
    assert ran["tool_response"]["stdout"].startswith("yes\n")
    assert failed["error"].startswith("Exit code 3\nno\n")
    assert read["tool_input"]["file_path"] == str(tmp_path / "gone.txt")
    assert "gone.txt" in read["error"]


def test_hooks_of_the_session_and_of_a_prompt_add_context_and_variables(tmp_path: Path) -> None:
    """Plain text is enough; the hook of the end runs, too.

    Assignments are read by a shell where the hook ran, in the sandbox or outside.
    """
    variables = """
        #!/bin/bash
        echo "export {0}_PLANET='two words' {1}=\\"\\$PATH:/opt/more\\"" >> "$CLAUDE_ENV_FILE"
        echo 'not exported=1' >> "$CLAUDE_ENV_FILE"
        echo "the {0} context"
    """
    start = """
        #!/bin/bash
        read -r input
        echo '{"hookSpecificOutput": {"hookEventName": "SessionStart",'
        echo '"additionalContext": "branch: main"}}'
    """
    hooks(
        SessionStart=[
            *command(script("start.sh", start), "startup|resume"),
            *command(script("own.sh", variables.format("OWN", "PLACES"))),
        ],
        UserPromptSubmit=command("echo 'The ticket is T-7.'"),
        SessionEnd=command("cat > end.json"),
    )
    theirs = variables.format("ITS", "PATH")
    path = script("its.sh", theirs, folder=tmp_path / ".claude" / "hooks")
    hooks(tmp_path, SessionStart=command(path))
    here = 'echo "[$OWN_PLANET|${PLACES##*:}|$ITS_PLANET|${PATH##*:}|$CLAUDE_ENV_FILE]"'

    _, requests = printed(reply(bash(here)), prompt="do it", arguments=("--trust", *YOLO))

    sent = json.dumps(requests[0]["messages"])
    for said in ("branch: main", "The ticket is T-7.", "the OWN context", "the ITS context"):
        assert said in sent
    assert json.loads((tmp_path / "end.json").read_text())["reason"] == "other"
    assert result_of(requests).startswith("[two words|/opt/more|two words|/opt/more|]")


def test_permission_hook_that_interrupts_ends_the_run() -> None:
    """The model is not asked again."""
    said = {"behavior": "deny", "message": "enough for today", "interrupt": True}
    answer = json.dumps({"hookSpecificOutput": {"decision": said}})
    hooks(PermissionRequest=command(f"echo '{answer}'"))

    run, requests = printed(reply(bash("touch a")), arguments=("--permission-mode", "ask"))

    assert len(requests) == 1
    assert (run.code, "enough for today" in run.stderr) == (1, True)


def test_hook_that_ends_the_run_ends_the_agent_whose_call_it_saw() -> None:
    """Neither the agent nor its parent asks the model again."""
    hooks(PreToolUse=command("""echo '{"continue": false, "stopReason": "closed"}'""", "Bash"))
    start = tool_use("agent", {"subagent_type": "general", "prompt": "p", "description": "d"})

    run, requests = printed(reply(start), reply(bash("ls")))

    assert len(requests) == 2
    assert (run.code, "a hook ended the run: closed" in run.stderr) == (1, True)


LOOP = """
    #!/usr/bin/env python3
    import json, sys
    data = json.load(sys.stdin)
    lines = [json.loads(line) for line in open(data["transcript_path"])]
    said = [line["message"] for line in lines if line["type"] == "assistant"]
    text = said[-1]["content"][-1].get("text", "")
    assert {line["sessionId"] for line in lines} == {data["session_id"]}, lines
    assert [a["uuid"] for a in lines[:-1]] == [b["parentUuid"] for b in lines[1:]], lines
    if "<promise>DONE</promise>" not in text:
        print(json.dumps({"decision": "block", "reason": f"{len(lines)} lines, {sys.argv[1]}"}))
"""


def test_stop_hook_that_reads_the_transcript_loops_until_the_promise(tmp_path: Path) -> None:
    """The copy is in Claude Code's form and current; a hook in the sandbox can read it as well."""
    for where, says in ((None, "go on"), (tmp_path, "work on")):
        folder = where / ".claude" / "hooks" if where else None
        path = script("loop.py", LOOP, folder=folder)
        hooks(where, Stop=command(f"{path} '{says}'"))

    run, requests = printed(
        reply(bash("ls")),
        reply("Not yet."),
        reply("<promise>DONE</promise>"),
        arguments=("--trust", *YOLO),
    )

    assert (run.code, len(requests)) == (0, 3), run.stderr
    # The prompt, the call, its result, the answer.
    told = json.dumps(requests[2]["messages"][-1])
    assert "4 lines, go on" in told and "4 lines, work on" in told


def test_payloads_name_the_prompt_the_model_and_the_transcript_of_an_agent(tmp_path: Path) -> None:
    """Nothing is left behind when the program has ended."""
    keep = (
        "python3 -c \"import json,shutil,sys; d=json.load(sys.stdin); e=d['hook_event_name'];"
        "json.dump(d, open(e+'.json','w'));"
        "p=d.get('agent_transcript_path'); p and shutil.copy(p, 'agent.jsonl')\""
    )
    events = ("SessionStart", "UserPromptSubmit", "SubagentStop", "Stop")
    hooks(None, **{event: command(keep) for event in events})
    start = tool_use("agent", {"subagent_type": "general", "prompt": "p", "description": "d"})

    run, _ = printed(reply(start), reply("I looked."), reply("Done."))

    told = {event: json.loads((tmp_path / f"{event}.json").read_text()) for event in events}
    assert run.code == 0
    assert told["SessionStart"]["model"].startswith("claude-")
    prompts = {told[event]["prompt_id"] for event in events[1:]}
    assert len(prompts) == 1
    lines = [json.loads(line) for line in (tmp_path / "agent.jsonl").read_text().splitlines()]
    assert [line["message"]["role"] for line in lines] == ["user", "assistant"]
    assert all(line["isSidechain"] for line in lines)
    assert lines[1]["message"]["content"] == [{"type": "text", "text": "I looked."}]
    assert not Path(told["Stop"]["transcript_path"]).parent.exists()


def test_prompt_blocked_by_a_hook_is_never_sent() -> None:
    """A hook blocks a prompt with a password."""
    secrets = """
        #!/usr/bin/env python3
        import json, re, sys
        prompt = json.load(sys.stdin)["prompt"]
        if re.search(r"(?i)password", prompt):
            print(json.dumps({"decision": "block", "reason": "no passwords"}))
    """
    hooks(UserPromptSubmit=command(script("secrets.py", secrets)))

    run, requests = printed(prompt="my password is x")

    assert requests == []
    assert (run.code, "no passwords" in run.stderr) == (1, True)


def test_names_of_claude_code_hold_and_names_that_match_nothing_are_said() -> None:
    """In hooks and in permission rules; what holds is not mentioned."""
    hooks(PreToolUse=[*command("exit 2", "Task|TodoWrite"), *command("exit 2", "WebSearch")])
    paths.config_dir().mkdir(parents=True, exist_ok=True)
    paths.user_settings_file().write_text(
        '[permissions]\ndeny = ["Bash(rm:*)", "KillShell", "recall"]\n'
    )
    todo = tool_use("todo", {"todos": [{"content": "x", "status": "pending"}]})

    run, requests = printed(reply(todo), reply(bash("rm -f a")))

    assert "declined this call" in result_of(requests)
    assert "bash(rm *)" in result_of(requests, 2)
    assert "its matcher 'WebSearch' matches no tool here; it never runs" in run.stderr
    assert "the rule deny KillShell matches nothing" in run.stderr
    assert "recall" not in run.stderr
    assert "Task" not in run.stderr


def test_stop_hook_continues_the_run_at_most_three_times() -> None:
    """The run must end."""
    hooks(Stop=command("echo never >&2; exit 2"))

    run, requests = printed(reply("Done."))

    assert len(requests) == 4
    assert "3 times" in run.stderr


@pytest.mark.parametrize(
    ("hook", "cause"),
    [
        (command("no-such-program-here"), "was not found"),
        ([{"hooks": [{"type": "wasm", "prompt": "Is it done?"}]}], "type 'wasm'"),
    ],
    ids=["missing program", "unsupported type"],
)
def test_stop_guard_that_cannot_run_ends_the_run_with_the_reason(
    hook: list[Json], cause: str
) -> None:
    """The model cannot mend it, so it is not asked again; the run counts as failed."""
    hooks(Stop=hook)

    run, requests = printed(reply("Done."))

    assert len(requests) == 1
    assert run.code == 1
    assert "the Stop hook" in run.stderr
    assert cause in run.stderr.splitlines()[-1]


def test_permission_request_hook_answers_for_the_user(tmp_path: Path) -> None:
    """It answers questions of the mode and never overrides a rule."""
    allow = '{"hookSpecificOutput": {"decision": {"behavior": "allow"}}}'
    hooks(PermissionRequest=command(f"echo '{allow}'", "Bash"))

    run, _ = printed(
        reply(bash("touch a")),
        reply(bash("touch b")),
        arguments=("--deny", "bash(touch b)", "--permission-mode", "ask"),
    )

    assert (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()
    assert run.code == 0


@each_row("mode", ["yolo", "ask"])
@each_row("answer", [{}, {"behavior": "allow"}])
@each_row("changed", [{}, {"updatedInput": {"command": "touch b"}}])
def test_question_of_a_guard_stays_whatever_a_permission_request_hook_answers(
    tmp_path: Path, mode: str, answer: dict[str, Json], changed: dict[str, Json]
) -> None:
    """The strictest wins; nobody can be asked here."""
    ask = {"hookSpecificOutput": {"permissionDecision": "ask"}}
    request = {"hookSpecificOutput": {"decision": answer | changed}}
    Path.home().joinpath("request.json").write_text(json.dumps(request))
    hooks(
        PreToolUse=command(f"echo '{json.dumps(ask)}'"),
        PermissionRequest=command("cat ~/request.json"),
    )

    run, _ = printed(reply(bash("touch a")), arguments=("--permission-mode", mode))

    assert run.code == 3
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()


def test_allow_of_a_guard_does_not_override_an_ask_rule(tmp_path: Path) -> None:
    """The question runs the Notification hook."""
    allow = '{"hookSpecificOutput": {"permissionDecision": "allow"}}'
    hooks(
        PreToolUse=command(f"echo '{allow}'"),
        Notification=command("cat > note.json", "permission_prompt"),
    )
    settings = tmp_path / "more.toml"
    settings.write_text('permissions.ask = ["bash(touch *)"]\n')

    run, _ = printed(reply(bash("touch b")), arguments=("--settings", str(settings)))

    assert not (tmp_path / "b").exists()
    assert run.code == 3
    assert "permission to use Bash" in json.loads((tmp_path / "note.json").read_text())["message"]


def test_plan_mode_overrides_the_allow_of_a_guard(tmp_path: Path) -> None:
    allow = '{"hookSpecificOutput": {"permissionDecision": "allow"}}'
    hooks(PreToolUse=command(f"echo '{allow}'"))

    _, requests = printed(reply(bash("touch b")), arguments=("--permission-mode", "plan"))

    assert "Plan mode" in result_of(requests)
    assert not (tmp_path / "b").exists()


BROKEN: dict[str, tuple[Payload, dict[str, Json]]] = {
    "Bash": (bash("touch a"), {"command": "~/.claude/hooks/gone.sh"}),
    "Write": (
        tool_use("write", {"path": "b", "content": "x"}),
        {"command": "~/.claude/hooks/plain.sh"},  # not executable
    ),
    "Grep": (tool_use("grep", {"pattern": "x"}), {"command": "echo '{oops'"}),
    "Glob": (tool_use("glob", {"pattern": "*"}), {"command": "sleep 600", "timeout": 0.3}),
    "Read": (tool_use("read", {"path": "c"}), {"command": "kill -SEGV $$"}),
    "Edit": (
        tool_use("edit", {"path": "c", "edits": [{"old": "one", "new": "two"}]}),
        {"command": "exit 1"},
    ),
    "TodoWrite": (
        tool_use("todo", {"todos": [{"content": "x", "status": "pending"}]}),
        {"type": "wasm", "prompt": "fine?"},
    ),
}
"""A call of each tool, and a guard of it that is broken in a way of its own."""


def test_broken_guard_blocks_unless_it_may_fail_open(tmp_path: Path) -> None:
    """The reason is given; a guard fails open only on request."""
    script("plain.sh", "#!/bin/sh\n")
    (Path.home() / ".claude/hooks/plain.sh").chmod(0o644)
    (tmp_path / "c").write_text("one\n")
    calls = reply(*(call for call, _ in BROKEN.values()))

    def guards(**more: Json) -> list[Json]:
        return [
            {"matcher": tool, "hooks": [{"type": "command", **guard, **more}]}
            for tool, (_, guard) in BROKEN.items()
        ]

    hooks(PreToolUse=guards())
    _, requests = printed(calls)

    told = [text_of(result) for result in results_in(requests[1])]
    assert len(told) == len(BROKEN)
    for tool, text in zip(BROKEN, told, strict=True):
        assert "This call was not made: the PreToolUse hook" in text, tool
        assert "cannot be used" in text, tool
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert (tmp_path / "c").read_text() == "one\n"
    hooks(PreToolUse=guards(onFailure="continue"))

    _, requests = printed(calls)

    told = [text_of(result) for result in results_in(requests[1])]
    assert len(told) == len(BROKEN)
    assert [text for text in told if "This call was not made" in text] == []
    assert (tmp_path / "a").exists()
    assert (tmp_path / "b").read_text() == "x"
    assert (tmp_path / "c").read_text() == "two\n"


def test_hooks_of_an_untrusted_workspace_do_not_run(tmp_path: Path) -> None:
    """Threat: opening a repository must not start programs."""
    hooks(tmp_path, SessionStart=command("touch pwned"), PreToolUse=command("touch pwned"))

    run, _ = printed(reply(bash("ls")))

    assert not (tmp_path / "pwned").exists()
    assert ".claude/settings.json ignored" in run.stderr


def test_hooks_of_a_trusted_workspace_run_until_their_script_changes(tmp_path: Path) -> None:
    """A guard is trusted with its content; the agent, or a pull, may have changed it.

    A run is recorded with its event and exit code.
    """
    script("guard.sh", "#!/bin/sh\ntouch ran\n", folder=tmp_path)
    hooks(tmp_path, PreToolUse=command("$CLAUDE_PROJECT_DIR/guard.sh"))
    agent_cli("trust")
    run, _ = printed(reply(bash("ls")), arguments=(*YOLO, "--output-format", "stream-json"))
    notes = [
        line["output"]["data"]
        for line in run.lines
        if line["type"] == "app.prompt_output" and line["output"].get("name") == "hook"
    ]
    assert [(note["event"], note["hook"], note["exit_code"]) for note in notes] == [
        ("PreToolUse", "$CLAUDE_PROJECT_DIR/guard.sh", 0)
    ]
    assert (tmp_path / "ran").exists()
    (tmp_path / "ran").unlink()

    script("guard.sh", "#!/bin/sh\ntouch ran\n# changed\n", folder=tmp_path)
    run, _ = printed(reply(bash("ls")))

    assert not (tmp_path / "ran").exists()
    assert "guard.sh" in run.stderr


def test_agent_may_not_change_a_hook_script_without_approval(tmp_path: Path) -> None:
    script("guard.sh", "#!/bin/sh\n", folder=tmp_path)
    hooks(tmp_path, PreToolUse=command("./guard.sh"))

    run, _ = printed(
        reply(tool_use("read", {"path": "guard.sh"})),
        reply(tool_use("write", {"path": "guard.sh", "content": "exit 0"})),
        arguments=("--trust", *YOLO),
    )

    assert (tmp_path / "guard.sh").read_text() == "#!/bin/sh\n"
    assert run.code == 3
