"""A real Jupyter server, and the client's side of its chats."""

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx
from httpx_ws import AsyncWebSocketSession, aconnect_ws

PERSONA_FILE: Final = Path(__file__).parents[1] / "agent_cli_persona.py"
PERSONA: Final = "jupyter-ai-personas::agent_cli_persona::AgentCliPersona"
LIMIT_S: Final = 60.0
_VENV: Final = Path(__file__).parents[3] / ".venv" / "bin" / "agent-cli"
_TOKEN: Final = "t"


class Chat:
    """One chat: what was said in it, and the calls of tools that it shows."""

    def __init__(self, http: httpx.AsyncClient, socket: AsyncWebSocketSession) -> None:
        self._http = http
        self._socket = socket
        self._messages: dict[str, dict[str, Any]] = {}
        self._users: set[str] = set()
        self.id = ""

    @property
    def replies(self) -> list[str]:
        """The texts of the agent, in order."""
        mine = [each for each in self._messages.values() if each["sender"] == PERSONA]
        return [each["body"] for each in mine if each["body"]]

    @property
    def calls(self) -> dict[str, dict[str, Any]]:
        """The calls by their titles, as the chat shows them."""
        shown = [
            (each.get("metadata") or {}).get("tool_calls") or [] for each in self._messages.values()
        ]
        return {call["title"]: call for calls in shown for call in calls}

    async def say(self, text: str) -> None:
        """Write to the agent, once the chat offers it."""
        await self.until(lambda: PERSONA in self._users)
        said = {"id": uuid.uuid4().hex, "body": text, "metadata": {"to_persona": PERSONA}}
        await self._socket.send_text(json.dumps({"type": "client", "action": "send", **said}))

    async def answer(self, title: str, option: str) -> None:
        """Wait for the question about the call *title*, and press the button *option*."""
        await self.until(lambda: self.calls.get(title, {}).get("permission_status") == "pending")
        call = self.calls[title]
        names = {each["name"]: each["option_id"] for each in call["permission_options"]}
        given = {name: call[name] for name in ("session_id", "tool_call_id")}
        answer = await self._http.post(
            "/ai/acp/permissions", json={**given, "option_id": names[option]}
        )
        answer.raise_for_status()

    async def stop(self) -> None:
        """Press *Stop*."""
        answer = await self._http.post("/api/ai/personas/cancel", params={"chat_id": self.id})
        answer.raise_for_status()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Read what the server sends until the condition holds."""
        async with asyncio.timeout(LIMIT_S):
            while not holds():
                self._take(json.loads(await self._socket.receive_text()))

    def _take(self, frame: Mapping[str, Any]) -> None:
        self.id = frame.get("id", self.id)
        self._users |= {*frame.get("users", {})}
        for message in [*frame.get("messages", []), *filter(None, [frame.get("message")])]:
            self._messages[message["id"]] = message


@asynccontextmanager
async def chat_in(folder: Path, home: Path, api: str) -> AsyncIterator[Chat]:
    """Open a chat in *folder* on a Jupyter server; *api* is the address of the model."""
    (folder / ".jupyter" / "personas").mkdir(parents=True)
    shutil.copy(PERSONA_FILE, folder / ".jupyter" / "personas")
    (folder / "talk.chat").write_text("{}")
    program = Path(os.environ.get("AGENT_CLI_BIN", _VENV))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "jupyter", "server", "--allow-root", "--no-browser"),
        *(f"--port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={_TOKEN}"),
        f"--ServerApp.root_dir={folder}",
        env={
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "HOME": str(home),
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": api,
        },
        start_new_session=True,
    )
    try:
        address = f"http://127.0.0.1:{port}"
        headers = {"Authorization": f"token {_TOKEN}"}
        async with httpx.AsyncClient(base_url=address, headers=headers, timeout=LIMIT_S) as http:
            await _until_up(http)
            async with aconnect_ws(f"{address}/api/chat/ws/talk.chat", http) as connection:
                yield Chat(http, connection)
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(server.wait(), LIMIT_S)
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)


async def _until_up(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(LIMIT_S):
        while True:
            with suppress(httpx.TransportError):
                if (await http.get("/api/status")).is_success:
                    return
            await asyncio.sleep(0.1)


async def until_there(path: Path) -> None:
    """Wait until the file exists."""
    async with asyncio.timeout(LIMIT_S):
        while not path.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
