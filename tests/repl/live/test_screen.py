"""The input line in memory: keys from a pipe, an emulated terminal, a simulated clock."""

import asyncio
import io
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pyte
import pytest
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, WordCompleter
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.key_binding.key_processor import KeyPress

from agent_cli.contracts.cancel import CancelToken
from agent_cli.repl.dialogue import Choice
from agent_cli.repl.live.asking import SILENCE_S, OpenQuestion
from agent_cli.repl.live.input.keyboard import ALT
from agent_cli.repl.live.keys import bind_keys
from agent_cli.repl.live.queue_edit import Queued, move_line, release_line
from agent_cli.repl.live.screen import LiveScreen
from agent_cli.repl.live.shared_terminal import FrameOutput
from tests.repl.emulator import Emulator
from tests.tables import each_row

COLUMNS, ROWS = 40, 12
LAG_S = 0.09
CTRL_B, CTRL_C, CTRL_D, ESCAPE, UP, DOWN, ALT_ENTER = (
    "\x02",
    "\x03",
    "\x04",
    "\x1b",
    "\x1b[A",
    "\x1b[B",
    "\x1b\r",
)


class Person:
    """Accepts input; busy if the test says so."""

    def __init__(self) -> None:
        self.got: list[tuple[str, bool]] = []
        self.is_busy = False
        self.queued: list[Queued] = []
        self.aside: CancelToken | None = None
        self.interrupted = 0
        self.paused: list[bool] = []

    def submit(self, text: str, *, follow_up: bool) -> bool:
        if text == "refused":
            return False
        self.got.append((text, follow_up))
        return True

    def is_command(self, text: str) -> bool:
        return text.startswith("/help")

    def interrupt(self) -> None:
        self.interrupted += 1

    def hold(self, message: Queued) -> bool:
        message.is_held = message.text != "taken"
        return message.is_held

    def release(self, message: Queued, text: str) -> bool:
        if text == "/refused":
            self.queued.remove(message)
            return False
        release_line(self.queued, message, text)
        return True

    def move(self, message: Queued, by: int) -> None:
        move_line(self.queued, message, by)

    def pause(self, *, paused: bool) -> None:
        self.paused.append(paused)


class Live:
    """A running screen, its terminal's content, and a clock."""

    def __init__(self, keyboard: PipeInput, history: Path, *, vi: bool) -> None:
        self.now_s = 0.0
        self.person = Person()
        self.written = io.StringIO()
        self.size = Size(rows=ROWS, columns=COLUMNS)
        self.screen = LiveScreen(
            history,
            self.person,
            output=FrameOutput(self.written, lambda: self.size, term="xterm"),
            vi=vi,
            keyboard=keyboard,
            clock=lambda: self.now_s,
        )
        bind_keys(self.screen)
        self._keyboard = keyboard
        self._terminal = Emulator(COLUMNS, ROWS, history=1_000)
        self._stream = pyte.Stream(self._terminal)
        self._fed = 0

    def type(self, keys: str) -> None:
        self._keyboard.send_text(keys)

    async def press(self, keys: str) -> None:
        """Type a key and wait until it was handled; keys after Escape could combine with it."""
        processor = self.screen.app.key_processor
        seen: list[object] = []
        processor.after_key_press += seen.append
        self.type(keys)
        await self.until(lambda: bool(seen) and not processor.key_buffer)
        processor.after_key_press -= seen.append

    async def asked(self, message: str, keys: str) -> "asyncio.Future[str]":
        """Ask, wait until keys answer, and return the future answer."""
        asking = asyncio.ensure_future(self.screen.asking.choose(message, keys))
        await self.until(lambda: self.screen.asking.question is not None)
        self.now_s += 9
        await self.until(lambda: self.rows == [message.rstrip()])
        return asking

    @property
    def rows(self) -> list[str]:
        """Return the rows on the screen and above it, without blank ones at the end."""
        text = self.written.getvalue()
        self._stream.feed(text[self._fed :])
        self._fed = len(text)
        return "\n".join(self._terminal.texts()).rstrip().split("\n")

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():  # noqa: ASYNC110 - prompt_toolkit has no event for it
                await asyncio.sleep(0.001)


