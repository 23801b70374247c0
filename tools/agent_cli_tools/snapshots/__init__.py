"""Record the agent's changes to files, to show and undo them.

    Snapshots      is notified of every change: before a tool writes a file, around a command
    Journal        the record on disk: changes by run, and earlier contents of files
    take_back      undo the last run, unless others changed its files since
    differences    contents at the beginning of the session against current ones

Independent of git: staged, committed or ignored files make no difference.
"""

from agent_cli_tools.snapshots.snapshots import Snapshots

__all__ = ["Snapshots"]
