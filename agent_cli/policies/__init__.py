"""Policies of a run: each module fills one hook of core/loop_config.py."""