@asynccontextmanager
async def live(
    tmp_path: Path, *, vi: bool = False, keyboard: PipeInput | None = None
) -> AsyncGenerator[Live]:
    """Run a screen for as long as the body runs."""
    with create_pipe_input() as pipe:
        running = Live(keyboard or pipe, tmp_path / "history", vi=vi)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(running.screen.run())
            await running.until(lambda: running.rows == ["you>"])
            try:
                yield running
            finally:
                running.screen.leave()


async def test_leaving_before_the_screen_runs_or_twice_is_no_fault(tmp_path: Path) -> None:
    """A signal may come at any moment, and Ctrl-D beside it."""
    with create_pipe_input() as keyboard:
        Live(keyboard, tmp_path / "history", vi=False).screen.leave()
    async with live(tmp_path) as it:
        it.screen.leave()
        it.screen.leave()


async def test_terminal_is_given_away_once_its_answer_came_or_is_late(tmp_path: Path) -> None:
    """Else an editor or the shell would read the answer as keys."""
    async with live(tmp_path) as it:
        waits_s, given = [0.001, 0.001], list[bool]()
        it.screen.app.answers_in_s = lambda: waits_s.pop() if waits_s else 0.0

        it.screen.when_answered(lambda: given.append(True))

        assert not given
        await it.until(lambda: bool(given))
        assert not waits_s


async def test_input_stays_in_place_until_it_is_accepted(tmp_path: Path) -> None:
    """Typed text is never lost: a refused line can be corrected."""
    async with live(tmp_path) as it:
        it.type("refused\r")
        await it.until(lambda: it.rows == ["you> refused"])
        it.now_s += SILENCE_S
        it.type(", corrected\r")
        await it.until(lambda: it.person.got == [("refused, corrected", False)])
        await it.until(lambda: it.rows == ["you>"])


@pytest.mark.parametrize(
    ("pasted", "sent"),
    [
        ("\n \n    if a:\n        b\n  \n", "    if a:\n        b"),
        ("  one line ", "one line"),
        ("  /help a\nb", "/help a\nb"),
        ("  !cat <<E\n a\nE", "!cat <<E\n a\nE"),
    ],
)
async def test_pasted_lines_keep_the_indentation_of_the_first(
    tmp_path: Path, pasted: str, sent: str
) -> None:
    """Code would no longer fit its own lines; a command is one wherever it stands."""
    async with live(tmp_path) as it:
        it.type(f"\x1b[200~{pasted}\x1b[201~\r")
        await it.until(lambda: it.person.got == [(sent, False)])


@pytest.mark.parametrize("is_drawn", [False, True])
async def test_line_typed_ahead_behind_a_refused_one_is_a_line_of_its_own(
    tmp_path: Path, *, is_drawn: bool
) -> None:
    """It was appended to the refused one, and refused with it; that is in the history now."""
    async with live(tmp_path) as it:
        it.type("refused\r")
        if is_drawn:  # a moment ago
            await it.until(lambda: it.rows == ["you> refused"])
        it.type("taken\r")
        await it.until(lambda: it.person.got == [("taken", False)])
        await it.press(UP)
        await it.press(UP)

        await it.until(lambda: it.rows == ["you> refused"])


async def test_command_typed_ahead_of_a_list_is_no_paste(tmp_path: Path) -> None:
    """A command answers no list, so its Enter need not be kept from doing so."""
    async with live(tmp_path) as it:
        asking = it.screen.asking.select("allow? ", [Choice("Yes", ("y",))], text="decline")
        answered = asyncio.ensure_future(asking)
        await it.until(lambda: it.screen.asking.choices is not None)
        it.type("/help\rno, use make\r")

        assert await answered == "no, use make"
        assert it.person.got == [("/help", False)]


async def test_enter_within_an_unmarked_paste_answers_no_list(tmp_path: Path) -> None:
    """Terminals without bracketed paste send two lines like typed keys."""
    async with live(tmp_path) as it:
        asking = it.screen.asking.select("allow? ", [Choice("Yes", ("y",))], text="decline")
        answered = asyncio.ensure_future(asking)
        await it.until(lambda: it.screen.asking.choices is not None)
        it.now_s += SILENCE_S
        it.type("y\rand more\r")

        assert await answered == "y\nand more"


