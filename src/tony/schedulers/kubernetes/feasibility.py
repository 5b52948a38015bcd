"""Whether the nodes and quotas of a cluster can take a job's pods, with the arithmetic. Pure.

Sources: `k8s.io/component-helpers/resource/helpers.go` for what a pod requests; `pkg/quota/v1/evaluator/core/pods.go`
for what counts against a quota; v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tony.control_characters import escape_line
from tony.errors import Problem
from tony.kube.api_client import Object
from tony.kube.quantity import parse_quantity
from tony.units import format_bytes

#: Effects of taints that keep pods off a node. Those of Kubernetes itself, such as of a node that is not ready, pass.
_EFFECTS = ("NoSchedule", "NoExecute")
_OWN_TAINTS = "node.kubernetes.io/"
#: Names by which a quota counts pods, and resources that are bytes.
_PODS = ("pods", "count/pods")
_BYTES = ("memory", "ephemeral-storage", "hugepages-")
#: Resources that quotas also have without the prefix `requests.`, and those that a pod may set for all its containers.
_SHORT_NAMES = ("cpu", "memory", "ephemeral-storage", "hugepages-")
_POD_LEVEL = ("cpu", "memory", "hugepages-")

#: What pods require that are to run near others, as `topology` has it.
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
#: Labels or taints in one message.
_MAX_CHARACTERS = 200

Amounts = dict[str, Decimal]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDemand:
    """Pods of one kind.

    Attributes:
        gpu_resource: the resource that `gpus` requests.
        key: prefix of their settings in the job file.
        what: one of them, for messages.
        count: how many of them the job needs at one time.
        pod: one of them, as the API server completes it.
    """

    gpu_resource: str
    key: str
    what: str
    count: int
    pod: Object

    def find_setting(self, resource: str, *, is_limit: bool = False) -> str:
        """Return the key of the setting that decides how much of a resource a pod requests, or what its limit is."""
        if self.is_am:
            return f"{self.key}.am_memory" if resource == "memory" else f"{self.key}.am_template"
        if is_limit and resource == "cpu":
            return f"{self.key}.kubernetes.template"
        settings = {"memory": "memory", "cpu": "vcores", self.gpu_resource: "gpus"}
        return f"{self.key}.{settings.get(resource, f'resources.{resource}')}"

    @property
    def is_am(self) -> bool:
        """Whether it is the pod of the application master."""
        return self.key == "scheduler.kubernetes"


def compute_amounts(pod: Object, kind: str = "requests") -> Amounts:
    """Return what a pod requests of each resource, or its `limits`.

    Raises:
        ValueError: a quantity is invalid.
    """
    spec = pod["spec"]
    running: Amounts = {}  # of containers that run until the pod ends; init containers may be among them
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        current = _add(running, _read_amounts(container, kind))
        peak = _merge(peak, current)
        if container.get("restartPolicy") == "Always":
            running = current
    for container in spec["containers"]:
        running = _add(running, _read_amounts(container, kind))
    whole = {name: amount for name, amount in _read_amounts(spec, kind).items() if name.startswith(_POD_LEVEL)}
    amounts = _merge(peak, running) | whole
    overhead = _parse(spec.get("overhead"))
    if kind == "limits":
        overhead = {name: amount for name, amount in overhead.items() if name in amounts}
    return _add(amounts, overhead)


def find_node_notices(demands: Sequence[PodDemand], nodes: Sequence[Object]) -> Iterator[str]:
    """Yield which pods no node could take, even if it were empty. Another node may be added later.

    Args:
        nodes: all of the cluster; empty if they are not known.

    Raises:
        ValueError: a quantity is invalid.
    """
    for demand in demands if nodes else ():
        if text := _explain_wait(demand, nodes):
            yield f"{text}; it may wait for one that fits."


def find_quota_problems(demands: Sequence[PodDemand], quotas: Sequence[Object]) -> Iterator[Problem]:
    """Yield requests that exceed a quota of the namespace, even if nothing else ran there.

    Raises:
        ValueError: a quantity is invalid.
    """
    usages = [(demand, _compute_usage(demand.pod)) for demand in demands]
    for quota in quotas:
        if quota["spec"].get("scopes") or quota["spec"].get("scopeSelector"):
            continue  # it counts some pods only
        name = escape_line(str(quota["metadata"]["name"]), 100)
        for counted, limit in _parse(quota["spec"].get("hard")).items():
            resource = counted.removeprefix("requests.").removeprefix("limits.")
            is_limit, is_count = counted.startswith("limits."), counted in _PODS
            used = [(demand, usage.get(counted, Decimal())) for demand, usage in usages]
            where = f"quota {name} of the namespace allows {{}} in all ({counted})"
            large = [(demand, amount) for demand, amount in used if amount > limit and not is_count]
            for demand, amount in large:
                requested, granted = _format_both(resource, amount, limit)
                does = "has a limit of" if is_limit else "requests"
                key = demand.find_setting(resource, is_limit=is_limit)
                yield Problem(key=key, message=f"{demand.what} {does} {requested}; {where.format(granted)}")
            total = sum((demand.count * amount for demand, amount in used), Decimal())
            if total > limit and not large:
                requested, granted = _format_both(resource, total, limit)
                does = "has limits of" if is_limit else "needs" if is_count else "requests"
                text = f"the job {does} at least {requested} at one time, with its AM; {where.format(granted)}"
                yield Problem(key="roles", message=text)


def _explain_wait(demand: PodDemand, nodes: Sequence[Object]) -> str:
    """Return why no node could take a pod, even if it were empty; empty if one could."""
    spec, template = demand.pod["spec"], ", am_template" if demand.is_am else ""
    selector = spec.get("nodeSelector") or {}
    labelled = [node for node in nodes if selector.items() <= _read_labels(node).items()]
    labels = _join(f"{label}={value}" for label, value in selector.items())
    if not labelled:
        keys = f"node_selector{template or ', node_label'}"
        return f"No node of the cluster has the labels that {demand.what} requires: {labels} (see {keys})"
    tolerations = spec.get("tolerations") or ()
    taints = [[*_find_refusing_taints(node, tolerations)] for node in labelled]
    accepting = [node for node, refusing in zip(labelled, taints, strict=True) if not refusing]
    if not accepting:
        texts = _join(dict.fromkeys(_format_taint(taint) for refusing in taints for taint in refusing))
        which = f" with {labels}" if labels else ""
        keys = f"tolerations{template}"
        return f"Each node of the cluster{which} has a taint that {demand.what} does not tolerate: {texts} (see {keys})"
    terms = ((spec.get("affinity") or {}).get("podAffinity") or {}).get(_REQUIRED) or ()
    for label in [str(term["topologyKey"]) for term in terms]:
        accepting = [node for node in accepting if label in _read_labels(node)]
        if not accepting:
            key = "am_template" if demand.is_am else "topology"
            return f"No node of the cluster that accepts {demand.what} has the label {_join([label])} (see {key})"
    return _explain_lack(demand, [_parse(node["status"].get("allocatable")) for node in accepting])


def _explain_lack(demand: PodDemand, allocatable: Sequence[Amounts]) -> str:
    """Return why no node is large enough for a pod; empty if one is."""
    amounts = compute_amounts(demand.pod)
    if any(all(node.get(name, Decimal()) >= amount for name, amount in amounts.items()) for node in allocatable):
        return ""
    for name, amount in amounts.items():
        largest = max(node.get(name, Decimal()) for node in allocatable)
        if amount > largest:
            requested, found = _format_both(name, amount, largest)
            has = f"the largest node has {found}" if largest else "no node lists any"
            return f"{demand.find_setting(name)}: {demand.what} requests {requested}, and {has}"
    requested = ", ".join(f"{_format_amount(name, amount)} of {name}" for name, amount in amounts.items())
    return f"No node has all that {demand.what} requests: {requested}"


def _read_labels(node: Object) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}


def _find_refusing_taints(node: Object, tolerations: Sequence[Object]) -> Iterator[Object]:
    """Yield the taints of a node that keep a pod with these tolerations off it."""
    for taint in node["spec"].get("taints") or ():
        is_lasting = taint["effect"] in _EFFECTS and not taint["key"].startswith(_OWN_TAINTS)
        if is_lasting and not any(_tolerates(each, taint) for each in tolerations):
            yield taint


def _format_taint(taint: Object) -> str:
    """Return a taint as `tolerations` has it."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def _join(texts: Iterable[str]) -> str:
    """Return texts of other users in one line of bounded length."""
    return escape_line(", ".join(texts), _MAX_CHARACTERS)


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator != "Equal":  # "Exists"; or a comparison, which is not looked into
        return toleration.get("key") in (None, "", taint["key"])
    return (toleration.get("key"), toleration.get("value", "")) == (taint["key"], taint.get("value", ""))


