"""Let commands in the sandbox reach chosen hosts: a proxy of ours, their only way out.

It knows no rules and no sandbox: its user decides about hosts, and mounts the socket.
"""
