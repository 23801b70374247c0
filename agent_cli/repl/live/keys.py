"""Key bindings; /help describes them."""

from prompt_toolkit.filters import (
    Condition,
    FilterOrBool,
    emacs_insert_mode,
    has_completions,
    is_searching,
    to_filter,
    vi_insert_mode,
    vi_mode,
    vi_navigation_mode,
)
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys
from prompt_toolkit.search import accept_search, stop_search

from agent_cli.contracts.errors import UsageError
from agent_cli.repl.dialogue import ASIDE, Choice
from agent_cli.repl.live.agent_rows import bind_agent_keys
from agent_cli.repl.live.asking import OpenQuestion
from agent_cli.repl.live.digits import Digits
from agent_cli.repl.live.input.keyboard import ALT, Keyboard
from agent_cli.repl.live.queue_edit import bind_queue_keys
from agent_cli.repl.live.screen import LiveScreen
from agent_cli.repl.live.shared_terminal import kept_line


def bind_keys(screen: LiveScreen) -> None:
    """Bind the keys of *screen*; all other keys edit as in emacs or vi."""
    _know_shift_enter()
    keys = KeyBindings()
    digits = Digits(screen, lambda: _answer_with_line(screen))
    _bind_sending(keys, screen, digits)
    _bind_stopping(keys, screen)
    _bind_display(keys, screen)
    _bind_menu(keys, screen)
    _bind_answers(keys, screen)
    _bind_editing(keys, screen, digits)
    _bind_pasting(keys, screen)
    _bind_search(keys, screen)
    bind_agent_keys(keys, screen.agents, lambda line: screen.listener.submit(line, follow_up=False))
    queued = Condition(lambda: bool(screen.listener.queued) and not screen.asking.question)
    bind_queue_keys(keys, screen.queue, screen.draft, queued)
    screen.app.key_bindings = keys
    screen.buffer.on_text_changed += screen.forget_hint
    screen.app.key_processor.before_key_press += digits.key_pressed
    screen.app.key_processor.after_key_press += screen.insert_answer
    screen.app.key_processor.after_key_press += screen.await_second_key


def _know_shift_enter() -> None:
    """Map the two codes terminals send for Shift-Enter to Ctrl-J; prompt_toolkit drops them."""
    ANSI_SEQUENCES.setdefault("\x1b[13;2u", Keys.ControlJ)
    ANSI_SEQUENCES["\x1b[27;2;13~"] = Keys.ControlJ


def _bind_sending(keys: KeyBindings, screen: LiveScreen, digits: Digits) -> None:
    busy = Condition(lambda: screen.listener.is_busy and not screen.asking.is_open)

    def is_command(text: str) -> bool:
        return screen.listener.is_command(text)

    screen.asking.is_command = is_command  # Enter sends it, and answers nothing

    @keys.add("enter", filter=~is_searching)
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.current_line_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif screen.queue.is_active:
            if not screen.menu.take():
                screen.queue.keep()
        elif (
            screen.asking.choices
            and event.key_processor.input_queue
            and not is_command(screen.draft.text)
        ):
            buffer.insert_text("\n")  # an unmarked paste: an Enter within it must not answer
        elif digits.ends_digit and screen.draft.is_empty:
            screen.asking.refuse(too_early=True)
        elif screen.asking.is_open:
            _answer_with_line(screen)
        elif not screen.menu.take():
            _send(screen, follow_up=False)

    # In vi mode Escape and Enter are two keys, so Escape must not wait for Enter.
    @keys.add("escape", "enter", filter=busy & ~vi_mode)
    @keys.add("c-f", filter=busy & vi_mode)
    def follow_up(_event: KeyPressEvent) -> None:
        _send(screen, follow_up=True)

    @keys.add("escape", "enter", filter=~busy & ~vi_mode)
    @keys.add("c-j")
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")


def _send(screen: LiveScreen, *, follow_up: bool) -> None:
    if screen.queue.is_active:
        screen.queue.keep()
    elif screen.listener.submit(screen.draft.message, follow_up=follow_up):
        screen.asking.message_sent()
        screen.draft.clear()
        screen.app.insert()  # vi's mode at each new line of a shell
    else:
        screen.note_refusal()