def _compute_usage(pod: Object) -> Amounts:
    """Return what a pod uses of a quota, by the names that quotas have."""
    requests, limits = compute_amounts(pod), compute_amounts(pod, "limits")
    usage = {f"requests.{name}": amount for name, amount in requests.items()}
    usage |= {name: amount for name, amount in requests.items() if name.startswith(_SHORT_NAMES)}
    usage |= {f"limits.{name}": amount for name, amount in limits.items()}
    return usage | {"pods": Decimal(1), "count/pods": Decimal(1)}


def _read_amounts(container: Object, kind: str) -> Amounts:
    return _parse((container.get("resources") or {}).get(kind))


def _parse(amounts: Mapping[str, Any] | None) -> Amounts:
    return {name: parse_quantity(str(amount)) for name, amount in (amounts or {}).items()}


def _add(one: Amounts, other: Amounts) -> Amounts:
    return {name: one.get(name, Decimal()) + other.get(name, Decimal()) for name in (one | other)}


def _merge(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, Decimal()), other.get(name, Decimal())) for name in (one | other)}


def _format_both(resource: str, requested: Decimal, available: Decimal) -> tuple[str, str]:
    """Return both amounts, exactly if they are nearly the same, and the resource with the first one."""
    texts = [_format_amount(resource, each) for each in (requested, available)]
    if texts[0] == texts[1]:
        texts = [f"{int(each):,} bytes" for each in (requested, available)]
    return f"{texts[0]} pods" if resource in _PODS else f"{texts[0]} of {resource}", texts[1]


def _format_amount(resource: str, amount: Decimal) -> str:
    return format_bytes(int(amount)) if resource.startswith(_BYTES) else f"{amount.normalize():f}"
