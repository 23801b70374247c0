"""A whole session on a screen in memory, with the scripted program behind it."""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_cli.attachments.images import Image
from agent_cli.contracts.events import Notice, ToolCall
from agent_cli.contracts.listings import ConfirmSwitch, SwitchSource
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.prompt_commands import PromptCommand
from agent_cli.contracts.tooling import Tool
from agent_cli.core.message_queue import keep_unsent, unsent
from agent_cli.repl import Look
from agent_cli.repl.approval.preview import Row
from agent_cli.repl.dialogue import Choice
from agent_cli.repl.live.controller import LiveShell
from agent_cli.repl.live.start import LiveShells, StartupQueue
from tests.repl.live.test_screen import ALT_ENTER, CTRL_C, ESCAPE, UP, Live, live
from tests.repl.scripted_app import Application, Permissions
from tests.repl.test_repl import CTRL_D, CTRL_J, sent
from tests.tables import each_row


@asynccontextmanager
async def session(
    tmp_path: Path, *typed_before: str, app: Application | None = None, look: Look | None = None
) -> AsyncGenerator[Live]:
    """Run a session; *typed_before* is typed before it starts."""
    waiting = StartupQueue()
    for line in typed_before:
        waiting.submit(line, follow_up=False)
    app = app or Application()
    try:
        async with live(tmp_path) as it, LiveShells(it.screen, waiting, look or Look()).open(app):
            yield it
    finally:
        app.launcher.close()


async def accepts_answers(it: Live) -> None:
    """Wait until the open question is on the screen, and the keyboard was silent long enough."""
    asking = it.screen.asking
    await it.until(lambda: asking.question is not None)

    def does_accept() -> bool:
        it.now_s += 9
        question = asking.question
        return question is not None and question.open and question.is_ripe

    await it.until(does_accept)


async def shown(it: Live, text: str) -> None:
    """Wait until *text* is in the rows."""
    await it.until(lambda: text in "\n".join(it.rows))


async def test_prompt_is_sent_without_outer_whitespace_and_a_blank_line_is_ignored(
    tmp_path: Path,
) -> None:
    """S1-02."""
    async with session(tmp_path) as it:
        it.type("   \r  hello  \r")
        await shown(it, "You said 'hello'")

    assert sent() == ["hello"]


async def test_late_warning_stands_apart_from_the_answer_and_from_the_prompt(
    tmp_path: Path,
) -> None:
    """That of the log, or of a file that is not kept for /undo, stood right above the prompt."""
    async with session(tmp_path) as it:
        it.type("hello\r")
        await shown(it, "You said 'hello'")
        await it.until(lambda: not it.screen.listener.is_busy)
        it.screen.warn("warning: logging stopped")
        apart = ["", "warning: logging stopped", "", "you>"]
        await it.until(lambda: it.rows[-5:-1] == apart)


async def test_alt_enter_ctrl_j_and_backslash_insert_a_newline(tmp_path: Path) -> None:
    """C28: Enter then sends all the lines."""
    async with session(tmp_path) as it:
        it.type(f"one{ALT_ENTER}two{CTRL_J}three\\\rfour\r")
        await shown(it, "You said")

    assert sent() == ["one\ntwo\nthree\nfour"]


@each_row("words", ["exit\r", "quit\r", "/exit\r", CTRL_D + CTRL_D, "  exit \r"])
async def test_exit_words_and_end_of_input_end_the_session(tmp_path: Path, words: str) -> None:
    """S1c-9: tests/repl/test_repl.py shows how the program ends then."""
    async with session(tmp_path) as it:
        it.type(words)
        await it.until(lambda: not it.screen.app.is_running)


@each_row("is_shown", [False, True])
async def test_thinking_is_shown_only_on_request(tmp_path: Path, *, is_shown: bool) -> None:
    """S4-21: off by default; if on, it is a separate line."""
    look = Look(show_thinking=True) if is_shown else Look()
    async with session(tmp_path, look=look) as it:
        it.type("think\r")
        await shown(it, "The answer.")

        rows = "\n".join(it.rows)
        assert ("private" in rows) == is_shown
        assert ("a private thought\n\nThe answer." in rows) == is_shown


