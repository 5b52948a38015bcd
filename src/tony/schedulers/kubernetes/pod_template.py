"""The setting `template`: fields of a pod in Kubernetes' own names, merged into the pods that tony builds. Pure.

Lists are merged by the keys that Kubernetes itself uses: `patchMergeKey` in k8s.io/api/core/v1/types.go.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from tony.kube.api_client import Object
from tony.schedulers.kubernetes.launch_payload import CONTAINER_NAME, OBJECTS

#: Lists whose items are merged, and the field that says which are the same; other lists are replaced.
_MERGE_KEYS: Mapping[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumes": "name",
    "imagePullSecrets": "name",
}
#: Lists whose items all apply.
_ADDED = frozenset(
    {
        "envFrom",
        "tolerations",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    }
)
_OWN_CONTAINER = rf"spec\.containers\[{CONTAINER_NAME}\]"
#: Normal paths that hide a folder of tony if something is mounted there.
OWN_PATHS = rf"/|{OBJECTS.parent}(?:/.*)?"
_FURTHER_CONTAINERS = """\
add it to `initContainers`, with restartPolicy = "Always" if it runs next to the program"""
#: Fields that tony itself sets, and what to do instead.
_OWN_FIELDS: Sequence[tuple[str, str]] = (
    (r"(?!metadata$|spec$)[^.]+", "a template has only `metadata` and `spec`"),
    (r"metadata\.(?!labels$|annotations$)[^.]+", "of `metadata` there can be `labels` and `annotations`"),
    (r"metadata\.labels\.(?:tony\.dev/.*|app\.kubernetes\.io/managed-by)", ""),
    (r"spec\.schedulingGroup(?:\..*)?", "see `gang`"),
    (r"metadata\.(?:labels|annotations)\.kueue\.x-k8s\.io/(?:queue-name|pod-group-.*)", "set `queue`"),
    (r"spec\.restartPolicy", "tony starts tasks again itself; see `max_restarts`"),
    (r"spec\.terminationGracePeriodSeconds", "set `stop_grace`"),
    (rf"{_OWN_CONTAINER}\.(?:command|args|restartPolicy|restartPolicyRules)", "set `command` of the role"),
    (rf"{_OWN_CONTAINER}\.image", "set `image`"),
    (rf"{_OWN_CONTAINER}\.resources\.(?:requests|limits)\.memory", "set `memory` of the role, or `am_memory`"),
    (rf"{_OWN_CONTAINER}\.env\[TONY_.*\]", ""),
    (rf"{_OWN_CONTAINER}\.volumeMounts\[(?:{OWN_PATHS})\]", "mount it at another path"),
    (r"spec\.volumes\[(?:objects|secret|hadoop|keytab|volume-\d+|object-.*)\]", "choose another name"),
    (rf"spec\.containers\[(?!{CONTAINER_NAME}\])[^\]]*\]", _FURTHER_CONTAINERS),
)
#: The same in the pod of the AM only.
_OWN_FIELDS_OF_AM: Sequence[tuple[str, str]] = (
    (
        r"spec\.(?:serviceAccountName|serviceAccount|automountServiceAccountToken)",
        "the application master has `service_account`, tasks have `task_service_account`",
    ),
)


def find_template_errors(template: Mapping[str, Any], *, is_for_am: bool) -> Iterator[str]:
    """Yield a sentence for each field that tony itself sets, and for each item of a list that cannot be merged."""
    rules = [*_OWN_FIELDS, *(_OWN_FIELDS_OF_AM if is_for_am else ())]
    for path, value in _list_fields(template, ""):
        instead = next((instead for pattern, instead in rules if re.fullmatch(pattern, path)), None)
        if instead is not None:
            yield f"{path} cannot be set here{f': {instead}' if instead else ', tony itself sets it'}."
        elif path in ("metadata", "metadata.labels", "spec") and not isinstance(value, Mapping):
            yield f"{path} must be a table."
        elif path.rpartition(".")[2] in _MERGE_KEYS and not isinstance(value, str):
            name = path.rpartition(".")[2]
            if not isinstance(value, list) or not all(_get_key(item, _MERGE_KEYS[name]) for item in value):
                yield f"{path} must be a list of tables, each with its `{_MERGE_KEYS[name]}`."


def _list_fields(value: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    """Yield each field with its path, such as `spec.containers[tony].image`."""
    for name, item in value.items():
        field = f"{path}.{name}" if path else name
        yield field, item
        if isinstance(item, Mapping):
            yield from _list_fields(item, field)
        elif name in _MERGE_KEYS and isinstance(item, list):
            for each in item:
                if key := _get_key(each, _MERGE_KEYS[name]):
                    yield f"{field}[{key}]", each
                    yield from _list_fields(each, f"{field}[{key}]")


def merge_template(target: Object, template: Mapping[str, Any]) -> None:
    """Merge a template into a pod, which is changed."""
    for name, value in template.items():
        present = target.get(name)
        if isinstance(value, Mapping) and isinstance(present, dict):
            merge_template(present, value)
        elif isinstance(value, list) and isinstance(present, list):
            target[name] = _merge_lists(name, present, value)
        else:
            target[name] = deepcopy(value)


def _merge_lists(name: str, present: list[Any], added: list[Any]) -> list[Any]:
    if name in _ADDED:
        return [*present, *deepcopy(added)]
    if name == "nodeSelectorTerms":  # one of them must hold
        return [_join_terms(one, other) for one in present for other in added]
    if name not in _MERGE_KEYS:
        return deepcopy(added)
    merged = {_get_key(item, _MERGE_KEYS[name]): item for item in present}
    for item in deepcopy(added):
        key = _get_key(item, _MERGE_KEYS[name])
        if name != "volumes" and isinstance(merged.get(key), dict):  # a volume has one source
            merge_template(merged[key], item)
        else:
            merged[key] = item
    return [*merged.values()]


def _join_terms(one: Mapping[str, Any], other: Mapping[str, Any]) -> Object:
    """Return the term that holds if both do."""
    return {
        name: [*one.get(name, ()), *other.get(name, ())]
        for name in ("matchExpressions", "matchFields")
        if name in one or name in other
    }


def normalize_path(path: str) -> str:
    """Return the path at which a container has a mount of this path: without `.`, `..` and repeated slashes."""
    return "/" + posixpath.normpath(f"/{path}").lstrip("/")


def _get_key(item: object, field: str) -> str:
    key = item.get(field) if isinstance(item, Mapping) else None
    if not isinstance(key, str):
        return ""
    return normalize_path(key) if field == "mountPath" else key
