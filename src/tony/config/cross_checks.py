"""Mistakes that no single value shows: what does not fit together, and what is not there.

Every check notes all that it finds. One that would only repeat an earlier complaint keeps silent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from tony.config import paths, start_order, value_format
from tony.config.convert import MAX_ARGUMENT
from tony.config.elastic_roles import check_sizes
from tony.config.layers import quoted
from tony.config.secret_names import is_reference
from tony.config.secret_references import webhook_mistake
from tony.config.settings_table import MAX_INSTANCES, Key
from tony.config.suggest import closest_match, format_known_names, suggest_names
from tony.config.value_table import ENV_NAME, ValueTable
from tony.model.job_spec import NOTICES, Command, JobSpec
from tony.model.placeholders import check as placeholder_mistakes
from tony.model.placeholders import find_addressed_roles, near_misses
from tony.model.states import AfterCondition, DistributedMode, RestartScope, RoleKind, StopOn

_LONGEST_NAME = 200
#: Tags of one job, and characters of one.
_MOST_TAGS, _LONGEST_TAG = 50, 100
#: Who may look at a job: users and groups, characters of one.
_MOST_PEOPLE, _LONGEST_PERSON = 200, 256
_PERSON = re.compile(r"\*|@?[^\s,:@*/\\][^\s,:*/\\]*")
#: Bytes of the text that an export looks for in each line.
_LONGEST_MARK = 1000
#: Zero-width joiner and non-joiner, and the tags that make a region's flag: without a shape, but a part of one.
_JOINERS = frozenset(map(chr, (0x200C, 0x200D, *range(0xE0020, 0xE0080))))


def check(spec: JobSpec, sheet: ValueTable) -> None:
    """Notes every mistake in the sheet that the values show only together."""
    for rule in _RULES:
        rule(spec, sheet)


def _name(spec: JobSpec, sheet: ValueTable) -> None:
    if ("name",) not in sheet.found:
        return
    if not spec.name.strip():
        sheet.blame(("name",), "an empty name. Leave the key out to use the file's name.")
    elif len(spec.name) > _LONGEST_NAME:
        sheet.blame(("name",), f"{len(spec.name)} characters are too long; a name has at most {_LONGEST_NAME}.")
    elif fault := next((char for char in spec.name if not _can_be_shown(char)), None):
        import unicodedata

        which = f"U+{ord(fault):04X} {unicodedata.name(fault, '')}".rstrip()
        sheet.blame(("name",), f"a name is one line of characters that can be shown, and {which} is none.")


def _tags(spec: JobSpec, sheet: ValueTable) -> None:
    if len(spec.tags) > _MOST_TAGS:
        sheet.blame(("tags",), f"{len(spec.tags)} are too many; a job has at most {_MOST_TAGS}.")
        return
    for number, tag in enumerate(spec.tags):
        if not tag.strip():
            sheet.blame(("tags",), "an empty tag. Leave it out.", item=number)
        elif len(tag) > _LONGEST_TAG:
            sheet.blame(("tags",), f"{len(tag)} characters; a tag has at most {_LONGEST_TAG}.", item=number)
        elif not all(map(_can_be_shown, tag)):
            sheet.blame(("tags",), "a tag is one line of characters that can be shown.", item=number)


def _people(spec: JobSpec, sheet: ValueTable) -> None:
    for key, people in (("viewers", spec.viewers), ("modifiers", spec.modifiers)):
        if len(people) > _MOST_PEOPLE:
            sheet.blame((key,), f"{len(people)} are too many; name at most {_MOST_PEOPLE}, or a group: @team.")
            continue
        for number, who in enumerate(people):
            if len(who) > _LONGEST_PERSON or not who.isprintable() or not _PERSON.fullmatch(who):
                sheet.blame((key,), "write a user (ann), a group (@team), or * for everybody.", item=number)


def _secret(spec: JobSpec, sheet: ValueTable) -> None:
    for number, name in enumerate(spec.secret):
        if not ENV_NAME.fullmatch(name):
            message = "write the name of a variable or parameter, not its value; a name is not empty and has no `=`."
            sheet.blame(("secret",), message, item=number)


def _can_be_shown(char: str) -> bool:
    """Printable characters, any blank, and what joins several into one: flags and families are made with it."""
    if char.isprintable() or char in _JOINERS:
        return True
    import unicodedata

    return unicodedata.category(char) == "Zs"


def _commands(spec: JobSpec, sheet: ValueTable) -> None:
    if ("command",) in sheet.broken:
        return
    hint = next((f" {_stray(sheet, table)}" for table in ("env", "params") if (table, "command") in sheet.found), "")
    write = 'Write command = "python train.py".'
    if sheet.origin and sheet.origin.lower().endswith(".xml"):  # of the original
        write = (
            "Set tony.containers.command, or give one: --executes 'python train.py'; `submit` and `validate`, which "
            "do not know the original's flags, take --set command='python train.py'."
        )
    has_roles = any(key[0] == "roles" and len(key) == 2 for key in (*sheet.tables, *sheet.broken) if key)
    if not has_roles and not sheet.roles and spec.command is None:
        sheet.blame(("command",), hint.strip() or f"no command: nothing says what to run. {write}")
    for role in sheet.roles:
        if ("roles", role, "command") not in sheet.broken and spec.command_of(role) is None:
            sheet.blame(("roles", role), hint.strip() or f"no command: neither this role nor the job has one. {write}")


def _stray(sheet: ValueTable, table: str) -> str:
    where = sheet.source((table, "command"))
    return f"no command: the one in {where} stands below [{table}]; write it above the first [section]."


def _placeholders(spec: JobSpec, sheet: ValueTable) -> None:
    broken = [key[1] for key in sheet.broken if key[:1] == ("params",) and len(key) == 2]
    params = {*spec.params, *broken}
    for key, text, item in _texts(spec, sheet):
        for mistake in near_misses(text, params):
            sheet.blame(key, mistake.message, item=item)
        for mistake in () if ("params",) in sheet.broken else placeholder_mistakes(text, params, spec.effective_roles):
            kind, _, name = mistake.name.partition(".")
            near = closest_match(name, spec.effective_roles if kind == "address" else spec.params)
            hint = f"; did you mean {{{kind}.{near}}}?" if near else "."
            sheet.blame(key, f"{mistake.message}{hint}", item=item)


def _addresses(spec: JobSpec, sheet: ValueTable) -> None:
    """Refuse placeholders for an address that a role's programs can never be given."""
    roles = spec.effective_roles
    for name, role in roles.items():
        for other in sorted(find_addressed_roles(spec.texts_of(name)) & roles.keys()):
            key, item = _place_of_address(spec, sheet, name, other)
            asked = f"{{address.{other}}} is never known here"
            if spec.distributed_mode is DistributedMode.FCFS:
                sheet.blame(key, f'{asked}: with distributed_mode = "fcfs" no task waits for the others.', item=item)
            elif role.kind is RoleKind.SETUP:
                sheet.blame(key, f"{asked}: setup roles run before all others.", item=item)
            elif roles[other].kind in (RoleKind.SETUP, RoleKind.SIDECAR):
                kind = roles[other].kind.value
                sheet.blame(
                    key,
                    f"{asked}: {other} is a {kind} role, and the others do not wait until it has registered.",
                    item=item,
                )
            elif over := _find_end_before_start(spec, name, other):
                sheet.blame(key, f"{asked}: {name} starts only after {other} has {over}.", item=item)
            elif name in start_order.find_predecessors(roles, other):
                sheet.blame(key, f"{asked}: {other} starts only after {name}.", item=item)


