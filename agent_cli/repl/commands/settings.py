"""Commands that change the next requests (model, thinking) and the permission mode."""

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, Literal, get_args

from agent_cli.contracts.dialogs import Reread
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.options import EFFORT_ALIASES, ThemeChoice, ThinkingLevel
from agent_cli.contracts.permission_modes import MODE_DESCRIPTIONS, mode_named
from agent_cli.contracts.provider import Model
from agent_cli.contracts.wording import one_line
from agent_cli.repl.commands import Command, Context, index_of, pick, show
from agent_cli.system import paths
from agent_cli.system.sanitize import clean, reveal

_LEVELS: Final[dict[str, ThinkingLevel | None]] = {
    "default": None,
    **{level: level for level in get_args(ThinkingLevel)},
}
_ALL_OF: Final = {"*": "every call of every tool", "network": "every host"}


def _model(context: Context, name: str) -> Awaitable[None] | None:
    named = {alias: f"{alias} = {id}" for alias, id in context.app.models.items()}
    if name:
        return _use_model(context, name, "command")
    current = context.app.agent.state.model
    shown = f"model: {current.id if current else 'none'}"
    if _may_choose(context, name):
        return _choose_model(context, named, f"{shown}; which one?")
    context.writer.aside("\n".join([shown, *(f"  {row}" for row in named.values())]))
    return None


async def _use_model(context: Context, name: str, source: Literal["command", "picker"]) -> None:
    async def confirm(reason: str) -> bool:
        rows = ("change the model", "keep it")
        return await pick(context, rows, f"A hook asks: {one_line(clean(reason))}") == 0

    reread = context.app.price_of_model(name)
    await _agree_to(context, reread, "the model")
    await context.app.switch_model(name, source=source, confirm=confirm)
    model = context.app.agent.state.model
    context.writer.aside(_with_price(f"model: {model.id if model else 'none'}", reread))


async def _agree_to(context: Context, reread: Reread | None, what: str) -> None:
    """Let the user agree to *reread* if it is above the limit, and if they can be asked now.

    Raises:
        UsageError: They do not.
    """
    can_ask = context.may_wait and (context.controls is not None or context.questions.can_ask)
    if reread is None or not reread.needs_consent or not can_ask:
        return
    if await pick(context, (f"change {what}", "keep it"), str(reread)) != 0:
        raise UsageError(f"{what} stays as it is")


def _with_price(text: str, reread: Reread | None) -> str:
    return f"{text}; {reread}" if reread else text


async def _choose_model(context: Context, named: dict[str, str], question: str) -> None:
    """Let the user choose an alias, or another model that the server offers."""
    aliases = context.app.models
    states = {each.id: each.state for each in await context.app.offered_models()}
    rows = {alias: _with_state(row, states.get(aliases[alias])) for alias, row in named.items()}
    others = {id: _with_state(id, state) for id, state in states.items()}
    rows |= {id: row for id, row in others.items() if id not in aliases.values()}
    model = context.app.agent.state.model
    current = model.id if model else ""
    alias = next((alias for alias, id in aliases.items() if id == current), current)
    await _choose(context, partial(_use_model, source="picker"), rows, question, current=alias)


def _with_state(row: str, state: str | None) -> str:
    return one_line(f"{row} · {clean(state)}" if state else clean(row))


def model_of_prompt(context: Context, name: str) -> Model:
    """Return the model *name*; report that it gets only the next prompt.

    Raises:
        UsageError: The name cannot be a model.
    """
    model = context.app.find_model(name)
    context.writer.aside(f"model for this prompt: {model.id}", "dim")
    return model


def _effort(context: Context, name: str) -> Awaitable[None] | None:
    agent = context.app.agent
    if _may_choose(context, name):
        levels, now = {level: level for level in _LEVELS}, agent.state.thinking_level or "default"
        return _choose(context, _effort, levels, f"effort: {now}; how much?", current=now)
    if name:
        level = EFFORT_ALIASES.get(name, name)
        if level not in _LEVELS:
            raise UsageError(f"unknown effort {one_line(name)}; there are: {', '.join(_LEVELS)}")
        return _use_effort(context, _LEVELS[level])
    shown = f"effort: {agent.state.thinking_level or 'default'}"
    context.writer.aside(f"{shown} (of {', '.join(_LEVELS)})")
    return None


