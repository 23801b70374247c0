"""Variables from the process and from `.env` files, and those a project may not set."""

import os
from pathlib import Path

import pytest

from agent_cli.contracts.errors import NoCredentials, SettingsError
from agent_cli.settings.environment import (
    OPTIONAL_SECRETS,
    Environment,
    check_credentials,
    load_environment,
)
from agent_cli.system import paths
from agent_cli.system.config_text import FILE_CHARS_MAX
from tests.tables import each_row

WORKSPACE = Path("project")


def write_env(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_api_key_set_only_in_the_env_file_is_found() -> None:
    """S1-24: and the process's own variables stay unchanged."""
    write_env(paths.user_env_file(), 'export ANTHROPIC_API_KEY="k${HOME}"  # mine\n')
    before = dict(os.environ)

    environment = load_environment({}, workspace=WORKSPACE, trusted=False)

    assert environment["ANTHROPIC_API_KEY"] == "k${HOME}"
    assert environment.origin("ANTHROPIC_API_KEY") == "user's .env"
    check_credentials(environment)
    assert dict(os.environ) == before


def test_process_variables_override_project_and_project_overrides_user() -> None:
    """S1-24: the documented order."""
    write_env(paths.user_env_file(), "A=user\nB=user\nC=user\n")
    write_env(WORKSPACE / ".env", "B=project\nC=project\n")

    environment = load_environment({"C": "process"}, workspace=WORKSPACE, trusted=True)

    assert dict(environment) == {"A": "user", "B": "project", "C": "process"}
    assert [environment.origin(name) for name in "ABCD"] == [
        "user's .env",
        "project's .env",
        "environment",
        "not set",
    ]
    assert environment.project_names == {"B"}
    assert len(environment) == 3


def test_an_untrusted_projects_env_file_is_not_read() -> None:
    """The file does not even cause a warning."""
    write_env(WORKSPACE / ".env", "ANTHROPIC_API_KEY=theirs\nnot a variable\n")

    environment = load_environment({}, workspace=WORKSPACE, trusted=False)

    assert (dict(environment), environment.notices) == ({}, ())


@pytest.mark.parametrize(
    "name",
    ["ANTHROPIC_BASE_URL", "https_proxy", "ALL_PROXY", "SSL_CERT_FILE", "LD_PRELOAD", "PATH"],
)
def test_project_env_file_cannot_set_proxy_path_or_base_url(name: str) -> None:
    """A trusted project cannot send the key elsewhere; the user's own file can set the address."""
    path = write_env(WORKSPACE / ".env", f"X=1\n{name}=http://evil.example\n")
    project = load_environment({}, workspace=WORKSPACE, trusted=True)
    write_env(paths.user_env_file(), f"{name}=http://mine.example\n")
    both = load_environment({}, workspace=WORKSPACE, trusted=True)

    assert dict(project) == {"X": "1"}
    is_exported = "PROXY" in name.upper() or "SSL" in name
    do_this = "export it" if is_exported else f"set it in {paths.user_env_file()}"
    assert project.notices == (f"{path}:2: {name} cannot be set by a project; {do_this}",)
    assert both[name] == "http://mine.example"


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "no_proxy", "SSL_CERT_FILE"])
def test_proxy_in_the_users_env_file_is_said_not_to_count(name: str) -> None:
    """The HTTP library reads the process's variables; the proxy was passed by without a word."""
    path = write_env(paths.user_env_file(), f"{name}=x\nANTHROPIC_API_KEY=mine\n")

    environment = load_environment({}, workspace=WORKSPACE, trusted=False)

    assert environment.notices == (f"{path}:1: {name} counts only if it is exported",)


def test_empty_value_in_a_project_does_not_hide_the_users_key() -> None:
    """A project's copy of .env.example has every name and no value."""
    write_env(paths.user_env_file(), "ANTHROPIC_API_KEY=mine\n")
    write_env(WORKSPACE / ".env", "ANTHROPIC_API_KEY=\n")

    environment = load_environment({}, workspace=WORKSPACE, trusted=True)

    assert environment["ANTHROPIC_API_KEY"] == "mine"


