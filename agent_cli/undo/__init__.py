"""Undo the changes that commands made to files: the kernel stops each until the file is kept.

The first half runs in a command's keeper and imports little; see `system/launcher`:

    watch          the work of the keeper: the filter, the calls that stand still, the end
    losses         the limit of deletions above which a person is asked
    generated      the folders that can be built again, about which nobody is asked
    git_index      git's index, and the files that git holds as they are
    stopped_calls  the watched system calls: the kernel's filter for them, and the calls it stops
    locations      the file that a call names, as a path of ours in the workspace
    recorder       what a call changes, recorded before the call goes on
    undo_log       the records of a command, and the files that it is about to lose
    kept_files     keep a file: a hard link, a clone or a copy; copy it back; give it up
    named_copies   keep the files that a command names, where its calls cannot be stopped
    records        one JSON line for each record, in order, and later names of recorded files

The second half runs in the session:

    logs           the logs of commands, and their meaning
    reversal       the undo as a transaction: a plan on disk, carried out in reverse

The sandbox is the boundary of security. This here is for undo: a program that is out to mislead it
can change a file unseen, if it may write that file.
"""
