"""What concerns the cluster: queue, labels, Docker, the application master's container."""

from __future__ import annotations

from pathlib import Path

from tony.config.legacy import value_parsing
from tony.config.legacy.draft_job import DraftJob, LegacyOrigin
from tony.config.legacy.settings import LegacyValue
from tony.config.legacy.task_types import LegacyTaskTypes
from tony.config.value_format import name as shown

_YARN = ("scheduler", "yarn")
_TEXTS = {
    "tony.application.type": "application_type",
    "tony.yarn.queue": "queue",
    "tony.application.node-label": "node_label",
    "tony.application.placement-spec": "placement",
}
_LISTS = {"tony.application.tags": "tags", "tony.other.namenodes": "file_systems"}
_IMAGE = "tony.docker.containers.image"
_CONF = ("tony.application.hdfs-conf-path", "tony.application.yarn-conf-path")
#: One of these makes a folder one of Hadoop's settings.
_SITE_FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml")


def translate(draft: DraftJob, types: LegacyTaskTypes, cwd: Path) -> None:
    """Puts all of it into the draft."""
    for key, ours in _TEXTS.items():
        if found := value_parsing.text(draft, key):
            draft.put((*_YARN, ours), found, _value(draft, key))
    for key, ours in _LISTS.items():
        if parts := value_parsing.words(draft, key):
            draft.put((*_YARN, ours), ",".join(parts), _value(draft, key))
    _master(draft, types)
    _docker(draft, types)
    _configuration(draft, cwd)


def _value(draft: DraftJob, key: str) -> LegacyValue:
    value = draft.settings.get(key)
    assert value is not None
    return value


def _master(draft: DraftJob, types: LegacyTaskTypes) -> None:
    """The application master's container; where it would run a program itself, that is what was meant."""
    if label := value_parsing.text(draft, "tony.am.node-label"):
        place = ("roles", types.of_master, "node_label") if types.of_master else (*_YARN, "am_node_label")
        draft.put(place, label, _value(draft, "tony.am.node-label"))
    if types.of_master:
        return
    if memory := value_parsing.size_text(draft, "tony.am.memory"):
        draft.put((*_YARN, "am_memory"), memory, _value(draft, "tony.am.memory"))
    if value := draft.settings.get("tony.am.vcores"):
        draft.put((*_YARN, "am_vcores"), value_parsing.integer(draft, value.key, 1), value)


# --- Docker -----------------------------------------------------------------------------------------------------------


def _docker(draft: DraftJob, types: LegacyTaskTypes) -> None:
    keys = [value for value in draft.settings if value.key.startswith("tony.docker.")]
    if not value_parsing.truth(draft, "tony.docker.enabled"):
        for value in keys:
            if value.key != "tony.docker.enabled":
                draft.note(value, "it has no effect while tony.docker.enabled is not true.")
        return
    mounts = "tony.docker.containers.mount"
    common = value_parsing.text(draft, _IMAGE)
    if common:
        draft.put((*_YARN, "docker_image"), common, _value(draft, _IMAGE))
    if found := value_parsing.text(draft, mounts):
        draft.put((*_YARN, "docker_mounts"), found, _value(draft, mounts))
    own = {name: image for name in types.instances if (image := value_parsing.text(draft, f"tony.docker.{name}.image"))}
    for name, image in own.items():
        draft.put(("roles", name, "image"), image, _value(draft, f"tony.docker.{name}.image"))
    master = value_parsing.text(draft, "tony.docker.am.image")
    if master:
        place = ("roles", types.of_master, "image") if types.of_master else (*_YARN, "am_docker_image")
        draft.put(place, master, _value(draft, "tony.docker.am.image"))
    if not (common or own or master):
        enabled = _value(draft, "tony.docker.enabled")
        draft.note(enabled, f"no image is named ({_IMAGE}), so nothing runs in Docker, as in the original.")
    for value in keys:
        name = value.key.removeprefix("tony.docker.").removesuffix(".image")
        if value.key.endswith(".image") and name not in (*types.instances, "am", "containers"):
            draft.note(value, f"type {shown(name)} has no tasks.")


# --- Hadoop's configuration -------------------------------------------------------------------------------------------


def _configuration(draft: DraftJob, cwd: Path) -> None:
    """The folder of the files that are named: what our client reads is a folder."""
    named = [value for key in _CONF if (value := draft.settings.get(key)) and value.text]
    folders = {value.key: (cwd / value.text.removeprefix("file://")).parent for value in named}
    if not named:
        return
    if len(set(folders.values())) > 1:
        message = "this and tony.application.hdfs-conf-path lie in two folders. Put both into one."
        draft.blame(named[-1], message)
        return
    folder = folders[named[0].key]
    if not any((folder / name).is_file() for name in _SITE_FILES):
        files = ", ".join(_SITE_FILES)
        draft.blame(named[0], f"{shown(str(folder))} holds none of {files}: name the cluster's own files.")
        return
    draft.put((*_YARN, "conf"), str(folder), LegacyOrigin(named[0].place, named[0].key))
