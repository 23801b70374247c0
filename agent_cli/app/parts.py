"""Build the parts of the program from settings. Starts nothing."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from agent_cli.app.hooks import hook_scripts
from agent_cli.app.startup import StartupContext
from agent_cli.app.status_line import status_scripts
from agent_cli.app.web_tools import web_tools
from agent_cli.app.workspace import reason_to_keep_back
from agent_cli.app.workspace.losses import unkept
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.permissions import Rule
from agent_cli.contracts.provider import Model, Price, StreamFn
from agent_cli.contracts.tooling import Tool
from agent_cli.contracts.wording import one_line
from agent_cli.core.loop_config import LoopConfig
from agent_cli.policies.compaction import AroundCompaction, Compaction
from agent_cli.policies.permission_rules import KINDS, RuleSet, parse_rule, rule_for_file
from agent_cli.policies.permissions import Permissions, ProjectRules
from agent_cli.policies.shell.reach import Reach
from agent_cli.policies.summarizer import Summarizer
from agent_cli.providers.anthropic.connection import Connection
from agent_cli.providers.anthropic.models import in_us, model_by_id, model_table, price_list
from agent_cli.providers.anthropic.platforms import PLATFORMS
from agent_cli.providers.retries import RetryPolicy
from agent_cli.sandbox import Sandbox
from agent_cli.sandbox.secret_files import is_secret
from agent_cli.settings import WrittenRule
from agent_cli.settings.environment import PLACED, chosen_platform, serving
from agent_cli.system import paths
from agent_cli.system.authorship import SessionFolders
from agent_cli.system.programs import users_path
from agent_cli.system.redaction import Redactor
from agent_cli.system.temporary_files import remove_noted
from agent_cli_tools import builtin_tools
from agent_cli_tools.jobs import Jobs
from agent_cli_tools.session_resources import Keeper, SessionResources
from agent_cli_tools.workspace import Workspace

if TYPE_CHECKING:
    from agent_cli.sandbox import Report, SandboxPolicy
    from agent_cli.sandbox.aftermath import FileDecider
    from agent_cli.system.launching import NamedFiles


def connection(
    startup: StartupContext,
    on_sent: Callable[[], None] = lambda: None,
    on_refused_tool: Callable[[str, str], None] = lambda _name, _reason: None,
) -> Connection:
    """Return the connection to the model's server; see `Connection` for the callbacks."""
    settings, arguments = startup.loaded.settings, startup.arguments
    environment = startup.environment
    platform = chosen_platform(settings, environment)
    return Connection(
        base_url=environment.get("ANTHROPIC_BASE_URL"),
        api_key=environment.get("ANTHROPIC_API_KEY") or None,
        auth_token=environment.get("ANTHROPIC_AUTH_TOKEN") or None,
        read_timeout_s=settings.provider.read_timeout_s,
        stall_timeout_s=settings.provider.stall_timeout_s,
        compat=settings.provider.compat,
        threads_above_tokens=settings.provider.threads_above_tokens,
        threads_elsewhere=settings.provider.threads_elsewhere,
        serving=serving(settings, platform),
        platform=PLATFORMS[platform],
        variables=environment.without_project(),  # its keys are the project's own
        record=arguments.record,
        replay=arguments.replay,
        redact=Redactor.of(environment).text,
        price=price(startup),
        on_sent=on_sent,
        on_refused_tool=on_refused_tool,
    )


def model(startup: StartupContext, name: str | None = None) -> Model:
    """Return the model *name*, an alias or an id; the settings' model without a name.

    Raises:
        UsageError: The API has no model with blanks in its id, as in "opus high".
    """
    settings = startup.loaded.settings
    id = settings.model_id(name)
    match settings.provider.wire_api:
        case "messages":
            if id.split() != [id]:
                known = ", ".join(settings.models)
                raise UsageError(f"no model is called {one_line(id)}: name one, such as {known}")
            return model_by_id(id)
        case "chat":
            from agent_cli.providers.openai_chat import API  # rare

            return Model(id, api=API, provider="openai")


def price(startup: StartupContext) -> Price:
    """Return the prices of models: the user's own, and the known prices of all other models."""
    settings = startup.loaded.settings
    prices = price_list(settings.prices)
    return in_us(prices) if settings.provider.inference_geo == "us" else prices


def surcharge(startup: StartupContext) -> float:
    """Return the multiple of its price that a reply may cost, as the server decides where it is."""
    provider = startup.loaded.settings.provider
    platform = chosen_platform(startup.loaded.settings, startup.environment)
    is_open = provider.is_whole and platform in PLACED and provider.inference_geo is None
    return float(model_table().us_only) if is_open and startup.provider is None else 1.0


def retry_policy(startup: StartupContext) -> RetryPolicy:
    """Return the retry policy of model calls."""
    retry = startup.loaded.settings.retry
    return RetryPolicy(
        max=retry.max,
        base_s=retry.base_s,
        other_base_s=retry.other_base_s,
        factor=retry.factor,
        jitter=retry.jitter,
        on=retry.on,
        respect_retry_after=retry.respect_retry_after,
        max_server_delay_s=retry.max_server_delay_s,
    )