@pytest.mark.parametrize(
    ("editor", "row"),
    [
        ("sed -i 2,$d", "you> x"),
        ("false", "you> [paste #1: 11 lines]"),
        ("/nowhere/editor", "you> [paste #1: 11 lines]"),
        ("sh -c 'touch DONE'", "you> [paste #1: 11 lines]"),
    ],
)
async def test_editor_gets_the_whole_draft_and_a_failed_edit_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, editor: str, row: str
) -> None:
    """S6: $VISUAL may have arguments; unchanged text keeps its marks."""
    done = tmp_path / "done"
    monkeypatch.setenv("VISUAL", editor.replace("DONE", str(done)))

    def has_ended() -> bool:
        told = "\n".join(it.rows)
        said = ("you> x", "false ended with 1", "editor cannot be used")
        return done.exists() or any(words in told for words in said)

    async with live(tmp_path) as it:
        it.type(f"\x1b[200~{'x' + chr(10) * 11}\x1b[201~\x07")
        await it.until(has_ended)
        it.type("!")
        await it.until(lambda: f"{row}!" in it.rows)


async def test_escape_in_vi_mode_ends_insert_mode_at_once_and_stops_nothing(
    tmp_path: Path,
) -> None:
    """S6: Ctrl-C stops; Enter right after Escape is not Alt-Enter, which Ctrl-F replaces.

    Each line begins in insert mode, as in a shell.
    """
    async with live(tmp_path, vi=True) as it:
        it.person.is_busy = True
        assert it.screen.app.vi_mode == "insert"
        it.type("abc\x1b")
        await it.until(lambda: it.screen.app.vi_mode == "normal")
        it.type("0iX\x1b\r")
        await it.until(lambda: it.person.got == [("Xabc", False)])
        it.type("afterwards\x06")
        await it.until(lambda: it.person.got[1:] == [("afterwards", True)])
        it.type(f"{ESCAPE}{CTRL_C}")
        await it.until(lambda: it.person.interrupted == 1)
        it.type(f"i\x1b[200~{'x' * 2_000}\x1b[201~!{ESCAPE}0x")
        await it.until(lambda: it.rows == ["you> !"])


async def test_enter_steers_a_run_and_alt_enter_queues_a_follow_up(
    tmp_path: Path,
) -> None:
    """S0-59, S0-60: if nothing runs, Alt-Enter inserts a newline."""
    async with live(tmp_path) as it:
        it.person.is_busy = True
        it.type("now\r")
        await it.until(lambda: len(it.person.got) == 1)
        it.type(f"later{ALT_ENTER}")
        await it.until(lambda: len(it.person.got) == 2)
        it.person.is_busy = False
        it.type(f"one{ALT_ENTER}two\r")
        await it.until(lambda: len(it.person.got) == 3)

        assert it.person.got == [("now", False), ("later", True), ("one\ntwo", False)]


async def test_prompt_stays_on_the_screen_with_thousands_of_queued_messages(tmp_path: Path) -> None:
    """A paste without paste marks is one message per line."""
    async with live(tmp_path) as it:
        it.person.queued = [Queued(f"{number}") for number in range(5_000)]
        it.screen.refresh()
        await it.until(lambda: len(it.rows) > 1)

        last = [f"  when done: {number}" for number in range(4_996, 5_000)]
        assert it.rows == ["  … 4,996 more", *last[:-1], f"{last[-1]} · ↑ edits", "you>"]


async def test_completion_menu_aligns_the_help_and_fits_a_low_terminal(tmp_path: Path) -> None:
    """With `/` on twelve rows: as many choices as fit below the input."""
    async with live(tmp_path) as it:
        words = ["/a", "/longer", "/b", "/c", "/d", "/e"]
        it.screen.buffer.completer = WordCompleter(words, meta_dict=dict.fromkeys(words, "help"))
        it.type("/")
        await it.until(lambda: len(it.rows) > 1)

        assert it.rows == [
            "you> /",
            "     /a       help",
            "     /longer  help",
            "     /b       help",
            "     3 more ↓",
        ]


class Endless(Completer):
    """Never finds anything, and goes on looking."""

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        raise NotImplementedError

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion]:
        await asyncio.Event().wait()
        yield Completion("never")


