"""`config show`: valid TOML, masked, and `appsettings.example.toml` against the schema."""

import json
import re
import tomllib
from pathlib import Path

from agent_cli.settings.environment import Environment
from agent_cli.settings.layers import all_rules, value_of
from agent_cli.settings.load import load_settings
from agent_cli.settings.schema import Settings
from agent_cli.settings.show import descriptions, settings_as_json, show_settings
from agent_cli.system import paths

ROOT = Path(__file__).parents[2]
HERE = Path()


def test_config_show_lists_every_setting_with_its_origin() -> None:
    """C11: `config show --origin` prints the layer of each value."""
    environment = Environment({"AGENT_CLI_RETRY__MAX": "3", "AGENT_CLI_MODELS__FAST": "x"})
    loaded = load_settings(environment, workspace=HERE, trusted=False)

    lines = show_settings(loaded, environment, with_origin=True).splitlines()

    assert "retry.max = 3  # env AGENT_CLI_RETRY__MAX" in lines
    assert "retry.factor = 2  # default" in lines
    assert "prices = {}  # default" in lines
    assert "# temperature is not set  # default" in lines
    assert any(re.search("^models = .*# fast: env AGENT_CLI_MODELS__FAST$", li) for li in lines)
    assert [key for key in all_rules() if not any(key in line for line in lines)] == []


def test_config_show_output_loads_as_the_same_settings() -> None:
    """The output can be copied into a settings file."""
    environment = Environment({})
    loaded = load_settings(environment, workspace=HERE, trusted=False)

    shown = show_settings(loaded, environment, with_origin=False)
    paths.private_dir(paths.config_dir())
    paths.user_settings_file().write_text(shown)

    again = load_settings(environment, workspace=HERE, trusted=False)
    assert (again.settings, again.notices) == (Settings(), ())


def test_config_show_describes_each_settings_meaning_and_range() -> None:
    """A reader needs no second document."""
    loaded = load_settings(Environment({}), workspace=HERE, trusted=False)

    lines = show_settings(loaded, Environment({}), with_origin=False).splitlines()
    described = json.loads(settings_as_json(loaded, Environment({})))

    assert "retry.max = 5  # retries of one call; a whole number from 0 to 20" in lines
    assert described["retry.max"]["description"].startswith("retries of one call")
    assert [key for key in all_rules() if not descriptions().get(key)] == [
        "models",
        "logging.sinks",
    ]


def test_config_show_masks_secrets() -> None:
    """The output says only whether a secret is set, and where."""
    secret = "CANARY-0123456789"
    environment = Environment(
        {"ANTHROPIC_API_KEY": secret, "ANTHROPIC_BASE_URL": f"http://me:{secret}@127.0.0.1"},
        user={"BRAVE_API_KEY": secret},
    )
    paths.private_dir(paths.config_dir())
    paths.user_settings_file().write_text(
        '[mcp.servers.a]\ncommand = "x"\nargs = ["--api-key", "CANARY-1", "--token=CANARY-2"]\n'
        'env = { A = "CANARY-3" }\n'
        '[mcp.servers.b]\nurl = "http://u:CANARY-4@127.0.0.1/?api_key=CANARY-5"\n'
        'headers = { Authorization = "Bearer CANARY-6" }\n'
    )
    loaded = load_settings(environment, workspace=HERE, trusted=False)

    shown = show_settings(loaded, environment, with_origin=True)

    assert "CANARY" not in shown
    assert "# ANTHROPIC_API_KEY: set, environment\n" in shown
    assert "# BRAVE_API_KEY: set, user's .env\n" in shown
    assert "# GOOGLE_CLIENT_ID: not set\n" in shown
    assert "# ANTHROPIC_BASE_URL: http://***@127.0.0.1, environment\n" in shown
    assert 'args = ["--api-key", "***", "--token=***"]' in shown
    assert 'env = { "A" = "***" }' in shown
    assert 'url = ""' not in shown  # the other server has one


def test_example_settings_state_every_default_unit_and_range() -> None:
    """A reader of the example must not need the source."""
    text = (ROOT / "appsettings.example.toml").read_text()
    table = ""
    missing: list[str] = []
    lines: dict[str, str] = {}
    for line in text.splitlines():
        if re.fullmatch(r"\[\w+\].*", line):
            table = line[1:].partition("]")[0] + "."
        elif found := re.match(r"(# )?(\w+) = ", line):
            lines.setdefault(("" if table == "" else table) + found[2], line)
    for key, rule in all_rules().items():
        if key in ("models", "logging.sinks"):
            continue
        comment = lines.get(key, "").partition(" = ")[2].partition("#")[2]
        allowed = rule.allowed.removesuffix(", or left out")
        if allowed not in comment or rule.unit not in comment:
            missing.append(f"{key}: {rule.unit}; {allowed}")
        if value_of(Settings(), key) is None and not lines.get(key, "").startswith("# "):
            missing.append(f"{key} is not set by default")

    assert missing == []


def test_example_settings_equal_the_defaults() -> None:
    """S1-37: copied unchanged, the example changes nothing and gives no warning."""
    text = (ROOT / "appsettings.example.toml").read_text()
    paths.private_dir(paths.config_dir())
    paths.user_settings_file().write_text(text)

    loaded = load_settings(Environment({}), workspace=HERE, trusted=False)

    assert (loaded.settings, loaded.notices) == (Settings(), ())
    document = tomllib.loads(text)
    written = {f"{k}.{n}" for k, v in document.items() if isinstance(v, dict) for n in v}
    unset = {key for key in all_rules() if value_of(Settings(), key) is None}
    assert set(all_rules()) - unset - {"models"} <= written | set(document)


def test_example_mcp_servers_are_valid_when_uncommented() -> None:
    """An example that does not parse misleads users."""
    text = (ROOT / "appsettings.example.toml").read_text()
    _, _, tail = text.partition("servers = []")
    example, _, _ = tail.partition("[logging]")
    lines = [line.removeprefix("# ").removeprefix("#") for line in example.splitlines()[1:]]
    paths.private_dir(paths.config_dir())
    paths.user_settings_file().write_text("\n".join(lines))

    loaded = load_settings(Environment({}), workspace=HERE, trusted=False)

    assert [(s.name, s.transport) for s in loaded.settings.mcp.servers] == [
        ("files", "stdio"),
        ("tickets", "http"),
        ("calendar", "http"),
    ]
    assert loaded.notices == ()


def test_env_example_names_every_secret() -> None:
    """S1c-10: every secret has its name in .env.example."""
    environment = Environment({})
    loaded = load_settings(environment, workspace=HERE, trusted=False)
    shown = show_settings(loaded, environment, with_origin=False)
    example = (ROOT / ".env.example").read_text()

    names = re.findall(r"^# ([A-Z_]+): not set$", shown, re.MULTILINE)

    assert len(names) == 7
    assert [name for name in names if f"{name}=\n" not in example] == []
