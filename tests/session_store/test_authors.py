"""Who said a message in the user's role: recorded, read back, and shown by every reader."""

import json
from pathlib import Path

from agent_cli.acp.session import replayed
from agent_cli.contracts.authors import HOOK, PROGRAM, USER
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import UserOutput, text_block
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import entries
from agent_cli.hooks.claude_terms import TranscriptCopy
from agent_cli.policies.estimate import estimate_parts
from agent_cli.session_store import SessionStore
from agent_cli.session_store.codec import output_from_json, output_to_json
from agent_cli.session_store.export import export, trajectory
from agent_cli.session_store.transcripts import search, transcript
from tests.fakes import says

HOOK_SAYS = "[A hook of the user's says: rotate the key]"


def spoken(store: SessionStore) -> str:
    """Keep a session that the program begins, in which the user and a hook speak."""
    conversation = Conversation()
    session = store.create(conversation, Path("/work"))
    conversation.publish = session.record
    conversation.begin(UserMessage.of("[agent-cli: a job ended]", author="jobs"))
    conversation.add_user(UserMessage.of("fix it"))
    conversation.add_user(UserMessage.of(HOOK_SAYS, author=HOOK))
    conversation.add_reply(says("done"))
    conversation.complete()
    session.close()
    return session.id


def test_every_reader_of_a_session_tells_the_user_from_the_program(tmp_path: Path) -> None:
    """Search, list, transcripts, exports, editors and hooks: none calls a hook's words yours."""
    store = SessionStore(tmp_path / "sessions")
    path = store.find(spoken(store))
    history = store.read_file(path)

    said = [out.author for out in entries(history.prompts) if isinstance(out, UserOutput)]
    assert said == ["jobs", USER, HOOK]
    assert store.describe(path).title == "fix it"
    assert [match.who for match in search(store, ["rotate"], redact=str)] == [HOOK]
    shown = transcript(history.prompts)
    assert "[said by jobs]\n    [agent-cli: a job ended]" in shown
    assert shown.count("you>") == 1
    assert export(history, "md", redact=str).count("## You") == 1
    assert export(history, "html", redact=str).count('class="you"') == 1
    steps = trajectory(history)["steps"]
    assert isinstance(steps, list)
    assert [step["source"] for step in steps if isinstance(step, dict)] == [
        *("system", "user", "system"),
        "agent",
    ]
    assert str([*replayed(history.prompts, (), tmp_path)]).count("user_message_chunk") == 1
    copy = TranscriptCopy(tmp_path / "copy.jsonl", tmp_path, {}).update(history.prompts)
    lines = [json.loads(line) for line in copy.read_text().splitlines()]
    assert [line.get("isMeta", False) for line in lines] == [True, False, True, False]
    parts = estimate_parts((), (), Conversation(prompts=history.prompts).context())
    assert parts["notes of the program"] > parts["messages"] > 0


def test_an_entry_of_an_earlier_version_is_the_users_unless_it_quotes_a_repository() -> None:
    """Old records load and are written as they were; the mark they had names the program."""
    typed = UserOutput("a", 1, (text_block("hello"),))
    quoted = UserOutput("b", 1, (text_block("[Not from the user:] Instructions for x"),), PROGRAM)

    written = output_to_json(typed)
    old = {key: value for key, value in output_to_json(quoted).items() if key != "author"}

    assert "author" not in written
    assert output_from_json(json.loads(json.dumps(written))) == typed
    assert output_from_json(json.loads(json.dumps(old))) == quoted
