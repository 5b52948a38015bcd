"""Plans for property tests: every word of the vocabulary, in every combination that fits together."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.support.faults import plan as fault
from tests.support.faults.random_plan import random_plan
from tony.model.ids import TaskId
from tony.model.states import JobState

TASKS = [TaskId("worker", 0), TaskId("worker", 1), TaskId("ps", 0), TaskId("any", 7)]

_SECONDS = st.integers(0, 10_000_000).map(lambda thousandths: thousandths / 1000)
_SHARES = st.floats(0, 1, exclude_min=True)
_NUMBERS = st.integers(1, 10**9 - 1)
_TASKS = st.sampled_from(TASKS)
_WHOSE = st.one_of(
    _TASKS.map(lambda task: (task, None)), st.sampled_from(("", "worker", "any")).map(lambda role: (None, role))
)


def _target(part: fault.ProcessKind, whose: tuple[TaskId | None, str | None]) -> fault.FaultTarget:
    return (
        fault.FaultTarget(part=part, task=whose[0], any_of=whose[1])
        if part in fault.OF_TASKS
        else fault.FaultTarget(part=part)
    )


targets = st.builds(_target, st.sampled_from(fault.ProcessKind), _WHOSE)
_executors = st.builds(_target, st.just(fault.ProcessKind.EXECUTOR), _WHOSE)
_master = st.just(fault.FaultTarget(part=fault.ProcessKind.MASTER))
moments: st.SearchStrategy[fault.Moment] = st.one_of(
    st.just(fault.AtStart()),
    st.builds(fault.AfterTime, seconds=_SECONDS),
    st.builds(fault.AfterEvent, seq=_NUMBERS),
    st.builds(fault.SessionOpens, session=_NUMBERS),
    st.builds(fault.TaskDid, task=_TASKS, step=st.sampled_from(fault.TaskMilestone), session=st.none() | _NUMBERS),
    st.builds(fault.JobIs, state=st.sampled_from([s for s in JobState if s is not JobState.SUBMITTED])),
)
_traffic = st.sampled_from(fault.Traffic)
_lasting: st.SearchStrategy[fault.Harm] = st.one_of(
    st.just(fault.Stop()), st.builds(fault.Slow, share=_SHARES), st.just(fault.FillDisk())
)
_on_the_way: st.SearchStrategy[fault.Harm] = st.one_of(
    st.just(fault.Partition()),
    st.builds(fault.Drop, share=_SHARES, traffic=_traffic),
    st.builds(fault.Delay, seconds=_SECONDS, share=_SHARES, traffic=_traffic),
    st.builds(fault.Duplicate, share=_SHARES, traffic=_traffic),
)
_maybe = st.none() | _SECONDS

strikes = st.one_of(
    st.builds(fault.Strike, harm=st.just(fault.Kill()), target=targets, moment=moments, later=_SECONDS),
    st.builds(fault.Strike, harm=_lasting, target=targets, moment=moments, later=_SECONDS, lasts=_maybe),
    st.builds(fault.Strike, harm=_on_the_way, target=_executors, moment=moments, later=_SECONDS, lasts=_maybe),
    st.builds(
        fault.Strike,
        harm=st.sampled_from((fault.Kill(), fault.FillDisk())),
        target=_master,
        moment=st.builds(fault.Within, seq=_NUMBERS, stage=st.sampled_from(fault.EventStage)),
    ),
)
plans = st.builds(fault.FaultPlan, strikes=st.lists(strikes, max_size=5).map(tuple), seed=st.integers(0, 10**17))
#: Plans by lot, from a seed alone.
drawn_plans = st.integers(0, 10**6).map(lambda seed: random_plan(seed, TASKS))
