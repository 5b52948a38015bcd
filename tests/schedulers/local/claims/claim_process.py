"""A process that stands in line: `claim_process.py LEDGER WANTED_MEMORY WANTED_GPUS MACHINE_MEMORY MACHINE_GPUS`.

Prints each thing that happens on a line of its own; ends, and gives back, when its standard input ends.
"""

import asyncio
import os
import sys
from pathlib import Path

from tony.schedulers.local.claims.ledger import ResourceLedger
from tony.schedulers.local.claims.machine_capacity import Machine
from tony.schedulers.local.claims.peak_demand import Need
from tony.schedulers.local.claims.resource_claim import ResourceClaim


def build_claim(place: Path, memory: int, gpus: int, machine: Machine, job: str = "job") -> ResourceClaim:
    """A claim that has not been posted yet, with a ledger of its own."""
    ledger, needs = ResourceLedger(place), [Need(memory=memory, gpus=gpus)]
    return ResourceClaim(lambda: ResourceLedger(place), ledger, needs, machine, job=job, job_name="name")


def say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    ledger, memory, gpus, machine_memory, machine_gpus = sys.argv[1:]
    machine = Machine(memory=int(machine_memory), gpus=tuple(map(str, range(int(machine_gpus)))))
    claim = build_claim(Path(ledger), int(memory), int(gpus), machine, f"job-{os.getpid()}")
    granted = asyncio.run(claim.acquire(say))
    say(f"granted {' '.join(granted.devices or ())}".strip())
    sys.stdin.read()
    claim.close()


if __name__ == "__main__":
    main()
