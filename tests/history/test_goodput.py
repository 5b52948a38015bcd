"""Every second of every task is in exactly one bucket, and in the right one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.core.specs import FAILED, OK, task, with_restarts, workers
from tests.history.simulated_logs import entries, life, record
from tests.support.simulation import Simulation
from tests.support.timelines import timeline
from tony.core import events as ev
from tony.errors import PlatformError
from tony.history.goodput import OF_STEPS, Bucket, GoodputLedger, check, ledger
from tony.history.timeline import TaskPhase, Timeline
from tony.model.job_spec import GIB, JobSpec, Resources, Role
from tony.model.progress import CheckpointRecord, Progress
from tony.model.setting_choices import AfterCondition, RoleKind


class Said:
    """What programs told."""

    def __init__(self, progress: Sequence[Progress] = (), saved: Sequence[CheckpointRecord] = ()) -> None:
        self._progress, self._saved = progress, saved
        self.known_until: float | None = None

    def progress(self, task: str | None = None) -> Sequence[Progress]:
        return [each for each in self._progress if task in (None, each.task)]

    def checkpoints(self, task: str | None = None) -> Sequence[CheckpointRecord]:
        return [each for each in self._saved if task in (None, each.task)]


def drawn(cluster: Simulation, until: float | None = None) -> Timeline:
    return timeline(record(cluster.app.state.spec), entries(cluster), until)


def known(made: GoodputLedger) -> dict[str, float]:
    """The buckets in which there is anything."""
    return {name: round(value, 6) for name, value in made.seconds.items() if value}


def trained() -> Simulation:
    """Two workers whose phases are known: see `EXPECTED`. Queue 20, allocate 10, set-up 30, failure, restart of 50."""
    spec = replace(with_restarts(workers(2), 1), backoff=0.0)
    gpu = Resources(memory=4 * GIB, vcores=2, gpus=1)
    spec = replace(spec, roles={"worker": replace(spec.roles["worker"], resources=gpu)})
    cluster = Simulation(spec, capacity=0)
    cluster.begin()
    cluster.deliver(ev.Queued(reason="no room"))
    cluster.run()
    cluster.now = 20.0
    cluster.deliver(ev.Queued(reason=""))
    cluster.now = 30.0
    cluster.capacity = 2
    cluster.grant()
    cluster.deliver_pending()
    cluster.deliver_pending()  # both containers are there
    cluster.now = 60.0
    cluster.deliver_pending()  # the first executor is
    cluster.now = 65.0
    cluster.run()  # the second one; both start
    cluster.now = 1065.0
    cluster.stubborn.add(task("worker:1"))
    cluster.exit(task("worker:0"), FAILED)
    cluster.run()
    cluster.now = 1085.0
    cluster.exit(task("worker:1"), FAILED)  # it was asked to stop, and took 20 s
    cluster.now = 1085.0
    while cluster.app.state.session == 1:
        cluster.deliver_pending()
    cluster.now = 1115.0
    cluster.run()  # the next session starts 50 s after the failure
    cluster.now = 3115.0
    cluster.exit(task("worker:0"), OK)
    cluster.run()
    cluster.now = 3125.0
    cluster.exit(task("worker:1"), OK)
    cluster.run()
    return cluster


#: What rank 0 told: first step 35 s after each start, a checkpoint of 8 s at step 500, 300 s of steps done again.
SAID = Said(
    [
        Progress("worker:0", 1, 1, 1.0, 100.0, 800.0, 1060.0, 4000.0),
        Progress("worker:0", 2, 1, 501.0, 1150.0, 4000.0, 3110.0, 4000.0, regained=1450.0, behind=True),
    ],
    [
        CheckpointRecord("worker:0", 1, 1, 500, 700.0, 708.0),
        CheckpointRecord("worker:0", 2, 1, 2000, 2000.0, 2008.0),
        CheckpointRecord("worker:0", 2, 1, 3000, 2500.0, 2508.0),
    ],
)
#: By hand, over both tasks.
EXPECTED = {
    "queue": 2 * 20.0,
    "allocate": 2 * 10.0,
    "set-up": 30.0 + 35.0,
    "rendezvous": 5.0,
    "warm-up": 2 * 35.0 + 2 * 35.0,
    "checkpoint": 2 * 24.0,
    "redone": 2 * 300.0,
    "restart": 2 * 50.0,
    "productive": 2 * (1065 - 100 - 8) + (3115 - 1450 - 16) + (3125 - 1450 - 16),
}


def test_buckets_of_a_job_with_known_phases() -> None:
    """Each bucket of a synthetic job has the time it was made of, to less than a hundredth."""
    line = drawn(trained())
    made = ledger(line, SAID)
    found = known(made)
    assert {name: found.get(name, 0.0) for name in EXPECTED} == {
        name: pytest.approx(value, rel=0.01) for name, value in EXPECTED.items()
    }
    assert made.whole == pytest.approx(3115.0 + 3125.0 + 10.0 * bool(found.get("idle")), abs=1e-6)
    assert made.has_steps
    held = made.whole - 2 * 30.0
    assert made.whole_gpu_hours == pytest.approx(held / 3600)
    assert made.whole_gb_hours == pytest.approx(4 * held / 3600)
    assert made.whole_core_hours == pytest.approx(2 * held / 3600)
    assert made.goodput == pytest.approx(EXPECTED["productive"] / held, rel=0.01)


def test_goodput_without_progress_reports_is_unknown() -> None:
    """Neither productive time nor a share of it is computed for a program that reports no steps."""
    made = ledger(drawn(trained()))
    assert [made.seconds[bucket.value] for bucket in (*OF_STEPS, Bucket.CHECKPOINT)] == [None] * 5
    assert made.seconds["unknown"] == pytest.approx(2 * 1000.0 + 2000.0 + 2010.0)
    assert not made.has_steps
    assert made.goodput is None


#: Both workers of a job report; the second one made its last step at 120 s, and the job is looked at at 400 s.
HUNG = Progress("worker:1", 1, 1, 1.0, 100.0, 40.0, 120.0, 400.0, stalled_after=30.0)


def hung() -> Timeline:
    """Two workers whose programs run from second 0 to 400."""
    cluster = Simulation(workers(2))
    cluster.begin()
    cluster.run()
    return drawn(cluster, 400.0)


def test_a_program_that_makes_no_step_is_stalled() -> None:
    """Only until its last step was it productive; the other one, which continues, is."""
    moving = replace(HUNG, task="worker:0", step=300.0, at=399.0)
    made = ledger(hung(), Said([moving, HUNG]))
    tasks = {each.task: each.seconds for each in made.tasks}
    assert tasks["worker:0"]["stalled"] == 0.0
    assert tasks["worker:0"]["productive"] == pytest.approx(300.0, abs=1.0)
    assert tasks["worker:1"]["stalled"] == pytest.approx(280.0, abs=1.0)
    assert tasks["worker:1"]["productive"] == pytest.approx(20.0, abs=1.0)
    assert made.goodput == pytest.approx(320.0 / 800.0, abs=0.02)


def test_a_program_that_has_made_all_steps_is_not_stalled() -> None:
    """What it does then, such as a last save, may take its time."""
    done = replace(HUNG, step=400.0)
    assert "stalled" not in known(ledger(hung(), Said([done, replace(done, task="worker:0")])))


def test_the_same_step_again_and_again_is_not_productive() -> None:
    """From its first report on; a stall after the last of these reports stays one."""
    again = replace(HUNG, at=399.0, changed_at=120.0)
    seconds = next(each.seconds for each in ledger(hung(), Said([again])).tasks if each.task == "worker:1")
    assert seconds["unknown"] == pytest.approx(280.0, abs=1.0)
    assert seconds["stalled"] == 0.0
    again = replace(again, at=300.0)
    seconds = next(each.seconds for each in ledger(hung(), Said([again])).tasks if each.task == "worker:1")
    assert seconds["unknown"] == pytest.approx(180.0, abs=1.0)
    assert seconds["stalled"] == pytest.approx(100.0, abs=1.0)


def test_a_stall_that_is_over_stays_one() -> None:
    """It lies between the steps before it and those after it; checkpoints in it were no stall."""
    went_on = replace(HUNG, at=399.0, stalls=((150.0, 200.0), (250.0, 300.0)))
    made = ledger(hung(), Said([went_on], [CheckpointRecord("worker:1", 1, 1, 7, 160.0, 190.0)]))
    seconds = next(each.seconds for each in made.tasks if each.task == "worker:1")
    assert seconds["stalled"] == pytest.approx(70.0)
    assert seconds["checkpoint"] == pytest.approx(30.0)
    assert seconds["productive"] == pytest.approx(200.0, abs=1.0)


def test_reports_that_have_not_come_yet_are_no_stall() -> None:
    """The file of a job on a cluster is brought now and then: silence since then says nothing."""
    said = Said([HUNG])
    said.known_until = 140.0
    assert not known(ledger(hung(), said)).get("stalled")
    said.known_until = 160.0
    assert known(ledger(hung(), said))["stalled"] == pytest.approx(560.0, abs=2.0)


def test_a_session_that_made_no_step_was_warming_up() -> None:
    """Who told of steps before and tells of none now has made none, and neither have those who go in step with it."""
    made = ledger(drawn(trained()), Said(SAID.progress()[:1]))
    assert known(made)["warm-up"] == pytest.approx(2 * 35.0 + 2000.0 + 2010.0, rel=0.01)
    assert known(made)["productive"] == pytest.approx(2 * 965.0, rel=0.01)


def test_steps_of_an_ended_task_do_not_count_for_others() -> None:
    """Where the task that reported steps does not run any longer, the others' productive time is unknown."""
    others = [replace(SAID.progress()[0], task="worker:0", session=7)]
    made = ledger(drawn(trained()), Said(others))
    assert known(made).get("productive", 0.0) == 0.0
    elsewhere = [replace(SAID.progress()[0], task="gone:0", session=7)]
    made = ledger(drawn(trained()), Said(elsewhere))
    assert known(made)["unknown"] == pytest.approx(2 * 1000.0 + 2000.0 + 2010.0)


