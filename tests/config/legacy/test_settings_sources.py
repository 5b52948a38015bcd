"""Where LinkedIn TonY's settings come from, and what wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.jobs import write as write_file
from tests.config.legacy.jobs import COMMAND, NOWHERE, list_errors, notes, resolve, spec, write, xml
from tests.facts import mention_each, mentions
from tony.config.legacy.flags import Flags, parse
from tony.config.load import load
from tony.config.resolved_table import list_resolved_rows
from tony.errors import ConfigError

ONE = {**COMMAND, "tony.worker.instances": "1"}
QUEUE = "tony.yarn.queue"


def queue(folder: Path, user: str | None, site: str | None, *conf: str, final: tuple[str, ...] = ()) -> tuple[str, str]:
    """The queue that a job gets, and where it was set."""
    write(folder, {**ONE, **({} if user is None else {QUEUE: user})}, final=[QUEUE] if "user" in final else [])
    write(folder, {} if site is None else {QUEUE: site}, "site/tony-site.xml", final=[QUEUE] if "site" in final else [])
    flags = [f"--conf={QUEUE}={value}" for value in conf]
    environ = {"TONY_CONF_DIR": str(folder / "site")}
    resolved = load(flags=parse(flags), environ=environ, cwd=folder, site_files=[], overrides={"scheduler": "yarn"})
    return str(resolved.spec.scheduler_settings["queue"]), resolved.sources["scheduler.yarn.queue"]


def test_the_site_file_beats_the_users_file(tmp_path: Path) -> None:
    """It is read after it."""
    assert queue(tmp_path, "mine", "ours") == ("ours", f"{tmp_path}/site/tony-site.xml:2")


def test_a_users_final_value_is_kept(tmp_path: Path) -> None:
    assert queue(tmp_path, "mine", "ours", final=("user",)) == ("mine", "tony.xml:4")


def test_conf_overrides_all_files_even_final_values(tmp_path: Path) -> None:
    """As LinkedIn TonY has it: of two the last one."""
    assert queue(tmp_path, "mine", "ours", "a", "b", final=("user", "site")) == ("b", "--conf")


def test_values_of_several_places_are_appended(tmp_path: Path) -> None:
    """File, each --conf (LinkedIn TonY lost all but the last), and each flag; a later one of one name wins."""
    settings = {**ONE, "tony.execution.envs": "A=file,B=file,C"}
    conf = ("--conf", "tony.execution.envs=B=conf", "--conf", "tony.execution.envs=D=1,E=2")
    resolved = resolve(tmp_path, settings, *conf, "--shell_env", "D=flag")
    assert resolved.spec.env == {"A": "file", "B": "conf", "C": "", "D": "flag", "E": "2"}
    sources = {name: resolved.sources[f"env.{name}"] for name in "ABCDE"}
    assert sources == {"A": "tony.xml:4", "B": "--conf", "C": "tony.xml:4", "D": "--shell_env", "E": "--conf"}


def test_a_comma_in_a_flags_variable_is_a_part_of_it(tmp_path: Path) -> None:
    """LinkedIn TonY cut the value; several variables in one flag are still several."""
    flags = ("--shell_env", "HOSTS=a,b", "--shell_env", "X=1,Y=2", "--container_env", "P=1,2")
    job = spec(tmp_path, ONE, *flags)
    assert job.env == {"HOSTS": "a,b", "X": "1", "Y": "2"}
    assert job.container_env == {"P": "1,2"}


def test_files_of_every_place_are_there(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    key = "tony.containers.resources"
    job = spec(tmp_path, {**ONE, key: "a"}, "--conf", f"{key}=b", "--conf", f"{key}=c,")
    assert job.files == tuple(str(tmp_path / name) for name in ("a", "b", "c"))


def test_variables_of_the_environment_and_of_java_are_filled_in(tmp_path: Path) -> None:
    environ = {**NOWHERE, "WHO": "ann"}
    settings = {**ONE, "tony.application.name": "${env.WHO}-${tony.yarn.queue}", QUEUE: "ml"}
    assert spec(tmp_path, settings, environ=environ).name == "ann-ml"


def test_included_files_count(tmp_path: Path) -> None:
    """XInclude, beside the file; the place is the included file's."""
    write(tmp_path, {**ONE, "tony.worker.memory": "3g"}, "more.xml")
    text = '<configuration xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="more.xml"/></configuration>'
    write_file(tmp_path, text, "job.xml")
    resolved = load("job.xml", environ=NOWHERE, cwd=tmp_path, site_files=[])
    assert resolved.sources["roles.worker.memory"] == f"{tmp_path}/more.xml:4"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<configuration><property>", "job.xml:1: not valid XML: no element found"),
        ("<config/>", "job.xml:1: starts with <config>: a file of Hadoop's starts with <configuration>"),
        (
            '<!DOCTYPE c [<!ENTITY e SYSTEM "file:///etc/passwd">]><configuration>&e;</configuration>',
            "job.xml:1: declares the entity 'e'. Entities are refused; write the text itself.",
        ),
        (
            '<configuration xmlns:xi="x"><xi:include href="http://evil/x"/></configuration>',
            "job.xml:1: 'http://evil/x' is included; only files can be. Copy it into a file.",
        ),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, said: str) -> None:
    """One sentence, with the line; nothing else is told of the job."""
    write_file(tmp_path, text, "job.xml")
    with pytest.raises(ConfigError) as caught:
        load("job.xml", environ=NOWHERE, cwd=tmp_path, site_files=[])
    assert str(caught.value) == said


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load("job.xml", environ=NOWHERE, cwd=tmp_path, site_files=[])
    assert str(caught.value).startswith("job.xml: ")


