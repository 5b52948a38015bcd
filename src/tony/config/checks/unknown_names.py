"""Parameters and roles that only the command line, a variable or a call names: probably misspelled."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tony.config.checks.cross_checks import texts_with_placeholders
from tony.config.checks.hints import Note
from tony.config.files.layers import Branch
from tony.config.name_suggestions import find_closest_match, suggest_names
from tony.config.table.converted_settings import ValueTable
from tony.model.job_spec import JobSpec
from tony.model.placeholders import find_parameters


def check_names(spec: JobSpec, value_table: ValueTable, file: Branch, given: Collection[str]) -> None:
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
            value_table.add_error(("params", name), f"the job has no such parameter; {hint}")
    roles = _names_below(file, "roles")
    for name in value_table.roles:
        like = (
            None
            if name in roles or ("roles", name, "command") in value_table.found
            else find_closest_match(name, roles)
        )
        if like is not None:
            value_table.add_error(
                ("roles", name), f"unknown role; did you mean `{like}`? A new role needs its own command."
            )


def find_unused_parameters(spec: JobSpec, value_table: ValueTable) -> Iterator[Note]:
    """Yield a note for each parameter that no command and no variable uses."""
    used = find_parameters(text for _, text, _ in texts_with_placeholders(spec))
    for name in spec.params:
        if name not in used:
            message = f"no command or variable uses {{params.{name}}}, so this has no effect."
            yield Note(key=f"params.{name}", message=message, source=value_table.find_source(("params", name)))


def _names_below(tree: Branch, table: str) -> Collection[str]:
    branch = tree.children.get(table)
    return branch.children.keys() if isinstance(branch, Branch) else ()
