"""The workspace of a session: its folders, what commands reach and may lose there."""
