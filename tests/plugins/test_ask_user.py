"""The two tools that wait for the person, with one who answers at once."""

from collections.abc import Sequence

from agent_cli.contracts.dialogs import Option, UserQuestion
from agent_cli.contracts.timeline import Json
from agent_cli.plugins.ask_user import ask_user, present_plan
from tests.fakes import calls, says, tool_use
from tests.plugins.contributing import Contributing, tool_results
from tests.tables import each_row

OPTIONS: Json = [{"label": "SQLite", "description": "one file"}, {"label": "Postgres"}]
CHOICES = (Option("SQLite", "one file"), Option("Postgres"))


class Person:
    """Answers each question with its number, and approves every plan."""

    def __init__(self) -> None:
        self.asked: list[UserQuestion] = []
        self.plans: list[str] = []

    async def ask(self, questions: Sequence[UserQuestion]) -> Sequence[str]:
        self.asked += questions
        return [f"answer {number}" for number, _ in enumerate(questions, 1)]

    async def present(self, plan: str, *, again: bool) -> str:
        self.plans.append(plan)
        return "Approved."


async def called(name: str, given: Json) -> tuple[Person, str]:
    """Return the person and the result of one call."""
    person = Person()
    plugins = [ask_user(person), present_plan(person)]
    run = Contributing(plugins, calls(tool_use(name, given)), says("done"))
    await run.prompt()
    [result] = tool_results(run)
    return person, result


async def test_each_question_stands_above_its_answer() -> None:
    questions: Json = [
        {"question": "Which database?", "options": OPTIONS},
        {"question": "Which tests?", "header": "Tests", "multiSelect": True, "options": OPTIONS},
        {"question": "Which files?", "multi_select": True, "options": OPTIONS},
    ]

    person, result = await called("ask_user", {"questions": questions})

    assert result == (
        "Which database?\n→ answer 1\nWhich tests?\n→ answer 2\nWhich files?\n→ answer 3"
    )
    assert person.asked == [
        UserQuestion(question="Which database?", multi_select=False, options=CHOICES),
        UserQuestion(question="Which tests?", header="Tests", multi_select=True, options=CHOICES),
        UserQuestion(question="Which files?", multi_select=True, options=CHOICES),
    ]
    assert [each.multi_select for each in person.asked] == [False, True, True]


@each_row("length", [40_000, 40_001])
async def test_plan_is_presented_up_to_the_length_that_a_person_may_read(length: int) -> None:
    """The model reads the limit, and shortens the plan."""
    person, result = await called("present_plan", {"plan": "p" * length})

    if length == 40_000:
        assert (result, person.plans) == ("Approved.", ["p" * length])
    else:
        assert "at most 40000 characters" in result
        assert person.plans == []
