"""The approval dialogue: what each answer does to the waiting calls."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.dialogs import Approved, Decision, Rejected
from agent_cli.contracts.errors import SettingsError, ToolError
from agent_cli.contracts.events import Event, Notice, ToolCall
from agent_cli.contracts.permission_modes import Mode
from agent_cli.contracts.permissions import ApprovalFacts, ExplainedPart, Rule
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import FileContents, Tool, ToolContext
from agent_cli.core.call_decisions import unwanted_because
from agent_cli.repl.approval.ask import Approvals
from agent_cli.repl.dialogue import Choice, DialogParts, chosen
from agent_cli.terminal.writer import Style
from tests.fakes import returns, tool
from tests.tables import each_row
from tests.waiting import until

TOUCH = ToolCall("t1", "bash", {"command": "touch made"}, "commands can change anything")
MOVE = ToolCall("t2", "bash", {"command": "mv a b"}, "commands can change anything")
NOTE = ToolCall("t3", "note", {"text": "x"})
TWIN = ToolCall("t4", "bash", {"command": "touch too"})
REFUSED = Rejected("The user does not want this call to run. Do not try it again in another form.")
EDITED = Path("app.py")
RULES = {
    "t1": ("bash(touch *)",),
    "t2": ("bash(mv *)",),
    "t3": (),
    "t4": ("bash(touch *)",),
    "force": (),
}


@dataclass
class Permissions:
    """Offers the rules above; `kept` and `session` are the rules allowed by the user."""

    mode: Mode = "ask"
    project_file: Path | None = None
    kept: list[str] = field(default_factory=list[str])
    session: list[str] = field(default_factory=list[str])
    full: bool = False
    recalled: bool = field(default=False, compare=False)

    def rules(self) -> Iterable[tuple[str, Rule]]:
        return ()

    def asked_about(self, call: ToolCall) -> ApprovalFacts:
        sandbox = ("sandbox: none\u202e",) if call.name == "bash" else ()
        return ApprovalFacts(RULES[call.id], sandbox, is_danger=call.id == "force")

    def explain(self, call: ToolCall) -> tuple[ExplainedPart, ...]:
        if call.name != "bash":
            return ()
        words = str(call.arguments["command"]).split()
        return tuple(ExplainedPart(word, "does it", 0) for word in words)

    async def recall(self, call: ToolCall, tools: Iterable[Tool]) -> None:
        self.recalled = True  # every call was asked about in this session

    def remember(self, call: ToolCall) -> None:
        self.session += RULES[call.id]

    def remember_for_project(self, call: ToolCall) -> None:
        if self.full:
            raise SettingsError("the disk is full")
        self.kept += RULES[call.id]
        self.remember(call)

    def allow_rule(self, written: str, tools: Iterable[str]) -> Rule:
        raise NotImplementedError

    def rules_named(self, written: str) -> Sequence[tuple[str, Rule]]:
        raise NotImplementedError

    def remove_rule(self, rule: Rule) -> str:
        raise NotImplementedError

    def is_remembered(self, call: ToolCall) -> bool:
        return bool(RULES[call.id]) and set(RULES[call.id]) <= set(self.session)


class Person:
    """Types lines one after the other; records the questions and the answers offered."""

    can_ask = True

    def __init__(self, *answers: str | type[BaseException]) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, list[str]]] = []
        self.ctrl_c = ""
        self.anew: list[bool] = []
        self.before_first: Callable[[], Awaitable[None]] | None = None

    async def select(
        self,
        message: str,
        choices: Sequence[Choice],
        *,
        text: str,
        ctrl_c: str = "",
        anew: bool = False,
    ) -> Choice | str:
        listed = [f"{each.lines[0]} = {each.words}" for each in choices if each.label]
        self.asked.append((message, [*listed, text]))
        self.ctrl_c = ctrl_c
        self.anew.append(anew)
        if (act := self.before_first) and len(self.asked) == 1:
            await act()
        answer = self._answers.pop(0)
        if isinstance(answer, str):
            return chosen(answer, choices) or answer
        raise answer


class Screen:
    """Records its output."""

    def __init__(self) -> None:
        self.text = ""

    def aside(self, text: str, style: Style = "plain") -> None:
        self.text += text + "\n"

    notice = markdown = aside


class Elsewhere:
    """A person who approves the calls one after the other, in another place."""

    is_awaited = True

    def take(self, calls: Sequence[ToolCall]) -> tuple[str, Decision] | None:
        return calls[0].id, Approved()


class Dialogue:
    """A dialogue about some calls, with its output and questions."""

    def __init__(
        self, *answers: str | type[BaseException], permissions: Permissions | None = None
    ) -> None:
        self.permissions = permissions or Permissions()
        self.person = Person(*answers)
        self.screen = Screen()
        self.saved: str | None = None
        self.tools: Sequence[Tool] = ()
        self.turn = asyncio.Lock()
        self.elsewhere: Elsewhere | None = None
        self.asker = ""
        self.published: list[Event] = []
        self.recorded: dict[str, Decision] = {}

    async def decide(self, *calls: ToolCall) -> Sequence[Decision]:
        parts = DialogParts(
            questions=self.person,
            lines=self.screen,
            turn=self.turn,
            editor=None if self.saved is None else self.edit,
        )
        return await Approvals(
            parts,
            permissions=self.permissions,
            tools=self.tools,
            workspace=Path("/ws"),
            publish=self.published.append,
            asker=self.asker,
            elsewhere=self.elsewhere,
        ).decide(calls, lambda call, decision: self.recorded.update({call.id: decision}))

    async def edit(self, text: str, ending: str) -> str:
        self.opened = text, ending
        assert self.saved is not None
        return self.saved


@each_row(
    ("asker", "effect"),
    [("", "stops the run"), ("agent general", "stops the agent and any run")],
)
async def test_question_says_what_ctrl_c_stops(asker: str, effect: str) -> None:
    """At the question of an agent in the background there may be no run, and the agent stops."""
    it = Dialogue("y")
    it.asker = asker

    await it.decide(NOTE)

    assert it.person.ctrl_c == effect


async def test_change_of_a_file_is_foreseen_once_for_its_question() -> None:
    """Its rows and the words of its answers used to find it out each by itself."""
    foreseen: list[str] = []

    path = Path("a.txt").absolute()

    async def foresee(given: object, _context: ToolContext, contents: FileContents) -> None:
        foreseen.append(str(given))
        contents[str(path)] = b"as the tool leaves it\n"

    path.write_text("x\n")
    it = Dialogue("y")
    it.saved = ""
    write = tool("note", returns("done"), writes=lambda _given: [str(path)])
    it.tools = [replace(write, foresee=foresee)]
    call = replace(NOTE, input={"path": "a.txt", "content": "y\n"})

    assert await it.decide(call) == [Approved()]
    assert "    1 + as the tool leaves it\n" in it.screen.text
    [(_, answers)] = it.person.asked
    assert "e = Change the file first" in answers
    assert len(foreseen) == 1


@each_row(("at_once",), [(True,), (False,)])
async def test_question_is_shown_anew_when_its_file_changed_meanwhile(at_once: bool) -> None:
    """An allowed edit of another agent was still being written when the question was drawn."""
    it = Dialogue(*["y", "y"][not at_once :])
    call = edit_of("a = 1\nb = 2\n", it, lambda text: text.replace(b"b = 2", b"b = 20"))

    async def other_agent_writes() -> None:
        EDITED.write_text("a = 10\nb = 2\n")
        if not at_once:
            await asyncio.Event().wait()

    it.person.before_first = other_agent_writes

    assert await it.decide(call) == [Approved()]
    before, after = it.screen.text.split("app.py changed meanwhile: shown anew\n")
    assert "a = 1\n" in before
    assert "a = 10\n" in after
    # Only what was typed at a question that was closed may still be its answer.
    assert it.person.anew == [False, not at_once]


async def test_question_of_an_edit_stays_while_its_file_changes_elsewhere() -> None:
    """A log that grows was shown anew twice a second, and nothing could be answered."""
    it = Dialogue("y")
    call = edit_of("first\n", it, lambda text: text.replace(b"first", b"FIRST"))

    async def grows() -> None:
        EDITED.write_text(f"{EDITED.read_text()}one more\n")

    it.person.before_first = grows

    assert await it.decide(call) == [Approved()]
    assert "shown anew" not in it.screen.text


async def test_call_that_can_only_fail_since_its_file_changed_is_asked_about_no_more() -> None:
    """A log that grows was shown anew twice a second, for an answer that changed nothing."""
    it = Dialogue("y")
    EDITED.write_text("first\n")
    it.saved = ""
    gone = "app.py has changed since you read it, so it was not replaced. Read it first."

    async def foresee(_given: object, _context: ToolContext, contents: FileContents) -> None:
        if EDITED.read_text() != "first\n":
            raise ToolError(gone)
        contents[str(EDITED.absolute())] = b"new\n"

    async def grows() -> None:
        EDITED.write_text("first\nsecond\n")
        await asyncio.Event().wait()

    write = tool("note", returns("done"), writes=lambda _given: [str(EDITED.absolute())])
    it.tools = [replace(write, foresee=foresee)]
    it.person.before_first = grows

    call = replace(NOTE, input={"path": str(EDITED), "content": "new\n"})
    assert await it.decide(call) == [Rejected(gone)]
    assert "shown anew" not in it.screen.text


async def test_decline_counts_although_the_file_changed_meanwhile() -> None:
    """Only an answer that allows the change needs to have seen it."""
    it = Dialogue("n")
    call = edit_of("a = 1\n", it, lambda _text: b"b = 20\n")

    async def other_agent_writes() -> None:
        EDITED.write_text("a = 10\n")

    it.person.before_first = other_agent_writes

    assert await it.decide(call) == [REFUSED]


def edit_of(text: str, it: Dialogue, change: Callable[[bytes], bytes]) -> ToolCall:
    """Write *text* to `EDITED`, and return a call of a tool that edits it by *change*."""
    path = EDITED.absolute()

    async def foresee(_given: object, _context: ToolContext, contents: FileContents) -> None:
        contents[str(path)] = change(path.read_bytes())

    EDITED.write_text(text)
    write = tool("note", returns("done"), writes=lambda _given: [str(path)])
    it.tools = [replace(write, foresee=foresee)]
    return replace(NOTE, input={"path": EDITED.name, "edits": []})


async def test_approval_question_shows_call_directory_reason_and_answers() -> None:
    """Nothing is hidden, and the rules are shown as they would be stored."""
    it = Dialogue("y", permissions=Permissions(project_file=Path("/home/me/permissions.toml")))

    assert await it.decide(TOUCH) == [Approved()]
    assert it.screen.text == (
        "Run touch made\n    commands can change anything\n    in /ws\n    sandbox: none\\u202e\n"
    )
    assert it.person.asked == [
        (
            "allow? ",
            [
                "y = Yes",
                "y session = Yes, and commands that begin with `touch` this session",
                "y project = Yes, and commands that begin with `touch` in this project from now on"
                " · kept in /home/me/permissions.toml",
                "n = No",
                "decline and tell the model why",
            ],
        )
    ]


async def test_calls_are_shown_when_no_other_question_is_open() -> None:
    """Between another question and its answers, their rows would be taken for that question."""
    it = Dialogue("y")
    await it.turn.acquire()

    deciding = asyncio.create_task(it.decide(TOUCH))
    await until(lambda: it.permissions.recalled)
    shown = it.screen.text
    it.turn.release()

    assert await deciding == [Approved()]
    assert shown == ""
    assert not it.turn.locked()


async def test_calls_that_wait_for_another_question_are_answered_from_elsewhere() -> None:
    it = Dialogue()
    it.elsewhere = Elsewhere()

    async with it.turn:
        decisions = await it.decide(TOUCH, MOVE)

    assert decisions == [Approved(), Approved()]
    assert it.published == [Notice("info", "bash: allowed from elsewhere")] * 2
    assert it.screen.text == ""  # the other question is on the screen
    assert not it.turn.locked()


async def test_call_is_not_asked_about_if_the_dialog_before_stored_a_rule_that_allows_it() -> None:
    """Agents make the same call side by side; "this session" answers for all of them."""
    it = Dialogue()
    await it.turn.acquire()

    deciding = asyncio.create_task(it.decide(TOUCH))
    await until(lambda: it.permissions.recalled)
    it.permissions.remember(TOUCH)
    it.turn.release()

    assert await deciding == [Approved()]
    assert (it.person.asked, it.screen.text) == ([], "")


@each_row(
    ("answer", "decision"),
    [
        ("y", Approved()),
        ("YES", Approved()),
        (
            "/tmp is full, so no",
            Rejected("The user does not want this call to run and says: /tmp is full, so no"),
        ),
        ("n", REFUSED),
        ("no", REFUSED),
        (
            " use make ",
            Rejected("The user does not want this call to run and says: use make"),
        ),
        (KeyboardInterrupt, Rejected("The user stopped here instead of answering.", stop=True)),
    ],
)
async def test_approval_answer_is_yes_no_or_a_comment(
    answer: str | type[BaseException], decision: Decision
) -> None:
    """S2-32, S2-33: any other text is a rejection with instructions."""
    it = Dialogue(answer)

    assert await it.decide(TOUCH) == [decision]
    assert it.permissions == Permissions()


@each_row("typed", ["/diff", "/mode yolo", "!git diff", "/team:fix_2 it", "/mcp__docs__greet"])
async def test_slash_or_shell_command_is_not_taken_as_a_comment(typed: str) -> None:
    """Typing /diff first is not a refusal; a comment may begin with a path."""
    it = Dialogue(typed, "/etc/hosts is not ours")

    [decision] = await it.decide(TOUCH)

    assert it.screen.text.endswith(f"{typed}: answer this question first\n")
    assert isinstance(decision, Rejected)
    assert decision.reason.endswith("says: /etc/hosts is not ours")


async def test_end_of_input_leaves_the_calls_undecided() -> None:
    """S2-32: the call waits for the next session, whatever the answers about other calls."""
    with pytest.raises(EOFError):
        await Dialogue("1", "y", EOFError).decide(TOUCH, MOVE)


async def test_only_answers_that_apply_to_the_call_are_offered() -> None:
    """No rule, no file, no editor: only yes, no, and a comment."""
    it = Dialogue("y")

    assert await it.decide(NOTE) == [Approved()]
    assert it.person.asked == [("allow? ", ["y = Yes", "n = No", "decline and tell the model why"])]


@each_row("typed", ["y session", "Yes  Project"])
async def test_answer_that_is_not_offered_here_declines_nothing(typed: str) -> None:
    """The user said yes; as words to the model, it was a no."""
    it = Dialogue(typed, "y")

    assert await it.decide(NOTE) == [Approved()]
    assert "is not an answer here: choose one of the answers" in it.screen.text


@pytest.mark.parametrize(
    ("line", "kept"), [("y session", []), ("YES  Project ", ["bash(touch *)"])]
)
async def test_yes_for_session_or_project_stores_the_rule(line: str, kept: list[str]) -> None:
    """S4-26: for the session, or for the project too."""
    it = Dialogue(line, permissions=Permissions(project_file=Path("permissions.toml")))

    assert await it.decide(TOUCH) == [Approved()]
    assert (it.permissions.session, it.permissions.kept) == (["bash(touch *)"], kept)


async def test_rule_that_cannot_be_saved_is_reported_and_the_question_repeated() -> None:
    """Otherwise the user would believe that an unsaved rule is stored."""
    permissions = Permissions(project_file=Path("permissions.toml"), full=True)
    it = Dialogue("y project", "n", permissions=permissions)

    assert await it.decide(TOUCH) == [REFUSED]
    assert "the disk is full\n" in it.screen.text
    assert permissions.session == []


async def test_batch_of_calls_is_one_list_with_one_question() -> None:
    """Each call has a number, one yes is for all; a rule is offered only if all have one."""
    it = Dialogue("y")

    assert await it.decide(TOUCH, NOTE) == [Approved(), Approved()]
    assert it.screen.text == (
        "2 calls · in /ws\n    sandbox: none\\u202e\n"
        "  1 Run  touch made  commands can change anything\n  2 note x\n"
    )
    assert it.person.asked == [
        (
            "allow all 2? ",
            [
                "y = Yes, all 2",
                "a = One by one",
                "v = Show all of it",
                "n = None of them",
                "decline all 2 and tell the model why",
            ],
        )
    ]


async def test_reason_that_all_calls_of_a_batch_share_is_said_once() -> None:
    """Such as "4 agents are to start at once"."""
    it = Dialogue("y")

    await it.decide(TOUCH, MOVE)

    assert it.screen.text == (
        "2 calls · in /ws\n    commands can change anything\n    sandbox: none\\u202e\n"
        "  1 Run touch made\n  2 Run mv a b\n"
    )


async def test_row_of_a_batch_warns_of_what_cannot_be_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An effect that does not fit beside its call stands below it; neither is cut."""
    push, both = "git push --force", "rm -rf build dist && git push --force origin main"
    long = "x" * 50
    for columns, command, reason, shown in (
        ("80", push, TOUCH.reason, f"! 2 Run  {push}  {TOUCH.reason}\n"),
        ("44", push, TOUCH.reason, f"! 2 Run  {push}\n         {TOUCH.reason}\n"),
        ("70", push, long, f"! 2 Run  {push}\n         {long}\n"),
        ("70", both, long, f"! 2 Run  {both}\n         {long}\n"),
    ):
        monkeypatch.setenv("COLUMNS", columns)
        call = ToolCall("force", "bash", {"command": command}, reason)
        it = Dialogue("y")

        await it.decide(NOTE, call)

        assert it.screen.text.endswith(f"  1 note x\n{shown}")


