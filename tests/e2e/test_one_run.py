"""`-p` for fleets: limits, files written, structured answers."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_cli.contracts.timeline import Json
from agent_cli.headless.structured import InvalidAnswer, OutputSchema
from tests.e2e.program import Finished, agent_cli, finished, started
from tests.messages_api import Gate, error, reply, serve_in_thread, tool_use
from tests.tables import each_row

YOLO = ("--permission-mode", "yolo")
JSON = ("--output-format", "json")
SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


def bash(command: str) -> dict[str, Any]:
    return tool_use("bash", {"command": command})


def written(name: str, content: str) -> dict[str, Any]:
    return tool_use("write", {"path": name, "content": content})


@pytest.fixture
def schema(tmp_path: Path) -> str:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA), encoding="utf-8")
    return str(path)


def kept(directory: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((directory / "result.json").read_text())
    return result


def test_a_prompt_can_come_from_a_file(tmp_path: Path) -> None:
    """A file with the text "-" is that prompt, and not stdin."""
    file = tmp_path / "task.md"
    file.write_text("-", encoding="utf-8")

    with serve_in_thread(reply("Done.")) as api:
        run = agent_cli("--prompt-file", str(file), api=api)

    assert (run.code, run.stdout) == (0, "Done.\n")
    assert api.requests[0].body["messages"][0]["content"][-1]["text"] == "-"


@pytest.mark.parametrize(
    ("option", "content", "sentence"),
    [
        ("--prompt-file", None, "cannot be read: No such file"),
        ("--prompt-file", " ", "is empty: write the prompt into it"),
        ("--json-schema", '{\n"type": }', ":2 is not valid JSON: Expecting value, at column 9"),
        ("--json-schema", "[]", "must hold an object"),
        (
            "--json-schema",
            '{"type": "objct"}',
            "is no schema that can be checked: type: 'objct' is",
        ),
    ],
)
def test_unusable_prompt_or_schema_file_is_refused_with_a_result(
    tmp_path: Path, option: str, content: str | None, sentence: str
) -> None:
    """No request is sent; the output directory holds the result for its readers."""
    file, out = tmp_path / "given", tmp_path / "out"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    prompt = () if option == "--prompt-file" else ("-p", "go")

    with serve_in_thread() as api:
        run = agent_cli(*prompt, option, str(file), "--output-dir", str(out), api=api)

    assert (run.code, kept(out)["exit_code"], api.requests) == (2, 2, [])
    assert f"{option}: {file}" in run.stderr
    assert sentence in run.stderr


@pytest.mark.parametrize(
    ("option", "file", "sentence"),
    [
        ("--replay", "no/file", "replay: no/file cannot be read: No such file or directory"),
        ("--record", "no/file", "record: there is no directory no"),
        ("--record", ".", "record: . is a directory; name a file"),
    ],
)
def test_unusable_file_of_a_recording_is_a_usage_error(
    option: str, file: str, sentence: str
) -> None:
    """As for the files of other options; it was the failure of a run, with exit code 1."""
    with serve_in_thread() as api:
        run = agent_cli("-p", "go", option, file, api=api)

    assert (run.code, api.requests) == (2, [])
    assert sentence in run.stderr


def test_the_time_limit_stops_a_run_in_mid_stream(tmp_path: Path) -> None:
    """The stream is closed, the result names the limit, and the session can be continued."""
    out = tmp_path / "out"
    with serve_in_thread(reply("A long answer", gate=Gate(), hold_at=5)) as api:
        run = agent_cli(
            *("-p", "go", *JSON, "--time-limit", "2", "--output-dir", str(out)), api=api
        )

    assert (run.code, run.result["stop_reason"], run.result["exit_code"]) == (4, "time_limit", 4)
    assert "stopped after 2 s, the limit --time-limit" in run.stderr
    assert "interrupted" not in run.stderr
    assert kept(out) == run.result
    with serve_in_thread(reply("Went on.")) as api:
        assert agent_cli("-c", "-p", "go on", api=api).stdout == "Went on.\n"


def test_run_over_its_token_limit_starts_no_further_call(tmp_path: Path) -> None:
    """The requested call does not run, and no further request is sent."""
    target = tmp_path / "made"
    with serve_in_thread(reply(bash(f"touch {target}"))) as api:
        run = agent_cli("-p", "go", *YOLO, *JSON, "--max-tokens-total", "1", api=api)

    assert (run.code, run.result["stop_reason"]) == (4, "max_tokens_total")
    assert "the limit --max-tokens-total is 1" in run.stderr
    assert (target.exists(), len(api.requests)) == (False, 1)


def test_final_answer_that_reaches_the_token_limit_is_kept() -> None:
    with serve_in_thread(reply("Done.")) as api:
        run = agent_cli("-p", "go", "--max-tokens-total", "1", api=api)

    assert (run.code, run.stdout, run.stderr) == (0, "Done.\n", "")


def test_the_output_directory_has_the_result_the_session_and_a_patch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The patch makes the same files elsewhere; files of an earlier run are removed."""
    work, out, other = tmp_path / "work", tmp_path / "out", tmp_path / "other"
    for folder in (work, out, other):
        folder.mkdir()
    monkeypatch.chdir(work)
    (out / "result.json").write_text("stale")
    with serve_in_thread(
        reply(written("a b.txt", "one\ntwo\n")),
        reply(written("c.txt", f"{'3' * 9_000}\n")),
        reply(written("__init__.py", "")),
        reply("Done."),
    ) as api:
        run = agent_cli("-p", "go", *YOLO, *JSON, "--output-dir", str(out), api=api)

    assert (run.code, kept(out)) == (0, run.result)
    session = str(run.result["session_id"])
    assert json.loads((out / "session.jsonl").read_text().splitlines()[0])["id"] == session
    patch = out / "changes.diff"
    subprocess.run(["git", "apply", str(patch)], cwd=other, check=True, timeout=30)
    assert {file.name: file.read_text() for file in other.iterdir()} == {
        "a b.txt": "one\ntwo\n",
        "c.txt": f"{'3' * 9_000}\n",
        "__init__.py": "",
    }
    assert sorted(file.name for file in out.iterdir()) == [
        *("changes.diff", "result.json", "session.jsonl"),
    ]


