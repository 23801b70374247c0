"""The completions at the cursor."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document

from agent_cli.repl.commands import Command
from agent_cli.repl.live.input.completion import (
    Completions,
    argument_choices,
    command_choices,
    renewal,
)
from tests.repl.scripted_app import Application


def test_commands_are_completed_after_a_slash_at_the_start_of_the_line() -> None:
    """They have their descriptions; once an argument begins, none is offered."""
    commands = [Command("help", "show this", print), Command("hello", "greet", print)]
    choices = command_choices(lambda: commands)

    assert [choice.text for choice in choices("/hel")] == ["help", "hello"]
    assert [choice.display_meta_text for choice in choices("/help")] == ["show this"]
    assert not list(choices("/help me")) + list(choices("see /hel")) + list(choices(""))


def test_arguments_are_completed_after_the_name_of_a_command() -> None:
    """A complete word is not offered again; commands without choices offer none."""
    choices = argument_choices(Application())

    def offered(before: str) -> list[str]:
        return [choice.text for choice in choices(before)]

    assert offered("/mode ") == ["ask", "auto-edit", "auto", "plan", "yolo"]
    assert offered("/mode a") == ["ask", "auto-edit", "auto"]
    assert offered("/model h") == ["high"]
    assert offered("/effort mi") == ["minimal"]
    assert offered("/theme li") == ["light"]
    assert offered("/export h") == ["html"]
    assert offered("/resume ") == ["aa1", "bb2"]  # not the current session
    resume = choices("/resume a")
    (meta,) = [choice.display_meta_text for choice in resume]
    assert meta.startswith("An old one · ")
    assert [choice.display_meta_text for choice in choices("/model h")] == ["model-2"]
    assert offered("/help undo") == []
    assert offered("/help un") == ["uncompact", "unpin", "undo"]
    assert [*offered("/mode"), *offered("/tools "), *offered("mode "), *offered("/nope ")] == []


def test_completion_sources_are_listed_one_after_the_other() -> None:
    """Files, resources and commands are independent sources."""
    completer = Completions([lambda before: [Completion(before)], lambda _: [Completion("2")]])

    found = completer.get_completions(Document("one", 3), CompleteEvent())

    assert [choice.text for choice in found] == ["one", "2"]


def test_command_that_takes_a_directory_completes_directory_names() -> None:
    """Those of the workspace, in which the command looks, also where a setting names another."""
    Path("other").mkdir()
    Path("other/library").mkdir()
    Path("libraries").mkdir()
    app = Application()
    app.workspace = Path("other").absolute()
    choices = argument_choices(app)

    assert [each.text for each in choices("/add-dir lib")] == ["library/"]
    assert "libraries/" in [each.text for each in choices("/add-dir ../")]
    assert [*choices("/diff lib")] == []


def test_list_that_is_ready_after_the_end_of_the_session_is_ignored() -> None:
    """A thread that listed a large repository used to print a traceback over the shell's prompt."""
    shown: list[str] = []

    async def session() -> Callable[[], None]:
        renew = renewal(lambda: shown.append("again"))
        await asyncio.to_thread(renew)
        return renew

    renew = asyncio.run(session())
    renew()

    assert shown == ["again"]