async def test_call_opened_from_a_list_can_be_left_undecided() -> None:
    """The list comes again with all its calls."""
    it = Dialogue("2", "b", "a", "y", "n")

    assert await it.decide(TOUCH, MOVE) == [Approved(), REFUSED]
    assert [message for message, _ in it.person.asked] == [
        *("allow all 2? ", "allow? ", "allow all 2? "),
        *["allow? "] * 2,
    ]
    assert "b = Back to all 2" in it.person.asked[1][1]


async def test_command_is_explained_part_by_part_and_asked_about_again() -> None:
    """By a word or a key; a call that is no command has nothing to explain."""
    it = Dialogue("explain", "n")
    other = Dialogue("explain")

    assert await it.decide(TOUCH) == [REFUSED]
    assert await other.decide(NOTE) == [Rejected(unwanted_because("explain"))]
    assert it.screen.text.endswith("Part by part\n    touch  does it\n    made   does it\n")


@each_row(
    ("answers", "decisions"),
    [
        (["n"], [REFUSED] * 3),
        (["2", "n", "y"], [Approved(), REFUSED, Approved()]),
        (["3", "y", "1", "n", "n"], [REFUSED, REFUSED, Approved()]),
        (
            ["not now"],
            [Rejected("The user does not want this call to run and says: not now")] * 3,
        ),
        (
            ["1", "y", KeyboardInterrupt],
            [Rejected("The user stopped here instead of answering.", stop=True)] * 3,
        ),
    ],
)
async def test_typing_a_number_decides_one_call_and_asks_about_the_rest(
    answers: list[str | type[BaseException]], decisions: list[Decision]
) -> None:
    """The last one left needs no number."""
    assert await Dialogue(*answers).decide(TOUCH, MOVE, NOTE) == decisions


