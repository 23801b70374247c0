"""Secret files are recognized by name, in any directory."""

from pathlib import Path, PurePosixPath

from agent_cli.sandbox.secret_files import is_other_name, is_secret
from tests.tables import each_row


@each_row(
    "path",
    [
        *("/ws/.env", "/ws/.ENV", "/ws/a/.env.local", "/ws/.env.production", "/ws/.envrc"),
        *("/home/u/.ssh/config", "/home/u/.aws/credentials", "/home/u/.gnupg/x", "/ws/tls.pem"),
        *("/ws/server.key", "/ws/id_rsa", "/ws/id_ed25519", "/home/u/.netrc", "/ws/.pypirc"),
        *("/home/u/.docker/config.json", "/home/u/.config/gh/hosts.yml", "/u/.git-credentials"),
        *("/proc/self/environ", "/proc/7/task/8/environ", "proc/7/environ"),
        *("/home/u/.cargo/credentials.toml", "/home/u/.vault-token", "/backup/.bash_history"),
        *("/home/u/.config/Chromium/Default/Cookies", "/home/u/.docker/config.json.bak"),
        *("/home/u/.claude/.credentials.json", "/home/u/.codex/auth.json", "/home/u/.Xauthority"),
    ],
)
def test_path_counts_as_a_secret_file(path: str) -> None:
    assert is_secret(PurePosixPath(path))


@each_row(
    "path",
    [
        *(
            "/ws/.env.example",
            "/ws/.env.sample",
            "/ws/env.py",
            "/ws/.environment",
            "/ws/id_rsa.pub",
        ),
        *("/ws/keys.py", "/ws/pem.md", "/ws/docker/config.json", "/ws/ssh/config", "/ws/environ"),
        *("/home/u/.config/opencode/config.json", "/ws/.npmrc", "/ws/.m2/settings.xml"),
        *("/home/u/.codex/config.toml", "/ws/.claude/settings.json"),
    ],
)
def test_path_does_not_count_as_a_secret_file(path: str) -> None:
    """A file refused without reason costs the model a turn, and the user an explanation."""
    assert not is_secret(PurePosixPath(path))


def test_hard_link_to_a_secret_is_recognised_as_one(tmp_path: Path) -> None:
    """Threat 2: a hard link is the file itself."""
    secret, other = tmp_path / ".env", tmp_path / "notes.txt"
    secret.write_text("KEY=x")
    (tmp_path / "alone.txt").write_text("x")
    other.hardlink_to(secret)

    assert is_other_name(other, tmp_path)
    assert not is_other_name(tmp_path / "alone.txt", tmp_path)
    assert not is_other_name(tmp_path / "missing.txt", tmp_path)
