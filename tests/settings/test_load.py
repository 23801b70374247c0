"""Layers of settings: which wins, which values are refused, and the messages about them."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from agent_cli.contracts.errors import SettingsError
from agent_cli.settings import Override
from agent_cli.settings.environment import Environment, load_environment
from agent_cli.settings.extension_settings import McpServer
from agent_cli.settings.layers import all_rules, value_of
from agent_cli.settings.load import Loaded, load_settings
from agent_cli.settings.schema import (
    CompactionSettings,
    HistorySettings,
    LogSink,
    RetrySettings,
    Settings,
)
from agent_cli.system import paths

WORKSPACE = Path("project")


def load(
    variables: Mapping[str, str] | None = None,
    *,
    trusted: bool = True,
    extra_file: Path | None = None,
    overrides: Sequence[Override] = (),
) -> Loaded:
    return load_settings(
        Environment(variables or {}),
        workspace=WORKSPACE,
        trusted=trusted,
        extra_file=extra_file,
        overrides=overrides,
    )


def write_user(text: str, name: str = "appsettings.toml") -> Path:
    return write(paths.config_dir() / name, text)


def write_project(text: str, name: str = "appsettings.toml") -> Path:
    return write(WORKSPACE / name, text)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_defaults_apply_without_any_settings_file() -> None:
    """S1-25, S1-37: the table of defaults, newer model, no temperature (C20)."""
    settings = load().settings

    assert settings == Settings()
    assert (settings.model, settings.max_tokens, settings.temperature) == (
        "claude-sonnet-5-5",
        32_000,
        None,
    )
    assert settings.history == HistorySettings(40_000, 0)
    assert settings.compaction == CompactionSettings("summarize", 0, 6)
    assert settings.retry == RetrySettings(
        5, 10, 1, 2, "none", ("429", "529", "5xx", "connection"), True, 60
    )
    assert settings.logging.sinks == (LogSink("file", "info"), LogSink("console", "warning"))


def test_each_setting_changes_alone_and_records_its_file_and_line() -> None:
    """S1-25, C11: the origin is file and line."""
    path = write_user(
        '# mine\n\npermissions.ask = [\n  "a[",\n]\nmodel = """\nmax = 1"""\n'
        "[retry]\nfactor = 3\nmax = 2  # fewer\n"
    )

    loaded = load()

    assert loaded.settings == Settings()._replace(
        model="max = 1",
        permissions=Settings().permissions._replace(ask=("a[",)),
        retry=Settings().retry._replace(max=2, factor=3),
    )
    assert loaded.origins == {
        "permissions.ask": f"{path}:3",
        "model": f"{path}:6",
        "retry.factor": f"{path}:9",
        "retry.max": f"{path}:10",
    }


def test_later_layers_override_earlier_ones() -> None:
    """The order: defaults, user, project, --settings, environment, flags."""
    keys = ("max_tokens", "jobs.timeout_s", "tools.concurrency", "retry.max", "mcp.call_timeout_s")
    override = Override("mcp.call_timeout_s", "5", "--five")

    def document(number: int, names: Sequence[str]) -> str:
        return "".join(f"{name} = {number}\n" for name in names)

    write_user(document(1, keys))
    write_project(document(2, keys[1:]))
    extra = write(Path("extra.toml"), document(3, keys[2:]))
    variables = {"AGENT_CLI_RETRY__MAX": "4", "AGENT_CLI_MCP__CALL_TIMEOUT_S": "4"}
    loaded = load(variables, extra_file=extra, overrides=[override])

    settings = loaded.settings
    assert (settings.max_tokens, settings.jobs.timeout_s, settings.tools.concurrency) == (1, 2, 3)
    assert (settings.retry.max, settings.mcp.call_timeout_s) == (4, 5)
    assert loaded.origins["retry.max"] == "env AGENT_CLI_RETRY__MAX"
    assert loaded.origins["mcp.call_timeout_s"] == "flag --five"


def test_untrusted_projects_settings_are_ignored() -> None:
    """A cloned repository must not choose the model or start servers."""
    write_project('model = "theirs"\n[[mcp.servers]]\nname = "x"\ncommand = "evil"\n')

    assert load(trusted=False) == Loaded(Settings(), {}, ())


@pytest.mark.parametrize(
    "line",
    [
        'permissions.mode = "yolo"',
        'permissions.allow = ["bash(*)"]',
        'sandbox.mode = "off"',
        "sandbox.network = true",
        'sandbox.network = "hosts"',
        'working_directory = "~/docs"',
        'logging.sinks = [{ type = "file", path = "~/.bashrc" }]',
        'mcp.config = ["../other.json"]',
        "plugins.enabled = false",
        'plugins.disabled = ["guard"]',
    ],
)
def test_trusted_project_cannot_loosen_safety_settings(line: str) -> None:
    """The message names the user's file as the place to set them."""
    path = write_project(line)

    loaded = load()

    key = line.partition(" ")[0]
    assert loaded.settings == Settings()
    assert loaded.notices == (
        f"{path}:1: {key} cannot be set by a project; set it in {paths.user_settings_file()}",
    )