def compaction(
    startup: StartupContext,
    stream: StreamFn,
    around: AroundCompaction | None,
    *,
    recalls: bool = True,
) -> Compaction:
    """Return the compaction of long conversations; *stream* asks the model for summaries.

    *recalls*: the agent may use the tool `recall`, where there is one.
    """
    settings = startup.loaded.settings
    chosen = settings.compaction.model
    summarizes = model(startup, chosen) if chosen else None
    return Compaction(
        Summarizer(stream, model=summarizes)
        if settings.compaction.strategy == "summarize"
        else None,
        threshold_tokens=settings.compaction.threshold_tokens,
        protected_tail_messages=settings.compaction.protected_tail_messages,
        words_chars=settings.compaction.user_words_chars,
        around=around,
        can_recall=recalls and startup.can_recall,
    )


def run_options(startup: StartupContext) -> LoopConfig:
    """Return the run options given by settings, with the stable part of the system prompt."""
    settings = startup.loaded.settings
    return LoopConfig(
        system_prompt=system_prompt(startup),
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        thinking_level=settings.effort,
        max_retry_delay_ms=round(settings.retry.max_server_delay_s * 1000),
        max_rounds=settings.max_rounds,
        tool_execution=settings.tool_execution,
        concurrency=settings.tools.concurrency,
        tool_timeout_s=settings.tools.timeout_s,
        steering=settings.steering,
        approval=settings.approval,
    )


def system_prompt(startup: StartupContext) -> str:
    """Return the stable part of the system prompt."""
    arguments = startup.arguments
    prompt = arguments.system_prompt
    if prompt is None:
        prompt = (files("agent_cli.prompts") / "system.md").read_text(encoding="utf-8")
    if arguments.append_system_prompt:
        prompt = f"{prompt.rstrip()}\n\n{arguments.append_system_prompt}"
    return prompt.strip()


def workspace(
    startup: StartupContext, keeper: Keeper | None = None, *, one_shot: bool = False
) -> Workspace:
    """Return the workspace the tools share; *keeper* is notified of the files they change.

    Removes the temporary files that killed programs left in the user's folders.
    """
    remove_noted()
    limits = startup.loaded.settings.jobs
    return Workspace(
        startup.workspace,
        shared=SessionResources(
            extra_dirs=startup.arguments.add_dirs,
            own_dirs=paths.private_dirs(),
            jobs=Jobs(jobs_max=limits.max, timeout_s=limits.timeout_s),
        ),
        keeper=keeper,
        jobs_end_with_run=one_shot,
    )


def tools(
    startup: StartupContext, shared: Workspace | None = None, sandbox: Sandbox | None = None
) -> Sequence[Tool]:
    """Return the built-in tools, which run only with *shared*, and a Python program's tools."""
    settings = startup.loaded.settings
    built_in = builtin_tools(
        shared or workspace(startup),
        sandbox,
        permissions="allow",  # the permission rules decide whether a person is asked
        result_chars_max=settings.history.max_tool_result_chars,
        folds_output=settings.tools.fold_output,
        documents=settings.provider.is_whole,
    )
    return (*built_in, *web_tools(startup, permission_rules), *startup.tools)


def sandbox(
    startup: StartupContext,
    warn: Callable[[str], None] = lambda _text: None,
    person: "FileDecider | None" = None,
) -> Sandbox:
    """Return the sandbox of this session's commands; it picks its backend itself.

    *warn* receives a sentence if no backend works, and others about files that appeared beside a
    command and that *person* did not decide about.

    Raises:
        SettingsError: A permission rule cannot be read.
    """
    settings = startup.loaded.settings.sandbox
    rules, root = permission_rules(startup), paths.real_path(startup.workspace)
    scripts = frozenset(map(paths.real_path, (*hook_scripts(startup), *status_scripts(startup))))

    def policy() -> "SandboxPolicy":
        from agent_cli.sandbox import PathRules, SandboxPolicy, never  # with the probe

        return SandboxPolicy(
            (startup.workspace, *startup.arguments.add_dirs),
            home=Path.home(),
            own=paths.private_dirs(),
            settings=(paths.config_dir(),),
            shown=(paths.skills_dir(), *(plugin.root for plugin in startup.plugins)),
            is_secret=is_secret,
            path_rules=PathRules(
                hides=(lambda path: rules.hides(path, root))
                if rules.denies_paths("read")
                else never,
                locks=(
                    (lambda path: path in scripts or rules.locks(path, root))
                    if scripts or rules.denies_paths("edit", "write")
                    else never
                ),
                elsewhere=tuple(rules.hidden_elsewhere(root)),
            ),
            network=settings.network is True,
            beside=(*beside(startup), paths.skills_dir()),  # without their secrets
        )

    return Sandbox(
        policy,
        mode=settings.mode,
        state_dir=paths.state_dir(),
        warn=warn,
        person=person,
        by_host=settings.network == "hosts",
    )


