"""Undo what commands did to files: the kernel stops each change until the file is kept.

The first half runs in a command's keeper and imports little; see `system/launcher`:

    watch       what the keeper drives: the filter, the calls that stand still, the end
    losses      how much a command may delete before a person is asked
    generated   the folders that can be built again, about which nobody is asked
    git_index   git's index, and the files that git holds as they are
    space       give kept files up while the disk is nearly full
    calls       the watched system calls, and the kernel's filter program for them
    listener    receive calls that stand still, and let them go on or fail
    locations   the file that a call names, as a path of ours in the workspace
    change_log  write the log, also where the disk is full
    recorder    what is recorded before a call goes on
    outside_names  files of the workspace that a command gave names outside of it
    moves       what recorded files are called after their folders were renamed
    images      keep a file: a hard link, a clone or a copy
    named_copies  keep what a command names, before it, where its calls cannot be stopped
    records     one JSON line for each record, in order

The second half runs in the session:

    logs        the logs of commands, and what they say
    reversal    the undo as a transaction: a plan on disk, carried out in reverse

The sandbox is the boundary of security. This here is for undo: a program that is out to mislead it
can change a file unseen, if it may write that file.
"""
