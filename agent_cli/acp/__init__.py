"""The Agent Client Protocol over stdin and stdout: the interface for editors (`agent-cli acp`).

The wire protocol is our own implementation of schema 1.19 of protocol version 1;
docs/decisions/acp-wire.md gives the reasons. No other command imports this package.
"""
