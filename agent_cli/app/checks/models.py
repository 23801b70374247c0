"""Check the models in use against the server's list: their presence, and their end date."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from agent_cli.app import parts
from agent_cli.app.checks.access import check_access
from agent_cli.app.checks.report import Check
from agent_cli.app.providers import is_listed
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.errors import AgentCliError, ModelError
from agent_cli.contracts.listings import OfferedModel
from agent_cli.contracts.provider import Model
from agent_cli.providers.anthropic.model_list import offered_models
from agent_cli.providers.anthropic.platforms import DATED_ID


async def check_models(startup: StartupContext, model: Model) -> Sequence[Check]:
    """Return a check of *model* and the models of `[models]`; none without a key."""
    if not is_listed(model):
        return ()
    try:
        check_access(startup)
    except AgentCliError:
        return ()
    try:
        offered = await offered_models(parts.connection(startup))
    except ModelError as error:
        return (Check("models", None, str(error)),)  # other servers have no such list
    if not offered:
        return (Check("models", None, "the server lists none"),)
    used = {model.id: "model", **{id: f"models.{a}" for a, id in _aliases(startup).items()}}
    faults = [*_faults(used, offered, date.today())]
    return faults or (Check("models", True, f"{len(offered)} offered, those in use among them"),)


def _faults(
    used: Mapping[str, str], offered: Sequence[OfferedModel], today: date
) -> Iterator[Check]:
    """Yield a check for each of the models *used*, ids to settings, that is going or unknown."""
    known = {name: each for each in offered for name in (DATED_ID.sub("", each.id), each.id)}
    for id, setting in used.items():
        found = known.get(id)
        if found is None:
            yield Check("models", None, f"{id} is not in the list of the server ({setting})")
        elif found.ends_soon(today):
            text = f"{id} {found.state}: name another in {setting}; agent-cli models lists them"
            yield Check("models", False, text)


def _aliases(startup: StartupContext) -> Mapping[str, str]:
    return startup.loaded.settings.models