def why_kept_back(startup: StartupContext) -> Callable[[PurePath], str]:
    """Return a function that says why the model needs approval to read a path, or ""."""
    return reason_to_keep_back(permission_rules(startup), paths.real_path(startup.workspace))


def permissions(
    startup: StartupContext, sandbox: Sandbox, access: Workspace, *, grants: bool
) -> Permissions:
    """Return the permission policy of the tools of *access*.

    A rule can open paths outside to them; a person as well if *grants*.

    Raises:
        SettingsError: A permission rule cannot be read.
    """
    settings, file = startup.loaded.settings, paths.permissions_file()
    rules = permission_rules(startup)
    why = reason_to_keep_back(rules, paths.real_path(startup.workspace))

    def keep(allow: Sequence[str], workspace: Path | None = startup.workspace) -> None:
        from agent_cli.settings.files import add_project_rules  # rare

        add_project_rules(file, workspace, allow)

    def remove(is_meant: Callable[[str], bool]) -> bool:
        from agent_cli.settings.files import remove_project_rules  # rare

        return remove_project_rules(file, startup.workspace, is_meant)

    return Permissions(
        _reach(startup, lambda path: bool(why(path))),
        rules=rules,
        mode=settings.permissions.mode,
        auto_allow=settings.sandbox.auto_allow,
        trusted=startup.trusted,
        own_dirs=tuple(map(paths.real_path, paths.private_dirs())),
        sandbox=sandbox.outlook,
        project_rules=ProjectRules(file, keep, partial(keep, workspace=None), remove),
        access=access,
        grants=grants,
        unkept=partial(
            unkept,
            settings.undo,
            lambda: sandbox.report,
            named_by_commands(startup, lambda: sandbox.report),
        ),
    )


def named_by_commands(
    startup: StartupContext,
    report: "Callable[[], Report | None]",
    folders: Callable[[], Sequence[Path]] = tuple,
) -> "Callable[[str, str], NamedFiles | None]":
    """Return a function that finds the files a command names, if its calls cannot be stopped.

    The second argument says why they cannot; see `named_files`. *folders* returns the
    folders that the user has added. A secret is not kept where a sandbox may hide it.
    """
    bytes_max = round(startup.loaded.settings.undo.max_mb * 1_000_000)

    def named(command: str, why: str) -> "NamedFiles | None":
        from agent_cli.app.workspace.named_files import named_files  # rare

        here, found = reach(startup), report()
        return named_files(
            command,
            replace(here, extra_dirs=[*here.extra_dirs, *map(paths.real_path, folders())]),
            why,
            bytes_max=bytes_max,
            is_kept_back=is_secret if found is None or found.holds else _nothing,
        )

    return named


def _nothing(_path: PurePath) -> bool:
    return False


def reach(startup: StartupContext) -> Reach:
    """Return the workspace as the context of shell commands."""
    return _reach(startup, is_secret)


def _reach(startup: StartupContext, is_kept_back: Callable[[PurePath], bool]) -> Reach:
    return Reach(
        root=paths.real_path(startup.workspace),
        extra_dirs=tuple(map(paths.real_path, startup.arguments.add_dirs)),
        is_secret=is_kept_back,
        search_path=users_path(),
        home=os.environ.get("HOME", ""),
    )


def permission_rules(startup: StartupContext) -> RuleSet:
    """Return the rules of all settings, and the rules that protect the program's own scripts.

    Raises:
        SettingsError: A permission rule cannot be read.
    """
    found = [each for written in startup.loaded.rules for each in _parsed(written)]
    allow, ask, deny = (tuple(rule for of, rule in found if of == kind) for kind in KINDS)
    # In every mode: the agent must not rewrite its own guards.
    reasons = dict.fromkeys(status_scripts(startup), "your status line runs this file")
    reasons |= dict.fromkeys(hook_scripts(startup), "a hook runs this file")
    scripts = (rule_for_file("edit", path, reason) for path, reason in reasons.items())
    return RuleSet(allow=allow, ask=(*ask, *scripts), deny=deny, beside=beside(startup))


def _parsed(written: WrittenRule) -> Sequence[tuple[str, Rule]]:
    if not written.of_claude:
        return ((written.kind, parse_rule(written.text, written.origin)),)
    from agent_cli.policies.claude_rules import claude_rules  # few have such files

    return claude_rules(written.kind, written.text, origin=written.origin)


def beside(startup: StartupContext) -> tuple[Path, ...]:
    """Return the other folders of the repositories that are opened in the session."""
    opened = (startup.workspace, *startup.arguments.add_dirs)
    own = [*map(paths.real_path, opened)]
    return tuple(root for root in SessionFolders.of(*opened).roots if root not in own)
