"""Signed answers to a session's open questions, and the folder in which they reach its program.

A token answers one call of one session, once: it is no longer valid when the call is decided, or
when anything that the token was made for has changed. It does not identify the person who brings
it, and needs no network.
"""

import base64
import hashlib
import hmac
import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from agent_cli.contracts.dialogs import QUESTION_ID
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.timeline import Json
from agent_cli.system.paths import private_dir
from agent_cli.system.private_files import try_lock, write_private
from agent_cli.system.records import dataclass

VALID_S: Final = 24 * 3_600
_KEY_BYTES: Final = 32
_VERSION: Final = 1
_TOKEN_CHARS_MAX: Final = 4_000
_CLOCK_OFF_S: Final = 60
_ABANDONED_S: Final = 60
_TURN_S: Final = 30.0
_LOOK_S: Final = 0.05
_POSTED, _CLAIMED, _RESULT = ".answer", ".claimed", ".result"
_TURN, _OPEN = ".turn", ".open"
_ON_ITS_WAY: Final = "another answer to this question is on its way"


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that waits for a person.

    `terms` identifies the permission rules and the trust under which it is asked.
    """

    session_id: str
    call_id: str
    name: str
    input: Json
    terms: str

    @property
    def content(self) -> str:
        """Identify the call as the person sees it."""
        return digest([self.session_id, self.call_id, self.name, self.input])


def digest(of: Json) -> str:
    """Return a hash of *of*, the same for equal values."""
    written = json.dumps(of, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class SignedAnswer:
    """The content of a valid token.

    `verdict` is "allow" or "deny" about a call, and the picked label of a question in words.
    """

    session_id: str
    call_id: str
    verdict: str
    issued_at_s: int
    expires_at_s: int
    content: str
    terms: str

    @property
    def is_about_question(self) -> bool:
        """Whether it answers a question in words, which is nowhere on the disk."""
        return self.call_id.startswith(QUESTION_ID)

    def require_about(self, call: OpenCall) -> None:
        """Check that *call* is unchanged since the question about it.

        Raises:
            UsageError: It, the permission rules or the trust of its workspace have changed.
        """
        by_hand = f"agent-cli sessions approve {self.session_id} {self.call_id} decides"
        if self.is_about_question:
            by_hand = "answer at the terminal"
        if self.content != call.content:
            raise UsageError(f"{call.name} changed after this answer was made: {by_hand}")
        if self.terms != call.terms:
            raise UsageError(
                "the permission rules or the trust of the workspace changed after this answer was"
                f" made: {by_hand}"
            )


class AnswerKey:
    """The secret with which this machine signs; made when the first token is."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet; the file *path* is for its user alone."""
        self._path = path

    def sign(self, call: OpenCall, verdict: str, *, now_s: float | None = None) -> str:
        """Return the token that answers *call* with *verdict*.

        Raises:
            OSError: There is no key yet, and none can be written.
        """
        issued = int(time.time() if now_s is None else now_s)
        fields = (call.session_id, call.call_id, verdict, issued, issued + VALID_S)
        body = json.dumps([_VERSION, *fields, call.content, call.terms], separators=(",", ":"))
        signed = body.encode()
        return f"{_encoded(signed)}.{_encoded(_mac(self._made(), signed))}"

    def read(self, token: str, *, now_s: float | None = None) -> SignedAnswer:
        """Return the content of *token*.

        Raises:
            UsageError: This machine did not sign it, or it is not valid now.
        """
        body, _, mac = token.strip().partition(".")
        try:
            if len(token) > _TOKEN_CHARS_MAX:
                raise ValueError(token)
            signed, key = _decoded(body), self._path.read_bytes()
            if len(key) != _KEY_BYTES or not hmac.compare_digest(_mac(key, signed), _decoded(mac)):
                raise ValueError(token)
            version, *fields = json.loads(signed)
        except (ValueError, OSError):
            raise UsageError(
                "this is no answer that this machine signed: copy the whole token, and use it on"
                " the machine that asked"
            ) from None
        if version != _VERSION:
            raise UsageError("this answer was made by another version of agent-cli")
        return _valid(SignedAnswer(*fields), time.time() if now_s is None else now_s)

    def _made(self) -> bytes:
        if not self._path.exists():
            private_dir(self._path.parent)
            draft = self._path.with_name(f".{self._path.name}.{os.urandom(8).hex()}")
            write_private(draft, os.urandom(_KEY_BYTES))
            try:
                with suppress(FileExistsError):  # another program was quicker: its key counts
                    os.link(draft, self._path)
            finally:
                draft.unlink()
        return self._path.read_bytes()


def _valid(answer: SignedAnswer, now_s: float) -> SignedAnswer:
    if now_s >= answer.expires_at_s:
        raise UsageError(
            f"this answer was valid for {VALID_S // 3_600} hours and came too late: agent-cli"
            f" sessions approve {answer.session_id} {answer.call_id} decides"
        )
    if now_s < answer.issued_at_s - _CLOCK_OFF_S:
        raise UsageError("this answer is from the future: set the clock of this machine")
    return answer


def _mac(key: bytes, signed: bytes) -> bytes:
    return hmac.digest(key, b"agent-cli answer\0" + signed, "sha256")


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    """Return the bytes that *text* stands for; only one text stands for them."""
    data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if _encoded(data) != text:
        raise ValueError(text)
    return data


