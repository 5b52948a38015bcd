"""Runs the main example as a newcomer would, then says what came of it and where it lies (`make demo`)."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

from tony.cli.terminal.display import format_ssh_hint

ROOT = Path(__file__).resolve().parents[1]
BIN = ROOT / ".venv" / "bin"
EXAMPLE = ROOT / "examples" / "digits" / "job.toml"

NEEDED_ACCURACY = 95.0  # percent; a plain logistic regression reaches it, so less means that training went wrong
PORTS = range(8600, 8700)  # where a portal may listen: the first one that is free
ACCURACY_LINE = re.compile(r"chief:0: held-out accuracy ([0-9.]+)%")  # printed by examples/digits/train.py


def main() -> int:
    # A folder of its own for each run: training continues from checkpoints that it finds.
    output = ROOT / "demo-output" / time.strftime("%Y%m%d-%H%M%S")
    output.mkdir(parents=True)
    # The tasks' `python` is the one that has TensorFlow.
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"

    command = ["tony", "submit", shown(EXAMPLE), "--param", f"out={output}"]
    print("Training on handwritten digits: TensorFlow, a chief, two workers and an evaluator.")
    print(f"$ {shlex.join(command)}\n", flush=True)
    started = time.monotonic()
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    if status != 0:  # tony has said why
        return status
    return say_what_came(newest_job("digits"), output, seconds=time.monotonic() - started)


def newest_job(name: str) -> dict[str, str]:
    """The report of the last job that was submitted under a name."""
    jobs = json.loads(ask("list", "--name", name, "--json"))
    newest = max(jobs, key=lambda job: job["submitted"])
    report: dict[str, str] = json.loads(ask("status", newest["job"], "--json"))
    return report


def say_what_came(job: dict[str, str], output: Path, *, seconds: float) -> int:
    found = ACCURACY_LINE.search(ask("logs", job["job"], "chief:0"))
    accuracy = float(found[1]) if found else 0.0
    folder = Path(job["folder"])
    print(f"""
Job {job["job"]} took {seconds:.0f} s. The model reads {accuracy:.1f} % of the digits that it never saw.

  logs        {shown(folder / "logs")}
  history     {shown(folder)}
  model       {shown(output / "model.keras")}
  summaries   {shown(output / "logs")}

What to type next:

  .venv/bin/tony history {job["job"]}
  .venv/bin/tony logs {job["job"]} evaluator:0
  .venv/bin/tensorboard --logdir {shlex.quote(shown(output / "logs"))}   # the evaluator's curve
  .venv/bin/tony run -n 4 -- python -c "import os; print(os.environ['TASK_INDEX'])"
""")
    print(way_to_its_page(job["job"]), flush=True)
    if accuracy <= NEEDED_ACCURACY:
        print(f"That is too little: more than {NEEDED_ACCURACY:.0f} % was expected.", file=sys.stderr)
        return 1
    return 0


def way_to_its_page(job: str) -> str:
    """How to see a job in a browser; the last line is the address. A portal that runs already will do."""
    found = subprocess.run(["tony", "open", job, "--json"], cwd=ROOT, check=False, capture_output=True, text=True)
    there = json.loads(found.stdout) if found.returncode == 0 else {"portal": False}
    if there["portal"]:
        address = there["address"]
        return "\n".join(
            ["Your portal shows it:", "", *(f"  {line}" for line in [*format_ssh_hint(host(address)), address])]
        )
    address = f"http://127.0.0.1:{free_port()}/job/{job}"
    start = f".venv/bin/tony portal --port {host(address).rpartition(':')[2]}"
    lines = [f"{start}   # until Ctrl-C", *format_ssh_hint(host(address)), address]
    return "\n".join(["See it in a browser, with everything that was measured:", "", *(f"  {line}" for line in lines)])


def host(address: str) -> str:
    """The host and port of an address."""
    return address.partition("://")[2].partition("/")[0]


def free_port() -> int:
    """Return a port of this machine for a portal: the usual one if it is free."""
    for port in (*PORTS, 0):
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("127.0.0.1", port))
            except OSError:
                continue
            taken: int = trial.getsockname()[1]
            return taken
    raise OSError("no port is free")


def ask(*arguments: str) -> str:
    """What a `tony` command prints."""
    return subprocess.run(["tony", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def shown(path: Path) -> str:
    """A path as short as the reader, who stands in the checkout, can use it."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # tony has stopped the job
        sys.exit(130)
