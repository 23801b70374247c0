"""The settings of lifecycle hooks: a list of tables for each event."""

from collections.abc import Mapping
from typing import Annotated, NamedTuple, TypeAlias

from agent_cli.settings.rules import flag, groups

HookGroups: TypeAlias = tuple[Mapping[str, object], ...]


class HookSettings(NamedTuple):
    """Lifecycle hooks: a list of groups for each event, in Claude Code's format and names.

    `claude_files` also reads the hooks in `settings.json` of `~/.claude` and, if the workspace is
    trusted, in `settings.json` and `settings.local.json` of its `.claude`.
    """

    claude_files: Annotated[bool, flag()._replace(user_only=True)] = True
    pre_tool_use: Annotated[HookGroups, groups()] = ()
    post_tool_use: Annotated[HookGroups, groups()] = ()
    post_tool_use_failure: Annotated[HookGroups, groups()] = ()
    permission_request: Annotated[HookGroups, groups()] = ()
    user_prompt_submit: Annotated[HookGroups, groups()] = ()
    session_start: Annotated[HookGroups, groups()] = ()
    session_end: Annotated[HookGroups, groups()] = ()
    stop: Annotated[HookGroups, groups()] = ()
    subagent_start: Annotated[HookGroups, groups()] = ()
    subagent_stop: Annotated[HookGroups, groups()] = ()
    pre_compact: Annotated[HookGroups, groups()] = ()
    post_compact: Annotated[HookGroups, groups()] = ()
    notification: Annotated[HookGroups, groups()] = ()
    permission_denied: Annotated[HookGroups, groups()] = ()
    post_tool_batch: Annotated[HookGroups, groups()] = ()
    user_prompt_expansion: Annotated[HookGroups, groups()] = ()
    stop_failure: Annotated[HookGroups, groups()] = ()
    file_changed: Annotated[HookGroups, groups()] = ()
    pre_model_switch: Annotated[HookGroups, groups()] = ()
    post_model_switch: Annotated[HookGroups, groups()] = ()
    directory_added: Annotated[HookGroups, groups()] = ()
    elicitation: Annotated[HookGroups, groups()] = ()
    elicitation_result: Annotated[HookGroups, groups()] = ()
    instructions_loaded: Annotated[HookGroups, groups()] = ()
    task_created: Annotated[HookGroups, groups()] = ()
    task_completed: Annotated[HookGroups, groups()] = ()
