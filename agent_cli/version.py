"""The version, as a constant: importlib.metadata would cost a third of the way to the prompt."""

__version__ = "0.18.0"
