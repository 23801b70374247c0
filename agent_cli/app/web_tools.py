"""The tools that read the web: our own, and tools that the model's server runs itself."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from agent_cli.app.startup import StartupContext
from agent_cli.contracts.claude_tools import CLAUDE_NAMES
from agent_cli.contracts.hosted_blocks import error_of, is_result, is_use
from agent_cli.contracts.permissions import HostContact
from agent_cli.contracts.timeline import (
    BlockOutput,
    Error,
    Json,
    Pending,
    Prompt,
    ToolOutput,
    text_of,
)
from agent_cli.contracts.tooling import WEB_FETCH_TOOL, WEB_SEARCH_TOOL, Tool
from agent_cli.contracts.wording import one_line
from agent_cli.core.projection import entries
from agent_cli.providers.anthropic.betas import WEB_FETCH, WEB_SEARCH
from agent_cli.settings.environment import chosen_platform
from agent_cli.web import is_web_installed, web_fetch_tool, web_search_tool

if TYPE_CHECKING:
    from agent_cli.policies.network_rules import Outlook
    from agent_cli.policies.permission_rules import RuleSet

Rules = Callable[[StartupContext], "RuleSet"]
_REASON_CHARS: Final = 200
_SEARCH_NAMES: Final = (WEB_SEARCH_TOOL, *CLAUDE_NAMES[WEB_SEARCH_TOOL])
_PLATFORMS: Final = {WEB_SEARCH_TOOL: WEB_SEARCH.platforms, WEB_FETCH_TOOL: WEB_FETCH.platforms}


def web_tools(startup: StartupContext, rules: Rules) -> Sequence[Tool]:
    """Return the tools that read the web, except tools that a Python program replaces.

    Raises:
        SettingsError: A permission rule cannot be read.
    """
    settings, own = startup.loaded.settings, {tool.name for tool in startup.tools}
    found: list[Tool] = []

    def has_rule(host: str) -> bool:
        from agent_cli.policies.network_rules import guards_page  # rare

        return guards_page(rules(startup), host)

    if settings.tools.web_fetch and is_web_installed():
        found.append(web_fetch_tool(settings.history.max_tool_result_chars, has_rule=has_rule))
    hosted = hosted_tools(startup, rules)
    if (pages := hosted.get(WEB_FETCH_TOOL)) and pages.hosted and pages.hosted.is_open:
        ours = found.pop() if found else web_fetch_tool(has_rule=has_rule)
        found.append(replace(ours, hosted=pages.hosted))
    if (search := hosted.get(WEB_SEARCH_TOOL)) and search.hosted:
        found.append(web_search_tool(search.hosted))
    return [tool for tool in found if tool.name not in own]


def hosted_tools(startup: StartupContext, rules: Rules) -> Mapping[str, "Outlook"]:
    """Return the tools that rules and settings let the model's server run, by name.

    Most sessions have none, and then nothing reads the rules for it.

    Raises:
        SettingsError: A permission rule cannot be read.
    """
    chosen = startup.loaded.settings.tools
    searches = chosen.web_search is True or (chosen.web_search == "rule" and _is_named(startup))
    enabled = {WEB_SEARCH_TOOL: searches, WEB_FETCH_TOOL: chosen.web_fetch == "api"}
    names = [name for name, is_on in enabled.items() if is_on and platform_has(startup, name)]
    if not names:
        return {}
    from agent_cli.policies.network_rules import hosted_outlook  # few have them

    active = rules(startup)
    return {
        name: hosted_outlook(active, name, falls_back=name == WEB_FETCH_TOOL and is_web_installed())
        for name in names
    }


def platform_has(startup: StartupContext, name: str) -> bool:
    """Return whether the platform of *startup* has the tool *name* of its own, as far as known."""
    if not startup.loaded.settings.provider.is_whole:
        return False
    return chosen_platform(startup.loaded.settings, startup.environment) in _PLATFORMS[name]


def web_facts(startup: StartupContext, rules: Rules) -> str:
    """Return who searches the web and reads pages, if anyone, as one line for a person.

    Raises:
        SettingsError: A permission rule cannot be read.
    """
    hosted, chosen = hosted_tools(startup, rules), startup.loaded.settings.tools
    pages = hosted.get(WEB_FETCH_TOOL)
    if pages and pages.hosted and pages.hosted.is_open:
        read = f"pages read by the API ({_reach(pages)})"
    elif not (chosen.web_fetch and is_web_installed()):
        read = "pages not read (tools.web_fetch, and the extra web)"
    else:
        why = f", not by the API: {_why_not(startup, WEB_FETCH_TOOL, pages)}"
        read = f"pages read here, asked once a server{why if chosen.web_fetch == 'api' else ''}"
    search = hosted.get(WEB_SEARCH_TOOL)
    if search and search.hosted:
        asks = "" if search.hosted.is_open else ", asked before the first"
        return f"searches by the API ({_reach(search)}{asks}); {read}"
    return f"no searches: {_why_not(startup, WEB_SEARCH_TOOL, search)}; {read}"


def page_contacts(prompts: Iterable[Prompt]) -> Sequence[HostContact]:
    """Return the hosts that pages were asked for, also those that the API read."""
    found: dict[str, str] = {}
    asked: dict[str, str] = {}
    for output in entries(prompts):
        if isinstance(output, ToolOutput):
            if output.name == WEB_FETCH_TOOL and not isinstance(output.result, Pending):
                failed = isinstance(output.result, Error)
                why = one_line(text_of(output.result.content), _REASON_CHARS) if failed else ""
                found[_host(output.input)] = why
        elif isinstance(output, BlockOutput):
            block = output.block
            if is_use(block) and block.get("name") == WEB_FETCH_TOOL:
                asked[str(block.get("id"))] = _host(block.get("input"))
            elif is_result(block) and (host := asked.get(str(block["tool_use_id"]))):
                found[host] = error_of(block)
    return [HostContact(host, WEB_FETCH_TOOL, why) for host, why in found.items() if host]


def _host(arguments: Json) -> str:
    """Return the host that a call with the input *arguments* names, or ""."""
    url = str(arguments.get("url", "")) if isinstance(arguments, dict) else ""
    with suppress(ValueError):
        return urlsplit(url if "://" in url else f"https://{url}").hostname or ""
    return ""


def _reach(outlook: "Outlook") -> str:
    hosted = outlook.hosted
    assert hosted is not None
    where = f"only {', '.join(hosted.domains)}" if hosted.domains else ""
    without = f"without {', '.join(hosted.blocked)}" if hosted.blocked and not where else ""
    return f"at most {hosted.uses_max} a request" + "".join(f", {e}" for e in (where, without) if e)


def _why_not(startup: StartupContext, name: str, outlook: "Outlook | None") -> str:
    if outlook:
        return outlook.reason
    if not platform_has(startup, name):
        return "the model's server has none of its own"
    by_rule = startup.loaded.settings.tools.web_search == "rule"
    return "no rule allows web_search" if by_rule else "tools.web_search is false"


def _is_named(startup: StartupContext) -> bool:
    """Return whether a rule allows searches by their own name, and not only all tools."""
    return any(
        rule.kind == "allow" and rule.text.strip().partition("(")[0] in _SEARCH_NAMES
        for rule in startup.loaded.rules
    )
