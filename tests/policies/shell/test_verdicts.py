"""The effect of each entry of the tables of known commands, pinned in `verdicts.txt`.

The file lists the scripts below their verdicts, so a table that loses or gains an entry shows as
moved lines. After an intended change:

    python -m tests.policies.shell.test_verdicts
"""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_cli.policies.shell import CommandRules, Reach, judge, session_prefixes
from tests.policies.shell.workspaces import Workspace, is_secret, make_workspace

FILE = Path(__file__).with_name("verdicts.txt")
# A zero byte makes tools take the file for binary, and was lost by one of them.
_AS_SIGNS = str.maketrans("\n\0", "⏎␀")
_FROM_SIGNS = str.maketrans("⏎␀", "\n\0")


def pinned() -> Iterator[tuple[str, str]]:
    """Yield each script of the file with its pinned verdict."""
    said = ""
    for line in FILE.read_text(encoding="utf-8").removesuffix("\n").split("\n"):
        if line.startswith("    "):
            yield line[4:].translate(_FROM_SIGNS), said
        else:
            said = line


def verdict_on(script: str, workspace: Workspace) -> str:
    """Return the verdict on *script*, and the offer of "always this session" for it."""
    reach = Reach(
        root=workspace.root,
        is_secret=is_secret,
        git_is_safe=True,
        secrets_are_masked=True,
        search_path="/nowhere",  # so that the programs installed here do not matter
        home="/home/somebody",
    )
    judged, offered = judge(script, CommandRules(), reach), session_prefixes(script, reach)
    parts = [
        f"{judged.verdict}: {judged.reason}",
        f"read as {judged.construct}" if judged.construct else "",
        f"offers {', '.join(offered)}" if offered else "",
        f"seen: {' ; '.join(judged.commands)}" if judged.commands != (script,) else "",
    ]
    said = " · ".join(part for part in parts if part)
    return said.replace(str(workspace.root.parent), "…").translate(_AS_SIGNS)


def write(scripts: Sequence[str], workspace: Workspace) -> None:
    """Rewrite the file."""
    by_verdict: dict[str, list[str]] = {}
    for script in scripts:
        by_verdict.setdefault(verdict_on(script, workspace), []).append(script)
    lines = [
        line
        for said, those in sorted(by_verdict.items())
        for line in (said, *(f"    {script}".translate(_AS_SIGNS) for script in sorted(those)))
    ]
    FILE.write_text("\n".join([*lines, ""]), encoding="utf-8")


def test_each_known_command_is_judged_as_pinned(tmp_path: Path) -> None:
    """Threats 1 to 13: which commands run without approval, which ask and why, and the offers."""
    workspace = make_workspace(tmp_path)

    changed = [
        (script, said, now)
        for script, said in pinned()
        if (now := verdict_on(script, workspace)) != said
    ]

    assert changed == []


def test_pinned_commands_are_over_4900_without_duplicates() -> None:
    """Every table entry is in one of the commands; a new entry needs a new line."""
    scripts = [script for script, _ in pinned()]

    assert len(set(scripts)) == len(scripts) > 4_900


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write([script for script, _ in pinned()], make_workspace(Path(folder)))
