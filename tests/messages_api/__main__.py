"""Serve a script from a JSON file until stdin closes; the first line printed is the base URL.

The file is a list; an entry is {"reply": [blocks or strings], ...options of reply()}, with an
optional {"fault": "drop", "after": 2}, or {"error": [status, type, message]}.
"""

import asyncio
import json
import sys
from pathlib import Path

from tests.messages_api.script import Answer, Payload, broken, error, reply
from tests.messages_api.server import FakeMessagesApi


def answer_from(entry: Payload) -> Answer:
    """Return the answer that *entry* describes."""
    if "error" in entry:
        status, kind, message = entry["error"]
        return error(status, kind, message)
    options = {k: v for k, v in entry.items() if k not in ("reply", "fault", "after")}
    answer = reply(*entry["reply"], **options)
    return (
        broken(answer, entry["fault"], after=entry.get("after", 3)) if "fault" in entry else answer
    )


async def main(path: str) -> None:
    """Serve the script in *path*."""
    script = [answer_from(entry) for entry in json.loads(Path(path).read_text())]
    async with FakeMessagesApi(*script) as api:
        print(api.base_url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
