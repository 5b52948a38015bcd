"""The most that a job uses of a machine at one time: its claim covers that, as a whole and from the start.

Jobs that took their containers one by one could wait for each other (deadlock). So each makes one claim, for its peak.
Two roles cannot coexist if one has to finish before the other starts; the peak is the heaviest set of roles of which
any two can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from functools import cache
from operator import itemgetter

from tony.model.job_spec import JobSpec, Resources, Role
from tony.model.setting_choices import AfterCondition

#: Up to this many ordered roles the peak is exact; beyond, it is the plain sum, which is never too low.
EXACT_ROLES = 28
#: Sizes that are tried for an elastic job.
STEPS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The peak demand of a job.

    Attributes:
        memory: bytes.
        gpus: whole devices.
    """

    memory: int
    gpus: int


def compute_peak(spec: JobSpec) -> Need:
    """Return the most that a job's containers use at one time. vcores are shares, and not counted."""
    roles = spec.effective_roles
    return Need(
        memory=sum(sum_weights(roles[name], compute_memory) for name in find_coexisting(spec, compute_memory)),
        gpus=sum(sum_weights(roles[name], compute_gpus) for name in find_coexisting(spec, compute_gpus)),
    )


def list_acceptable_sizes(spec: JobSpec) -> tuple[Need, ...]:
    """Return acceptable sizes of a job, largest first: its peak with all tasks, then with fewer of its elastic tasks.

    About `STEPS` of them at most; the last has the minimum of each role.
    """
    spare = {name: role.instances - (role.min_instances or 0) for name, role in spec.roles.items()}
    spare = {name: spare[name] for name in spec.elastic_roles}
    step = max(1, sum(spare.values()) // STEPS)
    found = [compute_peak(spec)]
    left_out = dict.fromkeys(spare, 0)
    while any(spare.values()):
        for _ in range(step):
            name = max(spare, key=lambda name: spare[name])
            if spare[name]:
                spare[name] -= 1
                left_out[name] += 1
        found.append(compute_peak(spec.leave_out({name: range(count) for name, count in left_out.items()})))
    return tuple(found)


def reduce_to_least(spec: JobSpec) -> JobSpec:
    """Return the job with the minimum of each role's tasks."""
    roles = {name: replace(role, instances=role.min_instances or role.instances) for name, role in spec.roles.items()}
    return replace(spec, roles=roles) if spec.elastic_roles else spec


def find_coexisting(spec: JobSpec, weight: Callable[[Resources], int]) -> tuple[str, ...]:
    """Return the roles that can run at one time and together weigh most, in the job's order."""
    roles = spec.effective_roles
    rivals = find_exclusions(roles)
    if spec.max_restarts:  # a finished task keeps its container for a restart, unless its role is setup
        first = set(spec.setup_roles)
        rivals = {name: others if name in first else others & first for name, others in rivals.items()}
    weights = {name: sum_weights(role, weight) for name, role in roles.items()}
    return tuple(name for name in _find_heaviest(rivals, weights) if weights[name])


def sum_weights(role: Role, weight: Callable[[Resources], int]) -> int:
    """Return the weight of all tasks of a role."""
    return role.instances * weight(role.resources)


def compute_memory(resources: Resources) -> int:
    """Return the bytes of one task."""
    return resources.memory


def compute_gpus(resources: Resources) -> int:
    """Return the GPUs of one task."""
    return resources.gpus


def find_exclusions(roles: Mapping[str, Role]) -> Mapping[str, Set[str]]:
    """Map each role to those that finish before it starts, or start only when it has finished."""
    earlier = {name: _find_finished_before(name, roles) for name in roles}
    return {name: frozenset(earlier[name]) | {other for other in roles if name in earlier[other]} for name in roles}


def _find_finished_before(name: str, roles: Mapping[str, Role]) -> Set[str]:
    """Return roles that have finished when `name` starts: it waits for their end, or a role that it waits for does."""
    finished: set[str] = set()
    seen: set[str] = set()
    todo = [name]
    while todo:
        role = todo.pop()
        for other, condition in roles[role].after.items():
            if other not in roles:
                continue
            if condition is not AfterCondition.STARTED:
                finished.add(other)
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return finished


def _find_heaviest(rivals: Mapping[str, Set[str]], weights: Mapping[str, int]) -> list[str]:
    """Return the set of roles without two rivals that has the largest sum of weights."""
    bound = tuple(name for name in rivals if rivals[name])
    if len(bound) > EXACT_ROLES:
        return list(rivals)

    @cache
    def choose(names: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
        """Return the largest sum over some of these roles, and which those are."""
        if not names:
            return 0, ()
        first, rest = names[0], names[1:]
        weight, others = choose(tuple(name for name in rest if name not in rivals[first]))
        return max((weights[first] + weight, (first, *others)), choose(rest), key=itemgetter(0))

    _, chosen = choose(bound)
    return [name for name in rivals if not rivals[name] or name in chosen]
