"""Slash commands of the program as users run it."""

import re
from pathlib import Path

from agent_cli.system import paths
from tests.e2e.program import AGENT_CLI, KEY, agent_cli, environment
from tests.messages_api import error, reply, serve_in_thread, text, tool_use
from tests.repl.terminal import Terminal
from tests.tables import each_row
from tests.waiting import wait_until


def test_export_command_writes_the_session_without_secrets() -> None:
    """S2-53: it goes into the workspace; a link in its place is replaced, not followed."""
    with serve_in_thread(reply(text(f"Your key is {KEY}."))) as api:
        first = agent_cli(script="hello\n/export\n", api=api)
        [written] = Path.cwd().glob("session-*.md")
        session = written.stem.removeprefix("session-")
        Path("elsewhere").touch()
        written.unlink()
        written.symlink_to("elsewhere")
        again = agent_cli("--resume", session, script="/export md\n", api=api)

    assert f"exported without secrets: {written}" in first.stderr
    assert again.code == 0
    assert "hello" in written.read_text()
    assert KEY not in written.read_text()
    assert (written.is_symlink(), Path("elsewhere").read_text()) == (False, "")


def test_export_command_writes_to_a_named_file_that_is_not_there_yet() -> None:
    Path("notes.md").write_text("mine")
    with serve_in_thread(reply(text("Hi."))) as api:
        ran = agent_cli(script="hello\n/export talk.md\n/export notes.md\n", api=api)

    assert f"exported without secrets: {Path.cwd() / 'talk.md'}" in ran.stderr
    assert "hello" in Path("talk.md").read_text()
    assert f"{Path.cwd() / 'notes.md'} exists already; name another file" in ran.stderr
    assert Path("notes.md").read_text() == "mine"


def test_custom_command_is_sent_as_a_prompt_from_scripts_too() -> None:
    """A command from an untrusted repository is refused with the reason, typed or with `-p`."""
    mine, theirs = paths.config_dir() / "commands/hi.md", Path(".claude/commands/evil.md")
    for path in (mine, theirs):
        path.parent.mkdir(parents=True)
        path.write_text("Say hi to $1.")
    with serve_in_thread(reply(text("A")), reply(text("B"))) as api:
        printed = agent_cli("-p", "/hi you", api=api)
        typed = agent_cli(script="/hi them\n/evil me\n", api=api)
        refused = agent_cli("-p", "/evil me", api=api)
        sent = [request.body["messages"][-1]["content"] for request in api.requests]

    assert [block["text"] for blocks in sent for block in blocks] == [
        "Say hi to you.",
        "Say hi to them.",
    ]
    assert (printed.stdout, refused.code) == ("A\n", 2)
    for run in (typed, refused):
        assert f"{theirs.absolute()} is not used: this workspace is not trusted" in run.stderr


def test_custom_command_chooses_the_model_for_its_own_prompt_only() -> None:
    """S2-54: this includes scripts and the calls of the run; an unknown ID causes a warning."""
    mine = paths.config_dir() / "commands"
    mine.mkdir(parents=True)
    (mine / "deep.md").write_text("---\nmodel: opus\n---\nThink about $1.")
    (mine / "odd.md").write_text("---\nmodel: claude-odd\n---\nBe odd.")
    Path("a.txt").write_text("a")
    look = reply(tool_use("read", {"path": "a.txt"}))
    with serve_in_thread(look, reply("A"), look, *[reply("B")] * 3) as api:
        printed = agent_cli("-p", "/deep a.txt", api=api)
        typed = agent_cli(script="/deep a.txt\nhello\n/odd\n", api=api)
        models = [request.body["model"] for request in api.requests]

    high, normal = "claude-opus-5-5", "claude-sonnet-5-5"
    assert models == [high, high, high, high, normal, "claude-odd"]
    assert printed.stdout == "A\n"
    assert f"model for this prompt: {high}" in typed.stderr
    assert "claude-odd is not among the models known here" in typed.stderr


