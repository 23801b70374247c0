"""Contributors to `prepare`: the tools and context the model gets besides the conversation."""
