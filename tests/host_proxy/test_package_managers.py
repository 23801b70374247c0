"""Package managers and git in the sandbox, by host, against local stand-ins with TLS."""

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.host_proxy.stand_in import network
from tests.sandbox.world import World, world
from tests.web.https_server import Answer, Web, serve_web

INDEX, FILES = "index.example.com", "files.example.com"
HOSTS = (INDEX, FILES)
CERTIFICATES = (
    *("SSL_CERT_FILE", "PIP_CERT", "npm_config_cafile", "CARGO_HTTP_CAINFO", "GIT_SSL_CAINFO"),
)
VARIABLES = {
    "PATH": os.environ["PATH"],
    "CARGO_NET_RETRY": "0",
    "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(Path("~/.rustup").expanduser())),
    "GOPROXY": f"https://{INDEX}",
    "GONOSUMDB": "*",
    "GOFLAGS": "-mod=mod",
    "PIP_INDEX_URL": f"https://{INDEX}/simple",
    "PIP_RETRIES": "0",
    "UV_INDEX_URL": f"https://{INDEX}/simple",
    "UV_HTTP_RETRIES": "0",
    "npm_config_registry": f"https://{INDEX}/",
    "NODE_NO_WARNINGS": "1",  # the newest Node warns of "errors" in npm's own code
    "npm_config_fetch_retries": "0",
    "npm_config_allow_remote": "all",  # from another host than the registry's, with npm 12
    "npm_config_audit": "false",
    "npm_config_fund": "false",
    "npm_config_update_notifier": "false",
}


@pytest.fixture
def place() -> Iterator[World]:
    with world("bwrap") as place:
        yield place


def archive(files: Mapping[str, str]) -> bytes:
    """Return *files* as a tarball."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(packed.getvalue())


def python_package(web: Web, _root: Path) -> None:
    name, packed = "tiny-1.0-py3-none-any.whl", io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        info = "tiny-1.0.dist-info"
        wheel.writestr("tiny.py", "")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    link = f'<a href="https://{FILES}/{name}">{name}</a>'
    web.answers["/simple/tiny/"] = Answer(f"<html><body>{link}</body></html>".encode())
    web.answers[f"/{name}"] = Answer(packed.getvalue(), "application/zip")


def node_package(web: Web, root: Path) -> None:
    (root / "package.json").write_text("{}")
    tarball = archive({"package/package.json": '{"name": "tiny", "version": "1.0.0"}'})
    dist = {
        "tarball": f"https://{FILES}/tiny-1.0.0.tgz",
        "shasum": hashlib.sha1(tarball).hexdigest(),
    }
    version = {"name": "tiny", "version": "1.0.0", "dist": dist}
    about = {"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    web.answers["/tiny"] = Answer(json.dumps(about).encode(), "application/json")
    web.answers["/tiny-1.0.0.tgz"] = Answer(tarball, "application/gzip")


def crate(web: Web, root: Path) -> None:
    packed = archive(
        {
            "tiny-1.0.0/Cargo.toml": '[package]\nname = "tiny"\nversion = "1.0.0"\n',
            "tiny-1.0.0/src/lib.rs": "",
        }
    )
    entry = {"name": "tiny", "vers": "1.0.0", "deps": [], "features": {}, "yanked": False}
    entry["cksum"] = hashlib.sha256(packed).hexdigest()
    url = f"https://{FILES}/{{crate}}.crate"
    web.answers["/config.json"] = Answer(json.dumps({"dl": url}).encode(), "application/json")
    web.answers["/ti/ny/tiny"] = Answer(json.dumps(entry).encode(), "text/plain")
    web.answers["/tiny.crate"] = Answer(packed, "application/gzip")
    (root / "src").mkdir()
    (root / "src" / "lib.rs").touch()
    (root / "Cargo.toml").write_text(
        '[package]\nname = "a"\nversion = "1.0.0"\n[dependencies]\ntiny = "1"\n'
    )
    (root / ".cargo").mkdir()
    (root / ".cargo" / "config.toml").write_text(
        '[source.crates-io]\nreplace-with = "near"\n'
        f'[source.near]\nregistry = "sparse+https://{INDEX}/"\n'
    )


def go_module(web: Web, root: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as module:
        module.writestr("tiny.example.com/m@v1.0.0/m.go", "package m\n")
    (root / "go.mod").write_text("module a\ngo 1.20\nrequire tiny.example.com/m v1.0.0\n")
    at = "/tiny.example.com/m/@v/v1.0.0"
    web.answers[f"{at}.info"] = Answer(b'{"Version": "v1.0.0"}', "application/json")
    web.answers[f"{at}.mod"] = Answer(b"module tiny.example.com/m\n", "text/plain")
    web.answers[f"{at}.zip"] = Answer(packed.getvalue(), "application/zip")


def repository(web: Web, root: Path) -> None:
    bare = root.parent / "tiny.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(root), str(bare)], check=True)
    subprocess.run(["git", "update-server-info"], cwd=bare, check=True)
    for path in bare.rglob("*"):
        if path.is_file():
            name = f"/tiny.git/{path.relative_to(bare)}"
            web.answers[name] = Answer(path.read_bytes(), "application/octet-stream")
    refs = web.answers["/tiny.git/info/refs"]
    web.answers["/tiny.git/info/refs?service=git-upload-pack"] = Answer(refs.body, "text/plain")


def is_usable(program: str) -> bool:
    """Return whether *program* runs; rustup's cargo does not without a toolchain in the home."""
    if shutil.which(program, path=VARIABLES["PATH"]) is None:
        return False
    asked = [program, "version" if program == "go" else "--version"]
    environment = {**os.environ, **VARIABLES}
    return subprocess.run(asked, capture_output=True, env=environment, timeout=60).returncode == 0


