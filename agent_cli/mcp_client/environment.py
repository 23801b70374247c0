"""The environment of a server's process: an allowlist, and the variables of its own entry."""

from collections.abc import Mapping

_INHERITED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "TMPDIR", "TEMP", "TMP"),
        *("LANG", "LANGUAGE", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FTP_PROXY"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"),
        "CURL_CA_BUNDLE",
    }
)
_INHERITED_PREFIXES = ("LC_", "XDG_")


def server_environment(inherited: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a stdio server: the harmless part of *inherited*, and *added*.

    Servers are third-party programs: they get our keys, those of other programs, and variables that
    change how their interpreter starts only if their own entry names them.
    """
    return {name: value for name, value in inherited.items() if _is_inherited(name)} | dict(added)


def _is_inherited(name: str) -> bool:
    # Proxy variables are often written in lowercase.
    upper = name.upper()
    return upper in _INHERITED or upper.startswith(_INHERITED_PREFIXES)