async def _use_effort(context: Context, level: ThinkingLevel | None) -> None:
    reread = context.app.price_of_effort(level)
    await _agree_to(context, reread, "the effort")
    context.app.agent.set_thinking_level(level)
    context.writer.aside(_with_price(f"effort: {level or 'default'}", reread))


def _mode(context: Context, name: str) -> Awaitable[None] | None:
    permissions = context.app.permissions
    described = {str(mode): f"{mode}: {what}" for mode, what in MODE_DESCRIPTIONS.items()}
    if _may_choose(context, name):
        question = f"mode: {permissions.mode}; which one?"
        return _choose(context, _mode, described, question, current=str(permissions.mode))
    if name:
        mode = mode_named(name)
        if mode is None:
            known = ", ".join(MODE_DESCRIPTIONS)
            raise UsageError(f"unknown mode {one_line(name)}; there are: {known}")
        permissions.mode = mode
    lines = [f"mode: {permissions.mode}, {MODE_DESCRIPTIONS[permissions.mode]}"]
    if not name:
        lines += [f"  {row}" for row in described.values()]
    context.writer.aside("\n".join(lines))
    return None


def _output_style(context: Context, name: str) -> Awaitable[None] | None:
    styles = context.app.output_styles
    if name:
        styles.use(name)
    names = {each: f"{each}: {clean(about)}" for each, about in styles.names().items()}
    if _may_choose(context, name):
        question = f"output style: {styles.current}; which one?"
        return _choose(context, _output_style, names, question, current=styles.current)
    lines = [f"output style: {styles.current}"]
    if not name:
        lines += [f"  {one_line(row)}" for row in names.values()]
    context.writer.aside("\n".join(lines))
    return None


def _permissions(context: Context, argument: str) -> None:
    permissions = context.app.permissions
    verb, _, rule = argument.partition(" ")
    if verb == "allow" and rule:
        _allow(context, _unquoted(rule))
        return
    if verb == "remove" and rule:
        _remove(context, _unquoted(rule))
        return
    if argument:
        raise UsageError(_permissions_usage(context, verb, rule))
    from agent_cli.terminal.views.table import Column, Table  # rich

    context.writer.aside(f"mode: {permissions.mode}, {MODE_DESCRIPTIONS[permissions.mode]}")
    columns = [Column("", right=True), Column("verdict"), Column("rule")]
    columns.append(Column("set in", style="dim"))
    rows = [
        (str(number), kind, reveal(str(rule)), paths.shown(rule.origin))
        for number, (kind, rule) in enumerate(permissions.rules(), 1)
    ]
    show(context, Table(columns, rows, empty="no rules"))
    if kept := permissions.project_file:
        context.writer.aside(
            f"answers keep rules in {paths.shown(kept)}, and so does /permissions allow RULE;"
            " /permissions remove N takes one back"
        )
    if contacts := context.app.contacts:
        columns = [Column("host"), Column("asked for by"), Column("in this session", style="dim")]
        found = [(each.host, each.asked_by, each.refusal or "reached") for each in contacts]
        show(context, Table(columns, found))
    if judged := context.app.judged:
        columns = [Column("judged call"), Column("by the judge of the mode auto", style="dim")]
        show(context, Table(columns, [(each.call, each.doubt or "allowed") for each in judged]))


def _allow(context: Context, written: str) -> None:
    permissions = context.app.permissions
    rule = permissions.allow_rule(written, [tool.name for tool in context.app.tools])
    file = permissions.project_file
    where = f"in this project; kept in {paths.shown(file)}" if file else "in this session"
    covers = ""
    if rule.text is None:
        such = "every call of every such tool" if "*" in rule.tool else "every call of it"
        covers = f", {_ALL_OF.get(rule.tool, such)}"
    context.writer.aside(f"allowed: {reveal(str(rule))}{covers}, {where}")


