"""Faults on order: what is to go wrong, for whom and when; said once, for fakes and for real processes alike.

    plan                 the vocabulary: a `Plan` of `Strike`s, each a fault, a target, a moment
    plan_parser          a plan as people write it: `kill worker:1 after event 17`
    random_plan          plans by lot, the same for the same seed
    schedule             which strike is due: told of every event, answers what to do now; knows no process
    injector             follows the event log of a real job and strikes its processes, from outside
    process_targets      who a target is among this machine's processes, and how each is hit
    fault_files          how a struck executor, which cannot see the log, is told
    faulty_connection    an executor's connection that loses, delays and doubles what it carries
    crash_points         moments that only the application master itself can hit: a half-written log, effects cut short
    simulation_run       the same plans on `testing/simulation.py`
    fake_cluster_run     and on a real application master with played executors and `testing/fake_scheduler.py`
    containers           what can go wrong with a container of a fake or a real scheduler

What played Hadoop daemons do wrong is ordered from them: `testing/hadoop/faults.py`.
"""

from tony.testing.faults.containers import (
    ContainerExitsBeforeRegistering,
    Fault,
    LostAnswer,
    LostContainer,
    RefusedContainer,
    SlowContainer,
)

__all__ = [
    "ContainerExitsBeforeRegistering",
    "Fault",
    "LostAnswer",
    "LostContainer",
    "RefusedContainer",
    "SlowContainer",
]
