"""The environment of commands: variables that programs need, and none of our secrets."""

import os
from collections.abc import Mapping

from agent_cli.system.programs import users_path

_PASSED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE"),
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
        *("XDG_RUNTIME_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE"),
        *("REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "VIRTUAL_ENV", "CONDA_PREFIX"),
        *("CONDA_DEFAULT_ENV", "PYENV_ROOT", "UV_CACHE_DIR", "CARGO_HOME", "RUSTUP_HOME"),
        *("GOPATH", "GOROOT", "GOCACHE", "GOMODCACHE", "JAVA_HOME", "GRADLE_USER_HOME"),
        *("M2_HOME", "MAVEN_HOME", "NVM_DIR", "VOLTA_HOME", "PNPM_HOME", "BUN_INSTALL"),
        *("DENO_DIR", "GEM_HOME", "GEM_PATH", "RBENV_ROOT", "ASDF_DIR", "ASDF_DATA_DIR"),
        *("MISE_DATA_DIR", "SDKMAN_DIR", "ANDROID_HOME", "DOTNET_ROOT", "PKG_CONFIG_PATH"),
    }
)
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})

# Non-interactive: no pager, no editor, no password prompt, no colour.
_UNATTENDED = {
    "CI": "1",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PYTHONUNBUFFERED": "1",
}


def command_environment(ours: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment for a command: an allowlist of *ours*, made non-interactive."""
    passed = {name: value for name, value in ours.items() if _is_passed(name, value)}
    if ours is os.environ:
        passed["PATH"] = users_path()
    return passed | _UNATTENDED


def _is_passed(name: str, value: str) -> bool:
    if name.casefold() in _PROXIES:
        # A proxy's URL may contain a password.
        return "@" not in value
    return name in _PASSED or name.startswith("LC_")
