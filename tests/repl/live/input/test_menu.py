"""The menu of completions, in a real terminal."""

from pathlib import Path

from tests.repl.terminal import Terminal


def test_text_typed_before_the_program_has_loaded_is_completed() -> None:
    """A slash or an @ typed at once used to show no menu until the next key."""
    with Terminal(AWAIT_BUILT="1") as terminal:
        terminal.until_prompt()
        terminal.send("/")
        terminal.until(lambda: terminal.last_row == "you> /")
        Path("built").touch()
        terminal.until("/clear ")


def test_enter_accepts_the_only_command_completion_and_runs_the_command() -> None:
    """`/con` with one entry shown used to be "unknown command /con"."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("/con")
        terminal.until("/context")
        terminal.send("\r")
        terminal.until("tokens in the next request")
        terminal.until_prompt()
        terminal.send("/mode pl")
        terminal.until("only looks around")
        terminal.send("\r")
        terminal.until("mode: plan")

        assert "there is no command" not in terminal.text


def test_enter_takes_the_first_row_unless_another_is_chosen_or_typed_in_full() -> None:
    """Several commands and files begin as typed; the arrow goes on from the first row."""
    Path("ab.py").touch()
    Path("ab").touch()
    Path("abc.py").touch()
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("/co")
        terminal.until("/copy")
        commands = [row.split()[0] for row in terminal.text.splitlines() if row[:6] == "     /"]
        terminal.send("\x1b[B")
        terminal.until(f"you> {commands[1]}")
        terminal.send("\x15/mode")
        terminal.until("/model")
        terminal.send("\r")
        terminal.until("mode: ask; which one?")
        terminal.send("\x1b")
        terminal.until_prompt()
        terminal.send("see @ab")
        terminal.until("     abc.py")
        terminal.send("\r")
        terminal.until("see @ab' to model-1.")
        terminal.until_prompt()
        terminal.send("see @abc")
        terminal.until("     abc.py")
        terminal.send("\r")
        terminal.until(lambda: terminal.last_row == "you> see @abc.py")


def test_enter_accepts_the_only_file_completion_without_sending() -> None:
    """Typing continues; a path that merely contains the characters is not a match."""
    Path("src").mkdir()
    Path("src/application.py").touch()
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("look at @appl")
        terminal.until("src/application.py")
        terminal.send("\r")
        terminal.until(lambda: terminal.last_row == "you> look at @src/application.py")
        terminal.send(" please\r")
        terminal.until("attached @src/application.py: 0 lines")
        terminal.until("please' to model-1.")
        terminal.until_prompt()
        terminal.send("ask @sppy")
        terminal.until("     src/application.py")
        terminal.send("\r")
        terminal.until("You said 'ask @sppy'")


def test_escape_closes_the_completion_menu_and_keeps_the_text() -> None:
    """The next key opens it again."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("/con")
        terminal.until("/context")
        terminal.send("\x1b")
        terminal.until(lambda: "/context" not in terminal.text)
        terminal.until(lambda: "you> /con" in map(str.rstrip, terminal.text.splitlines()))
        terminal.send("t")
        terminal.until("/context")


def test_new_file_is_offered_while_its_name_is_typed() -> None:
    """The list is refreshed when nothing in it matches, and the menu opens by itself."""
    Path("old.py").touch()
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("see @old")
        terminal.until("     old.py")
        Path("brand_new.py").touch()
        terminal.send("\x15see @brand")
        terminal.until("     brand_new.py")


def test_paths_outside_the_workspace_are_completed() -> None:
    """`@../` and `@~/`, by the prefix of a name."""
    Path.home().mkdir(exist_ok=True)
    (Path.home() / "notes.md").touch()
    (Path.home() / ".hidden").touch()
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("see @~/no")
        terminal.until("     ~/notes.md")
        terminal.send(f"\x15see @../{Path.cwd().name[:-1]}")
        terminal.until(f"     ../{Path.cwd().name}/")
        assert ".hidden" not in terminal.text


def test_question_mark_at_an_empty_prompt_opens_the_help() -> None:
    """Anywhere else it is a plain question mark."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("?")
        terminal.until("Ctrl-J")
        terminal.until_prompt()
        terminal.send("why?\r")
        terminal.until("You said 'why?'")