@pytest.mark.parametrize(
    ("program", "prepare", "command", "reached"),
    [
        (
            "pip",
            python_package,
            # Without warnings: before 2022, pip says that certificates "will probably" fail.
            f"{sys.executable} -W ignore -m pip download -q --no-deps -d got tiny && ls got/tiny*",
            HOSTS,
        ),
        ("uv", python_package, "uv pip install -q --target got tiny && ls got/tiny.py", HOSTS),
        ("npm", node_package, "npm install -q tiny && ls node_modules/tiny", HOSTS),
        ("cargo", crate, "cargo fetch -q && cargo build --offline -q && ls target", HOSTS),
        ("go", go_module, "go mod download && go list -deps tiny.example.com/m", (INDEX,)),
        ("git", repository, f"git clone -q https://{INDEX}/tiny.git got && ls got/.git", (INDEX,)),
        (
            "wget",
            python_package,
            f"wget -q --ca-certificate=authority.crt https://{INDEX}/simple/tiny/ && ls index*",
            (INDEX,),
        ),
    ],
    ids=lambda each: each if each in ("pip", "uv", "npm", "cargo", "go", "git", "wget") else "",
)
async def test_program_installs_by_the_hosts_it_may_reach(
    place: World, tmp_path: Path, program: str, prepare: object, command: str, reached: tuple[str]
) -> None:
    """By the variables alone, with real TLS; the authority is one of the test.

    The home directory cannot be written, and no variable of the user names a cache.
    """
    if not is_usable(program):
        pytest.skip(f"no {program}")
    variables = {**VARIABLES, **dict.fromkeys(CERTIFICATES, str(place.root / "authority.crt"))}
    variables |= {"HOME": str(place.home), "XDG_CACHE_HOME": str(place.home / ".cache")}
    with serve_web(tmp_path, HOSTS) as web:
        (place.root / "authority.crt").write_bytes(web.authority.read_bytes())
        assert callable(prepare)
        prepare(web, place.root)
        hosts: dict[str, int] = dict.fromkeys(HOSTS, web.port)
        async with network(place, tmp_path, hosts) as it:
            code, output = await it.run(command, **variables)

    assert (code, "error" in output.lower()) == (0, False), output
    assert it.told == [f"network: reached {', '.join(sorted(reached))}"]
