"""Sign answers to questions for the user's hooks, and take signed answers that arrive."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar

from agent_cli.app.startup import StartupContext
from agent_cli.contracts.dialogs import (
    QUESTION_ID,
    Approved,
    Decision,
    Picked,
    Rejected,
    first_answer,
)
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.events import Notice, ToolCall
from agent_cli.contracts.permissions import PermissionsPort
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.wording import one_line
from agent_cli.core.call_decisions import UNWANTED
from agent_cli.session_store.signed_answers import AnswerBox, AnswerKey, OpenCall, digest
from agent_cli.settings.environment import Environment
from agent_cli.settings.load import load_settings
from agent_cli.system import paths
from agent_cli.system.logger import logger
from agent_cli.trust.store import TrustStore

if TYPE_CHECKING:
    from agent_cli.hooks.event_hooks import EventHooks

_log = logger(__name__)
_KIND: Final = "elicitation_dialog"
_MESSAGE_CHARS: Final = 200

T = TypeVar("T")


class RemoteAnswers:
    """Signs the answers to a session's questions, and takes signed answers that arrive.

    Attributes:
        parks: Whether this run leaves its questions waiting.
        is_awaited: Whether the front end takes answers while it asks.
        questions: Those in words.
    """

    def __init__(
        self,
        startup: StartupContext,
        session_id: Callable[[], str],
        permissions: PermissionsPort,
        hooks: "EventHooks",
    ) -> None:
        """Sign nothing yet; without a session nothing can be answered later."""
        self.questions = RemoteQuestions(self, hooks)
        self._startup = startup
        self._session_id = session_id
        self._permissions = permissions
        self._key = AnswerKey(paths.answer_key_file())
        self._box = AnswerBox(paths.answers_dir())
        self.parks = bool(startup.arguments.park)
        self.is_awaited = False

    def signed(self, call: ToolCall, of_agent: bool) -> Mapping[str, Json]:
        """Return the fields about *call* for hooks that may answer; none if nothing takes them."""
        if not (self.is_awaited or (self.parks and not of_agent)):
            return {}
        if call.is_question or not self._session_id():
            return {}
        answers = self._signed(self._open(call), ("allow", "deny"))
        if not answers:
            return {}
        tokens, expires = answers
        is_danger = self._permissions.asked_about(call).is_danger
        return {"answers": {**tokens, "expires_at": expires}, "is_danger": is_danger}

    def signed_options(
        self, question_id: str, asked: Json, labels: Sequence[str]
    ) -> Mapping[str, Json]:
        """Return the field with a token for each of *labels*; none if nothing can be signed."""
        if not self._session_id():
            return {}
        answers = self._signed(self._question(question_id, asked), labels)
        if not answers:
            return {}
        tokens, expires = answers
        try:
            self._box.open_question(self._session_id(), question_id)
        except OSError as error:
            _log.warning("no answers taken", reason=str(error))
            return {}
        return {"answers": {"options": tokens, "expires_at": expires}}

    def _signed(
        self, asked: Callable[[], OpenCall], verdicts: Sequence[str]
    ) -> tuple[dict[str, Json], str] | None:
        """Return a token for each of *verdicts*, and when they expire; None if that fails."""
        try:
            call = asked()
            tokens = {verdict: self._key.sign(call, verdict) for verdict in verdicts}
            until = datetime.fromtimestamp(self._key.read(tokens[verdicts[0]]).expires_at_s, UTC)
        except (AgentCliError, OSError) as error:
            _log.warning("no answers signed", reason=str(error))
            return None
        return {**tokens}, until.isoformat().replace("+00:00", "Z")

    def take(self, calls: Sequence[ToolCall]) -> tuple[str, Decision] | None:
        """Return the id of one of *calls* that was answered from elsewhere, and the decision."""
        for call in calls:
            if verdict := self._taken(self._open(call), call.id):
                return call.id, Approved() if verdict == "allow" else Rejected(UNWANTED)
        return None

    def take_option(self, question_id: str, asked: Json) -> str | None:
        """Return the label that was answered to a question in words, if any."""
        return self._taken(self._question(question_id, asked), question_id)

    def close_question(self, question_id: str) -> None:
        """Take no further answer to a question in words."""
        self._box.close_question(self._session_id(), question_id)

    def _taken(self, asked: Callable[[], OpenCall], id: str) -> str | None:
        claimed = self._box.claim(self._session_id(), id)
        if claimed is None:
            return None
        file, token = claimed
        try:
            answer = self._key.read(token)
            answer.require_about(asked())
        except AgentCliError as error:
            self._box.close(file, str(error))
            return None
        self._box.close(file)
        return answer.verdict

    # What identifies the terms is read from files, so it is looked at as late as possible.

    def _open(self, call: ToolCall) -> Callable[[], OpenCall]:
        return lambda: OpenCall(
            self._session_id(), call.id, call.name, call.input, terms_of(self._startup)
        )

    def _question(self, question_id: str, asked: Json) -> Callable[[], OpenCall]:
        return lambda: OpenCall(
            self._session_id(), question_id, "question", asked, terms_of(self._startup)
        )


def terms_of(startup: StartupContext) -> str:
    """Identify the permission rules in the files of *startup*, and the trust of its workspace.

    Read anew, because another program may have changed them. The command line is left out: who
    answers need not know with which options the question was asked.

    Raises:
        SettingsError: They cannot be read.
    """
    standing = TrustStore.of_user().standing(startup.workspace)
    loaded = load_settings(
        Environment({}),
        workspace=startup.workspace,
        trusted=standing.is_trusted,
        guarded=standing.is_guarded and not standing.is_trusted,
    )
    rules: Json = [[each.kind, each.text] for each in loaded.rules]
    settings = loaded.settings
    return digest([standing.is_trusted, repr(settings.permissions), repr(settings.sandbox), rules])


# Such a question is open in one program, and nowhere on the disk: when the program ends, no token
# fits any more.
class RemoteQuestions:
    """Races the dialog at the terminal against an answer from elsewhere."""

    def __init__(self, signing: RemoteAnswers, hooks: "EventHooks") -> None:
        """Ask nothing yet."""
        self._signing = signing
        self._hooks = hooks

    async def first(
        self, dialog: Callable[[], Awaitable[T]], asker: str, text: str, labels: Sequence[str]
    ) -> T | Picked:
        """Return the answer of *dialog*, or that of *labels* which is picked elsewhere first.

        Args:
            dialog: Asks at the terminal; it is cancelled by an answer from elsewhere.
            asker: Asks *text*.
            labels: The answers that may be given; none that stores a rule.
        """
        asked: Json = [asker, text, [*labels]]
        question_id = f"{QUESTION_ID}{os.urandom(12).hex()}"
        if not self._tell(question_id, asked, asker, text, labels):
            return await dialog()

        def take() -> Picked | None:
            label = self._signing.take_option(question_id, asked)
            return None if label is None else Picked(label)

        try:
            answer = await first_answer(dialog, take)
        finally:
            self._signing.close_question(question_id)
        if isinstance(answer, Picked):
            self._hooks.publish(Notice("info", f"answered from elsewhere: {answer}"))
        return answer

    def _tell(
        self, question_id: str, asked: Json, asker: str, text: str, labels: Sequence[str]
    ) -> bool:
        if not self._signing.is_awaited or not self._hooks.gets_answers("Notification", _KIND):
            return False
        answers = self._signing.signed_options(question_id, asked, labels)
        fields: dict[str, Json] = {
            "message": one_line(f"{asker} asks: {text}", _MESSAGE_CHARS),
            "notification_type": _KIND,
        }
        about: Mapping[str, Json] = {"question": text, **answers} if answers else {}
        self._hooks.tell_answerable("Notification", _KIND, about, **fields)
        return bool(answers)
