"""Web pages the user is asked to visit."""

from agent_cli.repl.mcp import page_rows, web_host


def test_address_is_shown_with_its_host_and_a_warning_if_suspicious() -> None:
    """Phishing uses look-alike addresses."""
    assert [*page_rows("https://pay.example/\t1")] == [
        "  https://pay.example/\\x091",
        "  host: pay.example",
    ]
    assert [*page_rows("http://localhost:8000/")] == [
        "  http://localhost:8000/",
        "  host: localhost",
    ]
    assert "another alphabet" in [*page_rows("https://xn--pay-1ra.example")][2]
    assert [web_host(url) for url in ("https://a.example/b", "ftp://a", "a", "http://[")] == [
        "a.example",
        "",
        "",
        "",
    ]
