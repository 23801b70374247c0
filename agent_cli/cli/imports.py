"""`agent-cli import`: list the setups of other agents, and translate them."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from agent_cli.app.arguments import Arguments
from agent_cli.app.imports import CANNOT, TRANSLATED, Findings, setups
from agent_cli.app.imports.setups import READERS
from agent_cli.app.startup import start
from agent_cli.contracts.errors import UsageError
from agent_cli.system import paths
from agent_cli.system.sanitize import reveal

_STYLES: Final = {TRANSLATED: "cyan", CANNOT: "yellow"}


def import_setup(arguments: Arguments) -> int:
    """Print one table of everything found, and write the translations unless `--dry-run`.

    Raises:
        UsageError: There is no such program.
        SettingsError: The import cannot be written or taken back.
    """
    programs = arguments.operands or tuple(READERS)
    for name in programs:
        if name not in READERS:
            known = ", ".join(READERS)
            raise UsageError(f"setups of {name!r} cannot be imported; those that can: {known}")
    if arguments.undo:
        for name in arguments.operands or setups.imported_programs() or programs:
            print(setups.take_back(name))
        return 0
    startup = start(arguments, may_ask=False)
    found = [READERS[name](startup) for name in programs]
    if arguments.json:
        rows = [{"program": each.program, **asdict(row)} for each in found for row in each.rows]
        print(json.dumps(rows, default=str, ensure_ascii=False, indent=2))
    else:
        _show(found, programs)
    for each in found if not arguments.dry_run else ():
        if each.rows or arguments.operands:
            print(f"{each.program}: {setups.write(each.program, each.contents())}", file=sys.stderr)
    if arguments.dry_run and any(each.rows for each in found):
        print("nothing was written: leave out --dry-run for that", file=sys.stderr)
    return 0


def _show(found: list[Findings], programs: Sequence[str]) -> None:
    from agent_cli.terminal.views import show  # rich
    from agent_cli.terminal.views.table import Column, Table

    rows = [(each.program, row) for each in found for row in each.rows]
    cells = [
        (of, row.kind, reveal(row.name), row.verdict, reveal(row.detail), paths.shown(row.path))
        for of, row in rows
    ]
    titles = ("agent", "kind", "name", "here", "how, or why not", "file")
    styles = [_STYLES.get(row.verdict, "") for _, row in rows]
    columns = [Column(title) for title in titles]
    empty = f"no setup was found of {', '.join(programs)}"
    show(Table(columns, cells, empty=empty, styles=styles), sys.stdout)
    for each in found:
        if each.rows:
            print(f"{each.program}: {each.summary()}", file=sys.stderr)