def _bind_stopping(keys: KeyBindings, screen: LiveScreen) -> None:
    empty = Condition(lambda: screen.draft.is_empty)
    stoppable = Condition(
        lambda: (
            screen.listener.is_busy or screen.asking.is_open or screen.listener.aside is not None
        )
    )

    @keys.add("c-c", filter=~is_searching)
    def interrupt(_event: KeyPressEvent) -> None:
        screen.interrupt()

    @keys.add("escape", filter=stoppable & ~is_searching & ~vi_mode)
    def stop(_event: KeyPressEvent) -> None:
        if aside := screen.listener.aside:
            aside.cancel()
        else:
            screen.interrupt()

    @keys.add("escape", filter=empty & ~stoppable & ~is_searching & ~vi_mode)
    def restore(_event: KeyPressEvent) -> None:
        screen.escape()

    # Bound after the other Escape, so that it takes precedence and closes the menu first.
    @keys.add("escape", filter=Condition(lambda: screen.menu.is_open) & ~is_searching & ~vi_mode)
    def close_menu(_event: KeyPressEvent) -> None:
        screen.menu.close()

    with_alt = Condition(lambda: screen.app.key_processor.key_buffer[:1] == [ALT])

    @keys.add("escape", Keys.Any, filter=with_alt & ~vi_mode)
    def ignore(_event: KeyPressEvent) -> None:
        """Do nothing for a key with Alt that is not bound: its Esc would stop a run."""

    @keys.add("c-d", filter=empty)
    def end_of_input(_event: KeyPressEvent) -> None:
        screen.end_of_input()

    @keys.add("c-z")
    def suspend(_event: KeyPressEvent) -> None:
        screen.suspend()


def _bind_display(keys: KeyBindings, screen: LiveScreen) -> None:
    @keys.add("c-s")
    def pause(_event: KeyPressEvent) -> None:
        screen.listener.pause(paused=True)
        screen.refresh()

    @keys.add("c-q")
    def go_on(_event: KeyPressEvent) -> None:
        screen.listener.pause(paused=False)
        screen.refresh()

    @keys.add("c-l")
    def repaint(_event: KeyPressEvent) -> None:
        screen.painter.repaint()

    @keys.add("s-tab", filter=~has_completions & ~is_searching & ~screen.picker.is_open)
    def next_mode(_event: KeyPressEvent) -> None:
        screen.on_mode_requested()
        screen.refresh()

    idle = Condition(lambda: screen.draft.is_empty and not screen.asking.question)

    @keys.add("?", filter=idle & ~is_searching & ~screen.picker.is_open & ~vi_navigation_mode)
    def show_help(_event: KeyPressEvent) -> None:
        screen.listener.submit("/help", follow_up=False)

    # Otherwise the key moves the cursor. What cannot be moved says so.
    works = Condition(lambda: screen.draft.is_empty and screen.listener.is_busy)

    @keys.add("c-b", filter=works & ~is_searching)
    def move_to_background(_event: KeyPressEvent) -> None:
        screen.listener.submit("/jobs background", follow_up=False)

    # The draft stays in the input.
    @keys.add("c-o")
    def show_output(_event: KeyPressEvent) -> None:
        what = "/agents show" if screen.agents.is_any_working else "/output"
        screen.listener.submit(what, follow_up=False)

    @keys.add("c-t")
    def show_thinking(_event: KeyPressEvent) -> None:
        screen.listener.submit("/thinking", follow_up=False)


def _bind_menu(keys: KeyBindings, screen: LiveScreen) -> None:
    first_is_marked = Condition(lambda: screen.menu.marks_unchosen)

    # The first row looks chosen already.
    @keys.add("down", filter=first_is_marked & ~is_searching)
    @keys.add("c-n", filter=first_is_marked & ~is_searching)
    def second(_event: KeyPressEvent) -> None:
        screen.menu.choose_next()

    is_looking = Condition(lambda: screen.menu.is_looking)

    # The keys would choose in a menu that has no rows yet, as while a large folder is listed.
    @keys.add("up", filter=is_looking & ~is_searching)
    @keys.add("c-p", filter=is_looking & ~is_searching)
    def earlier(event: KeyPressEvent) -> None:
        screen.menu.close()
        event.current_buffer.auto_up()

    @keys.add("down", filter=is_looking & ~is_searching)
    @keys.add("c-n", filter=is_looking & ~is_searching)
    def later(event: KeyPressEvent) -> None:
        screen.menu.close()
        event.current_buffer.auto_down()


def _bind_answers(keys: KeyBindings, screen: LiveScreen) -> None:
    listed = Condition(lambda: screen.asking.choices is not None)

    on_checkbox = Condition(lambda: screen.asking.checkbox is not None)

    @keys.add(" ", filter=on_checkbox & ~is_searching)
    def check(_event: KeyPressEvent) -> None:
        screen.asking.check()

    _bind_shortcut(keys, screen, "c-o", "Ctrl-O")
    # With text in the input the key goes to its end.
    _bind_shortcut(keys, screen, "c-e", "Ctrl-E", only=Condition(lambda: screen.draft.is_empty))

    def move(rows: int) -> None:
        if choices := screen.asking.choices:
            choices.move(rows)

    @keys.add("up", filter=listed & ~has_completions & ~is_searching)
    @keys.add("c-p", filter=listed & ~has_completions & ~is_searching)
    def up(_event: KeyPressEvent) -> None:
        move(-1)

    @keys.add("down", filter=listed & ~has_completions & ~is_searching)
    @keys.add("c-n", filter=listed & ~has_completions & ~is_searching)
    def down(_event: KeyPressEvent) -> None:
        move(1)