async def test_follow_up_message_waits_until_the_run_would_end(tmp_path: Path) -> None:
    """S0-60: Alt-Enter; it is sent after steering messages, even if typed before them."""
    async with session(tmp_path) as it:
        it.type("gated 1\r")
        await shown(it, "piece 0")
        it.type(f"later{ALT_ENTER}")
        await shown(it, "  when done: later")
        it.type("sooner\r")
        await shown(it, "  after this step: sooner")
        Path("gate-0").touch()
        await shown(it, "You said 'later'")

    assert sent() == ["gated 1", "sooner", "later"]


async def test_queued_message_taken_back_is_not_sent(tmp_path: Path) -> None:
    """Arrow-up puts it into the input; unless submitted again, it has no effect."""
    async with session(tmp_path) as it:
        it.type("gated 1\r")
        await shown(it, "piece 0")
        it.type("one\rtwo\r")
        await shown(it, "  after this step: two")
        it.type(UP)
        await shown(it, "\nyou> two")
        Path("gate-0").touch()
        await shown(it, "You said 'one'")
        await shown(it, "\nyou> two")

    assert sent() == ["gated 1", "one"]


@pytest.mark.parametrize("key", [CTRL_C, ESCAPE])
async def test_stopped_run_returns_queued_messages_to_the_input(tmp_path: Path, key: str) -> None:
    """C18: Esc as well as Ctrl-C; nothing typed is lost, and nothing is sent unasked."""
    async with session(tmp_path) as it:
        it.type("forever\r")
        await shown(it, "working on it")
        it.type("for later\r")
        await shown(it, "  after this step: for later")
        it.type("a draft")
        await shown(it, "\nyou> a draft")
        it.type(key)
        await shown(it, "interrupted")
        await shown(it, "you> for later\n     a draft")

    assert sent() == ["forever"]


async def test_lines_typed_before_the_session_exists_are_handled_in_order(tmp_path: Path) -> None:
    """A command after a prompt waits for the end of its run; it used to be refused and lost."""
    async with session(tmp_path, "gated 1", "/clear", "hello\nyou") as it:
        await it.until(lambda: "piece 0" in it.rows)
        assert [row for row in it.rows if row.startswith("  when done")] == [
            "  when done: /clear",
            "  when done: hello you · ↑ edits",
        ]
        Path("gate-0").touch()
        await it.until(lambda: any(row.startswith("You said") for row in it.rows))

        said = (
            "you> gated",
            "piece",
            "you> /clear",
            "new conversation; 1 job goes on: /jobs",
            "you> hello",
            "You said",
        )
        assert [row for row in it.rows if row.startswith(said)] == [
            "you> gated 1",
            "piece 0",
            "you> /clear",
            "new conversation; 1 job goes on: /jobs",
            "you> hello",
            "You said 'hello\\nyou' to model-1.",
        ]


async def test_shift_tab_pressed_before_the_session_exists_counts(tmp_path: Path) -> None:
    """Twice: past auto-edit to plan."""
    app = Application()
    async with live(tmp_path) as it:
        it.type("\x1b[Z\x1b[Z")
        await it.until(lambda: it.screen.requested_modes == 2)
        async with LiveShells(it.screen, StartupQueue(), Look()).open(app):
            assert app.permissions.mode == "plan"
    app.launcher.close()


async def test_question_is_repeated_below_the_output_of_a_command_typed_at_it(
    tmp_path: Path,
) -> None:
    """The output stood between what is asked about and the answers; no other is moved."""

    def titles(it: Live) -> list[int]:
        return [at for at, row in enumerate(it.rows) if row.startswith("── Run touch made")]

    async with session(tmp_path) as it:
        it.type("bash touch made\r")
        await accepts_answers(it)
        it.type("/usage\r")
        await it.until(lambda: len(titles(it)) == 2)
        rows, (first, second) = it.rows, titles(it)
        it.type("n\r")
        await it.until(lambda: any(row.startswith("The tool said") for row in it.rows))
        it.type("/usage\r")
        await it.until(lambda: any(row.startswith("model ") for row in it.rows))
        shown = titles(it)

    assert rows.index("", first) < second - 2
    assert rows[second - 1] == ""
    assert rows[second + 1].startswith("allow?")  # this low screen has only room for the title
    assert shown == [first, second]


