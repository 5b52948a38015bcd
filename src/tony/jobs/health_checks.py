"""Checks of the environment that jobs are submitted from: this machine, and what each scheduler uses."""

from __future__ import annotations

import os
import platform
import resource
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from tony.errors import TonyError, get_first_line
from tony.jobs.state_dir import VARIABLE, prepare
from tony.linux.disk_errors import measure_free_bytes
from tony.linux.inotify import Inotify
from tony.model.health_check import Health, HealthCheck
from tony.model.state_directory import Home
from tony.schedulers import registry
from tony.units import format_size

#: Free bytes of the state directory below which jobs soon fail, and below which they may.
_MIN_FREE_BYTES = 100 * 1024**2
_LOW_FREE_BYTES = 2 * 1024**3
#: Open files of one process: a job of some hundred tasks needs about as many.
_MIN_OPEN_FILES = 1024


def check_health(home: Home) -> Iterator[HealthCheck]:
    """Yield the checks, one after the other: some take seconds."""
    yield HealthCheck(
        name="Python", state=Health.OK, detail=f"{platform.python_version()} ({sys.executable})", required=True
    )
    yield _check_pidfd()
    yield _check_inotify()
    yield _check_open_files()
    yield _check_ports()
    yield from _check_state_directory(home)
    for name in registry.names():
        yield from _check_scheduler(name, home)


def _check_pidfd() -> HealthCheck:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (OSError, AttributeError) as error:
        return HealthCheck(
            name="pidfd",
            state=Health.MISSING,
            detail=f"pidfd_open: {error}",
            cost="the end of processes cannot be awaited, so no job runs on this machine",
            remedy="use Linux 5.3 or later; in a container allow the system call pidfd_open (seccomp)",
            required=True,
        )
    return HealthCheck(name="pidfd", state=Health.OK, detail=f"Linux {platform.release()}", required=True)


def _check_inotify() -> HealthCheck:
    try:
        Inotify().close()
    except OSError as error:
        detail = f"no instance can be created: {error.strerror}"
    else:
        return HealthCheck(name="inotify", state=Health.OK, detail="changes of files are announced")
    return HealthCheck(
        name="inotify",
        state=Health.MISSING,
        detail=detail,
        cost="output and status are polled, so they appear later",
        remedy="raise fs.inotify.max_user_instances",
    )


def _check_open_files() -> HealthCheck:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if limit == resource.RLIM_INFINITY or limit >= _MIN_OPEN_FILES:
        return HealthCheck(name="open files", state=Health.OK, detail="no limit" if limit < 0 else f"at most {limit}")
    return HealthCheck(
        name="open files",
        state=Health.MISSING,
        detail=f"at most {limit} in one process (ulimit -Hn)",
        cost="jobs of many tasks are refused",
        remedy=f"raise the hard limit to {_MIN_OPEN_FILES} or more",
    )


def _check_ports() -> HealthCheck:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
    except OSError as error:
        return HealthCheck(
            name="ports",
            state=Health.MISSING,
            detail=f"no port can be reserved: {error.strerror}",
            cost="tasks get no ports, so no job with a framework runs on this machine",
            remedy="see net.ipv4.ip_local_port_range, and what uses the ports: ss -tan",
            required=True,
        )
    return HealthCheck(name="ports", state=Health.OK, detail=f"free, such as {port}", required=True)


def _check_state_directory(home: Home) -> Iterator[HealthCheck]:
    place = str(home.path)
    problem = _explain_unusable(home)
    if problem:
        yield HealthCheck(
            name="state directory",
            state=Health.MISSING,
            detail=problem,
            cost="no job can be submitted",
            remedy=f"set {VARIABLE} to a folder of yours",
            required=True,
        )
        return
    free = measure_free_bytes(_find_existing(home.path))
    yield HealthCheck(name="state directory", state=Health.OK, detail=place, required=True)
    detail = f"{format_size(free)} free in {place}"
    if free >= _LOW_FREE_BYTES:
        yield HealthCheck(name="disk space", state=Health.OK, detail=detail)
        return
    yield HealthCheck(
        name="disk space",
        state=Health.MISSING,
        detail=detail,
        cost="jobs fail when output, event logs or staged files fill the disk",
        remedy=f"delete old jobs: tony purge --older-than 30d; or set {VARIABLE} to another disk",
        required=free < _MIN_FREE_BYTES,
    )


def _explain_unusable(home: Home) -> str:
    """Return why jobs cannot be submitted with a state directory; empty if they can. Creates none."""
    existing = _find_existing(home.path)
    if existing != home.path:
        return (
            "" if os.access(existing, os.W_OK | os.X_OK) else f"cannot create {home.path}: {existing} is not writable"
        )
    try:
        prepare(home)
    except TonyError as error:
        return get_first_line(error)
    return ""


def _find_existing(path: Path) -> Path:
    """Return the nearest folder of a path that exists."""
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def _check_scheduler(name: str, home: Home) -> Iterator[HealthCheck]:
    try:
        yield from registry.load(name).create_submitter(home).check_health()
    except TonyError as error:
        yield HealthCheck(
            name=f"scheduler {name}",
            state=Health.UNKNOWN,
            detail=get_first_line(error),
            cost=f"jobs with --scheduler {name} may fail",
            remedy=f"submit one: tony run --scheduler {name} -- true",
        )
