"""Slash commands and settings of a session that the client offers to its user."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple, get_args

from agent_cli.acp import INVALID_PARAMS, RpcFault
from agent_cli.acp.ports import Application
from agent_cli.acp.schema import PromptBlock, TextBlock
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.options import EFFORT_ALIASES, ThinkingLevel
from agent_cli.contracts.permission_modes import MODE_DESCRIPTIONS, mode_named
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.wording import one_line
from agent_cli.system.sanitize import reveal

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
        case "effort", str(level) if (level := EFFORT_ALIASES.get(level, level)) in _EFFORTS:
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


_SHOWN_CHARS_MAX: Final = 400


class _Command(NamedTuple):
    description: str
    run: Callable[[Application, str], Awaitable[str]]
    hint: str = ""


async def _compact(app: Application, focus: str) -> str:
    before = app.context_tokens()
    await app.compact(focus)
    return f"Compacted: about {before:,} → {app.context_tokens():,} tokens."


async def _context(app: Application, _argument: str) -> str:
    parts = app.context_parts()
    rows = [f"| {name} | {tokens:,} |" for name, tokens in parts.items()]
    rows.append(f"| all | {sum(parts.values()):,} |")
    table = ["| part of the next request | tokens, estimated |", "|---|---:|", *rows]
    return "\n".join([*table, *(f"\n{note}" for note in app.context_notes())])


async def _mcp(app: Application, _argument: str) -> str:
    rows: list[str] = []
    for state in app.servers.states():
        name = one_line(reveal(state.name))
        rows.append(f"- **{name}**: {state.phase}, {state.offer}")
        notes = filter(None, (state.cause, *state.notes))
        rows += [f"  - {_literal(text)}" for text in notes]
    return "\n".join(rows) or "There are no MCP servers."


def _literal(text: str) -> str:
    """Escape *text* of a server so that Markdown shows it literally: it may name an image."""
    shown = one_line(reveal(text), _SHOWN_CHARS_MAX).replace("`", "'")
    return f"`{shown}`"


_BUILT_IN: Final[Mapping[str, _Command]] = {
    "compact": _Command("Replace older messages by a summary", _compact, "what to keep"),
    "context": _Command("Show what fills the model's window", _context),
    "mcp": _Command("Show the state of the MCP servers", _mcp),
}


def available_commands(app: Application) -> list[Json]:
    """Return the commands; the built-in ones come first, so that a prompt cannot replace them."""
    found = {name: _shown(name, each.description, each.hint) for name, each in _BUILT_IN.items()}
    for prompt in app.prompt_commands():
        if prompt.name and not prompt.problem:
            shown = _shown(prompt.name, prompt.help, prompt.argument or "text")
            found.setdefault(prompt.name, shown)
    return list(found.values())


async def run_command(blocks: Sequence[PromptBlock], app: Application) -> str:
    """Run the built-in command named by *blocks* and return its answer; "" if there is none.

    Raises:
        AgentCliError: The command failed.
    """
    match blocks:
        case [TextBlock(text=line)] if line.startswith("/"):
            name, _, argument = line[1:].strip().partition(" ")
            if command := _BUILT_IN.get(name):
                return await command.run(app, argument.strip())
        case _:
            pass
    return ""


def _shown(name: str, description: str, hint: str) -> dict[str, Json]:
    shown: dict[str, Json] = {"name": name, "description": reveal(description) or name}
    return {**shown, "input": {"hint": reveal(hint)}} if hint else shown
