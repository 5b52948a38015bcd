"""Fault injection: plans of faults with a target and a time, for fakes and for real processes alike.

    plan                 the model: a `FaultPlan` of `PlannedFault`s, each with a fault, a target and a moment
    plan_parser          the text format of a plan: `kill worker:1 after event 17`
    random_plan          random plans, reproducible by their seed
    schedule             which fault is due after each event; handles no processes
    injector             follows the event log of a real job and injects faults into its processes
    process_targets      finds the process of a target on this machine, and injects the fault
    fault_files          the file of commands to faulty executors, which cannot read the log
    faulty_connection    an executor's connection that drops, delays and duplicates messages
    crash_points         faults inside the AM: a half-written log, interrupted effects

Faults of containers: `tony.testing.container_faults`. Faults of the fake Hadoop daemons: `hadoop/faults.py`.
"""
