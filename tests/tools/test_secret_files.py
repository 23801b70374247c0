"""Secrets are judged by name, wherever they lie."""

from pathlib import PurePosixPath

import pytest

from agent_cli_tools.secret_files import is_secret


@pytest.mark.parametrize(
    "path",
    [
        *("/ws/.env", "/ws/.ENV", "/ws/a/.env.local", "/ws/.env.production", "/ws/.envrc"),
        *("/home/u/.ssh/config", "/home/u/.aws/credentials", "/home/u/.gnupg/x", "/ws/tls.pem"),
        *("/ws/server.key", "/ws/id_rsa", "/ws/id_ed25519", "/home/u/.netrc", "/ws/.pypirc"),
        *("/home/u/.docker/config.json", "/home/u/.config/gh/hosts.yml", "/u/.git-credentials"),
    ],
)
def test_is_a_secret(path: str) -> None:
    assert is_secret(PurePosixPath(path))


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/ws/.env.example",
            "/ws/.env.sample",
            "/ws/env.py",
            "/ws/.environment",
            "/ws/id_rsa.pub",
        ),
        *("/ws/keys.py", "/ws/pem.md", "/ws/docker/config.json", "/ws/ssh/config"),
    ],
)
def test_is_no_secret(path: str) -> None:
    """A file refused without reason costs the model a turn, and the user an explanation."""
    assert not is_secret(PurePosixPath(path))
