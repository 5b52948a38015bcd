"""Jobs of the fleet: random healthy ones, and ones with one kind of waste each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random

from tests.advice.fleet import Plan, Use, spec, workers
from tony.advice.facts import Facts
from tony.advice.facts_loader import load_facts
from tony.jobs.directory.view import DirectoryJobView
from tony.model.job_spec import GIB, JobSpec
from tony.model.setting_choices import RoleKind
from tony.model.state_directory import Home
from tony.model.states import JobState


def healthy(chance: Random) -> Plan:
    """A job without recommendations: it uses what it requests, or its use is unknown."""
    return chance.choice(_HEALTHY)(chance)


def _plain(chance: Random) -> Plan:
    memory, cores = chance.choice((1, 2, 4, 16)) * GIB, chance.choice((1, 2, 4, 8))
    use = Use(
        memory=memory * chance.uniform(0.6, 0.85),
        cpu=cores * chance.uniform(0.7, 0.95),
        cache=memory * chance.uniform(0.0, 0.1),
        noise=chance.uniform(0.0, 0.05),
    )
    role = workers(chance.randint(1, 6), memory, cores)
    return Plan(
        spec=spec("none", worker=role),
        uses={"worker": use},
        duration=chance.choice((400.0, 3600.0, 40_000.0)),
        set_up=chance.uniform(1, 30),
        step=chance.choice((None, 0.5, 2.0)),
        runs=chance.randint(1, 5),
    )


def _gpus(chance: Random) -> Plan:
    """Workers with GPUs that are busy, and checkpoints now and then."""
    count, cores, memory = chance.choice((1, 2, 4, 8)), chance.choice((4, 8, 16)), chance.choice((16, 32, 64)) * GIB
    use = Use(
        memory=memory * chance.uniform(0.6, 0.8),
        cpu=cores * chance.uniform(0.45, 0.85),
        cpu_peak=cores * chance.uniform(0.7, 1.0),
        devices=tuple(chance.uniform(0.6, 0.97) for _ in range(count)),
        waits=chance.choice((None, chance.uniform(0.0, 0.15))),
    )
    return Plan(
        spec=spec("pytorch", worker=workers(chance.randint(1, 8), memory, cores, count, procs_per_task=count)),
        uses={"worker": use},
        duration=chance.choice((3600.0, 20_000.0)),
        set_up=chance.uniform(5, 200),
        save_every=chance.choice((None, 600.0, 900.0)),
        save_cost=chance.uniform(2.0, 20.0),
        runs=chance.randint(2, 5),
    )


def _servers(chance: Random) -> Plan:
    """Workers and parameter servers that have enough to do."""
    memory = chance.choice((4, 8)) * GIB
    worker = Use(memory=memory * 0.75, cpu=3.2, network=2e7)
    ps = Use(memory=memory * chance.uniform(0.55, 0.8), cpu=chance.uniform(1.2, 1.8), network=chance.uniform(5e7, 2e8))
    return Plan(
        spec=spec(
            "tensorflow",
            worker=workers(chance.randint(2, 6), memory, 4),
            ps=workers(chance.randint(1, 4), memory, 2, kind=RoleKind.UNTRACKED),
        ),
        uses={"worker": worker, "ps": ps},
    )


def _restarted(chance: Random) -> Plan:
    """It fails now and then, and restarts help; it saves often enough for that."""
    plan = _gpus(chance)
    return replace(
        plan,
        spec=replace(plan.spec, max_restarts=5),
        duration=20_000.0,
        fails=tuple(chance.uniform(5_000.0, 15_000.0) for _ in range(chance.randint(1, 2))),
        save_every=500.0,
        save_cost=5.0,
    )


def _short(chance: Random) -> Plan:
    """Wasteful, but too short for a recommendation."""
    return replace(memory_over_asked(chance), duration=chance.uniform(5, 120), set_up=1.0)


def _unknown(chance: Random) -> Plan:
    plan = chance.choice((_plain, memory_over_asked, gpus_idle))(chance)
    uses = {name: replace(use, measured=False) for name, use in plan.uses.items()}
    return replace(plan, uses=uses, step=None, save_every=None)


def _growing(chance: Random) -> Plan:
    """Its memory grows to the end: a longer run would need more."""
    plan = memory_over_asked(chance)
    return replace(plan, uses={name: replace(use, grows=True) for name, use in plan.uses.items()})


def _once(chance: Random) -> Plan:
    """Wasteful, and has run once or twice."""
    return replace(memory_over_asked(chance), runs=chance.randint(1, 2))


_HEALTHY: tuple[Callable[[Random], Plan], ...] = (
    *(_plain, _plain, _gpus, _gpus, _servers, _restarted, _restarted, _short, _unknown, _growing, _once),
)


# --- planted ----------------------------------------------------------------------------------------------------------


def _base(chance: Random, memory: float = 8 * GIB, cores: int = 4, gpus: int = 0, count: int = 0) -> Plan:
    """A job without waste, to be spoilt."""
    use = Use(
        memory=memory * chance.uniform(0.62, 0.75),
        cpu=cores * chance.uniform(0.6, 0.85),
        devices=tuple(chance.uniform(0.7, 0.95) for _ in range(gpus)),
        noise=chance.uniform(0.0, 0.05),
    )
    role = workers(count or chance.randint(3, 6), memory, cores, gpus)
    return Plan(
        spec=spec("pytorch", worker=role),
        uses={"worker": use},
        duration=chance.uniform(900.0, 20_000.0),
        runs=chance.randint(3, 6),
    )


def _spoilt(plan: Plan, **use: object) -> Plan:
    return replace(plan, uses={**plan.uses, "worker": replace(plan.uses["worker"], **use)})  # type: ignore[arg-type]


def memory_over_asked(chance: Random) -> Plan:
    """A tenth to a third of the memory is used."""
    memory = chance.choice((2, 8, 32)) * GIB
    plan = _base(chance, memory)
    return _spoilt(plan, memory=memory * chance.uniform(0.1, 0.35), cache=memory * chance.uniform(0.0, 0.05))


def memory_tight(chance: Random) -> Plan:
    """Nearly all of it is; some die of it."""
    memory = chance.choice((2, 8, 32)) * GIB
    plan = _spoilt(_base(chance, memory), memory=memory * chance.uniform(0.96, 0.99), noise=0.005)
    if chance.random() < 0.5:
        return plan
    died = replace(plan, spec=replace(plan.spec, max_restarts=3), fails=(700.0,), out_of_memory=True)
    return died


def cpu_over_asked(chance: Random) -> Plan:
    """A tenth of the cores is ever used."""
    cores = chance.choice((8, 16, 32))
    return _spoilt(_base(chance, cores=cores), cpu=cores * chance.uniform(0.05, 0.15), cpu_peak=cores * 0.25)


def cpu_under_asked(chance: Random) -> Plan:
    """Twice the cores are used, or a limit stands in the way."""
    cores = chance.choice((1, 2, 4))
    plan = _base(chance, cores=cores)
    if chance.random() < 0.5:
        return _spoilt(plan, cpu=cores * chance.uniform(1.8, 3.0))
    return _spoilt(plan, cpu=cores * 0.98, throttled=chance.uniform(0.2, 0.6))


def gpus_idle(chance: Random) -> Plan:
    """Of several devices the last ones are never used; some programs open them all the same."""
    count = chance.choice((2, 4, 8))
    plan = _base(chance, gpus=count)
    used = chance.randint(0, count - 1)
    devices = tuple(0.8 if number < used else 0.0 for number in range(count))
    return _spoilt(plan, devices=devices, opened=chance.random() < 0.3)


def data_bound(chance: Random) -> Plan:
    """The program says so, or the GPUs are half idle beside busy cores."""
    plan = _base(chance, gpus=2)
    if chance.random() < 0.5:
        return _spoilt(plan, waits=chance.uniform(0.35, 0.8), devices=(0.55, 0.5), cpu=2.0, cpu_peak=3.5)
    return _spoilt(plan, devices=(chance.uniform(0.1, 0.4),) * 2, cpu=3.9)


def checkpoint_bound(chance: Random) -> Plan:
    plan = replace(_base(chance, gpus=2), duration=chance.uniform(5_000.0, 20_000.0))
    every = chance.uniform(30.0, 60.0)
    steps = round(every)
    return replace(
        plan,
        spec=replace(plan.spec, params={"save_every": str(steps)}),
        save_every=every,
        save_steps=steps,
        save_cost=every * chance.uniform(0.2, 0.5),
    )


def checkpoint_interval(chance: Random) -> Plan:
    """It fails every hour or two, and saves as seldom."""
    plan = replace(_base(chance, gpus=2), duration=chance.uniform(8_000.0, 12_000.0), runs=4)
    every = chance.uniform(3000.0, 4500.0)
    return replace(
        plan,
        spec=replace(plan.spec, max_restarts=5, params={"checkpoint_steps": str(round(every))}),
        save_every=every,
        save_steps=round(every),
        save_cost=chance.uniform(5.0, 30.0),
        fails=tuple(chance.uniform(4_000.0, 7_000.0) for _ in range(2)),
    )


def skewed_ranks(chance: Random) -> Plan:
    """One task is half as fast, or has twice as much to do."""
    plan = _base(chance, count=chance.randint(3, 8))
    slowest = chance.randrange(plan.spec.roles["worker"].instances)
    if chance.random() < 0.5:
        return _spoilt(plan, slow={slowest: chance.uniform(1.5, 3.0)})
    others = [index for index in range(plan.spec.roles["worker"].instances) if index != slowest]
    return _spoilt(replace(plan, step=None), early=dict.fromkeys(others, chance.uniform(0.4, 0.7)))


def restarts_in_vain(chance: Random) -> Plan:
    """It fails in the same way each time, soon after the start."""
    plan = _base(chance)
    count = chance.randint(3, 6)
    return replace(
        plan,
        spec=replace(plan.spec, max_restarts=count),
        fails=tuple(chance.uniform(20.0, 40.0) for _ in range(count + 1)),
        step=None,
        ends=JobState.FAILED,
    )


def idle_after_end(chance: Random) -> Plan:
    """Half of its tasks have ended long before the others."""
    plan = replace(_base(chance, count=4), step=None, duration=chance.uniform(4_000.0, 20_000.0))
    plan = replace(plan, spec=replace(plan.spec, max_restarts=2))  # without, containers are given back at once
    return _spoilt(plan, early={0: chance.uniform(0.2, 0.5), 1: chance.uniform(0.2, 0.5)})


def parameter_servers(chance: Random) -> Plan:
    count = chance.randint(4, 8)
    made: JobSpec = spec(
        "tensorflow",
        worker=workers(4, 8 * GIB, 4),
        ps=workers(count, 4 * GIB, 2, kind=RoleKind.UNTRACKED),
    )
    worker = Use(memory=6 * GIB, cpu=3.2)
    ps = Use(memory=chance.uniform(0.6, 0.9) * GIB, cpu=chance.uniform(0.02, 0.1), cpu_peak=0.2)
    return Plan(spec=made, uses={"worker": worker, "ps": ps}, duration=chance.uniform(900.0, 9000.0))


def start_up(chance: Random) -> Plan:
    """Files are brought for as long as programs run."""
    plan = _base(chance)
    return replace(plan, duration=chance.uniform(400.0, 800.0), set_up=chance.uniform(300.0, 1000.0))


PLANTED: dict[str, Callable[[Random], Plan]] = {
    "memory-over-asked": memory_over_asked,
    "memory-tight": memory_tight,
    "cpu-over-asked": cpu_over_asked,
    "cpu-under-asked": cpu_under_asked,
    "gpus-idle": gpus_idle,
    "data-bound": data_bound,
    "checkpoint-bound": checkpoint_bound,
    "checkpoint-interval": checkpoint_interval,
    "skewed-ranks": skewed_ranks,
    "restarts-in-vain": restarts_in_vain,
    "idle-after-end": idle_after_end,
    "parameter-servers": parameter_servers,
    "start-up": start_up,
}


def load_own_facts(home: Home, job: str) -> Facts:
    """The facts of a job of a state directory, with its earlier runs there."""
    return asyncio.run(load_facts(DirectoryJobView.from_home(home, job)))
