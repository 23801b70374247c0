"""`agent-cli answer TOKEN`: hand a signed answer to the program that asks, or to the session."""

import os
import sys
import time
from contextlib import ExitStack
from typing import Final, Literal

from agent_cli.app.hooks.remote_answers import terms_of
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.errors import ConversationError, SessionError, SessionNotFound, UsageError
from agent_cli.contracts.timeline import ToolOutput
from agent_cli.core.call_decisions import UNWANTED
from agent_cli.core.conversation import Conversation
from agent_cli.session_store import SessionStore
from agent_cli.session_store.log_file import held
from agent_cli.session_store.signed_answers import AnswerBox, AnswerKey, OpenCall, SignedAnswer
from agent_cli.system import paths

# A program that asks looks twice a second; one that ends at its question may take a few.
_TAKEN_WITHIN_S: Final = 15.0
_LOOK_S: Final = 0.1


class RemoteAnswer:
    """A valid token, and the session that it is about."""

    def __init__(self, answer: SignedAnswer, token: str, store: SessionStore) -> None:
        """Decide nothing yet."""
        self._answer = answer
        self._token = token
        self._store = store
        self._terms = ""
        self._is_of_agent = False
        self._box = AnswerBox(paths.answers_dir())
        self._turn = ExitStack()

    @classmethod
    def of(cls, token: str) -> "RemoteAnswer":
        """Read *token*; `-` takes it from stdin, so that no list of processes shows it.

        Raises:
            UsageError: It is not valid.
        """
        if token == "-":
            token = sys.stdin.readline()
        answer = AnswerKey(paths.answer_key_file()).read(token)
        return cls(answer, token.strip(), SessionStore(paths.sessions_dir()))

    @property
    def session_id(self) -> str:
        """The session of the call."""
        return self._answer.session_id

    @property
    def call_id(self) -> str:
        """The call."""
        return self._answer.call_id

    @property
    def verdict(self) -> Literal["approve", "reject"]:
        """The decision."""
        return "approve" if self._answer.verdict == "allow" else "reject"

    @property
    def reason(self) -> str | None:
        """The reason of a refusal, for the model."""
        return UNWANTED if self._answer.verdict == "deny" else None

    @property
    def sentence(self) -> str:
        """The decision in words."""
        if self._answer.is_about_question:
            return f"the answer is {self._answer.verdict}"
        decision = "allowed" if self._answer.verdict == "allow" else "declined"
        return f"{self.call_id} is {decision}"

    def is_taken(self) -> bool:
        """Hand the token to the program that has the session open; False if none has.

        Another process that answers waits until this one has ended or its session goes on.

        Raises:
            UsageError: The call does not wait any more, or the program does not take the answer.
        """
        box = self._box
        self._turn.enter_context(box.turn(self.session_id))
        self._require_undecided()
        if not self._is_open():
            self._require_on_disk()
            return False
        if box.is_closed(self._answer):
            self._require_on_disk()
        posted, until_s = box.post(self._answer, self._token), time.monotonic() + _TAKEN_WITHIN_S
        while (result := box.result(posted)) is None:
            is_late = time.monotonic() > until_s
            is_open = self._is_open()
            if (is_late or not is_open or box.is_closed(self._answer)) and box.withdraw(posted):
                self._require_undecided()
                if not is_open or box.is_closed(self._answer):
                    self._require_on_disk()
                if not is_open:
                    return False
                raise UsageError(
                    f"session {self.session_id} is open in a program that does not wait for this"
                    " answer: decide there, or once it has ended"
                )
            if time.monotonic() > until_s + _TAKEN_WITHIN_S or not self._is_open():
                self._require_undecided()  # the program claimed it, and ended before it decided
                self._require_on_disk()
                return False
            time.sleep(_LOOK_S)
        if result:
            raise UsageError(result)
        return True

    def enter_workspace(self) -> None:
        """Go to the directory in which the call is to run.

        Raises:
            UsageError: It is gone.
        """
        header = self._store.read(self.session_id).header
        workspace = header.workspace if header else ""
        try:
            os.chdir(workspace)
        except OSError as error:
            raise UsageError(f"{workspace}, where the call is to run: {error.strerror}") from error

    def require_terms(self, startup: StartupContext) -> None:
        """Check that rules and trust have not changed since the question was asked.

        Raises:
            UsageError: They have changed.
        """
        self._terms = terms_of(startup)
        history = self._store.read(self.session_id)
        self.require_waiting(Conversation(history.prompts, id=self.session_id))

    def end_turn(self) -> None:
        """Let other processes answer: this one has the session open, and they will see that."""
        self._turn.close()

    def require_waiting(self, conversation: Conversation) -> None:
        """Check that the call waits in *conversation*, as it was asked about.

        Raises:
            UsageError: It does not.
        """
        call = self._undecided(conversation)
        self._answer.require_about(
            OpenCall(self.session_id, call.tool_call_id, call.name, call.input, self._terms)
        )

    def _require_undecided(self) -> None:
        try:
            history = self._store.read(self.session_id)
        except SessionNotFound:
            raise UsageError(
                f"session {self.session_id}, whose question this answers, does not exist any more"
            ) from None
        if not self._answer.is_about_question:
            self._undecided(self._with_call(Conversation(history.prompts, id=self.session_id)))

    def _with_call(self, own: Conversation) -> Conversation:
        """Return the conversation that has the call: the session's *own*, or that of an agent."""
        if own.has_call(self.call_id):
            return own
        of_agents = self._store.of_agents(self.session_id)
        for info in of_agents.list():
            conversation = Conversation(of_agents.read(info.id).prompts, id=info.id)
            if conversation.has_call(self.call_id):
                self._is_of_agent = True
                return conversation
        return own

    def _require_on_disk(self) -> None:
        if self._is_of_agent:
            raise UsageError(
                "the call does not wait for an answer any more: the agent that asked has ended with"
                " its program"
            )
        if self._answer.is_about_question:
            raise UsageError(
                "the question does not wait for an answer any more: it was answered, or the program"
                " that asked it has ended"
            )

    def _undecided(self, conversation: Conversation) -> ToolOutput:
        try:
            call = conversation.call(self.call_id)
        except ConversationError:
            raise UsageError(f"session {self.session_id} has no call {self.call_id}") from None
        if call not in conversation.questions():
            became = f"it was {call.decision}" if call.decision else "it was withdrawn"
            raise UsageError(f"{call.name} does not wait for an answer any more: {became}")
        return call

    def _is_open(self) -> bool:
        try:
            with held(self._store.find(self.session_id)):
                return False
        except SessionError:
            return True
