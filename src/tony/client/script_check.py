"""Finds commands whose script is certainly not in the work folder of their tasks, before anything is staged.

Only commands that plainly start one program are read: `python3 -u train.py ...`, `./train.sh ...`. Their script comes
from `source`, or from an item of `files`: nothing else puts files into a work folder before the command starts, and
setup tasks have work folders of their own. What an image, an archive or a folder in HDFS contains is not known here, so
nothing is certain with these; a rerun takes the files that were staged then.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tony.config.load import Resolved
from tony.config.table.layers import quote
from tony.errors import Problem
from tony.model.file_entry import parse_file_entry
from tony.model.hdfs_uri import is_address
from tony.model.job_spec import Command, JobSpec
from tony.name_suggestions import find_similar_file

#: Characters with which a shell does more than start a program with these words, and those of placeholders.
_SPECIAL = re.compile(r"[;&|<>()$`\\*?\[\]{}~\n#!]")
_PLACEHOLDER = re.compile(r"\{[\w.]+\}")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*")
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
#: Options of Python without a value; others end the reading.
_PYTHON_FLAGS = re.compile(r"-[bBdEiIOPqsSuvx]+")


def find_missing_scripts(resolved: Resolved) -> Iterator[Problem]:
    """Yield an error for each command whose script is certainly missing."""
    spec = resolved.spec
    if spec.source is not None and (is_address(spec.source) or not os.path.isdir(spec.source)):
        return
    seen: set[str] = set()
    for name, role in spec.effective_roles.items():
        key = f"roles.{name}.command" if role.command is not None and spec.roles else "command"
        command = spec.command_of(name)
        script = find_script(command) if command else None
        if script is None or key in seen or role.image or spec.scheduler_settings.get("docker_image"):
            continue
        seen.add(key)
        if not _may_exist(spec, name, script):
            value = quote(command if isinstance(command, str) else shlex.join(command or ()))
            yield Problem(key=key, message=_explain(spec, script), value=value, source=resolved.sources.get(key))


def find_script(command: Command) -> str | None:
    """Return the script that a command starts, relative to the work folder; None if it is not plain which."""
    if isinstance(command, str):
        if _SPECIAL.search(_PLACEHOLDER.sub("", command)):
            return None
        try:
            words = shlex.split(command)
        except ValueError:
            return None
        while words and _ASSIGNMENT.fullmatch(words[0]):
            words = words[1:]
    else:
        words = list(command)
    if words and _PYTHON.fullmatch(words[0]):
        words = words[1:]
        while words and _PYTHON_FLAGS.fullmatch(words[0]):
            words = words[1:]
        found = words[0] if words and words[0].endswith(".py") else ""
    else:
        found = words[0] if words and words[0].startswith("./") else ""
    path = PurePosixPath(found)
    is_inside = not path.is_absolute() and ".." not in path.parts
    return str(path) if found and is_inside and not _SPECIAL.search(found) else None


def _may_exist(spec: JobSpec, role: str, script: str) -> bool:
    """Return True unless the script is certainly not in the work folder."""
    for text in (*spec.files, *spec.effective_roles[role].files):
        entry = parse_file_entry(text)
        if entry.name.split("/")[0] == script.split("/")[0] or (entry.new_name is None and is_address(entry.path)):
            return True
    if spec.source is None:
        return False
    try:
        os.lstat(os.path.join(spec.source, script))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True


def _explain(spec: JobSpec, script: str) -> str:
    if spec.source is None:
        return (
            f'source is not set, so the work folder has no {script}. Write source = "." if it is next to the job file.'
        )
    path = Path(spec.source, script)
    near = find_similar_file(path, (path.suffix,))
    meant = os.path.join(os.path.dirname(script), near) if near else ""
    return f"{script} is not in source ({spec.source})" + (f"; did you mean {meant}?" if near else ".")