def test_steps_without_checkpoints() -> None:
    """Steps alone tell of warm-up and of what was done again, and not of checkpoints."""
    made = ledger(drawn(trained()), Said(SAID.progress()))
    assert made.seconds["checkpoint"] is None
    assert made.seconds["redone"] == pytest.approx(600.0)


def test_checkpoints_that_were_too_many_to_keep() -> None:
    """Their time counts all the same."""
    many = [replace(each, unlisted=100.0) for each in SAID.progress()]
    made = ledger(drawn(trained()), Said(many))
    assert made.seconds["checkpoint"] == pytest.approx(200.0)
    assert made.tasks[0].seconds["checkpoint"] == pytest.approx(200.0)


def test_a_checkpoint_under_way_at_a_failure_ends_with_the_program() -> None:
    """No second counts twice, whatever a program says of its checkpoints."""
    wild = [
        CheckpointRecord("worker:0", 1, 1, 1, 0.0, 90.0),
        CheckpointRecord("worker:0", 1, 1, 2, 50.0, 120.0),
        CheckpointRecord("worker:0", 1, 1, 3, 1060.0, 9999.0),
    ]
    made = ledger(drawn(trained()), Said(SAID.progress(), wild))
    assert made.tasks[0].seconds["checkpoint"] == pytest.approx(120.0 - 65.0 + 5.0)