@pytest.mark.parametrize(("arrow", "recalled"), [(UP, "first"), (DOWN, "")])
async def test_arrows_recall_prompts_while_completions_are_looked_for(
    tmp_path: Path, arrow: str, recalled: str
) -> None:
    """While a large folder was listed they did nothing: they chose in a menu without rows."""
    async with live(tmp_path) as it:
        it.type("first\rsecond\r")
        await it.until(lambda: len(it.person.got) == 2)
        await it.press(UP)
        it.screen.buffer.completer = Endless()
        await it.press("@")
        assert it.screen.menu.is_looking
        await it.press(arrow)

        assert it.screen.draft.text == recalled


async def test_description_of_several_lines_takes_one_row_of_the_menu(tmp_path: Path) -> None:
    """Of a job's command or a server's prompt; further lines pushed other choices off the menu."""
    async with live(tmp_path) as it:
        about = {"/a": "one\n\ttwo\x1b[2J", "/b": "help"}
        it.screen.buffer.completer = WordCompleter([*about], meta_dict=about)
        it.type("/")
        await it.until(lambda: len(it.rows) > 1)

        assert it.rows == ["you> /", "     /a  one two\\x1b[2J", "     /b  help"]


async def test_editor_opens_with_the_keys_of_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-X Ctrl-E; nobody types the second key within the tenth of a second that Esc has."""
    done = tmp_path / "done"
    monkeypatch.setenv("VISUAL", f"sh -c 'touch {done}; echo edited > \"$0\"'")
    async with live(tmp_path) as it:
        it.type("\x18")
        await it.until(lambda: bool(it.screen.app.key_processor.key_buffer))
        assert it.screen.app.timeoutlen == 1
        it.type("\x05")
        await it.until(done.exists)
        await it.until(lambda: it.rows[-1] == "you> edited")
        it.type("!")
        await it.until(lambda: it.rows[-1] == "you> edited!")

        assert it.screen.app.timeoutlen < 0.5


async def test_message_returned_while_the_editor_is_open_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run fails while the user writes the next prompt in the editor."""
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.01; done; printf edited > "$1"\n')
    script.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(script))
    async with live(tmp_path) as it:
        it.type("draft\x07")
        await it.until(lambda: it.screen.app.is_lent)
        it.screen.put_back("queued")
        Path("go").touch()
        await it.until(lambda: it.rows == ["you> queued", "     edited"])


async def test_status_line_is_dimmed_except_in_the_high_contrast_theme(tmp_path: Path) -> None:
    """That theme exists to avoid grey on black; it takes effect as soon as it is chosen."""
    async with live(tmp_path) as it:
        it.screen.status = lambda: "the status"
        it.screen.refresh()
        await it.until(lambda: "\x1b[0;90mthe status" in it.written.getvalue())
        it.screen.paint.use_theme("high-contrast")
        it.screen.status = lambda: "other words"
        it.screen.refresh()
        await it.until(lambda: "other words" in it.rows)

        assert "\x1b[0;90mother" not in it.written.getvalue()


async def test_key_with_alt_that_is_not_bound_stops_nothing(tmp_path: Path) -> None:
    """A slip beside Alt-F stopped the run, and typed a letter; a typed Esc does stop it."""
    async with live(tmp_path) as it:
        it.person.is_busy = True
        processor = it.screen.app.key_processor
        processor.feed_multiple([ALT, KeyPress("x"), KeyPress("a"), ALT, KeyPress("b")])
        processor.process_keys()
        it.type("b")
        await it.until(lambda: it.rows == ["you> ba"])

        assert it.person.interrupted == 0
        it.type(f"{ESCAPE}x")
        await it.until(lambda: it.person.interrupted == 1)
        await it.until(lambda: it.rows == ["you> bxa"])


async def test_esc_is_no_key_before_the_rest_of_a_sequence_can_have_come(tmp_path: Path) -> None:
    """A connection that brought `[A` 60 ms after its Esc stopped a run, and typed `[A`."""
    async with live(tmp_path) as it:
        it.person.is_busy = True
        loop, taken_at_s = asyncio.get_running_loop(), list[float]()
        it.screen.app.key_processor.before_key_press += lambda _keys: taken_at_s.append(loop.time())
        typed_at_s = loop.time()
        it.type(ESCAPE)
        await it.until(lambda: it.person.interrupted == 1)

        assert taken_at_s[0] - typed_at_s >= LAG_S


