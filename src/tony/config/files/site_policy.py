"""Site files of administrators: defaults for every job, final settings, and limits.

    # /etc/tony/tony.toml
    max_restarts = 1                              # a default, as in a job file
    tls = "always"
    final = ["tls", "roles.*.gpus"]               # jobs cannot change these; stop_grace covers a role's stop_grace
    [limits]
    total_instances = 100                         # of one job
    total_gpus = 8
    total_memory = "1t"

`/etc/tony/tony.toml` comes first, `~/.config/tony/tony.toml` after it: the defaults of the second override those of the
first, but not its finals and limits. The client checks them, and the application master checks them again: standard
library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tony.config.files.call_settings import from_spec
from tony.config.files.file_reader import FileRejectedError, read_layer
from tony.config.files.site_file_paths import is_absent
from tony.config.table.converted_settings import ValueTable, format_value, read
from tony.config.table.layers import Layer, format_key, leaves, merge
from tony.config.table.schema_tree import find, find_setting
from tony.config.table.settings_table import JOB_ONLY, SETTINGS, Key, Kind, Part, Setting
from tony.config.table.value_conversion import InvalidValueError, convert
from tony.config.table.value_format import format_as_toml, format_canonical
from tony.errors import Problem
from tony.model.job_spec import JobSpec, Role
from tony.name_suggestions import describe_unknown, suggest_names
from tony.units import format_exact_size

#: The settings of `[limits]`: totals of one job.
LIMITS = tuple(
    Setting(key=f"limits.{name}", kind=kind, part=Part.AM, meaning=meaning, minimum=0)
    for name, kind, meaning in (
        ("total_instances", Kind.INTEGER, "Maximum tasks of one job."),
        ("total_gpus", Kind.INTEGER, "Maximum GPUs of one job, over all its tasks."),
        ("total_memory", Kind.SIZE, "Maximum memory of one job, over all its tasks."),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One site file.

    Attributes:
        layer: its defaults, without `final` and `limits`.
        finals: key, where `*` stands for any role -> where it was made final.
        limits: name -> the maximum, and where it was set.
    """

    layer: Layer
    finals: Mapping[Key, str]
    limits: Mapping[str, tuple[int, str]]


def read_sites(paths: Iterable[Path]) -> tuple[list[Site], list[Problem]]:
    """Read the site files that exist, in their order; return them and their errors."""
    sites: list[Site] = []
    problems: list[Problem] = []
    for path in paths:
        if is_absent(path):
            continue
        try:
            layer = read_layer(path, str(path), path.parent)
        except FileRejectedError as refused:
            problems.append(refused.problem)
        else:
            sites.append(_site(layer, problems))
    return sites, problems


def _site(layer: Layer, problems: list[Problem]) -> Site:
    values = dict(layer.values)
    finals = _finals(values.pop("final", []), layer, problems)
    limits = _limits(values.pop("limits", {}), layer, problems)
    for name in sorted(JOB_ONLY & values.keys()):
        del values[name]
        message = "a site file cannot set this; set it in a job file."
        problems.append(Problem(key=name, message=message, source=layer.where((name,))))
    return Site(layer=replace(layer, values=values), finals=finals, limits=limits)


def _finals(given: Any, layer: Layer, problems: list[Problem]) -> dict[Key, str]:
    if not isinstance(given, list):
        message = 'expected a list of keys: final = ["tls", "scheduler.name"].'
        problems.append(
            Problem(key="final", message=message, value=format_as_toml(given), source=layer.where(("final",)))
        )
        return {}
    finals: dict[Key, str] = {}
    for number, item in enumerate(given):
        where = layer.where(("final", str(number)))
        key = tuple(item.replace("<role>", "*").split(".")) if isinstance(item, str) else ()
        error = _explain_not_final(key)
        if error:
            problems.append(Problem(key=f"final[{number}]", message=error, value=format_as_toml(item), source=where))
        else:
            finals[key] = where
    return finals


def _explain_not_final(key: Key) -> str | None:
    if not key or find(key) is None:
        known = [setting.key.replace("<role>", "*") for setting in SETTINGS]
        otherwise = "`tony settings --all` lists the known ones."
        return f"unknown setting; {suggest_names('.'.join(key), known, otherwise)}"
    if key[0] in JOB_ONLY and (key[0] != "roles" or len(key) < 3):
        return "it is different for every job, so it cannot be final."
    return None


def _limits(given: Any, layer: Layer, problems: list[Problem]) -> dict[str, tuple[int, str]]:
    if not isinstance(given, Mapping):
        message = "expected a table: write [limits] and below it total_gpus = 8."
        problems.append(
            Problem(key="limits", message=message, value=format_as_toml(given), source=layer.where(("limits",)))
        )
        return {}
    known = {setting.path[-1]: setting for setting in LIMITS}
    limits: dict[str, tuple[int, str]] = {}
    for name, value in given.items():
        where = layer.where(("limits", name))
        try:
            if name not in known:
                raise ValueError(describe_unknown("limit", name, known))
            limits[name] = (convert(known[name], value, layer.base), where)
        except ValueError as error:
            key = format_key(("limits", name))
            problems.append(Problem(key=key, message=str(error), value=format_as_toml(value), source=where))
    return limits


# --- limits -----------------------------------------------------------------------------------------------------------


