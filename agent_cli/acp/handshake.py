"""The response to `initialize`: the program's capabilities, and the ways to sign in."""

from typing import Final

from agent_cli.contracts.errors import KEYS_URL
from agent_cli.contracts.timeline import Json
from agent_cli.version import __version__

PROTOCOL_VERSION: Final = 1
INITIALIZED: Final[dict[str, Json]] = {
    "protocolVersion": PROTOCOL_VERSION,
    "agentInfo": {"name": "agent-cli", "title": "agent-cli", "version": __version__},
    "agentCapabilities": {
        "loadSession": True,
        "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
        "mcpCapabilities": {"http": True, "sse": True},
        "sessionCapabilities": {
            "list": {},
            "resume": {},
            "fork": {},
            "close": {},
            "delete": {},
            "additionalDirectories": {},
        },
    },
    "authMethods": [
        {
            "type": "env_var",
            "id": "api-key",
            "name": "Anthropic API key",
            "description": "Set ANTHROPIC_API_KEY, or put it into the user's .env",
            "vars": [{"name": "ANTHROPIC_API_KEY", "label": "API key"}],
            "link": KEYS_URL,
        },
        {
            "type": "env_var",
            "id": "auth-token",
            "name": "Bearer token",
            "description": "Set ANTHROPIC_AUTH_TOKEN, as gateways use it",
            "vars": [{"name": "ANTHROPIC_AUTH_TOKEN", "label": "Token"}],
        },
    ],
}
METHOD_IDS: Final = ("api-key", "auth-token")