def test_invalid_line_of_an_env_file_is_reported_without_its_text(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The line may be a secret whose name was forgotten; the parser itself prints nothing."""
    path = write_env(paths.user_env_file(), "A=1\n'sk-ant-oops' B C\nD=2\n")

    environment = load_environment({}, workspace=WORKSPACE, trusted=False)

    assert dict(environment) == {"A": "1", "D": "2"}
    assert environment.notices == (f"{path}:2: this line is not NAME=value; ignored",)
    assert capfd.readouterr() == ("", "")


def test_env_file_that_is_not_utf8_is_an_error_without_its_bytes() -> None:
    path = write_env(paths.user_env_file(), "")
    path.write_bytes(b"KEY=secret\xff\n")

    with pytest.raises(SettingsError) as raised:
        load_environment({}, workspace=WORKSPACE, trusted=False)

    assert str(raised.value) == f"{path} is not UTF-8 text; save it as UTF-8"


def test_file_longer_than_settings_can_be_is_not_read() -> None:
    """A stranger's is read at each start, before trust: 300 MB took 9 s and 900 MB of memory."""
    path = write_env(paths.user_env_file(), "")
    os.truncate(path, FILE_CHARS_MAX + 1)

    with pytest.raises(SettingsError) as raised:
        load_environment({}, workspace=WORKSPACE, trusted=False)

    assert str(raised.value) == f"{path} has more than 4 million characters; move it away"


def test_missing_api_key_error_says_where_to_get_and_set_one() -> None:
    """S1-26: one sentence names the variable and the place for it; empty counts as missing."""
    with pytest.raises(SettingsError) as raised:
        check_credentials(Environment({"ANTHROPIC_API_KEY": ""}))

    assert str(raised.value) == (
        "ANTHROPIC_API_KEY is not set; get a key at https://platform.claude.com/settings/keys,"
        " then export it, or write ANTHROPIC_API_KEY=... into"
        f" {paths.shown(paths.user_env_file())}; `agent-cli demo` needs none"
    )


@each_row(
    ("line", "why"),
    [
        ("ANTHROPIC_API_KEY", "{path}:1: this line is not NAME=value"),
        ("ANTHROPIC_API_KEY: k", "{path}:1: this line is not NAME=value"),
        ("ANTHROPIC_API_KEY='k", "{path}:1: this line is not NAME=value"),
        ("ANTROPIC_API_KEY=k", "but ANTROPIC_API_KEY is: perhaps a wrong name"),
        ("anthropic_api_key=k", "but anthropic_api_key is: perhaps a wrong name"),
        ("ANTHROPIC_KEY=k", "but ANTHROPIC_KEY is: perhaps a wrong name"),
        ("ANTHROPIC_ADMIN_API_KEY=k", ""),
        ("ANTHROPIC_BASE_URL=http://x", ""),
        ("ANTHROPIC_KEY=", ""),
    ],
)
def test_key_in_the_env_file_that_does_not_count_is_named(line: str, why: str) -> None:
    """The error told the user to write what they had written; the notice never came."""
    path = write_env(paths.user_env_file(), f"{line}\n")
    environment = load_environment({}, workspace=WORKSPACE, trusted=False)

    with pytest.raises(NoCredentials) as raised:
        check_credentials(environment)

    begin, _, _ = str(raised.value).partition("; get a key")
    noted = f" ({why.format(path=path)})" if why else ""
    assert begin == f"ANTHROPIC_API_KEY is not set{noted}"


def test_empty_variable_that_hides_the_key_of_the_env_file_is_named() -> None:
    environment = Environment({"ANTHROPIC_API_KEY": ""}, {"ANTHROPIC_API_KEY": "k"})

    with pytest.raises(SettingsError, match=r"hides the one in your \.env; run: unset ANTHROPIC_A"):
        check_credentials(environment)


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"])
def test_each_credential_variable_of_the_sdk_is_accepted(name: str) -> None:
    """S1-26: a token or a profile is as good as a key."""
    check_credentials(Environment({name: "x"}))


@pytest.mark.parametrize("name", ["ANTHROPIC_FEDERATION_RULE_ID", "ANTHROPIC_CONFIG_DIR"])
def test_credential_variable_that_only_the_process_can_have_is_named(name: str) -> None:
    """The SDK does not read a .env; otherwise the first prompt would fail."""
    with pytest.raises(SettingsError, match=f"^{name} counts only in the environment, not in a"):
        check_credentials(Environment({}, {name: "x"}))
    Path("configs").mkdir()
    Path("configs/default.json").touch()
    check_credentials(Environment({name: str(Path.cwd())}))


def test_anthropic_profile_on_disk_is_accepted_as_credentials() -> None:
    """S1-26: as after a login with Anthropic's own tool."""
    write_env(Path.home() / ".config/anthropic/active_config", "default")

    check_credentials(Environment({}))


def test_missing_optional_secrets_are_listed_per_tool() -> None:
    """S1-27, S1c-10: a tool needs all of its secrets."""
    environment = Environment({"GOOGLE_CLIENT_ID": "1", "BRAVE_API_KEY": "2"})

    missing = {tool: environment.missing(*names) for tool, names in OPTIONAL_SECRETS.items()}

    assert missing == {
        "gmail": ("GOOGLE_CLIENT_SECRET",),
        "admin": ("ANTHROPIC_ADMIN_API_KEY",),
        "web search": (),
    }


def test_env_file_readable_by_other_users_causes_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only if other users can enter every folder above the file."""
    path = paths.user_env_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("A=b\n")
    path.chmod(0o644)

    def notices() -> tuple[str, ...]:
        return load_environment({}, workspace=Path.cwd(), trusted=False).notices

    closed = notices()
    modes = {str(folder): folder.stat().st_mode | 0o001 for folder in path.parents}
    real = Path.stat

    def entered(self: Path, **more: bool) -> os.stat_result:
        found = real(self, **more)
        mode = modes.get(str(self))
        return os.stat_result((mode, *found[1:])) if mode else found

    monkeypatch.setattr(Path, "stat", entered)

    assert closed == ()
    assert notices() == (
        f"{path} can be read by other users of this machine; run: chmod 600 {path}",
    )
    path.chmod(0o600)
    assert notices() == ()
