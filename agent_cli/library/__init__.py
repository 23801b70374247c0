"""The public Python API of the whole program: sessions with tools, rights and a budget.

Import its names from `agent_cli`. It adds no behaviour of its own: options become arguments and
settings, and the program's own builder does the rest.
"""
