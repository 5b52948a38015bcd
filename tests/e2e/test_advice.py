"""Proposals are written into real job files, and the jobs really run again: none fails, and none does less work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.advice.jobs import load_own_facts
from tests.e2e.lab import Lab
from tony.advice.engine import BUILT_IN, advise
from tony.advice.heuristic import Heuristic
from tony.advice.patch import apply
from tony.advice.recommendation import Advice
from tony.client.submission import check
from tony.history.job_record import record_of
from tony.model.state_directory import Home
from tony.units import parse_size

pytestmark = pytest.mark.e2e

#: Does so much work with so much memory, saves as often as it is told, and counts what it did.
WORK = """
import json, os, time
import tony

held = bytearray(int(os.environ["HOLD"]) << 20)
for at in range(0, len(held), 4096):
    held[at] = 1
done = saved = 0
every = int(os.environ.get("SAVE_EVERY", "0"))
for step in range(1, 61):
    until = time.monotonic() + 0.05
    done += sum(range(20_000))
    while time.monotonic() < until:
        time.sleep(0.002)
    tony.progress(step, total=60)
    if every and step % every == 0:
        with tony.checkpoint(step):
            time.sleep(0.02)
            saved += 1
print(json.dumps({"done": done, "saved": saved}), flush=True)
"""
ROOMY = """
# too much of everything
name = "roomy"
command = "python work.py"
metrics_interval = "100ms"
params = { save_every = "2" }  # steps
env = { HOLD = "40", SAVE_EVERY = "{params.save_every}" }

[roles.worker]  # two
instances = 2
memory = "1g"   # who knows
vcores = 8
"""
TIGHT = """
name = "tight"
command = "python work.py"
metrics_interval = "100ms"
env.HOLD = "300"
roles.main.memory = "256m"
"""
VAIN = """
name = "vain"
command = "exit 3"
max_restarts = 4
backoff = "10ms"
"""


def hasty() -> list[Heuristic]:
    """All heuristics, for jobs of seconds: what is long, large and often is all that is different."""
    small = {"seconds": 0.3, "least": 1.0, "runs": 2}
    return [cls(**{name: value for name, value in small.items() if name in _names(cls)}) for cls in BUILT_IN]


def _names(cls: type[Heuristic]) -> set[str]:
    return {each.name for each in cls.thresholds}


def job_file(lab: Lab, name: str, text: str) -> Path:
    """A job's file in a folder of its own, beside its program."""
    lab.file(f"{name}/work.py", WORK)
    return lab.file(f"{name}/job.toml", f'source = "."\n{text}')


def said(lab: Lab, job: str) -> dict[str, int]:
    folder = Path(lab.status(job)["folder"]) / "logs"
    (log,) = sorted(folder.glob("*-0.s1.t1.out"))
    counted: dict[str, int] = json.loads(log.read_text())
    return counted


def advised(lab: Lab, job: str) -> Advice:
    return advise(load_own_facts(Home(lab.home), job), hasty())


def improved(lab: Lab, file: Path, job: str) -> Advice:
    advice, home = advised(lab, job), Home(lab.home)
    applied = apply(file, record_of(home, job), advice.patch, lambda resolved: check(resolved, home))
    assert () == applied.left
    return advice


@pytest.fixture(autouse=True)
def _as_its_commands(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is checked here is checked as in the commands."""
    for name in ("XDG_CONFIG_HOME", "TONY_SET_SCHEDULER__LOCAL__LEDGER", "TONY_HOME"):
        monkeypatch.setenv(name, lab.env[name])


def test_jobs_run_with_the_recommended_settings(lab: Lab) -> None:
    """Less memory, fewer cores, fewer checkpoints; enough memory; an end to restarts. The work is the same."""
    roomy, tight, vain = (job_file(lab, *each) for each in (("roomy", ROOMY), ("tight", TIGHT), ("vain", VAIN)))
    failed = lab.detach(vain), lab.detach(tight)
    for _ in range(2):
        job = lab.detach(roomy)
        assert "succeeded" == lab.wait(job)["state"]
    assert ["program", "memory"] == [lab.wait(job)["failure"]["cause"] for job in failed]
    before = said(lab, job)

    large = improved(lab, roomy, job)
    never, small = (improved(lab, file, job) for file, job in zip((vain, tight), failed, strict=True))
    assert {"memory-over-asked", "cpu-over-asked", "checkpoint-bound"} <= {each.heuristic for each in large.findings}
    keys = {str(change.key): change for change in large.patch}
    assert {"roles.worker.memory", "roles.worker.vcores", "params.save_every"} == set(keys)
    assert parse_size(str(keys["roles.worker.memory"].new.value)) < parse_size("512m")
    assert ["roles.main.memory"] == [str(change.key) for change in small.patch]
    assert ["min_uptime"] == [str(change.key) for change in never.patch]
    for comment in ("# too much of everything", "# steps", "# two", "# who knows"):
        assert comment in roomy.read_text()

    again = lab.detach(roomy), lab.detach(tight)
    ends = lab.detach(vain)
    assert ["succeeded"] * 2 == [lab.wait(job)["state"] for job in again]
    after = said(lab, again[0])
    assert before["done"] == after["done"] == said(lab, again[1])["done"]
    assert 0 < after["saved"] < before["saved"]
    ended = lab.wait(ends)
    assert (3, 2) == (ended["failure"]["exit_code"], ended["session"])

    assert not [each for each in advised(lab, again[0]).findings if each.heuristic.startswith("memory")]
    done = lab.tony("advise", again[0])
    assert (0, "") == (done.returncode, done.stderr)
    assert "No recommendations." in done.stdout, "these jobs are far too short for anything to be sure"
