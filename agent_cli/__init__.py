"""agent-cli: a coding agent in the terminal, and the library it is built from.

The names in `__all__` are the public surface. They are imported on first use, so that starting the
program, or importing one of them, does not import the rest.
"""

import sys

from agent_cli.version import __version__

# Not imported from typing, which takes longer than all the rest before the program's first line.
TYPE_CHECKING = False
NOT_ON_WINDOWS = "agent-cli runs on Linux and macOS: on Windows, use it in WSL"
if TYPE_CHECKING:
    from agent_cli.agents.definitions import AgentDefinition as AgentDefinition
    from agent_cli.contracts.cancel import CancelToken as CancelToken
    from agent_cli.contracts.errors import Aborted as Aborted
    from agent_cli.contracts.errors import AgentBusy as AgentBusy
    from agent_cli.contracts.errors import AgentCliError as AgentCliError
    from agent_cli.contracts.errors import ContextOverflow as ContextOverflow
    from agent_cli.contracts.errors import ConversationError as ConversationError
    from agent_cli.contracts.errors import GuardsChanged as GuardsChanged
    from agent_cli.contracts.errors import LimitReached as LimitReached
    from agent_cli.contracts.errors import ModelError as ModelError
    from agent_cli.contracts.errors import NoCredentials as NoCredentials
    from agent_cli.contracts.errors import NoStreamFunction as NoStreamFunction
    from agent_cli.contracts.errors import NothingToContinue as NothingToContinue
    from agent_cli.contracts.errors import PluginError as PluginError
    from agent_cli.contracts.errors import ProviderNotFound as ProviderNotFound
    from agent_cli.contracts.errors import ServerDelayTooLong as ServerDelayTooLong
    from agent_cli.contracts.errors import SessionError as SessionError
    from agent_cli.contracts.errors import SessionNotFound as SessionNotFound
    from agent_cli.contracts.errors import SettingsError as SettingsError
    from agent_cli.contracts.errors import ToolError as ToolError
    from agent_cli.contracts.errors import UsageError as UsageError
    from agent_cli.contracts.events import AgentEnd as AgentEnd
    from agent_cli.contracts.events import AgentEvent as AgentEvent
    from agent_cli.contracts.events import AgentStart as AgentStart
    from agent_cli.contracts.events import AppEvent as AppEvent
    from agent_cli.contracts.events import ApprovalRequested as ApprovalRequested
    from agent_cli.contracts.events import Compacted as Compacted
    from agent_cli.contracts.events import CoreEvent as CoreEvent
    from agent_cli.contracts.events import ErrorShown as ErrorShown
    from agent_cli.contracts.events import Event as Event
    from agent_cli.contracts.events import EventSink as EventSink
    from agent_cli.contracts.events import MessageEnd as MessageEnd
    from agent_cli.contracts.events import MessageStart as MessageStart
    from agent_cli.contracts.events import MessageUpdate as MessageUpdate
    from agent_cli.contracts.events import Notice as Notice
    from agent_cli.contracts.events import PromptCompleted as PromptCompleted
    from agent_cli.contracts.events import PromptOutput as PromptOutput
    from agent_cli.contracts.events import PromptStarted as PromptStarted
    from agent_cli.contracts.events import PromptStateChanged as PromptStateChanged
    from agent_cli.contracts.events import Retry as Retry
    from agent_cli.contracts.events import SessionOpened as SessionOpened
    from agent_cli.contracts.events import StateChanged as StateChanged
    from agent_cli.contracts.events import ToolCall as ToolCall
    from agent_cli.contracts.events import ToolCallsAnnounced as ToolCallsAnnounced
    from agent_cli.contracts.events import ToolExecutionEnd as ToolExecutionEnd
    from agent_cli.contracts.events import ToolExecutionStart as ToolExecutionStart
    from agent_cli.contracts.events import ToolExecutionUpdate as ToolExecutionUpdate
    from agent_cli.contracts.events import TurnEnd as TurnEnd
    from agent_cli.contracts.events import TurnStart as TurnStart
    from agent_cli.contracts.events import UsageChanged as UsageChanged
    from agent_cli.contracts.events import UsageHeld as UsageHeld
    from agent_cli.contracts.listings import SessionInfo as SessionInfo
    from agent_cli.contracts.media_files import image_block as image_block
    from agent_cli.contracts.messages import AssistantMessage as AssistantMessage
    from agent_cli.contracts.messages import CustomKind as CustomKind
    from agent_cli.contracts.messages import CustomMessage as CustomMessage
    from agent_cli.contracts.messages import Incoming as Incoming
    from agent_cli.contracts.messages import LlmMessage as LlmMessage
    from agent_cli.contracts.messages import Message as Message
    from agent_cli.contracts.messages import ToolResultMessage as ToolResultMessage
    from agent_cli.contracts.messages import UserMessage as UserMessage
    from agent_cli.contracts.options import ThinkingLevel as ThinkingLevel
    from agent_cli.contracts.permission_modes import Mode as Mode
    from agent_cli.contracts.provider import BlockEnd as BlockEnd
    from agent_cli.contracts.provider import Model as Model
    from agent_cli.contracts.provider import ModelRequest as ModelRequest
    from agent_cli.contracts.provider import Provider as Provider
    from agent_cli.contracts.provider import ProviderRegistry as ProviderRegistry
    from agent_cli.contracts.provider import Reply as Reply
    from agent_cli.contracts.provider import ReplyEnd as ReplyEnd
    from agent_cli.contracts.provider import ReplyStart as ReplyStart
    from agent_cli.contracts.provider import Retrying as Retrying
    from agent_cli.contracts.provider import StreamEvent as StreamEvent
    from agent_cli.contracts.provider import StreamFn as StreamFn
    from agent_cli.contracts.provider import TextDelta as TextDelta
    from agent_cli.contracts.provider import ThinkingDelta as ThinkingDelta
    from agent_cli.contracts.provider import ToolCallDelta as ToolCallDelta
    from agent_cli.contracts.provider import ToolCallStart as ToolCallStart
    from agent_cli.contracts.servers import ServerPhase as ServerPhase
    from agent_cli.contracts.servers import ServerState as ServerState
    from agent_cli.contracts.side_events import CacheLost as CacheLost
    from agent_cli.contracts.side_events import ModelCallDelayed as ModelCallDelayed
    from agent_cli.contracts.side_events import ToolAttemptStart as ToolAttemptStart
    from agent_cli.contracts.side_events import ToolAttemptUpdate as ToolAttemptUpdate
    from agent_cli.contracts.timeline import Block as Block
    from agent_cli.contracts.timeline import BlockOutput as BlockOutput
    from agent_cli.contracts.timeline import CompactionOutput as CompactionOutput
    from agent_cli.contracts.timeline import CustomOutput as CustomOutput
    from agent_cli.contracts.timeline import DiscardedOutput as DiscardedOutput
    from agent_cli.contracts.timeline import FileOutput as FileOutput
    from agent_cli.contracts.timeline import Json as Json
    from agent_cli.contracts.timeline import Output as Output
    from agent_cli.contracts.timeline import Prompt as Prompt
    from agent_cli.contracts.timeline import ReplyOutput as ReplyOutput
    from agent_cli.contracts.timeline import TextOutput as TextOutput
    from agent_cli.contracts.timeline import ThinkingOutput as ThinkingOutput
    from agent_cli.contracts.timeline import ToolOutput as ToolOutput
    from agent_cli.contracts.timeline import TrimOutput as TrimOutput
    from agent_cli.contracts.timeline import Usage as Usage
    from agent_cli.contracts.timeline import UserOutput as UserOutput
    from agent_cli.contracts.timeline import WidgetOutput as WidgetOutput
    from agent_cli.contracts.timeline import text_block as text_block
    from agent_cli.contracts.tooling import Allow as Allow
    from agent_cli.contracts.tooling import Approval as Approval
    from agent_cli.contracts.tooling import Ask as Ask
    from agent_cli.contracts.tooling import Deny as Deny
    from agent_cli.contracts.tooling import Tool as Tool
    from agent_cli.contracts.tooling import ToolContext as ToolContext
    from agent_cli.contracts.tooling import ToolResult as ToolResult
    from agent_cli.contracts.tooling import ToolSpec as ToolSpec
    from agent_cli.contracts.tooling import Verdict as Verdict
    from agent_cli.contracts.tooling import check_input as check_input
    from agent_cli.core.agent import Agent as Agent
    from agent_cli.core.agent import AgentState as AgentState
    from agent_cli.core.conversation import Conversation as Conversation
    from agent_cli.core.event_stream import AgentContext as AgentContext
    from agent_cli.core.event_stream import EventStream as EventStream
    from agent_cli.core.event_stream import agent_loop as agent_loop
    from agent_cli.core.event_stream import agent_loop_continue as agent_loop_continue
    from agent_cli.core.loop_config import LoopConfig as LoopConfig
    from agent_cli.core.run import ChatStateMachine as ChatStateMachine
    from agent_cli.core.run import Phase as Phase
    from agent_cli.core.run import RunResult as RunResult
    from agent_cli.core.stream_processor import StreamProcessor as StreamProcessor
    from agent_cli.core.stream_processor import StreamResult as StreamResult
    from agent_cli.core.turn import Turn as Turn
    from agent_cli.hooks.definition import Hook as Hook
    from agent_cli.hooks.events import HookEvent as HookEvent
    from agent_cli.hooks.events import HookFunction as HookFunction
    from agent_cli.hooks.events import HookReply as HookReply
    from agent_cli.library import list_sessions as list_sessions
    from agent_cli.library import read_session as read_session
    from agent_cli.library.functions import tool as tool
    from agent_cli.library.options import Approve as Approve
    from agent_cli.library.options import SessionOptions as SessionOptions
    from agent_cli.library.prompt import PromptResult as PromptResult
    from agent_cli.library.prompt import RunFailed as RunFailed
    from agent_cli.library.session import AgentSession as AgentSession
    from agent_cli.library.session import StreamItem as StreamItem
    from agent_cli.library.session import query as query
    from agent_cli.plugins.api import Plugin as Plugin
    from agent_cli.plugins.api import PluginContext as PluginContext
    from agent_cli.plugins.api import PluginState as PluginState
    from agent_cli.providers.anthropic.connection import Connection as Connection
    from agent_cli.providers.anthropic.messages import AnthropicMessages as AnthropicMessages
    from agent_cli.providers.anthropic.models import get_model as get_model
    from agent_cli.providers.retries import RetryPolicy as RetryPolicy
    from agent_cli.sandbox import PathRules as PathRules
    from agent_cli.sandbox import Sandbox as Sandbox
    from agent_cli.sandbox import SandboxPolicy as SandboxPolicy
    from agent_cli.telemetry.agent_telemetry import AgentTelemetry as AgentTelemetry
    from agent_cli_tools import Workspace as Workspace
    from agent_cli_tools import builtin_tools as builtin_tools

