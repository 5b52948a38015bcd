"""Jobs from inside a notebook: a loop runs in the main thread, other threads live, the streams are no files."""

from __future__ import annotations

import json
import textwrap

import pytest

from tests.e2e.lab import Lab, until
from tests.failure_modes.refusals import python

pytestmark = pytest.mark.e2e

#: What a notebook's kernel makes of a Python process, as far as it matters to us: `sys.stdout` is an object that sends
#: text elsewhere, a loop runs in the main thread and cells run inside it, and threads of its own are busy all the time.
KERNEL = """
import asyncio, io, json, logging, os, sys, threading, traceback

class Stream(io.TextIOBase):
    def __init__(self): self.said = []
    def write(self, text): self.said.append(text); return len(text)
    def fileno(self): raise io.UnsupportedOperation("fileno")
    def isatty(self): return False

real = sys.stdout
sys.stdout = sys.stderr = Stream()
over = threading.Event()
log = logging.getLogger("kernel")

def busy():
    while not over.wait(0.001):
        log.debug("beat")
        sum(range(2000))

threads = [threading.Thread(target=busy, daemon=True, name=f"kernel-{n}") for n in range(4)]
for thread in threads:
    thread.start()

import tony

async def kernel():
    ticks = 0
    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)
    ticking = asyncio.create_task(tick())
    answer = await cell()
    ticking.cancel()
    return {**answer, "ticks": ticks}

def main():
    try:
        print(json.dumps(asyncio.run(kernel())), file=real, flush=True)
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
        raise
    finally:
        over.set()
"""


