"""Sessions over all features against a simulated cache: what is read anew was announced before."""

import random
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from json import JSONDecoder, dumps
from pathlib import Path

import pytest

from agent_cli.contracts.messages import UserMessage, now_ms
from agent_cli.contracts.provider import Model
from agent_cli.contracts.provider import Reply as ModelReply
from agent_cli.contracts.timeline import Success, Usage
from agent_cli.core.conversation import Conversation
from agent_cli.session_store import SessionStore
from agent_cli.system.paths import sessions_dir
from tests.e2e.program import agent_cli, in_terminal
from tests.fakes import says
from tests.mcp_client.conftest import RAW_SERVER
from tests.messages_api import ReceivedRequest, reply, serve_in_thread, tool_use
from tests.messages_api.prompt_cache import PromptCache, canonical
from tests.messages_api.script import Payload, Reply
from tests.repl.terminal import Terminal
from tests.tools.test_read import png

LEAST_TOKENS = 1_024
_ANNOUNCED = re.compile(r"(.+): about ([\d,]+) tokens not read from the cache \(\$[\d.]+\)")
_CALL = re.compile(r"CALL (\w+) (.+)")

STEPS = {
    "talk": "tell me more",
    "read": 'CALL read {"path": "big.txt", "limit": 40}',
    "edit": 'CALL write {"path": "new.txt", "content": "x"}',
    "bash": 'CALL bash {"command": "ls; date +%N"}',
    "nested": 'CALL read {"path": "sub/a.txt"}',
    "job": 'CALL bash {"command": "true", "background": true}',
    "todo": 'CALL todo {"todos": [{"content": "a", "status": "pending"}]}',
    "agent": 'CALL agent {"subagent_type": "explore", "prompt": "look around",'
    ' "description": "looks"}',
    "unknown": "CALL no_such_tool {}",
    "wake": 'CALL bash {"command": "touch go; while [ ! -e up ]; do sleep 0.05; done"}',
    "plan": "/mode plan",
    "ask": "/mode ask",
    "edits": "/mode auto-edit",
    "yolo": "/mode yolo",
    "folder": "/add-dir other",
    "style": "/output-style explanatory",
    "plain": "/output-style default",
    "pin": "/pin never push",
    "unpin": "/unpin 1",
    "skill": "/greet",
    "high": "/effort high",
    "low": "/effort low",
    "opus": "/model high",
    "sonnet": "/model normal",
    "compact": "/compact",
    "uncompact": "/uncompact",
    "undo": "/undo",
    "gone": "CALL mcp__tools__tool_0 {}",
    "back": "CALL mcp__tools__tool_1 {}",
    "off": "/mcp disable tools",
    "on": "/mcp enable tools",
}
_TALKS = [name for name, line in STEPS.items() if not line.startswith("/")]


@dataclass(frozen=True, slots=True)
class Loss:
    """Tokens that a request could have read from the cache and did not, and what had changed."""

    tokens: int
    causes: tuple[str, ...]


def answer(request: ReceivedRequest) -> Reply:
    """Make the call that the last message asks for, or answer."""
    *_, last = request.body["messages"]
    texts = [block for block in last["content"] if block["type"] == "text"]
    if any(block["type"] == "tool_result" for block in last["content"]) or not texts:
        return reply("Done.")
    if found := _CALL.search(str(texts[-1]["text"])) or _CALL.search(str(texts[0]["text"])):
        return reply(tool_use(found[1], JSONDecoder().raw_decode(found[2])[0]))
    return reply("All right.")


def losses_in(requests: list[ReceivedRequest]) -> Iterator[Loss]:
    """Yield the losses of one conversation's requests, with the causes that bodies show."""
    cache = PromptCache()
    usages = [cache.usage(request.body) for request in requests]
    for (before, used), (after, usage) in pairwise(zip(requests, usages, strict=True)):
        reachable = used["cache_read_input_tokens"] + used["cache_creation_input_tokens"]
        total = sum(usage[f"{kind}input_tokens"] for kind in ("", "cache_read_", "cache_creation_"))
        lost = min(reachable, total) - usage["cache_read_input_tokens"]
        causes = {*_causes(before.body, after.body)}
        if lost >= LEAST_TOKENS and causes != {"compaction"}:
            yield Loss(lost, (*causes - {"compaction"},))


def _causes(before: Payload, after: Payload) -> Iterator[str]:
    if before["model"] != after["model"]:
        yield "the model changed"
        return
    if canonical(before["tools"]) != canonical(after["tools"]):
        yield "the tools changed"
    elif canonical(before["system"]) != canonical(after["system"]):
        yield "changed"
    if before.get("output_config") != after.get("output_config"):
        yield "the effort changed"
    one, other = canonical(before["messages"])[:-1], canonical(after["messages"])
    if not other.startswith(one):
        begins = after["messages"][0]["content"][0]["type"]
        yield "compaction" if begins == "compaction" else "older messages"


