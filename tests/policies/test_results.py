"""Limits on results: exact length and notice, and old ones that leave where that saves money."""

from pathlib import Path

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.events import Notice, ToolCall
from agent_cli.contracts.media_files import document_block, image_block
from agent_cli.contracts.messages import ToolResultMessage
from agent_cli.contracts.timeline import Block, ReplyOutput, Usage, text_block
from agent_cli.contracts.tooling import ToolContext, ToolResult
from agent_cli.core.loop_config import LoopConfig
from agent_cli.policies.results import (
    MASK,
    HiddenCredentials,
    OldResults,
    Truncation,
    truncate_tool_result,
)
from tests.fakes import Step, calls, returns, says, scripted_agent, texts, tool, tool_use
from tests.policies.histories import Listener
from tests.tables import each_row

IMAGE: Block = {"type": "image", "source": {"type": "base64", "media_type": "image/png"}}
CALL = ToolCall("t1", "bash", {"command": "yes"})

PAUSE_S = 600.0


def test_truncation_notice_has_the_specified_wording() -> None:
    """S1-35, S1-16: thousands separators, the tool's name and the real length."""
    cut = truncate_tool_result("x" * 120_000, "bash")

    notice = "[OUTPUT TRUNCATED: Showing 40,000 of 120,000 characters from bash]"
    assert cut == "x" * 40_000 + "\n\n" + notice


@each_row(("length", "limit"), [(40_000, 40_000), (5, 40_000), (0, 1), (90_000, 0)])
def test_short_result_is_not_truncated_and_0_disables_the_limit(length: int, limit: int) -> None:
    """S1-34: 40,000 exactly stays as it is."""
    assert truncate_tool_result("x" * length, "bash", limit) == "x" * length


def test_result_one_character_over_the_limit_is_truncated() -> None:
    """S1-34: the limit counts characters, not bytes."""
    assert truncate_tool_result("é" * 11, "read", 10).startswith("é" * 10 + "\n\n[OUTPUT")


def test_truncation_never_splits_a_surrogate_pair() -> None:
    """S1-34: half a pair cannot be written as UTF-8, and the request would fail."""
    assert truncate_tool_result("ab\ud83d\ude00cd", "bash", 3).startswith("ab\n\n[OUTPUT")
    assert truncate_tool_result("ab\ud83d\ude00cd", "bash", 4).startswith("ab\ud83d\ude00\n\n[")


@each_row("high", ["\ud800", "\udbff"])
@each_row("low", ["\udc00", "\udfff"])
def test_every_surrogate_pair_stays_whole(high: str, low: str) -> None:
    """S1-34: the ends of both ranges; beside them a character is one of its own."""
    assert truncate_tool_result(f"a{high}{low}b", "bash", 2).startswith("a\n\n[")
    assert truncate_tool_result(f"a\ud7ff{low}b", "bash", 2).startswith("a\ud7ff\n\n[")
    assert truncate_tool_result(f"a\udc00{low}b", "bash", 2).startswith("a\udc00\n\n[")
    assert truncate_tool_result(f"a{high}\udbffb", "bash", 2).startswith(f"a{high}\n\n[")
    assert truncate_tool_result(f"a{high}\ue000b", "bash", 2).startswith(f"a{high}\n\n[")


TOKEN = "ghs_16C7e42F292c6912E7710c838347Ae178B4a"
OLD_TOKEN = "0123456789abcdef0123456789abcdef01234567"
HEADER = "eC1hY2Nlc3MtdG9rZW46Z2hz"


def repository(folder: Path) -> Path:
    """Make a repository whose configuration holds a token and a header."""
    git = folder / ".git"
    for name in ("objects", "refs"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "config").write_text(
        f'[remote "origin"]\n\turl = https://x-access-token:{TOKEN}@github.com/a/b\n'
        '[remote "mine"]\n\turl = https://somebody@dev.azure.com/somebody/shop\n'
        '[remote "review"]\n\turl = ssh://deploy@example.com:29418/a\n'
        f'[remote "old"]\n\turl = https://{OLD_TOKEN}:x-oauth-basic@github.com/a\n'
        '[remote "test"]\n\turl = https://bob:password@localhost/a\n'
        '[remote "colon"]\n\turl = https://bob:pass:word@localhost/a\n'
        f'[http "https://github.com/"]\n\textraheader = AUTHORIZATION: basic {HEADER}\n'
    )
    return folder


