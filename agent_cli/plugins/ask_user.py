"""Two tools that wait for the person: multiple-choice questions, and a plan to approve.

The program decides how to ask and what an approval changes; see `Person`.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Final, Protocol

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.dialogs import Option, UserQuestion
from agent_cli.contracts.late_models import AliasChoices, BaseModel, ConfigDict, Field
from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult, without_docstring
from agent_cli.plugins.api import Plugin

_PLAN_CHARS_MAX: Final = 40_000
_MARKS: Final = re.compile(r"^[ \t]*(?:#+|[-+*>]|\d+[.)])(?=[ \t]|$)|[*`]+")
_LEAN: Final = ConfigDict(json_schema_extra=without_docstring)


class OptionInput(BaseModel):
    """One answer to pick."""

    model_config = _LEAN

    label: str
    description: str = ""


class QuestionInput(BaseModel):
    """One question; see `UserQuestion`."""

    model_config = _LEAN

    question: str
    header: str = ""
    # The second name is used by other agents; models know it.
    multi_select: bool = Field(
        default=False, validation_alias=AliasChoices("multi_select", "multiSelect")
    )
    options: Annotated[list[OptionInput], Field(min_length=2, max_length=4)]

    def question_for_person(self) -> UserQuestion:
        """Return the question as dialogs show it."""
        return UserQuestion(
            question=self.question,
            options=tuple(Option(each.label, each.description) for each in self.options),
            header=self.header,
            multi_select=self.multi_select,
        )


class AskInput(BaseModel):
    """The input of `ask_user`."""

    model_config = _LEAN

    questions: Annotated[list[QuestionInput], Field(min_length=1, max_length=4)]


class PlanInput(BaseModel):
    """The input of `present_plan`; a length limit on the field would cost tokens in the schema."""

    model_config = ConfigDict(str_max_length=_PLAN_CHARS_MAX, json_schema_extra=without_docstring)

    plan: str


class Person(Protocol):
    """The person using the program; both methods raise `ToolError` if no one is present."""

    async def ask(self, questions: Sequence[UserQuestion]) -> Sequence[str]:
        """Return an answer to each question, in order."""
        ...

    async def present(self, plan: str, *, again: bool) -> str:
        """Ask for a decision about *plan* and return the answer for the model.

        *again*: a program that ended has asked before, in plan mode.
        """
        ...


def ask_user(person: Person) -> Plugin:
    """Return the plugin that offers `ask_user`."""

    async def ask(
        _call_id: str, params: AskInput, _cancel: CancelToken, _context: ToolContext
    ) -> ToolResult:
        answers = await person.ask([each.question_for_person() for each in params.questions])
        pairs = zip(params.questions, answers, strict=True)
        return ToolResult.of("\n".join(f"{each.question}\n→ {answer}" for each, answer in pairs))

    tool = Tool(
        name="ask_user",
        label="Ask",
        description="Ask what only the user can know or decide.",
        parameters=AskInput,
        execute=ask,
        parallel_safe=False,  # one dialog at a time
        takes_slot=False,
        changes=False,
        asks_person=True,
        timeout_s=0,  # people may take their time; Ctrl-C ends the question
        summary=lambda params: params.questions[0].question,
    )
    return Plugin(name="ask_user", tools=(tool,))


def present_plan(person: Person) -> Plugin:
    """Return the plugin that offers `present_plan`."""

    async def present(
        _call_id: str, params: PlanInput, _cancel: CancelToken, context: ToolContext
    ) -> str:
        # Approved calls without a question of their own: the program ended at the first question.
        return await person.present(params.plan, again=context.is_approved)

    tool = Tool(
        name="present_plan",
        label="Plan",
        description="In plan mode: show your finished plan (Markdown) for approval.",
        parameters=PlanInput,
        execute=present,
        parallel_safe=False,
        takes_slot=False,
        changes=False,
        asks_person=True,
        timeout_s=0,
        summary=lambda params: _title(params.plan),
    )
    return Plugin(name="present_plan", tools=(tool,))


def _title(plan: str) -> str:
    """Return the first line of *plan* with content, without marks of Markdown."""
    lines = (_MARKS.sub("", row).strip() for row in plan.splitlines())
    return next((line for line in lines if line and line.casefold() != "plan"), "")
