"""What a server offers beside tools: prompts and resources, as plain values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """One value a prompt is filled in with."""

    name: str
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptInfo:
    """A prompt a user can call by name; `command` is what to type after the slash."""

    server: str
    name: str
    command: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceInfo:
    """Something a user can point at with `@server:uri`; a template has `{names}` in its uri."""

    server: str
    uri: str
    name: str
    description: str = ""
    media_type: str = ""
    is_template: bool = False


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What one server offers beside tools, as last listed."""

    prompts: tuple[PromptInfo, ...] = ()
    resources: tuple[ResourceInfo, ...] = ()
