"""Slash commands, in a session driven through a pipe."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.file_changes import PlannedUndo, TakenBack
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.timeline import NO_USAGE, Usage
from agent_cli.contracts.wording import SESSIONS_OFF
from agent_cli.repl.commands.information import UsageView, describe_usage, window_bars
from agent_cli.repl.commands.registry import COMMANDS, commands_of, find_command, grouped, overview
from agent_cli.terminal.views import drawn_text
from agent_cli.version import __version__
from tests.repl.conversation import Nobody, converse, said
from tests.repl.scripted_app import Application, kept
from tests.tables import each_row

LEVELS = "off, minimal, low, medium, high, xhigh"


def test_help_fits_one_screen() -> None:
    """At 80 columns and 24 rows nothing scrolls away, and each key has one row."""
    shown = drawn_text(overview(grouped(commands_of(Application())), []), width=80).splitlines()

    assert len(shown) < 24
    assert max(map(len, shown)) <= 80
    assert not [line for line in shown[shown.index("") :] if line.startswith(" ")]
    assert {"Shift-Tab", "Esc Esc"} <= {line[:16].strip() for line in shown}
    assert "Alt-Enter       new line; during a run: send when it would end (--vi: Ctrl-F)" in shown


def test_help_names_every_command_in_its_group() -> None:
    """Both read one table, so nothing can be missing; on a pipe a group is one line."""
    shown = said("/help")

    assert sorted(re.findall(r" /([a-z:-]+)", "\n".join(shown[:-15]))) == sorted(
        [*(each.name for each in COMMANDS), "review"]
    )
    assert "yours:         /review" in shown


def test_help_says_which_commands_cannot_be_used_and_why() -> None:
    """A built-in command cannot be replaced, and of two with the same name the first wins."""
    assert said("/help")[-3:] == [
        "not usable: /review (yours) is not used: another one (yours) comes first",
        "not usable: /help (yours) is not used: another one (built in) comes first",
        "not usable: team/broken.md is empty",
    ]


def test_help_with_a_name_describes_that_command_in_full() -> None:
    """With the slash or without; an unknown name is answered as at the prompt."""
    assert said("/help export") == [
        "/export [md|html|json or FILE]",
        "  write the session to a file in the workspace",
        "  Markdown by default; a file's name tells its format. Secrets are left out.",
        "  Tab completes: md, html, json",
        "  waits for the end of a run",
    ]
    assert said("/help /review") == [
        "/review [text]",
        "  say it",
        "  from: yours",
        "  waits for the end of a run",
    ]
    assert said("/help team:broken")[:2] == ["/team:broken [text]", "  team/broken.md is empty"]
    assert said("/help revew") == ["unknown command /revew; did you mean /review?"]
    assert len(said("/help all")) == len(COMMANDS) + 2


def test_help_cuts_no_sentence_into_two_branches() -> None:
    """A branch is a sentence, or what one argument does; /undo and /btw had halves of one."""
    lines = [line for each in COMMANDS for line in each.more.splitlines()]

    assert [line for line in lines if not line.endswith(".") and ": " not in line] == []


@each_row("line", ["/model --help", "/model -h", "/undo --help", "/und -h"])
def test_option_for_help_describes_a_built_in_command(line: str) -> None:
    """`/model --help` made `--help` the model; no command takes it for its argument."""
    name = "model" if "model" in line else "undo"

    assert said(line) == said(f"/help {name}")


def test_custom_command_receives_an_option_for_help_as_its_text() -> None:
    """A skill may document options of its own; the text after its name is the user's."""
    command, argument = find_command("/review --help", Application())

    assert (command.name, argument) == ("review", "--help")


def test_custom_command_is_sent_as_a_prompt() -> None:
    """Of two with the same name the first wins; the text after it may span several lines."""
    out, shown = converse("/review the\nlast  change", "/team:broken")

    assert out == "You said 'review the\\nlast  change' to model-1.\n"
    assert shown == ["team/broken.md is empty"]


