"""The setting `volumes`: what is mounted in the pods of tasks, by mount path."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tony.errors import Problem
from tony.kube.api_client import ApiClient, Object
from tony.kube.errors import KubeApiError
from tony.kube.resources import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, SECRETS, ApiResource
from tony.name_suggestions import format_known_names, suggest_names
from tony.schedulers.kubernetes.pod_template import OWN_PATHS, normalize_path
from tony.units import parse_size

_FORMS = re.compile(
    r"(?P<kind>pvc|configMap|secret):(?P<name>[^:/]+)(?:/(?P<folder>[^:]+))?(?P<read_only>:ro)?"
    r"|emptyDir(?::(?P<size>[^:]+))?"
)
_EXPECTED = 'expected "pvc:NAME", "pvc:NAME/FOLDER:ro", "configMap:NAME", "secret:NAME" or "emptyDir:10g"'
_RESOURCES: Mapping[str, ApiResource] = {
    "pvc": PERSISTENT_VOLUME_CLAIMS,
    "configMap": CONFIG_MAPS,
    "secret": SECRETS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSource:
    """What is mounted.

    Attributes:
        kind: `pvc`, `configMap`, `secret` or `emptyDir`.
        name: of that object; empty for an emptyDir.
        folder: in it; empty for all of it.
        size: of an emptyDir, in bytes; 0 for no limit.
    """

    kind: str
    name: str = ""
    folder: str = ""
    is_read_only: bool = False
    size: int = 0

    def build(self) -> Object:
        """Return the volume of a pod, without its name."""
        match self.kind:
            case "pvc":
                return {"persistentVolumeClaim": {"claimName": self.name}}
            case "configMap":
                return {"configMap": {"name": self.name}}
            case "secret":
                return {"secret": {"secretName": self.name, "defaultMode": 0o440}}
        return {"emptyDir": {"sizeLimit": str(self.size)} if self.size else {}}


def parse_volumes(volumes: Mapping[str, object]) -> Mapping[str, VolumeSource]:
    """Parse the setting.

    Raises:
        ValueError: it is not valid; says which path is.
    """
    return {path: _parse_source(path, text) for path, text in volumes.items()}


def _parse_source(path: str, text: object) -> VolumeSource:
    normal = normalize_path(path)
    if normal == "/dev/shm":
        raise ValueError(f'nothing can be mounted at "{path}": set `shm`.')
    if not path.startswith("/") or re.fullmatch(OWN_PATHS, normal):
        raise ValueError(f'nothing can be mounted at "{path}": name an absolute path outside of /tony.')
    match = _FORMS.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f'"{path}" = "{text}": {_EXPECTED}. Volumes of other kinds: `template`.')
    try:
        size = parse_size(match["size"]) if match["size"] else 0
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return VolumeSource(
        kind=match["kind"] or "emptyDir",
        name=match["name"] or "",
        folder=match["folder"] or "",
        is_read_only=bool(match["read_only"]),
        size=size,
    )


def build_volumes(volumes: Mapping[str, VolumeSource]) -> tuple[list[Object], list[Object]]:
    """Return the volumes of a pod, and where they are mounted. What is mounted twice is one volume.

    A claim is a read-only volume if all its mounts are, as claims of ReadOnlyMany need. Two volumes of one claim, of
    which one is read-only, can leave a pod in ContainerCreating.
    """
    writable = {source.name for source in volumes.values() if source.kind == "pvc" and not source.is_read_only}
    names: dict[str, str] = {}
    built: list[Object] = []
    mounts: list[Object] = []
    for path, source in volumes.items():
        content = source.build()
        name = f"volume-{len(built)}"
        key = str(content) if source.name else path
        if key not in names:
            names[key] = name
            if source.kind == "pvc" and source.name not in writable:
                content["persistentVolumeClaim"]["readOnly"] = True
            built.append({"name": name, **content})
        mount: Object = {"name": names[key], "mountPath": path}
        mounts.append(
            mount
            | ({"subPath": source.folder} if source.folder else {})
            | ({"readOnly": True} if source.is_read_only else {})
        )
    return built, mounts


def find_missing_volumes(client: ApiClient, volumes_of: Mapping[str, Mapping[str, object]]) -> Sequence[Problem]:
    """Return the claims, ConfigMaps and Secrets that do not exist, for which pods would wait, and keys that these lack.

    Args:
        volumes_of: key of each such setting of the job -> its value.
    """
    found = [(key, source) for key, volumes in volumes_of.items() for source in parse_volumes(volumes).values()]
    objects = {(source.kind, source.name) for _, source in found if source.name}
    keys = {(kind, name): _find_keys(client, kind, name) for kind, name in objects}
    texts = {each: _describe_missing(client, _RESOURCES[each[0]], each[1]) for each in objects if keys[each] is None}
    problems = set()
    for key, source in found:
        if text := texts.get((source.kind, source.name)):
            problems.add(Problem(key=key, value=f"{source.kind}:{source.name}", message=text))
        elif (known := keys.get((source.kind, source.name))) and source.folder and source.folder not in known:
            text = f"it has no key {source.folder}; {suggest_names(source.folder, known, format_known_names(known))}"
            value = f"{source.kind}:{source.name}/{source.folder}"
            problems.add(Problem(key=key, value=value, message=text))
    return sorted(problems, key=lambda problem: (problem.key, problem.value))


def _find_keys(client: ApiClient, kind: str, name: str) -> Sequence[str] | None:
    """Return the keys of a ConfigMap or Secret; none if they cannot be read, or for a claim; None if it is missing."""
    try:
        found = client.get(_RESOURCES[kind], name)
    except KubeApiError as error:
        if error.status != 403 and not error.is_missing:
            raise
        return None if error.is_missing else ()
    return sorted({*(found.get("data") or {}), *(found.get("binaryData") or {})})


def _describe_missing(client: ApiClient, resource: ApiResource, name: str) -> str:
    text = f"namespace {client.namespace} has no {resource.kind} {name}"
    claims: Sequence[str] = ()
    with contextlib.suppress(KubeApiError):  # no right to list them
        if resource is PERSISTENT_VOLUME_CLAIMS:
            claims = [str(each["metadata"]["name"]) for each in client.list(resource, metadata_only=True).items]
    return f"{text}; {suggest_names(name, claims, format_known_names(claims) if claims else 'create it')}"