@each_row(
    ("answers", "recorded"),
    [
        (["1", "y", "n"], {TOUCH.id: Approved()}),
        (["each", "y", EOFError], {TOUCH.id: Approved()}),
        (["each", "n", "y", EOFError], {TOUCH.id: REFUSED, MOVE.id: Approved()}),
        (["1", "y session", EOFError], {TOUCH.id: Approved(), TWIN.id: Approved()}),
        (["y"], {}),
    ],
)
async def test_decisions_are_recorded_while_other_calls_wait(
    answers: list[str | type[BaseException]], recorded: dict[str, Decision]
) -> None:
    """A kill loses none; the last ones are recorded by the run that goes on."""
    it = Dialogue(*answers)

    with suppress(EOFError):
        await it.decide(TOUCH, MOVE, NOTE, *([TWIN] if TWIN.id in recorded else []))

    assert it.recorded == recorded


async def test_each_call_alone_means_one_question_for_each() -> None:
    """Enter for the second call must not allow the third one too."""
    it = Dialogue("each", "y", "n", "y")

    assert await it.decide(TOUCH, MOVE, NOTE) == [Approved(), REFUSED, Approved()]
    assert [message for message, _ in it.person.asked] == ["allow all 3? ", *["allow? "] * 3]
    assert it.screen.text.count("\n\n") == 3


