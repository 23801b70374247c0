"""Decline some commands with a function, in a session of two prompts."""

import asyncio

from agent_cli import AgentSession, Deny, Hook, HookEvent, SessionOptions


async def check_command(event: HookEvent) -> Deny | None:
    """Decline what runs foo.sh."""
    return Deny("foo.sh must not run") if "foo.sh" in str(event.input["command"]) else None


GUARD = Hook(event="PreToolUse", matcher="bash", function=check_command)


async def main() -> None:
    """Send a prompt that the guard stops, and one that it lets pass."""
    async with AgentSession(SessionOptions(allow=["bash"], hooks=[GUARD])) as session:
        for prompt in ("Run the command: ./foo.sh --help", "Run the command: echo Hello!"):
            print((await session.prompt(prompt)).text)


asyncio.run(main())
