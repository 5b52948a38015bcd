"""Random jobs without errors, and a writer of job files for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import tomlkit
from hypothesis import strategies as st

from tony.config.table.converted_settings import RESERVED_ENV
from tony.model.job_spec import (
    MIB,
    NOTICES,
    Command,
    JobSpec,
    MemoryGrowth,
    Notify,
    Resources,
    Role,
    TimeoutAfter,
    Timeouts,
)
from tony.model.masking import is_secret
from tony.model.placeholders import check
from tony.model.setting_choices import (
    AfterCondition,
    DistributedMode,
    FailurePolicy,
    OnInterrupt,
    OnTimeout,
    ReservedPort,
    RestartScope,
    RoleKind,
    StopOn,
    TlsMode,
)
from tony.units import format_exact_duration, format_exact_size

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20).filter(
    lambda text: not check(text, ())
)
words = texts.filter(lambda text: text.strip() != "")
names = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp", "Cf", "Co", "Cn"]), min_size=1, max_size=30
)
people = st.from_regex(r"\*|@?[a-z][a-z0-9._-]{0,10}", fullmatch=True)
role_names = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,10}", fullmatch=True)
variables = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="=\0"), min_size=1, max_size=8).filter(
        lambda name: name not in RESERVED_ENV
    ),
    texts,
    max_size=3,
)
container_variables = st.dictionaries(
    st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True).filter(
        lambda name: name not in RESERVED_ENV and not is_secret(name)
    ),
    texts,
    max_size=3,
)
#: Not in upper case: variables of containers cannot be secret.
secret_names = st.from_regex(r"[a-z][a-z0-9._-]{0,8}", fullmatch=True)
params = st.dictionaries(st.from_regex(r"[A-Za-z0-9_.-]{1,10}", fullmatch=True), texts, max_size=3)
commands: st.SearchStrategy[Command] = words | st.lists(words, min_size=1, max_size=4).map(tuple)
durations = st.integers(0, 10**7).map(lambda milliseconds: milliseconds / 1000)
ports = st.tuples(st.integers(1024, 65535), st.integers(1024, 65535)).map(lambda pair: (min(pair), max(pair)))
pythons = st.sampled_from(["python3.12", "/opt/there/python"])


@st.composite
def jobs(draw: st.DrawFn) -> JobSpec:
    """A job that passes every check, of any shape; it names no files."""
    order = draw(st.lists(role_names, max_size=4, unique=True))
    groups = draw(st.dictionaries(role_names, st.lists(st.sampled_from(order or ["main"]), min_size=1), max_size=2))
    roles = {name: draw(_roles(order[:number], name, groups)) for number, name in enumerate(order)}
    if order:
        first = roles[order[0]]
        fields = {name: getattr(first, name) for name in first.__dataclass_fields__}
        roles[order[0]] = Role(**{**fields, "kind": RoleKind.TRACKED})
    roles = {name: _possible(name, role, roles) for name, role in roles.items()}
    most = draw(st.integers(0, 1_000_000))
    roles = {name: replace(role, max_restarts=draw(st.none() | st.integers(0, most))) for name, role in roles.items()}
    mode = draw(st.sampled_from(DistributedMode))
    if mode is not DistributedMode.GANG:
        roles = {name: replace(role, min_instances=None) for name, role in roles.items()}
    aside = (RoleKind.SIDECAR, RoleKind.SETUP)
    chief = any(name in ("chief", "worker") for name, role in roles.items() if role.kind not in aside)
    sidecars = any(name in ("chief", "worker") for name, role in roles.items() if role.kind is RoleKind.SIDECAR)
    return JobSpec(
        name=draw(names),
        tags=tuple(draw(st.lists(names, max_size=3, unique=True))),
        viewers=tuple(draw(st.lists(people, max_size=2))),
        editors=tuple(draw(st.lists(people, max_size=2))),
        command=draw(commands),
        python=draw(st.none() | pythons),
        env=draw(variables),
        secret=tuple(draw(st.lists(secret_names, max_size=2))),
        container_env=draw(container_variables),
        gitignore=draw(st.booleans()),
        hadoop_classpath=draw(st.booleans()),
        params=draw(params),
        groups={name: tuple(members) for name, members in groups.items()},
        roles=roles,
        max_restarts=most,
        backoff=draw(durations),
        restart_window=draw(_limits),
        no_retry_on=draw(_codes),
        min_uptime=draw(_limits),
        restart_grace=draw(st.none() | durations),
        memory_on_oom=draw(_growth),
        distributed_mode=mode,
        stop_on=draw(st.sampled_from(StopOn)) if chief and not sidecars else StopOn.ALL,
        failure_policy=draw(st.sampled_from(FailurePolicy)),
        stop_grace=draw(durations),
        orphan_grace=draw(st.none() | durations),
        am_attempts=draw(st.integers(1, 1000)),
        port_range=draw(st.none() | ports),
        heartbeat_interval=draw(st.sampled_from([0.05, 0.5, 1.0])),
        heartbeat_timeout=draw(st.sampled_from([1.5, 25.0])),
        gang_patience=draw(_limits),
        gang_wait=draw(_waits),
        shrink_after=draw(_waits),
        timeouts=Timeouts(**{name: draw(_limits) for name in Timeouts.__dataclass_fields__}),
        metrics_interval=draw(st.sampled_from([0.0, 0.5, 5.0, 60.0])),
        python_stacks=draw(st.booleans()),
        log_limit=draw(st.integers(1024, 2**50)),
        tls=draw(st.sampled_from(TlsMode)),
        notify=draw(_notify),
        on_interrupt=draw(st.sampled_from(OnInterrupt)),
        scheduler_settings=draw(st.sampled_from([{}, {"gpus": 3}, {"memory": MIB, "ledger": "/there"}])),
    )


_counts = st.integers(0, 9)
_codes = st.lists(st.integers(1, 255), max_size=3).map(tuple)
_limits = st.none() | durations.filter(bool)
_notify = st.just(Notify()) | st.builds(
    Notify,
    webhook=st.sampled_from(["https://hooks.example.com/T0/B1?x=1", "http://10.0.0.1:8080", "env:HOOK", "file:/k"]),
    secret=st.none() | words | st.just("env:KEY"),
    on=st.lists(st.sampled_from(NOTICES), max_size=3).map(tuple),
)
_waits = st.none() | durations
_growth = st.just(MemoryGrowth()) | st.builds(
    MemoryGrowth, factor=st.sampled_from([1.1, 1.5, 2.0, 10.0]), up_to=st.integers(MIB, 2**50)
)
_POD_SETTINGS = {
    "tolerations": ("gpu",),
    "template": {"spec": {"tolerations": [{"key": "a", "tolerationSeconds": 3}], "affinity": {}}},
}
_role_settings: st.SearchStrategy[Mapping[str, Any]] = st.fixed_dictionaries(
    {}, optional={"placement": texts, "placement_tags": st.lists(texts, max_size=2).map(tuple), "mounts": texts}
).map(lambda own: {"yarn": own} if own else {"kubernetes": _POD_SETTINGS})
_marks = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=20)


def _possible(name: str, role: Role, roles: dict[str, Role]) -> Role:
    """The same role without impossible `after` conditions, and with exports of its own names."""
    setup = [other for other, that in roles.items() if that.kind is RoleKind.SETUP]
    if role.kind is RoleKind.SETUP:
        after = {other: condition for other, condition in role.after.items() if other in setup}
    else:
        after = {o: AfterCondition.SUCCEEDED if o in setup else condition for o, condition in role.after.items()}
    exports = {f"{variable}@{name}": mark for variable, mark in role.exports.items()}
    limit = None if role.kind is RoleKind.SETUP else role.timeout_after
    alone = role.restart is RestartScope.TASK and not role.stop_on_failure
    scope = RestartScope.TASK if alone else RestartScope.SESSION
    least = None if role.kind in (RoleKind.SETUP, RoleKind.SIDECAR) else role.min_instances
    return replace(role, after=after, exports=exports, timeout_after=limit, restart=scope, min_instances=least)


@st.composite
def _roles(draw: st.DrawFn, before: list[str], name: str, groups: dict[str, list[str]]) -> Role:
    after = draw(st.dictionaries(st.sampled_from(before), st.sampled_from(AfterCondition))) if before else {}
    possible = [group for group, members in groups.items() if name not in members]
    limit = None
    if possible and draw(st.sampled_from([True, False])):
        group = draw(st.sampled_from(possible))
        limit = TimeoutAfter(group=group, limit=draw(durations), on_timeout=draw(st.sampled_from(OnTimeout)))
    instances = draw(st.integers(1, 10_000))
    memory = draw(st.integers(MIB, 2**50))
    return Role(
        instances=instances,
        min_instances=draw(st.none() | st.integers(1, instances - 1)) if instances > 1 else None,
        command=draw(st.none() | commands),
        kind=draw(st.sampled_from(RoleKind)),
        resources=Resources(
            memory=memory,
            vcores=draw(st.integers(1, 64)),
            gpus=draw(st.integers(0, 8)),
            others=draw(st.dictionaries(st.sampled_from(["yarn.io/fpga", "licence", "a.org/tape-drive"]), _counts)),
        ),
        env=draw(variables),
        python=draw(st.none() | pythons),
        after=after,
        stop_on_failure=draw(st.sampled_from([True, False])),
        restart=draw(st.sampled_from(RestartScope)),
        timeout_after=limit,
        stop_grace=draw(st.none() | durations),
        no_retry_on=draw(st.none() | _codes),
        restart_grace=draw(st.none() | durations),
        memory_on_oom=draw(st.none() | st.builds(MemoryGrowth, up_to=st.integers(memory + 1, 2**51))),
        port_range=draw(st.none() | ports),
        port=draw(st.sampled_from(ReservedPort)),
        procs_per_task=draw(st.integers(1, 1024)),
        node_label=draw(st.none() | words),
        image=draw(st.none() | words),
        spread=draw(st.booleans()),
        scheduler_settings=draw(_role_settings),
        progress_pattern=draw(
            st.none() | st.sampled_from([r"(?P<step>\d+)", "Epoch (?P<step>[0-9]+)/(?P<total>[0-9]+)"])
        ),
        progress_summaries=draw(st.none() | st.sampled_from(["logs", "runs/{index}", "/data/logs"])),
        exports=draw(st.dictionaries(st.from_regex(r"[A-Z_]{1,5}", fullmatch=True), _marks, max_size=2)),
    )


def as_toml(spec: JobSpec) -> str:
    """A job file that says all of a job."""
    return tomlkit.dumps(as_tables(spec))


def as_tables(spec: JobSpec) -> dict[str, Any]:
    """A job as the nested tables of a job file, every value written out."""
    limits = {f"{name}_timeout": getattr(spec.timeouts, name) for name in Timeouts.__dataclass_fields__}
    tables = {
        **_common(spec),
        "name": spec.name,
        "tags": list(spec.tags),
        "viewers": list(spec.viewers),
        "secret": list(spec.secret),
        "editors": list(spec.editors),
        "container_env": dict(spec.container_env),
        "gitignore": spec.gitignore,
        "hadoop_classpath": spec.hadoop_classpath,
        "params": dict(spec.params),
        "groups": {name: list(members) for name, members in spec.groups.items()},
        "max_restarts": spec.max_restarts,
        "backoff": format_exact_duration(spec.backoff),
        "restart_window": "off" if spec.restart_window is None else format_exact_duration(spec.restart_window),
        "min_uptime": "off" if spec.min_uptime is None else format_exact_duration(spec.min_uptime),
        "gang_patience": "off" if spec.gang_patience is None else format_exact_duration(spec.gang_patience),
        "gang_wait": "off" if spec.gang_wait is None else format_exact_duration(spec.gang_wait),
        "shrink_after": "off" if spec.shrink_after is None else format_exact_duration(spec.shrink_after),
        "distributed_mode": spec.distributed_mode.value,
        "stop_on": spec.stop_on.value,
        "failure_policy": spec.failure_policy.value,
        **({} if spec.orphan_grace is None else {"orphan_grace": format_exact_duration(spec.orphan_grace)}),
        "am_attempts": spec.am_attempts,
        "heartbeat_interval": format_exact_duration(spec.heartbeat_interval),
        "heartbeat_timeout": format_exact_duration(spec.heartbeat_timeout),
        **{name: "off" if limit is None else format_exact_duration(limit) for name, limit in limits.items()},
        "metrics_interval": format_exact_duration(spec.metrics_interval),
        "python_stacks": spec.python_stacks,
        "log_limit": format_exact_size(spec.log_limit),
        "tls": spec.tls.value,
        **({} if spec.notify.webhook is None else {"notify": _notices(spec.notify)}),
        "on_interrupt": spec.on_interrupt.value,
        "scheduler": {"name": spec.scheduler, spec.scheduler: _scheduler(spec)},
        "roles": {name: _role(role) for name, role in spec.roles.items()},
    }
    return {name: value for name, value in tables.items() if value is not None}


def _notices(notify: Notify) -> dict[str, Any]:
    values = {"webhook": notify.webhook, "secret": notify.secret, "on": list(notify.on)}
    return {name: value for name, value in values.items() if value is not None}


def _scheduler(spec: JobSpec) -> dict[str, Any]:
    return {
        name: format_exact_size(value) if name == "memory" and isinstance(value, int) else value
        for name, value in spec.scheduler_settings.items()
    }


def _common(owner: JobSpec | Role) -> dict[str, Any]:
    command = list(owner.command) if isinstance(owner.command, tuple) else owner.command
    grace, restart_grace = owner.stop_grace, owner.restart_grace
    growth = owner.memory_on_oom
    return {
        "command": command,
        "python": owner.python,
        "memory_on_oom": {"factor": growth.factor, "up_to": format_exact_size(growth.up_to)}
        if growth and growth.up_to is not None
        else None,
        "env": dict(owner.env),
        "stop_grace": None if grace is None else format_exact_duration(grace),
        "restart_grace": None if restart_grace is None else format_exact_duration(restart_grace),
        "no_retry_on": None if owner.no_retry_on is None else list(owner.no_retry_on),
        "port_range": owner.port_range and list(owner.port_range),
    }


def _role(role: Role) -> dict[str, Any]:
    after: dict[str, list[str]] = {}
    for name, condition in role.after.items():
        after.setdefault(condition.value, []).append(name)
    limit = role.timeout_after
    tables = {
        **_common(role),
        "instances": role.instances
        if role.min_instances is None
        else {"min": role.min_instances, "max": role.instances},
        "kind": role.kind.value,
        "memory": format_exact_size(role.resources.memory),
        "vcores": role.resources.vcores,
        "gpus": role.resources.gpus,
        "resources": dict(role.resources.others),
        "after": after or None,
        "stop_on_failure": role.stop_on_failure,
        "restart": role.restart.value,
        "port": role.port.value,
        "procs_per_task": role.procs_per_task,
        "node_label": role.node_label,
        "image": role.image,
        "spread": role.spread,
        "max_restarts": role.max_restarts,
        **{
            scheduler: {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
            for scheduler, settings in role.scheduler_settings.items()
        },
        "exports": dict(role.exports),
        "progress_pattern": role.progress_pattern,
        "progress_summaries": role.progress_summaries,
        "timeout_after": limit
        and {"group": limit.group, "limit": format_exact_duration(limit.limit), "on_timeout": limit.on_timeout.value},
    }
    return {name: value for name, value in tables.items() if value is not None}
