"""Work for a Ray cluster of one head and several workers; runs next to the head.

It waits until all nodes have joined, then has every node do a piece of work whose result another one uses.
"""

import json
import os
import time
from collections import Counter

import ray

ROUNDS = 10
PIECES = 60  # in each round


@ray.remote(scheduling_strategy="SPREAD")
def visit(before: tuple[str, ...]) -> tuple[str, ...]:
    """The nodes that a piece has been at, this one included."""
    time.sleep(0.01)
    return (*before, ray.get_runtime_context().get_node_id()[:8])


def main() -> None:
    cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]
    nodes = 1 + len(cluster["worker"])
    ray.init(address=cluster["head"][0], log_to_driver=False)
    while (joined := sum(node["Alive"] for node in ray.nodes())) < nodes:
        print(f"head:0: {joined} of {nodes} nodes have joined", flush=True)
        time.sleep(1)
    print(f"head:0: all {nodes} nodes have joined", flush=True)

    ways: Counter[tuple[str, ...]] = Counter()
    for _ in range(ROUNDS):
        ways.update(ray.get([visit.remote(visit.remote(())) for _ in range(PIECES)]))
    seen = {node for way in ways for node in way}
    print(f"head:0: {ways.total()} pieces of work went {len(ways)} ways through {len(seen)} nodes", flush=True)


if __name__ == "__main__":
    main()
