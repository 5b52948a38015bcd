"""Settings of the cluster: the application master's container, Docker images, Hadoop's configuration files."""

from __future__ import annotations

from pathlib import Path

from tony.config.legacy.draft_job import DraftJob
from tony.config.legacy.task_types import LegacyTaskTypes
from tony.config.table.value_format import format_name

_YARN = ("scheduler", "yarn")
_IMAGE = "tony.docker.containers.image"
_CONF = ("tony.application.hdfs-conf-path", "tony.application.yarn-conf-path")
#: A folder with one of these is a Hadoop configuration folder.
_SITE_FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml")


def translate(draft: DraftJob, types: LegacyTaskTypes, cwd: Path) -> None:
    """Add the settings to the draft."""
    _am_container(draft, types)
    _docker(draft, types)
    _configuration(draft, cwd)


def _put_text(draft: DraftJob, place: tuple[str, ...], key: str) -> str | None:
    """Copy a text if it is set, and return it."""
    text = draft.read_text(key)
    if text:
        draft.put(place, text, draft.origin(key))
    return text


def _am_container(draft: DraftJob, types: LegacyTaskTypes) -> None:
    """Set the application master's container; if it would run the program itself, set the role instead."""
    label = ("roles", types.am_role, "node_label") if types.am_role else (*_YARN, "am_node_label")
    _put_text(draft, label, "tony.am.node-label")
    if types.am_role:
        return
    if memory := draft.read_size("tony.am.memory"):
        draft.put((*_YARN, "am_memory"), memory, draft.origin("tony.am.memory"))
    if draft.settings.get("tony.am.vcores"):
        draft.put((*_YARN, "am_vcores"), draft.read_integer("tony.am.vcores", 1), draft.origin("tony.am.vcores"))


def _docker(draft: DraftJob, types: LegacyTaskTypes) -> None:
    keys = [value for value in draft.settings if value.key.startswith("tony.docker.")]
    if not draft.read_truth("tony.docker.enabled"):
        for value in keys:
            if value.key != "tony.docker.enabled":
                draft.note(value, "it has no effect unless tony.docker.enabled is true.")
        return
    _put_text(draft, (*_YARN, "docker_mounts"), "tony.docker.containers.mount")
    am = ("roles", types.am_role, "image") if types.am_role else (*_YARN, "am_docker_image")
    images = [
        _put_text(draft, (*_YARN, "docker_image"), _IMAGE),
        *(_put_text(draft, ("roles", name, "image"), f"tony.docker.{name}.image") for name in types.instances),
        _put_text(draft, am, "tony.docker.am.image"),
    ]
    if not any(images):
        draft.note_key(
            "tony.docker.enabled", f"no image is set ({_IMAGE}), so nothing runs in Docker, as in LinkedIn TonY."
        )
    for value in keys:
        name = value.key.removeprefix("tony.docker.").removesuffix(".image")
        if value.key.endswith(".image") and name not in (*types.instances, "am", "containers"):
            draft.note(value, f"type {format_name(name)} has no tasks.")


def _configuration(draft: DraftJob, cwd: Path) -> None:
    """Set the folder of Hadoop's configuration files: tony reads a whole folder."""
    named = [value for key in _CONF if (value := draft.settings.get(key)) and value.text]
    folders = {(cwd / value.text.removeprefix("file://")).parent: value for value in reversed(named)}
    if len(folders) > 1:
        message = "this file and tony.application.hdfs-conf-path are in different folders. Put both into one."
        draft.add_error(named[-1], message)
        return
    for folder, value in folders.items():
        if any((folder / name).is_file() for name in _SITE_FILES):
            draft.put((*_YARN, "conf"), str(folder), draft.origin(value.key))
        else:
            files = ", ".join(_SITE_FILES)
            draft.add_error(value, f"{format_name(str(folder))} has none of {files}: name the files of the cluster.")
