"""What the agent did to files: kept while it happens, to be shown and to be taken back.

    Snapshots      what hears of every change: before a tool writes a file, around a command
    Journal        the record of it on disk: changes by run, and what files held before
    take_back      the last run undone, unless somebody changed its files since
    differences    what files held when the session began, against what they hold now

Nothing here knows git: what a person staged, committed or ignores makes no difference.
"""

from agent_cli_tools.snapshots.snapshots import Snapshots

__all__ = ["Snapshots"]