_PUBLIC = {
    "agent_cli.agents.definitions": "AgentDefinition",
    "agent_cli.contracts.side_events": (
        "CacheLost ModelCallDelayed ToolAttemptStart ToolAttemptUpdate"
    ),
    "agent_cli.contracts.cancel": "CancelToken",
    "agent_cli.contracts.errors": (
        "Aborted AgentBusy AgentCliError ContextOverflow ConversationError GuardsChanged "
        "LimitReached ModelError NoCredentials NoStreamFunction NothingToContinue PluginError "
        "ProviderNotFound ServerDelayTooLong SessionError SessionNotFound SettingsError "
        "ToolError UsageError"
    ),
    "agent_cli.contracts.events": (
        "AgentEnd AgentEvent AgentStart AppEvent ApprovalRequested Compacted CoreEvent "
        "ErrorShown Event EventSink "
        "MessageEnd MessageStart MessageUpdate Notice PromptCompleted PromptOutput "
        "PromptStarted PromptStateChanged Retry SessionOpened StateChanged ToolCall "
        "ToolCallsAnnounced ToolExecutionEnd ToolExecutionStart ToolExecutionUpdate TurnEnd "
        "TurnStart UsageChanged UsageHeld"
    ),
    "agent_cli.contracts.messages": (
        "AssistantMessage CustomKind CustomMessage Incoming LlmMessage Message "
        "ToolResultMessage UserMessage"
    ),
    "agent_cli.contracts.provider": (
        "BlockEnd Model ModelRequest Provider ProviderRegistry Reply ReplyEnd ReplyStart "
        "Retrying StreamEvent StreamFn TextDelta ThinkingDelta ToolCallDelta ToolCallStart"
    ),
    "agent_cli.contracts.media_files": "image_block",
    "agent_cli.contracts.options": "ThinkingLevel",
    "agent_cli.contracts.permission_modes": "Mode",
    "agent_cli.contracts.servers": "ServerPhase ServerState",
    "agent_cli.contracts.listings": "SessionInfo",
    "agent_cli.contracts.timeline": (
        "Block BlockOutput CompactionOutput CustomOutput DiscardedOutput FileOutput Json Output "
        "Prompt ReplyOutput TextOutput ThinkingOutput ToolOutput TrimOutput Usage UserOutput "
        "WidgetOutput text_block"
    ),
    "agent_cli.contracts.tooling": (
        "Allow Approval Ask Deny Tool ToolContext ToolResult ToolSpec Verdict check_input"
    ),
    "agent_cli.core.agent": "Agent AgentState",
    "agent_cli.core.conversation": "Conversation",
    "agent_cli.core.event_stream": "AgentContext EventStream agent_loop agent_loop_continue",
    "agent_cli.core.loop_config": "LoopConfig",
    "agent_cli.core.run": "ChatStateMachine Phase RunResult",
    "agent_cli.core.stream_processor": "StreamProcessor StreamResult",
    "agent_cli.core.turn": "Turn",
    "agent_cli.hooks.definition": "Hook",
    "agent_cli.hooks.events": "HookEvent HookFunction HookReply",
    "agent_cli.library.functions": "tool",
    "agent_cli.library.options": "Approve SessionOptions",
    "agent_cli.library": "list_sessions read_session",
    "agent_cli.library.prompt": "PromptResult RunFailed",
    "agent_cli.library.session": "AgentSession StreamItem query",
    "agent_cli.plugins.api": "Plugin PluginContext PluginState",
    "agent_cli.providers.anthropic.messages": "AnthropicMessages",
    "agent_cli.providers.anthropic.connection": "Connection",
    "agent_cli.providers.anthropic.models": "get_model",
    "agent_cli.providers.retries": "RetryPolicy",
    "agent_cli.sandbox": "PathRules Sandbox SandboxPolicy",
    "agent_cli.telemetry.agent_telemetry": "AgentTelemetry",
    "agent_cli_tools": "Workspace builtin_tools",
}
_HOMES = {name: home for home, names in _PUBLIC.items() for name in names.split()}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604 # pyright: ignore[reportUnsupportedDunderAll] - from the table above


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # not on the program's way to its main()

    if sys.platform == "win32":  # a module that is only on Unix would be missing below
        raise ImportError(NOT_ON_WINDOWS)
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
