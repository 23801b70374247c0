"""The activity line in every phase of a run and during a command; the bell and its alerts."""

from collections.abc import Sequence

from agent_cli.contracts import events
from agent_cli.contracts.agents import AgentInfo
from agent_cli.contracts.events import AgentEnd, AgentStart
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.provider import (
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStart,
)
from agent_cli.contracts.side_events import ModelCallDelayed
from agent_cli.contracts.timeline import Usage
from agent_cli.contracts.tooling import ToolResult
from agent_cli.core.run import Phase
from agent_cli.repl.live.activity import LONG_S, ActivityLine, Bell, alert
from tests.tables import each_row

THINKING = events.StateChanged("idle", "thinking")


class Run:
    """An activity, and a clock."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.asks = False
        self.activity = ActivityLine(lambda: self.now_s, lambda: self.asks)

    def __call__(self, *happened: events.Event | StreamEvent, after_s: float = 0) -> str:
        self.now_s += after_s
        for event in happened:
            if isinstance(event, StreamEvent):
                self.activity(events.MessageUpdate(lambda: AssistantMessage(()), event))
            else:
                self.activity(event)
        return self.activity.text(100).removesuffix(" · Ctrl-C stops")


def test_run_that_waits_for_the_cost_limit_says_so_until_its_call_is_made() -> None:
    """Agents in the background hold what is left of it; the line said "waiting for the model"."""
    run = Run()
    run(events.AgentStart(), events.TurnStart(), THINKING)

    said = [
        run(events.UsageHeld("p", 0)),
        run(ModelCallDelayed(1)),
        run(events.UsageHeld("p", 9)),
    ]

    assert said == [
        "waiting for the model · 0 s",
        "waiting for the cost limit (other calls hold it) · 0 s",
        "waiting for the model · 0 s",
    ]


def test_activity_line_names_each_phase_of_a_run_with_seconds_and_tokens() -> None:
    """Seconds count from the start of the run; folded thinking and arguments count as tokens."""
    run = Run()
    usage = Usage(1_000, 30)

    said = [
        run(),
        run(events.AgentStart(), events.TurnStart()),
        run(THINKING, after_s=1),
        run(ThinkingDelta(0, "x" * 40), after_s=2),
        run(TextDelta(1, "x" * 40), after_s=1),
        run(ToolCallStart(2, "t1", "edit"), after_s=1),
        run(ToolCallDelta(2, "x" * 4_000), after_s=60),
        run(events.MessageEnd(AssistantMessage(())), events.UsageChanged(usage, usage)),
        run(events.ToolCallsAnnounced(())),
        run(events.StateChanged(Phase.PLANNING_TOOLS, Phase.EXECUTING_TOOLS)),
        run(events.ToolExecutionStart("t1", "edit", {})),
        run(events.ToolExecutionStart("t2", "bash", {})),
        run(events.ToolExecutionEnd("t1", "edit", ToolResult.of("x"), is_error=False)),
        run(events.ToolExecutionEnd("t2", "bash", ToolResult.of("x"), is_error=False)),
        run(events.TurnStart()),
        run(events.TurnEnd(None, ())),
        run(events.AgentEnd((), "end_turn")),
    ]

    assert said == [
        "",
        "preparing the request · 0 s",
        "waiting for the model · 1 s",
        "thinking · 3 s · 10 tokens",
        "writing · 4 s · 20 tokens",
        "writing a call of edit · 5 s · 20 tokens",
        "writing a call of edit · 1 min 5 s · 1.0k tokens",
        "reading the reply · 1 min 5 s · 30 tokens",
        "checking the calls · 1 min 5 s · 30 tokens",
        "waiting for other calls · 1 min 5 s · 30 tokens",
        "running edit · 1 min 5 s · 30 tokens",
        "running 2 tools · 1 min 5 s · 30 tokens",
        "running a command · 1 min 5 s · 30 tokens",
        "waiting for other calls · 1 min 5 s · 30 tokens",
        "preparing the request · 1 min 5 s · 30 tokens",
        "finishing the turn · 1 min 5 s · 30 tokens",
        "",
    ]


def test_activity_line_counts_the_lines_of_a_call_that_is_being_written() -> None:
    r"""An input of 500 lines takes a minute; `\\\\n` in its JSON is a backslash and an n."""
    run = Run()
    run(events.AgentStart(), THINKING, ToolCallStart(0, "t1", "write"))

    said = [
        run(ToolCallDelta(0, '{"path": "a", "content": "def')),
        run(ToolCallDelta(0, "\\n\\tx\\")),
        run(ToolCallDelta(0, "n y \\\\n \\\\")),
        run(ToolCallDelta(0, "\\n")),
        run(ToolCallDelta(0, "\\n" * 1_234)),
        run(ToolCallStart(1, "t2", "bash")),
        run(ToolCallDelta(1, '{"command": "a\\nb'), after_s=3),
        run(after_s=3),
        run(TextDelta(2, "Done.")),
    ]

    assert [each.partition(" · ")[0] for each in said] == [
        "writing a call of write",
        "writing a call of write, 2 lines",
        "writing a call of write, 3 lines",
        "writing a call of write, 4 lines",
        "writing a call of write, 1,238 lines",
        "writing a command",
        "writing a command, 2 lines",
        "writing a command, 2 lines, no data for 3 s",
        "writing",
    ]


def test_activity_line_says_how_long_the_stream_has_stalled() -> None:
    """Otherwise a hanging connection looks like work; the next piece ends the note."""
    run = Run()
    run(events.AgentStart(), THINKING, TextDelta(0, "Let me"))

    stalled = run(after_s=4)

    assert stalled == "writing, no data for 4 s · 4 s"
    assert run(TextDelta(0, " see")) == "writing · 4 s · 2 tokens"


def test_activity_line_counts_down_to_the_next_retry() -> None:
    """The text streamed before is void, and so are its tokens; a wait is no stall."""
    run = Run()
    run(events.AgentStart(), THINKING, TextDelta(0, "x" * 40))

    waiting = run(events.Retry(2, 5, 8.0, "API overloaded (529)", restarted=True), after_s=1)

    assert waiting == "retry 2 of 5 in 8 s · 1 s"
    assert run(after_s=7.5) == "retry 2 of 5 in 1 s · 8 s"
    assert run(after_s=9) == "waiting for the model · 17 s"


def test_activity_line_names_a_slow_command_unless_it_waits_for_the_user() -> None:
    """`/compact` and `!make` used to look like an idle prompt."""
    run = Run()
    asks = [False]

    with run.activity.command("/compact keep the plan", unless=lambda: asks[0]):
        said = [run(), run(after_s=2)]
        asks[0] = True
        said.append(run())
    said.append(run())

    assert said == ["", "/compact keep the plan · 2 s", "", ""]


def test_narrow_activity_line_keeps_the_seconds_to_the_next_retry() -> None:
    """It said `retry 2 of 5 in …`, and how long it had waited."""
    run = Run()
    run(events.AgentStart(), THINKING)
    run(events.Retry(2, 5, 40.0, "rate limit reached", restarted=False), after_s=1)

    assert run.activity.text(38) == "retry 2 of 5 in 40 s · Ctrl-C stops"
    assert run.activity.text(50) == "retry 2 of 5 in 40 s · 1 s · Ctrl-C stops"


def test_narrow_activity_line_keeps_the_key_that_stops() -> None:
    """The activity is truncated, but the seconds and the key stay visible."""
    run = Run()

    with run.activity.command("!while true; do sleep 1; done", unless=bool):
        run.now_s += 75

        assert run.activity.text(38) == "!while tr… · 1 min 15 s · Ctrl-C stops"


def test_long_bash_call_shows_the_key_that_moves_it_to_the_background() -> None:
    """Only for a long command, only for bash, and only if the row has space for it."""
    run = Run()
    start = events.ToolExecutionStart("t1", "bash", {})
    hint = " · Ctrl-C stops · Ctrl-B goes on without it"

    assert "Ctrl-B" not in run(events.AgentStart(), start, after_s=10)
    assert "Ctrl-B" not in run(after_s=4)
    run.activity.can_move = lambda: True
    assert run().endswith(hint)
    assert "Ctrl-B" not in run.activity.text(40)
    assert "Ctrl-B" not in run(events.ToolExecutionStart("t2", "bash", {})).replace(hint, "")


def test_narrow_activity_line_drops_the_tokens_first() -> None:
    """The activity is more useful: `run… · 139 tokens` said nothing."""
    run = Run()
    run(events.AgentStart(), THINKING, TextDelta(0, "x" * 4_000))
    run(events.ToolExecutionStart("t1", "ask_user", {}))

    assert run.activity.text(60) == "running ask_user · 0 s · 1.0k tokens · Ctrl-C stops"
    assert run.activity.text(40) == "running ask_user · 0 s · Ctrl-C stops"
    assert run.activity.text(18) == "running ask… · 0 s"


def test_activity_line_says_that_a_question_waits_for_an_answer() -> None:
    """The list below explains Ctrl-C in that state."""
    run = Run()
    run(events.AgentStart(), THINKING, events.ToolExecutionStart("t1", "ask_user", {}))
    run.asks = True

    assert run() == "waiting for your answer"


@each_row(
    ("calls", "agents", "waits"),
    [
        ((), "", True),  # the run has ended with its question
        (("ask_user",), "", True),
        (("ask_user", "bash"), "", False),
        (("agent",), "asks", True),
        (("agent", "agent"), "asks asks", True),
        (("agent", "agent"), "asks works", False),
        (("agent", "bash"), "asks", False),
        ((), "works", False),  # one in the background
    ],
)
def test_nothing_but_a_question_waits_unless_calls_or_agents_work(
    calls: Sequence[str], agents: str, waits: bool
) -> None:
    """Then no row stands between the question and its answers."""
    run = Run()
    run.activity.agents = lambda: [
        AgentInfo(number, "", "", True, f"t{number}", is_asking=each == "asks")
        for number, each in enumerate(agents.split())
    ]
    run(events.AgentStart(), THINKING)
    for number, name in enumerate(calls):
        run(events.ToolExecutionStart(f"t{number}", name, {}))

    run.asks = True

    assert run.activity.only_waits is waits


def test_activity_line_says_that_a_stopped_run_is_stopping() -> None:
    """A command that ignores signals gets two seconds; the key used to look dead."""
    run = Run()
    run.activity.stop()
    run(events.AgentStart(), THINKING, events.ToolExecutionStart("t1", "bash", {}))
    before = run()
    run.activity.stop()

    assert (before, run()) == ("running a command · 0 s", "stopping: running a command")
    run(events.AgentEnd((), "aborted"))
    assert run(events.AgentStart(), after_s=1) == "preparing the request · 0 s"


def test_activity_line_sends_the_terminal_no_sequence_of_a_name() -> None:
    """A recording, or a model behind another endpoint, may name a tool in any way."""
    run = Run()
    name = "a\x1b]52;c;eA==\ab\x1b[2Jc"
    run(events.AgentStart(), THINKING)

    assert run(ToolCallStart(0, "t1", name)) == "writing a call of abc · 0 s"
    assert run(events.ToolExecutionStart("t1", name, {})) == "running abc · 0 s"
    with run.activity.command(f"!{name}", unless=bool):
        run(events.AgentEnd((), "end_turn"))
        assert run(after_s=1) == "!abc · 1 s"


@each_row(("took_s", "rings"), [(LONG_S, 0), (LONG_S + 0.1, 1)])
def test_bell_rings_only_after_a_long_run(took_s: float, rings: int) -> None:
    """Longer than ten seconds; each run counts separately."""
    rung: list[str] = []
    now_s = 0.0
    bell = Bell(rung.append, lambda: now_s)

    bell(AgentEnd((), "end_turn"))
    bell(AgentStart())
    now_s += took_s
    bell(AgentEnd((), "end_turn"))
    now_s += 60
    bell(AgentEnd((), "end_turn"))

    assert rung == ["agent-cli: the run has ended"] * rings


def test_bell_of_a_run_that_stops_to_ask_says_that_a_question_waits() -> None:
    """The notification must not claim that the run has ended: it waits for a decision."""
    rung: list[str] = []
    now_s = 0.0
    bell = Bell(rung.append, lambda: now_s)

    bell(AgentStart())
    now_s += LONG_S + 1
    bell(AgentEnd((), "waiting_for_approval"))

    assert rung == ["agent-cli: a question waits"]


def test_bell_rings_for_a_question_in_a_long_run_but_not_at_an_idle_prompt() -> None:
    """A server asks during a call; at an idle prompt the user is present."""
    rung: list[str] = []
    now_s = 0.0
    bell = Bell(rung.append, lambda: now_s)

    bell.question()
    bell(AgentStart())
    bell.question()
    now_s += LONG_S + 1
    bell.question()

    assert rung == ["agent-cli: a question waits"]


SAID = "\x1b]9;done\x1b\\"


@each_row(
    "environment",
    [
        {"TERM_PROGRAM": "iTerm.app"},
        {"TERM_PROGRAM": "WezTerm"},
        {"TERM_PROGRAM": "ghostty", "TERM": "xterm-ghostty"},
        {"TERM": "xterm-kitty"},
        {"KITTY_WINDOW_ID": "1", "TERM": "xterm-256color"},
    ],
)
def test_terminal_with_notification_support_gets_a_notification(
    environment: dict[str, str],
) -> None:
    """Unless tmux is in between, which would swallow it, or another alert is configured."""
    assert alert("done", "auto", environment) == SAID
    assert alert("done", "auto", environment | {"TMUX": "/tmp/x,1,0"}) == "\a"
    assert alert("done", "auto", environment | {"TERM": "screen-256color"}) == "\a"
    assert alert("done", "bell", environment) == "\a"
    assert alert("done", "off", environment) == ""


@each_row(
    "environment", [{}, {"TERM": "xterm-256color"}, {"WT_SESSION": "1"}, {"TERM_PROGRAM": "vscode"}]
)
def test_other_terminals_ring_the_bell_unless_notifications_are_configured(
    environment: dict[str, str],
) -> None:
    """Some terminals give OSC 9 another meaning."""
    assert alert("done", "auto", environment) == "\a"
    assert alert("done", "osc9", environment) == SAID


def test_configured_notification_passes_through_tmux() -> None:
    """Every escape is doubled, as tmux requires."""
    sent = alert("done", "osc9", {"TMUX": "/tmp/x,1,0"})

    assert sent == "\x1bPtmux;\x1b\x1b]9;done\x1b\x1b\\\x1b\\"
