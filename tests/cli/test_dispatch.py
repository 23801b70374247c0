"""From the command line to a session, a script or one run, as a user types it."""

from pathlib import Path

from tests.e2e.program import AGENT_CLI, agent_cli, environment
from tests.messages_api import reply, serve_in_thread
from tests.repl.terminal import Terminal


def test_piped_input_is_sent_as_one_prompt() -> None:
    """`cat log | agent-cli` used to send, and pay for, each line as a prompt of its own."""
    log = "error: one\n/exit\nerror: two\n"
    with serve_in_thread(reply("A log."), reply("Two errors.")) as api:
        alone = agent_cli(api=api, stdin=log)
        asked = agent_cli("how many errors?", api=api, stdin=log)

        sent = [request.body["messages"][-1]["content"][-1]["text"] for request in api.requests]

    assert (alone.code, alone.stdout) == (0, "A log.\n")
    assert (asked.code, asked.stdout) == (0, "Two errors.\n")
    assert sent == [log.strip(), f"how many errors?\n\n{log.strip()}"]


def test_empty_piped_input_is_a_usage_error() -> None:
    """The exit code is 2, as for `-p -`, and there is no request."""
    ended = agent_cli(stdin="\n")

    assert ended.code == 2
    assert ended.stderr.startswith("there is no prompt")


def test_prompts_from_runs_each_line_as_a_prompt_or_command() -> None:
    """They come from a file or from stdin."""
    Path("prompts.txt").write_text("one\n/usage\ntwo\\\nlines\n")
    with serve_in_thread(*[reply("ok")] * 3) as api:
        from_file = agent_cli("--prompts-from", "prompts.txt", api=api)
        from_stdin = agent_cli("--prompts-from", "-", api=api, stdin="three\n")
        missing = agent_cli("--prompts-from", "none.txt", api=api)

        sent = [request.body["messages"][-1]["content"][-1]["text"] for request in api.requests]

    assert sent == ["one", "two\nlines", "three"]
    assert "input " in from_file.stderr
    assert (from_file.code, from_stdin.code, missing.code) == (0, 0, 2)
    assert "--prompts-from: none.txt cannot be read: No such file or directory" in missing.stderr


def test_script_that_is_not_utf_8_is_refused() -> None:
    """As UTF-16, each line would be sent as other letters, and paid for."""
    Path("prompts.txt").write_text("one\n", encoding="utf-16")

    ended = agent_cli("--prompts-from", "prompts.txt")

    assert ended.code == 2
    assert "--prompts-from: prompts.txt is not UTF-8 text; save it as UTF-8" in ended.stderr


def test_byte_order_mark_of_a_file_is_no_part_of_it() -> None:
    """Editors write one: with it a first /command would be a prompt, and paid for."""
    for name, text in (("script", "/usage\n"), ("task.md", "go"), ("schema.json", "{}")):
        Path(name).write_text(text, encoding="utf-8-sig")
    with serve_in_thread(reply("1")) as api:
        script = agent_cli("--prompts-from", "script", api=api)
        task = agent_cli("--prompt-file", "task.md", "--json-schema", "schema.json", api=api)

        sent = [request.body["messages"][-1]["content"][-1]["text"] for request in api.requests]

    assert (script.code, task.code) == (0, 0)
    assert len(sent) == 1
    assert sent[0].startswith("go")


def test_a_prompt_on_the_command_line_opens_a_session() -> None:
    """The session stays open afterwards, and -c continues it."""
    with serve_in_thread(reply("Hello to you."), reply("Again.")) as api:
        with Terminal(AGENT_CLI, "say hello", **environment(api, {})) as terminal:
            terminal.until("Hello to you.")
            terminal.until_prompt()
            assert "you> say hello" in terminal.text
            terminal.send("/exit\r")
            assert terminal.exit_code() == 0
        with Terminal(AGENT_CLI, "-c", "and again", **environment(api, {})) as terminal:
            terminal.until("Again.")
            terminal.until_prompt()

        assert len(api.requests[-1].body["messages"]) == 3


def test_first_start_without_a_key_offers_the_demo() -> None:
    """It says where to get a key; declining ends with the exit code of a missing setting."""
    nothing = {**environment(None, {}), "ANTHROPIC_API_KEY": ""}
    with Terminal(AGENT_CLI, **nothing) as terminal:
        terminal.until("Play the demo now? [Y/n]")
        assert "platform.claude.com/settings/keys" in terminal.text.replace("\n", "")
        terminal.send("n\r")
        assert terminal.exit_code() == 2
        assert terminal.text.count("is not set") == 1
        assert "then export it" in terminal.text.replace("\n", " ")  # no word is split
    with Terminal(AGENT_CLI, **nothing) as terminal:
        terminal.until("Play the demo now? [Y/n]")
        terminal.send("\r")
        terminal.until("The tests fail. Find out why, fix it")
