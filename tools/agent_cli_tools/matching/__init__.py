"""Where the edits of a model belong in a text, and what they change there."""