def test_conf_without_equals_sign(tmp_path: Path) -> None:
    found = list_errors(tmp_path, ONE, "--conf", "tony.yarn.queue")
    assert found == ["--conf: `tony.yarn.queue`: write --conf key=value, such as --conf tony.worker.instances=2."]


def test_a_named_file_is_found_on_the_class_path(tmp_path: Path) -> None:
    """Unless there is one here; what is nowhere is missed here."""
    write_file(tmp_path / "conf", xml(ONE), "job.xml")
    environ = {**NOWHERE, "CLASSPATH": f"/nowhere:{tmp_path}/conf"}

    def place(file: str) -> str:
        flags = parse(["--executes", "echo", "--conf_file", file])
        return load(flags=flags, environ=environ, cwd=tmp_path, site_files=[]).sources["roles.worker.instances"]

    assert place("job.xml") == f"{tmp_path}/conf/job.xml:3"
    with pytest.raises(ConfigError, match=r"other\.xml: cannot be read: No such file or directory"):
        place("other.xml")
    write_file(tmp_path, xml(ONE), "job.xml")
    assert place("job.xml") == "job.xml:3"


def test_the_usual_file_is_found_on_the_class_path(tmp_path: Path) -> None:
    """Where LinkedIn TonY's scripts have it."""
    write(tmp_path, {**ONE, "tony.application.name": "found"}, "conf/tony.xml")
    environ = {**NOWHERE, "CLASSPATH": f"/nowhere/*:{tmp_path}/conf/*:x"}
    (tmp_path / "here").mkdir()
    resolved = load(flags=Flags(), environ=environ, cwd=tmp_path / "here", site_files=[])
    assert resolved.spec.name == "found"


def test_flags_alone_are_a_job(tmp_path: Path) -> None:
    """No file at all: one task runs the program."""
    resolved = load(flags=parse(["-executes", "echo"]), environ=NOWHERE, cwd=tmp_path, site_files=[])
    assert list(resolved.spec.effective_roles) == ["main"]
    assert resolved.sources["roles.main.command"] == "--executes"


def test_our_own_ways_count_more(tmp_path: Path) -> None:
    """`--set`, variables TONY_SET_..., and arguments of a call are laid over it; a site's rules hold."""
    environ = {**NOWHERE, "TONY_SET_ROLES__WORKER__MEMORY": "5g"}
    resolved = resolve(tmp_path, ONE, environ=environ, sets=["max_restarts=3"], overrides={"name": "x"})
    job = resolved.spec
    assert (job.roles["worker"].resources.memory, job.max_restarts, job.name) == (5 * 1024**3, 3, "x")
    site = write_file(tmp_path, "[limits]\ntotal_instances = 0\n", "tony.toml")
    write(tmp_path, ONE)
    with pytest.raises(ConfigError) as caught:
        load("tony.xml", environ=NOWHERE, cwd=tmp_path, site_files=[site])
    assert "this site allows 0" in str(caught.value)


