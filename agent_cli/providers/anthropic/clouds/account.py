"""The account with a cloud: finds credentials, and makes the SDK's client for them."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

import httpx2

from agent_cli.contracts.errors import ModelError
from agent_cli.providers.anthropic.platforms import Platform, missing_package
from agent_cli.providers.anthropic.sdk_client import Sdk
from agent_cli.providers.failures import CallFailed
from agent_cli.system.records import dataclass, field

# Signing in may run one of the user's programs or ask a server.
CREDENTIALS_LIMIT_S = 60.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudCredentials:
    """Credentials for signing a request; each cloud uses its own fields.

    Attributes:
        source: Their source, for messages.
    """

    key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    project: str | None = None
    source: str = field(default="", compare=False)


class CloudAccount(Protocol):
    """One cloud's way to sign in."""

    def credentials(self) -> CloudCredentials:
        """Find credentials, or renew expiring credentials; blocks.

        Raises:
            ModelError: There are none, or they cannot be renewed; the message says how to sign in.
            ImportError: The cloud's own library is not installed.
        """
        ...

    def client(self, credentials: CloudCredentials, http: httpx2.AsyncClient) -> Sdk:
        """Make the SDK's client without any request; empty credentials are accepted.

        Raises:
            ModelError: A region, a project or a URL is missing; the message says what to set.
        """
        ...


async def signed_in(account: CloudAccount, platform: Platform) -> CloudCredentials:
    """Return fresh credentials; the caller can abandon a library that hangs.

    Raises:
        CallFailed: There are none.
    """
    try:
        async with asyncio.timeout(CREDENTIALS_LIMIT_S):
            return await _in_daemon(account.credentials)
    except ModelError as error:
        raise CallFailed(ModelError(str(error), trouble="auth"), retryable=False) from error
    except ImportError as error:
        raise CallFailed(ModelError(missing_package(platform)), retryable=False) from error
    except TimeoutError as error:
        sentence = (
            f"{platform.title}: no credentials within {CREDENTIALS_LIMIT_S:g} s;"
            f" {platform.remedies.sign_in}"
        )
        raise CallFailed(ModelError(sentence, trouble="auth"), retryable=False) from error


async def _in_daemon(work: Callable[[], T]) -> T:
    """Run *work* in a daemon thread, which does not delay the end of the program."""
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="sign in", daemon=True).start()
    return await asyncio.wrap_future(done)
