"""Settings of a session that the user can change: permission mode, model, and effort."""

from collections.abc import Mapping
from typing import Final, get_args

from agent_cli.acp.faults import INVALID_PARAMS, RpcFault
from agent_cli.acp.ports import Application
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.options import MODE_DESCRIPTIONS, mode_named
from agent_cli.contracts.provider import ThinkingLevel
from agent_cli.contracts.timeline import Json

MODEL: Final = "model"
EFFORT: Final = "effort"
MODE: Final = "mode"
_DEFAULT: Final = "default"
_EFFORTS: Final[Mapping[str, ThinkingLevel | None]] = {
    _DEFAULT: None,
    **{level: level for level in get_args(ThinkingLevel)},
}


def mode_state(app: Application) -> dict[str, Json]:
    """Return the modes, for clients without configuration options."""
    return {
        "currentModeId": app.permissions.mode,
        "availableModes": [
            {"id": mode, "name": mode.capitalize(), "description": what.capitalize()}
            for mode, what in MODE_DESCRIPTIONS.items()
        ],
    }


def config_options(app: Application) -> list[Json]:
    """Return every option with its current value."""
    state = app.agent.state
    now = state.model.id if state.model else ""
    models = {id: f"{alias} ({id})" for alias, id in app.models.items()}
    modes = {str(mode): mode.capitalize() for mode in MODE_DESCRIPTIONS}
    return [
        _select(MODE, "Mode", MODE, app.permissions.mode, modes),
        _select(MODEL, "Model", MODEL, now, {now: now, **models}),
        _select(
            EFFORT,
            "Effort",
            "thought_level",
            state.thinking_level or _DEFAULT,
            {level: level.capitalize() for level in _EFFORTS},
        ),
    ]


async def set_option(app: Application, id: str, value: str | bool) -> None:
    """Set the option *id*.

    Raises:
        RpcFault: There is no such option or value.
    """
    match id, value:
        case "mode", str(mode):
            set_mode(app, mode)
        case "model", str(name):
            try:
                await app.switch_model(name, source="sdk", confirm=_nobody_confirms)
            except UsageError as error:
                raise RpcFault(INVALID_PARAMS, str(error)) from error
        case "effort", str(level) if level in _EFFORTS:
            app.agent.set_thinking_level(_EFFORTS[level])
        case _:
            raise RpcFault(INVALID_PARAMS, f"there is no value {value!r} of an option {id!r}")


async def _nobody_confirms(_reason: str) -> bool:
    return False


def set_mode(app: Application, id: str) -> None:
    """Set the permission mode.

    Raises:
        RpcFault: There is no such mode.
    """
    mode = mode_named(id)
    if mode is None:
        known = ", ".join(MODE_DESCRIPTIONS)
        raise RpcFault(INVALID_PARAMS, f"there is no mode {id!r}; there are: {known}")
    app.permissions.mode = mode


def _select(
    id: str, name: str, category: str, value: str, choices: Mapping[str, str]
) -> dict[str, Json]:
    return {
        "type": "select",
        "id": id,
        "name": name,
        "category": category,
        "currentValue": value,
        "options": [{"value": key, "name": label} for key, label in choices.items()],
    }
