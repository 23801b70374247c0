"""Who decides about a call: rules, mode, memory of the session, a person."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent_cli.errors import SettingsError
from agent_cli.events import ToolCall
from agent_cli.hooks import LoopConfig
from agent_cli.policies.permissions import Mode, Permissions
from agent_cli.timeline import Json
from agent_cli.tooling import Allow, Ask, Deny, Tool, Verdict
from tests.fakes import calls, returns, says, scripted_agent, tool, tool_use

READ = replace(tool("read", returns("text")), changes=False)
EDIT = tool("edit", returns("done"), writes=lambda params: [params["path"]])
BASH = tool("bash", returns("done"))
REMOTE = tool("mcp__github__create_issue", returns("done"))
SIGNS = (";", "&", "|", "<", ">", "$", "`", "(", ")", "\n", "\r", "&&", "||")
PROGRAMS = (
    *("python", "python3.12", "/usr/bin/node", "bash", "sh", "sudo", "rm", "curl", "find"),
    *("xargs", "env", ".", "source", "eval", "ssh", "npx"),
)
MODES: tuple[Mode, ...] = ("ask", "auto-edit", "plan", "yolo")


def policy(root: Path = Path("/ws"), *, mode: Mode = "ask", **rules: list[str]) -> Permissions:
    return Permissions(
        root=root,
        mode=mode,
        allow=rules.get("allow", ()),
        ask=rules.get("ask", ()),
        deny=rules.get("deny", ()),
    )


def call_of(tool: Tool, given: Json, id: str = "t1") -> ToolCall:
    return ToolCall(id, tool.name, given)


def decide(permissions: Permissions, tool: Tool, **given: str) -> type[Verdict]:
    return type(permissions(call_of(tool, {**given}), tool, given))


def runs(permissions: Permissions, command: str) -> type[Verdict]:
    return decide(permissions, BASH, command=command)


@pytest.mark.parametrize(
    ("mode", "bash", "edit"),
    [("ask", Ask, Ask), ("auto-edit", Ask, Allow), ("plan", Deny, Deny), ("yolo", Allow, Allow)],
)
def test_the_mode_decides_what_no_rule_decides(
    mode: Mode, bash: type[Verdict], edit: type[Verdict]
) -> None:
    """C19: four modes; auto-edit covers tools that name what they write, not commands."""
    permissions = policy(mode=mode)

    assert runs(permissions, "npm test") is bash
    assert decide(permissions, REMOTE, title="x") is bash
    assert decide(permissions, EDIT, path="a") is edit
    assert decide(permissions, READ, path="a") is Allow


@pytest.mark.parametrize("mode", MODES)
def test_deny_wins_over_everything_in_every_mode(mode: Mode) -> None:
    """C19: deny always wins, over tools that only read too."""
    permissions = policy(
        mode=mode, allow=["bash", "read"], ask=["bash"], deny=["bash(rm *)", "read(.env)"]
    )

    verdict = permissions(call_of(BASH, {"command": "rm -rf x"}), BASH, {})

    assert isinstance(verdict, Deny)
    assert "The rule bash(rm *) forbids this call." in verdict.reason
    assert decide(permissions, READ, path=".env") is Deny


@pytest.mark.parametrize("mode", ["ask", "auto-edit", "yolo"])
def test_ask_wins_over_allow_and_over_the_mode(mode: Mode) -> None:
    """C19: deny, then ask, then allow, then the mode."""
    permissions = policy(mode=mode, allow=["bash(git *)"], ask=["bash(git push *)"])

    assert runs(permissions, "git push origin") is Ask
    assert runs(permissions, "git status") is Allow


def test_in_plan_mode_no_rule_lets_a_change_through() -> None:
    """C19: plan means that nothing changes; the model reads what to do instead."""
    permissions = policy(mode="plan", allow=["bash", "edit"], ask=["edit"])

    verdict = permissions(call_of(EDIT, {"path": "a"}), EDIT, {"path": "a"})

    assert isinstance(verdict, Deny)
    assert "describe what you would do" in verdict.reason
    assert runs(permissions, "ls") is Deny


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("npm test", Allow),
        ("npm  test --watch 'a b'", Allow),
        ("npm testing", Ask),
        ("npm", Ask),
        ("npm run test", Ask),
        ("/tmp/npm test", Ask),
        ("X=1 npm test", Ask),
        *[(f"npm test {sign} x", Ask) for sign in SIGNS],
        ("npm test $(id)", Ask),
        ("npm test 'open", Ask),
        ("", Ask),
    ],
)
def test_an_allow_rule_covers_only_plain_commands_it_understands_whole(
    command: str, verdict: type[Verdict]
) -> None:
    """C19: a beginning that was allowed must not carry another command with it."""
    assert runs(policy(allow=["bash(npm test *)"]), command) is verdict


def test_a_rule_without_a_star_allows_one_command() -> None:
    permissions = policy(allow=["bash(git status)"])

    assert runs(permissions, "git status") is Allow
    assert runs(permissions, "git status -s") is Ask


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "/bin/rm x",
        "cd a && rm -r b",
        "sudo rm x",
        "true;rm x",
        "echo $(rm x)",
        "bash -c 'rm x'",
        'r""m x',
        "find . | xargs rm",
        "X=1 rm x",
        "echo 'open; rm x",
    ],
)
def test_a_deny_rule_finds_its_command_wherever_it_stands(command: str) -> None:
    """C19: a guard rail, so it errs towards denying."""
    assert runs(policy(mode="yolo", deny=["bash(rm *)"]), command) is Deny


@pytest.mark.parametrize("command", ["farm x", "rm.sh", "ls"])
def test_a_deny_rule_leaves_other_words_alone(command: str) -> None:
    assert runs(policy(mode="yolo", deny=["bash(rm *)"]), command) is Allow


@pytest.mark.parametrize(
    ("path", "verdict"),
    [
        ("src/a.py", Allow),
        ("./src/deep/a.py", Allow),
        ("/ws/src/a.py", Allow),
        ("src/../a.py", Ask),
        ("src/../../etc/passwd", Ask),
        ("srcs/a.py", Ask),
        ("@src/a.py", Ask),
        ("~/src/a.py", Ask),
        ("", Ask),
    ],
)
def test_an_allow_rule_for_paths_compares_what_they_name(path: str, verdict: type[Verdict]) -> None:
    """C19: a text that begins right can lead elsewhere."""
    assert decide(policy(allow=["edit(src/*)"]), EDIT, path=path) is verdict


def test_a_symlink_is_denied_by_either_name_and_allowed_only_by_both(tmp_path: Path) -> None:
    """C19: the model can create links."""
    (tmp_path / "src").mkdir()
    (tmp_path / "secret").write_text("")
    (tmp_path / "src" / "link").symlink_to(tmp_path / "secret")

    assert decide(policy(tmp_path, allow=["edit(src/*)"]), EDIT, path="src/link") is Ask
    for denied in ("secret", "src/link"):
        permissions = policy(tmp_path, mode="yolo", deny=[f"edit({denied})"])
        assert decide(permissions, EDIT, path="src/link") is Deny
        assert decide(permissions, EDIT, path="@src/link") is Deny


def test_a_rule_may_name_all_tools_of_a_server() -> None:
    assert decide(policy(allow=["mcp__github__*"]), REMOTE) is Allow
    assert decide(policy(allow=["mcp__git__*"]), REMOTE) is Ask
    assert decide(policy(allow=["*"]), REMOTE) is Allow
    assert decide(policy(mode="yolo", deny=["edit(*)"]), EDIT, path="a") is Deny


@pytest.mark.parametrize(
    "written",
    [
        "",
        "bash(",
        "bash()",
        "bash(a)b",
        "two words",
        "bash(npm * test)",
        "bash(npm*)",
        "edit(*.py)",
    ],
)
def test_what_is_no_rule_is_refused_with_an_example(written: str) -> None:
    """A rule that silently never matches is a hole or a nuisance."""
    with pytest.raises(SettingsError, match=r"is not a rule.*bash\(npm test \*\)"):
        policy(deny=[written])


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("npm test --watch", "bash(npm test *)"),
        ("npm run test:unit", "bash(npm run test:unit *)"),
        ("pytest -q tests", "bash(pytest *)"),
        ("git commit -m 'a b'", "bash(git commit *)"),
        ("ls", "bash(ls *)"),
        ("git -C /x push", None),
        ("npm", None),
        ("uv run python x.py", None),
        ("npm test && ls", None),
        ("ls 'open", None),
        ("'a program' x", None),
        ("A=1 npm test", None),
        *[(f"{program} x", None) for program in PROGRAMS],
    ],
)
def test_what_always_would_allow_is_shown_and_never_open_ended(
    command: str, rule: str | None
) -> None:
    """S4-26: the key is the tool and the command's first words, if they say what it does."""
    permissions = policy()
    call = call_of(BASH, {"command": command})
    permissions(call, BASH, {})

    assert permissions.rule_for(call) == rule