def _find_end_before_start(spec: JobSpec, role: str, other: str) -> str:
    """Return "ended" or "succeeded" if another role has always done so before a role starts; else an empty text."""
    roles = spec.effective_roles
    for name in (role, *start_order.find_predecessors(roles, role)):
        condition = roles[name].after.get(other)
        if condition is not None and condition is not AfterCondition.STARTED:
            return str(condition.value)
    return ""


def _place_of_address(spec: JobSpec, sheet: ValueTable, role: str, other: str) -> tuple[Key, int | None]:
    """Return where a role's text asks for another role's address: key, and place in a list; prefer its own."""
    places = [
        (key, item)
        for key, text, item in _texts(spec, sheet)
        if other in find_addressed_roles([text]) and (key[0] != "roles" or key[1] == role)
    ]
    return places[-1]


def _texts(spec: JobSpec, sheet: ValueTable) -> Iterator[tuple[Key, str, int | None]]:
    """Every text in which placeholders are filled in: its key, the text, its place in a list."""
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


def _variables(spec: JobSpec, sheet: ValueTable) -> None:
    for place, env in [((), spec.env), *((("roles", name), role.env) for name, role in spec.roles.items())]:
        for name, value in env.items():
            size = len(f"{name}={value}".encode())
            if size >= MAX_ARGUMENT:
                message = f"{size} bytes with its name are too long: Linux takes at most {MAX_ARGUMENT - 1}."
                sheet.blame((*place, "env", name), message)


