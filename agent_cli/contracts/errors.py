"""Every error this program raises on purpose.

    AgentCliError
    ├── UsageError                the command line or a slash command was wrong        exit 2
    ├── SettingsError             a settings file, .env or variable was wrong          exit 2
    │   ├── NoCredentials         no key, token or profile for the model
    │   └── GuardsChanged         trusted guards of a project changed, and no one is asked exit 5
    ├── ConversationError         an operation would make the history invalid
    │   ├── AgentBusy             prompt() while a run is going on
    │   └── NothingToContinue     continue_() with nothing to answer
    ├── NoStreamFunction          neither a stream function nor a registry was given
    ├── ProviderNotFound          the registry has no provider for model.api
    ├── ModelError                the model could not be asked, or its reply was lost  exit 1
    │   ├── ContextOverflow       the prompt is larger than the model's window
    │   └── ServerDelayTooLong    the server asked for a longer wait than is allowed
    ├── LimitReached              rounds or cost                                       exit 4
    ├── ToolError                 a tool failed; the text is written for the model
    ├── PluginError               a plugin broke a rule; names the plugin
    ├── SessionError              a session could not be found, read or written
    │   └── SessionNotFound       none, or several, are what was asked for; a UsageError   exit 2
    └── Aborted                   the user stopped the run (not a failure)             exit 130

Messages say what happened, to what, and what to do now; they carry no "Error:" and no full stop.
"""

import errno
from typing import Final, Literal, TypeAlias

SEND_A_MESSAGE: Final = "; send a message to go on"
"""Ends the error of a run that a limit ended; `RunResult.ending` leaves it out."""
START_OVER: Final = "start over with a shorter message, or use a model with a larger window"
"""Advice where a request is too large and nothing in it can be left out."""
CHANGE_IT: Final = "change it, or start over"
"""Advice where the API refused a request. Where commands can be typed, both name them instead."""
ASK_AGAIN: Final = "wait a little and ask again"
"""Advice at a rate limit."""
CHECK_KEY: Final = "check ANTHROPIC_API_KEY"
CHECK_OPENAI_KEY: Final = "check OPENAI_API_KEY"
"""Advice where a key is refused; a program that runs does not read it again."""
RAISE_LIMIT: Final = "the limit, so raise that"
"""Advice where no call fits into `max_cost_usd`; the prompt says how to go on with a higher one."""
KEYS_URL: Final = "https://platform.claude.com/settings/keys"
"""The page on which a user creates an API key."""
Trouble: TypeAlias = Literal[
    "auth", "billing", "rate_limit", "overloaded", "server", "network", "disk", "guards"
]
"""A part of the world that failed, not the task: the same run may succeed later."""
_NO_THREAD: Final = "can't start new thread"  # Python has no class for it
_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS})


class AgentCliError(Exception):
    """Base of everything raised on purpose; `str(error)` is one line for a person.

    Attributes:
        stop_reason: The stop reason of a run that this error ends.
        exit_code: The exit code of a command that this error ends before or without a run.
        trouble: The part of the world that failed, or None.
    """

    stop_reason = "error"
    exit_code = 1
    trouble: Trouble | None = None

    def __reduce__(self) -> tuple[object, ...]:
        # Without a call of the constructor, which in some takes more than the text.
        return type(self).__new__, (type(self), *self.args), vars(self)


class UsageError(AgentCliError):
    """The command line or a slash command cannot be understood."""

    exit_code = 2


class SettingsError(AgentCliError):
    """A setting has an invalid value; the message names file, key, value and allowed values."""

    exit_code = 2


class NoCredentials(SettingsError):
    """A missing key, token or profile; the message says where to get a key and how to set it."""

    trouble: Trouble | None = "auth"


class GuardsChanged(SettingsError):
    """Guards of a trusted workspace changed, and a run without a person must not do without."""

    exit_code = 5
    trouble: Trouble | None = "guards"


class ConversationError(AgentCliError):
    """An operation would make the history invalid for the API."""