def test_other_tools_are_remembered_by_name() -> None:
    """S4-26: all edits, or one tool of a server."""
    permissions = policy()
    edit, remote = call_of(EDIT, {"path": "a"}, "t1"), call_of(REMOTE, {"title": "x"}, "t2")
    permissions(edit, EDIT, {"path": "a"})
    permissions(remote, REMOTE, {})

    assert permissions.rule_for(edit) == "edit(*)"
    assert permissions.rule_for(remote) == "mcp__github__create_issue"


def test_what_was_remembered_is_not_asked_again_in_this_session() -> None:
    """S4-26: a new session asks again."""
    permissions = policy()
    call = call_of(BASH, {"command": "npm test"})
    assert isinstance(permissions(call, BASH, {}), Ask)

    permissions.remember(call)

    assert runs(permissions, "npm test --watch") is Allow
    assert runs(permissions, "npm publish") is Ask
    assert runs(policy(), "npm test") is Ask


def test_always_is_not_offered_where_it_would_change_nothing() -> None:
    """S4-26: a rule that asks, and a tool that asks by itself, ask every time."""
    permissions = policy(ask=["bash(git push *)"])
    push = call_of(BASH, {"command": "git push"})
    permissions(push, BASH, {})
    permissions.remember(push)

    assert permissions.rule_for(push) is None
    assert permissions.rule_for(call_of(BASH, {"command": "ls"}, "never asked")) is None
    assert runs(permissions, "git push") is Ask


