"""Share work with Ray's nodes, once all of them are there.

python driver.py HOST:PORT    of the head
"""

import sys
import time

import ray


@ray.remote
def count_primes(start: int, stop: int) -> int:
    """Return the number of primes from `start` up to `stop`, which is left out."""
    return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(max(start, 2), stop))


def main() -> None:
    ray.init(address=sys.argv[1])
    while len([node for node in ray.nodes() if node["Alive"]]) < 3:
        time.sleep(0.2)
    counts = [count_primes.remote(start, start + 10_000) for start in range(0, 200_000, 10_000)]
    print(f"{sum(ray.get(counts))} primes below 200,000", flush=True)


if __name__ == "__main__":
    main()