@pytest.mark.parametrize("key", [CTRL_C, ESCAPE])
async def test_esc_and_ctrl_c_stop_the_run_and_keep_the_draft(key: str, tmp_path: Path) -> None:
    """C18: typed text is never lost to an interrupt."""
    async with live(tmp_path) as it:
        it.person.is_busy = True
        it.type("a draft")
        await it.until(lambda: it.rows == ["you> a draft"])
        it.type(key)
        await it.until(lambda: it.person.interrupted == 1)

        assert it.screen.buffer.text == "a draft"


async def test_ctrl_b_asks_for_the_background_whenever_something_works(tmp_path: Path) -> None:
    """During the user's own command, which cannot be moved there, it did and said nothing."""
    async with live(tmp_path) as it:
        await it.press(CTRL_B)
        it.person.is_busy = True
        await it.press(CTRL_B)
        it.type("draft")
        await it.press(CTRL_B)
        await it.press("X")

        assert it.person.got == [("/jobs background", False)]
        assert it.screen.buffer.text == "drafXt"


async def test_hint_that_the_next_ctrl_c_leaves_is_gone_when_it_no_longer_does(
    tmp_path: Path,
) -> None:
    """It stayed above the prompt for the rest of the session."""
    async with live(tmp_path) as it:
        await it.until(lambda: it.rows == ["you>"])
        it.type(CTRL_C)
        await it.until(lambda: it.rows == ["you>", "press Ctrl-C again to leave"])
        it.now_s += 2
        it.screen.refresh()
        await it.until(lambda: it.rows == ["you>"])

        it.type(CTRL_C)
        await it.until(lambda: it.rows == ["you>", "press Ctrl-C again to leave"])
        it.type("a prompt")
        await it.until(lambda: it.rows == ["you> a prompt"])
        it.type(CTRL_C)  # clears it
        await it.until(lambda: it.rows == ["you>"])
        it.type(CTRL_C)

        await it.until(lambda: it.rows == ["you>", "press Ctrl-C again to leave"])


@each_row(
    ("is_busy", "lost", "hint"),
    [
        (False, "", ""),
        (False, "1 job ends", "press Ctrl-D again to leave; 1 job ends"),
        (True, "", "press Ctrl-D again to leave"),
    ],
)
async def test_ctrl_d_leaves_at_once_unless_something_would_be_lost(
    tmp_path: Path, is_busy: bool, lost: str, hint: str
) -> None:
    """What an agent in the background had been paid for was gone after a key pressed by mistake.

    So was a run.
    """
    async with live(tmp_path) as it:
        it.person.is_busy = is_busy
        it.screen.lost = lambda: lost
        await it.until(lambda: it.rows == ["you>"])
        if hint:
            it.type(CTRL_D)
            await it.until(lambda: it.rows == ["you>", hint])
            it.now_s += 2
            it.screen.refresh()
            await it.until(lambda: it.rows == ["you>"])
            it.type(CTRL_D)
            await it.until(lambda: it.rows == ["you>", hint])
        it.type(CTRL_D)

        await it.until(lambda: not it.screen.app.is_running)


async def test_ctrl_d_at_a_question_leaves_only_the_second_time(tmp_path: Path) -> None:
    """In a shell the key closes the question alone; here it ended the session and its run."""
    async with live(tmp_path) as it:
        asked = await it.asked("attach? ", "yn")
        it.type(CTRL_D)
        await it.until(lambda: it.rows == ["attach?", "press Ctrl-D again to leave"])
        assert not asked.done()
        it.type(CTRL_D)

        await it.until(lambda: not it.screen.app.is_running)
        with pytest.raises(EOFError):
            await asked


async def test_arrow_up_restores_a_draft_that_ctrl_c_cleared(tmp_path: Path) -> None:
    """Typed text is never lost."""
    async with live(tmp_path) as it:
        it.type("a draft")
        await it.until(lambda: it.rows == ["you> a draft"])
        it.type(CTRL_C)
        await it.until(lambda: it.rows == ["you>"])
        # The history is reread in the background.
        await it.until(lambda: len(it.screen.buffer._working_lines) == 2)
        it.type(UP)
        await it.until(lambda: it.rows == ["you> a draft"])


async def test_ctrl_s_pauses_the_display_and_ctrl_q_resumes(tmp_path: Path) -> None:
    """S4-29."""
    async with live(tmp_path) as it:
        it.type("\x13\x11")
        await it.until(lambda: it.person.paused == [True, False])