def _remove(context: Context, named: str) -> None:
    """Take back the rule *named*: by its number in the list, or by its text.

    Raises:
        UsageError: There is no such rule, or it is not one that allows.
    """
    permissions = context.app.permissions
    rules = list(permissions.rules())
    if not rules:
        raise UsageError("there are no rules to remove")
    found = permissions.rules_named(named)  # those that allow are the last
    if not found and not named.isdecimal():
        raise UsageError(f"no rule is {one_line(named)}: /permissions lists them with numbers")
    kind, rule = found[-1] if found else rules[index_of(named, len(rules))]
    if kind != "allow":
        raise UsageError(
            f"{rule} is to {kind}, set in {paths.shown(rule.origin) or 'the settings'}: change it"
            " there, it counts from the next start"
        )
    held = permissions.remove_rule(rule)
    left = [each for kind, each in permissions.rules() if kind == "allow"]
    still = [paths.shown(each.origin) for each in left if str(each) == str(rule)]
    but = f"; {still[0]} still allows it" if still else ""
    context.writer.aside(f"no longer allowed in {held}: {reveal(str(rule))}{but}")


def _permissions_usage(context: Context, verb: str, rule: str) -> str:
    file = context.app.permissions.project_file
    if verb in ("deny", "ask") and rule and file:
        listed = f"{verb} = [{json.dumps(_unquoted(rule), ensure_ascii=False)}]"
        return f"no session adds it: write {listed} into {paths.shown(file)}, and start anew"
    return "/permissions lists the rules; /permissions allow RULE adds one, remove N takes one back"


def _unquoted(text: str) -> str:
    """Return *text* without the quotes around it, which a shell would need."""
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _theme(context: Context, name: str) -> Awaitable[None] | None:
    if context.controls is None:
        raise UsageError("/theme needs a screen")
    if _may_choose(context, name):
        names = {each: each for each in get_args(ThemeChoice)}
        theme = context.controls.theme
        return _choose(
            context, _theme, names, f"theme, now {theme}:", current=theme.partition(",")[0]
        )
    more = f"of {', '.join(get_args(ThemeChoice))}"
    if name:
        context.controls.use_theme(name)
        more = "in this session; the setting ui.theme keeps it"
    context.writer.aside(f"theme: {context.controls.theme} ({more})")
    return None


def _may_choose(context: Context, name: str) -> bool:
    """Return whether to show a list to choose from, because no *name* was typed."""
    return not name and context.controls is not None and context.may_wait


async def _choose(
    context: Context,
    run: Callable[[Context, str], object],
    rows: Mapping[str, str],
    question: str,
    *,
    current: str,
) -> None:
    """Let the user choose a key of *rows*, and pass it to *run*; Enter alone keeps *current*."""
    selected = [*rows].index(current) if current in rows else 0
    index = await pick(context, list(rows.values()), question, selected=selected)
    if index is not None and inspect.isawaitable(running := run(context, list(rows)[index])):
        await running


SETTING_COMMANDS: Final = (
    Command(
        "model",
        "show or change the model",
        _model,
        "[name]",
        beside_a_run=True,
        choices=lambda app: app.models,
        more="An alias, or any model's id. Takes effect with the next request, also during a run.",
    ),
    Command(
        "effort",
        "show or change how much the model thinks",
        _effort,
        "[level]",
        beside_a_run=True,
        choices=lambda _app: dict.fromkeys(_LEVELS, ""),
    ),
    Command(
        "mode",
        "show or change what runs without asking",
        _mode,
        "[mode]",
        choices=lambda _app: {str(mode): what for mode, what in MODE_DESCRIPTIONS.items()},
        more="\n".join(f"{mode}: {what}" for mode, what in MODE_DESCRIPTIONS.items()),
    ),
    Command(
        "output-style",
        "show or change how the model answers",
        _output_style,
        "[name]",
        choices=lambda app: app.output_styles.names(),
        more="Takes effect with the next request; the setting output_style keeps it.",
    ),
    Command(
        "permissions",
        "list the permission rules, allow a call, take a rule back",
        _permissions,
        "[allow RULE|remove N]",
        choices=lambda _app: {
            "allow": "a rule, such as bash(npm test *), from now on in this project",
            "remove": "a rule, by its number in the list",
        },
        more="Rules that ask or deny stand in files; they count from the next start.",
    ),
    Command(
        "theme",
        "change the colours of answers",
        _theme,
        "[name]",
        choices=lambda _app: dict.fromkeys(get_args(ThemeChoice), ""),
    ),
)
