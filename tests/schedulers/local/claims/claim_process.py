"""A process that stands in line: `claim_process.py LEDGER WANTED_MEMORY WANTED_GPUS MACHINE_MEMORY MACHINE_GPUS`.

Prints each thing that happens on a line of its own; ends, and gives back, when its standard input ends.
"""

import asyncio
import os
import sys
from pathlib import Path

from tony.schedulers.local.claims.claim_queue import acquire_claim
from tony.schedulers.local.claims.ledger import ResourceLedger, create_claim
from tony.schedulers.local.claims.machine_capacity import Machine


def say(text: str) -> None:
    print(text, flush=True)


async def claim(ledger: Path, memory: int, gpus: int, machine: Machine) -> None:
    wanted = create_claim(job=f"job-{os.getpid()}", job_name="claimer", memory=memory, gpus=gpus)
    held = await acquire_claim(ResourceLedger(ledger), wanted, machine, say)
    say(f"granted {' '.join(held.claim.devices or ())}".strip())
    sys.stdin.read()
    held.withdraw()


def main() -> None:
    ledger, memory, gpus, machine_memory, machine_gpus = sys.argv[1:]
    machine = Machine(memory=int(machine_memory), gpus=tuple(map(str, range(int(machine_gpus)))))
    asyncio.run(claim(Path(ledger), int(memory), int(gpus), machine))


if __name__ == "__main__":
    main()