async def test_ctrl_o_runs_the_output_command_and_keeps_the_draft(tmp_path: Path) -> None:
    """This works at any time."""
    async with live(tmp_path) as it:
        it.type("a draft\x0f")
        await it.until(lambda: it.person.got == [("/output", False)])

        assert it.screen.buffer.text == "a draft"


async def test_question_opens_only_after_a_moment_without_keystrokes(
    tmp_path: Path,
) -> None:
    """52 reports of accidental approvals elsewhere: keys meant as text stay text."""
    async with live(tmp_path) as it:
        asking = asyncio.ensure_future(it.screen.asking.choose("allow? ", "yna"))
        await it.until(lambda: it.screen.asking.question is not None)
        it.now_s = 0.3
        it.type("y")
        await it.until(lambda: it.rows == ["you> y"])
        it.now_s = 0.6
        it.type("e")
        await it.until(lambda: it.rows == ["you> ye"])
        it.now_s = 0.6 + SILENCE_S + 0.01
        await it.until(lambda: it.rows == ["allow? too early: try again"])
        it.type("n\r")

        assert await asking == "n"
        await it.until(lambda: it.rows == ["allow? n", "you> ye"])


async def test_text_that_contains_answer_keys_is_one_answer(tmp_path: Path) -> None:
    """`use any name` holds y, n and a, and is one comment."""
    async with live(tmp_path) as it:
        asking = await it.asked("allow? ", "yna")
        it.type("use any name\r")

        assert await asking == "use any name"