@pytest.mark.parametrize(
    ("shown", "read"),
    [
        (
            f"origin\thttps://x-access-token:{TOKEN}@github.com/a/b (fetch)",
            f"origin\thttps://x-access-token:{MASK}@github.com/a/b (fetch)",
        ),
        (f"AUTHORIZATION: basic {HEADER}", f"AUTHORIZATION: basic {MASK}"),
        ("postgres://app:pw@localhost/db", "postgres://app:pw@localhost/db"),
        (
            "https://somebody@dev.azure.com/somebody/shop, /home/somebody",
            "https://somebody@dev.azure.com/somebody/shop, /home/somebody",
        ),
        ("ssh://deploy@example.com:29418/a deploy", "ssh://deploy@example.com:29418/a deploy"),
        (
            f"https://{OLD_TOKEN}:x-oauth-basic@github.com/a",
            f"https://{MASK}:{MASK}@github.com/a",
        ),
        (
            "https://bob:password@localhost/a: the password, https://bob:pass:word@localhost/a",
            f"https://bob:{MASK}@localhost/a: the password, https://bob:{MASK}@localhost/a",
        ),
        ("plain", "plain"),
    ],
)
async def test_credentials_in_the_configuration_of_git_are_hidden_from_the_model(
    tmp_path: Path, shown: str, read: str
) -> None:
    """Threat 4: `git remote -v` shows them; an address in another file stays as it is."""
    hide = HiddenCredentials(repository(tmp_path) / "sub")
    (tmp_path / "sub").mkdir()

    result = await hide(ToolResult((text_block(shown), IMAGE)))

    assert result.content == (text_block(read), IMAGE)


async def test_model_reads_no_token_of_a_remote(tmp_path: Path) -> None:
    """Threat 4: also from a worktree, whose configuration is that of the repository."""
    worktree = repository(tmp_path / "main").parent / "tree"
    own = tmp_path / "main" / ".git" / "worktrees" / "tree"
    own.mkdir(parents=True)
    worktree.mkdir()
    (worktree / ".git").write_text(f"gitdir: {own}\n")
    (own / "commondir").write_text("../..\n")
    (own / "gitdir").write_text(f"{worktree / '.git'}\n")

    result = await HiddenCredentials(worktree)(ToolResult.of(f"https://a:{TOKEN}@github.com"))

    assert result.text == f"https://a:{MASK}@github.com"


