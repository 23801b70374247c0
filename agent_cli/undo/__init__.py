"""Undo what commands did to files: the kernel stops each change until the file is kept.

The first half runs in a command's keeper and imports little; see `system/launcher`:

    watch       what the keeper drives: the filter, the calls that stand still, the end
    losses      how much a command may delete before a person is asked
    generated   the folders that can be built again, about which nobody is asked
    git_index   git's index, and the files that git holds as they are
    stopped_calls  the watched system calls: the kernel's filter for them, and what it stops
    locations   the file that a call names, as a path of ours in the workspace
    recorder    what is recorded before a call goes on
    lost_files  keep the files that are about to be lost, with their records
    outside_names  files of the workspace that a command gave names outside of it
    kept_files  keep a file: a hard link, a clone or a copy; give it up on a full disk
    named_copies  keep what a command names, before it, where its calls cannot be stopped
    records     one JSON line for each record, in order, and later names of recorded files

The second half runs in the session:

    logs        the logs of commands, and what they say
    reversal    the undo as a transaction: a plan on disk, carried out in reverse

The sandbox is the boundary of security. This here is for undo: a program that is out to mislead it
can change a file unseen, if it may write that file.
"""
