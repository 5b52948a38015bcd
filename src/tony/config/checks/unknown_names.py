"""Names that do not exist: frameworks, schedulers, and parameters and roles named outside the job file."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tony.config.checks.cross_checks import texts_with_placeholders
from tony.config.files.layers import Branch
from tony.config.name_suggestions import find_closest_match, format_known_names, suggest_names
from tony.config.table.converted_settings import ValueTable
from tony.frameworks.registry import home_of, names
from tony.model.job_spec import JobSpec
from tony.model.placeholders import find_parameters
from tony.schedulers import registry as schedulers


def check_plugin_names(values: ValueTable) -> bool:
    """Report an unknown framework or scheduler; return True if the framework is known."""
    scheduler = values.value(("scheduler", "name"))
    if (
        scheduler is not None
        and scheduler not in schedulers.list_built_in_names()
        and scheduler not in schedulers.names()
    ):
        values.add_error(("scheduler", "name"), _describe_unknown("scheduler", scheduler, schedulers.names()))
    framework = values.value(("framework",))
    if framework is None or _has_framework(framework):
        return True
    values.add_error(("framework",), _describe_unknown("framework", framework, names()))
    return False


def check_names(spec: JobSpec, values: ValueTable, file: Branch, given: Collection[str]) -> None:
    """Report parameters that the job does not have, and new roles that resemble one of the job.

    Args:
        file: the settings of the job file and of site files.
        given: parameters of `--param`.
    """
    declared = _names_below(file, "params")
    known = {*declared, *find_parameters(text for _, text, _ in texts_with_placeholders(spec))}
    for name in given:
        if name not in known and name in spec.params:
            hint = suggest_names(name, known, "write it as {params." + name + "} in a command or variable.")
            values.add_error(("params", name), f"the job has no such parameter; {hint}")
    roles = _names_below(file, "roles")
    for name in values.roles:
        like = None if name in roles or ("roles", name, "command") in values.found else find_closest_match(name, roles)
        if like is not None:
            values.add_error(("roles", name), f"unknown role; did you mean `{like}`? A new role needs its own command.")


def _names_below(tree: Branch, table: str) -> Collection[str]:
    branch = tree.children.get(table)
    return branch.children.keys() if isinstance(branch, Branch) else ()


def _has_framework(name: str) -> bool:
    try:
        home_of(name)
    except LookupError:
        return False
    return True


def _describe_unknown(what: str, name: str, known: Sequence[str]) -> str:
    return f"unknown {what}; {suggest_names(name, known, format_known_names(known))}"
