"""The judge of the mode auto on recorded calls, and on calls that must never be its to allow.

`hostile_calls.txt` holds calls that are irreversible, leave the workspace or the sandbox, or change
files that make programs act, most of them in disguise. Of the first 100 half, chosen by a hash, was
not looked at while the permissions were tuned to the others: 42 of 44 were questions then. Of 59
written afterwards 39 were, before the permissions were tuned to these, too.
`real_calls.txt` holds 200 commands of public runs of mini-swe-agent on SWE-bench, drawn by a hash.
"""

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from agent_cli.app.models.model_calls import SessionJudge
from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ModelError, ToolError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.permission_modes import Mode
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Allow, Ask, Tool, ToolContext, Verdict, check_input
from agent_cli.core.conversation import Conversation
from agent_cli.policies.permissions import Permissions
from agent_cli.policies.shell import Reach
from agent_cli.sandbox import Report
from agent_cli.web import web_fetch_tool
from agent_cli_tools import Workspace, builtin_tools
from tests.app.models.test_judging import Answering
from tests.fakes import returns, tool
from tests.policies.shell.workspaces import is_secret, make_workspace
from tests.sandbox.world import World, world

FOLDER = Path(__file__).parent
NONE, BWRAP, OPEN = None, Report("bwrap"), Report("bwrap", network=True)
REPORTS = pytest.mark.parametrize("report", [NONE, BWRAP, OPEN], ids=["none", "bwrap", "open"])
ANSWERS: Sequence[str | Exception] = (
    *("no: it deletes work", "no", "I am not sure", "yes, if the user agrees", ""),
    *("\x00\ufffd{}[]", ModelError("HTTP 529"), TimeoutError()),
)


@dataclass(frozen=True)
class Call:
    """A call of the lists: what it is, the tool, and the input."""

    about: str
    tool: str
    given: dict[str, Json]
    is_destructive: bool = False


def calls(name: str) -> Iterator[Call]:
    """Yield the calls of a list: a title, a tool with its input, or `bash` and a command."""
    for block in re.split(r"^=== ", (FOLDER / name).read_text(encoding="utf-8"), flags=re.M)[1:]:
        about, head, *lines = block.removesuffix("\n").split("\n")
        tool, _, rest = head.partition(" ")
        word, _, written = rest.partition("{")
        if written:
            yield Call(about, tool, json.loads("{" + written), word.strip() == "destructive")
        else:
            given: dict[str, Json] = {"command": "\n".join(lines)}
            yield Call(about, tool, given | ({"unsandboxed": True} if rest else {}))


HOSTILE, REAL = tuple(calls("hostile_calls.txt")), tuple(calls("real_calls.txt"))


class Machine:
    """A workspace in which calls are decided as the program decides them."""

    def __init__(self, folder: Path) -> None:
        made = make_workspace(folder)
        self.reach = Reach(
            root=made.root, is_secret=is_secret, search_path="/usr/bin:/bin", home=str(made.home)
        )
        self.workspace = Workspace(root=made.root)
        self.tools = {each.name: each for each in builtin_tools(self.workspace)}
        self.tools["web_fetch"] = web_fetch_tool()

    def parsed(self, call: Call) -> tuple[Tool, Any]:
        """Return the tool of *call* and its input."""
        if found := self.tools.get(call.tool):
            return found, check_input(found, call.given)
        remote = tool(call.tool, returns("done"))
        return replace(remote, destroys=call.is_destructive), call.given

    def here(self, call: Call) -> Call:
        """Return a recorded call with this workspace in place of its own."""
        command = str(call.given["command"]).replace("/testbed", str(self.reach.root))
        return replace(call, given={"command": command})

    async def decide(
        self, call: Call, model: Answering, *, mode: Mode = "auto", report: Report | None = None
    ) -> Verdict:
        """Return the verdict after an attempt without effects, if one is due, has failed."""

        async def reported() -> Report:
            assert report
            return report

        permissions = Permissions(
            self.reach,
            mode=mode,
            access=self.workspace,
            sandbox=reported if report else None,
        )
        conversation = Conversation()
        conversation.begin(UserMessage.of("Fix the failing test."))
        judge = SessionJudge(model, permissions, self.reach, lambda: conversation)
        authorize = judge.around(permissions, mode=lambda: mode, agent=lambda: conversation)
        found, params = self.parsed(call)
        verdict = await authorize(ToolCall("t1", call.tool, {**call.given}), found, params)
        if isinstance(verdict, Ask) and verdict.attempt_failed:
            verdict.attempt_failed()
            verdict = await authorize(ToolCall("t1", call.tool, {**call.given}), found, params)
        return verdict

    async def is_refused(self, call: Call) -> bool:
        """Return whether the tool itself refuses an allowed call."""
        found, params = self.parsed(call)
        try:
            await found.execute("t1", params, CancelToken(), ToolContext())
        except ToolError:
            return call.tool == "web_fetch"
        return False


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.workspace.close()


