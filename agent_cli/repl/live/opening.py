"""Assemble the display and the dialogs of one screen."""

import asyncio
import os
import time
from functools import partial

from agent_cli.repl.approval.ask import Approvals
from agent_cli.repl.live.activity import ActivityLine, Bell, alert
from agent_cli.repl.live.backlog import Backlog, Thinking
from agent_cli.repl.live.display import Display, Sequence
from agent_cli.repl.live.input.editing import edit_text
from agent_cli.repl.live.results import Details, Results
from agent_cli.repl.live.screen import LiveScreen
from agent_cli.repl.live.tool_rows import ToolRows
from agent_cli.repl.live.view import SessionView
from agent_cli.repl.look import Look
from agent_cli.repl.mcp.dialogs import Dialogs
from agent_cli.repl.model_dialogs import ModelQuestions
from agent_cli.repl.ports import Application
from agent_cli.repl.todos import TodoPanel
from agent_cli.terminal.abilities import shows_links


def open_display(
    app: Application, screen: LiveScreen, look: Look, activity: ActivityLine
) -> tuple[Display, Results]:
    """Return the display of *screen* with *activity*, and the store of folded output."""
    paint, clock = screen.paint, time.monotonic
    paint.use_theme(look.theme)
    results = Results(paint, lambda: screen.columns)
    tools = ToolRows(
        lambda: app.tools,
        paint=paint,
        clock=clock,
        columns=lambda: screen.columns,
        details=Details(results, paint, lambda: screen.columns),
    )
    view = SessionView(
        tools,
        paint=paint,
        streaming=look.streaming,
        clock=clock,
        columns=lambda: screen.columns,
        activity=activity,
        is_low=lambda: screen.is_low,
        links=shows_links(os.environ),
    )
    screen.can_move = activity.can_move = lambda: app.jobs.can_move
    screen.agents.agents = activity.agents = app.agents.all
    activity.has_agents = lambda: app.agents.is_any_working
    tools.listed = lambda: {agent.tool_call_id for agent in screen.agents.listed()}
    activity.hook = lambda: app.hooks.status
    screen.panels.insert(0, TodoPanel(app.agent, app.todos, lambda: activity.only_waits))
    display = Display(
        view,
        screen.painter,
        Backlog(chars_per_second=look.chars_per_second, clock=clock),
        Thinking(
            is_shown=look.show_thinking, paint=paint, clock=clock, columns=lambda: screen.columns
        ),
        Sequence(look.streaming),
        paint=paint,
        columns=lambda: screen.columns,
        refresh=screen.refresh,
    )
    return display, results


def open_bell(app: Application, screen: LiveScreen, look: Look) -> Bell:
    """Return the bell that alerts the user when a long run of *app* ends."""
    bell = Bell(lambda text: screen.send(alert(text, look.notify, os.environ)), time.monotonic)
    app.agent.subscribe(bell)
    return bell


def open_dialogs(app: Application, screen: LiveScreen, display: Display, bell: Bell) -> None:
    """Let MCP servers and the model ask questions at the prompt of *screen*."""
    turn = asyncio.Lock()

    def begin() -> None:
        display.leave_space()
        bell.question()

    def approvals(who: str) -> Approvals:
        return Approvals(
            questions=screen.asking,
            writer=display,
            permissions=app.permissions,
            tools=app.tools,
            workspace=app.workspace,
            before_asking=display.show_now,
            editor=partial(edit_text, screen.painter),
            who=who,
            draw=display.question,
            elsewhere=app.remote_answers,
        )

    servers = Dialogs(
        screen.asking,
        display,
        publish=app.agent.publish,
        begin=begin,
        before_asking=display.show_now,
        on_change=screen.refresh,
        turn=turn,
        draw=display.question,
    )
    model = ModelQuestions(
        screen.asking,
        display,
        turn=turn,
        begin=begin,
        before_asking=display.show_now,
        editor=partial(edit_text, screen.painter),
        approvals=approvals,
        draw=display.question,
    )
    app.answer(servers, model, model)