def test_output_directory_is_the_users_alone_and_holds_no_secret(tmp_path: Path) -> None:
    """Threat 9: reports are kept and passed on."""
    out, secret = tmp_path / "out", "canary-0123456789"
    with serve_in_thread(
        reply(written("kept.txt", f"it is {secret}\n")), reply(f"It is {secret}.")
    ) as api:
        run = agent_cli("-p", "go", *YOLO, "--output-dir", str(out), api=api, MY_TOKEN=secret)

    files = {file.name: file for file in out.iterdir()}
    assert run.code == 0
    assert kept(out)["text"] == "It is ***."
    assert all(file.stat().st_mode & 0o077 == 0 for file in (out, *files.values()))
    assert not any(secret in file.read_text() for file in files.values())


def test_output_directory_behind_a_strangers_link_is_refused(tmp_path: Path) -> None:
    """Threat 24: earlier results there would be deleted."""
    victim = tmp_path.with_name(f"{tmp_path.name}-victim")
    victim.mkdir()
    (victim / "result.json").write_text("mine")
    Path("out").symlink_to(victim)
    with serve_in_thread() as api:
        run = agent_cli("-p", "go", "--output-dir", "out", api=api)

    assert (run.code, (victim / "result.json").read_text()) == (2, "mine")
    assert "link" in run.stderr


