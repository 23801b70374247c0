"""Network by host, as users run the program: no question without a person, one with."""

import shutil

import pytest

from tests.e2e.program import AGENT_CLI, agent_cli, environment, results_in, text_of
from tests.messages_api import reply, serve_in_thread, text, tool_use
from tests.repl.terminal import Terminal

# Nothing leaves the machine: this name is in no zone of the internet.
HOST = "agent-cli-test.invalid"
OPTIONS = ("--permission-mode", "auto-edit")


def test_command_reaches_no_host_unasked_and_a_person_decides_once_about_it() -> None:
    """S2-08: `-p` names the host and ends with 3; in the terminal the connection waits."""
    if shutil.which("curl") is None:
        pytest.skip("no curl")
    asking = reply(tool_use("bash", {"command": f"curl -s http://{HOST}/ http://{HOST}/"}))
    ended = [reply(text(each)) for each in ("Done.", "Well.")]
    more = {"AGENT_CLI_SANDBOX__NETWORK": "hosts"}
    with serve_in_thread(asking, ended[0], asking, ended[1], asking, ended[1]) as api:
        run = agent_cli("-p", "go", "--output-format", "json", *OPTIONS, api=api, **more)
        if "sandbox: no" in run.stderr:
            pytest.skip("no sandbox works here")
        alone = text_of(results_in(api.requests[1].body)[0])
        if "no network: by host" in alone or "no rule" not in alone:
            pytest.skip("no bubblewrap works here")
        with Terminal(AGENT_CLI, *OPTIONS, **environment(api, {**more})) as terminal:
            terminal.until_prompt()
            terminal.send("go\r")
            terminal.until("all commands until the session ends")
            terminal.until("❯ 1")  # from now on Enter answers
            terminal.send("\x1b[B\r")
            terminal.until("Well.")
            terminal.send("/permissions\r")
            terminal.until(f"network({HOST})")
            terminal.until("has no address")
    asked = text_of(results_in(api.requests[3].body)[0])

    assert (run.code, run.result["refused_hosts"]) == (3, [HOST])
    refusal = (
        f"no rule allows {HOST}, and nobody can be asked; the user can allow it with the permission"
        f" rule network({HOST})"
    )
    assert alone.startswith(f"agent-cli: {refusal}\nagent-cli: {refusal}\n")
    assert alone.count(f"network: {refusal}") == 1
    assert f"{HOST} has no address" in asked