class AgentBusy(ConversationError):
    """A run is going on; `steer()` and `follow_up()` queue a message instead."""


class NothingToContinue(ConversationError):
    """The conversation ends with an answer and no message is queued."""


class NoStreamFunction(AgentCliError):
    """Neither `stream_fn` nor `registry` was given."""


class ProviderNotFound(AgentCliError):
    """No provider is registered for the model's api."""


class ModelError(AgentCliError):
    """The model could not be asked, or its reply was lost.

    Attributes:
        status: HTTP status, or None when no response arrived.
        request_id: The server's id of the request, or None.
        kind: The API's own error type ("overloaded_error", ...), or None.
        may_have_cost: The server may have begun to answer and may charge for it.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        kind: str | None = None,
        may_have_cost: bool = False,
        trouble: Trouble | None = None,
    ) -> None:
        super().__init__(f"{message} (request {request_id})" if request_id else message)
        self.status = status
        self.request_id = request_id
        self.kind = kind
        self.may_have_cost = may_have_cost
        self.trouble = trouble

    @property
    def meets_any_request(self) -> bool:
        """Whether the account, the way to the server or its load failed it, whatever was asked."""
        unreached = self.trouble == "network" and not self.may_have_cost
        return unreached or self.trouble in ("auth", "billing", "rate_limit", "overloaded")

    @property
    def is_passing(self) -> bool:
        """Whether time alone may mend it."""
        return self.trouble in ("rate_limit", "overloaded", "server", "network")


class ContextOverflow(ModelError):
    """The prompt does not fit into the model's context window."""

    @classmethod
    def of_reply(cls) -> "ContextOverflow":
        """Return the error for a prompt that leaves no room for a reply."""
        return cls(f"the conversation no longer fits into the model's window; {START_OVER}")


class ServerDelayTooLong(ModelError):
    """The server asked for a longer wait than `retry.max_server_delay_s` allows."""


class LimitReached(AgentCliError):
    """A limit of this run was reached.

    Attributes:
        stop_reason: "max_rounds" or "max_cost"; of a goal, "check_failed" or "blocked".
    """

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message)
        self.stop_reason = limit


class ToolError(AgentCliError):
    """A failure of a tool that the model can act on; the model reads the text unchanged."""


class PluginError(AgentCliError):
    """A plugin broke a rule; the message names it, and the field of its state if any."""


class SessionError(AgentCliError):
    """A session could not be found, read or written."""


class SessionNotFound(SessionError, UsageError):
    """No session, or more than one, is the one that was asked for."""


class Aborted(AgentCliError):
    """The run was stopped on request."""

    stop_reason = "aborted"


def without_advice(error: ModelError) -> str:
    """Return *error* without advice for who wrote the request: it was the program."""
    return str(error).replace(f"; {CHANGE_IT}", "").replace(f"; {ASK_AGAIN}", "")


def trouble_of(error: BaseException | None) -> Trouble | None:
    """Return the part of the world that failed, according to *error* or its causes."""
    seen = set[int]()
    while error is not None and id(error) not in seen:  # an error may be among its own causes
        seen.add(id(error))
        if isinstance(error, AgentCliError) and error.trouble:
            return error.trouble
        if isinstance(error, OSError) and error.errno in _DISK:
            return "disk"
        error = error.__cause__
    return None


def sentence_of(error: Exception) -> str:
    """Return *error* in one line for a person, with its type if it was not raised on purpose.

    With too few open files or threads, where anything may fail, the line names the remedy.
    """
    if isinstance(error, AgentCliError):
        return str(error)
    return shortage_of(error) or f"{type(error).__name__}: {error}"


def shortage_of(error: Exception) -> str:
    """Return which limit of the machine *error* comes from, with the remedy; "" if from none."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        where = f" ({error.filename})" if error.filename else ""
        return f"too many files are open{where}: raise the limit of your shell (`ulimit -n`)"
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return "no more threads can be started here: end some processes, or raise `ulimit -u`"
    return ""