async def test_pause_counts_what_it_holds(tmp_path: Path) -> None:
    async with session(tmp_path) as it:
        it.type("/pause\r")
        await it.until(lambda: any("paused, 1 update held: " in row for row in it.rows))


async def test_command_typed_during_a_run_or_at_a_question_stands_above_its_output(
    tmp_path: Path,
) -> None:
    """Its output stood alone among the rows of the run; what was typed had to be guessed.

    So did its error, and a warning stood above what had caused it.
    """
    app = Application()
    switch = app.switch_model

    async def warn(name: str, *, source: SwitchSource, confirm: ConfirmSwitch) -> None:
        app.agent.publish(Notice("warning", f"{name} has no price"))
        await switch(name, source=source, confirm=confirm)

    app.switch_model = warn  # type: ignore[method-assign]
    async with session(tmp_path, app=app) as it:
        it.type("bash touch made\r")
        await accepts_answers(it)
        it.type("/jobs stop 9\r")
        await it.until(lambda: "there is no job 9" in "".join(it.rows))
        it.type("/effort low\r")
        await it.until(lambda: "effort: low" in it.rows)
        at_question = it.rows
        it.type("n\r")
        await it.until(lambda: any(row.startswith("The tool said") for row in it.rows))
        it.type("forever\r")
        await it.until(lambda: "working on it" in it.rows)
        it.type("/effort high\r")
        await it.until(lambda: "effort: high" in it.rows)
        it.type("/model high\r")
        await it.until(lambda: any(row.startswith("model: ") for row in it.rows))
        rows = it.rows

    at = at_question.index("there is no job 9; /jobs lists them")
    assert at_question[at - 3 : at] == ["", "you> /jobs stop 9", ""]
    at = at_question.index("effort: low")
    assert at_question[at - 3 : at] == ["", "you> /effort low", ""]
    at = rows.index("effort: high")
    assert rows[at - 2 : at] == ["you> /effort high", ""]
    at = rows.index("high has no price")
    assert rows[at - 2 : at] == ["you> /model high", ""]


async def test_command_typed_at_a_question_while_nothing_runs_stands_above_its_output(
    tmp_path: Path,
) -> None:
    """An agent in the background may ask then: the command was shown below, after the answer."""
    async with session(tmp_path) as it:
        asking = it.screen.asking.select("allow? ", [Choice("Yes", ("y",))], text="decline")
        answered = asyncio.ensure_future(asking)
        await accepts_answers(it)
        for command, told in (
            ("/clear", "new conversation; 1 job goes on: /jobs"),
            ("/effort low", "effort: low"),
        ):
            it.type(f"{command}\r")
            await shown(it, told)
            at = it.rows.index(told)
            assert it.rows[at - 2 : at] == [f"you> {command}", ""]
        it.type("y\r")

        assert await answered == Choice("Yes", ("y",))
        await it.until(lambda: "you>" in it.rows)
        assert "\n".join(it.rows).count("you> /clear") == 1


async def test_command_typed_at_a_question_stands_above_what_it_reports_after_the_answer(
    tmp_path: Path,
) -> None:
    """`/compact` stood below "summarizing" and "compacted", as if it came again."""
    app, answered = Application(), asyncio.Event()

    async def compact(focus: str) -> None:
        app.agent.publish(Notice("info", f"summarizing: {focus}"))
        await answered.wait()
        app.agent.publish(Notice("info", "compacted"))

    app.compact = compact  # type: ignore[method-assign]
    async with session(tmp_path, app=app) as it:
        asking = it.screen.asking.select("allow? ", [Choice("Yes", ("y",))], text="decline")
        answer = asyncio.ensure_future(asking)
        await accepts_answers(it)
        it.type("/compact go\r")
        await it.until(lambda: "you> /compact go" in it.rows)
        it.type("y\r")
        await answer
        await shown(it, "summarizing: go")
        answered.set()
        await shown(it, "compacted")
        rows = it.rows

    at = [rows.index(row) for row in ("you> /compact go", "summarizing: go", "compacted")]
    assert at == sorted(at)


