"""An MCP server in plain Python that misbehaves as its options say.

raw_server.py '{"option": value, ...}':

    stderr, stdout   text written before anything else (stdout as Latin-1 bytes, so "\\u00ff" is
                     one byte that is not UTF-8)
    exit             status to end with, before the handshake
    delay_s          seconds before it reads anything
    hang             read nothing, answer nothing
    stubborn         ignore SIGTERM and the end of stdin
    tools            the tools to list, as they are on the wire
    tools_file       a file with them, if they are too long for a command line
    describe         file with the description of the tool `reply`
    instruct         file with the instructions
    works            calls only start a task; how many questions about it are answered "working"
    pages            list one tool a page
    cursor_is_a_number   name the next page by a number, not by a text
    endless          announce another page after the last one
    answers          method → members of its answer on the wire, or `null` for none
    record           file that gets every message read, one a line
    daemon           let the grandchild leave the session
    pids             file that gets the ids of this process and of a grandchild that is as stubborn

Its tool `reply` answers on the wire with the members of its argument `reply`; `null` means no
answer, "die" ends the server by SIGKILL, and "stop" stops it by SIGSTOP. Its argument `progress`
is a message that is reported first. Its tool `raw` first writes its argument `line`.
"""

import json
import os
import sys
import time

# Many of these start in the tests. What only some need is imported by them: half of the time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any  # any message a test puts on the wire
else:
    Any = object

TEXT = {"content": [{"type": "text", "text": "answered"}]}
TOOLS = [
    {"name": "reply", "inputSchema": {"type": "object"}},
    {"name": "raw", "inputSchema": {"type": "object"}},
]
GRANDCHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def main() -> None:
    options = json.loads(sys.argv[1])
    sys.stderr.write(options.get("stderr", ""))
    sys.stderr.flush()
    write(options.get("stdout", "").encode("latin-1"))
    if "exit" in options:
        sys.exit(options["exit"])
    if options.get("stubborn"):
        import signal  # noqa: PLC0415 - see above

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "pids" in options:
        import subprocess  # noqa: PLC0415 - see above

        apart = bool(options.get("daemon"))
        command = [sys.executable, "-S", "-c", GRANDCHILD]
        grandchild = subprocess.Popen(command, start_new_session=apart)
        path(options["pids"]).write_text(f"{os.getpid()} {grandchild.pid}")
    time.sleep(options.get("delay_s", 0))
    if not options.get("hang"):
        serve(options)
    while options.get("hang") or options.get("stubborn"):
        time.sleep(600)


def serve(options: dict[str, Any]) -> None:
    for line in sys.stdin:
        if "record" in options:
            with path(options["record"]).open("a") as file:
                file.write(line)
        message = json.loads(line)
        if "id" in message and (reply := answer(message, options)) is not None:
            send({"jsonrpc": "2.0", "id": message["id"], **reply})


def answer(message: dict[str, Any], options: dict[str, Any]) -> dict[str, Any] | None:
    params = message.get("params", {})
    answers: dict[str, dict[str, Any] | None] = options.get("answers", {})
    if message["method"] in answers:
        return answers[message["method"]]
    match message["method"]:
        case "initialize":
            info = {"name": "raw", "version": "1"}
            capabilities: dict[str, Any] = {"tools": {}}
            version = params["protocolVersion"]
            said = {}
            if "instruct" in options:
                said["instructions"] = path(options["instruct"]).read_text()
            about = {"protocolVersion": version, "serverInfo": info}
            return result({**about, "capabilities": capabilities, **said})
        case "tools/list":
            return result(list_tools(options, int(params.get("cursor", 0))))
        case "tools/call":
            report_progress(params)
            if "works" in options:
                return result({"task": task(options)})
            return call(params["name"], params.get("arguments", {}))
        case "tasks/get" | "tasks/cancel":
            return result(task(options))
        case "tasks/result":
            return result(TEXT)
        case _:
            return {"error": {"code": -32601, "message": "there is no such method"}}


def task(options: dict[str, Any]) -> dict[str, Any]:
    """Return the state of the only task, after one more question about it."""
    options["works"] -= 1
    at = "2026-01-01T00:00:00Z"
    state = "working" if options["works"] >= 0 else "completed"
    about = {"taskId": "t1", "status": state, "statusMessage": "at it", "ttl": None}
    return {**about, "createdAt": at, "lastUpdatedAt": at, "pollInterval": 50}


def list_tools(options: dict[str, Any], start: int) -> dict[str, Any]:
    tools = options.get("tools", TOOLS)
    if "tools_file" in options:
        tools = json.loads(path(options["tools_file"]).read_text())
    if "describe" in options:
        tools = [{**TOOLS[0], "description": path(options["describe"]).read_text()}, *TOOLS[1:]]
    if not options.get("pages"):
        return {"tools": tools}
    page: dict[str, Any] = {"tools": tools[start : start + 1]}
    if start + 1 >= len(tools) and not options.get("endless"):
        return page
    following = (start + 1) % len(tools)
    return page | {"nextCursor": following if options.get("cursor_is_a_number") else str(following)}


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    if name == "raw":
        write(arguments["line"].encode("latin-1") + b"\n")
    reply: dict[str, Any] | str | None = arguments.get("reply", result(TEXT))
    if isinstance(reply, str):
        import signal  # noqa: PLC0415 - see above

        os.kill(os.getpid(), signal.SIGKILL if reply == "die" else signal.SIGSTOP)
    return reply if isinstance(reply, dict) else None


def report_progress(params: dict[str, Any]) -> None:
    if message := params.get("arguments", {}).get("progress"):
        told = {"progressToken": params["_meta"]["progressToken"], "progress": 1, "total": 2}
        told["message"] = message
        send({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})


def result(value: dict[str, Any]) -> dict[str, Any]:
    return {"result": value}


def send(message: dict[str, Any]) -> None:
    write(json.dumps(message).encode() + b"\n")


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def path(name: str) -> "Path":
    from pathlib import Path  # noqa: PLC0415 - see above

    return Path(name)


if __name__ == "__main__":
    main()
