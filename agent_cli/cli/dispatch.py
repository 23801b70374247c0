"""Run the command that was parsed. Imported late: `--version` and `--help` do not need it."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from agent_cli.app.arguments import Arguments
from agent_cli.app.startup import start
from agent_cli.cli.conversations import answer, decide, open_repl, play_demo, print_answer
from agent_cli.contracts.errors import UsageError
from agent_cli.system import paths
from agent_cli.system.event_loop import run_loop
from agent_cli.terminal.sanitize import reveal
from agent_cli.terminal.writer import print_complaint

if TYPE_CHECKING:
    from agent_cli.app.imports import Findings


def _doctor(arguments: Arguments) -> int:
    from agent_cli.app.checks.doctor import examine

    return run_loop(examine(start(arguments, may_ask=False)))


def _config_show(arguments: Arguments) -> int:
    from agent_cli.settings.show import show_settings

    startup = start(arguments, may_ask=False)
    if arguments.json:
        from agent_cli.settings.show import settings_as_json

        print(settings_as_json(startup.loaded, startup.environment))
    else:
        from agent_cli.terminal.views import show  # rich
        from agent_cli.terminal.views.texts import SourceText

        shown = show_settings(startup.loaded, startup.environment, with_origin=arguments.origin)
        show(SourceText(shown, "toml"), sys.stdout)
    for notice in startup.notices:
        print_complaint(notice)
    return 0


def _config_example(_arguments: Arguments) -> int:
    from agent_cli.settings.show import example_text
    from agent_cli.terminal.views import show  # rich
    from agent_cli.terminal.views.texts import SourceText

    show(SourceText(example_text(), "toml"), sys.stdout)
    return 0


def _trust(arguments: Arguments) -> int:
    from agent_cli.cli.permissions import trust

    return trust(arguments)


def _models(arguments: Arguments) -> int:
    """Print the models as a table, a line each on a pipe, or as JSON.

    Raises:
        ModelError: The server cannot be asked, or has no such list.
    """
    from agent_cli.app import parts
    from agent_cli.app.checks import check_access
    from agent_cli.app.models import is_listed
    from agent_cli.providers.anthropic.model_list import offered_models

    startup = start(arguments, may_ask=False)
    check_access(startup)
    if not is_listed(parts.model(startup)):
        wire_api = startup.loaded.settings.provider.wire_api
        raise UsageError(
            f'provider.wire_api is "{wire_api}": ask its server for the list, at /models'
        )
    offered = run_loop(offered_models(parts.connection(startup)))
    aliases = startup.loaded.settings.models
    of = [[alias for alias, name in aliases.items() if name == model.id] for model in offered]
    if arguments.json:
        import json

        found = [{**asdict(each), "aliases": own} for each, own in zip(offered, of, strict=True)]
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
        return 0
    from agent_cli.terminal.views import show  # rich
    from agent_cli.terminal.views.table import Column, Table

    columns = [
        Column("id", whole=True),
        Column("alias"),
        Column("name"),
        Column("window", right=True),
        Column("output", right=True),
        Column("state"),
    ]
    rows = [
        (
            model.id,
            ", ".join(own),
            model.name,
            _count(model.context_window),
            _count(model.max_output_tokens),
            model.state,
        )
        for model, own in zip(offered, of, strict=True)
    ]
    show(Table(columns, rows, empty="the server offers no models"), sys.stdout)
    return 0


def _count(tokens: int | None) -> str:
    return "" if tokens is None else f"{tokens:,}"


def _sessions(arguments: Arguments) -> int:
    from agent_cli.cli import sessions

    return sessions.COMMANDS[arguments.command](arguments)


def _batch(arguments: Arguments) -> int:
    from agent_cli.cli.batch import run_batch

    return run_batch(arguments)


def _hooks(arguments: Arguments) -> int:
    from agent_cli.cli.hooks import run

    return run(arguments.operands, start(arguments, may_ask=False))


def _import(arguments: Arguments) -> int:
    """Print one table of everything found, and write the translations unless `--dry-run`.

    Raises:
        UsageError: There is no such program.
        SettingsError: The import cannot be written or taken back.
    """
    from agent_cli.app.imports import setups
    from agent_cli.app.imports.setups import READERS

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
        import json

        rows = [{"program": each.program, **asdict(row)} for each in found for row in each.rows]
        print(json.dumps(rows, default=str, ensure_ascii=False, indent=2))
    else:
        _show_setups(found, programs)
    for each in found if not arguments.dry_run else ():
        if each.rows or arguments.operands:
            print(f"{each.program}: {setups.write(each.program, each.contents())}", file=sys.stderr)
    if arguments.dry_run and any(each.rows for each in found):
        print("nothing was written: leave out --dry-run for that", file=sys.stderr)
    return 0


def _show_setups(found: "Sequence[Findings]", programs: Sequence[str]) -> None:
    from agent_cli.app.imports import CANNOT, TRANSLATED
    from agent_cli.terminal.views import show  # rich
    from agent_cli.terminal.views.table import Column, Table

    rows = [(each.program, row) for each in found for row in each.rows]
    cells = [
        (of, row.kind, reveal(row.name), row.verdict, reveal(row.detail), paths.shown(row.path))
        for of, row in rows
    ]
    titles = ("agent", "kind", "name", "here", "how, or why not", "file")
    colours = {TRANSLATED: "cyan", CANNOT: "yellow"}
    styles = [colours.get(row.verdict, "") for _, row in rows]
    columns = [Column(title) for title in titles]
    empty = f"no setup was found of {', '.join(programs)}"
    show(Table(columns, cells, empty=empty, styles=styles), sys.stdout)
    for each in found:
        if each.rows:
            print(f"{each.program}: {each.summary()}", file=sys.stderr)


def _plugins(arguments: Arguments) -> int:
    from agent_cli.cli.plugins import plugins

    return plugins(arguments)


def _undo(arguments: Arguments) -> int:
    from agent_cli.cli.undo import undo

    return undo(arguments)


def _complete(arguments: Arguments) -> int:
    from agent_cli.cli.completion import complete

    return complete(arguments)


def _explain(arguments: Arguments) -> int:
    from agent_cli.cli.permissions import explain

    tool, given = arguments.operands
    explanation = explain(start(arguments, may_ask=False), tool, given)
    if arguments.json:
        print(explanation.as_json())
        return 0
    from agent_cli.terminal.views import show  # rich

    show(explanation, sys.stdout)
    return 0


def serve_editor(arguments: Arguments) -> int:
    """Serve an editor over stdin and stdout."""
    from agent_cli.acp.process import serve_process
    from agent_cli.app.served import EditorProgram

    if arguments.continue_session or arguments.resume is not None or arguments.fork is not None:
        raise UsageError("the editor chooses the session: remove --continue, --resume or --fork")
    if sys.stdin.isatty():
        print("waiting for an editor's JSON-RPC on stdin; docs/acp.md says how", file=sys.stderr)
    program = EditorProgram(arguments)
    with program.logging():
        return run_loop(serve_process(program))


def mcp(arguments: Arguments) -> int:
    """Run a command about MCP servers, or serve as one."""
    if arguments.operands[0] == "serve":
        from agent_cli.cli.mcp.serving import serve

        return serve(arguments.operands[1:], arguments)
    from agent_cli.app import logs
    from agent_cli.app.mcp import configured_servers, inherited_environment, is_strangers
    from agent_cli.cli.mcp import CommandContext, command_line
    from agent_cli.system.redaction import Redactor

    startup = start(arguments, may_ask=False)
    for notice in startup.notices:
        print_complaint(notice)
    sinks = logs.configure(startup.loaded.settings.logging, Redactor.of(startup.environment))
    around = CommandContext(
        environment=inherited_environment(startup),
        configured=lambda: list(configured_servers(startup)),
        workspace=startup.workspace,
        is_strangers=lambda path: is_strangers(path, startup),
        out=sys.stdout,
        err=sys.stderr,
    )
    try:
        return command_line.run(arguments.operands, around)
    finally:
        sinks.close()


COMMANDS: dict[str, Callable[[Arguments], int]] = {
    "repl": open_repl,
    "print": print_answer,
    "demo": play_demo,
    "doctor": _doctor,
    "config show": _config_show,
    "config example": _config_example,
    "trust": _trust,
    "models": _models,
    **dict.fromkeys(
        (f"sessions {verb}" for verb in ("list", "search", "show", "export", "verify", "delete")),
        _sessions,
    ),
    **dict.fromkeys(("sessions approve", "sessions reject"), decide),
    "answer": answer,
    "replay": _sessions,
    "permissions explain": _explain,
    "acp": serve_editor,
    "batch": _batch,
    "completion": _complete,
    "hooks": _hooks,
    "import": _import,
    "mcp": mcp,
    "plugins": _plugins,
    "undo": _undo,
}
