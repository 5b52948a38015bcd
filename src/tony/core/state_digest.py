"""A short digest of a job's state: what a replay must reach."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from tony.core.state import State, Task

#: Version of the state and of the decisions. Raise it whenever the same events lead to another digest: digests of
#: different versions cannot be compared.
MACHINE = 12

_ENCODER = json.JSONEncoder(sort_keys=True, check_circular=False, separators=(",", ":"))


def compute_digest(state: State) -> str:
    """Return `<version>-<SHA-256 of the state>`; the same in every process. O(number of tasks)."""
    text = _ENCODER.encode(build_fingerprint(state))
    return f"{MACHINE}-{hashlib.sha256(text.encode()).hexdigest()}"


def build_fingerprint(state: State) -> Mapping[str, object]:
    """Return the state as plain, sorted values."""
    final = state.final
    return {
        "job": state.job.value,
        "attempt": state.attempt,
        "session": [state.session, state.opening],
        "version": state.version,
        "reconciling": [state.reconciling, sorted(state.found), state.inherited],
        "queue": state.queue_reason,
        "gangs": [state.gangs, state.enlists, state.release_count],
        "living": state.living,
        "restarts": [state.restarts_charged, state.restarts_for_ports, state.restarts_free, state.restart_due],
        "charged": [[r.at, r.role, str(r.alone or "")] for r in state.restarts],
        "free": [state.free, state.started_at],
        "hosts": [state.chooses, state.hosts, sorted(state.excluded), sorted(state.avoided)],
        "failures": [[f.session, f.cause, f.task and str(f.task), f.at] for f in state.failures],
        "suspects": [[f.session, f.cause, f.task and str(f.task), f.at] for f in state.suspects],
        "tolerated": [[f.session, f.cause, f.task and str(f.task), f.at] for f in state.tolerated],
        "exports": state.exports,
        "final": final and [final.state.value, final.failure and final.failure.cause],
        "timers": sorted((str(deadline), at) for deadline, at in state.timers.all.items()),
        "roles": [
            [r.name, r.kind.value, r.ready, r.blocked, r.version, r.finished, r.started, r.unstarted, r.demand, r.early]
            for r in state.roles.values()
        ],
        "waiting": [list(role.waiting) for role in state.roles.values()],
        "left out": [sorted(role.left_out) for role in state.roles.values()],
        "memory": [role.memory for role in state.roles.values()],
        "containers": sorted(
            [c.id, c.role, str(c.task), c.intent.value, c.is_end_unconfirmed, c.memory]
            for c in state.containers.values()
        ),
        "tasks": [_encode_task(task) for task in state.tasks.values()],
    }


def _encode_task(task: Task) -> list[object]:
    end = task.container_end
    return [
        str(task.id),
        task.state.value,
        task.since,
        task.container,
        task.incarnation,
        task.address,
        task.session,
        task.try_,
        task.version,
        task.pid,
        task.container_ended_at,
        end and [end.kill, end.blameless],
        [task.external_exit is not None, task.external_exit_at],
        [task.started_at, task.retry_at, task.early, task.free, task.retried],
        task.started,
        task.is_classified,
        task.launches,
        task.memory,
        task.ended_at,
    ]