async def test_tokens_that_git_takes_from_other_files_are_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 4: those of the user, of a file that is included, and of a submodule."""
    tokens = [f"glpat-{number}{TOKEN}" for number in range(3)]
    root = repository(tmp_path / "main")
    user = tmp_path / "gitconfig"
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(user))
    user.write_text(f'[url "https://{tokens[0]}@host/"]\n\tinsteadOf = https://host/\n')
    with (root / ".git" / "config").open("a") as config:
        config.write(f'[includeIf "gitdir:{root}/"]\n\tpath = {tmp_path}/job.config\n')
    (tmp_path / "job.config").write_text(f"[http]\n\textraheader = PRIVATE-TOKEN: {tokens[1]}\n")
    module = root / ".git" / "modules" / "library"
    module.mkdir(parents=True)
    (module / "HEAD").write_text("ref: refs/heads/main\n")
    (module / "config").write_text(f'[remote "o"]\n\turl = https://{tokens[2]}@host/a\n')
    shown = f"https://{tokens[0]}@host/ PRIVATE-TOKEN: {tokens[1]} https://{tokens[2]}@host/a"

    result = await HiddenCredentials(root)(ToolResult.of(shown))

    assert result.text == f"https://{MASK}@host/ PRIVATE-TOKEN: {MASK} https://{MASK}@host/a"


def test_text_blocks_of_a_result_share_the_limit_and_images_stay() -> None:
    """S1-34: otherwise a tool could return any amount in small blocks."""
    listener = Listener()
    blocks = (text_block("a" * 6), IMAGE, text_block("b" * 6), text_block("c" * 6), IMAGE)

    result = Truncation(listener, limit_chars=10)(CALL, ToolResult(blocks, {"exit": 0}, True))

    notice = "\n\n[OUTPUT TRUNCATED: Showing 10 of 18 characters from bash]"
    kept = (text_block("a" * 6), IMAGE, text_block("bbbb" + notice), IMAGE)
    assert result == ToolResult(kept, {"exit": 0}, True)


def test_block_without_text_counts_nothing() -> None:
    """S1-35: a hook may make one; the limit is for the texts."""
    result = ToolResult(({"type": "text"}, text_block("abcd")))

    first, second = Truncation(Listener(), limit_chars=3)(CALL, result).content

    assert first == {"type": "text"}
    assert str(second["text"]).startswith("abc\n\n[OUTPUT")


def test_truncation_notice_is_added_when_the_limit_falls_between_two_blocks() -> None:
    """S1-35: otherwise the model would take a part for the whole."""
    blocks = (text_block("a" * 10), text_block("b"))

    result = Truncation(Listener(), limit_chars=10)(CALL, ToolResult(blocks))

    assert result.text.startswith("a" * 10 + "\n\n[OUTPUT TRUNCATED: Showing 10 of 11 ")


def test_excerpt_that_fits_gets_a_notice_with_the_full_length() -> None:
    """S1-35, S1-36: the tool chose what to leave out; the notice states the real size."""
    listener = Listener()
    excerpt = ToolResult((text_block("head … tail"), IMAGE), {"exit": 0}, full_chars=120_000)

    result = Truncation(listener, limit_chars=1_000)(CALL, excerpt)

    notice = "\n\n[OUTPUT TRUNCATED: Showing 11 of 120,000 characters from bash]"
    assert result == ToolResult((*excerpt.content, text_block(notice)), {"exit": 0}, False, 120_000)
    assert listener.warnings == ["the result of bash was cut to 11 of 120,000 characters"]


def test_excerpt_over_the_limit_is_truncated_and_states_the_full_length() -> None:
    """S1-35: an excerpt that exceeds a tiny limit."""
    excerpt = ToolResult((text_block("x" * 30),), full_chars=120_000)

    result = Truncation(Listener(), limit_chars=20)(CALL, excerpt)

    notice = "\n\n[OUTPUT TRUNCATED: Showing 20 of 120,000 characters from bash]"
    assert result.text == "x" * 20 + notice


def test_each_truncated_result_causes_one_warning() -> None:
    """S1-36: one line per truncated result, none for the others."""
    listener = Listener()
    truncation = Truncation(listener, limit_chars=1_000)

    truncation(CALL, ToolResult.of("x" * 1_000))
    truncation(CALL, ToolResult((text_block("x" * 999), text_block("yy"))))

    warning = "the result of bash was cut to 1,000 of 1,001 characters"
    assert listener.events == [Notice("warning", warning)]


@each_row("limit", [0, 40_000])
def test_result_that_fits_is_returned_unchanged(limit: int) -> None:
    """S1-34: 0 disables."""
    result = ToolResult.of("x" * (50_000 if not limit else 40_000))

    assert Truncation(Listener(), limit_chars=limit)(CALL, result) is result


async def test_history_and_model_get_the_truncated_result() -> None:
    """S1-34, S1-36: results are truncated before they enter the history."""
    listener = Listener()
    agent, model, _ = scripted_agent(
        calls(tool_use("look")),
        says("done"),
        tools=[tool("look", returns("x" * 50))],
        options=LoopConfig(finish_result=Truncation(listener, limit_chars=20)),
    )

    await agent.prompt("go")

    cut = "x" * 20 + "\n\n[OUTPUT TRUNCATED: Showing 20 of 50 characters from look]"
    assert texts(agent.state.messages) == {"t1": cut}
    assert texts(model.requests[1].messages) == {"t1": cut}
    assert len(listener.warnings) == 1


def price(_model: str, usage: Usage) -> int:
    return usage.prompt_tokens


def left_out(messages: object) -> int:
    return str(messages).count("was left out to save tokens")


async def test_results_are_left_out_once_after_a_pause_and_stay_so() -> None:
    """Not in a warm session; the ten newest stay; a refused prompt brings none back."""
    now_s = [0.0]
    steps: list[Step] = [calls(tool_use("look", {}, f"t{n}")) for n in range(14)]
    steps += [says("a"), says("b"), says("no", stop_reason="refusal"), says("c")]
    agent, model, events = scripted_agent(
        *steps,
        tools=[tool("look", returns("word " * 2_500))],
        options=LoopConfig(prepare=[OldResults(price, clock=lambda: now_s[0])], max_rounds=0),
    )
    now_s[0] = agent.conversation.now() / 1_000
    await agent.prompt("one")
    await agent.prompt("two")
    assert [left_out(each.messages) for each in model.requests] == [0] * 16

    now_s[0] += PAUSE_S
    await agent.prompt("three")
    await agent.prompt("four")

    after = [each.messages for each in model.requests[16:]]
    assert [left_out(each) for each in after] == [4, 4]
    results = [each for each in after[-1] if isinstance(each, ToolResultMessage)]
    assert [len(each.text) > 10_000 for each in results] == [False] * 4 + [True] * 10
    (notice,) = (each for each in events if isinstance(each, Notice) and "old" in each.text)
    assert notice.text.startswith("4 old tool results left out (about 12,500 tokens")


async def test_old_documents_are_left_out_and_old_images_stay() -> None:
    """Each costs some thousand tokens; a PDF can be read again, a picture of a screen cannot."""

    async def execute(
        call_id: str, _params: object, _cancel: CancelToken, _on_update: ToolContext
    ) -> ToolResult:
        pdf = document_block(b"%PDF-1.7", "plan.pdf", pages=4)
        block = pdf if int(call_id[1:]) < 2 else image_block(b"png", "image/png")
        return ToolResult((text_block("[plan.pdf: 4 pages]"), block))

    now_s = [0.0]
    steps: list[Step] = [calls(tool_use("look", {}, f"t{n}")) for n in range(14)]
    agent, model, events = scripted_agent(
        *steps,
        says("a"),
        says("b"),
        tools=[tool("look", execute)],
        options=LoopConfig(prepare=[OldResults(price, clock=lambda: now_s[0])], max_rounds=0),
    )
    now_s[0] = agent.conversation.now() / 1_000
    await agent.prompt("one")

    now_s[0] += PAUSE_S
    await agent.prompt("two")

    sent = model.requests[-1].messages
    results = [each for each in sent if isinstance(each, ToolResultMessage)]
    kinds = [[block["type"] for block in each.content] for each in results]
    assert kinds == [["text"]] * 2 + [["text", "image"]] * 12
    assert "this result with a PDF was left out" in results[0].text
    assert "call the tool again.]" in results[0].text
    (notice,) = (each for each in events if isinstance(each, Notice) and "old" in each.text)
    assert notice.text.startswith("2 old tool results left out (about 24,0")


@each_row(
    ("chars", "old", "pause_s", "expected"),
    [
        (10_000, 4, 301, 4),  # 10,000 tokens together
        (9_996, 4, 301, 0),  # four tokens less
        (10_000, 4, 300, 0),  # the server still has what it cached
        (4_004, 10, 301, 10),  # 1,001 tokens each
        (4_000, 20, 301, 0),  # 1,000 tokens each: too small to be looked up again
    ],
)
async def test_few_or_small_results_stay(chars: int, old: int, pause_s: int, expected: int) -> None:
    """A change in the middle of the conversation must be worth it."""
    now_s = [0.0]
    steps: list[Step] = [calls(tool_use("look", {}, f"t{n}")) for n in range(old + 10)]
    agent, model, _events = scripted_agent(
        *steps,
        says("a"),
        says("b"),
        tools=[tool("look", returns("x" * chars))],
        options=LoopConfig(prepare=[OldResults(price, clock=lambda: now_s[0])], max_rounds=0),
    )
    now_s[0] = agent.conversation.now() / 1_000
    await agent.prompt("one")
    last = [out for out in agent.conversation.prompts[-1].output if isinstance(out, ReplyOutput)]
    now_s[0] = last[-1].at_ms / 1_000 + pause_s

    await agent.prompt("two")

    assert left_out(model.requests[-1].messages) == expected
