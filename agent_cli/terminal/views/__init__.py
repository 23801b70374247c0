"""Finished text for people, drawn by rich: tables, bars, trees, Markdown, TOML, progress.

Not the live screen. On a terminal a view fits the width and has colours; on a pipe it is plain,
one record a line. Import a view where it is shown: rich takes 40 ms.
"""
