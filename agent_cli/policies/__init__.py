"""Policies of a run: each module fills one seam of hooks.py."""
