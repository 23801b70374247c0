"""Settings, secrets, trust, logs and the commands around them, as users meet them."""

import os
from pathlib import Path

from tests.e2e.program import KEY, agent_cli, new_agent_cli, results_in, text_of
from tests.messages_api import error, reply, serve_in_thread, tool_use


def user_config(name: str, text: str) -> Path:
    path = Path(os.environ["XDG_CONFIG_HOME"], "agent-cli", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_api_key_from_the_users_env_file_is_used() -> None:
    """S1-24: a key in the process's environment wins over that one."""
    user_config(".env", "ANTHROPIC_API_KEY=sk-ant-from-the-file\n")
    with serve_in_thread(reply("1"), reply("2")) as api:
        without = agent_cli("-p", "a", api=api, ANTHROPIC_API_KEY=None)
        with_key = agent_cli("-p", "b", api=api)

    keys = [str(dict(request.headers)) for request in api.requests]
    assert (without.stdout, with_key.stdout) == ("1\n", "2\n")
    assert "sk-ant-from-the-file" in keys[0]
    assert KEY in keys[1]
    assert "sk-ant-from-the-file" not in keys[1]


def test_invalid_setting_is_refused_with_its_file_key_and_value() -> None:
    """The program ends with exit code 2 and one sentence, before any request."""
    path = user_config("appsettings.toml", 'max_tokens = "many"\n')
    run = agent_cli("-p", "a")

    [line] = run.stderr.splitlines()
    assert (run.code, run.stdout) == (2, "")
    assert all(word in line for word in (str(path), "max_tokens", "many"))


def test_config_show_names_the_origin_of_each_value() -> None:
    """C11: the layers apply in their order; secrets are masked."""
    path = user_config("appsettings.toml", "max_tokens = 123\nmax_rounds = 9\n")
    run = agent_cli("config", "show", "--origin", "--max-rounds", "5", AGENT_CLI_EFFORT="low")

    lines = run.stdout.splitlines()
    assert run.code == 0
    assert any("max_tokens = 123" in line and str(path) in line for line in lines)
    assert any("max_rounds = 5" in line and "--max-rounds" in line for line in lines)
    assert any('effort = "low"' in line and "AGENT_CLI_EFFORT" in line for line in lines)
    assert KEY not in run.stdout


def test_project_settings_act_only_while_trusted_and_unchanged() -> None:
    """The project's file is ignored with a notice, then acts, then is ignored again."""
    settings = Path("appsettings.toml")
    settings.write_text("max_tokens = 77\n")
    with serve_in_thread(*[reply("ok")] * 3) as api:
        before = agent_cli("-p", "a", api=api)
        trusted = agent_cli("trust")
        during = agent_cli("-p", "a", api=api)
        settings.write_text("max_tokens = 78\n")
        after = agent_cli("-p", "a", api=api)
        revoked = agent_cli("trust", "--revoke")

    sizes = [request.body["max_tokens"] for request in api.requests]
    assert sizes == [32_000, 77, 32_000]
    assert "appsettings.toml ignored" in before.stderr
    assert "appsettings.toml ignored" in after.stderr
    assert during.stderr == ""
    assert (trusted.code, revoked.code) == (0, 0)


def test_the_default_log_is_a_file_in_the_state_directory() -> None:
    """S1c-8: nothing of level info is on the terminal."""
    with serve_in_thread(reply("Hi.")) as api:
        run = agent_cli("-p", "a", api=api)

    assert run.stderr == ""
    assert Path(os.environ["XDG_STATE_HOME"], "agent-cli/logs/agent.log").read_text()


def test_no_secret_is_written_anywhere_or_shown() -> None:
    """Threat 9: a tool looks for the key, and every log is at debug level."""
    user_config(
        "appsettings.toml",
        "[logging]\nlevel = 'debug'\nsinks = [{ type = 'file', level = 'debug' },"
        " { type = 'console', level = 'debug' }]\n",
    )
    with serve_in_thread(
        reply(tool_use("bash", {"command": "env; cat /proc/$PPID/environ | tr '\\0' '\\n'"})),
        reply("Nothing found."),
    ) as api:
        run = new_agent_cli(
            *("--permission-mode", "yolo", "--verbose"),
            api=api,
            stdin="look\n",
        )

    roots = [Path(os.environ["HOME"]), Path.cwd()]
    files = [path for root in roots for path in root.rglob("*") if path.is_file()]
    holding = [path for path in files if KEY.encode() in path.read_bytes()]
    assert holding == []
    assert KEY not in run.stderr
    assert KEY not in run.stdout
    assert KEY not in text_of(results_in(api.requests[1].body)[0])
    assert "Nothing found." in run.stdout


def test_api_key_repeated_in_a_server_error_is_not_shown() -> None:
    """The text of the error is printed on stderr."""
    with serve_in_thread(error(401, "authentication_error", f"invalid x-api-key: {KEY}")) as api:
        run = agent_cli("-p", "go", api=api)

    assert KEY not in run.stderr


def test_recording_contains_no_api_key() -> None:
    """This holds even if a gateway repeats the key in its error."""
    with serve_in_thread(error(401, "authentication_error", f"invalid x-api-key: {KEY}")) as api:
        agent_cli("-p", "go", "--record", "run.jsonl", api=api)

    assert KEY not in Path("run.jsonl").read_text()


def test_doctor_says_what_is_ready_and_what_is_not() -> None:
    """S1-27, S1c-10: stdout is the report alone; a server that refuses the key is a failure."""
    with serve_in_thread(reply("ok")) as api:
        good = agent_cli("doctor", api=api)
    with serve_in_thread(error(401, "authentication_error", "invalid x-api-key")) as api:
        bad = agent_cli("doctor", api=api)

    lines = good.stdout.splitlines()
    assert (good.code, good.stderr) == (0, "")
    assert lines[0].startswith("agent-cli ")
    assert all(line[:4] in ("ok  ", "--  ") for line in lines[1:])
    assert not any("gmail" in line for line in lines)  # absent servers are not mentioned
    assert bad.code == 1
    assert any(line.startswith("FAIL  endpoint") for line in bad.stdout.splitlines())


def test_demo_runs_offline_without_a_key() -> None:
    """It needs no network either; the banner says that the replies are scripted."""
    run = agent_cli("demo", ANTHROPIC_API_KEY="", ANTHROPIC_BASE_URL="http://127.0.0.1:9")

    assert run.code == 0
    assert "scripted" in run.stdout.splitlines()[1]
    assert "you> The tests fail." in run.stdout
    assert "Traceback" not in run.stderr