async def test_line_that_waits_for_an_answer_does_not_repeat_the_question(tmp_path: Path) -> None:
    """The question stood there twice, with nothing between."""
    async with session(tmp_path) as it:
        assert isinstance(it.screen.listener, LiveShell)
        display = it.screen.listener.display
        display.question([Row("About this")])
        asking = it.screen.asking.select("allow? ", [Choice("Yes", ("y",))], text="decline")
        answered = asyncio.ensure_future(asking)
        display.show_now()
        await accepts_answers(it)
        it.type("!echo mine > made\r")
        await it.until(Path("made").exists)
        display.flush()
        asked = it.rows.count("About this")
        it.type("y\r")
        await answered
        await shown(it, "you> !echo mine")

    assert asked == 1


async def test_message_typed_during_a_command_waits_and_is_returned_by_ctrl_c(
    tmp_path: Path,
) -> None:
    """After a stop, queued lines may be unwanted; otherwise each is shown when its turn comes."""
    async with session(tmp_path) as it:
        it.type("/compact forever\r")
        await it.until(Path("compacting").exists)
        it.type("hello\r")
        await it.until(lambda: "  when done: hello · ↑ edits" in it.rows)
        assert "you> hello" not in it.rows
        it.type("/clear\r")
        await it.until(lambda: "  when done: /clear · ↑ edits" in it.rows)
        it.type(CTRL_C)
        await it.until(lambda: "not run: /clear; Arrow-up has it" in it.rows)
        await it.until(lambda: it.rows[-2:-1] == ["you> hello"])

        assert "interrupted" in it.rows
        assert not Path("prompts.jsonl").exists()


async def test_all_messages_that_are_queued_return_to_the_input_and_commands_are_named(
    tmp_path: Path,
) -> None:
    """A command for the model would be part of their text there."""
    async with session(tmp_path) as it:
        it.type("forever\r")
        await it.until(lambda: "working on it" in it.rows)
        it.type("one\rtwo\r/review\r!ls\r")
        await it.until(lambda: "  when done: !ls · ↑ edits" in it.rows)
        it.type(CTRL_C)
        await it.until(lambda: "not run: /review, !ls; Arrow-up has them" in it.rows)

        assert it.screen.draft.text == "one\n\ntwo"


async def test_messages_of_a_killed_session_that_the_user_deletes_do_not_come_again(
    tmp_path: Path,
) -> None:
    """Until the user leaves they stay in the record: another kill would lose them."""
    app = Application()
    conversation = app.agent.conversation
    conversation.begin(UserMessage.of("go"))
    keep_unsent(conversation, ["use tabs"])

    async with session(tmp_path, app=app) as it:
        await it.until(lambda: it.screen.draft.text == "use tabs")
        it.type("\x15")
        await it.until(lambda: it.screen.draft.is_empty)
        assert unsent(conversation) == ["use tabs"]

    assert unsent(conversation) == []


async def test_shell_command_typed_during_another_waits_for_its_end() -> None:
    """As in a shell: the output of the first appears before it has ended."""
    async with session(Path.cwd()) as it:
        it.type("!echo fir''st; while [ ! -e go ]; do sleep 0.02; done\r")
        await it.until(lambda: "first" in it.rows)
        it.type("!echo sec''ond\r")
        await it.until(lambda: "  when done: !echo sec''ond · ↑ edits" in it.rows)
        Path("go").touch()
        await it.until(lambda: "second" in it.rows)

        assert it.rows.index("first") < it.rows.index("you> !echo sec''ond")