def _exports(spec: JobSpec, sheet: ValueTable) -> None:
    exporters: dict[str, str] = {}
    for role in sheet.roles:
        for name, text in spec.roles[role].exports.items():
            key = ("roles", role, "exports", name)
            if not text.strip():
                sheet.blame(key, 'an empty text stands in every line. Write what stands before the value: "Result: ".')
            elif len(text.splitlines()) > 1 or len(text.encode()) > _LONGEST_MARK:
                sheet.blame(key, f"the text must be a part of one line, of up to {_LONGEST_MARK} bytes.")
            if exporters.setdefault(name, role) != role:
                sheet.blame(key, f"{exporters[name]} exports it as well. A variable comes from one role.")


def _progress(spec: JobSpec, sheet: ValueTable) -> None:
    for name, role in spec.roles.items():
        folder, pattern = role.progress_summaries, role.progress_pattern
        if folder is not None and ("://" in folder or not folder.strip()):
            message = "write a folder on the task's own machine, such as `logs`: it is read while programs write to it."
            sheet.blame(("roles", name, "progress_summaries"), message)
        if pattern is not None and (fault := _fault_of(pattern)):
            sheet.blame(("roles", name, "progress_pattern"), fault)


def _fault_of(pattern: str) -> str:
    """What is wrong with a regular expression that shall find numbers; empty if nothing is."""
    example = "for instance `step (?P<step>[0-9]+) loss (?P<loss>[0-9.]+)`."
    try:
        groups = re.compile(pattern).groupindex
    except (re.error, RecursionError, OverflowError) as error:
        return f"it is no regular expression: {error}; write one with the group `step`, {example}"
    return "" if groups else f"it has no group with a name, so nothing is found; {example}"


def _notices(spec: JobSpec, sheet: ValueTable) -> None:
    for number, word in enumerate(spec.notify.on):
        if word not in NOTICES:
            sheet.blame(("notify", "on"), suggest_names(word, NOTICES, format_known_names(NOTICES)), item=number)
    webhook = spec.notify.webhook
    if webhook is not None and not is_reference(webhook):
        _blame_if(sheet, ("notify", "webhook"), webhook_mistake(webhook))
    if webhook is None and ("notify", "webhook") not in sheet.broken:
        for name in ("on", "secret"):
            if ("notify", name) in sheet.found:
                sheet.blame(("notify", name), 'nobody is told anything: write webhook = "https://..." beside it.')


def _groups(spec: JobSpec, sheet: ValueTable) -> None:
    for group, members in spec.groups.items():
        if not members:
            sheet.blame(("groups", group), "an empty group. Name its roles, or remove it.")
        for number, member in enumerate(members):
            if member not in spec.effective_roles:
                sheet.blame(("groups", group), _no_role(spec, member), item=number)


def _time_limits(spec: JobSpec, sheet: ValueTable) -> None:
    for name in sheet.roles:
        place = ("roles", name, "timeout_after")
        if place not in sheet.tables:
            continue
        if spec.roles[name].kind is RoleKind.SETUP:
            sheet.blame(place, "a setup role runs before all others, so nothing it could outlive is done before it.")
        for part, example in (("group", 'group = "trainers"'), ("limit", 'limit = "10m"')):
            if (*place, part) not in sheet.found and (*place, part) not in sheet.broken:
                sheet.blame(place, f"`{part}` is missing. Write {example} into it.")
        group = sheet.value((*place, "group"))
        if group is None or ("groups", group) in sheet.broken:
            continue
        if group not in spec.groups:
            hint = suggest_names(group, spec.groups, f'write {group or "NAME"} = ["chief", "worker"] below [groups].')
            sheet.blame((*place, "group"), f"there is no group of this name; {hint}")
        elif name in spec.groups[group]:
            sheet.blame((*place, "group"), "the role is in this group itself, which cannot be done before it.")