async def test_each_call_alone_skips_calls_that_a_new_rule_allows() -> None:
    it = Dialogue("each", "y session", "n")

    assert await it.decide(TOUCH, TOUCH, NOTE) == [Approved(), Approved(), REFUSED]


async def test_always_for_one_call_also_approves_matching_calls_in_the_batch() -> None:
    """The same "always" need not be given four times."""
    twin = ToolCall("t1", "bash", {"command": "touch too"})
    it = Dialogue("1", "y session", "n")

    assert await it.decide(TOUCH, MOVE, twin) == [Approved(), REFUSED, Approved()]
    assert [message for message, _ in it.person.asked] == ["allow all 3? ", "allow? ", "allow? "]


async def test_always_for_the_whole_batch_stores_each_rule_once() -> None:
    """The rules of all calls are shown before they are stored."""
    permissions = Permissions(project_file=Path("permissions.toml"))
    it = Dialogue("y project", permissions=permissions)

    assert await it.decide(TOUCH, MOVE, TOUCH) == [Approved()] * 3
    [(_, listed)] = it.person.asked
    assert listed[1] == (
        "y session = Yes, all 3, and commands that begin with `touch` or `mv` this session"
    )
    assert permissions.kept == ["bash(touch *)", "bash(mv *)"]


async def test_two_digit_number_selects_a_call_of_the_batch() -> None:
    """1 is the first call, and 10 the tenth."""
    it = Dialogue("10", "n", "y")

    decisions = await it.decide(*[NOTE] * 10)

    assert decisions == [*[Approved()] * 9, REFUSED]


