"""The Agent Client Protocol over stdin and stdout: the door that editors use (`agent-cli acp`).

The wire is written by hand against schema 1.19 of protocol version 1; docs/decisions/acp-wire.md
says why. Nothing here is imported by another command.
"""
