"""Check whom connections trust, and that the certificates are read once."""

import os
import ssl
from pathlib import Path

import pytest

from agent_cli.system.http_requests import trust
from tests.web.https_server import serve_web


def test_certificates_are_read_once_and_again_once_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They used to be read for each server, page and hook: 20 ms of CPU each time."""
    with serve_web(tmp_path, ["docs.example"]) as web:
        monkeypatch.setenv("SSL_CERT_FILE", str(web.authority))

    first, second = trust(is_tls=True), trust(is_tls=True)
    with serve_web(tmp_path, ["docs.example"]) as web:  # of another authority
        os.utime(web.authority, ns=(1, 1))
    third = trust(is_tls=True)

    assert first is second
    before, after = (each.get_ca_certs(binary_form=True) for each in (first, third))
    assert len(before) == len(after) == 1
    assert before != after


def test_connection_without_tls_needs_no_certificates_and_trusts_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")

    plain = trust(is_tls=False)

    assert plain.get_ca_certs() == []
    assert plain.verify_mode is ssl.CERT_REQUIRED
    with pytest.raises(FileNotFoundError):
        trust(is_tls=True)