async def test_long_call_is_folded_and_v_shows_it_in_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Facts about it are never folded away."""
    monkeypatch.setenv("LINES", "24")
    script = ToolCall("t1", "bash", {"command": "\n".join(map(str, range(50)))}, "why not")
    it = Dialogue("v", "y")

    assert await it.decide(script) == [Approved()]
    first, whole = it.screen.text.split("Run · 50 lines\n")[1:]
    assert "42 more lines\n  > 47\n  > 48\n  > 49\n    why not\n" in first
    assert "  > 30\n" not in first
    assert "v = Show all of it" in it.person.asked[0][1]
    assert all(f"  > {number}\n" in whole for number in range(1, 50))


async def test_edited_input_is_shown_before_it_runs() -> None:
    """The saved text is the approved one; the rest of the input stays unchanged."""
    it = Dialogue("e")
    it.saved = "touch other\n"
    slow = ToolCall("t1", "bash", {"command": "touch made", "timeout": 5})

    [decision] = await it.decide(slow)

    assert it.opened == ("touch made", ".sh")
    assert decision == Approved({"command": "touch other", "timeout": 5})
    assert it.screen.text.endswith("Run touch other · as you edited it\n  timeout: 5\n")
    assert "e = Change the command first" in it.person.asked[0][1]


@each_row("saved", ["touch made\n", "touch made", "", " \n"])
async def test_unchanged_or_emptied_input_repeats_the_question(saved: str) -> None:
    """Leaving the editor is no answer."""
    it = Dialogue("e", "y")
    it.saved = saved

    assert await it.decide(TOUCH) == [Approved()]
    assert it.screen.text.endswith("nothing was changed\n")


@each_row(
    ("given", "opened", "saved", "runs"),
    [
        ({"path": "a", "content": "x\n"}, ("x\n", ".txt"), "y\n", {"path": "a", "content": "y\n"}),
        (
            {"path": "a", "edits": []},
            ('{\n  "path": "a",\n  "edits": []\n}', ".json"),
            '{"path": "b"}\n',
            {"path": "b"},
        ),
        ("text", ('"text"', ".json"), '"other"', "other"),
    ],
)
async def test_editor_opens_file_content_as_text_and_other_input_as_json(
    given: Json, opened: tuple[str, str], saved: str, runs: Json
) -> None:
    """What was saved replaces that part of the input."""
    it = Dialogue("e")
    it.saved = saved

    assert await it.decide(ToolCall("t3", "tool", given)) == [Approved(runs)]
    assert it.opened == opened


@each_row(
    ("saved", "told"),
    [
        ('{"path": ', "not run: what you saved is not valid JSON"),
        ("{}", "not run: what you saved does not fit tool: Invalid input for tool: input: 'path'"),
    ],
)
async def test_invalid_edited_input_is_reported_and_the_question_repeated(
    saved: str, told: str
) -> None:
    """One sentence says what is wrong; then the question comes again."""
    it = Dialogue("e", "n")
    it.saved = saved
    it.tools = [
        Tool(
            name="tool",
            label="Tool",
            description="Do it",
            parameters={"type": "object", "required": ["path"]},
            execute=_never,
        )
    ]

    assert await it.decide(ToolCall("t3", "tool", {"path": "a"})) == [REFUSED]
    assert told in it.screen.text


async def _never(_id: str, _given: object, _cancel: CancelToken, _context: ToolContext) -> str:
    raise AssertionError("it runs nothing")


async def test_calls_are_rejected_with_a_notice_if_nobody_can_be_asked() -> None:
    """No question, no wait."""
    it = Dialogue()
    it.person.can_ask = False

    decisions = await it.decide(TOUCH, NOTE, MOVE)

    assert [isinstance(decision, Rejected) for decision in decisions] == [True] * 3
    assert it.screen.text == (
        "bash, note skipped: cannot ask here; use --allow or --permission-mode\n"
    )