async def test_shell_command_typed_during_a_run_waits_for_its_end(tmp_path: Path) -> None:
    """It was refused, because an editor would interrupt typing; so it does not start at once."""
    async with session(tmp_path) as it:
        it.type("gated 1\r")
        await it.until(lambda: "piece 0" in it.rows)
        it.type("!echo sta''tus\r")
        await it.until(lambda: "  when done: !echo sta''tus · ↑ edits" in it.rows)
        it.type("draft")
        await it.until(lambda: it.rows[-2:-1] == ["you> draft"])
        Path("gate-0").touch()
        await it.until(lambda: "status" in it.rows)

        assert it.rows.index("you> !echo sta''tus") > it.rows.index("piece 0")
        assert it.screen.draft.text == "draft"


async def test_message_behind_a_waiting_command_is_for_what_the_command_leaves(
    tmp_path: Path,
) -> None:
    """It went to the run before the command, and `/clear` then took it away."""
    async with session(tmp_path) as it:
        it.type("gated 1\r")
        await it.until(lambda: "piece 0" in it.rows)
        it.type("/clear\rhello\r")
        await it.until(lambda: "  when done: hello · ↑ edits" in it.rows)
        Path("gate-0").touch()
        await it.until(lambda: any(row.startswith("You said") for row in it.rows))

        said = ("you> ", "new conversation; 1 job goes on: /jobs", "You said")
        assert [row for row in it.rows if row.startswith(said)][1:5] == [
            "you> /clear",
            "new conversation; 1 job goes on: /jobs",
            "you> hello",
            "You said 'hello' to model-1.",
        ]


async def test_command_that_leaves_the_session_does_not_wait_in_it_for_ever(
    tmp_path: Path,
) -> None:
    """Resumed, the session would offer `/clear` in the input, as a message that was not sent.

    Nor does the line behind it, which was sent in the next session.
    """
    app = Application()
    left = app.agent.conversation
    async with session(tmp_path, app=app) as it:
        it.type("gated 1\r")
        await it.until(lambda: "piece 0" in it.rows)
        it.type("/clear\rhello\r")
        await it.until(lambda: unsent(left) == ["/clear", "hello"])
        Path("gate-0").touch()
        await it.until(lambda: "new conversation; 1 job goes on: /jobs" in it.rows)
        await it.until(lambda: any(row.startswith("You said 'hello'") for row in it.rows))

        assert app.agent.conversation is not left
        assert unsent(left) == []


async def test_shell_command_that_a_stopped_run_kept_waiting_is_not_joined_to_the_draft(
    tmp_path: Path,
) -> None:
    """Enter would have run the draft as lines of the shell."""
    async with session(tmp_path) as it:
        it.type("forever\r")
        await it.until(lambda: "working on it" in it.rows)
        it.type("!touch it\r")
        await it.until(lambda: "  when done: !touch it · ↑ edits" in it.rows)
        it.type("use tabs")
        await it.until(lambda: it.rows[-2:-1] == ["you> use tabs"])
        it.type(CTRL_C)
        await it.until(lambda: "not run: !touch it; Arrow-up has it" in it.rows)

        assert it.screen.draft.text == "use tabs"
        assert not Path("it").exists()


async def test_message_that_returns_is_not_joined_to_a_command_in_the_draft(
    tmp_path: Path,
) -> None:
    """The command would have become its text."""
    async with session(tmp_path) as it:
        it.type("forever\r")
        await it.until(lambda: "working on it" in it.rows)
        it.type("use tabs\r")
        await it.until(lambda: any("use tabs · ↑ edits" in row for row in it.rows))
        it.type("!touch it")
        await it.until(lambda: it.rows[-2:-1] == ["you> !touch it"])
        it.type(CTRL_C)
        await it.until(lambda: "not sent: use tabs; Arrow-up has it" in it.rows)

        assert it.screen.draft.text == "!touch it"
        it.type(UP)
        await it.until(lambda: it.screen.draft.text == "use tabs")