def test_a_prompt_may_begin_with_a_path() -> None:
    """`/abs/path …` was "no command"; a root folder is a path unless a command has its name."""
    out, shown = converse("/etc/passwd is what?", "//a comment", "/tmp is full")

    assert out.splitlines() == [
        "You said '/etc/passwd is what?' to model-1.",
        "You said '//a comment' to model-1.",
        "You said '/tmp is full' to model-1.",
    ]
    assert shown == []


def test_name_with_the_scope_of_another_agent_is_understood() -> None:
    """Codex lists `/prompts:review`; guides of Claude Code say `/project:review`."""
    out, shown = converse("/prompts:review it", "/project:review it")

    assert out == "You said 'review it' to model-1.\n" * 2
    assert shown == []


def test_unambiguous_prefix_of_a_command_is_enough() -> None:
    """An ambiguous prefix is not guessed at."""
    _, shown = converse("/usa", "/un")

    assert shown[0].startswith("no reply")
    assert shown[-1] == "unknown command /un; did you mean /uncompact, /unpin or /undo?"


@each_row(
    ("line", "shown"),
    [
        ("/compact the plan", "compacted 4 messages: about 9,000 → 1,000 tokens"),
        ("/toosl", "unknown command /toosl; did you mean /tools?"),
        ("/modle", "unknown command /modle; did you mean /model?"),  # /mode is nearer by letters
        ("/ nothing", "unknown command /; /help lists them"),
        ("/CLEAR", "unknown command /CLEAR; did you mean /clear?"),
        ("/kompact", "unknown command /kompact; did you mean /compact?"),
        ("/exit now", "/exit takes no argument"),
        ("/add-dir", "/add-dir needs a directory, such as ../other-project"),
        ("/add-dir nowhere", "nowhere is not a directory"),
        ("/model nope", "there is no model nope; there are: normal, high"),
        ("/model high", "model: model-2"),
        ("/output-style Terse", "output style: Terse"),
        ("/output-style rude", "there is no output style rude"),
        ("/with", "/with needs a model and a prompt, such as /with high Find the race"),
        ("/with high", "/with needs a model and a prompt, such as /with high Find the race"),
        ("/with nope hello", "there is no model nope; there are: normal, high"),
        ("/with nope /review it", "there is no model nope; there are: normal, high"),
        ("/with high /thikning", "unknown command /thikning; did you mean /thinking?"),
        (
            "/with high /mode plan",
            "/with takes a prompt or a command that sends one, such as a skill; /mode is neither",
        ),
        (
            "/with high /with normal hello",
            "/with takes a prompt or a command that sends one, such as a skill; /with is neither",
        ),
        ("/effort high", "effort: high"),
        ("/effort max", "effort: xhigh"),
        ("/effort huge", f"unknown effort huge; there are: default, {LEVELS}"),
        ("/mode plan", "mode: plan, only looks around, and presents a plan"),
        ("/mode god", "unknown mode god; there are: ask, auto-edit, auto, plan, yolo"),
        ("/fork", "now in session s-2, a copy; s-1 is unchanged"),
        ("/fork list", "nothing was said in this session yet"),
        (
            "/fork 1",
            "the session has no prompt or entry '1';"
            " `agent-cli sessions show s-1 --entries` lists them",
        ),
        ("/export html", "exported without secrets: s-1.html"),
        ("/export talk.html", "exported without secrets: talk.html"),
        ("/export pdf", "/export writes md, html or json, not pdf"),
        ("/export talk.pdf", "/export writes md, html or json, not talk.pdf"),
        ("/uncompact", "nothing is left out"),
        ("/rewind", "no prompt to go back to"),
        ("/resume zz", "there is no session zz"),
        ("/resume 3", "3 is not one of the numbers from 1 to 2"),
        ("/copy", "/copy needs a screen; on a pipe stdout holds the answers"),
        ("/theme light", "/theme needs a screen"),
        ("/diff all", "/diff takes run, for the last run only, not all"),
        ("/undo 2", "/undo takes no argument"),
    ],
)
def test_a_command_answers_in_one_line(line: str, shown: str) -> None:
    """Text that begins with a slash is never sent to the model."""
    assert said(line) == [shown]


