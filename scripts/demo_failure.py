"""Train the main example twice, undisturbed and disturbed: what is killed is started again, and the model is as good
(`make demo-failure`).
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from demo import ACCURACY_LINE, BIN, EXAMPLE, NEEDED_ACCURACY, ROOT, ask, newest_job, shown, way_to_its_page

FIRST, SECOND = 60, 240  # steps whose checkpoints are there when the worker, and then the master, is killed
STEPS = 800
TIMEOUT_SECONDS = 600.0  # seconds for anything to happen on a slow machine
#: Events that tell the story.
TOLD = ("attempt-started", "session-opened", "exited", "containers-found")


def main() -> int:
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    output = ROOT / "demo-output" / time.strftime("failure-%Y%m%d-%H%M%S")

    print("First undisturbed: TensorFlow, a chief, two workers and an evaluator train on handwritten digits.")
    whole = Run(output / "undisturbed")
    if whole.wait() != 0:
        return 1

    print("\nNow the same, and two processes are killed with SIGKILL: worker:1's program, then the application master.")
    disturbed = Run(output / "disturbed")
    before = disturbed.when(f"the checkpoint of step {FIRST}", lambda: disturbed.has_checkpoint(FIRST))
    kill_process(pid_of(before, "worker:1"), "worker:1's program")
    again = disturbed.when(
        f"session 2, and the checkpoint of step {SECOND}",
        lambda: disturbed.has_checkpoint(SECOND) and disturbed.report()["session"] == 2,
    )
    programs = pids(again)
    kill_process(again["am"]["pid"], "the application master")
    after = disturbed.when("attempt 2", lambda: disturbed.report()["attempt"] == 2)
    survived = sum(pid == programs.get(task) for task, pid in pids(after).items())
    if disturbed.wait() != 0:
        return 1
    return print_result(whole, disturbed, survived, len(programs))


class Run:
    """One job of the example, followed on this terminal."""

    def __init__(self, output: Path) -> None:
        output.mkdir(parents=True)
        self.output = output
        command = ["tony", "submit", shown(EXAMPLE), "--param", f"out={output}", "--param", f"steps={STEPS}"]
        print(f"$ {shlex.join(command)}\n", flush=True)
        known = {job["job"] for job in json.loads(ask("list", "--json"))}
        self._following = subprocess.Popen(command, cwd=ROOT)
        self.job = ""
        self.when("the job", lambda: self._find(known))

    def _find(self, known: set[str]) -> bool:
        jobs = [job["job"] for job in json.loads(ask("list", "--name", "digits", "--json"))]
        self.job = next((job for job in jobs if job not in known), "")
        return bool(self.job)

    def report(self) -> dict[str, Any]:
        """Return the status of the job."""
        found: dict[str, Any] = json.loads(ask("status", self.job, "--json"))
        return found

    def has_checkpoint(self, step: int) -> bool:
        """Whether the program has kept its state of that step."""
        return (self.output / "checkpoints" / f"step-{step:08}").is_dir()

    def when(self, what: str, condition: Callable[[], bool]) -> dict[str, Any]:
        """Wait for a condition; return the status of the job then.

        Raises:
            SystemExit: it does not come.
        """
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not condition():
            if self._following.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"waited for {what} in vain")
            time.sleep(0.1)
        return self.report() if self.job else {}

    def wait(self) -> int:
        """Waits for its end; answers the exit code."""
        return self._following.wait()

    def accuracy(self) -> float:
        """Per cent of the digits that the model never saw, and reads."""
        found = ACCURACY_LINE.search(ask("logs", self.job, "chief:0"))
        return float(found[1]) if found else 0.0


def kill_process(pid: int, who: str) -> None:
    print(f"\n>>> kill -9 {pid}   ({who})\n", flush=True)
    os.kill(pid, signal.SIGKILL)


def pids(report: Mapping[str, Any]) -> dict[str, int]:
    """Of the programs that run, by task."""
    return {task["task"]: task["pid"] for task in report["tasks"] if task["pid"]}


def pid_of(report: Mapping[str, Any], task: str) -> int:
    return pids(report)[task]


def print_result(whole: Run, disturbed: Run, survived: int, programs: int) -> int:
    status = disturbed.report()
    output = ask("logs", disturbed.job, "chief:0", "--all-sessions")
    resumed = [line for line in output.splitlines() if "continues from step" in line]
    story = [line for line in ask("events", disturbed.job).splitlines() if any(word in line for word in TOLD)]
    print(f"""
                 sessions  attempts of the master  held-out accuracy
  undisturbed    {whole.report()["session"]:>8}  {whole.report()["attempt"]:>22}  {whole.accuracy():>15.1f} %
  disturbed      {status["session"]:>8}  {status["attempt"]:>22}  {disturbed.accuracy():>15.1f} %

The worker's end restarted the gang in place; {resumed[0].strip() if resumed else "it began anew"}.
The master's end was noticed by none of the programs: {survived} of {programs} ran on.

What happened, from the job's events:

{chr(10).join(f"  {line}" for line in story)}

What to type next:

  .venv/bin/tony events {disturbed.job}
  .venv/bin/tony history {disturbed.job}
  .venv/bin/tony replay {disturbed.job}
""")
    print(way_to_its_page(disturbed.job), flush=True)
    good = (
        status["state"] == "succeeded"
        and resumed
        and survived == programs
        and (status["session"], status["attempt"]) == (2, 2)
        and min(whole.accuracy(), disturbed.accuracy()) > NEEDED_ACCURACY
        and newest_job("digits")["job"] == disturbed.job
    )
    if not good:
        print("That is not what was expected.", file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # tony has stopped the job
        sys.exit(130)