@dataclass(frozen=True, slots=True)
class Posted:
    """The file of a token on its way, and the file in which the program reports the outcome."""

    file: Path
    result: Path


class AnswerBox:
    """A folder for tokens on their way to the program that has the session open.

    A token is a file named after its question, so that only one is on its way. The program claims
    it by renaming it, and reports the outcome to its poster in a file of a random name.
    A question in words, which no session keeps, has a file here for as long as it is open; the
    program that asks holds its lock, which ends with it.
    """

    def __init__(self, folder: Path) -> None:
        """Make nothing yet."""
        self._folder = folder
        self._locks: dict[Path, int] = {}

    @contextmanager
    def turn(self, session_id: str) -> Generator[None]:
        """Let one process after the other decide about the questions of a session.

        Raises:
            UsageError: Another one has not ended its turn within half a minute.
            OSError: The disk does not let us.
        """
        file = private_dir(self._folder) / f"{_stem(session_id, '')}{_TURN}"
        until_s = time.monotonic() + _TURN_S
        while (descriptor := _locked(file)) is None:
            if time.monotonic() > until_s:
                raise UsageError(_ON_ITS_WAY)
            time.sleep(_LOOK_S)
        try:
            yield
        finally:
            file.unlink(missing_ok=True)
            os.close(descriptor)

    def open_question(self, session_id: str, question_id: str) -> None:
        """Say that a question in words takes answers.

        Raises:
            OSError: The disk does not let us.
        """
        self._sweep()
        file = self._question(session_id, question_id)
        if (descriptor := _locked(file)) is not None:
            self._locks[file] = descriptor

    def close_question(self, session_id: str, question_id: str) -> None:
        """Say that it takes none any more."""
        file = self._question(session_id, question_id)
        with suppress(OSError):  # it only spares the next answer its wait
            file.unlink()
        if (descriptor := self._locks.pop(file, None)) is not None:
            os.close(descriptor)

    def is_closed(self, answer: SignedAnswer) -> bool:
        """Return whether *answer* is about a question in words that takes none any more."""
        if not answer.is_about_question:
            return False
        question = self._question(answer.session_id, answer.call_id)
        if question.exists() and (descriptor := _locked(question)) is not None:
            question.unlink(missing_ok=True)  # of a program that was killed
            os.close(descriptor)
        return not question.exists()

    def _question(self, session_id: str, question_id: str) -> Path:
        return self._folder / f"{_stem(session_id, question_id)}{_OPEN}"

    def post(self, answer: SignedAnswer, token: str) -> Posted:
        """Leave *token* for the program.

        Raises:
            UsageError: Another answer to the same question is on its way.
            OSError: The disk does not let us.
        """
        self._sweep()
        path = self._folder / f"{_stem(answer.session_id, answer.call_id)}{_POSTED}"
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _ABANDONED_S:
                path.unlink()
        draft = path.with_suffix(f".{os.urandom(8).hex()}")
        result = draft.with_name(f"{draft.name}{_RESULT}")
        write_private(draft, f"{token}\n{result.name}".encode())
        try:
            os.link(draft, path)
        except FileExistsError:
            raise UsageError(_ON_ITS_WAY) from None
        finally:
            draft.unlink()
        return Posted(path, result)

    def _sweep(self) -> None:
        for file in private_dir(self._folder).iterdir():
            with suppress(OSError):  # of a program that was killed; its token is not valid now
                if time.time() - file.stat().st_mtime > VALID_S:
                    file.unlink()

    def withdraw(self, posted: Posted) -> bool:
        """Take *posted* back; return False if the program has claimed it."""
        try:
            posted.file.unlink()
        except FileNotFoundError:
            return False
        return True

    def result(self, posted: Posted) -> str | None:
        """Return why the program refused *posted*, "" if it did not; None while that is open."""
        try:
            refusal = posted.result.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        posted.result.unlink(missing_ok=True)
        return refusal

    def claim(self, session_id: str, call_id: str) -> tuple[Posted, str] | None:
        """Take the token about a call of this program; None if there is none."""
        path = self._folder / f"{_stem(session_id, call_id)}{_POSTED}"
        claimed = path.with_suffix(_CLAIMED)
        try:
            path.rename(claimed)  # the one moment: now it can no longer be withdrawn
            token, _, result = claimed.read_text(encoding="utf-8", errors="replace").partition("\n")
        except OSError:
            return None
        return Posted(claimed, self._folder / Path(result or _RESULT).name), token

    def close(self, claimed: Posted, refusal: str = "") -> None:
        """Report the outcome of a claimed token."""
        with suppress(OSError):  # it only informs; the decision counts
            write_private(claimed.result, refusal.encode())
            claimed.file.unlink()


def _locked(file: Path) -> int | None:
    """Make and lock *file*; return its descriptor, None while another process has it."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    # Without a link, it was removed after we opened it: another process may lock a new one.
    if try_lock(descriptor) and os.fstat(descriptor).st_nlink:
        return descriptor
    os.close(descriptor)
    return None


def _stem(session_id: str, call_id: str) -> str:
    return f"{session_id}-{digest(call_id)}"
