"""The Chat Completions API: OpenAI's server, and the many that copy it, also on this machine."""
