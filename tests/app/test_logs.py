"""Log sinks: where records go, rotation of files, and redaction."""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from agent_cli.app import logs
from agent_cli.app.logs import LogSinks, configure, log_event
from agent_cli.contracts import events
from agent_cli.core.listeners import HeldEvents
from agent_cli.settings.schema import LoggingSettings, LogSink, Settings
from agent_cli.system import paths
from agent_cli.system.logger import logger
from agent_cli.system.redaction import Redactor

Configure = Callable[..., LogSinks]


@pytest.fixture
def start() -> Iterator[Configure]:
    """Call `configure` and close the sinks afterwards: logging belongs to the whole process."""
    opened: list[LogSinks] = []

    def started(
        *sinks: LogSink, redactor: Redactor | None = None, verbose: bool = False, size: int = 10_000
    ) -> LogSinks:
        settings = LoggingSettings(sinks=sinks) if sinks else Settings().logging
        opened.append(
            configure(settings, redactor or Redactor(), verbose=verbose, file_bytes_max=size)
        )
        return opened[-1]

    yield started
    for sinks in reversed(opened):
        sinks.close()


def records(path: Path | None = None) -> list[dict[str, object]]:
    text = (path or paths.log_file()).read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_default_logging_writes_info_to_the_file_and_warnings_to_stderr(
    start: Configure, capfd: pytest.CaptureFixture[str]
) -> None:
    """S1-43, S1c-8: agent.log is created, readable only by the user; nothing goes to stdout."""
    start()
    log = logger("agent_cli.x")

    log.debug("hidden")
    log.info("tool finished", tool="bash", elapsed_s=1.5)
    log.warning("slow", tool="grep")

    first, second = records()
    at = first.pop("at_utc")
    assert first == {
        "tool": "bash",
        "elapsed_s": 1.5,
        "event": "tool finished",
        "level": "info",
        "logger": "agent_cli.x",
    }
    assert str(at).endswith("Z")
    assert second["event"] == "slow"
    assert capfd.readouterr() == ("", 'warning: slow tool="grep"\n')
    assert paths.log_file().stat().st_mode & 0o777 == 0o600
    assert paths.log_file().parent.stat().st_mode & 0o777 == 0o700


def test_text_that_utf8_cannot_encode_is_logged(
    start: Configure, capfd: pytest.CaptureFixture[str]
) -> None:
    """The logging module would print a traceback of sixty lines to the terminal."""
    start()

    logger("agent_cli.x").info("notice", text="half \ud83d")

    [record] = records()
    assert record["text"] == "half \ud83d"
    assert capfd.readouterr().err == ""


def test_events_shown_to_the_user_are_logged(
    start: Configure, capfd: pytest.CaptureFixture[str]
) -> None:
    """C17: a warning is an event, and the log subscribes to it like the terminal."""
    start()

    for event in (
        events.SessionOpened("s1", "s1.jsonl", resumed=True),
        events.TurnStart(),
        events.Retry(2, 5, 20.0, "rate limited", restarted=False),
        events.Notice("warning", "left out the oldest 3 messages"),
        events.Compacted(4, 9_000, 1_000),
        events.ErrorShown("broken"),
        events.AgentEnd((), "error", "the API is overloaded"),
    ):
        log_event(event)

    common = ("at_utc", "level", "logger")
    assert [{k: v for k, v in each.items() if k not in common} for each in records()] == [
        {"event": "session opened", "session_id": "s1", "resumed": True},
        {"event": "retry", "attempt": 2, "wait_s": 20.0, "reason": "rate limited"},
        {"event": "notice", "notice_level": "warning", "text": "left out the oldest 3 messages"},
        {
            "event": "compacted",
            "removed_messages": 4,
            "tokens_before": 9_000,
            "tokens_after": 1_000,
        },
        {"event": "error shown", "text": "broken"},
        {"event": "run ended", "stop_reason": "error", "error": "the API is overloaded"},
    ]
    assert capfd.readouterr() == ("", "")


def test_events_are_logged_in_order_after_the_first_request_is_sent(start: Configure) -> None:
    """C17: the import of structlog for the first record must not delay the request."""
    start()
    log = HeldEvents(log_event)

    log(events.Notice("info", "early"))
    before = paths.log_file().read_text()
    log.release()
    log(events.Notice("info", "late"))

    assert before == ""
    assert [each["text"] for each in records()] == ["early", "late"]


