"""Stands in for an executor in a container: writes down what it was told and what can be seen of it, and waits.

Arguments: where our package is, and a folder. A file `order` in that makes the first one that finds it end at once
with the code in it. SIGTERM ends it. What the executor's watchdog does is done by the kernel here: its program, which
has left the container's process group and is deaf, dies with it.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from tony.hadoop.tokens import read_file
from tony.linux.process import set_parent_death_signal

DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"


def main() -> int:
    folder, container = Path(sys.argv[2]), os.environ["CONTAINER_ID"]
    taken = folder / f"{container}.order"
    try:
        (folder / "order").rename(taken)
    except FileNotFoundError:
        pass
    else:
        return int(taken.read_text())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    program = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", DEAF],
        start_new_session=True,
        preexec_fn=lambda: set_parent_death_signal(signal.SIGKILL),
    )
    payload = read_file(Path(os.environ["HADOOP_TOKEN_FILE_LOCATION"])).secrets["tony.task"].decode()
    seen = {"argv": sys.argv, "environment": dict(os.environ), "script": Path("launch_container.sh").read_text()}
    report = {"payload": payload, "pid": os.getpid(), "program": program.pid, "seen": seen}
    draft = folder / f"{container}.draft"
    draft.write_text(json.dumps(report))
    draft.rename(folder / f"{container}.json")
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
