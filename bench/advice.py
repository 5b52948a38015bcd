"""A job before and after what is proposed for it: whether its program is any slower, by its own count.

The job asks for far too much memory and too many cores, and saves in every second step. Its runs are looked at, all
that is proposed is written into a copy of its file, and both jobs run in turns. Each program does the same work, counts
it, and says how long that took and how much processor time, from its first step to its last. The target is that it
takes no longer than 1.05 times as long. Beside it: what looking at a job costs.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from bench.harness import CannotRunError, Figures, Result, interleaved
from bench.harness import at_most_times as times
from bench.measured_processes import Workshop, tony
from tests.advice.jobs import load_own_facts
from tony.advice.engine import BUILT_IN, advise
from tony.advice.heuristic import Heuristic
from tony.advice.patch import apply
from tony.client.submission import check
from tony.history.job_record import record_of
from tony.model.state_directory import Home

TITLE = "A job before and after what is proposed for it"

_STEPS = 120
_PROGRAM = f"""\
import json, time
import tony
held = bytearray(60 << 20)
for at in range(0, len(held), 4096):
    held[at] = 1
done, saved, every, save = 0, 0, int(__import__("os").environ["SAVE_EVERY"]), 0.0
began, cpu = time.perf_counter(), time.process_time()
for step in range(1, {_STEPS} + 1):
    for _ in range(20):
        done += sum(range(40_000))
    save = save or max(0.04, 2 * (time.perf_counter() - began))  # on a busy machine, as long as its first two steps
    tony.progress(step, total={_STEPS})
    if step % every == 0:
        with tony.checkpoint(step):
            time.sleep(save)
            saved += 1
took = {{"wall": time.perf_counter() - began, "cpu": time.process_time() - cpu}}
print("TOOK", json.dumps({{**took, "done": done, "saved": saved}}), flush=True)
"""
_JOB = """\
name = "wasteful"
source = "."
command = "python3 work.py"
metrics_interval = "100ms"
params = { save_every = "2" }
env = { SAVE_EVERY = "{params.save_every}" }

[roles.main]
memory = "1g"
vcores = 8
"""


def measure(quick: bool) -> Result:
    """Three runs to learn from, then both in turns."""
    with Workshop() as shop:
        before, after = shop.source / "before.toml", shop.source / "after.toml"
        (shop.source / "work.py").write_text(_PROGRAM, encoding="utf-8")
        before.write_text(_JOB, encoding="utf-8")
        for _ in range(3):
            _run(shop, before)
        changes = _improve(shop, before, after)
        rounds = interleaved(
            {"before": lambda: _run(shop, before), "after": lambda: _run(shop, after), "look": lambda: _look(shop)},
            1 if quick else 9,
            discard=0 if quick else 1,
        )
    same = {figure for way in ("before", "after") for figure in rounds.values(way, "done")}
    if len(same) != 1:
        raise CannotRunError(f"the two did not do the same work: {same}")
    return Result(
        lines=(
            rounds.line("the same work, after", "after", "work", against="before", target=times(1.05)),
            rounds.line("its processor time", "after", "spent", against="before", target=times(1.05)),
            rounds.line("looking at a job and three runs", "look", "wall"),
        ),
        notes=(f"what was changed: {', '.join(changes)}", f"{_STEPS} steps of one task"),
    )


def _hasty() -> Sequence[Heuristic]:
    """For jobs of seconds: what is long and large is all that is different."""
    small = {"seconds": 0.3, "least": 1.0}
    return [cls(**{each.name: small[each.name] for each in cls.thresholds if each.name in small}) for cls in BUILT_IN]


def _improve(shop: Workshop, before: Path, after: Path) -> list[str]:
    """The other file; answers what is different in it."""
    home, job = _newest(shop)
    found = advise(load_own_facts(home, job), _hasty())
    shutil.copyfile(before, after)
    applied = apply(after, record_of(home, job), found.patch, lambda resolved: check(resolved, home))
    if len(applied.made) < 3:
        raise CannotRunError(f"too little was proposed: {applied.made}")
    return [f"{change.key} = {change.old} -> {change.new}" for change in applied.made]


def _newest(shop: Workshop) -> tuple[Home, str]:
    return Home(Path(shop.environ["TONY_HOME"])), str(shop.ask("list", "--json")[0]["job"])


def _run(shop: Workshop, file: Path) -> Figures:
    done = shop.run(tony("submit", str(file)))
    told = re.search(r"TOOK (\{.*\})", done.output)
    if told is None:
        raise CannotRunError(f"the program said nothing: {done.output[-1000:]}")
    took = json.loads(told[1])
    return {"work": took["wall"], "spent": took["cpu"], "done": took["done"]}


def _look(shop: Workshop) -> Figures:
    home, job = _newest(shop)
    began, cpu = time.perf_counter(), time.process_time()
    advise(load_own_facts(home, job), _hasty())
    return {"wall": time.perf_counter() - began, "cpu": time.process_time() - cpu}
