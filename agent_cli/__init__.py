"""agent-cli: a coding agent that lives in the terminal, and the library it is made of.

The names in `__all__` are the public surface. They are imported when first used, so that starting
the program, or importing one of them, does not pay for the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from agent_cli.version import __version__

if TYPE_CHECKING:
    from agent_cli.contracts.cancel import CancelToken as CancelToken
    from agent_cli.contracts.errors import AgentCliError as AgentCliError
    from agent_cli.contracts.errors import ToolError as ToolError
    from agent_cli.contracts.events import Event as Event
    from agent_cli.contracts.messages import AssistantMessage as AssistantMessage
    from agent_cli.contracts.messages import CustomMessage as CustomMessage
    from agent_cli.contracts.messages import Message as Message
    from agent_cli.contracts.messages import ToolResultMessage as ToolResultMessage
    from agent_cli.contracts.messages import UserMessage as UserMessage
    from agent_cli.contracts.provider import Model as Model
    from agent_cli.contracts.provider import ModelRequest as ModelRequest
    from agent_cli.contracts.provider import ProviderRegistry as ProviderRegistry
    from agent_cli.contracts.provider import Reply as Reply
    from agent_cli.contracts.timeline import image_block as image_block
    from agent_cli.contracts.tooling import Allow as Allow
    from agent_cli.contracts.tooling import Approval as Approval
    from agent_cli.contracts.tooling import Deny as Deny
    from agent_cli.contracts.tooling import Tool as Tool
    from agent_cli.contracts.tooling import ToolContext as ToolContext
    from agent_cli.contracts.tooling import ToolResult as ToolResult
    from agent_cli.core.agent import Agent as Agent
    from agent_cli.core.agent_state import AgentState as AgentState
    from agent_cli.core.conversation import Conversation as Conversation
    from agent_cli.core.event_stream import AgentContext as AgentContext
    from agent_cli.core.event_stream import EventStream as EventStream
    from agent_cli.core.event_stream import agent_loop as agent_loop
    from agent_cli.core.event_stream import agent_loop_continue as agent_loop_continue
    from agent_cli.core.loop_config import LoopConfig as LoopConfig
    from agent_cli.core.phase import ChatStateMachine as ChatStateMachine
    from agent_cli.core.phase import Phase as Phase
    from agent_cli.core.run_result import RunResult as RunResult
    from agent_cli.core.stream_processor import StreamProcessor as StreamProcessor
    from agent_cli.plugins.api import Plugin as Plugin
    from agent_cli.plugins.api import PluginContext as PluginContext
    from agent_cli.plugins.api import PluginState as PluginState
    from agent_cli.providers.models import get_model as get_model

_HOMES = {
    "Agent": "core.agent",
    "AgentState": "core.agent_state",
    "AgentCliError": "contracts.errors",
    "ToolError": "contracts.errors",
    "Event": "contracts.events",
    "Allow": "contracts.tooling",
    "Deny": "contracts.tooling",
    "AgentContext": "core.event_stream",
    "EventStream": "core.event_stream",
    "agent_loop": "core.event_stream",
    "agent_loop_continue": "core.event_stream",
    "CancelToken": "contracts.cancel",
    "Conversation": "core.conversation",
    "LoopConfig": "core.loop_config",
    "RunResult": "core.run_result",
    "AssistantMessage": "contracts.messages",
    "CustomMessage": "contracts.messages",
    "Message": "contracts.messages",
    "ToolResultMessage": "contracts.messages",
    "UserMessage": "contracts.messages",
    "ChatStateMachine": "core.phase",
    "Phase": "core.phase",
    "Plugin": "plugins.api",
    "PluginContext": "plugins.api",
    "PluginState": "plugins.api",
    "Model": "contracts.provider",
    "ModelRequest": "contracts.provider",
    "ProviderRegistry": "contracts.provider",
    "Reply": "contracts.provider",
    "StreamProcessor": "core.stream_processor",
    "get_model": "providers.models",
    "image_block": "contracts.timeline",
    "Approval": "contracts.tooling",
    "Tool": "contracts.tooling",
    "ToolContext": "contracts.tooling",
    "ToolResult": "contracts.tooling",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604 - the names come from the table above


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
