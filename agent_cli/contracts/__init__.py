"""Frozen types every layer shares. No I/O."""
