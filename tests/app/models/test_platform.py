"""The choice of the cloud: who may make it, its settings, and whose account is charged."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_cli.app import parts
from agent_cli.app.arguments import Arguments
from agent_cli.app.checks import check_access
from agent_cli.app.checks.doctor import examine
from agent_cli.app.startup import StartupContext, start
from agent_cli.contracts.errors import NoCredentials, SettingsError
from agent_cli.settings.environment import SWITCHES
from agent_cli.system import paths
from tests.e2e.program import agent_cli
from tests.messages_api import error, reply, serve_in_thread, tool_use
from tests.messages_api.clouds import AwsKeys, bedrock
from tests.settings.files import write_user_settings

KEYS = AwsKeys(session_token="CANARY-session-token")
AWS: dict[str, Any] = {  # Any: mypy would take them for every parameter
    "AWS_ACCESS_KEY_ID": KEYS.access_key,
    "AWS_SECRET_ACCESS_KEY": KEYS.secret_key,
    "AWS_SESSION_TOKEN": str(KEYS.session_token),
    "AWS_REGION": KEYS.region,
}


def started(*, trust: bool = False) -> StartupContext:
    return start(Arguments(trust=trust), may_ask=False)


def chosen() -> str:
    return parts.connection(started()).platform.name


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize(("value", "is_on"), [("1", True), ("true", True), ("0", False)])
def test_claude_code_variables_choose_the_platform(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, *, is_on: bool
) -> None:
    monkeypatch.setenv(name, value)

    assert chosen() == (SWITCHES[name] if is_on else "anthropic")


def test_platform_setting_overrides_the_claude_code_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_USE_BEDROCK", "1")
    write_user_settings('provider.platform = "anthropic"\n')

    assert chosen() == "anthropic"


def test_variables_of_two_platforms_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CODE_USE_VERTEX", "1")
    monkeypatch.setenv("CLAUDE_CODE_USE_BEDROCK", "1")
    with pytest.raises(SettingsError, match="and CLAUDE_CODE_USE_VERTEX are set, and each names"):
        check_access(started())


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("vertex", "Vertex AI: no region is set; export CLOUD_ML_REGION="),
        ("foundry", "Microsoft Foundry: no resource is named; export ANTHROPIC_FOUNDRY_RESOURCE="),
        ("aws", "Claude Platform on AWS: no workspace is named; export ANTHROPIC_AWS_WORKSPACE_ID"),
    ],
)
def test_missing_platform_setting_is_an_error_before_the_first_prompt(
    name: str, sentence: str
) -> None:
    write_user_settings(f'provider.platform = "{name}"\n')
    with pytest.raises(NoCredentials, match=sentence):
        check_access(started())


def test_project_files_cannot_choose_the_platform_or_an_account() -> None:
    """Trusted or not: the conversation would go to an account of the project author's choice."""
    Path("appsettings.toml").write_text('provider.platform = "bedrock"\n')
    Path(".env").write_text(
        "CLAUDE_CODE_USE_BEDROCK=1\nANTHROPIC_BEDROCK_MANTLE_BASE_URL=http://x\n"
        "AWS_PROFILE=theirs\nAWS_REGION=xx\n"
    )
    startup = started(trust=True)
    connection = parts.connection(startup)

    assert connection.platform.name == "anthropic"
    assert not {name for name in connection.variables if name.startswith("AWS_")}
    assert "ANTHROPIC_BEDROCK_MANTLE_BASE_URL" not in connection.variables
    told = "\n".join(startup.notices)
    assert "provider.platform cannot be set by a project" in told
    assert "CLAUDE_CODE_USE_BEDROCK cannot be set by a project" in told


def test_user_env_file_may_choose_the_platform_and_the_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = paths.user_env_file()
    path.parent.mkdir(parents=True)
    path.write_text("CLAUDE_CODE_USE_BEDROCK=1\nAWS_PROFILE=mine\n")
    connection = parts.connection(started())

    assert (connection.platform.name, connection.variables["AWS_PROFILE"]) == ("bedrock", "mine")