def test_sigterm_leaves_the_output_directory_complete(tmp_path: Path) -> None:
    """The directory holds the results up to the signal."""
    out, gate = tmp_path / "out", Gate()
    with (
        serve_in_thread(
            reply(written("x.txt", "x\n")), reply("A long answer", gate=gate, hold_at=5)
        ) as api,
        started("-p", "go", *YOLO, *JSON, "--output-dir", str(out), api=api) as process,
    ):
        assert gate.reached.wait(60)
        process.send_signal(signal.SIGTERM)
        run = finished(process)

    assert (run.code, kept(out)["stop_reason"], kept(out)["exit_code"]) == (143, "aborted", 143)
    assert "+++ b/x.txt" in (out / "changes.diff").read_text()
    assert (out / "session.jsonl").exists()


def answered(schema: str, *answers: str) -> tuple[Finished, int]:
    with serve_in_thread(*map(reply, answers)) as api:
        run = agent_cli("-p", "count", *JSON, "--json-schema", schema, api=api)
        return run, len(api.requests)


@pytest.mark.parametrize("answer", ['{"n": 3}', '```json\n{"n": 3}\n```\n'])
def test_answer_that_fits_the_json_schema_is_the_output(schema: str, answer: str) -> None:
    run, requests = answered(schema, answer)

    assert (run.code, run.result["output"], run.result["text"]) == (0, {"n": 3}, '{"n": 3}')
    assert requests == 1


def test_schema_may_be_given_as_text() -> None:
    """As to Claude Code; its `//` is no part of a path."""
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **SCHEMA}
    run, _ = answered(json.dumps(whole), '{"n": 3}')
    wrong, requests = answered('{"type": ', '{"n": 3}')

    assert (run.code, run.result["output"]) == (0, {"n": 3})
    assert (wrong.code, requests) == (2, 0)
    assert "--json-schema: the text is not JSON: " in wrong.stderr


def test_api_is_told_the_form_of_the_answer(schema: str) -> None:
    """Not a model of another server, and not for an answer after a refusal of the form."""
    refusal = error(400, "invalid_request_error", "output_config.format: Schema is too complex")
    fits = reply('{"n": 3}')
    with serve_in_thread(fits, refusal, fits, fits) as api:
        runs = [
            agent_cli("-p", "count", "--json-schema", schema, api=api, **more)
            for more in ({}, {}, {"AGENT_CLI_PROVIDER__COMPAT": "true"})
        ]

    assert [run.code for run in runs] == [0, 0, 0]
    assert api.refusals == []
    forms = [(each.body.get("output_config") or {}).get("format") for each in api.requests]
    assert [form is not None for form in forms] == [True, True, False, False]
    assert "'additionalProperties': False" in str(forms[0])


def test_answer_that_violates_the_json_schema_is_requested_once_more(schema: str) -> None:
    """Both are in one prompt, so that its cost limit holds for both."""
    run, requests = answered(schema, '{"n": "three"}', '{"n": 3}')

    assert (run.code, run.result["output"], requests) == (0, {"n": 3}, 2)


def test_second_answer_that_violates_the_json_schema_is_an_error(schema: str) -> None:
    run, requests = answered(schema, "Three.", '{"m": 3}')

    assert (run.code, run.result["stop_reason"], requests) == (1, "invalid_output", 2)
    assert run.result["text"] == '{"m": 3}'
    assert "output" not in run.result
    assert "the answer does not fit --json-schema" in run.stderr


@each_row("answer", ["NaN", "", "1 2", "[" * 100_000, '{"n": 1.5}'])
def test_output_schema_refuses_an_invalid_answer(answer: str) -> None:
    with pytest.raises(InvalidAnswer):
        OutputSchema(SCHEMA).parse(answer)


def test_output_schema_refuses_a_number_that_json_cannot_hold() -> None:
    """Python reads 1e999 as infinity, and would write it as `Infinity`."""
    with pytest.raises(InvalidAnswer, match="not JSON"):
        OutputSchema({}).parse('{"n": 1e999}')
