"""Variables from the process and from `.env` files, and those a project may not set."""

import os
from pathlib import Path

import pytest

from agent_cli.contracts.errors import SettingsError
from agent_cli.settings import (
    OPTIONAL_SECRETS,
    Environment,
    check_credentials,
    load_environment,
)
from agent_cli.system import paths

WORKSPACE = Path("project")


def write_env(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_key_that_only_a_env_file_holds_is_found() -> None:
    """S1-24: and the process's own variables stay unchanged."""
    write_env(paths.user_env_file(), 'export ANTHROPIC_API_KEY="k${HOME}"  # mine\n')
    before = dict(os.environ)

    environment = load_environment({}, workspace=WORKSPACE, trusted=False)

    assert environment["ANTHROPIC_API_KEY"] == "k${HOME}"
    assert environment.origin("ANTHROPIC_API_KEY") == "user's .env"
    check_credentials(environment)
    assert dict(os.environ) == before


def test_the_process_wins_over_the_project_and_that_over_the_user() -> None:
    """S1-24: the order of interface and documentation."""
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
    """Not even for a warning about it."""
    write_env(WORKSPACE / ".env", "ANTHROPIC_API_KEY=theirs\nnot a variable\n")

    environment = load_environment({}, workspace=WORKSPACE, trusted=False)

    assert (dict(environment), environment.notices) == ({}, ())


@pytest.mark.parametrize(
    "name",
    ["ANTHROPIC_BASE_URL", "https_proxy", "ALL_PROXY", "SSL_CERT_FILE", "LD_PRELOAD", "PATH"],
)
def test_where_requests_go_and_what_runs_never_comes_from_a_project(name: str) -> None:
    """A trusted project cannot send the key elsewhere; the user's own file can set the address."""
    path = write_env(WORKSPACE / ".env", f"X=1\n{name}=http://evil.example\n")
    project = load_environment({}, workspace=WORKSPACE, trusted=True)
    write_env(paths.user_env_file(), f"{name}=http://mine.example\n")
    both = load_environment({}, workspace=WORKSPACE, trusted=True)

    assert dict(project) == {"X": "1"}
    assert project.notices == (
        f"{path}:2: {name} cannot be set by a project; set it in {paths.user_env_file()}",
    )
    assert both[name] == "http://mine.example"


def test_an_empty_value_does_not_hide_the_users_key() -> None:
    """A project's copy of .env.example has every name and no value."""
    write_env(paths.user_env_file(), "ANTHROPIC_API_KEY=mine\n")
    write_env(WORKSPACE / ".env", "ANTHROPIC_API_KEY=\n")

    environment = load_environment({}, workspace=WORKSPACE, trusted=True)

    assert environment["ANTHROPIC_API_KEY"] == "mine"


def test_a_line_that_is_no_variable_is_named_but_not_quoted(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It may be a secret whose name was forgotten; the parser itself prints nothing."""
    path = write_env(paths.user_env_file(), "A=1\n'sk-ant-oops' B C\nD=2\n")

    environment = load_environment({}, workspace=WORKSPACE, trusted=False)

    assert dict(environment) == {"A": "1", "D": "2"}
    assert environment.notices == (f"{path}:2: this line is not NAME=value; ignored",)
    assert capfd.readouterr() == ("", "")


def test_a_env_file_in_another_encoding_is_an_error_without_its_bytes() -> None:
    path = write_env(paths.user_env_file(), "")
    path.write_bytes(b"KEY=secret\xff\n")

    with pytest.raises(SettingsError) as raised:
        load_environment({}, workspace=WORKSPACE, trusted=False)

    assert str(raised.value) == f"{path} is not UTF-8 text; save it as UTF-8"


def test_a_missing_key_is_one_clear_sentence() -> None:
    """S1-26: it names the variable and the place for it; empty counts as missing."""
    with pytest.raises(SettingsError) as raised:
        check_credentials(Environment({"ANTHROPIC_API_KEY": ""}))

    assert str(raised.value) == (
        "ANTHROPIC_API_KEY is not set; get a key at https://platform.claude.com/settings/keys,"
        " then export it, or write ANTHROPIC_API_KEY=... into"
        f" {paths.shown(paths.user_env_file())}; `agent-cli demo` needs none"
    )


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"])
def test_each_credential_the_sdk_knows_is_enough(name: str) -> None:
    """S1-26: a token or a profile is as good as a key."""
    check_credentials(Environment({name: "x"}))


def test_a_profile_on_disk_is_enough() -> None:
    """S1-26: as after a login with Anthropic's own tool."""
    write_env(Path.home() / ".config/anthropic/active_config", "default")

    check_credentials(Environment({}))


def test_optional_secrets_are_all_there_or_named() -> None:
    """S1-27, S1c-10: a tool needs all of its secrets; the missing ones can be listed."""
    environment = Environment({"GOOGLE_CLIENT_ID": "1", "BRAVE_API_KEY": "2"})

    missing = {tool: environment.missing(*names) for tool, names in OPTIONAL_SECRETS.items()}

    assert missing == {
        "gmail": ("GOOGLE_CLIENT_SECRET",),
        "admin": ("ANTHROPIC_ADMIN_API_KEY",),
        "web search": (),
    }


def test_keys_that_others_can_read_are_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only if every folder above them is accessible to others."""
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
