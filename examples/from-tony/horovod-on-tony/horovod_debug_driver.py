"""A rendezvous server for Horovod's workers, in place of tony's; for a job in the driver's debug mode.

CLUSTER_WORKER_LIST says how many workers are on which host (`n1:2,n2:2`). When Horovod's server listens, a file that
is named after its port, with the slots in it, is put into the folder DRIVER_OUTPUT_PATH: that is what the workers wait
for. tony ends this program when the job is done.
"""

import json
import os
import signal
from pathlib import Path

from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
from horovod.runner.http.http_server import RendezvousServer


def main() -> None:
    slots = get_host_assignments(parse_hosts(os.environ["CLUSTER_WORKER_LIST"]), 1)
    server = RendezvousServer()
    port = server.start()
    server.init(slots)
    for slot in slots:
        print(f"driver: rank {slot.rank} of {slot.size} is on {slot.hostname}", flush=True)

    told = [
        {
            "hostname": slot.hostname,
            "rank": slot.rank,
            "size": slot.size,
            "localRank": slot.local_rank,
            "localSize": slot.local_size,
            "crossRank": slot.cross_rank,
            "crossSize": slot.cross_size,
        }
        for slot in slots
    ]
    file = Path(os.environ["DRIVER_OUTPUT_PATH"], f"{port}____HOROVOD_RENDEZVOUS_SERVER____")
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(told))
    draft.rename(file)  # all at once
    print(f"driver: workers meet at port {port}", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
