"""JSON-RPC errors: the codes, and the exception a method raises to answer with one."""

from typing import Final

from agent_cli.contracts.timeline import Json

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
# Codes of the protocol itself.
REQUEST_CANCELLED: Final = -32800
AUTH_REQUIRED: Final = -32000
RESOURCE_NOT_FOUND: Final = -32002


class RpcFault(Exception):
    """The `error` of a response, outgoing or incoming.

    Attributes:
        code: One of the codes above, or a code of the other program.
        message: One sentence; editors show it to the user.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def to_json(self) -> dict[str, Json]:
        """Return the `error` object."""
        return {"code": self.code, "message": self.message}


class ConnectionLost(Exception):
    """The client is gone and cannot answer."""