def test_where_nobody_can_be_asked_a_question_is_a_denial_and_counted() -> None:
    """C19: headless without an answer is a denial; the program's exit code tells."""
    permissions = Permissions(root=Path("/ws"), interactive=False, deny=["bash(rm *)"])

    assert runs(permissions, "npm test") is Deny
    assert runs(permissions, "rm x") is Deny
    assert decide(permissions, READ, path="a") is Allow

    assert permissions.denied_questions == 1


async def test_a_run_pauses_for_a_question_and_the_second_call_like_it_does_not() -> None:
    """S4-26: through the loop: asked, approved for the session, then allowed."""
    permissions = policy()
    agent, _, _ = scripted_agent(
        calls(tool_use("bash", {"command": "npm test"}, "t1")),
        calls(tool_use("bash", {"command": "npm test -q"}, "t2")),
        says("done"),
        tools=[BASH],
        options=LoopConfig(authorize_tool=permissions),
    )

    asked = await agent.prompt("go")
    [question] = agent.conversation.questions()
    permissions.remember(ToolCall(question.tool_call_id, question.name, question.input))
    result = await agent.approve(question.tool_call_id)

    assert asked.stop_reason == "waiting_for_approval"
    assert result.stop_reason == "end_turn"


async def test_in_a_headless_run_the_model_reads_why_and_goes_on() -> None:
    """C19: no pause, no effect."""
    agent, model, _ = scripted_agent(
        calls(tool_use("bash", {"command": "npm test"})),
        says("I could not test"),
        tools=[tool("bash", returns("it ran"))],
        options=LoopConfig(authorize_tool=Permissions(root=Path("/ws"), interactive=False)),
    )

    result = await agent.prompt("go")

    assert result.stop_reason == "end_turn"
    assert "nobody can be asked here" in str(model.sent())
    assert "it ran" not in str(model.sent())
