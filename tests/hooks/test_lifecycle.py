"""What hooks of prompts and ends are asked, and in which order with the program's own parts."""

import os
from pathlib import Path

from agent_cli.contracts.messages import UserMessage
from agent_cli.core.conversation import Conversation
from agent_cli.core.hook_values import queued
from agent_cli.hooks.definition import Hook
from agent_cli.hooks.lifecycle import Lifecycle
from agent_cli.hooks.payloads import Payloads
from agent_cli.hooks.run import HookEnvironment
from agent_cli.hooks.runs import HookRuns


def lifecycle(folder: Path, *hooks: Hook) -> Lifecycle:
    runs = HookRuns(hooks, HookEnvironment(folder, os.environ))
    payloads = Payloads(folder, session_id=lambda: "s", transcript=lambda: "", mode=lambda: "ask")
    return Lifecycle(
        runs,
        payloads,
        conversation=Conversation,
        publish=lambda _event: None,
        end_reason="other",
    )


async def test_stop_hooks_are_asked_only_where_the_run_would_end(tmp_path: Path) -> None:
    """What the program has to say keeps the run going, and must not be lost beside a hook."""
    hook = Hook(event="Stop", command="touch asked; echo more >&2; exit 2")
    queue = [[UserMessage.of("job 1 has ended")], None]
    take = lifecycle(tmp_path, hook).follow_ups_beside(lambda: queue.pop(0))

    [own] = await queued(take)
    assert own.text == "job 1 has ended"
    assert not (tmp_path / "asked").exists()

    [sent_back] = await queued(take)
    assert "more" in sent_back.text