def test_projects_env_variables_cannot_loosen_safety_settings() -> None:
    """The project's .env counts as the project too."""
    environment = Environment({}, project={"AGENT_CLI_PERMISSIONS__MODE": "yolo"})

    loaded = load_settings(environment, workspace=WORKSPACE, trusted=True)

    assert loaded.settings.permissions.mode == "ask"
    assert "cannot be set by a project" in loaded.notices[0]


def test_permission_rules_of_all_layers_add_up() -> None:
    """A later layer must not be able to empty the list of deny rules."""
    write_user('permissions.deny = ["read(.env)"]')
    write_project("permissions.deny = []\n")
    override = Override("permissions.deny", ("bash(rm *)",), "--deny")

    loaded = load(overrides=[override])

    assert loaded.settings.permissions.deny == ("read(.env)", "bash(rm *)")
    assert loaded.origins["permissions.deny"].endswith(":1, flag --deny")


def test_hooks_of_all_layers_add_up() -> None:
    """Each keeps where it was written, and whether by the project."""
    write_user('[[hooks.PreToolUse]]\nmatcher = "Bash"\n')
    write_project('[[hooks.post_tool_use]]\nmatcher = "Read"\n')

    hooks = [(each.event, each.group, each.from_project) for each in load().hooks]

    assert hooks == [
        ("PreToolUse", {"matcher": "Bash"}, False),
        ("PostToolUse", {"matcher": "Read"}, True),
    ]


def test_mcp_config_option_adds_to_the_configured_files() -> None:
    """--mcp-config adds servers; none are replaced."""
    loaded = load(overrides=[Override("mcp.config", ("more.json",), "--mcp-config")])

    assert loaded.settings.mcp.config == (".mcp.json", "more.json")


def test_an_unknown_key_is_a_warning_with_file_line_and_nearest_key() -> None:
    """S1-25, C11: a typing error is reported, and the rest of the file counts."""
    path = write_user("max_rounds = 7\n[retry]\nbase = 3\nfrobnicate = 1\n[hstory]\nx = 1\n")

    loaded = load()

    assert loaded.settings == Settings()._replace(max_rounds=7)
    assert loaded.notices == (
        f"{path}:3: unknown setting retry.base; did you mean retry.base_s?",
        f"{path}:4: unknown setting retry.frobnicate",
        f"{path}:6: unknown setting hstory.x",
    )


