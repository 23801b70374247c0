import httpx2
import pytest
from mcp import MCPError

from agent_cli.mcp_client import ServerConfig
from agent_cli.mcp_client.reasons import error_line, why_not_connected
from tests.tables import each_row

WEB = ServerConfig(name="web", transport="http", url="https://me:s3cret@example.com/mcp?key=s3cret")


@each_row(
    ("error", "reason"),
    [
        (TimeoutError(), "no answer within 30 s"),
        (MCPError(-32000, "Connection closed"), "it ended before it was ready"),
        (MCPError(-32000, "no licence left"), "it answered: no licence left"),
        (MCPError(-32601, "Not Found"), "it answered: Not Found"),
        (httpx2.ConnectError("refused"), "cannot reach https://example.com/mcp (refused)"),
        (
            httpx2.UnsupportedProtocol("no scheme"),
            "https://example.com/mcp is not a web address; begin it with http:// or https://",
        ),
        (RuntimeError("Unsupported protocol version"), "Unsupported protocol version"),
    ],
)
def test_a_failed_connection_is_explained_without_secrets(error: Exception, reason: str) -> None:
    """Exceptions of the SDK are wrapped in groups; the first cause inside is the reason."""
    wrapped = ExceptionGroup("outer", [ExceptionGroup("inner", [error]), ValueError("other")])

    assert why_not_connected(WEB, wrapped) == reason


WAY_OUT = '; correct its url, or its type: "http", or "sse" for older servers'


@pytest.mark.parametrize(
    ("status", "said", "reason"),
    [
        (405, "Method Not Allowed", f"answered with HTTP 405 (Method Not Allowed){WAY_OUT}"),
        (404, "Not Found", f"answered with HTTP 404 (Not Found){WAY_OUT}"),
        (
            503,
            "Service Unavailable",
            "answered with HTTP 503 (Service Unavailable); try again later",
        ),
    ],
)
def test_http_refusal_is_reported_with_its_status_and_no_secrets(
    status: int, said: str, reason: str
) -> None:
    """The SDK reports every refusal alike, or with the whole address, keys included."""
    request = httpx2.Request("GET", WEB.url)
    older = httpx2.HTTPStatusError(
        WEB.url, request=request, response=httpx2.Response(status, request=request)
    )
    expected = f"https://example.com/mcp {reason}"

    assert why_not_connected(WEB, older) == expected
    refusal = f"HTTP {status} ({said})"
    error = MCPError(-32603, said)
    assert why_not_connected(WEB, error, refused=status, refusal=refusal) == expected


def test_messages_of_an_exception_group_become_one_line() -> None:
    group = ExceptionGroup("all", [ValueError("one\ntwo"), KeyError()])

    assert error_line(group) == "one two; KeyError without a message"