def test_preparation_is_set_up_and_a_stop_at_the_end_is_idle() -> None:
    """What a setup role does is none of the computation; a program that ends with its job is not needed any longer."""
    spec = JobSpec(
        command="x",
        roles={
            "prep": Role(kind=RoleKind.SETUP),
            "worker": Role(after={"prep": AfterCondition.SUCCEEDED}),
            "board": Role(kind=RoleKind.SIDECAR, after={"prep": AfterCondition.SUCCEEDED}),
        },
    )
    cluster = Simulation(spec)
    cluster.begin()
    cluster.run()
    cluster.now = 40.0
    cluster.exit(task("prep:0"), OK)
    cluster.run()
    cluster.now = 100.0
    cluster.stubborn.add(task("board:0"))
    cluster.exit(task("worker:0"), OK)
    cluster.run()
    cluster.now = 107.0
    cluster.exit(task("board:0"), OK)
    cluster.run()
    made = ledger(drawn(cluster))
    assert known(made) == {"set-up": 40.0, "unknown": 60.0 + 60.0, "idle": 7.0}


@pytest.mark.parametrize("block", range(4))
def test_buckets_always_add_up(block: int) -> None:
    """For random jobs with restarts, lone ones, deaths of masters, elastic gangs, and programs that report anything."""
    for seed in range(block * 40, (block + 1) * 40):
        line = drawn(life(seed).cluster)
        said = _anything(line, seed)
        for marks in (None, said):
            made = ledger(line, marks)
            spans = sum(span.seconds for span in line.spans if span.what is not TaskPhase.NO_CONTAINER)
            assert sum(v for v in made.seconds.values() if v) == pytest.approx(spans), seed
            assert all(v is None or v >= 0 for each in made.tasks for v in each.seconds.values()), seed
            held = sum(span.seconds for span in line.spans if span.held)
            assert made.whole_core_hours * 3600 == pytest.approx(held), seed


def _anything(line: Timeline, seed: int) -> Said:
    progress, saved = [], []
    for number, span in enumerate(span for span in line.spans if span.what is TaskPhase.RUNNING):
        lot = (seed * 31 + number * 17) % 7
        at = span.since + lot
        regained = at + lot if lot % 2 else None
        progress.append(
            Progress(
                span.task,
                span.session,
                span.try_,
                1.0,
                at if lot else -1.0,
                9.0,
                span.until,
                regained=regained,
                behind=lot > 2,
                unlisted=float(lot == 5),
            )
        )
        if lot > 3:
            saved.append(CheckpointRecord(span.task, span.session, span.try_, lot, at - lot, at + 2 * lot))
    return Said(progress, saved)


def test_a_sum_that_is_wrong_is_a_bug() -> None:
    """The invariant is held by more than the tests."""
    made = ledger(drawn(trained()))
    with pytest.raises(PlatformError, match="a bug in tony"):
        check(replace(made, whole=made.whole + 1.0))