async def test_model_and_effort_can_be_changed_during_a_run(tmp_path: Path) -> None:
    """As the help says: the next request takes them. Both were refused until the run had ended."""
    app = Application()
    async with session(tmp_path, app=app) as it:
        it.type("forever\r")
        await it.until(lambda: "working on it" in it.rows)
        it.type("/model high\r")
        await it.until(lambda: f"model: {app.models['high']}" in it.rows)
        it.type("/effort low\r")
        await it.until(lambda: "effort: low" in it.rows)
        await it.until(lambda: it.rows[-1].startswith(f"{app.models['high']} low · "))
        state = app.agent.state

    assert (state.model, state.thinking_level) == (app.find_model("high"), "low")


async def test_image_typed_during_a_run_is_sent_as_soon_as_it_is_shrunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S6: shrinking takes seconds, during which keys used not to be read."""
    small = threading.Event()

    def fitted(image: Image) -> Image:
        assert small.wait(30)
        return image

    monkeypatch.setattr("agent_cli.attachments.images.fitted", fitted)
    size = (8).to_bytes(4) + (6).to_bytes(4)
    Path("pic.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(8) + size + b"IEND")
    async with session(tmp_path) as it:
        it.type("gated 1\r")
        await it.until(lambda: "piece 0" in it.rows)
        it.type("see @pic.png\rand this\rdraft")
        await it.until(lambda: it.rows[-2:-1] == ["you> draft"])
        assert [row[:22] for row in it.rows if row.startswith("  after")] == [
            "  after this step: see",
            "  after this step: and",
        ]
        small.set()
        Path("gate-0").touch()
        await it.until(lambda: "You said 'and this' to model-1." in it.rows)

    assert [json.loads(line) for line in Path("prompts.jsonl").read_text().splitlines()] == [
        "gated 1",
        "see [image 1: pic.png 8×6]",
        "and this",
    ]


async def test_shell_command_output_keeps_its_own_lines(tmp_path: Path) -> None:
    """As in a shell: wrapped only at the screen's edge, with a tab stop at every eighth column."""
    async with session(tmp_path) as it:
        it.type(r"!printf 'a\tb\n%s' 'one  two three  four five six seven eight nine'; false")
        it.type("\r")
        await it.until(lambda: "[exit code 1]" in it.rows)

        at = it.rows.index("a       b")
        assert it.rows[at : at + 4] == [
            "a       b",
            "one  two three  four five six seven eigh",
            "t nine",
            "[exit code 1]",
        ]


async def test_run_triggered_during_a_command_can_be_stopped_after_the_command(
    tmp_path: Path,
) -> None:
    """A reminder began the run; Ctrl-C used to leave the session instead."""
    app = Application()
    async with session(tmp_path, app=app) as it:
        it.type("!while [ ! -e go ]; do sleep 0.01; done; echo gone\r")
        await it.until(lambda: "Ctrl-C stops" in "\n".join(it.rows))
        reminded = asyncio.ensure_future(app.agent.prompt("forever"))
        await it.until(lambda: "working on it" in it.rows)
        Path("go").touch()
        await it.until(lambda: "gone" in it.rows)
        it.type(CTRL_C)
        await it.until(reminded.done)

        assert reminded.result().stop_reason == "aborted"


async def ask_aside_of(it: Live, prompt: str, begun: str) -> None:
    """Send *prompt*, whose run shows *begun*, and a question aside that is never answered."""
    it.type(f"{prompt}\r")
    await it.until(lambda: begun in it.rows)
    it.type("/btw forever\r")
    await it.until(lambda: "/btw runs: Esc stops it" in " ".join(it.rows))


async def test_escape_ends_a_question_aside_before_the_work_beside_it(tmp_path: Path) -> None:
    """The last thing that was begun; the run used to stop, and the answer still came."""
    app = Application()
    async with session(tmp_path, app=app) as it:
        await ask_aside_of(it, "forever", "working on it")
        it.type(ESCAPE)
        await it.until(lambda: "/btw stopped" in it.rows)
        assert it.screen.listener.is_busy
        assert "Esc stops it" not in " ".join(it.rows)
        it.type(ESCAPE)
        await it.until(lambda: not it.screen.listener.is_busy)


