"""Run the server scenarios of the public MCP conformance suite against our HTTP server.

    python -m tests.mcp_server.conformance 0.1.16 [SCENARIO...]
    python -m tests.mcp_server.conformance 0.2.0-alpha.12

Has the requirements of tests/mcp_client/conformance.py. The suite sends no token, so it goes
through a proxy that adds one. Many scenarios call tools, resources and prompts of a server made for
the suite; conformance_baseline.toml lists their checks and why they cannot pass.
"""

import asyncio
import json
import os
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.mcp_client.conformance import VERSIONS, installed, output_of
from tests.mcp_server.http_client import HttpServer, serving_http

BASELINE = Path(__file__).with_name("conformance_baseline.toml")
PASSED = ("SUCCESS", "INFO", "SKIPPED")
SCENARIO_LIMIT_S = 45  # tests.forked kills the server after 60


async def run_suite(version: str, only: list[str]) -> list[str]:
    """Run the scenarios and return the checks whose outcome differs from the baseline."""
    node, suite = await asyncio.to_thread(installed, version)
    known = tomllib.loads(BASELINE.read_text())[version]
    listed = output_of([node, suite, "list", "--server"]).splitlines()
    scenarios = only or [line.split()[1] for line in listed if line.startswith("  - ")]
    surprises: list[str] = []
    outcomes: Counter[str] = Counter()
    for scenario in scenarios:
        async with serving_http(None) as server, token_adding(server) as url:
            checks = await run_scenario(node, suite, url, scenario)
        expected = {key for key in known if key.split()[0] == scenario}
        failed = {f"{scenario} {id}" for id, is_good in checks.items() if not is_good}
        surprises += sorted(failed ^ expected)
        for id, is_good in checks.items():
            outcome = "green" if is_good else known.get(f"{scenario} {id}", "FAIL")
            outcomes[outcome] += 1
            print(f"{scenario} {id}: {outcome}", flush=True)
    print(f"{version}: {dict(outcomes)}; unexpected: {surprises or 'none'}")
    return surprises


async def run_scenario(node: str, suite: str, url: str, scenario: str) -> dict[str, bool]:
    """Return the checks of a scenario by id, and whether the server passes each."""
    with tempfile.TemporaryDirectory() as folder:
        process = await asyncio.create_subprocess_exec(
            *(node, suite, "server", "--url", url, "--scenario", scenario, "-o", folder),
            cwd=folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(SCENARIO_LIMIT_S):
                await process.communicate()
        except TimeoutError:
            process.kill()
            await process.communicate()
            return {"(time limit)": False}
        checks: dict[str, bool] = {}
        for file in await asyncio.to_thread(lambda: sorted(Path(folder).rglob("checks.json"))):
            for check in json.loads(file.read_text()):
                is_good = check["status"] in PASSED
                checks[check["id"]] = checks.get(check["id"], True) and is_good
    return checks or {"(no check ran)": False}


@asynccontextmanager
async def token_adding(server: HttpServer) -> AsyncGenerator[str]:
    """Yield the address of a proxy that adds the token and rewrites its port to the server's."""
    writers: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        port = writer.get_extra_info("sockname")[1]
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await _passed_on(reader, writer, server, port)
        writer.close()
        writers.discard(writer)

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
    finally:
        listener.close()
        for writer in writers:
            writer.close()


async def _passed_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: HttpServer, port: int
) -> None:
    """Pass one request on; the next one comes on a new connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *headers = head.replace(f":{port}", f":{server.port}").rstrip().split("\r\n")
    kept = [each for each in headers if not each.lower().startswith("connection:")]
    added = [f"Authorization: Bearer {server.token}", "Connection: close"]
    from_server, to_server = await asyncio.open_connection("127.0.0.1", server.port)
    to_server.write("\r\n".join([first, *kept, *added, "", ""]).encode("latin-1"))
    body = asyncio.create_task(_copied(reader, to_server))
    try:
        await _copied(from_server, writer)
    finally:
        body.cancel()
        to_server.close()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()


def main() -> int:
    match sys.argv[1:]:
        case [version, *only] if version in VERSIONS:
            with tempfile.TemporaryDirectory() as folder:
                for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
                    os.environ[name] = folder
                os.chdir(folder)
                return 1 if asyncio.run(run_suite(version, only)) else 0
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
