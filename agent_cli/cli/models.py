"""`agent-cli models`: the models the server offers, and when each retires."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict

from agent_cli.app import parts
from agent_cli.app.arguments import Arguments
from agent_cli.app.checks import check_access
from agent_cli.app.models import is_listed
from agent_cli.app.startup import start
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.listings import OfferedModel
from agent_cli.providers.anthropic.model_list import offered_models
from agent_cli.system.event_loop import run_loop


def list_models(arguments: Arguments) -> int:
    """Print the models as a table, a line each on a pipe, or as JSON.

    Raises:
        ModelError: The server cannot be asked, or has no such list.
    """
    startup = start(arguments, may_ask=False)
    check_access(startup)
    if not is_listed(parts.model(startup)):
        wire_api = startup.loaded.settings.provider.wire_api
        raise UsageError(
            f'provider.wire_api is "{wire_api}": ask its server for the list, at /models'
        )
    offered = run_loop(offered_models(parts.connection(startup)))
    aliases = startup.loaded.settings.models
    if arguments.json:
        found = [{**asdict(each), "aliases": _of(each, aliases)} for each in offered]
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
            ", ".join(_of(model, aliases)),
            model.name,
            _count(model.context_window),
            _count(model.max_output_tokens),
            model.state,
        )
        for model in offered
    ]
    show(Table(columns, rows, empty="the server offers no models"), sys.stdout)
    return 0


def _of(model: OfferedModel, aliases: Mapping[str, str]) -> list[str]:
    return [alias for alias, id in aliases.items() if id == model.id]


def _count(tokens: int | None) -> str:
    return "" if tokens is None else f"{tokens:,}"
