"""Contributors to `prepare`: what the model is given besides the conversation."""