async def test_ctrl_c_stops_the_work_and_the_question_aside(tmp_path: Path) -> None:
    """Whoever wants everything to stop must not have to press it twice."""
    app = Application()
    async with session(tmp_path, app=app) as it:
        await ask_aside_of(it, "forever", "working on it")
        it.type(CTRL_C)
        await it.until(lambda: "/btw stopped" in it.rows)
        await it.until(lambda: not it.screen.listener.is_busy)


@pytest.mark.parametrize("key", [ESCAPE, CTRL_C])
async def test_question_aside_can_be_ended_after_the_work_beside_it(
    tmp_path: Path, key: str
) -> None:
    """With nothing else to stop, Ctrl-C used to offer to leave. The draft stays, below a gap."""
    app = Application()
    async with session(tmp_path, app=app) as it:
        await ask_aside_of(it, "gated 1", "piece 0")
        Path("gate-0").touch()
        await it.until(lambda: not it.screen.listener.is_busy)
        it.type(f"draft{key}")
        await it.until(lambda: "/btw stopped" in it.rows)

        end = ["/btw stopped", "", "you> draft"]
        await it.until(lambda: it.rows[it.rows.index(end[0]) :][:3] == end)


@pytest.mark.parametrize("is_listed", [True, False])
async def test_question_aside_is_no_answer_to_an_open_question(
    tmp_path: Path, *, is_listed: bool
) -> None:
    """A sentence denies a call, and free text is sent to whoever asked."""
    async with session(tmp_path) as it:
        asking = it.screen.asking
        choices = (Choice("Yes", ("y",)), Choice("No", ("n",)))
        question = (
            asking.select("allow?", choices, text="no, with a reason")
            if is_listed
            else asking.choose("name? ", "")
        )
        answer = asyncio.ensure_future(question)
        await accepts_answers(it)
        it.type("/btw what is it?\r")
        await it.until(lambda: "You asked: what is it?" in " ".join(it.rows))
        assert not answer.done()
        await accepts_answers(it)
        it.type("n\r")

        assert await answer in (choices[1], "n")


async def test_question_waits_until_an_open_picker_is_closed(tmp_path: Path) -> None:
    """If a server asks while the user filters a list, the letters would count as an answer."""
    async with session(tmp_path) as it:
        it.type("/resume\r")
        await it.until(lambda: "which session?" in it.rows)
        asking = asyncio.ensure_future(it.screen.asking.choose("allow? ", "yn"))
        it.type("o")
        await it.until(lambda: "which session? o" in it.rows)
        it.now_s += 9
        it.type("y\r")
        await it.until(lambda: asking.done() or "which session? oy" in it.rows)
        assert not asking.done()
        it.type(ESCAPE)
        await it.until(lambda: "you> oy" in it.rows)

        def is_asked() -> bool:
            it.now_s += 9  # its silence may begin after the list is gone from the screen
            return "allow?" in it.rows

        await it.until(is_asked)
        it.type("n\r")

        assert await asking == "n"


async def test_list_that_waits_for_the_answer_to_a_question_says_so(tmp_path: Path) -> None:
    """Nothing showed that the command was taken; its list appeared with the next answer."""
    async with session(tmp_path) as it:
        asking = it.screen.asking.select("allow? ", [Choice("Yes", ("y",))], text="decline")
        answered = asyncio.ensure_future(asking)
        await accepts_answers(it)
        it.type("/resume\r")
        await shown(it, "the list appears after your answer")
        assert "you> /resume" in it.rows
        assert "which session?" not in it.rows
        await accepts_answers(it)
        it.type("y\r")
        await it.until(lambda: "which session?" in it.rows)

        assert await answered == Choice("Yes", ("y",))
        it.type(ESCAPE)


