"""The user's output styles: Markdown files in Claude Code's format, and the one the model is told.

The style at the start of a conversation is recorded with the first request and sent after the
stable system prompt, always as recorded. A message at the end tells of a later change, and is
repeated after a summary or a message limit has removed it.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from agent_cli.contracts.authors import NOTICE
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.messages import CustomMessage
from agent_cli.contracts.timeline import (
    CompactionOutput,
    CustomOutput,
    Output,
    TrimOutput,
    UserOutput,
)
from agent_cli.contracts.wording import one_line
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import entries
from agent_cli.core.turn import Turn
from agent_cli.prompt_files import markdown_files, prompt_text, split_front_matter
from agent_cli.system.records import dataclass

STYLES_MAX: Final = 100
DEFAULT: Final = "default"
BEGUN_WITH: Final = "output_style"
CHANGED_TO: Final = "output_style_change"
_FIRST: Final = "Where this style differs from the instructions above, follow the style."


@dataclass(frozen=True, slots=True)
class OutputStyle:
    """Instructions for the model's answers; `keeps_coding` keeps its other instructions.

    `source` is the owner: "yours" or "project".
    """

    name: str
    description: str
    text: str
    keeps_coding: bool
    source: str


def find_styles(folders: Iterable[tuple[Path, str]]) -> tuple[dict[str, OutputStyle], list[str]]:
    """Return the styles in *folders* by name, and a sentence about each unusable one.

    The first style of a name counts; each folder comes with its source.
    """
    styles: dict[str, OutputStyle] = {}
    problems: list[str] = []
    for folder, source in folders:
        for path in markdown_files(folder):
            try:
                style = _read(path, source)
            except (OSError, ValueError) as error:
                problems.append(f"output style {path} is not used: {error}")
                continue
            if len(styles) < STYLES_MAX:
                styles.setdefault(style.name.lower(), style)
    return styles, problems


def _read(path: Path, source: str) -> OutputStyle:
    fields, text = split_front_matter(prompt_text(path))
    fields = fields or {}
    if not text.strip():
        raise ValueError("it says nothing")
    return OutputStyle(
        fields.get("name", "").strip() or path.stem,
        fields.get("description", ""),
        text.strip(),
        fields.get("keep-coding-instructions", "").lower() == "true",
        source,
    )


Find = Callable[[], Mapping[str, OutputStyle]]


class OutputStyles:
    """A `prepare` contributor: the active output style, and the available ones."""

    def __init__(
        self,
        find: Find,
        name: str,
        *,
        warn: Callable[[str], None],
        objection: Callable[[], str] = lambda: "",
    ) -> None:
        """Use the style *name*; if it is unknown, *warn* the user and use the default.

        Args:
            find: Returns the available styles, by name in lowercase; reads files.
            name: The name of the initial style.
            warn: Receives a sentence for the user.
            objection: Returns why no style of the project may be used, or "".
        """
        self._find, self._objection = find, objection
        self._style: OutputStyle | None = None
        try:
            self.use(name)
        except UsageError as error:
            warn(str(error))

    @property
    def current(self) -> str:
        """The name of the active style."""
        return self._style.name if self._style else DEFAULT

    def names(self) -> dict[str, str]:
        """Return the names of all styles, each with its purpose."""
        styles, _ = self._styles()
        found = {style.name: style.description or style.source for style in styles.values()}
        return {DEFAULT: "brief and exact", **found}

    def use(self, name: str) -> None:
        """Use the style *name* from the next request on.

        Raises:
            UsageError: There is no such style, or it may not be used.
        """
        if name.lower() == DEFAULT:
            self._style = None
            return
        found, refused = self._styles()
        if why := refused.get(name.lower()):
            raise UsageError(f"output style {one_line(name)} is not used: {why}")
        if name.lower() not in found:
            known = ", ".join([DEFAULT, *(style.name for style in found.values())])
            raise UsageError(f"there is no output style {one_line(name)}; there are: {known}")
        self._style = found[name.lower()]

    def _styles(self) -> tuple[Mapping[str, OutputStyle], Mapping[str, str]]:
        """Return the styles that may be used, and why each other one may not, by name."""
        found = self._find()
        why = self._objection()  # asked after reading
        refused = [name for name, style in found.items() if why and style.source == "project"]
        allowed = {name: style for name, style in found.items() if name not in refused}
        return allowed, dict.fromkeys(refused, why)

    def __call__(self, turn: Turn) -> None:
        """Send the conversation's first style; tell the model of a change."""
        conversation = turn.conversation
        if (
            _is_first_request(conversation)
            and self._style
            and not _recorded_styles(conversation)[0]
        ):
            _record(conversation, BEGUN_WITH, _text(self._style))
        begun_with, changed_to = _recorded_styles(conversation)
        if begun_with:
            turn.system.append(begun_with)
        active = _text(self._style)
        in_force = begun_with if changed_to is None else changed_to
        if active != in_force and not conversation.open_calls():
            _record(conversation, CHANGED_TO, active)
            turn.tell_model(_change(active), author=NOTICE)


def _text(style: OutputStyle | None) -> str:
    if style is None:
        return ""
    text = f"# Output style: {style.name}\n\n{style.text}"
    return text if style.keeps_coding else f"{text}\n\n{_FIRST}"


def _change(text: str) -> str:
    if not text:
        return "[agent-cli: the user chose the usual output style again: earlier ones are over.]"
    return f"[agent-cli: the user chose another output style, for all that follows:]\n{text}"


def _is_first_request(conversation: Conversation) -> bool:
    """Return whether the model has not answered in the conversation yet."""
    recorded = (CustomOutput, UserOutput)
    return len(conversation.prompts) == 1 and all(
        isinstance(output, recorded) for output in conversation.prompts[0].output
    )


def _recorded_styles(conversation: Conversation) -> tuple[str, str | None]:
    """Return the style in the system prompt, and the last change the model was told of.

    The latter is None without a change, or if its message is no longer sent to the model.
    """
    begun_with, changed_to, change = "", "", None
    for output in conversation.between_replies:
        match output:
            case CustomOutput(name=name, data={"text": str(text)}) if name == BEGUN_WITH:
                begun_with = text
            case CustomOutput(name=name, data={"text": str(text)}) if name == CHANGED_TO:
                changed_to, change = text, output
            case CompactionOutput(first_kept_id=str(kept)) | TrimOutput(first_kept_id=kept):
                change = change if change and _is_behind(conversation, change, kept) else None
            case _:
                pass
    return begun_with, changed_to if change else None


def _is_behind(conversation: Conversation, output: Output, id: str) -> bool:
    """Return whether *output* is the entry *id*, or behind it."""
    outputs = entries(conversation.prompts)
    first = next(each for each in outputs if each.id == id or each is output)
    return first.id == id


def _record(conversation: Conversation, name: str, text: str) -> None:
    conversation.note(CustomMessage(name, {"text": text}))
