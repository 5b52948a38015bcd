"""`tony advise` and `tony waste`, on records as real jobs leave them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.advice.fleet import START, Plan, simulate, write
from tests.advice.jobs import PLANTED, healthy, load_own_facts, memory_over_asked
from tests.cli.conftest import Tony
from tests.facts import mentions
from tony.advice.facts_builder import run_of
from tony.advice.facts_loader import read_run
from tony.config.load import load
from tony.history.event_log import segments
from tony.history.json_files import write_json
from tony.model.codec import to_plain
from tony.model.state_directory import Home
from tony.units import format_exact_size


def recorded(home: Home, plan: Plan, job_file: Path | None = None) -> list[str]:
    """All runs of a plan in a home, oldest first; if there is a file they came from that."""
    ids = []
    for number in range(plan.runs):
        simulated = simulate(plan, Random(number), number)
        if job_file:
            resolved = load(job_file, environ={}, site_files=[])
            simulated.record = replace(simulated.record, sources=resolved.sources)
        ids.append(write(home, simulated).job_id)
    return ids


def file_of(plan: Plan, path: Path) -> Path:
    """A job file that says what a plan's job is, as far as advice is concerned."""
    role = plan.spec.roles["worker"]
    path.write_text(
        f'# mine\nname = "fleet"\nframework = "{plan.spec.framework}"\ncommand = "train"\n\n[roles.worker]  # w\n'
        f'instances = {role.instances}\nmemory = "{format_exact_size(role.resources.memory)}"  # plenty\n'
        f"vcores = {role.resources.vcores}\n"
    )
    return path


def test_facts_read_from_files_equal_those_in_memory(home: Home) -> None:
    """As far as they use peaks, steps, checkpoints and failures."""
    for kind in ("checkpoint-interval", "memory-tight", "gpus-idle"):
        plan = PLANTED[kind](Random(4))
        simulated = simulate(plan, Random(4), list(PLANTED).index(kind))
        known = read_run(write(home, simulated))
        made = run_of(simulated.record, simulated.entries, simulated.measured, simulated.report)
        assert (made.failures, made.saves, made.sessions) == (known.failures, known.saves, known.sessions)
        for name, role in made.roles.items():
            mine = known.roles[name]
            assert (role.peak, role.counted, role.out_of_memory) == (mine.peak, mine.counted, mine.out_of_memory)
            assert role.steps == pytest.approx(mine.steps)
            assert role.growing is mine.growing is False
            assert role.list_means("cpu") == pytest.approx(mine.list_means("cpu"), rel=1e-3)


def test_findings_for_people(tony: Tony, home: Home) -> None:
    """What, by which numbers, what it saves, the change, where to read on, what is not known."""
    recorded(home, memory_over_asked(Random(0)))
    answer = tony("advise", "last")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert "earlier run" in lines[0]
    assert any(
        line.startswith(("high: ", "medium: ", "low: ")) and "of memory, and none ever" in line for line in lines
    )
    for part in ("    highest peak of any task: ", "    would save per run: ", "rule: memory-over-asked"):
        assert any(part in line for line in lines), part
    assert "      [roles.worker]" in lines
    assert any(line.startswith('    + memory = "') for line in lines)
    assert lines[-1].startswith("Not checked: ")
    assert "tony.checkpoint" in lines[-1]


def test_findings_as_json(tony: Tony, home: Home) -> None:
    """All of it, with numbers as numbers; runs newest first, the job itself before all others."""
    ids = recorded(home, memory_over_asked(Random(0)))
    told = tony("advise", ids[-1], "--json").json
    assert {"job", "runs", "findings", "patch", "later", "unknown", "problems", "applied", "refused"} == told.keys()
    assert list(reversed(ids)) == told["runs"]
    (recommendation,) = told["findings"]
    assert ("memory-over-asked", "worker") == (recommendation["heuristic"], recommendation["role"])
    assert 0 < recommendation["saving"]["gb_hours"]["least"] <= recommendation["saving"]["gb_hours"]["most"]
    last = recommendation["evidence"][-1]
    assert {"what": "tasks", "value": last["value"], "measure": "count"} == last
    assert recommendation["patch"] == told["patch"]
    assert told["applied"] is None
    assert [] == tony("advise", ids[0], "--json").json["findings"], "the first run knows nothing of later ones"


def test_nothing_to_say(tony: Tony, home: Home) -> None:
    recorded(home, replace(healthy(Random(0)), runs=1))
    assert "No recommendations." in tony("advise", "last").out.splitlines()


def test_earlier_runs_without_events_are_counted(tony: Tony, home: Home) -> None:
    """They may be in a cluster, or were never fetched: one line for all."""
    ids = recorded(home, replace(healthy(Random(0)), runs=3))
    for job_id in ids[:2]:
        for segment in segments(home.job(job_id).path):
            segment.unlink()
    assert tony("advise", ids[2], "--json").json["problems"] == ["the events of 2 earlier runs are not on this machine"]


def test_only_some_findings(tony: Tony, home: Home) -> None:
    """By name; a name that there is not is refused with those that there are."""
    recorded(home, memory_over_asked(Random(0)))
    assert [] == tony("advise", "last", "--only", "start-up", "--json").json["findings"]
    answer = tony("advise", "last", "--only", "frobs")
    assert (2, True) == (answer.code, "unknown recommendation 'frobs'; known: checkpoint-bound, " in answer.err)


