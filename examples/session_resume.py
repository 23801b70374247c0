"""Go on with a session later, and try another way in a copy of it; approve each change yourself."""

import asyncio

from agent_cli import (
    AgentSession,
    Allow,
    Deny,
    RunFailed,
    SessionOptions,
    ToolCall,
    list_sessions,
    query,
)


async def approve(call: ToolCall) -> Allow | Deny:
    """Allow new notes only."""
    print("may it?", call.name, call.arguments["path"])
    return Allow() if call.arguments["path"] == "notes.txt" else Deny("Only notes.txt, please.")


async def main() -> None:
    """Begin, go on and fork."""
    first = await query("Note that milk is out", SessionOptions(approve=approve, max_cost_usd=0.5))
    print(first.text)
    async with AgentSession(SessionOptions(resume=first.session_id)) as session:
        print((await session.prompt("What is out?")).text)
    try:
        await query("And tea?", SessionOptions(fork=first.session_id, max_rounds=1))
    except RunFailed as error:
        print(f"{error.stop_reason}: {error}")
    print([session.title for session in list_sessions()])


asyncio.run(main())