def test_two_names_are_no_model() -> None:
    """Each request would have ended in an error; as a flag they are a usage error."""
    with serve_in_thread(reply("A")) as api:
        typed = agent_cli(script="/model claude-opus-5-5 high\nhello\n", api=api)
        flagged = agent_cli("-p", "hello", "--model", "high low", api=api)
        padded = agent_cli("-p", "hello", "--model", " high", api=api)
        set_up = agent_cli("-p", "hello", api=api, AGENT_CLI_MODEL="high low")
        aliased = agent_cli(
            "-p", "hello", api=api, AGENT_CLI_MODEL="high", AGENT_CLI_MODELS__HIGH="a b"
        )
        fallen = agent_cli("-p", "hello", "--model-fallback", "small,high low", api=api)
        models = [request.body["model"] for request in api.requests]

    assert "no model is called claude-opus-5-5 high: name one," in typed.stderr
    assert models == ["claude-sonnet-5-5"]
    assert (flagged.code, flagged.stdout) == (2, "")
    assert (padded.code, padded.stdout) == (2, "")
    assert set_up.stderr.startswith("no model is called high low: name one, such as ")
    assert fallen.stderr.startswith("no model is called high low: name one, such as ")
    assert (set_up.code, fallen.code, aliased.code) == (2, 2, 2)


def test_context_and_permissions_commands_show_what_is_in_effect() -> None:
    """Each part has a size; the mode shown is the mode in effect."""
    lines = "hello\n/context\n/mode plan\n/permissions\n/effort low\n/uncompact\nagain\n"
    with serve_in_thread(reply(text("A")), reply(text("B"))) as api:
        ended = agent_cli("--deny", "bash(rm *)", script=lines, api=api)
        names = [[tool["name"] for tool in request.body["tools"]] for request in api.requests]

    assert re.search(r"system prompt  [\d,]+  <?\d+%", ended.stderr)
    assert "mode: plan, only looks around, and presents a plan\n1  deny  bash(rm *)" in ended.stderr
    assert "effort: low" in ended.stderr
    assert "nothing is left out" in ended.stderr
    assert "write" in names[0]
    assert names[1] == names[0]  # a different list would cost the prompt cache
    *_, told = api.requests[1].body["messages"]
    assert "plan mode is on" in str(told["content"])
    assert told["output_config"] == {"effort": "low"}


def test_context_names_recall_only_where_the_model_has_it() -> None:
    """A denied tool is not offered to the model, so nothing sends the user to it."""
    lines = "one\ntwo\nthree\nfour\nfive\n/compact\n/context\n"
    long = reply("word " * 99)
    with serve_in_thread(*[*[long] * 5, reply("Notes.")] * 2) as api:
        has, lacks = (
            agent_cli(*more, script=lines, api=api) for more in ((), ("--deny", "recall"))
        )

    left_out = "are summarized or left out:"
    assert f"{left_out} recall reads them, /uncompact sends them again" in has.stderr
    assert f"{left_out} /uncompact sends them again" in lacks.stderr


def test_context_lists_each_instruction_file_and_why_it_was_read() -> None:
    """Before the first message too, and those of folders that a tool came to."""
    for name, says in (("AGENTS.md", "See @more.md"), ("more.md", "More."), ("sub/CLAUDE.md", "Z")):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(f"{says}\n")
    Path("sub/a.txt").write_text("a\n")
    read = reply(tool_use("read", {"path": "sub/a.txt"}))
    with serve_in_thread(read, reply(text("A"))) as api:
        ended = agent_cli(script="/context\nlook\n/context\n", api=api)

    here = Path.cwd().resolve()
    before, _, after = ended.stderr.partition("* Read sub/a.txt")
    assert re.search(rf"{here}/AGENTS.md +\d+ ", before)
    for shown in (before, after):
        assert f"{here}/AGENTS.md: read at each start" in shown
        assert f"{here}/more.md: named by @ in {here}/AGENTS.md" in shown
    assert f"{here}/sub/CLAUDE.md" not in before
    assert re.search(rf"{here}/sub/CLAUDE.md +\d+ ", after)
    assert f"{here}/sub/CLAUDE.md: a tool came to {here}/sub/a.txt" in after


def test_edit_approval_shows_line_numbers_and_is_asked_again_after_continue() -> None:
    """S4-26: after `--continue`, the same question is asked at once."""
    Path("a.txt").write_text("one\ntwo\nthree\n")
    call = tool_use("edit", {"path": "a.txt", "edits": [{"old": "two", "new": "2"}]})
    variables = {"TERM": "xterm-256color"}
    with serve_in_thread(reply(call), reply(text("Edited."))) as api:
        with Terminal(AGENT_CLI, **environment(api, {**variables})) as terminal:
            terminal.until("you>")
            terminal.send("edit it\r")
            terminal.until("allow?")
            terminal.child.kill(9)
            terminal.exit_code()
        with Terminal(AGENT_CLI, "--continue", **environment(api, {**variables})) as terminal:
            terminal.until("allow?")
            shown = terminal.text
            terminal.until("❯ 1 Yes")
            terminal.send("y\r")
            terminal.until("Edited.")

    assert "      1   one\n      2 − two\n      2 + 2\n      3   three" in shown
    assert Path("a.txt").read_text() == "one\n2\nthree\n"