def test_it_is_written_into_the_file(tony: Tony, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One value, shown as a diff; a second time there is nothing to do."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TONY_SET_SCHEDULER__LOCAL__MEMORY", "64g")
    plan = memory_over_asked(Random(0))
    plan = replace(plan, spec=replace(plan.spec, roles={"worker": replace(plan.spec.roles["worker"], instances=1)}))
    file = file_of(plan, tmp_path / "job.toml")
    recorded(home, plan, file)
    before = file.read_text()
    answer = tony("advise", "last", "--apply", str(file))
    assert (answer.code, answer.err) == (0, "")
    after = file.read_text()
    changed = [(old, new) for old, new in zip(before.splitlines(), after.splitlines(), strict=True) if old != new]
    ((old, new),) = changed
    assert old.endswith("  # plenty")
    assert new.endswith("  # plenty")
    assert f"+{new}" in answer.out.splitlines()
    again = tony("advise", "last", "--apply", str(file), "--json")
    assert (0, False) == (again.code, again.json["applied"]["changed"])
    assert "has changed since" in again.json["applied"]["left"][0]["why"]


@pytest.mark.parametrize("name", ["job.yaml", "tony.xml"])
def test_other_kinds_of_files(tony: Tony, home: Home, tmp_path: Path, name: str) -> None:
    """The changes are printed, and why they are not written; exit code 2."""
    recorded(home, memory_over_asked(Random(0)))
    file = tmp_path / name
    file.write_text("")
    answer = tony("advise", "last", "--apply", str(file))
    assert 2 == answer.code
    assert "+ memory" in answer.out
    assert "Make the changes yourself" in answer.err
    as_json = tony("advise", "last", "--apply", str(file), "--json")
    assert (2, True) == (as_json.code, "Make the changes yourself" in as_json.json["refused"])
    assert "" == file.read_text()


def test_a_missing_job_file(tony: Tony, home: Home) -> None:
    """It is an error even if there is nothing to write."""
    recorded(home, memory_over_asked(Random(0)))
    answer = tony("advise", "last", "--apply", "missing.toml")
    assert (answer.code, answer.out) == (2, "")
    assert "missing.toml" in answer.err


def test_a_run_that_cannot_be_read(tony: Tony, home: Home) -> None:
    """Is named, and the others are looked at."""
    plan = replace(memory_over_asked(Random(0)), runs=5)
    ids = recorded(home, plan)
    segments(home.job(ids[0]).path)[0].write_text("nothing\n")
    home.job(ids[1]).metrics.write_bytes(b"nothing" * 1000)
    answer = tony("advise", "last", "--json")
    assert 0 == answer.code
    assert ids[0] in answer.err
    assert ["memory-over-asked"] == [each["heuristic"] for each in answer.json["findings"]]
    assert list(reversed(ids[1:])) == answer.json["runs"]


def test_runs_of_other_jobs_are_left_out(home: Home) -> None:
    """Another name, another user, more tasks, or later than the job."""
    plan = memory_over_asked(Random(0))
    simulated = [simulate(plan, Random(0), number) for number in range(4)]
    simulated[1].record = replace(simulated[1].record, user="bob")
    for each in simulated:
        write(home, each)
    record = simulated[3].record
    write_json(home.job(record.job_id).job, to_plain(record))
    assert [3, 2, 0] == [int(run.job[20]) for run in load_own_facts(home, record.job_id).runs]


class TestWaste:
    def test_sums(self, tony: Tony, home: Home) -> None:
        recorded(home, replace(memory_over_asked(Random(0)), runs=2))
        answer = tony("waste", "--since", "2023-01-01")
        assert (answer.code, answer.err) == (0, "")
        heading, line = answer.out.splitlines()
        assert ["WEEK", "USER", "JOBS"] == heading.split()[:3]
        assert ["2023-W46", "ann", "2"] == line.split()[:3]
        assert "unused" in line

    def test_as_json(self, tony: Tony, home: Home) -> None:
        recorded(home, replace(memory_over_asked(Random(0)), runs=2))
        (week,) = tony("waste", "--since", "2023-01-01", "--json").json
        assert ("ann", "2023-W46", 2) == (week["user"], week["week"], week["jobs"])
        assert 0 < week["wasted"]["gb_hours"] < week["held"]["gb_hours"]
        assert [] == tony("waste", "--since", "2023-01-01", "--user", "bob", "--json").json
        assert START < 1_701_000_000.0
        assert [] == tony("waste", "--json").json

    def test_jobs_of_which_nothing_was_kept(self, tony: Tony, home: Home) -> None:
        ids = recorded(home, replace(memory_over_asked(Random(0)), runs=2))
        segments(home.job(ids[0]).path)[0].unlink()
        answer = tony("waste", "--since", "2023-01-01")
        assert mentions(answer.err, "1 job", "event log")
        assert 2 == len(answer.out.splitlines())

    def test_no_jobs(self, tony: Tony, home: Home) -> None:
        assert re.fullmatch("no jobs have ended since [-0-9]+ [:0-9]+\n", tony("waste").out)
