"""Plans for property tests: every word of the vocabulary, in every combination that fits together."""

from __future__ import annotations

from hypothesis import strategies as st

from tony.model.ids import TaskId
from tony.model.states import JobState
from tony.testing.faults.chance import random_plan
from tony.testing.faults.plan import (
    OF_TASKS,
    AfterEvent,
    AfterTime,
    Delay,
    Drop,
    Duplicate,
    FillDisk,
    FromTheStart,
    Harm,
    JobIs,
    Kill,
    Moment,
    Part,
    Partition,
    Plan,
    SessionOpens,
    Slow,
    Stage,
    Step,
    Stop,
    Strike,
    Target,
    TaskDid,
    Traffic,
    Within,
)

TASKS = [TaskId("worker", 0), TaskId("worker", 1), TaskId("ps", 0), TaskId("any", 7)]

_SECONDS = st.integers(0, 10_000_000).map(lambda thousandths: thousandths / 1000)
_SHARES = st.floats(0, 1, exclude_min=True)
_NUMBERS = st.integers(1, 10**9 - 1)
_TASKS = st.sampled_from(TASKS)
_WHOSE = st.one_of(
    _TASKS.map(lambda task: (task, None)), st.sampled_from(("", "worker", "any")).map(lambda role: (None, role))
)


def _target(part: Part, whose: tuple[TaskId | None, str | None]) -> Target:
    return Target(part=part, task=whose[0], any_of=whose[1]) if part in OF_TASKS else Target(part=part)


targets = st.builds(_target, st.sampled_from(Part), _WHOSE)
_executors = st.builds(_target, st.just(Part.EXECUTOR), _WHOSE)
_master = st.just(Target(part=Part.MASTER))
moments: st.SearchStrategy[Moment] = st.one_of(
    st.just(FromTheStart()),
    st.builds(AfterTime, seconds=_SECONDS),
    st.builds(AfterEvent, seq=_NUMBERS),
    st.builds(SessionOpens, session=_NUMBERS),
    st.builds(TaskDid, task=_TASKS, step=st.sampled_from(Step), session=st.none() | _NUMBERS),
    st.builds(JobIs, state=st.sampled_from([s for s in JobState if s is not JobState.SUBMITTED])),
)
_traffic = st.sampled_from(Traffic)
_lasting: st.SearchStrategy[Harm] = st.one_of(st.just(Stop()), st.builds(Slow, share=_SHARES), st.just(FillDisk()))
_on_the_way: st.SearchStrategy[Harm] = st.one_of(
    st.just(Partition()),
    st.builds(Drop, share=_SHARES, traffic=_traffic),
    st.builds(Delay, seconds=_SECONDS, share=_SHARES, traffic=_traffic),
    st.builds(Duplicate, share=_SHARES, traffic=_traffic),
)
_maybe = st.none() | _SECONDS

strikes = st.one_of(
    st.builds(Strike, harm=st.just(Kill()), target=targets, moment=moments, later=_SECONDS),
    st.builds(Strike, harm=_lasting, target=targets, moment=moments, later=_SECONDS, lasts=_maybe),
    st.builds(Strike, harm=_on_the_way, target=_executors, moment=moments, later=_SECONDS, lasts=_maybe),
    st.builds(
        Strike,
        harm=st.sampled_from((Kill(), FillDisk())),
        target=_master,
        moment=st.builds(Within, seq=_NUMBERS, stage=st.sampled_from(Stage)),
    ),
)
plans = st.builds(Plan, strikes=st.lists(strikes, max_size=5).map(tuple), seed=st.integers(0, 10**17))
#: Plans by lot, from a seed alone.
drawn_plans = st.integers(0, 10**6).map(lambda seed: random_plan(seed, TASKS))
