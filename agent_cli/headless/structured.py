"""Answers that must be JSON of a given schema."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, NoReturn

from agent_cli.contracts.authors import PROGRAM
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.events import Event, EventSink, MessageEnd
from agent_cli.contracts.messages import AssistantMessage, UserMessage, whole_answer
from agent_cli.contracts.timeline import Json, text_block
from agent_cli.core.agent import Agent
from agent_cli.core.incoming import checked_user_message
from agent_cli.headless.report import RunReport
from agent_cli.system.json_text import not_json
from agent_cli.system.records import dataclass

_FENCED: Final = re.compile(r"```(?:json)?[ \t]*\n(.*)\n```", re.DOTALL)


class InvalidAnswer(ValueError):
    """The answer is not JSON or does not fit the schema; the message has one line per fault."""


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """The JSON Schema of the last answer, known to be checkable."""

    schema: Mapping[str, Json]

    @classmethod
    def read(cls, source: Path | str) -> "OutputSchema":
        """Read the schema from a file, or from its own text.

        Raises:
            UsageError: The file cannot be read, or it is no schema that can be checked.
        """
        name = f"--json-schema: {source if isinstance(source, Path) else 'the text'}"
        try:
            text = source.read_text(encoding="utf-8-sig") if isinstance(source, Path) else source
            schema: Json = json.loads(text)
        except OSError as error:
            raise UsageError(f"{name} cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            is_text = isinstance(source, str)
            sentence = f"{name} is not JSON: {error}" if is_text else not_json(name, error)
            raise UsageError(sentence) from error
        if not isinstance(schema, dict):
            raise UsageError(f"{name} must hold an object, a JSON Schema")
        return cls.of(schema, name)

    @classmethod
    def of(cls, schema: Mapping[str, Json], origin: str) -> "OutputSchema":
        """Return *schema*, which *origin* gave.

        Raises:
            UsageError: It cannot be checked.
        """
        from agent_cli.contracts.schema_check import (  # 50 ms, and rare
            UncheckableSchema,
            require_valid_schema,
        )

        try:
            require_valid_schema(schema)
        except UncheckableSchema as error:
            raise UsageError(f"{origin} is no schema that can be checked: {error}") from error
        return cls(schema)

    def asked_by(self, message: object) -> UserMessage:
        """Return *message* with the instruction before what was typed, which stays last.

        Raises:
            ConversationError: It is no message, or holds nothing to send.
        """
        instruction = (
            "Your last message, when the task is done, must be one JSON value that fits this JSON"
            " Schema, and nothing else: no explanation, no code fence.\n\n"
            + json.dumps(self.schema, ensure_ascii=False)
        )
        typed = checked_user_message(message)
        return replace(typed, content=(text_block(instruction), *typed.content))

    def parse(self, answer: str) -> Json:
        """Return the value in *answer*; a code fence around the whole answer is ignored.

        Raises:
            InvalidAnswer: It is not JSON, or does not fit the schema.
        """
        from agent_cli.contracts.schema_check import (  # 50 ms, and rare
            UncheckableSchema,
            schema_faults,
        )

        text = answer.strip()
        fenced = _FENCED.fullmatch(text)
        try:
            value: Json = json.loads(fenced[1] if fenced else text, parse_constant=_no_constant)
            json.dumps(value, allow_nan=False)  # 1e999 is read as an infinite number
            faults = schema_faults(self.schema, value)
        except UncheckableSchema as error:
            raise InvalidAnswer(f"the answer cannot be checked: {error}") from error
        except (ValueError, RecursionError) as error:
            raise InvalidAnswer(f"the answer is not JSON: {error}") from error
        if faults:
            raise InvalidAnswer("\n".join(faults))
        return value

    def settle(self, answer: str, option: str) -> tuple[Json, str]:
        """Return the value in *answer*; or None, and a sentence: it does not fit *option*."""
        try:
            return self.parse(answer), ""
        except InvalidAnswer as fault:
            faults = "; ".join(str(fault).splitlines())
            return None, f"the answer does not fit {option}: {faults}"


class AnswerCheck:
    """Asks the model once for a corrected answer, in the same run and under its limits."""

    def __init__(self, schema: OutputSchema) -> None:
        self._schema = schema
        self._is_corrected = False

    def listener(self, agent: Agent) -> EventSink:
        """Return the event listener to subscribe to *agent*."""

        def listen(event: Event) -> None:
            match event:
                case MessageEnd(message=AssistantMessage(stop_reason="end_turn")):
                    if answer := whole_answer(agent.conversation.messages()):
                        self._require_fit(agent, answer.text)
                case _:
                    pass

        return listen

    def settle(self, outcome: RunReport) -> str:
        """Store the final answer's value in *outcome*, or return a sentence about its fault."""
        value, fault = self._schema.settle(outcome.text, "--json-schema")
        if fault:
            outcome.stop_reason = "invalid_output"
            return fault
        outcome.output = (value,)
        outcome.text = json.dumps(value, ensure_ascii=False)
        return ""

    def _require_fit(self, agent: Agent, answer: str) -> None:
        if self._is_corrected:
            return
        try:
            self._schema.parse(answer)
        except InvalidAnswer as fault:
            self._is_corrected = True
            agent.follow_up(UserMessage.of(_correction(fault), author=PROGRAM))


def _correction(fault: InvalidAnswer) -> str:
    """Return the message that asks for a corrected answer."""
    return (
        f"Your last message does not fit the JSON Schema:\n{fault}\n\n"
        "Answer once more with the corrected JSON value and nothing else."
    )


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")
