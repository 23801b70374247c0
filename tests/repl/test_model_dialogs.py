"""The model's questions to the user: the question shown, valid answers, the result sent back."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_cli.contracts.dialogs import Option, PlanApproved, PlanRefused, UserQuestion
from agent_cli.contracts.errors import UsageError
from agent_cli.repl.dialogue import Choice, DialogParts, chosen
from agent_cli.repl.model_dialogs import ModelQuestions
from tests.tables import each_row

DATABASE = UserQuestion(
    question="Which database?",
    options=[Option(label="SQLite", description="one file"), Option(label="Postgres")],
)
VERSION = UserQuestion(question="Which version?", options=[Option(label="2"), Option(label="3")])


@dataclass
class Person:
    """Types one line after the other; an exception stands for a key that ends the question."""

    answers: list[str | type[BaseException]]
    seen: list[str] = field(default_factory=list[str])
    can_ask: bool = True

    async def select(
        self,
        message: str,
        choices: Sequence[Choice],
        *,
        text: str,
        ctrl_c: str = "",
        anew: bool = False,
    ) -> Choice | str:
        self.seen += [choice.words for choice in choices]
        answer = self.answers.pop(0)
        if not isinstance(answer, str):
            raise answer
        return chosen(answer, choices) or answer

    def aside(self, text: str, style: str = "plain") -> None:
        self.seen += text.split("\n")

    notice = aside

    def markdown(self, text: str) -> None:
        self.seen += text.split("\n")


def asked(
    *answers: str | type[BaseException], saved: str | UsageError | None = None
) -> tuple[ModelQuestions, Person]:
    async def edit(_text: str, _ending: str) -> str:
        if isinstance(saved, UsageError):
            raise saved
        return saved or ""

    person = Person([*answers])
    parts = DialogParts(
        questions=person,
        lines=person,
        turn=asyncio.Lock(),
        editor=None if saved is None else edit,
    )
    return ModelQuestions(parts), person


async def test_option_is_picked_by_number_or_label_and_other_text_is_the_answer() -> None:
    """Text that matches none of the options is the answer itself."""
    for typed, answer in {"2": "Postgres", "sqlite": "SQLite", "My own": "My own"}.items():
        dialogs, person = asked(typed)

        assert await dialogs.ask([DATABASE]) == [answer]
        assert person.seen == [
            "The model asks you",
            "  │ Which database?",
            "SQLite · one file",
            "Postgres",
        ]


async def test_typed_number_picks_the_option_with_that_label() -> None:
    """If labels are numbers, a number means the label, not the position."""
    dialogs, _ = asked("3", "2")

    assert await dialogs.ask([VERSION, VERSION]) == ["3", "2"]


async def test_ctrl_c_at_a_question_of_the_model_keeps_the_answers_before_it() -> None:
    """They stand on the screen, so the user takes them for given."""
    for keys, answers in ((["1", KeyboardInterrupt], ["SQLite"]), ([KeyboardInterrupt], None)):
        dialogs, person = asked(*keys)

        assert await dialogs.ask([DATABASE, DATABASE]) == answers
        assert person.seen[-1] == "not answered"


async def test_question_of_the_model_cannot_control_the_terminal() -> None:
    """Escape sequences are shown, and no row looks like one of the program's own."""
    sly = UserQuestion(
        question="a\x1b[2J\nyou> b", options=[Option(label="x\x1b[1m"), Option(label="y")]
    )
    dialogs, person = asked("y")
    await dialogs.ask([sly])

    assert person.seen[1:4] == ["  │ a\\x1b[2J", "  │ you> b", "x\\x1b[1m"]


async def test_approved_plan_names_the_permission_mode_to_continue_in() -> None:
    """Never yolo: only `/mode` leads there."""
    for typed, mode in {"y": "auto-edit", "a": "ask"}.items():
        dialogs, person = asked(typed)
        decision = await dialogs.decide_plan("1. Do it")

        assert isinstance(decision, PlanApproved)
        assert (decision.plan, decision.mode) == ("1. Do it", mode)
        assert person.seen[:3] == ["The plan", "", "1. Do it"]
        assert "Edit the plan" not in person.seen


async def test_refused_plan_returns_the_typed_text_as_the_wanted_change() -> None:
    """Answering no, Ctrl-C or a closed terminal gives no text."""
    for answer in ("n", KeyboardInterrupt, EOFError):
        dialogs, _ = asked(answer)
        assert await dialogs.decide_plan("x") == PlanRefused()
    dialogs, _ = asked("start with the tests ")

    assert await dialogs.decide_plan("x") == PlanRefused("start with the tests")


async def test_edited_plan_is_shown_and_asked_about_again() -> None:
    """What was saved is the plan that is approved."""
    dialogs, person = asked("e", "a", saved="2. Do it well\n")

    assert await dialogs.decide_plan("1. Do it") == PlanApproved("2. Do it well", "ask")
    assert "2. Do it well" in person.seen


async def test_failed_or_empty_edit_leaves_the_plan_unchanged() -> None:
    """S1-19: one sentence, and the question is still open."""
    for saved, told in ((UsageError("no editor"), "no editor"), ("", "nothing was changed")):
        dialogs, person = asked("e", "y", saved=saved)

        assert await dialogs.decide_plan("1. Do it") == PlanApproved("1. Do it", "auto-edit")
        assert told in person.seen


async def test_question_of_the_model_waits_for_another_dialog_to_end() -> None:
    """Two questions on one terminal would overlap."""
    turn = asyncio.Lock()
    person = Person(["1"])
    dialogs = ModelQuestions(DialogParts(questions=person, lines=person, turn=turn))
    async with turn:
        asking = asyncio.create_task(dialogs.ask([DATABASE]))
        await asyncio.sleep(0)
        assert person.seen == []

    assert await asking == ["SQLite"]


FEATURES = UserQuestion(
    question="Which features?",
    header="Features \x1b[31m",
    multi_select=True,
    options=[
        Option(label="Login", description="with a password"),
        Option(label="Search"),
        Option(label="Export"),
    ],
)


@each_row(
    ("typed", "answer"),
    [
        (("1", "3", "done"), "Login, Export"),
        (("3", "1", "done"), "Login, Export"),
        (("1", "2", "1", "done"), "Search"),
        (("1, 3",), "Login, Export"),
        (("search, login",), "Search, Login"),
        (("none",), "none of these"),
        (
            (
                "2",
                "And a shop",
            ),
            "Search; And a shop",
        ),
        (("Nothing, really",), "Nothing, really"),
    ],
)
async def test_several_options_are_picked_one_by_one_or_at_once(
    typed: tuple[str, ...], answer: str
) -> None:
    """Choosing again removes an answer; free text is added to the choices."""
    dialogs, _ = asked(*typed)

    assert await dialogs.ask([FEATURES]) == [answer]


async def test_multi_select_question_shows_its_header_and_the_picked_options() -> None:
    """No row moves when one is picked: the last one is then "done", and Enter alone takes it."""
    dialogs, person = asked("1", "done")

    await dialogs.ask([FEATURES])

    assert person.seen == [
        "The model asks you · Features \\x1b[31m",
        "  │ Which features?",
        "[ ] Login · with a password",
        "[ ] Search",
        "[ ] Export",
        "None of these",
        "[x] Login · with a password",
        "[ ] Search",
        "[ ] Export",
        "Done: Login",
    ]
