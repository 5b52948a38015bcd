"""Checks that need more than one value: combinations that do not fit, and settings that are missing.

Each check reports all errors it finds, except those that only follow from an error reported before.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tony.config.checks.memory_checks import check_memory_growth
from tony.config.checks.rule_checks import check_rules
from tony.config.checks.start_order import check_start_order, find_predecessors
from tony.config.files.secret_references import webhook_error
from tony.config.table import path_settings, value_format
from tony.config.table.converted_settings import ENV_NAME, ValueTable
from tony.config.table.layers import Branch, quote
from tony.config.table.path_settings import find_same_names
from tony.config.table.settings_table import MAX_INSTANCES, Key
from tony.config.table.value_conversion import ELASTIC_EXAMPLE, MAX_ARGUMENT
from tony.model.file_entry import is_archive
from tony.model.job_spec import NOTICES, Command, JobSpec
from tony.model.masking import is_reference
from tony.model.placeholders import check as placeholder_errors
from tony.model.placeholders import find_addressed_roles, find_misspelled_names, find_parameters
from tony.model.setting_choices import AfterCondition, DistributedMode, RestartScope, RoleKind, StopOn
from tony.name_suggestions import describe_unknown, find_closest_match, format_known_names, suggest_names

_EXAMPLE = f"instances = {ELASTIC_EXAMPLE}"


def sizes(values: Mapping[str, Any]) -> dict[str, int]:
    """Return the fields of a Role that a table of `min` and `max` sets. If equal, the size is fixed."""
    if "min" not in values or "max" not in values:
        return {}
    low, high = values["min"], values["max"]
    return {"instances": high} | ({"min_instances": low} if low < high else {})


def check_sizes(spec: JobSpec, values: ValueTable) -> None:
    """Report incomplete tables, and roles that cannot be elastic."""
    for name in values.roles:
        place = ("roles", name, "instances")
        if place not in values.tables:
            continue
        given = values.list_children(place)
        missing = [word for word in ("min", "max") if word not in given]
        if missing:
            if not any((*place, word) in values.broken for word in missing):
                words = "`min` and `max` are" if len(missing) > 1 else f"`{missing[0]}` is"
                values.add_error(place, f"{words} missing. Write {_EXAMPLE}, or one number.")
        elif given["min"] > given["max"]:
            message = f"min is greater than max ({given['max']}). Write the smaller number as min."
            values.add_error((*place, "min"), message)
        elif given["min"] < given["max"]:
            why = _explain_not_elastic(spec, name)
            if why:
                values.add_error((*place, "min"), f"{why} Write a fixed number: instances = {given['max']}.")


def _explain_not_elastic(spec: JobSpec, name: str) -> str:
    """Return why a role cannot be elastic with any framework; empty if it can."""
    kind = spec.roles[name].kind
    if kind is RoleKind.SETUP:
        return "the tasks of a setup role start independently of each other, not as a gang."
    if kind is RoleKind.SIDECAR:
        return "the job does not wait for sidecars, so it starts without missing ones anyway."
    if spec.distributed_mode is DistributedMode.FCFS:
        return 'with distributed_mode = "fcfs" the tasks start independently of each other, not as a gang.'
    return ""


_MAX_NAME_LENGTH = 200
_MAX_TAGS = 50
_MAX_TAG_LENGTH = 100
#: Users and groups in `viewers` and `editors`.
_MAX_PRINCIPALS = 200
_MAX_PRINCIPAL_LENGTH = 256
_PRINCIPAL = re.compile(r"\*|@?[^\s,:@*/\\][^\s,:*/\\]*")
#: Bytes of the text that precedes an exported value.
_MAX_EXPORT_BYTES = 1000
#: Zero-width joiner and non-joiner, and the tags of regional flags: invisible parts of a visible character.
_JOINERS = frozenset(map(chr, (0x200C, 0x200D, *range(0xE0020, 0xE0080))))


def check(spec: JobSpec, values: ValueTable) -> None:
    """Run every check, and record the errors in the table."""
    for rule in _RULES:
        rule(spec, values)


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


def _name(spec: JobSpec, values: ValueTable) -> None:
    if ("name",) not in values.found:
        return
    if not spec.name.strip():
        values.add_error(("name",), "the name is empty. Leave the key out to use the name of the file.")
    elif len(spec.name) > _MAX_NAME_LENGTH:
        values.add_error(
            ("name",), f"{len(spec.name)} characters are too long; a name may have at most {_MAX_NAME_LENGTH}."
        )
    elif fault := next((char for char in spec.name if not _is_displayable(char)), None):
        which = f"U+{ord(fault):04X} {unicodedata.name(fault, '')}".rstrip()
        values.add_error(("name",), f"a name is one line of printable characters, and {which} is not printable.")


def _tags(spec: JobSpec, values: ValueTable) -> None:
    if len(spec.tags) > _MAX_TAGS:
        values.add_error(("tags",), f"{len(spec.tags)} tags are too many; a job may have at most {_MAX_TAGS}.")
        return
    for number, tag in enumerate(spec.tags):
        if not tag.strip():
            values.add_error(("tags",), "the tag is empty. Leave it out.", item=number)
        elif len(tag) > _MAX_TAG_LENGTH:
            values.add_error(
                ("tags",), f"{len(tag)} characters are too long; a tag may have at most {_MAX_TAG_LENGTH}.", item=number
            )
        elif not all(map(_is_displayable, tag)):
            values.add_error(("tags",), "a tag is one line of printable characters.", item=number)


def _principals(spec: JobSpec, values: ValueTable) -> None:
    for key, principals in (("viewers", spec.viewers), ("editors", spec.editors)):
        if len(principals) > _MAX_PRINCIPALS:
            message = f"{len(principals)} are too many; write at most {_MAX_PRINCIPALS}, or a group: @team."
            values.add_error((key,), message)
            continue
        for number, name in enumerate(principals):
            if len(name) > _MAX_PRINCIPAL_LENGTH or not name.isprintable() or not _PRINCIPAL.fullmatch(name):
                values.add_error((key,), "write a user (ann), a group (@team), or * for all users.", item=number)


def _secret(spec: JobSpec, values: ValueTable) -> None:
    for number, name in enumerate(spec.secret):
        if not ENV_NAME.fullmatch(name):
            message = "write the name of a variable or parameter, not its value; a name is not empty and has no `=`."
            values.add_error(("secret",), message, item=number)


def _is_displayable(char: str) -> bool:
    """Return True for printable characters, spaces, and the joiners that emoji are composed with."""
    if char.isprintable() or char in _JOINERS:
        return True
    return unicodedata.category(char) == "Zs"


def _commands(spec: JobSpec, values: ValueTable) -> None:
    if ("command",) in values.broken:
        return
    hint = next(
        (
            f" {_describe_stray_command(values, table)}"
            for table in ("env", "params")
            if (table, "command") in values.found
        ),
        "",
    )
    write = 'Write command = "python train.py".'
    if values.origin and values.origin.lower().endswith(".xml"):  # of LinkedIn TonY
        write = (
            "Set tony.containers.command, or use --executes 'python train.py'; with `submit` and `validate`, which do "
            "not take LinkedIn TonY's flags, use --set command='python train.py'."
        )
    has_roles = any(key[0] == "roles" and len(key) == 2 for key in (*values.tables, *values.broken) if key)
    if not has_roles and not values.roles and spec.command is None:
        values.add_error(("command",), hint.strip() or f"no command is set. {write}")
    for role in values.roles:
        if ("roles", role, "command") not in values.broken and spec.command_of(role) is None:
            values.add_error(
                ("roles", role), hint.strip() or f"no command: neither the role nor the job has one. {write}"
            )


def _describe_stray_command(values: ValueTable, table: str) -> str:
    where = values.find_source((table, "command"))
    return f"no command: the one in {where} is in the table [{table}]; move it above the first [section]."


def _placeholders(spec: JobSpec, values: ValueTable) -> None:
    broken = [key[1] for key in values.broken if key[:1] == ("params",) and len(key) == 2]
    params = {*spec.params, *broken}
    for key, text, item in texts_with_placeholders(spec):
        for error in find_misspelled_names(text, params):
            values.add_error(key, error.message, item=item)
        for error in () if ("params",) in values.broken else placeholder_errors(text, params, spec.effective_roles):
            kind, _, name = error.name.partition(".")
            near = find_closest_match(name, spec.effective_roles if kind == "address" else spec.params)
            hint = f"; did you mean {{{kind}.{near}}}?" if near else "."
            values.add_error(key, f"{error.message}{hint}", item=item)


def _addresses(spec: JobSpec, values: ValueTable) -> None:
    """Refuse placeholders for an address that is never known when the role starts."""
    roles = spec.effective_roles
    for name, role in roles.items():
        for other in sorted(find_addressed_roles(spec.texts_of(name)) & roles.keys()):
            key, item = _place_of_address(spec, values, name, other)
            unknown = f"{{address.{other}}} is never known here"
            if spec.distributed_mode is DistributedMode.FCFS:
                values.add_error(
                    key, f'{unknown}: with distributed_mode = "fcfs" no task waits for the others.', item=item
                )
            elif role.kind is RoleKind.SETUP:
                values.add_error(key, f"{unknown}: setup roles run before all others.", item=item)
            elif roles[other].kind in (RoleKind.SETUP, RoleKind.SIDECAR):
                kind = roles[other].kind.value
                values.add_error(
                    key,
                    f"{unknown}: {other} is a {kind} role, and other roles do not wait for its registration.",
                    item=item,
                )
            elif outcome := _find_end_before_start(spec, name, other):
                values.add_error(key, f"{unknown}: {name} starts only after {other} has {outcome}.", item=item)
            elif name in find_predecessors(roles, other):
                values.add_error(key, f"{unknown}: {other} starts only after {name}.", item=item)


def _find_end_before_start(spec: JobSpec, role: str, other: str) -> str:
    """Return "ended" or "succeeded" if another role has always done so before a role starts; else empty."""
    roles = spec.effective_roles
    for name in (role, *find_predecessors(roles, role)):
        condition = roles[name].after.get(other)
        if condition is not None and condition is not AfterCondition.STARTED:
            return str(condition.value)
    return ""


def _place_of_address(spec: JobSpec, values: ValueTable, role: str, other: str) -> tuple[Key, int | None]:
    """Return where a role uses the address of another: key, and index in a list; its own settings first."""
    places = [
        (key, item)
        for key, text, item in texts_with_placeholders(spec)
        if other in find_addressed_roles([text]) and (key[0] != "roles" or key[1] == role)
    ]
    return places[-1]


def texts_with_placeholders(spec: JobSpec) -> Iterator[tuple[Key, str, int | None]]:
    """Yield every text with placeholders: key, text, index in a list."""
    owners: list[tuple[Key, Command | None, Iterable[tuple[str, str]]]] = [((), spec.command, spec.env.items())]
    owners += [(("roles", name), role.command, role.env.items()) for name, role in spec.roles.items()]
    for place, command, env in owners:
        if isinstance(command, str):
            yield (*place, "command"), command, None
        for number, part in enumerate(command if isinstance(command, tuple) else ()):
            yield (*place, "command"), part, number
        for name, value in env:
            yield (*place, "env", name), value, None
    for name, role in spec.roles.items():
        if role.progress_summaries is not None:
            yield ("roles", name, "progress_summaries"), role.progress_summaries, None


def _variables(spec: JobSpec, values: ValueTable) -> None:
    for place, env in [((), spec.env), *((("roles", name), role.env) for name, role in spec.roles.items())]:
        for name, value in env.items():
            size = len(f"{name}={value}".encode())
            if size >= MAX_ARGUMENT:
                message = f"{size} bytes including the name are too long: Linux allows at most {MAX_ARGUMENT - 1}."
                values.add_error((*place, "env", name), message)


def _exports(spec: JobSpec, values: ValueTable) -> None:
    exporters: dict[str, str] = {}
    for role in values.roles:
        for name, text in spec.roles[role].exports.items():
            key = ("roles", role, "exports", name)
            if not text.strip():
                values.add_error(key, 'an empty text matches every line. Write the text before the value: "Result: ".')
            elif len(text.splitlines()) > 1 or len(text.encode()) > _MAX_EXPORT_BYTES:
                values.add_error(key, f"the text must be part of one line, of up to {_MAX_EXPORT_BYTES} bytes.")
            if exporters.setdefault(name, role) != role:
                values.add_error(
                    key, f"role {exporters[name]} exports it as well. Only one role may export a variable."
                )


def _progress(spec: JobSpec, values: ValueTable) -> None:
    for name, role in spec.roles.items():
        folder, pattern = role.progress_summaries, role.progress_pattern
        if folder is not None and ("://" in folder or not folder.strip()):
            message = (
                "write a folder on the machine of the task, such as `logs`: it is read while programs write to it."
            )
            values.add_error(("roles", name, "progress_summaries"), message)
        if pattern is not None and (fault := _pattern_error(pattern)):
            values.add_error(("roles", name, "progress_pattern"), fault)


def _pattern_error(pattern: str) -> str:
    """Return what is wrong with a progress pattern; empty if it is valid."""
    example = "such as `step (?P<step>[0-9]+) loss (?P<loss>[0-9.]+)`."
    try:
        groups = re.compile(pattern).groupindex
    except (re.error, RecursionError, OverflowError) as error:
        return f"it is not a regular expression: {error}; write one with the group `step`, {example}"
    return "" if groups else f"it has no named group, so it finds no numbers; write one, {example}"


def _notices(spec: JobSpec, values: ValueTable) -> None:
    for number, word in enumerate(spec.notify.on):
        if word not in NOTICES:
            values.add_error(("notify", "on"), suggest_names(word, NOTICES, format_known_names(NOTICES)), item=number)
    webhook = spec.notify.webhook
    if webhook is not None and not is_reference(webhook):
        _add_error_if(values, ("notify", "webhook"), webhook_error(webhook))
    if webhook is None and ("notify", "webhook") not in values.broken:
        for name in ("on", "secret"):
            if ("notify", name) in values.found:
                values.add_error(("notify", name), 'it has no effect without a webhook: add webhook = "https://...".')


def _groups(spec: JobSpec, values: ValueTable) -> None:
    for group, members in spec.groups.items():
        if not members:
            values.add_error(("groups", group), "the group is empty. Name its roles, or remove it.")
        for number, member in enumerate(members):
            if member not in spec.effective_roles:
                values.add_error(
                    ("groups", group),
                    describe_unknown(f"role {quote(member)}", member, spec.effective_roles),
                    item=number,
                )


def _time_limits(spec: JobSpec, values: ValueTable) -> None:
    for name in values.roles:
        place = ("roles", name, "timeout_after")
        if place not in values.tables:
            continue
        if spec.roles[name].kind is RoleKind.SETUP:
            values.add_error(place, "a setup role runs before all others, so no group is done before it.")
        for part, example in (("group", 'group = "trainers"'), ("limit", 'limit = "10m"')):
            if (*place, part) not in values.found and (*place, part) not in values.broken:
                values.add_error(place, f"`{part}` is missing. Add {example}.")
        group = values.value((*place, "group"))
        if group is None or ("groups", group) in values.broken:
            continue
        if group not in spec.groups:
            hint = suggest_names(group, spec.groups, f'write {group or "NAME"} = ["chief", "worker"] below [groups].')
            values.add_error((*place, "group"), f"unknown group; {hint}")
        elif name in spec.groups[group]:
            values.add_error(
                (*place, "group"), "the role is itself in this group, so the group cannot be done before it."
            )


def _counts(spec: JobSpec, values: ValueTable) -> None:
    total = sum(role.instances for role in spec.effective_roles.values())
    if total > MAX_INSTANCES:
        values.add_error(("roles",), f"{total} tasks in total are too many; a job may have at most {MAX_INSTANCES}.")
    kinds_known = not any(("roles", name, "kind") in values.broken for name in values.roles)
    if spec.roles and kinds_known and not spec.tracked_count:
        values.add_error(("roles",), 'no role is tracked, so the job would end at once. Set kind = "tracked" for one.')


def _policies(spec: JobSpec, values: ValueTable) -> None:
    if spec.stop_on is StopOn.CHIEF and ("stop_on",) in values.found:
        chief = spec.chief
        if chief is None:
            values.add_error(
                ("stop_on",), "the job has no chief: it needs a role `chief` or `worker` that is not a setup role."
            )
        elif spec.effective_roles[chief.role].kind is RoleKind.SIDECAR:
            values.add_error(("stop_on",), f"the chief is {chief}, a sidecar, whose result does not count.")
    if spec.heartbeat_timeout <= spec.heartbeat_interval:
        key = ("heartbeat_timeout",) if ("heartbeat_timeout",) in values.found else ("heartbeat_interval",)
        values.add_error(
            key, "heartbeat_timeout must be longer than heartbeat_interval; several times as long is usual."
        )


def _restarts(spec: JobSpec, values: ValueTable) -> None:
    for name in values.roles:
        role = spec.roles[name]
        place = ("roles", name)
        own = role.max_restarts
        if own is not None and own > spec.max_restarts and ("max_restarts",) not in values.broken:
            message = f"the job's max_restarts is {spec.max_restarts}, and every restart counts against both. "
            values.add_error((*place, "max_restarts"), f"{message}Raise that, or lower this one.")
        if role.restart is RestartScope.TASK and role.stop_on_failure:
            message = "stop_on_failure ends the job with the first failure of the role. Remove one of the two."
            values.add_error((*place, "restart"), message)


def _files(spec: JobSpec, values: ValueTable) -> None:
    owners: list[tuple[Key, str | None, Sequence[str | None]]] = [((), spec.python, spec.files)]
    owners += [(("roles", name), role.python, role.files) for name, role in spec.roles.items()]
    for place, python, files in owners:
        if python and not (values.is_staged and is_archive(python)):
            _add_error_if(values, (*place, "python"), path_settings.python_error(python))
        files = values.partial.get((*place, "files"), files)
        for number, entry in enumerate(files):
            error = path_settings.entry_error(entry) if entry and not values.is_staged else None
            if error:
                values.add_error((*place, "files"), error, item=number)
        for number, name in find_same_names(files):
            message = f"two files have the name {value_format.format_name(name)}. Rename one: path::other-name."
            values.add_error((*place, "files"), message, item=number)
    if spec.source and not values.is_staged:
        _add_error_if(values, ("source",), path_settings.source_error(spec.source))


def _add_error_if(values: ValueTable, key: Key, error: str | None) -> None:
    if error:
        values.add_error(key, error)


_RULES: tuple[Callable[[JobSpec, ValueTable], None], ...] = (
    _name,
    _tags,
    _principals,
    _commands,
    _placeholders,
    _addresses,
    _variables,
    _secret,
    _exports,
    _progress,
    _notices,
    _groups,
    _time_limits,
    check_start_order,
    _counts,
    check_sizes,
    _policies,
    _restarts,
    check_memory_growth,
    check_rules,
    _files,
)
