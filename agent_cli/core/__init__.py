"""The run: loop, executor, conversation, projection, agent."""