async def test_finished_rows_then_the_tail_are_shown_above_the_prompt(tmp_path: Path) -> None:
    """Finished rows stay in the scrollback; the tail is replaced, whatever their length."""
    async with live(tmp_path) as it:
        it.type("draft")
        await it.until(lambda: it.rows == ["you> draft"])
        done: list[str] = []
        for number in range(50):
            rows = [f"row {number}"] if number % 3 else []
            done += rows
            tail = [f"tail {number}.{line}" for line in range(number % 7)]
            it.screen.painter.show(rows, tail)
            fitting = tail[-(ROWS // 2 - 2) :]
            assert it.rows == [*done, *fitting, "you> draft"]


async def test_new_rows_above_an_unchanged_prompt_do_not_render_the_prompt_again(
    tmp_path: Path,
) -> None:
    """That was a fifth of the CPU time of a long answer; the screen is the same."""
    async with live(tmp_path) as it:
        it.type("draft")
        await it.until(lambda: it.rows == ["you> draft"] and not it.screen.app.invalidated)
        it.screen.painter.show(["first"], ["tail"])
        rendered = it.screen.app.render_counter
        done = [f"row {number}" for number in range(2 * ROWS)]
        for row in done:
            it.screen.painter.show([row], ["tail"])

        assert it.screen.app.render_counter == rendered
        assert it.rows == ["first", *done, "tail", "you> draft"]
        it.type("s\x1b[D\x1b[D")
        await it.until(lambda: it.rows[-1] == "you> drafts")
        it.screen.painter.show(["last"], ())
        it.type("!")
        await it.until(lambda: it.rows == ["first", *done, "last", "you> draf!ts"])


async def test_low_terminal_shows_four_rows_of_an_answer(tmp_path: Path) -> None:
    """With fewer, a paragraph would only appear when it has ended."""
    async with live(tmp_path) as it:
        it.size = Size(rows=8, columns=COLUMNS)
        it.screen.painter.repaint()
        it.screen.painter.show((), ["one", "two", "three", "four", "five"])

        assert it.rows == ["two", "three", "four", "five", "you>"]


async def test_low_terminal_shows_all_answers_and_the_end_of_the_call(tmp_path: Path) -> None:
    """`No` must not hide below the list; a panel takes its rows from the answers."""
    choices = [Choice(word, (word,)) for word in ("one", "two", "three", "four", "no")]
    call = ["title", "− old", "+ new", "reason"]
    async with live(tmp_path) as it:
        it.screen.painter.show(call, ())
        answered = asyncio.ensure_future(it.screen.asking.select("allow?", choices, text="say no"))

        answers = ["  one", "  two", "  three", "  four", "  no"]
        await it.until(lambda: it.rows[: len(call) + 6] == [*call, "allow?", *answers])
        assert it.rows[len(call) + 6].startswith("↓ type anything else")
        it.screen.panels.append(lambda: [(False, "todo 1"), (False, "todo 2")])
        it.screen.refresh()
        await it.until(lambda: it.rows[-4:] == [*answers[:3], "↓ four"])
        it.screen.asking.answer("not now")
        assert await answered == "not now"


@pytest.mark.parametrize("how", ["noted", "asked", "printed"])
async def test_outdated_prompt_is_rendered_with_the_next_rows(tmp_path: Path, how: str) -> None:
    """A badge or the to-do list changes with an event, in the same frame as the event's rows."""
    async with live(tmp_path) as it:
        it.screen.painter.show(["first"], ())
        it.screen.panels.append(lambda: [(False, "todo")])
        match how:
            case "noted":
                it.screen.painter.outdate_prompt()
                it.screen.painter.show(["second"], ())
            case "asked":
                it.screen.refresh()
                it.screen.painter.show(["second"], ())
            case _:
                it.screen.print(["second"])

        assert it.rows == ["first", "second", "todo", "you>"]


async def test_each_frame_is_a_single_write(tmp_path: Path) -> None:
    """Otherwise a terminal shows half of it: the prompt flickers."""
    async with live(tmp_path) as it:
        writes: list[str] = []
        write = it.written.write
        it.written.write = lambda text: writes.append(text) or write(text)  # type: ignore[method-assign,func-returns-value]
        it.screen.painter.show(["one", "two"], ["tail"])

        assert len(writes) == 1
        assert writes[0].startswith("\x1b[?2026h")
        assert writes[0].endswith("\x1b[?2026l")


@pytest.mark.parametrize(
    ("row", "is_erased"),
    [("\u0915\u093f" * COLUMNS, True), ("\u0915" * COLUMNS, False), ("x" * COLUMNS, False)],
)
async def test_rows_below_are_erased_if_some_terminal_wraps_a_finished_row(
    tmp_path: Path, row: str, *, is_erased: bool
) -> None:
    """Vowel signs of Hindi take a cell each in tmux and others: an old row of the tail stayed."""
    async with live(tmp_path) as it:
        it.screen.painter.show([], ["old", "old"])
        begin = len(it.written.getvalue())
        it.screen.painter.show([row], ["new"])

        assert (
            it.written.getvalue()[begin:].split(row)[0].endswith("\x1b[J\x1b8\x1b[2K") is is_erased
        )


async def test_search_in_the_history_says_that_nothing_matches(tmp_path: Path) -> None:
    """The prompt before it looks like an answer."""
    async with live(tmp_path) as it:
        it.type("An earlier prompt\r")
        await it.until(lambda: it.rows == ["you>"])
        it.type("\x12EARL")
        await it.until(lambda: it.rows[-2:] == ["you> An earlier prompt", "history: EARL"])
        it.type("x")
        await it.until(lambda: it.rows[-1] == "history: EARLx  no match")


@pytest.mark.parametrize("key", [CTRL_C, "\x07"], ids=["Ctrl-C", "Ctrl-G"])
async def test_aborted_search_brings_the_draft_back(key: str, tmp_path: Path) -> None:
    """After a second Ctrl-R the draft was gone, and what was found stood there."""
    async with live(tmp_path) as it:
        for line in ("an earlier prompt\r", "an early one\r"):
            it.type(line)
            await it.until(lambda: it.rows == ["you>"])
        it.type("my draft\x02\x12earl")
        await it.until(lambda: it.rows[-1] == "history: earl")
        it.type("\x12")
        await it.until(lambda: it.screen.buffer.text.startswith("an earl"))
        it.type(key)
        await it.until(lambda: it.rows == ["you> my draft"])

        assert it.screen.buffer.cursor_position == len("my draf")


@pytest.mark.parametrize(
    ("before", "end", "mode"),
    [
        ("", "\r", "insert"),
        ("", CTRL_C, "insert"),
        ("", ESCAPE, "normal"),
        (ESCAPE, "\r", "normal"),
    ],
)
async def test_search_ends_in_the_vi_mode_in_which_it_began(
    before: str, end: str, mode: str, tmp_path: Path
) -> None:
    """Text typed after Ctrl-R and Enter was taken as commands."""
    async with live(tmp_path, vi=True) as it:
        it.type("an earlier prompt\r")
        await it.until(lambda: it.rows == ["you>"])
        for key in filter(None, (before, "\x12")):
            await it.press(key)
        it.type("earl")
        await it.until(lambda: it.rows[-1] == "history: earl")
        await it.press(end)

        assert not it.screen.app.layout.is_searching
        assert it.screen.app.vi_mode == mode


async def test_size_that_changes_while_a_frame_is_drawn_is_a_new_one(tmp_path: Path) -> None:
    """The frame has the old size: its rows wrap, and stay unless all is drawn again."""
    async with live(tmp_path) as it:

        def narrower() -> str:
            it.size = Size(rows=ROWS, columns=COLUMNS // 2)
            return "narrower"

        it.screen.status = narrower
        it.screen.refresh()
        await it.until(lambda: "narrower" in it.rows[-1])

        assert it.screen.app.size_is_new()


async def test_esc_twice_at_an_idle_prompt_opens_rewind(tmp_path: Path) -> None:
    """One press is a slip, and so are two with a pause between them."""
    async with live(tmp_path) as it:
        await it.press(ESCAPE)
        it.now_s += 2
        await it.press(ESCAPE)
        assert it.person.got == []
        it.now_s += 0.4
        it.type(ESCAPE)
        await it.until(lambda: it.person.got == [("/rewind", False)])


async def test_combined_emoji_is_shown_in_parts_of_certain_width_and_sent_whole(
    tmp_path: Path,
) -> None:
    """Home and typing on must not paint over it."""
    family, heart = "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u2764\ufe0f"
    async with live(tmp_path) as it:
        it.type(f"{family}{heart}b\x1b[Ha\x1b[F!")
        await it.until(lambda: it.screen.buffer.text == f"a{family}{heart}b!")
        await it.until(lambda: it.rows[0].endswith("b!"))
        shown = it.written.getvalue()
        it.type("\r")
        await it.until(lambda: it.person.got != [])

        assert "\u200d" not in shown
        assert "\ufe0f" not in shown
        assert it.person.got == [(f"a{family}{heart}b!", False)]


async def test_tabs_of_a_paste_are_shown_as_blanks_and_sent_as_they_are(tmp_path: Path) -> None:
    """Each was `^I`: pasted code could hardly be read."""
    async with live(tmp_path) as it:
        it.type("\x1b[200~if a:\n\tb\tc\x1b[201~")
        await it.until(lambda: it.rows == ["you> if a:", "         b   c"])
        it.type("\x1b[D\x1b[Dx")
        await it.until(lambda: it.rows == ["you> if a:", "         bx  c"])
        it.type("\r")
        await it.until(lambda: it.person.got == [("if a:\n\tbx\tc", False)])


async def test_shift_tab_asks_for_the_next_mode_and_keeps_the_draft(tmp_path: Path) -> None:
    """As in other programs of this kind."""
    async with live(tmp_path) as it:
        wanted: list[str] = []
        it.screen.on_mode_requested = lambda: wanted.append("next")
        it.type("a draft\x1b[Z")
        await it.until(lambda: wanted == ["next"])

        assert it.screen.buffer.text == "a draft"


def test_question_accepts_keys_only_some_time_after_it_was_shown() -> None:
    """The time counts from when it is on the screen, not from when it was asked."""
    now_s = [0.0]
    question = OpenQuestion("allow? ", "yn", lambda: now_s[0])
    now_s[0] = 10
    before = question.is_ripe
    question.shown()
    now_s[0] = 10 + SILENCE_S - 0.01
    almost = question.is_ripe
    now_s[0] = 10 + SILENCE_S + 0.01

    assert (before, almost, question.is_ripe) == (False, False, True)


async def test_prompt_that_cannot_be_stored_is_told_once(tmp_path: Path) -> None:
    """The folder may go, or the disk fill up, while the session is open."""
    async with live(tmp_path / "state") as it:
        (tmp_path / "state").rename(tmp_path / "gone")
        it.type("one\r")
        await it.until(lambda: len(it.person.got) == 1)
        it.type("two\r")
        await it.until(lambda: len(it.person.got) == 2)

        await it.until(lambda: "not kept for later sessions" in " ".join(it.rows))
        assert " ".join(it.rows).count("not kept") == 1
