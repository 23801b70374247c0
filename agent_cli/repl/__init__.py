"""The terminal front end; the only owner of prompt_toolkit and rich."""
