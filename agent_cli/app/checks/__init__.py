"""Checks of the installation and of a run before it costs anything; `doctor` reports them."""
