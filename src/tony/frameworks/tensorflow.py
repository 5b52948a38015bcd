"""TensorFlow: TF_CONFIG for its cluster resolver, and LinkedIn TonY's CLUSTER_SPEC."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tony.errors import Problem, UserError
from tony.frameworks.adapter_checks import MAX_STRING, check_one_process, string_size
from tony.frameworks.framework_interface import Framework, TaskView
from tony.frameworks.ranks import compute_roles, explain_lone_rank, roles_together
from tony.model.codec import Json
from tony.model.ids import TaskId
from tony.model.job_spec import ClusterSpec, JobSpec
from tony.model.setting_choices import DistributedMode, RoleKind

#: Assumed length of a host name before it is known: between `localhost` and a cloud's full names.
ASSUMED_HOST = 32
_ASSUMED_ADDRESS = "h" * ASSUMED_HOST + ":65535"

#: Roles of a job with parameter servers: a worker there can rejoin under its address.
PS = "ps"
WORKER = "worker"
#: The role that assigns steps to the workers of such a job.
CHIEF = "chief"

Cluster = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class _Variable:
    """TF_CONFIG or CLUSTER_SPEC.

    Attributes:
        addresses: number of addresses in it.
        listed: bytes that they take, each with its quotes and comma.
    """

    name: str
    value: str
    addresses: int
    listed: int

    @property
    def size(self) -> int:
        return string_size(self.name, self.value)


class TensorFlow(Framework):
    """Every task gets the whole list of addresses. Shared value: that list, so a start costs O(tasks) per task.

    In TF_CONFIG, `tensorboard` and sidecars are left out for all, `evaluator` for all but evaluators: TensorFlow waits
    for every task in it. CLUSTER_SPEC has every role. In fcfs mode there is neither.
    """

    name = "tensorflow"

    def validate(self, spec: JobSpec) -> Sequence[Problem]:
        too_many = () if spec.distributed_mode is DistributedMode.FCFS else _check_address_list(spec)
        return [*check_one_process(spec, self.name), *too_many]

    def find_serving_roles(self, roles: Collection[str]) -> Collection[str]:
        """Return the parameter servers, and the workers where a chief assigns their steps.

        Without a chief the workers train by themselves, and exit by themselves.
        """
        if PS not in roles:
            return ()
        return (PS, WORKER) if CHIEF in roles and WORKER in roles else (PS,)

    def check_lone_restart(self, spec: JobSpec, role: str) -> str | None:
        group = next((group for group in roles_together(spec) if role in group), {})
        if spec.distributed_mode is DistributedMode.FCFS or role not in compute_roles(group):
            return None
        if PS not in group:
            return explain_lone_rank(spec, role)
        return None if role == WORKER else f"the workers' shared state is lost with {role}"

    def check_elastic(self, spec: JobSpec, role: str) -> str | None:
        return "each ps keeps a part of the model, partitioned for a fixed number of servers" if role == "ps" else None

    def build_shared(self, spec: JobSpec, cluster: ClusterSpec) -> Json:
        outside = _find_roles_outside(spec)
        return {
            "cluster": {role: list(addresses) for role, addresses in cluster.roles.items()},
            "outside": [role for role in cluster.roles if role in outside],
        }

    def environment(self, shared: Json, task: TaskView) -> Sequence[Mapping[str, str]]:
        if shared is None:
            return [{}]
        variables = _variables(shared["cluster"], shared["outside"], task.task)
        for variable in variables:
            if variable.size > MAX_STRING:
                raise UserError(f"{task.task} cannot be started: {_explain_size(variable)}")
        return [{variable.name: variable.value for variable in variables}]


def _find_roles_outside(spec: JobSpec) -> set[str]:
    """Return the roles that are in no TF_CONFIG."""
    sidecars = {name for name, role in spec.effective_roles.items() if role.kind is RoleKind.SIDECAR}
    return (sidecars - {"evaluator"}) | {"tensorboard"}


def _variables(cluster: Cluster, outside: Sequence[str], task: TaskId) -> tuple[_Variable, _Variable]:
    seen = {role: addresses for role, addresses in cluster.items() if role not in outside}
    if task.role != "evaluator":
        seen.pop("evaluator", None)
    config = {"cluster": seen, "task": {"type": task.role, "index": task.index}}
    return _variable("TF_CONFIG", config, seen), _variable("CLUSTER_SPEC", cluster, cluster)


def _variable(name: str, value: Json, cluster: Cluster) -> _Variable:
    text = json.dumps(value, separators=(",", ":"))
    lengths = [len(address) + len('"",') for addresses in cluster.values() for address in addresses]
    return _Variable(name, text, len(lengths), sum(lengths))


def _check_address_list(spec: JobSpec) -> Iterator[Problem]:
    """Refuse a job whose list of addresses will hardly fit; `environment` measures it when the names are known."""
    outside = sorted(_find_roles_outside(spec))
    for roles in roles_together(spec):
        cluster = {name: [_ASSUMED_ADDRESS] * role.instances for name, role in roles.items()}
        tasks = _with_longest_names([TaskId(name, role.instances - 1) for name, role in roles.items()])
        longest = max((v for task in tasks for v in _variables(cluster, outside, task)), key=lambda v: v.size)
        if longest.size > MAX_STRING:
            biggest = max(roles, key=lambda name: roles[name].instances)
            yield Problem(
                key=f"roles.{biggest}.instances",
                value=str(roles[biggest].instances),
                message=f"{_explain_size(longest)}. Host names are assumed to have {ASSUMED_HOST} characters. Use "
                'fewer tasks, or framework = "none" if the programs do not read it.',
            )


def _with_longest_names(tasks: Sequence[TaskId]) -> list[TaskId]:
    """Return the evaluator and the other task with the longest names, whose variables are the longest."""
    evaluators = [task for task in tasks if task.role == "evaluator"]
    others = [task for task in tasks if task.role != "evaluator"]
    return [max(group, key=lambda task: len(str(task))) for group in (evaluators, others) if group]


def _explain_size(variable: _Variable) -> str:
    """Return why the variable does not fit, and how many tasks would."""
    each = variable.listed / variable.addresses
    overhead = variable.size - variable.listed
    fit = (MAX_STRING - overhead) * variable.addresses // variable.listed
    return (
        f"{variable.name} takes {variable.size:,} bytes for {variable.addresses:,} tasks ({each:.4g} each plus "
        f"{overhead}), but Linux allows {MAX_STRING:,} per variable: {fit:,} tasks would fit"
    )