def test_with_command_sends_one_prompt_to_another_model() -> None:
    """S2-54: the prompt is sent as typed, and the next one uses the usual model."""
    out, shown = converse("/with high  two\nlines ", "hello", "/model")

    assert out == "You said 'two\\nlines' to model-2.\nYou said 'hello' to model-1.\n"
    assert shown[:2] == ["model for this prompt: model-2", "model: model-1"]


def test_with_command_sends_a_custom_command_to_another_model() -> None:
    """S2-54: the command's text, not its name; the named model overrides the command's own."""
    out, shown = converse("/with normal /review it on high", "/with high /tmp is full")

    assert out == (
        "You said 'review it on high' to model-1.\nYou said '/tmp is full' to model-2.\n"
    )
    assert shown == ["model for this prompt: model-1", "model for this prompt: model-2"]


def test_custom_command_that_names_a_model_uses_it_for_one_prompt() -> None:
    """S2-54: the screen names it; if the model is unavailable, nothing is sent."""
    out, shown = converse("/review it on high", "/review it on nope", "hello")

    assert out == "You said 'review it on high' to model-2.\nYou said 'hello' to model-1.\n"
    assert shown == [
        "model for this prompt: model-2",
        "there is no model nope; there are: normal, high",
    ]


def test_model_command_lists_the_models_or_switches_to_the_named_one() -> None:
    """The next call uses the new model."""
    out, shown = converse("/model", "/model high", "hello")

    assert shown == [
        "model: model-1",
        "  normal = model-1",
        "  high = model-2",
        "model: model-2",
    ]
    assert out == "You said 'hello' to model-2.\n"


def test_diff_command_prints_a_machine_readable_diff_on_a_pipe() -> None:
    """A name above each file, special kinds in brackets, and a total at the end."""
    assert said("/diff", "/diff run")[:14] == [
        "--- a/a.txt",
        "+++ b/a.txt",
        "@@ -1,1 +1,1 @@",
        "-one",
        "+two",
        "src/new.txt  (changed by somebody else too)",
        "--- /dev/null",
        "+++ b/src/new.txt",
        "@@ -1,1 +1,1 @@",
        "-one",
        "+two",
        "--- /elsewhere/b.png",
        "+++ /dev/null",
        "(binary)",
    ]
    assert said("/diff", "/diff run")[-2:] == [
        "1 file, +1 −1",
        "commands ran too; changes they made to other files are not recorded: npm install",
    ]
    assert said("/undo", "/diff", "/diff run")[-2:] == [
        "the agent's tools left no changes in this session",
        "the agent's tools left no changes in the last run; commands ran, and changes they"
        " made to other files are not recorded: npm install",
    ]


