"""Count the primes in this worker's share of the numbers.

TASK_INDEX, which tony sets, says which share that is: of three workers, worker 0 takes the first third.
TASK_NUM would count every task of the job, the report too, so the number of workers comes as an argument.
"""

import argparse
import json
import os
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--below", type=int, default=300_000)
    parser.add_argument("--workers", type=int, default=3, help="how many share the work")
    parser.add_argument("--out", type=Path, required=True, help="a folder that every task can see")
    options = parser.parse_args()
    index, workers = int(os.environ["TASK_INDEX"]), options.workers

    share = range(options.below * index // workers, options.below * (index + 1) // workers)
    count = sum(map(is_prime, share))
    print(f"worker:{index}: {count} primes among {len(share)} numbers", flush=True)

    out = options.out.expanduser()
    out.mkdir(parents=True, exist_ok=True)
    part = out / f"part-{index}.json"
    unfinished = part.with_suffix(".tmp")  # under its own name only when whole, should the worker be killed
    unfinished.write_text(json.dumps({"workers": workers, "below": options.below, "primes": count}))
    unfinished.replace(part)


def is_prime(number: int) -> bool:
    if number < 4 or number % 2 == 0:
        return number in (2, 3)
    return all(number % divisor for divisor in range(3, int(number**0.5) + 1, 2))


if __name__ == "__main__":
    main()
