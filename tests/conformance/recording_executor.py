"""Stands in for an executor: writes down what it was told and what can be seen of it, starts a program, waits.

Arguments: a folder. `<container>.exit` in it makes it end at once with the code in that file. SIGTERM ends it.
Like the real one, it runs isolated, with nothing but the standard library.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path


def main() -> int:
    folder = Path(sys.argv[1])
    context = json.loads(sys.stdin.read())
    container = context["task"]["container"]
    order = folder / f"{container}.exit"
    if order.exists():
        print("ending at once, as ordered", file=sys.stderr)
        return int(order.read_text())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # A program as nasty as they come: a session of its own, deaf to polite signals.
    program = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"],
        env={"TONY_TASK": context["container"]["marker"]},
        start_new_session=True,
    )
    seen = {"argv": sys.argv, "environment": dict(os.environ), "descriptors": os.listdir("/proc/self/fd")}
    report = {"context": context, "pid": os.getpid(), "program": program.pid, "session": os.getsid(0), "seen": seen}
    draft = folder / f"{container}.draft"
    draft.write_text(json.dumps(report))
    draft.rename(folder / f"{container}.json")
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
