"""Random trees of agents, killed at any moment and resumed from what was on disk then.

As in test_random_trees, but the conversations are stored as sessions, some calls wait for a
decision, and a second program continues with a copy of the files, made at the moment of the kill.
"""

import asyncio
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from agent_cli.agents.children import Assignment
from agent_cli.contracts.timeline import Prompt
from agent_cli.core.agent import Agent
from agent_cli.core.api_messages import to_api
from agent_cli.core.conversation import Conversation
from agent_cli.providers.anthropic.connection import Connection
from agent_cli.providers.anthropic.messages import AnthropicMessages
from agent_cli.providers.retries import RetryPolicy
from agent_cli.session_store import Session, SessionStore
from agent_cli.session_store.history import cost_since
from agent_cli.session_store.upkeep import verify
from tests.agents.test_random_trees import Bill, Server, Tree, decided
from tests.fakes import NOT_THE_USERS, problems
from tests.messages_api import FakeMessagesApi
from tests.policies.histories import llm

QUICK_TREES = 5
SOAK_TREES = 1_000


class Kept:
    """The sessions of one tree in a folder; all are closed at the end of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = SessionStore(folder)
        self._open: list[Session] = []
        self._root = ""

    def keep(self, agent: Agent, assignment: Assignment | None) -> None:
        conversation = agent.conversation
        if assignment is None:
            self._root = conversation.id
            session = self._resumed or self.store.create(conversation, self.folder)
        else:
            session = self.store.of_agents(self._root).create(
                conversation,
                self.folder,
                parent=assignment.parent,
                parent_at=assignment.tool_call_id,
                agent=assignment.definition.name,
            )
        self._open.append(session)
        agent.subscribe(session.record)

    _resumed: Session | None = None

    def resume(self) -> Conversation | None:
        """Open the only session again, as the next program does; None if nothing was kept."""
        found = self.store.list()
        if not found:
            return None
        assert [each.problem for each in found] == [""]
        self._resumed, conversation = self.store.resume(found[0].id)
        self._root = conversation.id
        return conversation

    def cost_of_agents(self, prompt: Prompt) -> int:
        return sum(
            cost_since(info, prompt.at_ms) for info in self.store.of_agents(self._root).list()
        )

    def recorded(self) -> int:
        """Return all that the files say was spent, or may have been."""
        agents = self.store.of_agents(self._root).list() if self._root else ()
        usages = [each.usage for each in (*self.store.list(), *agents)]
        return sum((each.cost_microdollars or 0) + each.held_microdollars for each in usages)

    def reserved_by_agents(self) -> int:
        """Return the cost that calls of agents may still have, as their ends are not known."""
        agents = self.store.of_agents(self._root).list() if self._root else ()
        return sum(each.usage.held_microdollars for each in agents)

    def close(self) -> None:
        for session in self._open:
            session.close()


class Lives:
    """One tree, killed and resumed: its server, its provider and its files."""

    def __init__(self, api: FakeMessagesApi, server: Server, folder: Path, seed: int) -> None:
        self.dice = random.Random(seed)
        server.dice, server.bill = random.Random(seed + 1), Bill()
        server.density = self.dice.choice([0.1, 0.3, 0.8])
        self.limit = self.dice.choice([100_000, 1_000_000, 4_000_000])
        self.server = server
        self._url = api.base_url
        self._folder = folder
        self._kept: list[Kept] = []
        self._providers: list[AnthropicMessages] = []

    def tree(self, kept: Kept, conversation: Conversation | None = None) -> Tree:
        connection = Connection(base_url=self._url, api_key="k")
        provider = AnthropicMessages(connection, RetryPolicy(max=2, base_s=0, other_base_s=0))
        self._providers.append(provider)
        return Tree(
            provider,
            self.dice,
            self.limit,
            conversation=conversation,
            of_agents=kept.cost_of_agents,
            keep=kept.keep,
        )

    def kept(self) -> Kept:
        self._kept.append(Kept(self._folder / str(len(self._kept))))
        return self._kept[-1]

    def killed(self, kept: Kept) -> Kept:
        """Return the files as a kill leaves them now."""
        copy = self.kept()
        if kept.folder.exists():
            shutil.copytree(kept.folder, copy.folder)
        return copy

    async def end(self) -> None:
        for provider in self._providers:
            await provider.aclose()
        for kept in self._kept:
            kept.close()


def check(tree: Tree, kept: Kept, bill: Bill, *, is_whole: bool) -> None:
    """Compare the ledger, the files and the bill of one prompt, in as many lives as it had."""
    account = tree.ledger.account
    assert account.held == 0
    assert bill.total <= account.spent + account.lost <= account.limit
    assert kept.recorded() == account.spent + account.lost
    if is_whole and not bill.broken:
        assert account.spent + account.lost == bill.total
    for conversation in tree.conversations:
        check_conversation(conversation)
    for path in kept.folder.rglob("*.jsonl"):
        assert [finding for finding in verify(path) if finding.damage] == []


def check_conversation(conversation: Conversation) -> None:
    assert conversation.waiting or conversation.open_calls() == []
    if not conversation.waiting:
        faults = problems(to_api(llm(conversation.context())))
        assert {*faults} <= {NOT_THE_USERS, "there are no messages"}


async def killed_at_questions(lives: Lives) -> None:
    """Each question of the first agent may wait for another program; the limit is one for all."""
    kept = lives.kept()
    tree = lives.tree(kept)
    result = await tree.root.prompt("go")
    while result.stop_reason == "waiting_for_approval":
        if lives.dice.random() < 0.7:
            kept = lives.killed(kept)
            conversation = kept.resume()
            assert conversation and conversation.waiting
            tree = lives.tree(kept, conversation)
        result = await decided(tree.root, lives.dice)
    check(tree, kept, replace(lives.server.bill), is_whole=True)


async def killed_at_work(lives: Lives) -> None:
    """Whatever the program did: the files know of every reply the server made."""
    before = lives.kept()
    tree = lives.tree(before)
    running = asyncio.create_task(tree.run("go"))
    await asyncio.wait([running], timeout=lives.dice.random() * 0.08)
    kept = lives.killed(before)
    # Until the cancellation reaches them, tasks may send what a killed program would not.
    bill, lives.server.bill = lives.server.bill, Bill()
    running.cancel()
    await asyncio.wait([running])
    await lives._providers[-1].aclose()
    conversation = kept.resume()
    assert bill.total <= kept.recorded()
    if conversation is None:
        return
    lives.server.bill = Bill()
    already = kept.recorded()
    tree = lives.tree(kept, conversation)
    if conversation.waiting:
        already, waits = 0, kept.cost_of_agents(conversation.prompts[-1])
        await tree.to_the_end(await decided(tree.root, lives.dice))
        assert tree.ledger.account.spent + tree.ledger.account.lost >= waits
        account = tree.ledger.account
        assert account.spent + account.lost <= account.limit
    else:
        check_conversation(conversation)
        # Counted once more: such a call may have ended during the new prompt.
        carried = kept.reserved_by_agents()
        await tree.run("again")
        account = tree.ledger.account
        assert lives.server.bill.total <= account.spent + account.lost <= account.limit
        assert kept.recorded() == already + account.spent + account.lost - carried
    for each in tree.conversations:
        check_conversation(each)


async def run_lives(folder: Path, first: int, count: int) -> None:
    server = Server(random.Random(0))
    async with FakeMessagesApi(answer=server, count=server.count) as api:
        for seed in range(first, first + count):
            lives = Lives(api, server, folder / str(seed), seed)
            try:
                await (killed_at_questions if seed % 2 else killed_at_work)(lives)
            except AssertionError as failed:
                raise AssertionError(f"tree {seed}: {failed}") from failed
            finally:
                await lives.end()
            assert api.refusals == []
            api.requests.clear()
            shutil.rmtree(folder / str(seed), ignore_errors=True)


async def test_resumed_agent_tree_never_exceeds_its_cost_limit(tmp_path: Path) -> None:
    """Killed while it waits for a decision, or at work; exact where possible."""
    await run_lives(tmp_path, 0, QUICK_TREES)


@pytest.mark.slow
async def test_many_resumed_agent_trees_never_exceed_their_cost_limits(tmp_path: Path) -> None:
    await run_lives(tmp_path, 1_000_000, SOAK_TREES)
