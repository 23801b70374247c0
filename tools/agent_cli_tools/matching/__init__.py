"""Locate the edits of a model in a text, and compute the changes."""