def test_missing_platform_package_is_an_error_before_the_first_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Bedrock key needs no package."""
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.setenv("CLAUDE_CODE_USE_BEDROCK", "1")
    with pytest.raises(NoCredentials, match=r"needs the package boto3: pip install 'boto3'"):
        check_access(started())

    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "k")
    check_access(started())


def test_unencrypted_platform_address_gives_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_BEDROCK_MANTLE_BASE_URL", "http://gateway.example/x")
    monkeypatch.setenv("ANTHROPIC_VERTEX_BASE_URL", "http://localhost:1/x")

    (told,) = started().notices
    assert told.startswith("ANTHROPIC_BEDROCK_MANTLE_BASE_URL: http://gateway.example is not enc")


def test_run_on_bedrock_writes_no_secret_to_any_file() -> None:
    """The whole program, with all logs on: signed requests and a tool."""
    write_user_settings('[[logging.sinks]]\ntype = "file"\nlevel = "debug"\n')
    calls = tool_use("glob", {"pattern": "*"})
    with serve_in_thread(reply(calls), reply("done"), door=bedrock(KEYS)) as api:
        run = agent_cli(
            *("-p", "go", "--permission-mode", "yolo"),
            CLAUDE_CODE_USE_BEDROCK="1",
            ANTHROPIC_BEDROCK_MANTLE_BASE_URL=f"{api.base_url}/anthropic",
            **AWS,
        )

    assert (run.code, run.stdout, api.refusals) == (0, "done\n", [])
    assert len(api.requests) == 2
    written = [path for path in Path.home().rglob("*") if path.is_file()]
    assert any(path.name == "agent.log" for path in written)
    for path in written:
        assert not [s for s in (KEYS.secret_key, str(KEYS.session_token)) if s in path.read_text()]


def test_run_without_credentials_of_the_cloud_ends_with_the_remedy() -> None:
    """It used to hang, deaf to SIGTERM. A batch repeats a run that ended so."""
    run = agent_cli(
        *("-p", "go", "--output-format", "json"),
        CLAUDE_CODE_USE_BEDROCK="1",
        AWS_REGION="x",
        AWS_EC2_METADATA_DISABLED="true",
    )
    result = json.loads(run.stdout)

    assert run.code == 1
    assert result["error"].startswith("Amazon Bedrock: no AWS credentials were found; sign in with")
    assert result["trouble"] == "auth"


async def test_doctor_names_the_platform_and_the_source_of_its_credentials(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_USE_BEDROCK", "1")
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)
    refusal = error(403, "permission_error", "You don't have access to the model")
    with serve_in_thread(reply("ok"), refusal, door=bedrock(KEYS)) as api:
        monkeypatch.setenv("ANTHROPIC_BEDROCK_MANTLE_BASE_URL", f"{api.base_url}/anthropic")
        await examine(started())
        good = " ".join(capsys.readouterr().out.split())
        await examine(started())
        bad = " ".join(capsys.readouterr().out.split())

    assert "platform Amazon Bedrock, by CLAUDE_CODE_USE_BEDROCK" in good
    assert "credentials found: AWS_ACCESS_KEY_ID" in good
    assert "endpoint Amazon Bedrock answers" in good
    assert "request access to the model in the Bedrock console" in bad
    assert "ANTHROPIC_API_KEY" not in bad
    assert KEYS.secret_key not in good + bad


async def test_doctor_reports_missing_platform_credentials(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_user_settings('provider.platform = "bedrock"\n')
    monkeypatch.setenv("AWS_REGION", "x")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    await examine(started())

    told = " ".join(capsys.readouterr().out.split())
    assert f"Amazon Bedrock, by {paths.user_settings_file()}:1" in told
    assert "FAIL credentials Amazon Bedrock: no AWS credentials were found; sign in with" in told


MODULES = """
import atexit, json, sys
atexit.register(lambda: print("\\n" + json.dumps(sorted(sys.modules))))
from agent_cli.__main__ import main
sys.argv[1:] = ["-p", "go"]
main()
"""
CLOUD_MODULES = (
    *("anthropic", "boto3", "botocore", "urllib3", "requests", "google.auth", "azure", "msal"),
    *("agent_cli.providers.anthropic.clouds", "agent_cli.providers.anthropic.sdk_client"),
)


def test_run_with_an_api_key_imports_no_cloud_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All extras are installed here; such a run loads none of them, nor the SDK."""
    with serve_in_thread(reply("hi")) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        done = subprocess.run(
            [sys.executable, "-c", MODULES],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    answer, modules = done.stdout.split("\n\n")
    assert (answer, done.stderr) == ("hi", "")
    assert {*CLOUD_MODULES} & {*json.loads(modules)} == set()