def _bind_shortcut(
    keys: KeyBindings, screen: LiveScreen, key: str, name: str, *, only: FilterOrBool = True
) -> None:
    """Bind *key*, written as *name* beside an answer, to that answer of an open list."""
    offered = Condition(lambda: screen.asking.shortcut(name) is not None)

    @keys.add(key, filter=offered & to_filter(only) & ~is_searching)
    def take(_event: KeyPressEvent) -> None:
        if choice := screen.asking.shortcut(name):
            screen.asking.answer(choice)


def _answer_with_line(screen: LiveScreen) -> None:
    asking = screen.asking
    text = screen.draft.text
    if asking.choices and asking.choices.sends:
        if not screen.menu.take():
            _send(screen, follow_up=False)
        return
    # A command may be an answer where any line is one; an aside is none anywhere.
    takes_keys = asking.choices or (asking.question and asking.question.only_keys)
    if (takes_keys or text.startswith(ASIDE)) and screen.listener.is_command(text):
        _send(screen, follow_up=False)
        return
    answer = asking.answer_of(text)
    if isinstance(answer, Choice) and asking.choices and asking.choices.leaves_box():
        return
    if answer is None:
        asking.refuse()
        asking.put_aside()
        return
    # A checked row is in the list that follows.
    if not isinstance(answer, Choice) or not answer.is_checkbox:
        screen.show_answer((answer.label if isinstance(answer, Choice) else "") or text)
    if not (isinstance(answer, Choice) and asking.choices and asking.choices.leaves(text, answer)):
        screen.buffer.reset()  # not added to the history: it is not a prompt, and may be private
    asking.answer(answer)


def _bind_editing(keys: KeyBindings, screen: LiveScreen, digits: Digits) -> None:
    # prompt_toolkit's own binding loses its `save_before`, so that undo takes back a character.
    inserts = emacs_insert_mode | vi_insert_mode

    @keys.add(Keys.Any, filter=inserts, save_before=_begins_word)
    def insert(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(event.data * event.arg)
        if event.current_buffer is screen.buffer:
            digits.typed()

    @keys.add("c-v")
    def paste_picture(_event: KeyPressEvent) -> None:
        screen.on_picture_requested()

    @keys.add("c-x", "c-e", filter=~is_searching & ~vi_mode)
    @keys.add("c-g", filter=~is_searching)
    def edit(_event: KeyPressEvent) -> None:
        screen.app.create_background_task(_edit(screen))


def _bind_pasting(keys: KeyBindings, screen: LiveScreen) -> None:
    """Bind a paste; one that begins before a question opens, and ends after it, answers nothing."""
    asking, begun = screen.asking, list[OpenQuestion | None]()
    if isinstance(screen.app.input, Keyboard):
        screen.app.input.on_paste = lambda: begun.append(asking.question)
        screen.app.input.keeps_enter = lambda: asking.is_open or screen.picker.is_open()

    @keys.add(Keys.BracketedPaste)
    def paste(event: KeyPressEvent) -> None:
        asked = begun.pop() if begun else asking.question
        screen.insert_message(screen.draft.pasted(event.data), asked)


def _bind_search(keys: KeyBindings, screen: LiveScreen) -> None:
    """Let a search of the history end in the vi mode in which it began; Esc ends it as in vi.

    What it found for a message is one, although a question opened meanwhile. A search that is
    aborted brings the line back at which it began: a second Ctrl-R moves the input itself.
    """
    app, begun_in, was_asked = screen.app, InputMode.INSERT, screen.asking.question
    was_searching, go_back = False, kept_line(screen.buffer)
    searching = is_searching & vi_mode

    def note(_keys: object) -> None:
        nonlocal begun_in, was_asked, was_searching, go_back
        was_searching = app.layout.is_searching
        if not was_searching:
            go_back = kept_line(screen.buffer)
            begun_in, was_asked = app.vi_state.input_mode, screen.asking.question

    def note_end(_keys: object) -> None:
        if was_searching and not app.layout.is_searching and not screen.draft.is_empty:
            screen.asking.message_written(was_asked)

    app.key_processor.before_key_press += note
    app.key_processor.after_key_press += note_end

    @keys.add("enter", filter=searching)
    def accept(_event: KeyPressEvent) -> None:
        accept_search()
        app.vi_state.input_mode = begun_in

    @keys.add("c-c", filter=is_searching)
    @keys.add("c-g", filter=is_searching)
    def abort(_event: KeyPressEvent) -> None:
        stop_search()
        go_back()
        app.vi_state.input_mode = begun_in


def _begins_word(event: KeyPressEvent) -> bool:
    return not event.is_repeat or event.data.isspace()


async def _edit(screen: LiveScreen) -> None:
    """Open the draft in the user's editor."""
    from agent_cli.repl.live.input.editing import edit_text  # no prompt waits for it

    before, asked = screen.draft.text, screen.asking.question
    try:
        after = (await edit_text(screen.painter, before, ".md")).removesuffix("\n")
    except UsageError as error:
        screen.notice(str(error), "warning")
    else:
        if after != before.removesuffix("\n"):
            screen.asking.message_written(asked)
            screen.draft.replace(before, after)
