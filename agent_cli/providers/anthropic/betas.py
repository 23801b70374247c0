"""The beta features of the Messages API, a row each; data only.

A feature is used where its row has the model and the platform; a compatible server gets none. If a
server refuses one, `RefusedParts` switches it off for the session, logs that, and repeats the
request without it: `wire` builds every request from the features that are left.
"""

import re
from collections.abc import Callable, Collection
from typing import Final, get_args

from agent_cli.contracts.options import PlatformName
from agent_cli.contracts.provider import Model
from agent_cli.providers.anthropic.models import standard_id, with_known_facts
from agent_cli.providers.anthropic.platforms import Platform
from agent_cli.system.records import dataclass

EVERY_PLATFORM: Final[frozenset[PlatformName]] = frozenset(get_args(PlatformName))
FIRST_PARTY: Final[frozenset[PlatformName]] = frozenset({"anthropic"})
_SYSTEM_ROLE: Final = r"\bmessages\.\d+\.role\b|\brole 'system'"


def _is_known(model: Model) -> bool:
    """Return whether the facts of *model* are known: it is of version 4.5 or later."""
    return bool(model.thinking)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beta:
    """One row of the table.

    Attributes:
        name: For the log.
        header: Its value in `anthropic-beta`; "" for a feature that needs none any more.
        fields: The fields and block types by which a refusal names it, besides the header.
        platforms: The platforms that are known to take it.
        refusals: A pattern of other sentences that refuse it.
        models: Whether a model, with its known facts, takes it; by default any known one.
    """

    name: str
    header: str
    fields: tuple[str, ...]
    platforms: frozenset[PlatformName] = FIRST_PARTY
    refusals: str = "(?!)"
    models: Callable[[Model], bool] = _is_known

    def is_named(self, refusal: str) -> bool:
        """Return whether a server's *refusal* is about this feature."""
        return re.search(self.refusals, refusal) is not None or any(
            re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", refusal)
            for word in filter(None, (self.header, *self.fields))
        )


THINKING_BINDING: Final = Beta(
    name="controls of bound thinking",
    header="thinking-binding-controls-2026-08-01",
    fields=("block_binding", "prefix_mismatch_behavior"),
    platforms=EVERY_PLATFORM,
    models=lambda model: model.binds_thinking,
)
TASK_BUDGETS: Final = Beta(
    name="task budgets",
    header="task-budgets-2026-03-13",
    fields=("task_budget",),
    models=lambda model: model.takes_task_budget,
)
TOOL_REFERENCES: Final = Beta(
    name="tools found in a conversation",
    header="",
    fields=("defer_loading", "tool_reference", "tool_references", "tool_reference_unresolved"),
)
SERVER_FALLBACK: Final = Beta(
    name="other models where one declines",
    header="server-side-fallback-2026-07-01",
    fields=("fallbacks",),  # a refusal says which models take none
)
CACHE_DIAGNOSTICS: Final = Beta(
    name="reasons of cache misses",
    header="",
    fields=("diagnostics",),
)
INLINE_TOOLS: Final = Beta(
    name="tools added in a conversation",
    header="inline-tools-2026-09-15",
    fields=("tool_addition", "tool_definition"),
    refusals=_SYSTEM_ROLE,
    models=lambda model: model.takes_system_messages,
)
TOOL_CHANGES: Final = Beta(
    name="tools withdrawn in a conversation",
    header="mid-conversation-tool-changes-2026-07-01",
    fields=("tool_removal",),
    refusals=_SYSTEM_ROLE,
    models=lambda model: model.takes_system_messages,
)
SYSTEM_MESSAGES: Final = Beta(
    name="notices in the system's role",
    header="",
    fields=(),
    platforms=frozenset({"anthropic", "aws"}),
    refusals=_SYSTEM_ROLE,
    models=lambda model: model.takes_system_messages,
)
MESSAGE_EFFORT: Final = Beta(
    name="effort by message",
    header="mid-conversation-output-config-2026-07-01",
    fields=(),
    refusals=rf"\bmessages\.\d+\.output_config\b|{_SYSTEM_ROLE}",
    models=lambda model: bool(model.default_effort),
)
COMPACTION: Final = Beta(
    name="signed summaries",
    header="compact-2026-09-04",
    fields=("compaction",),
    # Codes: a summary may not be this organisation's, or hold too many tools. Its text remains.
    refusals=r"\bcompaction_\w+",
    platforms=frozenset({"anthropic", "aws", "vertex", "foundry"}),
    models=lambda model: model.signs_summaries,
)
MESSAGE_THREADS: Final = Beta(
    name="conversations held by the server",
    header="message-threads-2026-08-12",
    fields=("thread", "thread_unsupported_request"),
    models=lambda model: model.takes_threads,
)
OUTPUT_FORMAT: Final = Beta(
    name="answers of a schema",
    header="",
    fields=(),
    platforms=frozenset({"anthropic", "aws"}),
    refusals=r"output_config\.format|output_format|json_schema|[Ss]chema is too complex"
    r"|[Ss]tructured outputs?\b|\bcompile.*\bschema\b",
)
FAST_MODE: Final = Beta(
    name="fast mode",
    header="fast-mode-2026-02-01",  # some of the models need none
    fields=("speed",),
    models=lambda model: standard_id(model.id) != model.id,
)
EAGER_INPUT: Final = Beta(
    name="input of tools as it is written",
    header="",
    fields=("eager_input_streaming",),
    platforms=EVERY_PLATFORM,
)
WEB_SEARCH: Final = Beta(
    name="web searches by the API",
    header="",
    fields=("web_search", "web_search_20250305", "web_search_tool_result"),
    platforms=frozenset({"anthropic", "aws", "vertex", "foundry"}),
    # "The use of the web search tool is not supported", "web search is not enabled for this ..."
    refusals=r"[Ww]eb search|web_search_(tool_)?result",
)
WEB_FETCH: Final = Beta(
    name="pages read by the API",
    header="",
    fields=("web_fetch", "web_fetch_20250910", "url_sources"),
    platforms=frozenset({"anthropic", "aws", "foundry"}),
    refusals=r"[Ww]eb fetch|web_fetch_(tool_)?result",
)
BETAS: Final = (
    THINKING_BINDING,
    TASK_BUDGETS,
    TOOL_REFERENCES,
    SERVER_FALLBACK,
    CACHE_DIAGNOSTICS,
    INLINE_TOOLS,
    TOOL_CHANGES,
    SYSTEM_MESSAGES,
    MESSAGE_EFFORT,
    COMPACTION,
    MESSAGE_THREADS,
    OUTPUT_FORMAT,
    FAST_MODE,
    EAGER_INPUT,
    WEB_SEARCH,
    WEB_FETCH,
)


def usable(
    model: Model, platform: Platform, *, compat: bool, refused: Collection[Beta] = ()
) -> frozenset[Beta]:
    """Return the features to use in a request for *model*: none of *refused*, none for *compat*.

    A model from its id alone counts with the facts of models.toml.
    """
    known = with_known_facts(model)
    return frozenset(
        beta
        for beta in (() if compat else BETAS)
        if beta not in refused and platform.name in beta.platforms and beta.models(known)
    )