def test_event_of_hooks_that_is_not_here_is_named_with_the_reason() -> None:
    """A similar name, `hooks.stop` for `Setup`, would be another event."""
    path = write_user('[[hooks.Setup]]\nhooks = [{ type = "command", command = "x" }]\n')

    assert load().notices == (
        f"{path}:1: unknown setting hooks.Setup: this program has no set-up run; a SessionStart"
        " hook runs at each start",
    )


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('max = "ten"', 'max must be a whole number from 0 to 20, not "ten"'),
        ("max = true", "max must be a whole number from 0 to 20, not true"),
        ("max = 21", "max must be a whole number from 0 to 20, not 21"),
        ("base_s = nan", "base_s must be a number from 0 to 3600, not NaN"),
        ("base_s = false", "base_s must be a number from 0 to 3600, not false"),
        ('jitter = "some"', 'jitter must be one of "none", "full", not "some"'),
        ("jitter = [1]", 'jitter must be one of "none", "full", not this value'),
    ],
)
def test_a_wrong_value_is_an_error_that_says_what_is_allowed(line: str, complaint: str) -> None:
    """The message names file, key, the value found and the values allowed."""
    path = write_user(f"[retry]\n{line}\n")

    with pytest.raises(SettingsError) as raised:
        load()

    assert str(raised.value) == f"{path}:2: retry.{complaint}"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("retry = 5", ":1: retry must be a table, [retry]"),
        ("a = 1\nb = x", ":2 is not valid TOML: Invalid value, at column 5"),
        ("model = ", ":1 is not valid TOML: Invalid value"),
        ("a = 1\n[mcp]\nconfig = [\n'x'\n# ...\n", ":3 is not valid TOML: Unclosed array"),
        ('# model\nmodel = "x\n', ":2 is not valid TOML: Unclosed quote, at column 11"),
        ("# model\nmodel = 'x\na = 'y'", ":2 is not valid TOML: Unclosed quote, at column 11"),
        ("# model\nmodel = 'x\na = 1\n", ":2 is not valid TOML: Unclosed quote"),
        ('model = "x"\nmodel = "y"', ":2 is not valid TOML: Cannot overwrite a value"),
        ('model = ""', ':1: model must be a model id or an alias from [models], not ""'),
        *(
            (
                f"prices = {{ mine = {price} }}",
                ':1: prices must be a table of texts such as "2.50/10", input and output,'
                " not this table (wrong: mine)",
            )
            for price in ("3", "'3'", "'1/2/3'", "'-1/2'", "'1/x'", "'1/'", "'./.'", "'1e9/2'")
        ),
        ('mcp.config = "x"', ':1: mcp.config must be a list of strings, not "x"'),
        (
            'mcp.config = ["a\\u0000b"]',
            r":1: mcp.config must be a list of strings, not this value (wrong: entry 1)",
        ),
        (
            'status_line.command = "a\\u0000"',
            r':1: status_line.command must be a command line, or left out, not "a\u0000"',
        ),
        ("mcp.enabled = 1", ":1: mcp.enabled must be true or false, not 1"),
        (
            f"mcp.enabled = '{'x' * 80}'",
            f':1: mcp.enabled must be true or false, not "{"x" * 59}…',
        ),
        ("mcp.servers = 1", ":1: mcp.servers must be a list of tables, not 1"),
        ("[[mcp.servers]]\nurl = 'x'", ":1: every entry of mcp.servers must have a name"),
        (
            "models = {b = 'x', a = 1}",
            ":1: models must be a table of texts, not this table (wrong: a)",
        ),
        (
            f"[[mcp.servers]]\nname = 'x'\n[mcp.servers.env]\nsk-ant-api03-{'a' * 40} = 1\n"
            f'"a\\nb" = 1\n{"c" * 80} = 1\nd = 1',
            ":1: mcp.servers.x.env must be a table of texts, not this table (wrong: ***, a b,"
            f" {'c' * 59}… and 1 more)",
        ),
    ],
)
def test_setting_of_the_wrong_type_is_an_error(text: str, complaint: str) -> None:
    """One clear sentence each; no traceback of a parser."""
    path = write_user(text)

    with pytest.raises(SettingsError) as raised:
        load()

    assert str(raised.value) == f"{path}{complaint}"


@pytest.mark.parametrize("name", ["appsettings.toml", "permissions.toml"])
@pytest.mark.parametrize("is_link", [True, False])
def test_own_file_that_is_none_is_an_error(name: str, *, is_link: bool) -> None:
    """Its rules were passed over in silence, those that deny as well."""
    path = paths.config_dir() / name
    path.parent.mkdir(parents=True)
    if is_link:
        path.symlink_to("gone")
    else:
        path.mkdir()

    with pytest.raises(SettingsError) as raised:
        load()

    assert str(raised.value) == f"{path} is not a file; replace or remove it"


def test_effort_max_is_the_highest_level() -> None:
    """Agent files, Claude Code and the API have the word; no door reads it otherwise."""
    assert load({"AGENT_CLI_EFFORT": "max"}).settings.effort == "xhigh"
    assert load(overrides=[Override("effort", "max", "--effort")]).settings.effort == "xhigh"


def test_zero_disables_the_tool_result_limit() -> None:
    """S1-34: tool results are then not truncated."""
    assert load(
        {"AGENT_CLI_HISTORY__MAX_TOOL_RESULT_CHARS": "0"}
    ).settings.history == HistorySettings(0)


