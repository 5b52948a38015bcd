"""What a person writes: job files, site files, flags, variables, and the small languages inside them."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.scratch_folders import scratch
from tests.fuzz.target import LONGEST_MESSAGE, Target
from tony.config.legacy.flags import Flags as OriginalFlags
from tony.config.legacy.flags import parse as parse_flags
from tony.config.legacy.job_file_writer import job_file
from tony.config.legacy.translate import translate
from tony.config.load import Resolved, load
from tony.config.table.path_settings import file_entry
from tony.errors import ConfigError
from tony.hadoop.wire.placement import PlacementConstraint
from tony.hadoop.wire.proto import decode, encode
from tony.hadoop.yarn.constraint_text import ConstraintError
from tony.hadoop.yarn.constraint_text import parse as parse_constraint
from tony.history.event_log import settings_digest
from tony.jobs.log_files import Selection
from tony.model.codec import from_plain, to_plain
from tony.model.file_entry import parse_file_entry
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec
from tony.model.log_name import LogName
from tony.model.placeholders import check, fill, find_misspelled_names
from tony.rpc.am_address import parse as parse_address
from tony.storage.staging.staging_requests import clashes
from tony.units import (
    format_duration,
    format_exact_duration,
    format_exact_size,
    format_size,
    parse_duration,
    parse_size,
)

_EXAMPLES = Path(__file__).parents[3] / "examples"
_PARTS = b"\n---\n"


def toml_job(data: bytes) -> None:
    _good(_loaded("job.toml", data))


def yaml_job(data: bytes) -> None:
    _good(_loaded("job.yaml", data))


def original_job(data: bytes) -> None:
    """A settings file of LinkedIn TonY: what it says can be written as a job file, which says the same."""
    resolved = _loaded("tony.xml", data)
    _good(resolved)
    folder = scratch("job")
    (folder / "tony.xml").write_bytes(data)
    draft, _ = translate(OriginalFlags(conf_file="tony.xml"), {}, folder)
    (folder / "job.toml").write_text(job_file(draft), encoding="utf-8")
    assert load(folder / "job.toml", environ={}, cwd=folder, site_files=[]).spec == resolved.spec


def original_flags(data: bytes) -> None:
    """A command line of LinkedIn TonY, one word a line."""
    _good(load(flags=parse_flags(_lines(data)), environ={}, cwd=scratch("flags"), site_files=[]))


def placement(data: bytes) -> None:
    """A placement constraint: one that YARN can be sent, and that means the same when it is read there."""
    constraint = parse_constraint(data.decode("utf-8", "surrogateescape"))
    sent = encode(constraint)
    assert decode(PlacementConstraint, sent) == constraint


def site(data: bytes) -> None:
    """A site's file, for a job that the site may not want."""
    folder = scratch("site")
    place = folder / "tony.toml"
    place.write_bytes(data)
    job = folder / "job.toml"
    job.write_text('command = "x"\ntls = "always"\n[roles.worker]\ninstances = 3\nmemory = "2g"\ngpus = 1\n')
    _good(load(job, environ={}, cwd=folder, site_files=[place]))


def flags(data: bytes) -> None:
    """Lines of `--set`, of `--param`, and of variables."""
    sets, params, variables = (*data.split(_PARTS), b"", b"")[:3]
    folder = scratch("flags")
    (folder / "job.toml").write_text('command = "echo {params.lr}"\n[params]\nlr = "1"\n[roles.my-role]\n')
    environ = dict(line.partition("=")[::2] for line in _lines(variables))
    _good(
        load(
            folder / "job.toml",
            sets=_lines(sets),
            params=_lines(params),
            environ={f"TONY_SET_{name}": value for name, value in environ.items() if name},
            cwd=folder,
            site_files=[],
        )
    )


def _lines(data: bytes) -> list[str]:
    # As arguments and variables come: bytes that are no text are half characters.
    return [line.decode("utf-8", "surrogateescape") for line in data.replace(b"\0", b"").split(b"\n") if line]


def _loaded(name: str, data: bytes) -> Resolved:
    folder = scratch("job")
    place = folder / name
    place.write_bytes(data)
    return load(place, environ={}, cwd=folder, site_files=[])


def _good(resolved: Resolved) -> None:
    spec = resolved.spec
    assert from_plain(JobSpec, to_plain(spec)) == spec
    assert load(None, overrides=spec, environ={}, cwd=Path("/"), site_files=[]).spec == spec
    settings_digest(spec)
    assert len(spec.task_ids) <= 1_000_000


