"""Skills: instructions that the model reads when it needs them.

The model always sees names and descriptions, and the whole text of a skill only after asking. A
skill's text is then part of the conversation; if a compaction removes it, it is shown again.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.late_models import BaseModel, ConfigDict, Field
from agent_cli.contracts.messages import ToolResultMessage
from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult, without_docstring
from agent_cli.plugins.api import Plugin, PluginContext, PluginState
from agent_cli.prompt_files.skill_files import FILE, Skill, SkillFolder, find_skills

_INTRODUCTION = "Skills, to be read with the tool `skill` before doing what they describe:"


class ActiveSkills(BaseModel):
    """Skill name → id of the call that last brought its text into the conversation."""

    active: dict[str, str] = Field(default_factory=dict)


ACTIVE = PluginState("skills", ActiveSkills)


class SkillInput(BaseModel):
    """Input of the tool `skill`."""

    model_config = ConfigDict(json_schema_extra=without_docstring)

    name: str
    file: str = Field(FILE, description="Another file of the skill")


def skills(folders: Sequence[SkillFolder], *, warn: Callable[[str], None]) -> Plugin:
    """Return the plugin; without a skill in *folders* it contributes nothing.

    Args:
        folders: Directories of skills; those in earlier ones win.
        warn: Receives a sentence for each unusable skill.
    """
    return Plugin(name="skills", prepare=_Shelf(folders, warn).prepare, state=ACTIVE)


class _Shelf:
    """The skills of one conversation: found when it begins, so that the prompt stays the same."""

    def __init__(self, folders: Sequence[SkillFolder], warn: Callable[[str], None]) -> None:
        self._folders = folders
        self._warn = warn
        self._conversation_id = ""
        self._skills: dict[str, Skill] = {}

    def prepare(self, ctx: PluginContext) -> None:
        """Add the names, the tool, and the active skills that the conversation no longer shows."""
        if ctx.conversation.id != self._conversation_id:
            self._conversation_id = ctx.conversation.id
            found, problems = find_skills(self._folders)
            self._skills = {name: each for name, each in found.items() if not each.is_users}
            for problem in problems:
                self._warn(problem)
        if not self._skills:
            return
        lines = [f"- {skill.name}: {skill.description}" for skill in self._skills.values()]
        ctx.add_context("\n".join([_INTRODUCTION, *lines]))
        ctx.add_tool(self._tool())
        self._show_forgotten(ctx)

    def _show_forgotten(self, ctx: PluginContext) -> None:
        if ACTIVE.plugin not in ctx.state or not (state := ACTIVE.read(ctx.state)).active:
            return
        open_ids = {call.tool_call_id for call in ctx.conversation.open_calls()}
        for message in ctx.conversation.context():
            if isinstance(message, ToolResultMessage):
                open_ids.add(message.tool_call_id)
        gone = (name for name, id in sorted(state.active.items()) if id not in open_ids)
        forgotten = [self._skills[name] for name in gone if name in self._skills]
        texts = [_text_or_fault(replace(skill, objection=lambda: "")) for skill in forgotten]
        # Once for all that were just read: it checks all acting files of the workspace.
        objections = {each: each() for each in {skill.objection for skill in forgotten}}
        for skill, (text, fault) in zip(forgotten, texts, strict=True):
            why = objections[skill.objection]
            if why or fault:
                # Raised, it would end this run and each later one. The model may call it again.
                self._warn(_unread(skill, FILE, why) if why else fault)
                del state.active[skill.name]
                ACTIVE.write(ctx.state, state)
            else:
                ctx.add_context(text)

    def _tool(self) -> Tool:
        return Tool(
            name="skill",
            label="Skill",
            description="Read a skill, or another file of its folder.",
            parameters=SkillInput,
            execute=self._read,
            parallel_safe=False,  # it writes state
            changes=False,
            summary=lambda params: params.name,
        )

    async def _read(
        self, tool_call_id: str, params: SkillInput, _cancel: CancelToken, context: ToolContext
    ) -> ToolResult:
        skill = self._skills.get(params.name)
        if skill is None:
            known = ", ".join(self._skills)
            raise ToolError(f"There is no skill {params.name!r}; there are: {known}.")
        text = _text(skill, params.file)
        if params.file == FILE:
            state = ACTIVE.read(context.state)
            state.active[skill.name] = tool_call_id
            ACTIVE.write(context.state, state)
        return ToolResult.of(text)


def _text(skill: Skill, file: str) -> str:
    """Return a file of *skill*, or the whole text if *file* is its main file.

    Raises:
        ToolError: The file cannot be read.
    """
    try:
        return skill.whole() if file == FILE else skill.read(file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ToolError(_unread(skill, file, str(reason))) from error


def _text_or_fault(skill: Skill) -> tuple[str, str]:
    try:
        return _text(skill, FILE), ""
    except ToolError as error:
        return "", str(error)


def _unread(skill: Skill, file: str, reason: str) -> str:
    return f"{file} of the skill {skill.name!r} cannot be read: {reason}."
