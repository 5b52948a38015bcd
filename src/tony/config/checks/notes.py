"""Notes on settings that are not errors: settings without effect, and defaults that may surprise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tony.config.checks.cross_checks import texts_with_placeholders
from tony.config.table.converted_settings import ValueTable
from tony.config.table.layers import Layer, format_key
from tony.config.table.value_conversion import ELASTIC_EXAMPLE
from tony.model.job_spec import JobSpec
from tony.model.placeholders import find_parameters

#: Most notes that are shown in full.
_MAX_FULL_NOTES = 3
#: Most settings that are named in the short form.
_MAX_NAMES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One note.

    Attributes:
        key: the setting that it is about; empty for the whole job.
        message: a sentence.
        source: where the setting was set; None if nowhere.
    """

    key: str
    message: str
    source: str | None = None

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        return f"{self.key}{where}: {self.message}" if self.key else self.message


def summarize_notes(notes: Sequence[Note], job_file: str | None) -> tuple[str, ...]:
    """Return the notes for `submit`: a few in full, many in one sentence that says where to read them."""
    if len(notes) <= _MAX_FULL_NOTES:
        return tuple(map(str, notes))
    names = list(dict.fromkeys(note.key for note in notes if note.key))
    more = [f"{len(names) - _MAX_NAMES} more"] if len(names) > _MAX_NAMES + 1 else []
    listed = ", ".join([*(names[:_MAX_NAMES] if more else names), *more])
    # Not `validate`: it takes no LinkedIn TonY flags, without which many such jobs are incomplete.
    where = f"`tony convert {job_file} [FLAGS]` explains why" if job_file else "docs/migrating.md explains why"
    has, means = ("1 setting has", "means") if len(names) == 1 else (f"{len(names)} settings have", "mean")
    return (f"{has} no effect here or {means} something else ({listed}); {where}.",)


def find_idle_waits(spec: JobSpec, values: ValueTable, own: Sequence[Layer]) -> Iterator[Note]:
    """Yield a note for each wait that the job sets although no role is elastic."""
    if spec.elastic_roles:
        return
    for name in ("gang_wait", "shrink_after"):
        found = values.found.get((name,))
        if found and any(found.layer is layer for layer in own):
            message = f"no role is elastic (instances = {ELASTIC_EXAMPLE}), so this has no effect."
            yield Note(key=name, message=message, source=found.layer.where((name,)))


def find_idle_memory_growth(spec: JobSpec, values: ValueTable, own: Sequence[Layer]) -> Iterator[Note]:
    """Yield a note for each `memory_on_oom` that the job sets although nothing restarts."""
    if spec.max_restarts:
        return
    for key, found in values.found.items():
        if key[-2:] == ("memory_on_oom", "up_to") and any(found.layer is layer for layer in own):
            message = "nothing restarts (max_restarts = 0), so this has no effect."
            yield Note(key=format_key(key), message=message, source=found.layer.where(key))


def find_unused_parameters(spec: JobSpec, values: ValueTable) -> Iterator[Note]:
    """Yield a note for each parameter that no command and no variable uses."""
    used = find_parameters(text for _, text, _ in texts_with_placeholders(spec))
    for name in spec.params:
        if name not in used:
            message = f"no command or variable uses {{params.{name}}}, so this has no effect."
            yield Note(key=f"params.{name}", message=message, source=values.find_source(("params", name)))


def default_kind_source(framework: str) -> str:
    """Return where the kind of a role was set if its framework gave it."""
    return f'default of framework "{framework}"'


def default_kind_notes(spec: JobSpec, sources: Mapping[str, str]) -> Iterator[Note]:
    """Yield a note that names the roles to which the framework gave their kind."""
    source = default_kind_source(spec.framework)
    names = [name for name in spec.roles if sources.get(f"roles.{name}.kind") == source]
    if names:
        roles, they = ("role", "it serves") if len(names) == 1 else ("roles", "they serve")
        yield Note(
            key="",
            message=f'{roles} {" and ".join(names)}: kind = "untracked" by {source}: {they} until stopped, and the job '
            'ends when its tracked tasks have succeeded. To wait for a role, set its kind to "tracked".',
        )
