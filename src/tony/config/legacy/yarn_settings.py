"""Settings of the cluster: queue, labels, Docker, the application master's container."""

from __future__ import annotations

from pathlib import Path

from tony.config.legacy import value_parsing
from tony.config.legacy.draft_job import DraftJob, LegacyOrigin
from tony.config.legacy.settings_sources import LegacyValue
from tony.config.legacy.task_types import LegacyTaskTypes
from tony.config.table.value_format import format_name

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
#: A folder with one of these is a Hadoop configuration folder.
_SITE_FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml")


def translate(draft: DraftJob, types: LegacyTaskTypes, cwd: Path) -> None:
    """Add the settings to the draft."""
    for key, name in _TEXTS.items():
        if found := value_parsing.parse_text(draft, key):
            draft.put((*_YARN, name), found, _value(draft, key))
    for key, name in _LISTS.items():
        if parts := value_parsing.parse_words(draft, key):
            draft.put((*_YARN, name), ",".join(parts), _value(draft, key))
    _am_container(draft, types)
    _docker(draft, types)
    _configuration(draft, cwd)


def _value(draft: DraftJob, key: str) -> LegacyValue:
    value = draft.settings.get(key)
    assert value is not None
    return value


def _am_container(draft: DraftJob, types: LegacyTaskTypes) -> None:
    """Set the application master's container; if it would run the program itself, set the role instead."""
    if label := value_parsing.parse_text(draft, "tony.am.node-label"):
        place = ("roles", types.am_role, "node_label") if types.am_role else (*_YARN, "am_node_label")
        draft.put(place, label, _value(draft, "tony.am.node-label"))
    if types.am_role:
        return
    if memory := value_parsing.format_size(draft, "tony.am.memory"):
        draft.put((*_YARN, "am_memory"), memory, _value(draft, "tony.am.memory"))
    if value := draft.settings.get("tony.am.vcores"):
        draft.put((*_YARN, "am_vcores"), value_parsing.parse_integer(draft, value.key, 1), value)


# --- Docker -----------------------------------------------------------------------------------------------------------


def _docker(draft: DraftJob, types: LegacyTaskTypes) -> None:
    keys = [value for value in draft.settings if value.key.startswith("tony.docker.")]
    if not value_parsing.parse_truth(draft, "tony.docker.enabled"):
        for value in keys:
            if value.key != "tony.docker.enabled":
                draft.note(value, "it has no effect unless tony.docker.enabled is true.")
        return
    mounts = "tony.docker.containers.mount"
    common = value_parsing.parse_text(draft, _IMAGE)
    if common:
        draft.put((*_YARN, "docker_image"), common, _value(draft, _IMAGE))
    if found := value_parsing.parse_text(draft, mounts):
        draft.put((*_YARN, "docker_mounts"), found, _value(draft, mounts))
    own = {
        name: image
        for name in types.instances
        if (image := value_parsing.parse_text(draft, f"tony.docker.{name}.image"))
    }
    for name, image in own.items():
        draft.put(("roles", name, "image"), image, _value(draft, f"tony.docker.{name}.image"))
    am_image = value_parsing.parse_text(draft, "tony.docker.am.image")
    if am_image:
        place = ("roles", types.am_role, "image") if types.am_role else (*_YARN, "am_docker_image")
        draft.put(place, am_image, _value(draft, "tony.docker.am.image"))
    if not (common or own or am_image):
        enabled = _value(draft, "tony.docker.enabled")
        draft.note(enabled, f"no image is set ({_IMAGE}), so nothing runs in Docker, as in LinkedIn TonY.")
    for value in keys:
        name = value.key.removeprefix("tony.docker.").removesuffix(".image")
        if value.key.endswith(".image") and name not in (*types.instances, "am", "containers"):
            draft.note(value, f"type {format_name(name)} has no tasks.")


# --- Hadoop's configuration -------------------------------------------------------------------------------------------


def _configuration(draft: DraftJob, cwd: Path) -> None:
    """Set the folder of the configuration files: tony reads a whole folder."""
    named = [value for key in _CONF if (value := draft.settings.get(key)) and value.text]
    folders = {value.key: (cwd / value.text.removeprefix("file://")).parent for value in named}
    if not named:
        return
    if len(set(folders.values())) > 1:
        message = "this file and tony.application.hdfs-conf-path are in different folders. Put both into one."
        draft.add_error(named[-1], message)
        return
    folder = folders[named[0].key]
    if not any((folder / name).is_file() for name in _SITE_FILES):
        files = ", ".join(_SITE_FILES)
        draft.add_error(named[0], f"{format_name(str(folder))} has none of {files}: name the files of the cluster.")
        return
    draft.put((*_YARN, "conf"), str(folder), LegacyOrigin(named[0].place, named[0].key))