def test_error_for_a_wrong_variable_names_the_variable() -> None:
    """The user must know which variable to correct."""
    with pytest.raises(SettingsError) as raised:
        load({"AGENT_CLI_RETRY__MAX": "ten"})

    assert str(raised.value) == (
        'env AGENT_CLI_RETRY__MAX: retry.max must be a whole number from 0 to 20, not "ten"'
    )


@pytest.mark.parametrize("depth", [900, 100_000])
def test_value_that_is_nested_too_deeply_is_a_settings_error(depth: int) -> None:
    with pytest.raises(SettingsError, match=r"^env AGENT_CLI_PRICES: prices must be"):
        load({"AGENT_CLI_PRICES": '{"a":' * depth + "1" + "}" * depth})


def test_environment_variables_can_set_every_type_of_setting() -> None:
    """`AGENT_CLI_<SECTION>__<KEY>`: numbers, switches, lists, tables, aliases."""
    loaded = load(
        {
            "AGENT_CLI_RETRY__BASE_S": "1.5",
            "AGENT_CLI_MCP__ENABLED": "false",
            "AGENT_CLI_PERMISSIONS__ASK": '["read", "edit"]',
            "AGENT_CLI_PERMISSIONS__DENY": "bash(rm *, -f)",
            "AGENT_CLI_MODELS__FAST": "claude-haiku-5-5",
            "AGENT_CLI_MCP__SERVERS": '[{"name": "a", "command": "b"}]',
            "AGENT_CLI_RETRI__MAX": "1",
        }
    )

    settings = loaded.settings
    assert settings.retry.base_s == 1.5
    assert settings.mcp.enabled is False
    assert settings.permissions.ask == ("read", "edit")
    assert settings.permissions.deny == ("bash(rm *, -f)",)
    assert settings.models["fast"] == "claude-haiku-5-5"
    assert settings.mcp.servers == (McpServer("a", command="b"),)
    assert loaded.notices == (
        "env AGENT_CLI_RETRI__MAX: unknown setting RETRI.MAX; did you mean retry.max?",
    )


OLD_DOCUMENT = {
    "Model": "high",
    "MaxTokens": 8192,
    "Temperature": 1.0,
    "MaxToolResultChars": 50_000,
    "MaxConversationMessages": 50,
    "WorkingDirectory": "/tmp",
    "CompactionStrategy": "Summarize",
    "CompactionThresholdTokens": 80_000,
    "ProtectedTailMessages": 8,
    "LogLevel": "Information",
    "LogConsumers": [{"Type": "File", "Path": "a.log", "Level": "Debug"}],
    "McpServers": {
        "files": {
            "Transport": "stdio",
            "Command": "npx",
            "Args": ["-y", "files"],
            "Env": {"Some_Name": "Value"},
        },
        "web": {"Url": "http://127.0.0.1/mcp"},
    },
}


def snake(value: object) -> object:
    """Spell the keys of *value* in snake_case, except the names of variables."""
    if isinstance(value, list):
        return [snake(part) for part in value]
    if not isinstance(value, dict):
        return value
    spelled: dict[str, object] = {}
    for key, part in value.items():
        name = "".join(f"_{c.lower()}" if c.isupper() else c for c in key).lstrip("_")
        spelled[name] = part if key == "Env" else snake(part)
    return spelled


