"""What a server's process may know of ours."""

from collections.abc import Mapping

_OUR_VARIABLES = ("ANTHROPIC_", "AGENT_CLI_")


def server_environment(inherited: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a stdio server: *inherited* without what is ours, and *added*.

    Servers are somebody else's programs: the credentials we talk to the model with, and our own
    settings, are none of their business unless the configuration names them.
    """
    kept = {k: v for k, v in inherited.items() if not k.upper().startswith(_OUR_VARIABLES)}
    return kept | dict(added)
