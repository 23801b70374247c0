"""Lifecycle hooks: programs and web addresses of the user that are asked, or told, during a run."""