def units(data: bytes) -> None:
    """Sizes and durations: what is read can be written, and read again."""
    text = data.decode("utf-8", "surrogateescape")
    errors = []
    try:
        size = parse_size(text)
        assert parse_size(format_exact_size(size)) == size
        assert format_size(size).isascii()
    except ValueError as error:
        errors.append(error)
    try:
        seconds = parse_duration(text)
        assert parse_duration(format_exact_duration(seconds)) == seconds
        assert format_duration(seconds).isascii()
    except ValueError as error:
        errors.append(error)
    for each in errors:
        raise each


def placeholders(data: bytes) -> None:
    """Braces in commands: the first line names parameters, the rest is the text."""
    names, _, rest = data.decode("utf-8", "surrogateescape").partition("\n")
    params = names.split(",")
    found = [*check(rest, params), *find_misspelled_names(rest, params)]
    for error in found:
        assert rest[error.position] == "{"
        assert len(error.message) <= LONGEST_MESSAGE + len(rest) + len(names)
    values = {"role": "worker", "index": "0", **{f"params.{name}": "<v>" for name in params}}
    filled = fill(rest, values)
    assert len(filled) <= len(rest) + 10 * rest.count("{")


def words(data: bytes) -> None:
    """Names that are typed or found: tasks, addresses, log files, items of `files`."""
    text = data.decode("utf-8", "surrogateescape")
    errors = []
    name = LogName.parse(text)
    if name is not None:
        assert LogName.parse(name.file) == name
        Selection(tasks=[name.task]).matches(name)
    for read in (_task, _address, _entry):
        try:
            read(text)
        except ValueError as error:
            errors.append(error)
    for each in errors:
        raise each


def _task(text: str) -> None:
    assert TaskId.parse(str(TaskId.parse(text))) == TaskId.parse(text)


def _address(text: str) -> None:
    assert parse_address(str(parse_address(text))) == parse_address(text)


def _entry(text: str) -> None:
    entry = parse_file_entry(file_entry(text, Path("/base")))
    assert not entry.name.startswith("/")
    assert ".." not in entry.name.split("/")
    assert clashes([entry.name, entry.name]) == [(1, 0)]


def _toml_seeds() -> list[bytes]:
    found = [path.read_bytes() for path in sorted(_EXAMPLES.rglob("*.toml"))]
    return [seed for seed in found if len(seed) < 3000] + [
        (
            b'command = ["a", "{index}"]\nname = "x"\nmax_restarts = 2\nport_range = "20000-20100"\n'
            b'job_timeout = "1h"\n[params]\nlr = 0.1\n[groups]\nall = ["worker"]\n[roles.worker]\ninstances = 2\n'
            b'memory = "1.5g"\nafter = ["ps"]\nenv = {A = "b"}\n[roles.worker.timeout_after]\n'
            b'group = "all"\nlimit = "5m"\n[roles.ps]\nkind = "untracked"\n'
        ),
        b'command = """a\nb"""\nfiles = [\n "/x::y#archive", # why\n]\n[[roles]]\n"a b".c = \'\'\'x\'\'\'\n',
    ]


def _yaml_seeds() -> list[bytes]:
    return [
        (
            b"command: python x.py\nname: x\nroles:\n  worker: &w\n    instances: 2\n    memory: 1g\n  ps:\n"
            b"    <<: *w\n    after: [worker]\nparams: {lr: 0.1, on: yes, when: 2020-01-01, size: 0x10}\n"
        ),
        b"command: [a, 'b', \"c\\n\"]\nenv:\n  A: |\n    x\n    y\n  B: >-\n    z\n? roles\n: {w: ~}\n",
        b"%YAML 1.1\n--- !!map\ncommand: !!str x\nmax_restarts: 3\n...\n",
        b"a: &a {}\nb: &b {<<: [*a, *a]}\nc: &c {<<: [*b, *b]}\nd: [*c, *c]\n",
    ]


def _flag_seeds() -> list[bytes]:
    return [
        (
            b"max_restarts=2\nroles.my-role.memory=2g\nname=x\nroles.my-role.env.A=[1,2]\n---\nlr=0.1\n---\nMAX_RESTARTS=1\n"
            b"ROLES__MY_ROLE__MEMORY=1g\nROLES__MY_ROLE__ENV__a__b=x"
        ),
        b'params={a=1}\n"a.b"=1\nname="x\nscheduler=local\nscheduler.name=local\nroles={w={}}',
    ]