def test_add_dir_command_makes_a_directory_readable() -> None:
    """Files in it are refused before, and read afterwards without a question."""
    other = Path.cwd().parent / f"{Path.cwd().name}-other"
    other.mkdir()
    (other / "notes.txt").write_text("found it")
    read = reply(tool_use("read", {"path": str(other / "notes.txt")}))
    with serve_in_thread(read, reply("No."), read, reply("Yes.")) as api:
        ended = agent_cli(script=f"look\n/add-dir {other}\nagain\n", api=api)

        results = [str(api.requests[at].body["messages"][-1]) for at in (1, 3)]

    assert f"tools and commands may use {other} in this session" in ended.stderr
    assert ["found it" in result for result in results] == [False, True]


def test_btw_asks_behind_the_conversation_and_leaves_it_as_it_is() -> None:
    """The cached prefix stays, a call of the model runs nothing, and /usage counts it."""
    call = tool_use("bash", {"command": "touch ran"})
    lines = "/btw too early\nhello\n/btw what is *this*?\nagain\n/usage\n"
    replies = (reply(text("A")), reply(call), reply(text("It is **that**.")), reply(text("B")))
    with serve_in_thread(*replies) as api:
        ended = agent_cli(script=lines, api=api)
        first, aside, once_more, last = (request.body for request in api.requests)

    assert "there is no conversation yet: send the question as a message" in ended.stderr
    assert "It is **that**.\nneither question nor answer is in the conversation" in ended.stderr
    assert (aside["tools"], aside["system"]) == (first["tools"], first["system"])
    assert "what is *this*?" in str(aside["messages"][-1])
    assert "No tool runs now" in str(once_more["messages"][-1])
    assert not Path("ran").exists()
    said = [block["text"] for each in last["messages"] for block in each["content"]]
    assert [said[0], said[1], said[-1]] == ["hello", "A", "again"]
    assert "this" not in str(said)
    assert re.search(r"including [\d,]+ tokens for summaries, /btw,", ended.stderr)


def test_btw_is_answered_while_a_call_is_at_work() -> None:
    """The request must hold a result of each call, or the API refuses it."""
    wait = tool_use("bash", {"command": "echo begun > begun; until [ -e go ]; do sleep 0.01; done"})
    variables = {"TERM": "xterm-256color"}
    with serve_in_thread(reply(wait), reply(text("On it.")), reply(text("Done."))) as api:
        options = ("--permission-mode", "yolo")
        with Terminal(AGENT_CLI, *options, **environment(api, {**variables})) as terminal:
            terminal.until("you>")
            terminal.send("work\r")
            wait_until(Path("begun").exists)
            terminal.send("/btw what do you do?\r")
            terminal.until("neither question nor answer is in the conversation")
            Path("go").touch()
            terminal.until("Done.")
            shown = terminal.text
        aside, last = (str(request.body["messages"]) for request in api.requests[1:3])

    assert shown.count("what do you do?") == 1
    assert "On it." in shown
    assert "this call is still at work" in aside
    assert "what do you do" not in last
    assert "still at work" not in last


def test_permissions_command_takes_back_only_what_allows_and_stands_in_its_file() -> None:
    """A rule that denies the same, or an option, goes on to count, which is said."""
    paths.config_dir().mkdir(parents=True)
    paths.permissions_file().write_text('deny = ["bash(x *)"]\nallow = ["bash(x *)"]\n')
    script = [
        "/permissions remove bash(x *)",
        "/permissions remove bash(x *)",
        "/permissions remove 1",
        "/permissions remove nosuch",
        f"/permissions remove {'9' * 5_000}",
        "/permissions allow bash(y\x1b[31m *)",
        "/permissions",
    ]
    with serve_in_thread(reply("Done.")) as api:
        ran = agent_cli("--allow", "bash(x *)", script="\n".join(script), api=api)

    file = paths.shown(str(paths.permissions_file()))
    assert (
        "no longer allowed in every project: bash(x *); flag --allow still allows it\n"
        "bash(x *) is set in flag --allow: change it there\n"
        f"bash(x *) is to deny, set in {file}:1: change it there, it counts from the next start\n"
        "no rule is nosuch: /permissions lists them with numbers\n"
    ) in ran.stderr
    assert re.search(r"9…? is not one of the numbers from 1 to 2$", ran.stderr, re.MULTILINE)
    assert re.search(r"^2  allow  bash\(x \*\)  flag --allow$", ran.stderr, re.MULTILINE)
    assert re.search(r"^3  allow  bash\(y\\x1b\[31m \*\)  ", ran.stderr, re.MULTILINE)
    assert paths.permissions_file().read_text().startswith('deny = ["bash(x *)"]\nallow = []\n')