def test_each_log_sink_has_its_own_level_and_path(
    start: Configure, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """S1-43: a sink without a level uses the common one."""
    start(
        LogSink("file", "debug", str(tmp_path / "new" / "a.log")),
        LogSink("file", "error", str(tmp_path / "b.log")),
        LogSink("console"),
    )
    log = logger("agent_cli.x")

    log.debug("one")
    log.info("two")
    log.error("three")

    assert [r["event"] for r in records(tmp_path / "new" / "a.log")] == ["one", "two", "three"]
    assert [r["event"] for r in records(tmp_path / "b.log")] == ["three"]
    assert capfd.readouterr() == ("", "info: two\nerror: three\n")


def test_log_file_rotates_and_three_files_are_kept(start: Configure) -> None:
    """S1-43, S1c-8: the size is bounded however long the program runs."""
    start(size=1000)
    log = logger("agent_cli.x")

    for number in range(100):
        log.info("line", number=number)

    files = sorted(paths.log_file().parent.iterdir())
    assert [file.name for file in files] == ["agent.log", "agent.log.1", "agent.log.2"]
    assert all(file.stat().st_size <= 1000 for file in files)
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    assert records()[-1]["number"] == 99
    assert (logs.FILE_BYTES_MAX, logs.FILES) == (10 * 1024 * 1024, 3)


def test_two_programs_share_a_log_file_that_one_of_them_rotated(start: Configure) -> None:
    """S1-43: the other program's records in the new file stay, and ours follow them."""
    start(size=1000)
    log, path = logger("agent_cli.x"), paths.log_file()
    while path.stat().st_size < 800:
        log.info("ours")
    path.rename(path.with_name("agent.log.1"))
    path.write_text('{"event": "theirs"}\n')

    for _ in range(3):
        log.info("ours again")

    assert [record["event"] for record in records()] == ["theirs", *["ours again"] * 3]
    assert not path.with_name("agent.log.2").exists()


def test_deleted_log_file_is_created_again(start: Configure) -> None:
    """S1-43: readable only by the user, like the first one."""
    start()
    log = logger("agent_cli.x")
    log.info("one")
    paths.log_file().unlink()

    log.info("two")

    assert [record["event"] for record in records()] == ["two"]
    assert paths.log_file().stat().st_mode & 0o777 == 0o600


def test_no_secret_reaches_a_log(start: Configure, capfd: pytest.CaptureFixture[str]) -> None:
    """Known and recognisable secrets are redacted in events, values, names and tracebacks."""
    start(LogSink("file"), LogSink("console"), redactor=Redactor(["CANARY value"]))
    log = logger("agent_cli.x")

    log.info("got CANARY value", deep={"list": ["CANARY value"], "api_key": "CANARY 2"})
    log.info("header", value="Bearer CANARY-token", path=Path("sk-ant-api03-CANARY"))
    try:
        raise ValueError("CANARY value")
    except ValueError:
        log.exception("failed", token="CANARY 3")
    logging.getLogger("other").warning("from %s", "CANARY value")

    out, err = capfd.readouterr()
    assert "CANARY" not in paths.log_file().read_text() + out + err
    assert records()[0]["deep"] == {"list": ["***"], "api_key": "***"}
    assert len(records()) == 4


def test_exception_is_logged_with_a_traceback_in_the_file_only(
    start: Configure, capfd: pytest.CaptureFixture[str]
) -> None:
    """The console gets one line, without the traceback."""
    start()

    try:
        raise KeyError("name")
    except KeyError:
        logger("agent_cli.x").exception("a listener failed")

    assert capfd.readouterr().err == "error: a listener failed (KeyError: 'name')\n"
    (record,) = records()
    assert "test_logs.py" in str(record["exception"])


@pytest.mark.parametrize("name", ["anthropic", "httpx2", "mcp", "client"])
def test_records_of_noisy_libraries_go_to_the_file_only(
    name: str, start: Configure, capfd: pytest.CaptureFixture[str]
) -> None:
    """S1-43: their debug records, which hold complete prompts, go nowhere."""
    start(LogSink("file", "debug"), LogSink("console", "debug"))

    logging.getLogger(name).debug("a prompt")
    logging.getLogger(f"{name}.part").error("a traceback")

    assert [(r["event"], r["logger"]) for r in records()] == [("a traceback", f"{name}.part")]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("level", "logged"), [("info", []), ("debug", ["HTTP Request: POST x"])])
def test_lines_of_libraries_about_each_request_are_left_out_beside_ours(
    level: Literal["info", "debug"], logged: list[str], start: Configure
) -> None:
    start(LogSink("file", level))

    logging.getLogger("httpx2").info("HTTP Request: POST x")

    assert [record["event"] for record in records()] == logged