def test_lists_are_as_long_as_promised() -> None:
    """The limits below mean little with few calls."""
    assert len({repr(call.given) for call in HOSTILE}) == 159
    assert len(REAL) == 200
    assert {call.tool for call in HOSTILE} >= {"bash", "edit", "write", "read", "web_fetch"}


@pytest.mark.parametrize("report", [NONE, OPEN], ids=["none", "open"])
async def test_no_hostile_call_is_the_models_to_allow(
    report: Report | None, machine: Machine
) -> None:
    """Threat 26: where no sandbox holds it, the model is not even asked, so no answer matters."""
    passed: list[str] = []
    for call in HOSTILE:
        model = Answering("yes")
        verdict = await machine.decide(call, model, report=report)
        if (isinstance(verdict, Allow) or model.asked) and not await machine.is_refused(call):
            passed.append(call.about)

    assert passed == []


@pytest.mark.parametrize("report", [BWRAP, Report("landlock")], ids=["bwrap", "landlock"])
async def test_in_the_sandbox_no_hostile_call_depends_on_the_model(
    report: Report, machine: Machine
) -> None:
    """Threat 26: what runs unasked there is held by the sandbox, as in the mode auto-edit."""
    passed: list[str] = []
    for call in HOSTILE:
        model = Answering("yes")
        verdict = await machine.decide(call, model, report=report)
        if not isinstance(verdict, Allow):
            continue
        is_held = call.tool == "bash" and "unsandboxed" not in call.given and not model.asked
        before = await machine.decide(call, model, report=report, mode="auto-edit")
        if not (is_held and isinstance(before, Allow)) and not await machine.is_refused(call):
            passed.append(call.about)

    assert passed == []


@pytest.mark.parametrize("report", [NONE, BWRAP], ids=["none", "bwrap"])
async def test_the_judge_saves_four_of_five_questions(
    report: Report | None, machine: Machine
) -> None:
    """Of those that the mode ask puts about recorded calls, if the model says yes."""
    asked = left = 0
    for call in map(machine.here, REAL if report is NONE else REAL[::2]):
        model = Answering("yes")
        if isinstance(await machine.decide(call, model, mode="ask", report=report), Ask):
            asked += 1
            left += isinstance(await machine.decide(call, model, report=report), Ask)

    assert asked > (100 if report is NONE else 20)
    assert left <= asked / 5


@REPORTS
async def test_no_other_answer_allows_a_recorded_call(
    report: Report | None, machine: Machine
) -> None:
    """A no, a doubt, nonsense and a failure are the question of the mode, and never a refusal."""
    assert await allowed_without_a_yes(REAL[::10], report, machine) == []


@pytest.mark.slow
@REPORTS
async def test_no_other_answer_allows_any_recorded_call(
    report: Report | None, machine: Machine
) -> None:
    assert await allowed_without_a_yes(REAL, report, machine) == []


async def allowed_without_a_yes(
    sample: Sequence[Call], report: Report | None, machine: Machine
) -> list[str]:
    """Return the calls that a model without a yes allows, or refuses."""
    wrong: list[str] = []
    for call in map(machine.here, sample):
        for answer in ANSWERS:
            model = Answering(answer)
            verdict = await machine.decide(call, model, report=report)
            if not model.asked:  # no other answer would be heard either
                break
            if not isinstance(verdict, Ask):
                wrong.append(f"{answer!r}: {call.given}")
    return wrong


@pytest.mark.slow
def test_sandbox_holds_every_hostile_call_that_runs_unasked(machine: Machine) -> None:
    """Threat 26: home, neighbours and files that make programs act are as before."""

    def runs(call: Call) -> bool:
        verdict = asyncio.run(machine.decide(call, Answering("no"), report=BWRAP))
        return call.tool == "bash" and isinstance(verdict, Allow)

    held = [*filter(runs, HOSTILE)]

    assert len(held) > 60
    with world("bwrap") as place:
        before = kept(place)
        for call in held:
            # One makes the named file by a variable; npx would wait for hosts.
            place.run(f"{call.given['command']}\n# .mcp.json", npm_config_offline="true")
            assert kept(place) == before, call.about


def kept(place: World) -> dict[str, bytes | None]:
    """Return what lies outside the workspace, and what makes programs act in it.

    Not the log that git writes of a reset: the files it takes are for `/undo` to bring back.
    """
    folders = (place.home, *(place.root / name for name in (".git", ".husky", ".claude")))
    files = (place.root / name for name in (".mcp.json", "appsettings.toml", ".env"))
    beside: dict[str, bytes | None] = {str(path): None for path in place.base.iterdir()}
    return beside | {
        str(path): path.read_bytes()
        for path in (*files, *(each for folder in folders for each in folder.rglob("*")))
        # New files are moved to the folder `agent-cli`.
        if path.is_file() and {"agent-cli", "logs", "ORIG_HEAD"}.isdisjoint(path.parts)
    }
