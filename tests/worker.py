"""Be a worker of pytest-xdist: run the line that its controller sends first.

`tests/worker_server.py` runs this script in a fork, and the interpreter where that ended early.
"""

import sys

# What execnet has any interpreter run.
exec(eval(sys.stdin.readline()))