def _start_order(spec: JobSpec, sheet: ValueTable) -> None:
    setup = spec.setup_roles
    for name in sheet.roles:
        seen: dict[str, str] = {}
        for key, number, other, condition in start_order.conditions(sheet, name):
            if other not in spec.effective_roles:
                sheet.blame(key, _no_role(spec, other), item=number)
            elif seen.setdefault(other, condition.value) != condition.value:
                message = f"{other} is waited for in two ways, {seen[other]} and {condition.value}. Choose one."
                sheet.blame(key, message, item=number)
        for key, number, other, condition in start_order.conditions(sheet, name):
            if other in setup and name not in setup and condition is not AfterCondition.SUCCEEDED:
                message = f"{other} is a setup role: no other role starts before it has succeeded. Leave it out here."
                sheet.blame(key, message, item=number)
            elif name in setup and other in spec.roles and other not in setup:
                message = f"{name} is a setup role, and {other} waits for it. It can wait for other setup roles only."
                sheet.blame(key, message, item=number)
    for cycle in start_order.cycles({name: role.after for name, role in spec.roles.items()}):
        message = f"these roles wait for each other: {start_order.describe_cycle(cycle)}. None could ever start."
        sheet.blame(("roles", cycle[0], "after"), message)


def _counts(spec: JobSpec, sheet: ValueTable) -> None:
    total = sum(role.instances for role in spec.effective_roles.values())
    if total > MAX_INSTANCES:
        sheet.blame(("roles",), f"{total} tasks in all are too many; a job has at most {MAX_INSTANCES}.")
    kinds_known = not any(("roles", name, "kind") in sheet.broken for name in sheet.roles)
    if spec.roles and kinds_known and not spec.tracked_count:
        sheet.blame(("roles",), 'no role is tracked, so the job would be over at once. Give one kind = "tracked".')


def _policies(spec: JobSpec, sheet: ValueTable) -> None:
    if spec.stop_on is StopOn.CHIEF and ("stop_on",) in sheet.found:
        chief = spec.chief
        if chief is None:
            sheet.blame(("stop_on",), "the job has no chief: no role that computes is called `chief` or `worker`.")
        elif spec.effective_roles[chief.role].kind is RoleKind.SIDECAR:
            sheet.blame(("stop_on",), f"the chief is {chief}, and its role is a sidecar, whose result does not count.")
    if spec.heartbeat_timeout <= spec.heartbeat_interval:
        key = ("heartbeat_timeout",) if ("heartbeat_timeout",) in sheet.found else ("heartbeat_interval",)
        sheet.blame(key, "heartbeat_timeout must be longer than heartbeat_interval; several times as long is usual.")


def _restarts(spec: JobSpec, sheet: ValueTable) -> None:
    for name in sheet.roles:
        role = spec.roles[name]
        place = ("roles", name)
        own = role.max_restarts
        if own is not None and own > spec.max_restarts and ("max_restarts",) not in sheet.broken:
            message = f"the job's max_restarts is {spec.max_restarts}, and a restart needs room in both. "
            sheet.blame((*place, "max_restarts"), f"{message}Raise that, or lower this one.")
        if role.restart is RestartScope.TASK and role.stop_on_failure:
            message = "stop_on_failure ends the job with the role's first failure. Leave out one of the two."
            sheet.blame((*place, "restart"), message)


def _files(spec: JobSpec, sheet: ValueTable) -> None:
    owners: list[tuple[Key, str | None, Sequence[str | None]]] = [((), spec.python, spec.files)]
    owners += [(("roles", name), role.python, role.files) for name, role in spec.roles.items()]
    for place, python, files in owners:
        _blame_if(sheet, (*place, "python"), python and paths.python_mistake(python))
        files = sheet.partial.get((*place, "files"), files)
        for number, entry in enumerate(files):
            mistake = entry and paths.entry_mistake(entry)
            if mistake:
                sheet.blame((*place, "files"), mistake, item=number)
        for number, name in paths.same_names(files):
            message = f"two files would be called {value_format.name(name)}. Rename one: path::other-name."
            sheet.blame((*place, "files"), message, item=number)
    _blame_if(sheet, ("source",), spec.source and paths.source_mistake(spec.source))


def _blame_if(sheet: ValueTable, key: Key, mistake: str | None) -> None:
    if mistake:
        sheet.blame(key, mistake)


def _no_role(spec: JobSpec, name: str) -> str:
    known = spec.effective_roles
    return f"there is no role {quoted(name)}; {suggest_names(name, known, format_known_names(known))}"


_RULES: tuple[Callable[[JobSpec, ValueTable], None], ...] = (
    _name,
    _tags,
    _people,
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
    _start_order,
    _counts,
    check_sizes,
    _policies,
    _restarts,
    _files,
)
