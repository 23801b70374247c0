"""The models of a session: providers, calls beside the conversation, and the window's use."""