def test_permissions_command_says_which_rules_allow_every_call() -> None:
    rules = ("bash", "bash(*)", "*", "mcp__*", "network", "edit(docs/**)")
    with serve_in_thread() as api:
        said = agent_cli(script="".join(f"/permissions allow {r}\n" for r in rules), api=api)

    assert re.findall(r"^allowed: (.*), in this project", said.stderr, re.MULTILINE) == [
        *["bash, every call of it"] * 2,
        "*, every call of every tool",
        "mcp__*, every call of every such tool",
        "network, every host",
        "edit(docs/**)",
    ]


@each_row(
    ("kept", "named", "is_found"),
    [
        ("edit(./src/**)", "edit(src/**)", True),
        ("edit(src/**)", "edit(./src/**)", True),
        ("edit(./src/)", "edit(src/)", False),
        ("edit(./a.py)", "edit(a.py)", False),
        ("bash(./src/x *)", "bash(src/x *)", False),
    ],
)
def test_permissions_command_finds_a_rule_with_and_without_its_dot(
    kept: str, named: str, is_found: bool
) -> None:
    """Without a slash within, a pattern matches in every folder: then the two differ."""
    script = f"/permissions allow {kept}\n/permissions remove {named}\n"

    ran = agent_cli(script=script, api=None)

    assert (f"no longer allowed in this project: {kept}" in ran.stderr) is is_found
    assert (f"no rule is {named}" in ran.stderr) is not is_found


def test_model_command_says_that_fast_mode_pauses() -> None:
    """It named the fast model, and the next replies came at the usual speed."""
    limit = error(429, "rate_limit_error", "fast mode limit reached")
    with serve_in_thread(limit, reply("Usual.")) as api:
        ran = agent_cli("--model", "opus-fast", script="go\n/model opus-fast\n", api=api)

    assert ran.stdout.startswith("Usual.")
    [first, second] = re.findall("fast mode: not used for the next [^:\n]*", ran.stderr)
    assert first.endswith("10 min")
    assert re.search(r"next (10 min|9 min \d+ s)$", second)


def test_goal_whose_run_failed_says_how_it_goes_on() -> None:
    """It was called active, and nothing ran."""
    refused = error(401, "authentication_error", "invalid x-api-key")
    with serve_in_thread(refused) as api:
        ran = agent_cli(script="/goal --check false make it green\n/goal\n", api=api)

    assert "goal (active): make it green" in ran.stderr
    assert "your next prompt goes on with it, /goal off ends it" in ran.stderr


def test_permissions_command_adds_a_rule_and_takes_it_back() -> None:
    """At once and for later sessions, as "don't ask again" does; rules of other files stay."""
    touch = reply(tool_use("bash", {"command": "touch made"}))
    allow = '/permissions allow "Bash(touch:*)"\n'
    with serve_in_thread(touch, reply("Done.")) as api:
        ran = agent_cli(script=f"{allow}go\n/permissions allow nosuch\n", api=api)
        kept = paths.permissions_file().read_text()
        later = agent_cli(
            *("--allow", "edit"),
            script="/permissions remove Edit\n/permissions remove Bash(touch:*)\n/permissions\n",
            api=api,
        )

    assert "allowed: bash(touch *), in this project" in ran.stderr
    assert "there is no tool nosuch here" in ran.stderr
    assert Path("made").exists()
    assert "Bash(touch:*)" in kept
    assert "edit is set in flag --allow: change it there" in later.stderr
    assert "no longer allowed in this project: bash(touch *)" in later.stderr
    assert re.search(r"^1  allow  edit  ", later.stderr, re.MULTILINE)
    assert paths.permissions_file().read_text() == ""
