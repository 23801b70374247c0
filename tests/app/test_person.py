"""The person decides about files that appeared beside commands."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent_cli.app.person import ModelsPerson
from agent_cli.contracts.dialogs import Option, PlanDecision, PlanRefused, UserQuestion
from agent_cli.contracts.errors import ToolError
from agent_cli.core.call_decisions import CLOSED
from tests.tables import each_row


@dataclass
class Dialogs:
    """A front end whose user gives the same *answer*, or closes the question."""

    answer: str | None
    can_ask: bool = True
    asked: list[str] = field(default_factory=list[str])

    async def ask(
        self, questions: Sequence[UserQuestion], *, asker: str = "the model"
    ) -> Sequence[str] | None:
        self.asked += [f"{asker}: {each.question}" for each in questions]
        return None if self.answer is None else [self.answer]

    async def decide_plan(self, plan: str) -> PlanDecision:
        return PlanRefused()


@each_row(
    ("answer", "can_ask", "decided"),
    [
        ("Undo", True, True),
        ("Keep", True, False),
        ("why?", True, None),
        (None, True, None),
        ("Undo", False, None),
    ],
)
async def test_person_decides_about_new_files_in_the_name_of_the_sandbox(
    answer: str | None, decided: bool | None, *, can_ask: bool
) -> None:
    """Words of the person's decide nothing; the first ten files are shown."""
    person = ModelsPerson(lambda: pytest.fail("asked for permissions"))
    person.dialogs = Dialogs(answer, can_ask)
    paths = [Path("/w", str(number), ".vscode") for number in range(12)]

    assert await person.decide_new_files(paths, Path("/state/moved")) is decided

    assert len(person.dialogs.asked) == can_ask
    for question in person.dialogs.asked:
        assert question.startswith("The sandbox: While a command ran, these appeared or changed.")
        assert question.endswith("  /w/9/.vscode\n  and 2 more")


async def test_answers_before_a_closed_question_reach_the_model() -> None:
    """It was told of no answer, and asked for what the user had chosen."""
    person = ModelsPerson(lambda: pytest.fail("asked for permissions"))
    person.dialogs = Dialogs("SQLite")
    options = [Option(label="SQLite"), Option(label="Postgres")]
    questions = [UserQuestion(question=f"Which {each}?", options=options) for each in "ab"]

    with pytest.raises(ToolError) as closed:
        await person.ask(questions)

    assert str(closed.value) == f"{CLOSED}\nThey had answered:\nWhich a?\n→ SQLite"


async def test_nobody_decides_before_a_front_end_is_up() -> None:
    person = ModelsPerson(lambda: pytest.fail("asked for permissions"))

    assert not person.can_ask
    assert await person.decide_new_files([Path("/w/.vscode")], Path("/state/moved")) is None


def test_file_that_nobody_decided_about_is_remembered_as_long_as_it_is_there(
    tmp_path: Path,
) -> None:
    person = ModelsPerson(lambda: pytest.fail("asked for permissions"))
    (tmp_path / "a").mkdir()

    person.note_undecided([tmp_path / "a", tmp_path / "gone"])
    person.note_undecided([tmp_path / "a"])

    assert person.undecided_files == [tmp_path / "a"]
