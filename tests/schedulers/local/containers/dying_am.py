"""An application master in short: one container whose executor leaves something behind and is killed.

`dying_am.py FOLDER [unlisted]`, the latter for a kernel that does not list a process's children. Prints the container's
end and what is alive then. A process of its own, since it adopts orphans.
"""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from tony.core.events import ContainerEnded, Event, Granted
from tony.linux import process
from tony.schedulers.local.allocator import LocalAllocator
from tony.testing.sample_jobs import build_credentials, build_prepared_job, build_task_part, build_two_roles

#: Starts a process without parent, environment or session of ours, then dies as from a kernel's hand.
LEAVER = """
import os, subprocess, sys
sys.stdin.read()
daemon = subprocess.Popen(["sleep", "600"], env={}, start_new_session=True, stdout=subprocess.DEVNULL)
open(sys.argv[1] + "/daemon", "w").write(str(daemon.pid))
os.kill(os.getpid(), 9)
"""


async def main(folder: Path) -> None:
    spec = replace(build_two_roles(), scheduler_settings={"ledger": str(folder / "ledger")})
    job = build_prepared_job(folder / "home", spec)
    argv = [sys.executable, "-I", "-S", "-c", LEAVER, str(folder)]
    source = LocalAllocator(job, executor_command=argv, adopt_orphans=True)
    events: asyncio.Queue[Event] = asyncio.Queue()
    await source.open(events.put_nowait)
    source.set_demand("ps", 1)
    while not isinstance(await events.get(), Granted):
        pass
    source.set_demand("ps", 0)
    await source.launch("c-1", build_task_part(spec, job.folder.job_id, "c-1", "ps", 0), build_credentials())
    while not isinstance(event := await events.get(), ContainerEnded):
        pass
    print(event.cause)
    daemon = int((folder / "daemon").read_text())
    print("the daemon lives" if process.is_alive(daemon) else "nothing lives")
    await source.close()


if __name__ == "__main__":
    if sys.argv[2:] == ["unlisted"]:
        process.list_own_children = lambda: None
    asyncio.run(main(Path(sys.argv[1])))
