"""A Ray cluster of two nodes on this machine, as a program of its own.

    python -m tests.e2e.ray_nodes FOLDER CPUS

Prints the address as its first line, loses the second node at the first line of input, prints
"lost", and ends with its input. FOLDER gets the files of Ray; its path must be short.
"""

import os
import sys
from importlib import import_module
from pathlib import Path


def main(folder: str, cpus: int) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # Ray prints to stdout
    (Path(folder) / "ray").mkdir(exist_ok=True)
    os.environ["RAY_TMPDIR"] = folder
    options = {"num_cpus": cpus, "object_store_memory": 100 * 1024 * 1024}
    cluster = import_module("ray.cluster_utils").Cluster(
        initialize_head=True,
        head_node_args={**options, "include_dashboard": False},
    )
    second = cluster.add_node(**options)
    cluster.wait_for_nodes()
    print(cluster.address, file=answers)
    if sys.stdin.readline():
        cluster.remove_node(second, allow_graceful=False)
        print("lost", file=answers)
        sys.stdin.readline()
    cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
