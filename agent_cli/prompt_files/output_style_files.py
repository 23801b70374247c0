"""Output styles on disk, one Markdown file each, in Claude Code's format."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from agent_cli.prompt_files import front_matter
from agent_cli.prompt_files.front_matter import markdown_files
from agent_cli.system.records import dataclass

FILE_BYTES_MAX: Final = 64 * 1024
STYLES_MAX: Final = 100


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
    if path.stat().st_size > FILE_BYTES_MAX:
        raise ValueError(f"it has more than {FILE_BYTES_MAX // 1024} KB")
    fields, text = front_matter.split(path.read_text(encoding="utf-8", errors="replace"))
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
