"""Fault injection into the real processes of a job on this machine.

    plan                 a `PlannedFault`: what goes wrong, in which process, when
    injector             follows the event log of a job and injects the faults
    process_targets      finds the process of a target, and injects the fault
    faulty_connection    an executor's connection that drops, delays and duplicates messages

Faults inside the AM: `crashing_master`. Faults of containers: `tony.testing.container_faults`. Faults of the fake
Hadoop daemons: `hadoop/faults.py`.
"""