def test_diff_command_says_where_agents_worked_in_worktrees(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is recorded there; git has the changes."""
    monkeypatch.setenv("TREES", "1")

    assert said("/undo", "/diff")[-1] == (
        "the agent's tools left no changes in this session; those of agents in git worktrees are"
        " not shown: /trees/agent-1"
    )


def test_undo_reports_what_was_reverted_and_what_was_not() -> None:
    """It says first what it is about to do; then it names the prompt that led to the changes."""
    _, shown = converse("change  it", "/undo", "/undo")

    assert shown == [
        "taking back `npm install` and 2 edits: 2 files, 3.2 MB",
        "undone: change it",
        "  restored  a.txt",
        "  deleted   src/new.txt",
        "commands ran too; what else they changed stays: make; make test; rm b and 1 more",
        "nothing to undo",
    ]


def test_shell_command_output_goes_to_the_model_with_the_next_prompt() -> None:
    """With !! it does not; on a pipe, a line that begins with ! is an ordinary prompt."""
    out, shown = converse("!echo hi; exit 3", "!!echo no", "so", "and", answers=("y",))

    assert shown == ["hi", "[exit code 3]", "no"]
    assert out == (
        "You said 'I ran this command:\\n$ echo hi; exit 3\\nhi\\n[exit code 3]\\n\\nso'"
        " to model-1.\n"
        "You said 'and' to model-1.\n"
    )
    assert converse("!echo hi") == ("You said '!echo hi' to model-1.\n", [])


def test_doctor_command_prints_the_report_inside_a_session() -> None:
    """S1-27: the same report as `agent-cli doctor`."""
    assert said("/doctor") == ["checking …", f"agent-cli {__version__}", "ok    key  found"]


def test_init_command_asks_the_model_to_write_agents_md() -> None:
    """A run like any other, with the user's wish at the end."""
    out, shown = converse("/init mind the tests")

    assert "write an AGENTS.md at its root" in out
    assert out.endswith('\\n\\nmind the tests" to model-1.\n')
    assert shown == []


def test_review_command_is_the_users_or_else_the_shipped_one() -> None:
    """A prompt file of that name is not shadowed; `/help` says where the command is from."""

    class WithoutPrompts(Application):
        prompts = ()

    assert converse("/review the tests")[0] == "You said 'review the tests' to model-1.\n"

    out, shown = converse("/review the tests", app=WithoutPrompts())

    assert "Review the changes in this working tree" in out
    assert "\\n\\nthe tests" in out
    assert shown == []
    assert "shipped:       /review" in said("/help", app=WithoutPrompts())


def test_clear_counts_the_jobs_and_background_agents_that_still_run() -> None:
    """They are another conversation's from then on, and only `/jobs` lists them."""
    assert said("/clear", "/jobs stop all", "/clear") == [
        "new conversation; 1 job goes on: /jobs",
        "job 1: stopped by you after 13 s",
        "new conversation",
    ]


def test_usage_counts_the_conversation_and_clear_resets_the_count() -> None:
    """Two replies of 10 + 2 tokens at 50 microdollars each."""
    assert said("one", "two", "/usage", "/clear", "/usage") == [
        "model-1: input 20 · cache read 0 · cache write 0 · output 4 tokens · $0.0001",
        "new conversation; 1 job goes on: /jobs",
        "no reply of the model was counted yet",
    ]


def test_usage_with_an_unknown_price_says_cost_unknown() -> None:
    """An unknown cost must not look like zero."""
    usage = Usage(1_000, 2, 3, 4, 5, cost_microdollars=None)

    assert describe_usage(usage) == (
        "input 1,000 · cache read 3 (0%) · cache write 9 · output 2 tokens · cost unknown"
    )


def test_usage_names_the_searches_that_the_server_charges_for() -> None:
    usage = Usage(1, 2, cost_microdollars=10_000, web_searches=1)

    assert "output 2 tokens · 1 web search · $0.0100" in describe_usage(usage)


def test_usage_names_the_thinking_in_the_output() -> None:
    """Where the API counts it."""
    usage = Usage(1, 2_000, cost_microdollars=10_000, thinking_tokens=1_500)

    assert "output 2,000 tokens (1,500 thinking) · $0.0100" in describe_usage(usage)


def test_usage_is_listed_by_model_and_includes_tokens_outside_replies() -> None:
    """S1-18: including the share read from the cache; a summary costs too."""
    small, large = Usage(100, 10, 300, cost_microdollars=1_000), Usage(50, 5)
    replies = [
        AssistantMessage((), usage=usage, model=name)
        for name, usage in (("a", small), ("a", small), ("b", large), ("", NO_USAGE))
    ]

    shown = UsageView.of(replies, small + small + large + Usage(7, 3))

    assert shown.lines() == [
        "input 257 · cache read 600 (70%) · cache write 0 · output 28 tokens · $0.0020",
        "  a: input 200 · cache read 600 (75%) · cache write 0 · output 20 tokens · $0.0020",
        "  b: input 50 · cache read 0 · cache write 0 · output 5 tokens · $0.0000",
        "  including 10 tokens for summaries, /btw, keeping the cache warm, MCP servers' requests"
        " to the model, incomplete replies and rewound prompts",
    ]
    assert drawn_text(shown, width=80).splitlines() == [
        "model   input   cache read   cached   cache write   output      cost",
        "────────────────────────────────────────────────────────────────────",
        "a         200          600      75%             0       20   $0.0020",
        "b          50            0       0%             0        5   $0.0000",
        "total     257          600      70%             0       28   $0.0020",
        "",
        "including 10 tokens for summaries, /btw, keeping the cache warm, MCP servers'",
        "requests to the model, incomplete replies and rewound prompts",
    ]
    one = UsageView.of(replies[:2], small + small)
    assert "total" not in drawn_text(one, width=80)
    assert one.lines() == [
        "a: input 200 · cache read 600 (75%) · cache write 0 · output 20 tokens · $0.0020"
    ]


def test_usage_breaks_no_name_on_a_narrow_terminal() -> None:
    """The name of an agent holds the ID that other commands take."""
    usage = Usage(1_000, 507, 3_505, 1_293, cost_microdollars=10_100)
    names = ("claude-sonnet-5-5", "agent general 334a9c917e45")
    replies = [AssistantMessage((), usage=usage, model=names[0])]
    view = UsageView.of(replies, usage, {names[1]: usage})

    broken = [
        width
        for width in range(40, 100)
        if not all(name in drawn_text(view, width=width) for name in names)
    ]

    assert broken == []


def test_exit_command_ends_the_session_before_the_next_line() -> None:
    """S1c-9."""
    out, _ = converse("/exit", "hello")

    assert out == ""


def test_resume_lists_the_other_sessions_and_takes_a_number_or_an_id() -> None:
    """S2-53: on a pipe there is no question; the list shows the numbers for `/resume NUMBER`."""
    shown = said("/resume", "/resume 1")

    assert shown == [
        "  1  An old one · just now · 1 prompt · aa1",
        "  2  Touch · just now · 1 prompt · waits for a decision · bb2",
        "resumed session aa1",
        "1 prompt so far:",
        "you> An old one",
        "An **old** answer.",
    ]
    assert said("/resume aa")[0] == "resumed session aa1"


def test_resume_lists_sessions_of_this_directory_first_and_names_any_other() -> None:
    """Those of all projects were mixed, and looked alike."""
    app = Application()
    elsewhere = replace(kept("cc3", "Other"), workspace=str(Path.home() / "other"))
    here = replace(kept("dd4", "Mine"), workspace=app.sessions.workspace)
    app.sessions.list = lambda: [elsewhere, kept("aa1", "Unknown"), here]  # type: ignore[method-assign]

    assert said("/resume", app=app) == [
        "  1  Unknown · just now · 1 prompt · aa1",
        "  2  Mine · just now · 1 prompt · dd4",
        "  3  Other · in ~/other · just now · 1 prompt · cc3",
    ]
    assert said("/search other", app=app) == [
        "  1  you: Unknown · just now · aa1",
        "  2  you: Mine · just now · dd4",
    ]
    app.sessions.list = lambda: [here, elsewhere]  # type: ignore[method-assign]
    assert said("/search other", app=app)[0] == "  1  you: Other · in ~/other · just now · cc3"


def test_resume_lists_a_damaged_session_which_says_what_to_do_when_chosen() -> None:
    """It was left out: "no other session to resume", although it is there."""
    app = Application()
    damaged = replace(kept("cc3", "Cut"), problem="line 9 is not a record", remedy="--fork cc3")
    newer = replace(kept("dd4", ""), problem="a newer version wrote it", prompts=0)
    app.sessions.list = lambda: [damaged, newer]  # type: ignore[method-assign]

    assert said("/resume", app=app) == [
        "  1  Cut · just now · 1 prompt · damaged · cc3",
        "  2  - · just now · 0 prompts · unreadable · dd4",
    ]


def test_search_lists_the_sessions_that_contain_the_words() -> None:
    """On a pipe there is no choice; `/resume ID` resumes one."""
    assert said("/search old", '/search "an old', "/search") == [
        "  1  you: An old one · just now · aa1",
        "  2  you: Touch · just now · bb2",
        "  1  you: An old one · just now · aa1",
        "  2  you: Touch · just now · bb2",
        "/search needs words to look for, such as /search race condition",
    ]


def test_rename_names_the_session() -> None:
    app = Application()

    shown = said("/rename", "/rename a", "one", "/rename login bug", "/rename -x", app=app)

    assert app.sessions.name == "-x"
    assert shown == [
        "/rename needs a name, such as /rename login bug",
        "this session is not saved; the name is kept once you send something",
        "renamed; go on with this session later: agent-cli -r 'login bug'",
        "renamed; go on with this session later: agent-cli --resume=-x",
    ]


def test_rename_promises_no_resume_of_a_session_that_is_not_saved() -> None:
    """Such as on a full disk or in a read-only home."""
    app = Application()
    app.sessions.is_behind = True

    shown = said("/rename login bug", app=app)

    assert app.sessions.name == "login bug"
    assert shown == ["this session is not saved; the name is kept once it can be"]


@each_row("command", ["/resume", "/fork list", "/rename a", "/rewind", "/export"])
def test_command_that_needs_a_session_is_refused_before_it_asks_or_does_anything(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/rewind` took the files back, and only then said that the conversation stays."""
    monkeypatch.setenv("FILES", "1")
    app = Application()
    app.sessions.id = None

    _, shown = converse("one", command, answers=("1", "1"), app=app)

    assert shown == [SESSIONS_OFF]


def test_search_lists_only_what_cannot_be_resumed_without_sessions() -> None:
    app = Application()
    app.sessions.id = None

    _, shown = converse("/search old", answers=("1",), app=app)

    assert [line.split(" · ")[0] for line in shown] == ["you: An old one", "you: Touch"]


def test_rewind_counts_from_the_last_prompt() -> None:
    """S2-53: later prompts are no longer part of the conversation."""
    shown = said("one", "two", "three", "/rewind", "/rewind 2", "/rewind")

    assert shown == [
        "  1  three",
        "  2  two",
        "  3  one",
        "back to before: two (files stay as they are)",
        "  1  one",
    ]


def test_fork_copies_the_session_up_to_the_chosen_entry() -> None:
    """S2-53: the numbers are those of the list; on a pipe the list is only shown."""
    shown = said("one", "two", "three", "/fork list", "/fork 2", "/fork list")

    assert shown == [
        "  1  you> three",
        "  2  you> two",
        "  3  you> one",
        "now in session s-2, a copy; s-1 is unchanged (files stay as they are)",
        "it ends with: you> two",
        "  1  you> two",
        "  2  you> one",
    ]
    _, chosen = converse("one", "two", "/fork list", answers=("2",))
    assert chosen[-1] == "it ends with: you> one"
    _, declined = converse("one", "/fork list", answers=("",))
    assert declined == ["  1  you> one"]


def test_fork_entries_are_offered_for_completion() -> None:
    """S2-53: an id need not be copied by hand."""
    app = Application()
    said("say it", "\x1b[31mevil", app=app)
    fork, _ = find_command("/fork", app)
    first, last = app.agent.conversation.prompts

    assert fork.choices(app) == {
        "list": "choose the entry",
        last.id: "you> evil",
        first.id: "you> say it",
    }


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ("1", ["undone: two", "back to before: two"]),
        ("2", ["back to before: two (files stay as they are)"]),
        ("3", ["undone: two"]),
        ("", []),
    ],
)
def test_rewind_restores_code_and_conversation_in_one_step(
    choice: str, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can also restore just one of them; the question comes only if files changed since."""
    monkeypatch.setenv("FILES", "1")

    _, beside = converse("one", "two", "/rewind", answers=("1", choice))

    assert [line for line in beside if line.startswith(("undone", "back"))] == told


def test_rewind_also_undoes_runs_dropped_by_an_earlier_rewind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their changes are newer: with one run too few, another run's changes would be restored."""
    app = Application()
    said("one", "two", app=app)
    runs = [prompt.id for prompt in app.agent.conversation.prompts]
    taken: list[str] = []

    def take_back(*, but_own: bool, in_part: bool) -> TakenBack:
        assert not (but_own or in_part)
        taken.append(runs.pop())
        return TakenBack(taken[-1], [], [], [])

    monkeypatch.setattr(app.file_changes, "changed_runs", lambda: runs)
    monkeypatch.setattr(app.file_changes, "take_back", take_back)
    before = [*runs]
    about = "taking back `npm install` and 2 edits: 2 files, 3.2 MB"

    _, shown = converse("/rewind 1", "/rewind", app=app, answers=("1", "1"))

    assert taken == before[::-1]
    assert shown[-5:] == [
        about,
        "undone: a run that is no longer part of this conversation",
        about,
        "undone: one",
        "back to before: one",
    ]


def questions_to_nobody(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that fills with the questions asked."""
    asked: list[str] = []
    choose = Nobody.choose

    async def note(self: Nobody, message: str, keys: str) -> str:
        asked.append(message)
        return await choose(self, message, keys)

    monkeypatch.setattr(Nobody, "choose", note)
    return asked


@pytest.mark.parametrize(("answer", "but_own"), [("y", False), ("n", True)])
def test_undo_asks_before_it_takes_back_a_command_of_the_user(
    monkeypatch: pytest.MonkeyPatch, answer: str, *, but_own: bool
) -> None:
    """They may have forgotten it, and mean the agent's last run: the question says what it did."""
    app = Application()
    taken: list[bool] = []

    def planned_undo(*, but_own: bool = False) -> PlannedUndo:
        return PlannedUndo(["make"] * 5 if but_own else ["rm a"], 0, 1, 834)

    def take_back(*, but_own: bool, in_part: bool) -> TakenBack:
        taken.append(but_own)
        return TakenBack("1" if but_own else "1!2", [], [], [], undone=["rm a"])

    monkeypatch.setattr(app.file_changes, "changed_runs", lambda: ["1", "1!2"])
    monkeypatch.setattr(app.file_changes, "planned_undo", planned_undo)
    monkeypatch.setattr(app.file_changes, "take_back", take_back)

    asked = questions_to_nobody(monkeypatch)

    _, shown = converse("/undo", app=app, answers=(answer,))

    assert taken == [but_own]
    question = "the last change is that of a command of yours (`rm a`: 1 file, 834 bytes); take it"
    assert question in asked[0]
    of_agent = "taking back `make`, `make`, `make` and 2 more commands: 1 file, 834 bytes"
    assert [line for line in shown if line.startswith("taking")] == [of_agent] * but_own
    told = "undone: what your own command changed of the files that it names"
    assert (told in shown) is not but_own


def test_rewind_whose_files_stay_says_how_to_rewind_the_conversation_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Application()
    said("one", app=app)
    runs = [app.agent.conversation.prompts[-1].id]

    def planned_undo(*, but_own: bool = False) -> PlannedUndo:
        raise AgentCliError("nothing was undone")

    monkeypatch.setattr(app.file_changes, "changed_runs", lambda: runs)
    monkeypatch.setattr(app.file_changes, "planned_undo", planned_undo)

    _, refused = converse("/rewind", app=app, answers=("1", "1"))
    _, rewound = converse("/rewind 1", app=app)

    told = "nothing was undone; the conversation stays too; /rewind 1 rewinds it alone"
    assert refused[-1] == told
    assert "back to before: one (files stay as they are)" in rewound


@pytest.mark.parametrize("answer", ["y", "n"])
@pytest.mark.parametrize("command", ["/undo", "/rewind"])
def test_undo_asks_before_it_takes_back_the_files_that_did_not_change_since(
    monkeypatch: pytest.MonkeyPatch, command: str, answer: str
) -> None:
    """The question names the first that stay; after a no, a rewind leaves the conversation, too."""
    app = Application()
    said("one", app=app)
    runs = [app.agent.conversation.prompts[-1].id]
    kept = {Path.cwd() / f"{number}.txt": "" for number in range(22)}
    kept[Path.cwd() / "0.txt"] = "session 1 edited it"
    taken: list[bool] = []

    def planned_undo(*, but_own: bool = False) -> PlannedUndo:
        assert not but_own
        return PlannedUndo(["make"], 0, 1, 834, kept)

    def take_back(*, but_own: bool, in_part: bool) -> TakenBack:
        assert not but_own
        taken.append(in_part)
        return TakenBack(runs.pop(), [], [], [], kept=kept)

    monkeypatch.setattr(app.file_changes, "changed_runs", lambda: runs)
    monkeypatch.setattr(app.file_changes, "planned_undo", planned_undo)
    monkeypatch.setattr(app.file_changes, "take_back", take_back)
    asked = questions_to_nobody(monkeypatch)

    is_rewind = command == "/rewind"
    _, shown = converse(command, app=app, answers=("1", "1", answer) if is_rewind else (answer,))

    assert asked[-1] == (
        "0.txt (session 1 edited it), 1.txt, 2.txt, 3.txt, 4.txt and 17 more changed since and stay"
        " as they are; take back the rest, `make`: 1 file, 834 bytes? (y/n) "
    )
    assert taken == [True] * (answer == "y")
    told = [line for line in shown if line.startswith(("undone", "nothing", "back to", "what "))]
    assert told == (
        [
            "undone: one",
            "what was kept has changed since; /diff shows it, and a later /undo may take it back",
            *(["back to before: one"] if is_rewind else []),
        ]
        if answer == "y"
        else ["nothing was undone; /diff run shows what there is to undo"]
    )
    assert ("  kept      0.txt (session 1 edited it)" in shown) is (answer == "y")
    assert ("  and 2 more" in shown) is (answer == "y")


def test_permissions_command_shows_the_mode_and_the_active_rules() -> None:
    """S4-26: each rule is shown with its file and line."""
    assert said("/permissions", "/mode") == [
        "mode: ask, asks before every change",
        "1  deny  read(.env)  appsettings.toml:3",
        "answers keep rules in permissions.toml, and so does /permissions allow RULE;"
        " /permissions remove N takes one back",
        "mode: ask, asks before every change",
        "  ask: asks before every change",
        "  auto-edit: edits files of the workspace without asking",
        "  auto: edits without asking, and has a small model judge what else would be asked",
        "  plan: only looks around, and presents a plan",
        "  yolo: runs almost everything without asking",
    ]


def test_context_command_shows_what_fills_the_window() -> None:
    """Each part has its share of the whole window; there is no division by zero."""
    shown = window_bars({"tools": 2_500, "messages": 0}, window=10_000)

    heading, *bars = drawn_text(shown, width=80).splitlines()
    assert heading == "about 2,500 tokens in the next request (4 characters a token)"
    assert [(bar.split()[0], bar.split()[-2:]) for bar in bars] == [
        ("tools", ["2,500", "25%"]),
        ("messages", ["0", "0%"]),
        ("free", ["7,500", "75%"]),
    ]
    assert shown.lines()[1:] == ["tools  2,500  25%", "messages  0  0%", "free  7,500  75%"]
    assert len(window_bars({"tools": 0}, window=0).lines()) == 2
    assert said("/context")[0] == ("about 8,000 tokens in the next request (4 characters a token)")


def test_empty_answer_chooses_nothing_from_a_numbered_list() -> None:
    """Enter used to be rejected as none of the numbers."""
    _, shown = converse("/resume", answers=("",))

    assert [row.split(" · ")[0] for row in shown] == ["  1  An old one", "  2  Touch"]


def test_pins_are_listed_and_taken_back_by_number() -> None:
    """The number stays the same for the session, whatever else is taken back."""
    _, lines = converse("/pin use tabs", "/pin no push", "/unpin 1", "/pin", "/unpin 1", "/unpin x")

    told = "\n".join(lines)
    assert "pinned as 2: no summary replaces it; /unpin 2" in told
    assert "no longer pinned: use tabs" in told
    assert "  2  no push" in told
    assert "there is no pin 1; /pin lists them" in told
    assert "/unpin takes one of the numbers that /pin lists: 2" in told