def test_records_of_noisy_libraries_are_dropped_without_a_log_file(
    start: Configure, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a handler, the standard library prints warnings on the terminal."""
    start(LogSink("console"))

    logging.getLogger("mcp.client").error("a traceback")

    assert capfd.readouterr() == ("", "")


def test_verbose_option_lowers_the_console_log_level(
    start: Configure, capfd: pytest.CaptureFixture[str]
) -> None:
    start(LogSink("console", "error"), verbose=True)

    logger("agent_cli.x").info("seen")

    assert capfd.readouterr().err == "info: seen\n"


def test_verbose_console_does_not_repeat_what_the_terminal_shows(
    start: Configure, capfd: pytest.CaptureFixture[str]
) -> None:
    """The file has it all."""
    start(LogSink("console"), LogSink("file"), verbose=True)

    log_event(events.Notice("warning", "cut"))
    log_event(events.SessionOpened("s1", "s1.jsonl", resumed=False))

    assert capfd.readouterr().err == 'info: session opened session_id="s1" resumed=False\n'
    assert [each["event"] for each in records()] == ["notice", "session opened"]


def test_console_shows_the_sentence_of_a_record_alone(
    start: Configure, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its fields are for the file."""
    start(LogSink("console"), LogSink("file"))

    logger("agent_cli.x").warning("not kept", about="a.txt", sentence="not kept: a.txt")

    assert capfd.readouterr().err == "warning: not kept: a.txt\n"
    assert [each["about"] for each in records()] == ["a.txt"]


def test_log_file_that_cannot_be_opened_gives_a_notice(
    start: Configure, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A read-only home must not prevent work."""
    (tmp_path / "taken").write_text("")
    sinks = start(LogSink("file", path=str(tmp_path / "taken" / "a.log")), LogSink("console"))

    logger("agent_cli.x").info("seen")

    assert sinks.notices == [f"no log is written to {tmp_path}/taken/a.log: Not a directory"]
    assert capfd.readouterr().err == "info: seen\n"


def test_log_file_of_an_unknown_user_gives_a_notice(start: Configure) -> None:
    """A mistyped `~name` must not prevent work."""
    sinks = start(LogSink("file", path="~no-such-user/a.log"))

    assert sinks.notices == ["no log is written to ~no-such-user/a.log: there is no such user"]


def test_console_shows_control_characters_of_an_exception_instead_of_obeying_them(
    start: Configure, capfd: pytest.CaptureFixture[str]
) -> None:
    """An exception may quote a file name or an answer of a server."""
    start(LogSink("console"))

    try:
        raise ValueError("bad \x1b]0;title\x07")
    except ValueError:
        logger("agent_cli.x").exception("failed")

    assert "\x1b" not in (said := capfd.readouterr().err)
    assert "(ValueError: bad " in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_name_that_is_not_utf8_is_logged_with_escapes(
    start: Configure, capfd: pytest.CaptureFixture[str]
) -> None:
    """The library printed a traceback and the record, secrets included, over the screen."""
    start()

    logger("agent_cli.x").info("not attached", path="caf\udce9.txt")

    assert "caf\\udce9.txt" in paths.log_file().read_text()
    assert records()[0]["path"] == "caf\udce9.txt"
    assert capfd.readouterr().err == ""


def test_record_that_cannot_be_formatted_is_left_out(
    start: Configure, capfd: pytest.CaptureFixture[str]
) -> None:
    """The call that logs goes on, and no secret of the record is printed."""
    start()
    record = logging.LogRecord("x", logging.WARNING, "x.py", 1, "%d CANARY", ("no number",), None)

    for handler in logging.getLogger().handlers:
        if type(handler).__module__ == logs.__name__:
            handler.handle(record)

    assert capfd.readouterr().err == 2 * "warning: a log record was left out: TypeError\n"


def test_full_disk_is_reported_once_by_the_log(
    start: Configure, capfd: pytest.CaptureFixture[str]
) -> None:
    """The run continues; a traceback for every record would bury the answer."""
    start(LogSink("file", path="/dev/full"), size=0)
    log = logger("agent_cli.x")

    log.info("one")
    log.info("two")

    assert capfd.readouterr().err == "warning: logging stopped: No space left on device\n"


def test_closing_the_log_sinks_restores_the_logging_setup(start: Configure) -> None:
    """A second run in the same process starts from a clean state."""
    root = logging.getLogger()
    before = (root.level, list(root.handlers), logging.getLogger("mcp").propagate)

    start().close()

    assert (root.level, list(root.handlers), logging.getLogger("mcp").propagate) == before


def test_nothing_is_printed_before_log_sinks_open_and_after_they_close(
    start: Configure, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1-43: by default structlog prints on stdout, and the standard library on stderr."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # otherwise pytest's would take it
    log = logger("agent_cli.x")

    log.error("too early")
    start().close()
    log.error("too late")

    assert capfd.readouterr() == ("", "")
