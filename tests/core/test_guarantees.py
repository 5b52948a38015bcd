"""The guarantees notice what they are for: each thing that the machine must not do has its sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.core.simulated import started
from tests.core.specs import OK, task, with_restarts, workers
from tests.support.guarantees import BrokenGuaranteeError
from tests.support.simulation import Simulation
from tony.core import actions as act
from tony.core import events as ev
from tony.core.deadline import Deadline
from tony.core.state import State
from tony.core.transitions import TaskMove
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.job_spec import ClusterSpec
from tony.model.states import JobState

NEWS = ev.Queued(reason="")
WHO = task("worker:0")
FAILURE = Failure(failure_class=FailureClass.USER, cause=FailureCause.PROGRAM, reason="boom", session=1, at=1.0)


def running() -> Simulation:
    """Two workers run, in c-1 and c-2; c-3 is granted and given back, c-4 is ended by force, c-5 has ended."""
    simulation = started(with_restarts(workers(2), 1))
    for name in ("c-3", "c-4", "c-5"):
        simulation.guarantees.handled(ev.Granted(container=name, role="worker", host="h"), 0.0, [])
    ask(simulation, act.Release(container="c-3"), act.Kill(container="c-4", reason="late"))
    simulation.guarantees.handled(ev.ContainerEnded(container="c-5", cause="lost"), 0.0, [])
    return simulation


def ask(simulation: Simulation, *actions: act.Action) -> None:
    """As if the machine had asked for this."""
    simulation.guarantees.handled(NEWS, 0.0, list(actions))


def spec(session: int, version: int, address: str = "h:1") -> ClusterSpec:
    return ClusterSpec(session=session, version=version, roles={"worker": (address,)})


LAUNCH = act.Launch(container="c-3", task=WHO, session=1)
BROKEN: list[tuple[act.Action, str]] = [
    (LAUNCH, "released"),
    (act.Launch(container="c-4", task=WHO, session=1), "released"),
    (act.Launch(container="c-5", task=WHO, session=1), "ended"),
    (act.Launch(container="c-9", task=WHO, session=1), "unknown container"),
    (act.Launch(container="c-1", task=WHO, session=1), "second executor"),
    (act.Release(container="c-3"), "released"),
    (act.Release(container="c-4"), "released"),
    (act.Release(container="c-5"), "ended"),
    (act.Kill(container="c-4", reason="late"), "killed twice"),
    (act.Kill(container="c-5", reason="late"), "ended"),
    (act.Kill(container="c-9", reason="late"), "unknown container"),
    (act.Renew(task=WHO, session=2), "session"),
    (act.Start(task=WHO, session=1, try_=1, version=1), "started twice"),
    (act.Start(task=WHO, session=2, try_=1, version=1), "session"),
    (act.Start(task=WHO, session=1, try_=2, version=2), "nothing published"),
    (act.Stop(task=WHO, session=2, grace=0.0), "never started"),
    (act.Publish(spec=spec(2, 1)), "session"),
    (act.Publish(spec=spec(1, 1)), "published twice"),
    (act.Publish(spec=spec(1, 2, "")), "no address"),
    (act.OpenSession(session=1), "session number"),
    (act.OpenSession(session=3), "session number"),
    (act.SetDemand(role="worker", total=-1), "negative"),
    (act.Finish(state=JobState.SUCCEEDED, exit_code=0, failure=FAILURE), "result and failure differ"),
    (act.Finish(state=JobState.FAILED, exit_code=1, failure=None), "result and failure differ"),
]


@pytest.mark.parametrize(("action", "sentence"), BROKEN, ids=lambda each: each if isinstance(each, str) else each.kind)
def test_forbidden_actions_are_detected(action: act.Action, sentence: str) -> None:
    """Each is told with the action."""
    with pytest.raises(BrokenGuaranteeError, match=sentence):
        ask(running(), action)


def test_no_action_follows_the_end() -> None:
    """Except the release of late containers."""
    simulation = running()
    end = act.Finish(state=JobState.FAILED, exit_code=1, failure=FAILURE)
    simulation.guarantees.handled(ev.Granted(container="c-6", role="worker", host="h"), 0.0, [end])
    ask(simulation, act.Release(container="c-6"))
    with pytest.raises(BrokenGuaranteeError, match="after the job finished"):
        ask(simulation, act.SetDemand(role="worker", total=0))


def test_no_failure_follows_the_one_that_fails_the_job() -> None:
    simulation = running()
    ask(simulation, act.ReportFailure(failure=FAILURE, decision=ev.FailureResponse.TOLERATE, reason="r"))
    ask(simulation, act.ReportFailure(failure=FAILURE, decision=ev.FailureResponse.FAIL, reason="r"))
    with pytest.raises(BrokenGuaranteeError, match=r"^after the job had failed"):
        ask(simulation, act.ReportFailure(failure=FAILURE, decision=ev.FailureResponse.TOLERATE, reason="r"))


def _refused_and_changed(state: State) -> None:
    state.queue_reason = "x"
    state.refused += 1


CHANGES: list[tuple[ev.Event, Callable[[State], object], str]] = [
    (NEWS, lambda s: setattr(s, "session", 2), "session 2 comes after session 1"),
    (NEWS, lambda s: setattr(s, "version", 0), "the version of the cluster spec went back"),
    (
        ev.DeadlinePassed(deadline=Deadline.parse("job")),
        lambda s: setattr(s, "queue_reason", "x"),
        "DeadlinePassed(deadline=Deadline(kind=<DeadlineKind.JOB: 'job'>, subject=None)) changed something",
    ),
    (
        ev.Silent(task=WHO, incarnation="i-c-4", silence=9.0, container="c-4"),
        lambda s: setattr(s, "queue_reason", "x"),
        "Silent(",
    ),
    (
        ev.Registered(task=WHO, container="c-1", incarnation="unknown", session=1, address="h:1"),
        lambda s: setattr(s, "queue_reason", "x"),
        "Registered(",
    ),
    (
        ev.Started(task=WHO, session=1, try_=1, pid=1),
        _refused_and_changed,
        "started was refused and changed something",
    ),
]


@pytest.mark.parametrize(("event", "change", "sentence"), CHANGES, ids=[sentence for *_, sentence in CHANGES])
def test_forbidden_state_changes_are_detected(
    event: ev.Event, change: Callable[[State], object], sentence: str
) -> None:
    """By an ignored event, or by any."""
    simulation = running()
    change(simulation.app.state)
    with pytest.raises(BrokenGuaranteeError) as caught:
        simulation.guarantees.handled(event, 0.0, [])
    assert sentence in str(caught.value)


def test_an_ended_task_stays_ended_within_its_session() -> None:
    """A task does not come back to life."""
    simulation = running()
    simulation.exit(WHO, OK)
    simulation.run()
    simulation.app.state.move_task(simulation.app.state.tasks[WHO], TaskMove.RESET, 0.0)
    with pytest.raises(BrokenGuaranteeError, match=r"worker:0.*succeeded.*session 1.*pending"):
        ask(simulation)


def test_an_end_is_an_end() -> None:
    """The result stands, and nothing moves any longer."""
    simulation = running()
    for program in simulation.running():
        simulation.exit(program.task, OK)
    simulation.settle()
    simulation.app.state.queue_reason = "x"
    with pytest.raises(BrokenGuaranteeError, match="job that had ended"):
        ask(simulation)
    assert simulation.app.state.final
    simulation.app.state.final.state = JobState.FAILED
    with pytest.raises(BrokenGuaranteeError, match="the result was succeeded and is"):
        ask(simulation)
