"""Which variables a server's process gets: a list of harmless ones, and those of its own entry."""

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
    """Return the environment of a stdio server: what of *inherited* is harmless, and *added*.

    Servers are somebody else's programs: our keys, those of the user's other programs, and what
    changes how their interpreter starts are theirs only if their own entry names them.
    """
    return {name: value for name, value in inherited.items() if _is_inherited(name)} | dict(added)


def _is_inherited(name: str) -> bool:
    # Proxies are written in lowercase as often.
    upper = name.upper()
    return upper in _INHERITED or upper.startswith(_INHERITED_PREFIXES)
