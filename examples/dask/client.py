"""Share work with Dask's workers.

python client.py HOST:PORT    of the scheduler
"""

import sys

from dask.distributed import Client


def count_primes(start: int, stop: int) -> int:
    """Return the number of primes from `start` up to `stop`, which is left out."""
    return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(max(start, 2), stop))


def main() -> None:
    with Client(f"tcp://{sys.argv[1]}", timeout=60) as client:
        client.wait_for_workers(2, timeout=60)
        starts = range(0, 200_000, 10_000)
        counts = client.map(count_primes, starts, [start + 10_000 for start in starts])
        print(f"{sum(client.gather(counts))} primes below 200,000", flush=True)


if __name__ == "__main__":
    main()
