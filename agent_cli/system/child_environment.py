"""The environment of MCP servers and hooks: an allowlist, and the variables they name."""

from collections.abc import Mapping

_INHERITED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "TMPDIR", "TEMP", "TMP"),
        *("LANG", "LANGUAGE", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FTP_PROXY"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"),
        "CURL_CA_BUNDLE",
        "PYTHONSAFEPATH",  # it only takes away: no module of the working directory is imported
    }
)
_INHERITED_PREFIXES = ("LC_", "XDG_")


def child_environment(inherited: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server or hook: the harmless part of *inherited*, and *added*.

    They are programs of others: they get our keys, those of other programs, and variables that
    change how their interpreter starts only if their own entry names them.
    """
    return {name: value for name, value in inherited.items() if _is_inherited(name)} | dict(added)


def _is_inherited(name: str) -> bool:
    # Proxy variables are often written in lowercase.
    upper = name.upper()
    return upper in _INHERITED or upper.startswith(_INHERITED_PREFIXES)