def run_cell(lab: Lab, cell: str, *arguments: str) -> dict[str, object]:
    """Runs a cell, an `async def cell()` whose answer can be written as JSON."""
    code = f"{KERNEL}\n{textwrap.dedent(cell)}\nmain()\n"
    done = python(lab, code, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_blocking_calls_inside_a_running_loop(lab: Lab) -> None:
    """Submit, follow, look, wait and read again, all in one cell, as people write them."""
    cell = """
    async def cell():
        job = tony.submit({"command": "echo {role} {index}", "roles.worker.instances": 2})
        lines = sorted(job.logs(follow=True))
        report = job.wait(timeout=100)
        again = tony.attach("last")
        return {
            "lines": lines, "state": report.state.value, "code": report.exit_code, "id": job.id, "again": again.id,
            "events": [entry.event.kind for entry in job.events()].count("registered"),
            "tail": list(again.logs("worker:1", tail=1)), "status": again.status().state.value,
        }
    """
    answer = run_cell(lab, cell)
    job = lab.only_job()
    assert answer.pop("ticks") == 0  # blocking is blocking
    assert answer == {
        "lines": ["worker:0 | worker 0", "worker:1 | worker 1"],
        "state": "succeeded",
        "code": 0,
        "id": job,
        "again": job,
        "events": 2,
        "tail": ["worker 1"],
        "status": "succeeded",
    }


def test_awaiting_in_the_loop_itself(lab: Lab) -> None:
    """The awaitable calls leave the kernel's loop to others meanwhile."""
    cell = """
    async def cell():
        job = await tony.submit_async({"command": "sleep 0.5; echo done; exit 3"})
        lines = [line async for line in job.aio.logs(follow=True)]
        try:
            await job.aio.wait(check=True)
        except tony.ProgramError as error:
            return {"lines": lines, "code": error.exit_code, "text": str(error)}
    """
    answer = run_cell(lab, cell)
    assert (answer["lines"], answer["code"]) == (["done"], 1)
    assert "exit code 3" in str(answer["text"])
    assert isinstance(answer["ticks"], int)
    assert answer["ticks"] >= 10


def test_many_threads_at_once(lab: Lab) -> None:
    """Eight threads submit, follow and wait for a job each while the loop does so as well: each gets its own job."""
    cell = """
    async def cell():
        found, problems = {}, []

        def one(number):
            try:
                job = tony.submit({"command": f"echo I am {number}", "roles.main.memory": "64m"})
                lines = list(job.logs(follow=True))
                found[number] = [job.id, lines, job.wait(timeout=100).state.value]
            except BaseException as error:
                problems.append(repr(error))

        several = [threading.Thread(target=one, args=(n,)) for n in range(8)]
        for thread in several:
            thread.start()
        job = await tony.submit_async({"command": "echo I am 8", "roles.main.memory": "64m"})
        found[8] = [job.id, [line async for line in job.aio.logs(follow=True)], (await job.aio.wait()).state.value]
        while any(thread.is_alive() for thread in several):
            await asyncio.sleep(0.01)
        return {"found": found, "problems": problems}
    """
    answer = run_cell(lab, cell)
    assert answer["problems"] == []
    found = answer["found"]
    assert isinstance(found, dict)
    assert {number: (lines, state) for number, (_, lines, state) in found.items()} == {
        str(n): ([f"I am {n}"], "succeeded") for n in range(9)
    }
    assert sorted(job for job, _, _ in found.values()) == sorted(lab.jobs())


def test_the_job_outlives_the_kernel(lab: Lab) -> None:
    """A kernel that is restarted takes no job with it, and none holds its output open; another kernel finds it."""
    gate = lab.root / "gate"
    cell = """
    async def cell():
        job = tony.submit({"command": f"until test -e {sys.argv[1]}; do sleep 0.05; done; echo done"})
        print(job.id, file=real, flush=True)
        os.kill(os.getpid(), 9)
    """
    done = python(lab, f"{KERNEL}\n{textwrap.dedent(cell)}\nmain()\n", str(gate))  # returns: no process holds its pipes
    assert done.returncode == -9
    job = done.stdout.strip()
    lab.wait(job, "running")
    cell = """
    async def cell():
        job = tony.attach("last")
        open(sys.argv[1], "w").close()
        return {"id": job.id, "lines": list(job.logs(follow=True)), "state": job.wait().state.value}
    """
    answer = run_cell(lab, cell, str(gate))
    assert (answer["id"], answer["lines"], answer["state"]) == (job, ["done"], "succeeded")


def test_a_cell_is_interrupted(lab: Lab) -> None:
    """Ctrl-C ends the waiting, not the job, and the next cell can continue with it."""
    cell = """
    import signal
    async def cell():
        job = tony.submit({"command": "trap 'exit 9' TERM; echo up; sleep 3600 & wait", "stop_grace": "5s"})
        for line in job.logs(follow=True):
            break
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as a kernel does while a cell runs
        try:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            job.wait()
        except KeyboardInterrupt:
            interrupted = True
        state = job.status().state.value
        job.kill()
        return {"line": line, "interrupted": interrupted, "state": state, "end": job.wait(timeout=100).state.value}
    """
    answer = run_cell(lab, cell)
    del answer["ticks"]
    assert answer == {"line": "up", "interrupted": True, "state": "running", "end": "killed"}


def test_errors_and_failures_are_exceptions(lab: Lab) -> None:
    """Never an exit, never a traceback on some stream: what is wrong is in the exception, and nothing was started."""
    cell = """
    async def cell():
        told = []
        for job in ({}, {"command": "x", "max_restart": 2}, "nowhere.toml", {"command": "x", "source": "nowhere"}, 7):
            try:
                tony.submit(job)
            except (tony.TonyError, TypeError) as error:
                told.append(str(error))
        try:
            tony.attach("nope")
        except tony.UnknownJobError as error:
            told.append(str(error))
        return {"told": told, "streams": sys.stdout.said}
    """
    answer = run_cell(lab, cell)
    assert answer["streams"] == []
    assert answer["told"] == [
        'command: no command is set. Write command = "python train.py".',
        "max_restart = 2 (argument): unknown key; did you mean `max_restarts`?",
        f"nowhere.toml: no such file in {lab.root}.",
        f'source = "nowhere" (argument): {lab.root}/nowhere does not exist.',
        "a job cannot be 7 (int); give a tony.JobSpec, the path of a job file, or a mapping with the keys of one",
        f"there is no job 'nope': {lab.home}/jobs has no jobs",
    ]
    assert lab.jobs() == []


def test_a_fork_of_the_kernel(lab: Lab) -> None:
    """`multiprocessing` by fork, from a process that has used the blocking API: the child has a loop of its own."""
    cell = """
    import warnings
    async def cell():
        job = tony.submit({"command": "echo hello"})
        job.wait(timeout=100)
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            os.write(writing, tony.attach(job.id).status().state.value.encode())
            os._exit(0)
        os.close(writing)
        _, status = os.waitpid(child, 0)
        return {"child": os.read(reading, 100).decode(), "status": status, "own": job.status().state.value}
    """
    answer = run_cell(lab, cell)
    assert (answer["child"], answer["status"], answer["own"]) == ("succeeded", 0, "succeeded")


def test_nothing_of_a_notebook_is_left(lab: Lab) -> None:
    """A kernel that is closed in order ends at once, whatever it was following."""
    cell = """
    async def cell():
        job = tony.submit({"command": "echo up; sleep 3600"})
        lines = job.logs(follow=True)
        return {"id": job.id, "first": next(lines)}
    """
    answer = run_cell(lab, cell)
    assert answer["first"] == "up"
    job = str(answer["id"])
    assert lab.status(job)["state"] == "running"
    assert lab.tony("kill", job, "--now").returncode == 0
    lab.wait(job, "killed")
    until(lambda: not lab.processes(job), "nothing is left")