@each_row(
    ("command", "marked"),
    [("/effort", "❯ low"), ("/mode", "❯ ask: "), ("/theme", "❯ auto"), ("/model", "❯ high = ")],
)
async def test_list_of_a_setting_begins_at_the_value_that_holds(
    command: str, marked: str, tmp_path: Path
) -> None:
    """Enter, to leave the list, set the first value: another effort, another model."""
    app = Application()
    app.agent.set_thinking_level("low")
    app.agent.set_model(app.find_model("high"))
    async with session(tmp_path, app=app) as it:
        it.type(f"{command}\r")
        await it.until(lambda: any(row.startswith(marked) for row in it.rows))
        it.type("\r")
        await it.until(lambda: any(row.startswith(f"{command[1:]}: ") for row in it.rows))

    state = app.agent.state
    assert (state.model, state.thinking_level) == (app.find_model("high"), "low")


async def test_question_that_waits_for_its_turn_ends_with_the_session(tmp_path: Path) -> None:
    """It used to open behind the closed screen, and a closed window left the process for ever."""
    app = Application()
    async with asyncio.timeout(30), session(tmp_path, app=app) as it:
        first = asyncio.ensure_future(it.screen.asking.choose("name? ", ""))
        await it.until(lambda: it.screen.asking.question is not None)
        it.type("bash touch m\r")
        await it.until(lambda: bool(app.agent.conversation.waiting))
        it.screen.leave()
        await it.until(lambda: not it.screen.app.is_running)

    assert isinstance(first.exception(), EOFError)
    assert app.agent.conversation.waiting  # for the next session


async def test_question_behind_an_open_list_ends_with_the_session(tmp_path: Path) -> None:
    """The list held the turn, and nobody was left to close it."""
    async with asyncio.timeout(30), session(tmp_path) as it:
        it.type("/resume\r")
        await it.until(lambda: "which session?" in it.rows)
        asking = asyncio.ensure_future(it.screen.asking.choose("allow? ", "yn"))
        it.screen.leave()

        with pytest.raises(EOFError):
            await asking


async def test_question_that_fails_is_not_repeated_for_ever(tmp_path: Path) -> None:
    """The same error used to flood the screen, and hardly a key was read any more."""

    class Failing(Permissions):
        async def recall(self, call: ToolCall, tools: Iterable[Tool]) -> None:
            await asyncio.sleep(0)
            raise RuntimeError("the disk is on fire")

    app = Application()
    app.permissions = Failing()
    async with session(tmp_path, app=app) as it:
        it.type("bash touch m\r")
        await it.until(lambda: "disk is on fire" in " ".join(it.rows))
        it.type("draft")
        await it.until(lambda: "you> draft" in it.rows)

        assert " ".join(it.rows).count("disk is on fire") <= 2  # of the run, and of one more try


@each_row("key", [CTRL_C, ESCAPE])
async def test_question_about_a_file_outside_that_is_closed_returns_the_prompt(
    tmp_path: Path, key: str
) -> None:
    """The key ended the program, and the prompt and all jobs with it."""
    (Path.home() / "notes.txt").write_text("mine")

    class Confined(Application):
        def why_outside(self, path: Path) -> str:
            return f"{path} is outside"

    async with session(tmp_path, app=Confined()) as it:
        it.type("see @~/notes.txt\r")
        await accepts_answers(it)
        it.type(key)
        await shown(it, "interrupted")
        await it.until(lambda: "you> see @~/notes.txt" in it.rows[-3:])

        assert it.screen.app.is_running
    assert sent() == []


async def test_line_that_cannot_be_looked_up_is_reported_and_stays_in_the_input(
    tmp_path: Path,
) -> None:
    """An error in a key's handler used to show a traceback in place of the prompt."""

    class Failing(Application):
        def prompt_commands(self) -> Sequence[PromptCommand]:
            raise OSError("the folder is gone")

    async with session(tmp_path, app=Failing()) as it:
        it.type("/tmp\r")
        await it.until(lambda: "OSError: the folder is gone" in " ".join(it.rows))
        await it.until(lambda: "you> /tmp" in it.rows)