def run_session(
    lines: list[str],
    *,
    tools: int = 3,
    model: str = "claude-sonnet-5-5",
    answer: Callable[[ReceivedRequest], Reply] = answer,
    threads: bool = False,
    late_wait_s: int = 10,
) -> tuple[list[Loss], list[tuple[str, int]]]:
    """Run a session of *lines*; return its losses, and the causes and tokens it announced.

    With *threads* the server holds it (threads_above_tokens), though it is not Anthropic's own
    (threads_elsewhere). The first prompt waits for a late server in vain, for *late_wait_s*.
    """
    has_late = STEPS["wake"] in lines
    _write_workspace(tools, has_late=has_late)
    # Without the late server it is as long as it takes.
    wait_s = str(late_wait_s) if has_late else "60"
    with serve_in_thread(answer=answer) as api:
        run = agent_cli(
            *("--permission-mode", "yolo", "--mcp-config", "servers.json", "--model", model),
            api=api,
            script="\n".join([f"CALL bash {dumps({'command': 'true'})} {'word ' * 4_000}", *lines])
            + "\n",
            AGENT_CLI_MCP__HEADLESS_WAIT_S=wait_s,
            AGENT_CLI_PROVIDER__THREADS_ABOVE_TOKENS="5000" if threads else "0",
            AGENT_CLI_PROVIDER__THREADS_ELSEWHERE="true",
        )
    assert run.code == 0, run.stderr
    assert api.refusals == []
    continued = [each for each in api.posted if "'continue'" in str(each.body.get("thread"))]
    assert bool(continued) == threads
    shown = run.stdout + run.stderr
    assert "cached tokens were read anew" not in shown, shown
    conversations = groupby(sorted(api.requests, key=_begin), key=_begin)
    losses = [loss for _, requests in conversations for loss in losses_in([*requests])]
    told = [(found[1], int(found[2].replace(",", ""))) for found in _ANNOUNCED.finditer(shown)]
    return losses, told


def _begin(request: ReceivedRequest) -> str:
    return str(request.body["messages"][0]["content"][0])


def check(losses: list[Loss], told: list[tuple[str, int]]) -> None:
    """Hold that each loss was announced, in order, with its causes and about its tokens."""
    left = iter(told)
    for loss in losses:
        found = next(
            (each for each in left if all(cause in each[0] for cause in loss.causes)), None
        )
        assert found, (loss, told)
        assert loss.tokens * 0.7 <= found[1], (loss, told)


def _write_workspace(tools: int, *, has_late: bool) -> None:
    Path("big.txt").write_text("a line of text\n" * 200)
    for folder in ("sub", "other", ".claude/skills/greet"):
        Path(folder).mkdir(parents=True, exist_ok=True)
    Path("sub/a.txt").write_text("text")
    Path("sub/AGENTS.md").write_text("In sub, use tabs.")
    Path("AGENTS.md").write_text("Use spaces.")
    Path(".claude/skills/greet/SKILL.md").write_text(
        "---\nname: greet\ndescription: Greets.\n---\nSay hello."
    )
    named = [
        {"name": f"tool_{number}", "inputSchema": {"type": "object"}} for number in range(tools)
    ]
    raw = [sys.executable, "-I", "-S", RAW_SERVER, dumps({"tools": named})]
    late = ["-c", 'while [ ! -e go ]; do sleep 0.05; done; touch up; exec "$@"', "sh", *raw]
    servers = {"tools": {"command": raw[0], "args": raw[1:]}}
    if has_late:
        servers["late"] = {"command": "sh", "args": late}
    Path("servers.json").write_text(dumps({"mcpServers": servers}))


def scripted(seed: int) -> list[str]:
    """Return the lines of session *seed*: changes between prompts, each followed by one."""
    drawn = random.Random(seed)
    names = drawn.sample(sorted(STEPS), k=7)
    lines: list[str] = []
    for name in names:
        lines.append(STEPS[name])
        if STEPS[name].startswith("/"):
            lines.append(STEPS[drawn.choice(_TALKS)])
    return lines


@pytest.mark.parametrize(
    "names",
    [
        ("plan", "read", "ask", "nested", "job", "talk", "folder", "talk", "style", "talk"),
        ("high", "talk", "opus", "talk", "pin", "agent", "unpin", "skill", "todo", "talk"),
        ("compact", "talk", "read", "uncompact", "talk", "off", "talk", "on", "talk"),
        ("read", "talk", "compact", "talk", "read", "talk", "compact", "talk", "read", "talk"),
    ],
)
def test_no_feature_rewrites_the_cache_unannounced(names: tuple[str, ...]) -> None:
    """Bytes of earlier turns stay; what a change costs is said first, with the right cause."""
    losses, told = run_session([STEPS[name] for name in names])

    check(losses, told)