def check_limits(spec: JobSpec, sites: Sequence[Site], source: str | None) -> list[Problem]:
    """Return where a job exceeds a limit; the strictest site file counts.

    Args:
        source: where the job's roles were set.
    """
    problems: list[Problem] = []
    for name, of_task, of_job, show in _TOTALS:
        stated = [site.limits[name] for site in sites if name in site.limits]
        if not stated:
            continue
        most, where = min(stated, key=lambda limit: limit[0])
        shares = [(role, value.instances, of_task(value)) for role, value in spec.effective_roles.items()]
        total = sum(instances * each for _, instances, each in shares)
        if total > most:
            parts = [f"{role} {instances} × {show(each)}" for role, instances, each in shares if each]
            arithmetic = " + ".join([*parts[:6], "..."] if len(parts) > 6 else parts)
            message = (
                f"the job requests {of_job(total)} in total ({arithmetic}), and this site allows {show(most)} "
                f"({name}, {where}). Request less."
            )
            problems.append(Problem(key="roles", message=message, source=source))
    return problems


#: Name of the limit, amount per task, format of the total, format of a number.
_TOTALS: tuple[tuple[str, Callable[[Role], int], Callable[[int], str], Callable[[int], str]], ...] = (
    ("total_instances", lambda role: 1, lambda total: f"{total} task{'s' * (total != 1)}", str),
    ("total_gpus", lambda role: role.resources.gpus, lambda total: f"{total} GPU{'s' * (total != 1)}", str),
    (
        "total_memory",
        lambda role: role.resources.memory,
        lambda total: f"{format_exact_size(total)} of memory",
        format_exact_size,
    ),
)


# --- finals -----------------------------------------------------------------------------------------------------------


def check_finals(sites: Sequence[Site], others: Sequence[Layer]) -> list[Problem]:
    """Return each attempt to change a final setting.

    Args:
        others: the layers above all sites, weakest first.
    """
    problems: list[Problem] = []
    for number, site in enumerate(sites):
        if site.finals:
            stated = read(merge(site.layer for site in sites[: number + 1]))
            for layer in [*(above.layer for above in sites[number + 1 :]), *others]:
                problems += _attempts(site, stated, layer)
    return problems


def _attempts(site: Site, stated: ValueTable, layer: Layer) -> Iterable[Problem]:
    for key, raw in leaves(layer.values, is_value=_is_table_setting):
        for pattern, where in site.finals.items():
            own = _find_covered_key(pattern, key)
            if own is None:
                continue
            expected, place = _find_expected_value(stated, own, where)
            if not _is_value(key, raw, layer, expected):
                yield Problem(
                    key=format_key(key),
                    value=format_value(key, raw),
                    source=layer.where(key),
                    message=f"it is final on this site{_format_value(own, expected)} ({place}). Remove it here.",
                )
            break


def _is_table_setting(key: Key) -> bool:
    setting = find_setting(key)
    return setting is not None and setting.kind is Kind.TABLE


def _find_covered_key(pattern: Key, key: Key) -> Key | None:
    """Return the final key that covers `key`; None if the pattern does not. A role's own value is covered, too."""
    if _matches(pattern, key):
        return key
    if key[0] == "roles" and len(key) > 2 and pattern[0] != "roles" and _matches(pattern, key[2:]):
        return key[2:]
    return None


def _matches(pattern: Key, key: Key) -> bool:
    return len(key) >= len(pattern) and all(p in ("*", part) for p, part in zip(pattern, key, strict=False))


def _find_expected_value(stated: ValueTable, key: Key, where: str) -> tuple[Any, str]:
    """Return the value of a final setting, and where it was set."""
    if key in stated.found:
        found = stated.found[key]
        return found.value, found.layer.where(key)
    setting = find_setting(key)
    return (setting.default if setting else None), where


def _is_value(key: Key, raw: Any, layer: Layer, expected: Any) -> bool:
    """Return True if a value is the expected one; also for unknown keys and invalid values, reported elsewhere."""
    setting = find_setting(key)
    try:
        return setting is None or bool(convert(setting, raw, layer.base) == expected)
    except InvalidValueError:
        return True


def _format_value(key: Key, expected: Any) -> str:
    setting = find_setting(key)
    if expected is None or setting is None or format_value(key, "") == "***":
        return ""
    text = format_canonical(setting, expected)
    return f" at {text}" if text else ""


# --- the application master -------------------------------------------------------------------------------------------


def check_again(spec: JobSpec, site_files: Iterable[Path]) -> list[Problem]:
    """Check a resolved job against the site files of this machine: finals and limits."""
    sites, problems = read_sites(site_files)
    layer = Layer(values=from_spec(spec, with_defaults=True), where=lambda key: "job", base=Path("/"))
    problems += check_finals(sites, [layer])
    problems += _find_missing_finals(sites, read(merge([layer])))
    return problems + check_limits(spec, sites, "job")


def _find_missing_finals(sites: Sequence[Site], job: ValueTable) -> Iterable[Problem]:
    """Yield final settings that the job lacks because it was resolved without this site file."""
    scheduler = job.value(("scheduler", "name"))
    for number, site in enumerate(sites):
        for key, found in read(merge(site.layer for site in sites[: number + 1])).found.items():
            is_ours = key[0] != "scheduler" or key[1] in ("name", scheduler)
            is_final = any(_matches(pattern, key) for pattern in site.finals)
            if is_final and is_ours and found.value is not None and key not in job.found:
                where = found.layer.where(key)
                yield Problem(key=format_key(key), message=f"it is final on this site ({where}), and the job lacks it.")