def _xml_seeds() -> list[bytes]:
    examples = sorted((Path(__file__).parents[2] / "golden" / "convert").glob("*.xml"))
    odd = (
        b"<configuration><property name='tony.a.instances' value='2'/><property><name>tony.a.command</name>"
        b"<value>${env.X:-echo} {role}</value><final>true</final></property></configuration>"
    )
    return [*(path.read_bytes() for path in examples), odd]


def _original_flag_seeds() -> list[bytes]:
    return [
        b"--executes\npython x.py\n-src_dir=src\n--conf\ntony.worker.instances=2\n--shell_env\nA=1,B=2\n--debug",
        b"-executes=x\n--python_venv\nv.zip\n--python_binary_path\nbin/p\n--hdfs_classpath=/a,/b\n--conf_file\nx.xml",
    ]


_TOML_WORDS = (b'"""', b"'''", b"[[", b"]]", b" = ", b"[roles.", b"instances", b"{a=", b"0x", b"1979-05-27", b"\\u0041")
_YAML_WORDS = (
    b"&a",
    b"*a",
    b"<<: ",
    b"!!",
    b"? ",
    b"- ",
    b"|",
    b">",
    b"---\n",
    b"%TAG",
    b": ",
    b"\\U00110000",
    b"{",
    b"[",
)

TARGETS = (
    Target(name="toml", run=toml_job, errors=(ConfigError,), seeds=_toml_seeds, tokens=_TOML_WORDS),
    Target(name="yaml", run=yaml_job, errors=(ConfigError,), seeds=_yaml_seeds, tokens=_YAML_WORDS, longest=2048),
    Target(
        name="site",
        run=site,
        errors=(ConfigError,),
        seeds=lambda: [
            (
                b'max_restarts = 1\ntls = "always"\nfinal = ["tls", "roles.*.gpus", "max_restarts"]\n[limits]\n'
                b'total_instances = 100\ntotal_gpus = 2\ntotal_memory = "1t"\n'
            )
        ],
        tokens=(*_TOML_WORDS, b'"roles.*.memory"', b'"scheduler.name"'),
    ),
    Target(
        name="original",
        run=original_job,
        errors=(ConfigError,),
        seeds=_xml_seeds,
        tokens=(
            b"<property>",
            b"<name>tony.",
            b"</name><value>",
            b"</value></property>",
            b".instances",
            b"&#10;",
            b"${",
        ),
        memory=24 << 20,  # a file is read in one piece
    ),
    Target(
        name="original-flags",
        run=original_flags,
        errors=(ConfigError,),
        seeds=_original_flag_seeds,
        tokens=(b"\n--conf\ntony.", b"=", b"--", b"\n"),
    ),
    Target(name="flags", run=flags, errors=(ConfigError,), seeds=_flag_seeds, tokens=(_PARTS, b"__", b"ROLES__", b"=")),
    Target(
        name="units",
        run=units,
        errors=(ValueError,),
        seeds=lambda: [b"1.5g", b"512MiB", b" 30s ", b"10ms", b"3650d", b"1048576t", b"4096", b"-1s"],
        longest=64,
    ),
    Target(
        name="placement",
        run=placement,
        errors=(ConstraintError,),
        seeds=lambda: [
            b"and(in,node,zk,all/a:or(notin,rack,app-tag/x/y:cardinality,node,zk,0,3):java=17,21:os != windows)",
            b"nm.yarn.io/disk=ssd",
        ],
        tokens=(b"and(", b"or(", b"in,node,", b"notin,rack,", b"cardinality,", b"all/", b"app-id/", b":", b"!="),
        longest=512,
    ),
    Target(
        name="placeholders",
        run=placeholders,
        errors=(),
        seeds=lambda: [b"lr,a.b\npython x.py {role} {{index}} {{{params.lr}}} ${HOME} {parms.lr} {params.no}"],
        tokens=(b"{role}", b"params.", b"{{", b"}}", b"${"),
        longest=512,
    ),
    Target(
        name="words",
        run=words,
        errors=(ValueError,),
        seeds=lambda: [
            b"worker:0",
            b"unix:/tmp/x.sock",
            b"tls:[::1]:443",
            b"tls:host:0",
            b"worker-0.s1.t2.out.1",
            b"/a/b::c/d#archive",
            b"hdfs://host/x",
        ],
        longest=256,
    ),
)