def as_toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {as_toml(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return json.dumps(value)


@pytest.mark.parametrize("is_snake", [False, True], ids=["PascalCase", "snake_case"])
@pytest.mark.parametrize("suffix", ["json", "toml"])
def test_keys_of_older_settings_files_are_accepted(suffix: str, is_snake: bool) -> None:
    """S1c-1, C11: JSON and TOML, PascalCase and snake_case give the same settings."""
    document = snake(OLD_DOCUMENT) if is_snake else OLD_DOCUMENT
    assert isinstance(document, dict)
    toml = "".join(f"{key} = {as_toml(value)}\n" for key, value in document.items())
    write_user(json.dumps(document) if suffix == "json" else toml, f"appsettings.{suffix}")

    loaded = load()

    default = Settings()
    assert loaded.notices == ()
    assert {"model", "logging.sinks", "mcp.servers.files"} <= set(loaded.origins)
    assert loaded.settings == default._replace(
        model="high",
        max_tokens=8192,
        temperature=1.0,
        working_directory="/tmp",
        history=default.history._replace(
            max_tool_result_chars=50_000, max_conversation_messages=50
        ),
        compaction=default.compaction._replace(threshold_tokens=80_000, protected_tail_messages=8),
        logging=default.logging._replace(sinks=(LogSink("file", "debug", "a.log"),)),
        mcp=default.mcp._replace(
            servers=(
                McpServer(
                    "files", "stdio", "npx", args=("-y", "files"), env={"Some_Name": "Value"}
                ),
                McpServer("web", "http", url="http://127.0.0.1/mcp"),
            )
        ),
    )


def test_empty_variable_sets_nothing() -> None:
    """`AGENT_CLI_MODEL=${MODEL:-}` in a compose file ended the start."""
    write_user("max_rounds = 1")

    loaded = load({"AGENT_CLI_MODEL": "", "AGENT_CLI_MAX_ROUNDS": ""})

    assert (loaded.settings.max_rounds, loaded.settings.model) == (1, Settings().model)
    assert loaded.notices == ()


def test_json_settings_support_null_and_comments_and_record_their_line() -> None:
    """C11: an explicit null compaction strategy means none (S1-37), a null temperature unset."""
    text = (
        '{  // was "Temperature": 1,\n  "Temperature": null,\n'
        '  "Compaction": {  /* "Strategy" */\n    "Strategy": null,\n  }\n}'
    )
    path = write_user(text, "appsettings.json")

    loaded = load()

    assert (loaded.settings.temperature, loaded.settings.compaction.strategy) == (None, "none")
    assert loaded.origins == {"temperature": f"{path}:2", "compaction.strategy": f"{path}:4"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"a": }', ":1 is not valid JSON: Expecting value, at column 7"),
        (
            '{\n  // mine\n  "a" 1}',
            ":3 is not valid JSON: Expecting ':' delimiter, at column 7",
        ),
        ("[]", " must hold one JSON object"),
        (f'{{"a": {"1" * 5_000}}}', " holds a number that is too long; correct it"),
    ],
)
def test_invalid_json_is_reported_in_one_sentence(text: str, complaint: str) -> None:
    path = write_user(text, "appsettings.json")

    with pytest.raises(SettingsError) as raised:
        load()

    assert str(raised.value) == f"{path}{complaint}"


def test_toml_file_overrides_json_file_in_the_same_folder() -> None:
    """C11: TOML is primary."""
    write_user('{"max_rounds": 1, "max_tokens": 1}', "appsettings.json")
    write_user("max_rounds = 2")

    settings = load().settings

    assert (settings.max_rounds, settings.max_tokens) == (2, 1)


def test_missing_file_named_by_the_settings_option_is_an_error() -> None:
    with pytest.raises(SettingsError, match=r"^gone\.toml cannot be read: No such file"):
        load(extra_file=Path("gone.toml"))


def test_settings_file_that_is_not_utf8_is_an_error() -> None:
    Path("latin.toml").write_bytes(b'model = "\xe9"')

    with pytest.raises(SettingsError, match=r"^latin\.toml is not UTF-8 text"):
        load(extra_file=Path("latin.toml"))


def test_servers_of_one_name_in_a_file_cost_a_notice() -> None:
    """Across files the later one replaces the earlier; within a file it is a mistake."""
    entry = '[[mcp.servers]]\nname = "a"\ncommand = "{}"\n'
    path = write_user(entry.format(1) + entry.format(2))

    loaded = load()

    assert loaded.settings.mcp.servers == (McpServer("a", command="2"),)
    assert loaded.notices == (
        f"{path}:1: mcp.servers has several entries named 'a', and only the last counts;"
        " give each a name of its own",
    )


def test_mcp_servers_of_all_layers_are_merged_by_name() -> None:
    """The project's server replaces only the user's server of the same name."""
    write_user('[mcp.servers.a]\ncommand = "1"\n[mcp.servers.b]\ncommand = "1"\n')
    path = write_project('[[mcp.servers]]\nname = "b"\ncommand = "2"\ncomand = "2"\n')

    loaded = load()

    assert loaded.settings.mcp.servers == (McpServer("a", command="1"), McpServer("b", command="2"))
    assert loaded.origins["mcp.servers.b"] == f"{path}:1"
    assert loaded.notices == (
        f"{path}:1: unknown setting mcp.servers.b.comand; did you mean command?",
    )


