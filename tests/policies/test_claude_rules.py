"""Claude Code's permission rules in our words: nothing allows more, and no guard vanishes."""

from agent_cli.policies.claude_rules import translated
from tests.tables import each_row

CASES = {
    # the same
    ("allow", "Bash(npm run test:*)"): [("allow", "bash(npm run test *)")],
    ("allow", "Bash(git log *)"): [("allow", "bash(git log *)")],
    ("allow", "Bash(make test)"): [("allow", "bash(make test)")],
    ("deny", "Bash"): [("deny", "bash")],
    ("deny", "Read(./.env)"): [("deny", "read(./.env)")],
    ("deny", "Read(~/.ssh/**)"): [("deny", "read(~/.ssh/**)")],
    ("deny", "Read(//etc/shadow)"): [("deny", "read(/etc/shadow)")],
    ("allow", "Edit(/src/**)"): [("allow", "edit(./src/**)")],
    ("ask", "mcp__github__create_issue"): [("ask", "mcp__github__create_issue")],
    ("allow", "mcp__github"): [("allow", "mcp__github")],
    ("allow", "TodoWrite"): [("allow", "todo")],
    # an allowing rule becomes narrower, or none
    ("allow", "Bash(git push*)"): [("allow", "bash(git push *)")],
    ("allow", "Bash(git * main)"): [],
    ("allow", "Agent(Explore)"): [],
    ("allow", "Read(../other/**)"): [],
    ("allow", "WebFetch"): [("allow", "web_fetch")],
    # of a guard, what cannot be said asks
    ("deny", "Bash(rm -rf*)"): [("deny", "bash(rm -rf *)"), ("ask", "bash(rm *)")],
    ("deny", "Bash(git * main)"): [("ask", "bash(git *)")],
    ("deny", "Agent(Explore)"): [("ask", "agent")],
    # nothing to guard
    ("deny", "KillShell"): [],
    ("allow", "WebFetch(domain:x.io)"): [("allow", "web_fetch(domain:x.io)")],
    # lost guards: they are named
    ("deny", "Bash(* --force)"): [],
    ("deny", "Bash(rm*)"): [("deny", "bash(rm *)")],
    ("deny", "Read(../secrets/**)"): [],
    ("deny", "Bash(run_in_background:true)"): [],
    ("deny", "nonsense("): [],
}
LOST = {"Bash(* --force)", "Bash(rm*)", "Read(../secrets/**)", "Bash(run_in_background:true)"}


@each_row(("kind", "written"), CASES)
def test_rule_is_translated_or_has_a_reason(kind: str, written: str) -> None:
    """A guard that is lost is marked, for the start names it."""
    found = translated(kind, written)

    assert list(found.rules) == CASES[kind, written]
    assert found.rules or found.note
    assert found.is_lost == (kind == "deny" and written in {*LOST, "nonsense("})