def test_another_effort_and_a_first_image_rewrite_nothing() -> None:
    """Both stand behind what the cache holds: no loss, and nothing to announce.

    No image was left out before, and none is now.
    """
    Path("a.png").write_bytes(png(8, 8))
    names = ["high", "talk", "read", "low", "talk", "high", "edit", "talk"]
    lines = [STEPS[name] for name in names]

    assert run_session([*lines, 'CALL read {"path": "a.png"}', STEPS["talk"]]) == ([], [])


def test_a_server_that_comes_late_rewrites_nothing() -> None:
    """Its tools are added behind what the cache holds; nothing is to be announced."""
    talks = [STEPS["read"], STEPS["ask"], STEPS["talk"], STEPS["read"]]

    # Nothing changes if the other server is late, too.
    assert run_session([STEPS["wake"], *talks, *talks], late_wait_s=2) == ([], [])


def test_conversation_that_the_server_holds_is_edited_as_any_other() -> None:
    """Compaction, undo, another model and tools: the server's own history is what was meant."""
    names = "talk", "read", "compact", "talk", "talk", "uncompact", "talk", "opus", "talk", "talk"

    losses, told = run_session([STEPS[name] for name in (*names, "pin", "todo")], threads=True)

    check(losses, told)


@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "claude-sonnet-5"])
def test_a_server_that_goes_and_comes_back_rewrites_nothing(model: str) -> None:
    """Its tools stay declared; the model is told, in the system's role where it has that."""
    lines = ["off", "talk", "gone", "on", "talk", "back", "off", "talk"]
    told: list[str] = []

    def note(request: ReceivedRequest) -> Reply:
        told[:] = [
            str(block.get("type"))
            for message in request.body["messages"]
            if message["role"] == "system"
            for block in message["content"]
        ]
        seen.append(request.body)
        return answer(request)

    seen: list[Payload] = []
    assert run_session([STEPS[name] for name in lines], model=model, answer=note) == ([], [])
    results = [block for body in seen for block in body["messages"][-1]["content"]]
    assert "is not available" in str([each for each in results if "tool_result" in each.values()])
    assert "these tools can be called again: tools: tool_0, tool_1" in str(seen[-1]["messages"])
    changes = [*["tool_removal"] * 3, *["tool_addition"] * 3, *["tool_removal"] * 3]
    assert told == (changes if model == "claude-sonnet-5-5" else [])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50))
def test_random_sessions_read_nothing_anew_unannounced(seed: int) -> None:
    """Fifty sessions of seven features each, with prompts between them."""
    tools = random.Random(seed).choice((3, 400))
    losses, told = run_session(scripted(seed), tools=tools, threads=seed % 2 == 1)

    check(losses, told)


def _session_of_before() -> None:
    """Record a session that ended a quarter of an hour ago, with 6,000 tokens in the cache."""
    conversation = Conversation()
    session = SessionStore(sessions_dir()).create(conversation, Path.cwd())
    conversation.publish = session.record
    with conversation.dated(now_ms() - 900_000):
        conversation.begin(UserMessage.of(LONG), model=Model("claude-sonnet-5-5"))
        conversation.add_reply(says("Fine.", usage=Usage(10, 5, 0, 6_000)))
        conversation.complete()
    session.close()


def _choose(terminal: Terminal, keys: str) -> None:
    """Answer once the question has been shown long enough for a person to read it."""
    terminal.until("❯ 1 Send it")
    terminal.send(keys)


LONG = "word " * 4_000
LIMIT = "AGENT_CLI_REREAD_QUESTION_USD"  # reread_question_usd
COLD = "minutes passed, and the cache lives five: about"


def test_a_resume_with_a_cold_cache_says_the_price_first_and_asks_above_a_limit() -> None:
    """In -p a line on stderr; a person who says no keeps the prompt for later."""
    with serve_in_thread(*[reply("Fine.")] * 2) as api:
        _session_of_before()
        printed = agent_cli("-p", "-c", "go on", api=api)
        assert printed.code == 0
        assert re.search(rf"1[56] {COLD} [\d,]+ tokens not read from the cache", printed.stderr)
        _session_of_before()
        with in_terminal(api, "-c", **{LIMIT: "0.001"}) as terminal:
            terminal.until_prompt()
            terminal.send("and on\r")
            _choose(terminal, "2\r")
            terminal.until("not sent: your next prompt goes together with this one")
            assert len(api.requests) == 1
            terminal.send("now\r")
            _choose(terminal, "1\r")
            terminal.until(lambda: len(api.requests) == 2)
    texts = [block["text"] for block in api.requests[1].body["messages"][-1]["content"]]
    assert texts[-2:] == ["and on", "now"]


