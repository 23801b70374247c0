"""Declare the tools that the API runs itself, and their calls in the history; pure.

A tool that is open from the first request is declared as the API's own. Otherwise the model calls
ours first, by a name beside the API's; once its result refers to the API's tool, that is loaded
from a deferred definition. So a permission given in a conversation changes no cached prefix.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from agent_cli.contracts.found_tools import hosted_in
from agent_cli.contracts.hosted_blocks import own_tools
from agent_cli.contracts.messages import AssistantMessage, LlmMessage
from agent_cli.contracts.timeline import Block
from agent_cli.contracts.tooling import WEB_FETCH_TOOL, WEB_SEARCH_TOOL, Hosted, ToolSpec
from agent_cli.providers.anthropic.betas import TOOL_REFERENCES, WEB_FETCH, WEB_SEARCH, Beta
from agent_cli.providers.hosted_history import (
    as_text,
    hosted_names,
    is_hosted,
    mended,
    without_references,
)
from agent_cli.system.records import dataclass, field

PAGE_TOKENS_MAX: Final = 25_000
_BETAS: Final[Mapping[str, Beta]] = {WEB_SEARCH_TOOL: WEB_SEARCH, WEB_FETCH_TOOL: WEB_FETCH}
_TYPES: Final = {WEB_SEARCH_TOOL: "web_search_20250305", WEB_FETCH_TOOL: "web_fetch_20250910"}
_ASK: Final = "ask_for_"


@dataclass(frozen=True, slots=True)
class HostedRequest:
    """The messages and tools of a request, without the definitions of the API's own tools.

    Attributes:
        open: The definitions that stand in every request, by name.
        loaded: The definitions of tools that the history refers to, by name.
        by_reference: The API loads definitions where the history refers to their tools.
    """

    messages: tuple[LlmMessage, ...]
    tools: tuple[ToolSpec, ...]
    open: Mapping[str, Block] = field(default_factory=dict[str, Block])
    loaded: Mapping[str, Block] = field(default_factory=dict[str, Block])
    by_reference: bool = False

    def with_definitions(self, tools: Sequence[Block]) -> list[Block]:
        """Return the definitions *tools* with the API's own definitions: first, or deferred."""
        if not self.by_reference:
            return [*self.open.values(), *self.loaded.values(), *tools]
        deferred: list[Block] = [{**each, "defer_loading": True} for each in self.loaded.values()]
        return [*self.open.values(), *tools, *deferred]


def hosted_request(
    messages: Sequence[LlmMessage], tools: Sequence[ToolSpec], betas: Collection[Beta]
) -> HostedRequest:
    """Return *messages* and *tools* for an API that takes *betas*."""
    if not _any_hosted(messages, tools):
        return HostedRequest(tuple(messages), tuple(tools))
    usable = {name for name, beta in _BETAS.items() if beta in betas}
    offered = {each.name: each.hosted for each in tools if each.hosted and each.name in usable}
    history = mended(messages) if hosted_names(messages) <= usable else as_text(messages)
    by_reference = TOOL_REFERENCES in betas
    asks = {name for name, hosted in offered.items() if not hosted.is_open}
    loads = asks & hosted_in(history)
    gone = hosted_in(history) & (_BETAS.keys() - (asks if by_reference else ()))
    ours = [
        replace(each, name=_ASK + each.name, hosted=None, finds_tools=by_reference)
        if each.name in asks
        else each
        for each in tools
        if each.name in asks or each.name not in offered
    ]
    return HostedRequest(
        tuple(_asking(without_references(each, gone), offered) for each in history),
        own_tools(ours),
        {name: _definition(name, hosted) for name, hosted in offered.items() if hosted.is_open},
        {name: _definition(name, offered[name]) for name in loads},
        by_reference,
    )


def own_name(name: str) -> str:
    """Return our name of a tool that the model calls *name*."""
    bare = name.removeprefix(_ASK)
    return bare if bare in _BETAS else name


def hosted_by(beta: Beta) -> str:
    """Return the name of the tool that the API runs with *beta*, or ""."""
    return next((name for name, each in _BETAS.items() if each is beta), "")


def _any_hosted(messages: Sequence[LlmMessage], tools: Sequence[ToolSpec]) -> bool:
    if any(each.hosted for each in tools):
        return True
    return is_hosted(messages) or bool(hosted_in(messages) & _BETAS.keys())


def _definition(name: str, hosted: Hosted) -> Block:
    made: Block = {"type": _TYPES[name], "name": name, "max_uses": hosted.uses_max}
    # The API takes only one of the two.
    if hosted.domains:
        made["allowed_domains"] = [*hosted.domains]
    elif hosted.blocked:
        made["blocked_domains"] = [*hosted.blocked]
    if name == WEB_FETCH_TOOL:
        made["citations"] = {"enabled": True}
        made["max_content_tokens"] = PAGE_TOKENS_MAX
        if not hosted.domains:
            # An address out of a file or a command may carry data away.
            made["url_sources"] = {
                "user_input": {"type": "all"},
                "client_tool_results": {"type": "none"},
                "server_tool_results": {"type": "all"},
            }
    return made


def _asking(message: LlmMessage, names: Collection[str]) -> LlmMessage:
    """Return *message* with our tools' calls under names that differ from the API's own names."""
    if not isinstance(message, AssistantMessage):
        return message
    content = tuple(
        {**block, "name": _ASK + str(block["name"])}
        if block["type"] == "tool_use" and block["name"] in names
        else block
        for block in message.content
    )
    return replace(message, content=content) if content != message.content else message