def test_a_sites_defaults_lie_between(tmp_path: Path) -> None:
    """They take precedence over LinkedIn TonY's defaults, but not over the XML."""
    site = write_file(
        tmp_path, 'failure_policy = "any-tracked"\nframework = "jax"\nfinal = ["failure_policy"]\n', "t.toml"
    )
    write(tmp_path, {**ONE, "tony.application.framework": "pytorch"})
    resolved = load("tony.xml", environ=NOWHERE, cwd=tmp_path, site_files=[site])
    assert (resolved.spec.failure_policy.value, resolved.spec.framework) == ("any-tracked", "pytorch")
    write(tmp_path, {**ONE, "tony.application.fail-on-worker-failure-enabled": "true"})
    with pytest.raises(ConfigError) as caught:
        load("tony.xml", environ=NOWHERE, cwd=tmp_path, site_files=[site])
    assert mentions(str(caught.value), 'failure_policy = "any-task" (tony.xml:4)', "final", "site")


def test_every_value_is_shown_with_its_line(tmp_path: Path) -> None:
    """As `tony validate --resolved` has it."""
    rows = {row.key: (row.value, row.source) for row in list_resolved_rows(resolve(tmp_path, ONE))}
    assert rows["command"] == ('"python train.py"', "tony.xml:2")
    assert rows["roles.worker.instances"] == ("1", "tony.xml:3")
    assert rows["roles.worker.memory"] == ('"2g"', "tony-default.xml")
    assert rows["framework"] == ('"tensorflow"', "tony-default.xml")
    assert rows["tls"] == ('"auto"', "default")


def test_many_notes_share_one_sentence(tmp_path: Path) -> None:
    """Up to three are reported one by one, with the reasons."""
    keys = [f"tony.history.{name}" for name in ("location", "intermediate", "finished", "mover-interval-ms")]
    resolved = resolve(tmp_path, {**ONE, **dict.fromkeys(keys, "1"), "tony.secret.key": "s"})
    listed = ", ".join([*keys, "tony.secret.key"])
    said = f"5 settings have no effect here or mean something else ({listed}); "
    assert resolved.notices == (said + "`tony convert tony.xml [FLAGS]` explains why.",)
    three = resolve(tmp_path, {**ONE, **dict.fromkeys(keys[:3], "1")})
    assert [each.partition(" (")[0] for each in three.notices] == keys[:3]
    assert three.notices == tuple(map(str, three.notes))
    assert resolve(tmp_path, ONE).notices == ()


def test_a_secret_is_not_shown(tmp_path: Path) -> None:
    """Neither in an error nor in a note."""
    found = [
        *notes(tmp_path, {**ONE, "tony.secret.key": "geheim"}),
        *list_errors(tmp_path, {"tony.secret.kez": "geheim"}),
    ]
    assert found
    assert not any("geheim" in each for each in found)


def test_a_files_type_is_known_by_its_name(tmp_path: Path) -> None:
    write_file(tmp_path, xml(ONE), "JOB.XML")
    assert "worker" in load("JOB.XML", environ=NOWHERE, cwd=tmp_path, site_files=[]).spec.roles


def test_names_that_cannot_be_shown_are_escaped(tmp_path: Path) -> None:
    """Files, paths, settings: no error steers a terminal."""
    found = list_errors(tmp_path, {**ONE, "tony.\t99999999": "1"}, "--src_dir", "a\x07b")
    assert mention_each(
        found,
        ('tony.\\t99999999 = "1" (tony.xml:4)', "LinkedIn TonY"),
        ('source = "a\\u0007b" (--src_dir)', f"{tmp_path}/a\\x07b"),
    )
    with pytest.raises(ConfigError) as caught:
        load("\udcf8.xml", environ=NOWHERE, cwd=tmp_path, site_files=[])
    assert str(caught.value).isprintable()