def test_each_resume_says_what_it_reads_anew_of_a_warm_cache() -> None:
    """Nothing at first: the API's id of the reply before is on record.

    The system prompt of before is not: the cause says no more than is known. Another model is
    announced, and no reply of the first one is named to it.
    """
    stream = ("--output-format", "stream-json")
    brief = ("--append-system-prompt", "Be brief.")
    with serve_in_thread(*[reply("Fine.")] * 5) as api:
        runs = [agent_cli("-p", LONG, *stream, api=api)]
        for more in ((), (), brief, (*brief, "--model", "high")):
            runs.append(agent_cli("-p", "-c", "go on", *stream, *more, api=api))
        assert [run.code for run in runs] == [0] * 5, [run.stderr for run in runs]
    assert api.refusals == []
    lost = [[each for each in run.lines if each["type"] == "app.cache_lost"] for run in runs]
    previous = [each.body["diagnostics"]["previous_message_id"] for each in api.requests]
    shown = [run.stdout + run.stderr for run in runs]

    assert lost[:3] == [[], [], []]
    assert previous[:3] == [None, "msg_000001", "msg_000002"]
    [[anew], [announced]] = lost[3:]
    assert anew["tokens"] > LEAST_TOKENS
    assert anew["cause"].startswith("something sent before the new message changed since")
    assert not anew["was_announced"]
    assert f"{anew['tokens']:,} cached tokens were read anew, $" in shown[3]
    assert (announced["was_announced"], "were read anew" in shown[4]) == (True, False)
    assert announced["cause"] == "the model changed from claude-sonnet-5-5 to claude-opus-5-5"
    assert previous[4] is None


def _large_session_of_before() -> None:
    """Record one of a quarter of an hour ago: 14 results of 6,000 characters each."""
    conversation = Conversation()
    session = SessionStore(sessions_dir()).create(conversation, Path.cwd())
    conversation.publish = session.record
    with conversation.dated(now_ms() - 900_000):
        conversation.begin(UserMessage.of("look"), model=Model("claude-sonnet-5-5"))
        for number in range(24):
            call = f"toolu_{number}"
            looks = tool_use("read", {"path": "a"}, id=call)
            conversation.add_reply(
                ModelReply(f"msg_{number}", "m", (looks,), "tool_use", Usage(9, 5))
            )
            conversation.settle_call(call, Success(({"type": "text", "text": "line " * 1_200},)))
        conversation.add_reply(says("Seen.", usage=Usage(10, 5, 0, 40_000)))
        conversation.complete()
    session.close()


@pytest.mark.parametrize("wanted", ["true", "false"])
def test_old_results_are_left_out_where_that_saves_money_and_can_be_recalled(wanted: str) -> None:
    """After a pause, which costs the cache anyway; the user and the model are told.

    leave_out_old_results switches it off.
    """
    switch = {"AGENT_CLI_HISTORY__LEAVE_OUT_OLD_RESULTS": wanted}
    back = reply(tool_use("recall", {"entry": 2}))
    with serve_in_thread(back, *[reply("Fine.")] * 3) as api:
        _large_session_of_before()
        run = agent_cli("-p", "-c", "go on", api=api, **switch)
        assert (run.code, api.refusals) == (0, [])
    told = "14 old tool results left out (about 21,000 tokens" in run.stderr
    sent = str(api.requests[0].body["messages"]).count("was left out to save tokens")
    assert (told, sent) == ((True, 14) if wanted == "true" else (False, 0))
    if wanted == "true":
        (entry,) = api.requests[1].body["messages"][-1]["content"]
        assert "line line line" in str(entry)
        begun, gone = (canonical(each.body["messages"])[:-1] for each in api.requests[:2])
        assert gone.startswith(begun)


def test_effort_and_model_ask_before_a_costly_change() -> None:
    """The command says the price and asks; the request that pays it says nothing again.

    Of a model that reads no effort in messages.
    """
    with (
        serve_in_thread(*[reply("Fine.")] * 2) as api,
        in_terminal(api, "--model", "claude-opus-4-8", LONG, **{LIMIT: "0.001"}) as terminal,
    ):
        terminal.until("Fine.")
        terminal.send("/effort high\r")
        terminal.until("keep it")
        terminal.send("keep\r")
        terminal.until("the effort stays as it is")
        terminal.send("/model high\r")
        terminal.until("change the model")
        terminal.send("\r")
        terminal.until("model: claude-opus-5-5; the model changed from")
        terminal.send("next\r")
        terminal.until(lambda: len(api.requests) == 2)
        terminal.until_prompt()
        assert "Send the prompt?" not in terminal.transcript
    assert [each.body["model"] for each in api.requests] == ["claude-opus-4-8", "claude-opus-5-5"]
