"""agent-cli: a coding agent that lives in the terminal, and the library it is made of.

The names in `__all__` are the public surface. They are imported when first used, so that starting
the program, or importing one of them, does not pay for the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from agent_cli.version import __version__

if TYPE_CHECKING:
    from agent_cli.agent import Agent as Agent
    from agent_cli.agent_state import AgentState as AgentState
    from agent_cli.cancel import CancelToken as CancelToken
    from agent_cli.conversation import Conversation as Conversation
    from agent_cli.errors import AgentCliError as AgentCliError
    from agent_cli.errors import ToolError as ToolError
    from agent_cli.event_stream import AgentContext as AgentContext
    from agent_cli.event_stream import EventStream as EventStream
    from agent_cli.event_stream import agent_loop as agent_loop
    from agent_cli.event_stream import agent_loop_continue as agent_loop_continue
    from agent_cli.hooks import LoopConfig as LoopConfig
    from agent_cli.messages import AssistantMessage as AssistantMessage
    from agent_cli.messages import CustomMessage as CustomMessage
    from agent_cli.messages import Message as Message
    from agent_cli.messages import ToolResultMessage as ToolResultMessage
    from agent_cli.messages import UserMessage as UserMessage
    from agent_cli.phase import ChatStateMachine as ChatStateMachine
    from agent_cli.phase import Phase as Phase
    from agent_cli.plugin_api import Plugin as Plugin
    from agent_cli.plugin_api import PluginContext as PluginContext
    from agent_cli.plugin_api import PluginState as PluginState
    from agent_cli.provider import Model as Model
    from agent_cli.provider import ModelRequest as ModelRequest
    from agent_cli.provider import ProviderRegistry as ProviderRegistry
    from agent_cli.provider import Reply as Reply
    from agent_cli.run_result import RunResult as RunResult
    from agent_cli.stream_processor import StreamProcessor as StreamProcessor
    from agent_cli.timeline import image_block as image_block
    from agent_cli.tooling import Approval as Approval
    from agent_cli.tooling import Tool as Tool
    from agent_cli.tooling import ToolContext as ToolContext
    from agent_cli.tooling import ToolResult as ToolResult

_HOMES = {
    "Agent": "agent",
    "AgentState": "agent_state",
    "AgentCliError": "errors",
    "ToolError": "errors",
    "AgentContext": "event_stream",
    "EventStream": "event_stream",
    "agent_loop": "event_stream",
    "agent_loop_continue": "event_stream",
    "CancelToken": "cancel",
    "Conversation": "conversation",
    "LoopConfig": "hooks",
    "RunResult": "run_result",
    "AssistantMessage": "messages",
    "CustomMessage": "messages",
    "Message": "messages",
    "ToolResultMessage": "messages",
    "UserMessage": "messages",
    "ChatStateMachine": "phase",
    "Phase": "phase",
    "Plugin": "plugin_api",
    "PluginContext": "plugin_api",
    "PluginState": "plugin_api",
    "Model": "provider",
    "ModelRequest": "provider",
    "ProviderRegistry": "provider",
    "Reply": "provider",
    "StreamProcessor": "stream_processor",
    "image_block": "timeline",
    "Approval": "tooling",
    "Tool": "tooling",
    "ToolContext": "tooling",
    "ToolResult": "tooling",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604 - the names come from the table above


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
