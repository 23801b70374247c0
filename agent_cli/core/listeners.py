"""The listeners of an agent, called in order and unable to disturb a run; events held for them."""

from asyncio import CancelledError
from collections.abc import Callable
from inspect import (
    isasyncgenfunction,
    iscoroutine,
    iscoroutinefunction,
    isgeneratorfunction,
)

from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.events import Event, EventSink, Notice
from agent_cli.system.logger import logger, traceback_of

_log = logger(__name__)
_RUN_LATER = (iscoroutinefunction, isasyncgenfunction, isgeneratorfunction)


class Listeners:
    """Functions that are called with every event, in the order they were added."""

    def __init__(self) -> None:
        self._listeners: dict[object, EventSink] = {}

    def add(self, listener: EventSink) -> Callable[[], None]:
        """Add *listener*, also a second time; return a function that removes this addition.

        Raises:
            AgentCliError: It cannot be called, or is a coroutine or generator function, which
                nothing would run.
        """
        called = (listener, type(listener).__call__)
        if not callable(listener) or any(
            runs_later(each) for runs_later in _RUN_LATER for each in called
        ):
            raise AgentCliError(
                "a listener must be a plain function: to work longer, put the event into an"
                " asyncio.Queue that a task of yours reads"
            )
        subscription = object()
        self._listeners[subscription] = listener
        return lambda: self._listeners.pop(subscription, None) and None

    def remove(self, listener: EventSink) -> None:
        """Remove *listener* as it was added last; nothing happens if it was not."""
        for subscription, each in reversed(tuple(self._listeners.items())):
            if each == listener:
                self._listeners.pop(subscription, None)
                return

    def tell(self, event: Event) -> BaseException | None:
        """Call every listener with *event*; return an exception that must end the program, or None.

        An error is logged: a broken renderer must not stop the agent's work or its record. What is
        no `Exception`, such as KeyboardInterrupt or a test framework's failure, ends the program.
        """
        ending: BaseException | None = None
        for listener in tuple(self._listeners.values()):
            call: Callable[[Event], object] = listener
            try:
                returned = call(event)
                if iscoroutine(returned):
                    returned.close()
                    raise TypeError("a listener returned a coroutine, which nothing runs")
            except (Exception, CancelledError, GeneratorExit) as error:
                _log.error("listener failed", event_type=event.type, exception=traceback_of(error))
            except BaseException as error:
                ending = error
        return ending


class HeldEvents:
    """An event sink that holds its events back until `release`, while nobody can take them."""

    def __init__(self, publish: EventSink) -> None:
        """Hold events back; after `release` pass them to *publish*."""
        self._publish = publish
        self._early: list[Event] | None = []

    def __call__(self, event: Event) -> None:
        """Pass *event* on, or hold it back."""
        if self._early is None:
            self._publish(event)
        else:
            self._early.append(event)

    def warn(self, text: str) -> None:
        """Announce a warning."""
        self(Notice("warning", text))

    def release(self) -> None:
        """Pass on the events held back, and every event from now on."""
        early, self._early = self._early, None
        for event in early or ():
            self._publish(event)
