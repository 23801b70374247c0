"""Runs as child processes of a keeper, here the other end of a socket."""

import asyncio
import os
import socket
from pathlib import Path
from typing import cast

from agent_cli.batch import LocalEngine, TaskRun
from agent_cli.system.launching import KeeperLink, Launcher, Order
from tests.waiting import until


class OneKeeper:
    """Launches nothing: the test speaks as the keeper."""

    def __init__(self) -> None:
        ours, self.keeper = socket.socketpair()
        self.link = KeeperLink(ours)

    def launch(self, _order: Order) -> tuple[KeeperLink, int]:
        return self.link, os.open(os.devnull, os.O_RDONLY)

    def close(self) -> None:
        self.keeper.close()


async def test_end_of_what_a_run_left_behind_is_waited_for_five_seconds(tmp_path: Path) -> None:
    """A process in an uninterruptible wait must not hold up the batch."""
    launcher, engine = OneKeeper(), LocalEngine({})
    engine._launcher = cast("Launcher", launcher)
    work = TaskRun(cwd=tmp_path, output_dir=tmp_path, options=())

    async with engine:
        running = asyncio.create_task(engine.run(work))
        launcher.keeper.send(b'{"pid": 1}\n{"status": 0, "left": []}\n')
        await until(lambda: launcher.link.socket.gettimeout() == 5)
        launcher.keeper.send(b'{"over": true}\n')
        await running

    assert launcher.link.is_closed
