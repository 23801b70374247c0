"""One session: write every change of its conversation to its file before anything else sees it."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from agent_cli.contracts.errors import SessionError
from agent_cli.contracts.events import Event, PromptStarted
from agent_cli.contracts.messages import now_ms
from agent_cli.contracts.timeline import NO_USAGE, Prompt, Usage
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import usage_of
from agent_cli.session_store.blobs import Blobs
from agent_cli.session_store.codec import JsonObject, usage_fields
from agent_cli.session_store.history import blobs_folder
from agent_cli.session_store.log_file import LogFile
from agent_cli.session_store.records import Header, record_of, renamed, retold, rewound
from agent_cli.system.paths import private_dir

Tell = Callable[[str], None]


class Session:
    """The record of one conversation; subscribe `record` to its events before other listeners.

    The file is created with the first record, or by `keep`. A write error is reported once through
    `tell`, and so is a deleted file; unwritten records are kept and written, in order, as soon as
    writing works again.

    Attributes:
        header: The session's id, workspace and origin.
        path: Its file; it may not exist yet.
    """

    def __init__(
        self,
        header: Header,
        path: Path,
        tell: Tell,
        *,
        log: LogFile | None = None,
        prompts: Iterable[Prompt] = (),
        taken_back: Usage = NO_USAGE,
    ) -> None:
        self.header = header
        self.path = path
        self._tell = tell
        self._log = log
        self._blobs = Blobs(blobs_folder(path))
        self._prompts = {prompt.id: prompt for prompt in prompts}
        self._saved_usage = {prompt.id: prompt.usage for prompt in self._prompts.values()}
        self._taken_back = taken_back
        self._unsaved: list[JsonObject] = []
        self._refused = self._is_deleted = False

    @property
    def id(self) -> str:
        """The session's id, which is the conversation's."""
        return self.header.id

    @property
    def is_behind(self) -> bool:
        """Whether a part of the conversation is not saved."""
        return self._refused

    def record(self, event: Event) -> None:
        """Save the change of *event*, if it is one of this conversation. Never raises."""
        found = record_of(event)
        if found is None:
            return
        record, sync = found
        if isinstance(event, PromptStarted):
            self._prompts[event.prompt.id] = event.prompt
        elif record["prompt"] not in self._prompts:
            return  # late work of the conversation before this one, or of a rewound prompt
        self._save([self._with_usage(record)], sync=sync)

    def rewind(self, prompt_id: str) -> Conversation:
        """Remove a prompt and everything after it; return the conversation before it.

        The file keeps everything. Do not use the old conversation any more.

        Raises:
            SessionError: There is no such prompt.
        """
        if prompt_id not in self._prompts:
            raise SessionError(f"session {self.id} has no prompt {prompt_id}")
        prompts = [*self._prompts.values()]
        first = [*self._prompts].index(prompt_id)
        self._taken_back = usage_of(prompts[first:], self._taken_back)
        self._prompts = {prompt.id: prompt for prompt in prompts[:first]}
        self._save([rewound(prompt_id)], sync=True)
        conversation = Conversation(prompts[:first], id=self.id, user_id=self.header.user_id)
        conversation.taken_back = self._taken_back
        return conversation

    def rename(self, name: str) -> None:
        """Name the session; it is written with its first prompt if nothing was said yet."""
        if self._log is None:
            self._unsaved.append({"at": now_ms(), **renamed(name)})
        else:
            self._save([renamed(name)], sync=True)

    def begin(self, prompts: Iterable[Prompt] = ()) -> None:
        """Write the header into a new file, and the existing content of the conversation."""
        self._unsaved.append(self.header.to_record())
        records: list[JsonObject] = []
        for event in retold(prompts):
            if isinstance(event, PromptStarted):
                self._prompts[event.prompt.id] = event.prompt
            found = record_of(event)
            records += [self._with_usage(found[0])] if found else []
        self.mend(records)

    def keep(self) -> None:
        """Create the file although nothing was said yet, so that the id can be resumed."""
        if self._log is None:
            self._save((), sync=True)

    def mend(self, records: Sequence[JsonObject]) -> None:
        """Save the records that repair what an earlier process left open."""
        if records:
            self._save(records, sync=True)

    def catch_up(self) -> None:
        """Try once more to write what could not be saved; `is_behind` says whether it is now."""
        if self._refused:
            self._save([], sync=True)

    def close(self) -> None:
        """Write pending records and release the session's lock."""
        self.catch_up()
        if self._log:
            self._log.close()
            self._log = None

    def _with_usage(self, record: JsonObject) -> JsonObject:
        """Add the prompt's usage if it has changed: not every cost has an event of its own."""
        prompt_id = record["id"] if record["kind"] == "prompt" else record["prompt"]
        usage = self._prompts[prompt_id].usage
        if usage != self._saved_usage.get(prompt_id, Usage()):
            self._saved_usage[prompt_id] = usage
            return record | usage_fields(usage)
        return record

    def _save(self, records: Iterable[JsonObject], *, sync: bool) -> None:
        self._unsaved += [{"at": now_ms(), **record} for record in records]
        if self._refused and not sync:
            return  # retrying on a full disk with every entry would be slow
        try:
            self._write(sync=sync)
        except OSError as error:
            if not self._refused:
                self._refused = True
                self._tell(
                    f"the session is no longer being saved: {error.strerror} ({self.path});"
                    " it is kept in memory, and saved once it can be written"
                )
            return
        if self._refused:
            self._refused = False
            self._tell("the session is being saved again, with all that was missing")
        self._tell_if_deleted()

    def _tell_if_deleted(self) -> None:
        """Tell once that somebody deleted the file: it may be meant, so it is not made again."""
        if self._is_deleted or self._log is None or not self._log.is_deleted:
            return
        self._is_deleted = not self.path.exists()
        if self._is_deleted:
            self._tell(
                f"the file of this session was deleted ({self.path}): it is no longer saved, and"
                " cannot be resumed; a new session is saved again"
            )

    def _write(self, *, sync: bool) -> None:
        if self._log is None:
            private_dir(self.path.parent)
            self._log = LogFile.create(self.path)
        with self._blobs.moved_out(self._unsaved) as packed:
            self._log.append(packed, sync=sync)
        self._unsaved = []
