"""A web server with a certificate of an authority of its own, on this machine."""

import http.server
import ssl
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(slots=True)
class Answer:
    """What the server says about a path."""

    body: bytes = b""
    media_type: str = "text/html; charset=utf-8"
    status: int = 200
    location: str = ""


@dataclass(slots=True)
class Web:
    """The running server: its answers by path, and the requests that came."""

    port: int
    authority: Path
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    requests: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


@contextmanager
def serve_web(folder: Path, names: Sequence[str]) -> Generator[Web]:
    """Serve *names* until the end of the block; *folder* gets the authority's certificate."""
    authority, chain = _certificates(folder, names)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.requests.append((self.headers["host"], self.path))
            answer = web.answers.get(self.path, Answer(status=404))
            self.send_response(answer.status)
            self.send_header("content-type", answer.media_type)
            if answer.location:
                self.send_header("location", answer.location)
            self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        do_HEAD = do_GET

        log_message: Callable[..., None] = lambda *_args: None

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    web = Web(server.server_address[1], authority)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()


_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)


def _certificates(folder: Path, names: Sequence[str]) -> tuple[Path, Path]:
    """Write the authority's certificate, and a chain with its key for *names*."""
    its_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of a test")])
    now = datetime.now(UTC)

    def begun(subject: x509.Name, of: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(of.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )

    authority = (
        begun(issuer, its_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(its_key.public_key()), critical=False
        )
        .add_extension(_SIGNS_CERTIFICATES, critical=True)
        .sign(its_key, hashes.SHA256())
    )
    alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    leaf = (
        begun(subject, key)
        .add_extension(alternatives, critical=False)
        # From Python 3.13 on, certificates have to name the key that signed them.
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(its_key.public_key()), critical=False
        )
        .sign(its_key, hashes.SHA256())
    )
    written = folder / "authority.pem", folder / "chain.pem"
    pem = serialization.Encoding.PEM
    written[0].write_bytes(authority.public_bytes(pem))
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    written[1].write_bytes(secret + leaf.public_bytes(pem))
    return written