def test_type_of_an_mcp_server_is_read_as_its_transport() -> None:
    """Other programs' files say `type`, and "streamable-http" for http."""
    write_user('[mcp.servers.a]\ntype = "streamable-http"\nurl = "http://127.0.0.1"\n')

    assert load().settings.mcp.servers == (McpServer("a", "http", url="http://127.0.0.1"),)


def test_settings_errors_never_contain_a_secret() -> None:
    """Neither a header's value nor a key pasted into the wrong place."""
    write_user('[mcp.servers.a]\nurl = "x"\nheaders = { a = "sk-ant-api-0123456789", b = 1 }\n')
    with pytest.raises(SettingsError) as first:
        load()
    write_user('effort = "sk-ant-api-0123456789"')
    with pytest.raises(SettingsError) as second:
        load()

    assert "0123456789" not in str(first.value) + str(second.value)
    assert str(second.value).endswith('not "***"')


def test_settings_are_immutable() -> None:
    """S1-28: mutation raises, at any depth; a change makes a new value."""
    write_user('[models]\nfast = "x"\n[mcp.servers.a]\ncommand = "b"\nenv = { A = "1" }\n')
    settings = load().settings

    with pytest.raises(AttributeError):
        settings.model = "other"  # type: ignore[misc]  # the very mistake
    with pytest.raises(AttributeError):
        settings.retry.max = 1  # type: ignore[misc]  # the very mistake
    with pytest.raises(TypeError):
        settings.models["fast"] = "y"  # type: ignore[index]  # the very mistake
    with pytest.raises(TypeError):
        settings.mcp.servers[0].env["A"] = "2"  # type: ignore[index]  # the very mistake

    assert settings._replace(model="other").model == "other"
    assert settings.model == "claude-sonnet-5-5"


def test_model_can_be_an_alias_or_an_id() -> None:
    """S2-54, C12: aliases come from [models]; the user may add and change them."""
    path = write_user('model = "fast"\n[models]\nFast = "claude-haiku-5-5"\nhigh = "claude-x"\n')

    loaded = load()

    settings = loaded.settings
    assert loaded.origins["models.fast"] == f"{path}:3"
    assert settings.model_id() == "claude-haiku-5-5"
    assert settings.model_id("High") == "claude-x"
    assert settings.model_id("normal") == "claude-sonnet-5-5"
    assert settings.model_id("claude-opus-5-5") == "claude-opus-5-5"


def test_claude_code_model_names_resolve_to_aliases() -> None:
    """S2-54: `opus` and the like follow the user's aliases; an alias of that very name wins."""
    write_user('[models]\nhigh = "claude-x"\nhaiku = "claude-y"\n')

    settings = load().settings

    names = ("Opus", "sonnet", "haiku", "small", "fable", "opus[1m]", "claude-z[1m]")
    assert [settings.model_id(name) for name in names] == [
        *("claude-x", "claude-sonnet-5-5", "claude-y", "claude-haiku-5-5", "claude-fable-5-2"),
        *("claude-x", "claude-z"),
    ]


def test_fast_mode_is_asked_for_behind_any_name_of_a_model() -> None:
    """Unless an alias has that very name."""
    write_user('[models]\nhigh = "claude-x"\nsmall-fast = "claude-y"\n')

    settings = load().settings

    names = ("Opus-fast", "claude-opus-5-5-fast", "small-fast")
    assert [settings.model_id(name) for name in names] == [
        *("claude-x-fast", "claude-opus-5-5-fast", "claude-y"),
    ]


def test_models_of_claude_codes_variables_are_the_defaults() -> None:
    """Guides to gateways and to other servers set them beside ANTHROPIC_BASE_URL."""
    variables = {
        "ANTHROPIC_DEFAULT_SONNET_MODEL": "middle",
        "ANTHROPIC_SMALL_FAST_MODEL": "smaller",
    }
    settings = load(variables).settings
    assert [settings.model_id(name) for name in (None, "sonnet", "haiku", "opus")] == [
        *("middle", "middle", "smaller", "claude-opus-5-5")
    ]

    variables |= {
        "ANTHROPIC_MODEL": "opus[1m]",
        "ANTHROPIC_DEFAULT_OPUS_MODEL": "big",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": "tiny",
    }
    loaded = load(variables)
    assert [loaded.settings.model_id(name) for name in (None, "haiku")] == ["big", "tiny"]
    assert loaded.origins["model"] == "env ANTHROPIC_MODEL"

    write_user('model = "mine"\n')
    assert load(variables).settings.model_id() == "mine"


