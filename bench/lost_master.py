"""`kill -9` of the application master on this machine: until the next one has the full view again, and what it cost.

Full view: the next attempt answers a client that all four tasks run, and all four executors have attached to it. Asked
over its socket every few milliseconds, as `tony status` asks; executors' coming is in the master's own log, to the
millisecond. Programs lost are those that have started and have ended since, or started a second time.

torchrun has nothing to compare with: its agent's workers end with it.
"""

from __future__ import annotations

import time

from bench.failing_jobs import NS, TASKS, LocalJob, Programs, came_back, events_of, kill, until
from bench.harness import CannotRunError, Figures, Result, Unit, at_most, interleaved
from bench.measured_processes import Workshop
from bench.process_facts import status_of

TITLE = "kill -9 of the application master on this machine"


def measure(quick: bool) -> Result:
    """Jobs that lose their master, over the socket that a job on one machine has, and over TLS."""
    with Workshop() as shop:
        programs = Programs(shop.path / "plain")
        ways = {
            "tony": lambda: _figures(shop, programs),
            "tls": lambda: _figures(shop, programs, "tls=always"),
        }
        rounds = interleaved(ways, 1 if quick else 9, discard=0 if quick else 1)
    lines = []
    for way, head in (("tony", ""), ("tls", "over TLS: ")):
        lines += [
            rounds.line(f"{head}kill -9 of the application master → full view again", way, "full", target=at_most(2)),
            rounds.line(f"{head}→ the next attempt begins", way, "begins"),
            rounds.line(f"{head}→ a client is answered", way, "answers"),
            rounds.line(f"{head}→ the last of four executors is back", way, "back"),
            rounds.line(f"{head}programs lost", way, "lost", unit=Unit.COUNT, target=at_most(0)),
        ]
    return Result(lines=tuple(lines), notes=("without a comparison: torchrun's workers end with their agent",))


def _figures(shop: Workshop, programs: Programs, *settings: str) -> Figures:
    with LocalJob(shop, programs, *settings) as job:
        whereabouts = job.wait_full().am
        if whereabouts is None:
            raise CannotRunError("the report names no application master")
        killed = kill(whereabouts.pid)
        job.wait_full(attempt=2)
        answered = time.time_ns()
        back = until(lambda: _four(came_back(job.folder.am_log)), "all executors are back")
        report = job.wait_full(attempt=2)
        again = len(programs.starts()) - TASKS
        unauthenticated = sum(not status_of(task.pid or 0) for task in report.tasks)
        return {
            "full": (max(answered, *back) - killed) * NS,
            "begins": events_of(job.folder, "attempt-started")[1] - killed * NS,
            "answers": (answered - killed) * NS,
            "back": (max(back) - killed) * NS,
            "lost": programs.lost() + again + unauthenticated,
        }


def _four(moments: list[int]) -> list[int] | None:
    return moments if len(moments) >= TASKS else None