def test_nothing_heavy_is_imported_before_the_first_prompt() -> None:
    """Without settings files and options, their parsers are not needed."""
    heavy = {"argparse", "difflib", "dotenv", "json", "pydantic", "rich", "structlog", "tomllib"}
    script = (
        "import os, pathlib, sys\n"
        "from agent_cli.settings import environment, load\n"
        "from agent_cli.app import arguments\n"
        "from agent_cli.trust import store as trust\n"
        "arguments.parse_arguments([])\n"
        "here = pathlib.Path.cwd()\n"
        "trusted = trust.TrustStore.of_user().is_trusted(here)\n"
        "assert not trust.acting_files(here)\n"
        "given = environment.load_environment(os.environ, workspace=here, trusted=trusted)\n"
        "load.load_settings(given, workspace=here, trusted=trusted)\n"
        f"print(sorted({heavy!r} & set(sys.modules)))\n"
    )

    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )

    assert run.stdout == "[]\n"


@pytest.mark.parametrize(
    ("key", "users", "projects", "counts"),
    [
        ("max_cost_usd", "2", "0", 2),
        ("max_cost_usd", "2", "5", 2),
        ("max_cost_usd", "2", "0.5", 0.5),
        ("max_cost_usd", "", "3", 3),
        ("max_rounds", "", "0", 100),
        ("max_rounds", "0", "7", 7),
        ("agents.ask_beyond", "1", "64", 1),
        ("agents.max_rounds", "9", "0", 9),
        ("agents.max_parallel", "", "64", 4),
        ("agents.enabled", "false", "true", False),
        ("mcp.enabled", "false", "true", False),
        ("jobs.max", "0", "64", 0),
        ("session.enabled", "false", "true", False),
        ("session.enabled", "true", "false", False),
    ],
)
@pytest.mark.parametrize("way", ["file", "variable"])
def test_trusted_project_cannot_lift_the_users_limits(
    key: str, users: str, projects: str, counts: object, way: str, tmp_path: Path
) -> None:
    """Threat 10: the stricter of both counts, and one that is left out is told."""
    if users:
        file = paths.user_settings_file()
        file.parent.mkdir(parents=True)
        file.write_text(f"{key} = {users}\n")
    name = f"AGENT_CLI_{key.replace('.', '__').upper()}"
    (tmp_path / "appsettings.toml").write_text(f"{key} = {projects}\n" if way == "file" else "")
    (tmp_path / ".env").write_text(f"{name}={projects}\n" if way == "variable" else "")
    environment = load_environment({}, workspace=tmp_path, trusted=True)

    loaded = load_settings(environment, workspace=tmp_path, trusted=True)
    stronger = load_settings(
        environment, workspace=tmp_path, trusted=True, overrides=[Override(key, projects, "--x")]
    )

    assert value_of(loaded.settings, key) == counts
    assert bool(loaded.notices) == (str(counts).lower() != projects)
    assert value_of(stronger.settings, key) == json.loads(projects)


# A trusted project sets these freely: they loosen no limit, rule or wall of the user's.
_PROJECTS = """
model models max_tokens temperature effort streaming tool_execution steering approval output_style
provider.read_timeout_s provider.stall_timeout_s provider.compat
tools.timeout_s tools.concurrency tools.fold_output jobs.timeout_s permissions.ask permissions.deny
mcp.startup_timeout_s mcp.first_prompt_wait_s mcp.headless_wait_s mcp.call_timeout_s
mcp.defer_beyond_tokens mcp.servers plugins.reminders
status_line.timeout_s status_line.refresh_s logging.level
"""
_PROJECTS_SECTIONS = ("history.", "compaction.", "retry.", "ui.", "hooks.")


def test_each_setting_that_a_project_sets_freely_is_known() -> None:
    """Threat 10: a new setting is the user's, has a stricter side, or stands here on purpose."""
    free = {key for key, rule in all_rules().items() if not (rule.user_only or rule.stricter)}

    assert {key for key in free if not key.startswith(_PROJECTS_SECTIONS)} == {*_PROJECTS.split()}
