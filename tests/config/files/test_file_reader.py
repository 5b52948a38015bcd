"""Tests of `config.files.file_reader`: whatever a person hands us as a job file gives a sentence, never a crash."""

from __future__ import annotations

import errno
import os
from itertools import pairwise
from pathlib import Path

import pytest

from tests.config.jobs import list_errors, problems, write
from tests.facts import mention_each
from tony.config.files.file_reader import MAX_FILE
from tony.config.load import load
from tony.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name = digits", 'job.toml:1:8: not valid TOML: name: text needs quotes, such as name = "digits".'),
        ("a = digits", 'job.toml:1:5: not valid TOML: a: text needs quotes, such as a = "digits".'),
        ("a = [1, b]", "job.toml:1:9: not valid TOML: Invalid value."),
        ("gitignore = yes # no", "job.toml:1:13: not valid TOML: gitignore = yes: write true or false."),
        (
            'name = "x"\n[roles.worker] # two of them\ninstances = two',
            "job.toml:3:13: not valid TOML: roles.worker.instances = two: write a whole number, such as 2.",
        ),
        ('command = "x"\nname: "y"', "job.toml:2:5: not valid TOML: Expected '=' after a key in a key/value pair."),
        ('name = "x', "job.toml:1:10: not valid TOML: the string is not closed (end of file)."),
        ('name = "x\na = 1', "job.toml:1:10: not valid TOML: the string is not closed."),
        ("name = 'x", "job.toml:1:10: not valid TOML: the string is not closed (end of file)."),
        ("a = [1,\n2\n", "job.toml:3:1: not valid TOML: Unclosed array (end of file)."),
        (
            "[roles.worker",
            "job.toml:1:14: not valid TOML: Expected ']' at the end of a table declaration (end of file).",
        ),
        ("= 1", "job.toml:1:1: not valid TOML: Invalid statement."),
        ('name = "a"\n\nname = "b"\n', "job.toml:3: `name` is set twice; first in line 1."),
        ("[roles.a]\n[env]\n[roles.a]", "job.toml:3: `roles.a` is set twice; first in line 1."),
        ("env.A = 1\nenv = 3", "job.toml:2: `env` is set twice; first in line 1."),
        ("env = { A = 1, A = 2 }", "job.toml:1: `env.A` is set twice; first in line 1."),
        ("env = { A = 1 }\n[env]\nB = 1", "job.toml:2:5: not valid TOML: Cannot declare ('env',) twice."),
        ("x = " + "9" * 5000, "job.toml: a number in it has too many digits."),
        ("x = " + "[" * 50_000, "job.toml: lists or tables are nested too deeply."),
    ],
    ids=lambda text: text[:30],
)
def test_toml_errors_have_line_and_column(tmp_path: Path, text: str, expected: str) -> None:
    """The message of `tomllib`; a duplicate key is reported with both lines."""
    assert [expected] == list_errors(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: b: c", "job.yaml:1:5: not valid YAML: mapping values are not allowed here."),
        (
            "a: [1",
            "job.yaml:1:6: not valid YAML: while parsing a flow sequence expected ',' or ']', but got '<stream end>'.",
        ),
        ("a: 1\nb: *c", "job.yaml:2:4: not valid YAML: found undefined alias 'c'."),
        ("a: \x01", "job.yaml:1:4: not valid YAML: an unprintable character."),
        ("- a\n- b", "job.yaml:1:1: write settings as `key: value`."),
        ("just text", "job.yaml:1:1: write settings as `key: value`."),
        ("name: a\nenv:\n  A: 1\n  A: 2", "job.yaml:4:3: `env.A` is set twice; first in line 3."),
        ("[a]: 1", "job.yaml:1:1: a key must be text."),
        (
            "name: !!python/name:os.system x",
            'job.yaml:1:7: tags such as "tag:yaml.org,2002:python/name:os.system" are not supported.',
        ),
        ("env: !mine {}", 'job.yaml:1:6: tags such as "!mine" are not supported.'),
        (
            "a: 1\n---\nb: 2",
            "job.yaml:2:1: not valid YAML: expected a single document in the stream but found another document.",
        ),
        ("a: &x [*x]", "job.yaml:1:4: lists or tables are nested too deeply."),
        ("a: &x\n  <<: *x", "job.yaml:1:1: a table is merged into itself."),
        ("a:\n  <<: 3", "job.yaml:2:7: `<<` takes a table, or a list of tables."),
        ("a: " + "[" * 20_000, "job.yaml:1:35: lists or tables are nested too deeply."),
    ],
    ids=lambda text: text[:30],
)
def test_yaml_errors_have_line_and_column(tmp_path: Path, text: str, expected: str) -> None:
    """The message of PyYAML, and those of tony for tags, duplicate keys and endless aliases."""
    assert [expected] == list_errors(tmp_path, text, name="job.yaml")


def test_aliases_cannot_grow_without_end(tmp_path: Path) -> None:
    """Six short lines would stand for half a million values."""
    lines = ["a: &a [x,x,x,x,x,x,x,x,x,x]"]
    for inner, name in pairwise("abcdef"):
        lines.append(f"{name}: &{name} [{','.join([f'*{inner}'] * 10)}]")
    found = list_errors(tmp_path, "\n".join(lines), name="job.yaml")
    assert mention_each([line.partition(": ")[2] for line in found], ("values", "aliases"))


def test_an_empty_file_lacks_only_a_command(tmp_path: Path) -> None:
    """Nothing is a fine table; what lacks the command is named."""
    expected = 'no command is set. Write command = "python train.py".'
    for name in ("job.toml", "job.yaml", "job.yml"):
        for text in ("", "\n", "# nothing\n"):
            assert [f"command ({name}): {expected}"] == list_errors(tmp_path, text, name=name)


def _refusal(path: str | Path, cwd: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(path, environ={}, cwd=cwd, site_files=[])
    return [str(problem) for problem in caught.value.problems]


def test_an_unusable_file_is_refused_with_its_reason(tmp_path: Path) -> None:
    """Missing, a folder, of another kind, not text, too large, an invalid name."""
    write(tmp_path, "", "folder/job.yaml")
    (tmp_path / "empty").mkdir()
    (tmp_path / "jobs.toml").mkdir()
    (tmp_path / "bytes.toml").write_bytes(b'name = "a"\ncommand = "\xff"\n')
    (tmp_path / "utf16.toml").write_bytes('name = "a"'.encode("utf-16"))
    (tmp_path / "large.toml").write_bytes(b"#" * (MAX_FILE + 1))
    (tmp_path / "loop.toml").symlink_to("loop.toml")
    assert [f"gone.toml: no such file in {tmp_path}; did you mean large.toml?"] == _refusal("gone.toml", tmp_path)
    assert [f"no/job.toml: no such file in {tmp_path}/no."] == _refusal("no/job.toml", tmp_path)
    assert mention_each(_refusal("folder", tmp_path), ("folder/job.yaml",))
    assert mention_each(_refusal("empty", tmp_path), ("empty", "a folder"))
    assert mention_each(_refusal("jobs.toml", tmp_path), ("jobs.toml", "a folder"))
    assert ["bytes.toml:2: this is not UTF-8 text: byte 0xff."] == _refusal("bytes.toml", tmp_path)
    assert ["utf16.toml:1: this is not UTF-8 text: byte 0xff."] == _refusal("utf16.toml", tmp_path)
    assert mention_each(_refusal("large.toml", tmp_path), ("1048576 bytes", "large.toml"))
    assert mention_each(_refusal("/dev/zero", tmp_path), ("1048576 bytes", "/dev/zero"))
    assert mention_each(_refusal("loop.toml", tmp_path), ("loop.toml", os.strerror(errno.ELOOP)))
    assert mention_each(_refusal("train.py", tmp_path), ("train.py", "LinkedIn TonY"))
    assert mention_each(_refusal("bytes.toml/x.toml", tmp_path), ("bytes.toml/x.toml", "not a folder"))
    assert mention_each(_refusal("a\0b.toml", tmp_path), ("a\\u0000b.toml", "file name"))
    assert mention_each(
        [problem.partition(": ")[2] for problem in _refusal(f"{'x' * 300}.toml", tmp_path)],
        (os.strerror(errno.ENAMETOOLONG),),
    )


def test_byte_order_marks_and_carriage_returns_are_accepted(tmp_path: Path) -> None:
    """Files from Windows are read, and their lines counted, like all others."""
    (tmp_path / "job.toml").write_bytes("\ufeffname = 'a'\r\ncommand = 'x'\r\nmax_restart = 1\r\n".encode())
    assert ["max_restart = 1 (job.toml:3): unknown key; did you mean `max_restarts`?"] == _refusal("job.toml", tmp_path)
    (tmp_path / "job.yml").write_bytes("\ufeffname: a\r\ncommand: x\r\nmax_restart: 1\r\n".encode())
    assert ["max_restart = 1 (job.yml:3): unknown key; did you mean `max_restarts`?"] == _refusal("job.yml", tmp_path)


def test_a_file_without_a_suffix_is_toml(tmp_path: Path) -> None:
    """A pipe from the shell has no name of its own."""
    assert "x" == load(write(tmp_path, "command = 'x'", "job"), environ={}, cwd=tmp_path, site_files=[]).spec.command


def test_missing_paths_are_errors(tmp_path: Path) -> None:
    """Sources, files and archives must exist; an interpreter may exist on the nodes only."""
    write(tmp_path, "", "venv/bin/python")
    os.mkfifo(tmp_path / "pipe")
    text = """
command = "x"
source = "gone"
python = "env.tar.gz"
files = ["gone", "..#archive", "pipe", "s3://host/x", "a::b::c", "x::", "x::../up", "~no-such-user/x", ""]
[roles.a]
python = "venv"
[roles.b]
python = "/opt/only/there/python3"
[roles.c]
python = "."
"""
    assert [
        ("source", f"{tmp_path}/gone does not exist."),
        ("python", f"{tmp_path}/env.tar.gz does not exist."),
        ("files[1]", "it has no name. Add one: path::name."),
        (
            "files[3]",
            (
                "s3:// is not supported. Addresses are hdfs://namenode/path, or hdfs:///path in the default file "
                "system. Copy the file to HDFS, or let the program read it."
            ),
        ),
        ("files[4]", "it has more than one `::`. Write path::name."),
        ("files[5]", "the new name '' must be a relative path inside the working directory."),
        ("files[6]", "the new name '../up' must be a relative path inside the working directory."),
        ("files[8]", "the path is empty."),
        ("files[0]", f"{tmp_path}/gone does not exist."),
        ("files[2]", f"{tmp_path}/pipe is neither a file nor a folder."),
        ("files[7]", f"{tmp_path}/~no-such-user/x does not exist."),
        ("roles.c.python", "this folder has no bin/python: it is neither an environment nor an interpreter."),
    ] == sorted(
        ((problem.key, problem.message) for problem in problems(tmp_path, text)),
        key=lambda found: (found[0][:5] != "sourc", found[0] != "python", found[0].startswith("roles")),
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("pipe", "{}/pipe is neither a folder nor an archive."),
        ("/dev/null", "/dev/null is neither a folder nor an archive."),
        ("one", "{}/one is a loop of symbolic links, or behind one. Fix the links."),
        ("one/inside", "{}/one/inside is a loop of symbolic links, or behind one. Fix the links."),
        ("x" * 5000, "the path is too long for the file system. Is it a path?"),
    ],
)
def test_a_pipe_as_source_is_an_error(tmp_path: Path, source: str, message: str) -> None:
    """A pipe would block its reader."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    (problem,) = problems(tmp_path, f'command = "x"\nsource = "{source}"\n')
    assert (problem.key, problem.message) == ("source", message.format(tmp_path))


def test_two_files_of_one_name_are_an_error(tmp_path: Path) -> None:
    """One would silently overwrite the other."""
    for name in ("a/data", "b/data", "c"):
        write(tmp_path, "", name)
    text = 'command = "x"\nfiles = ["a/data", "b/data", "b/data::other", "c::./data"]\n[roles.w]\nfiles = ["b/data"]'
    assert mention_each(
        list_errors(tmp_path, text),
        ('files[1] = "b/data" (job.toml:2)', "path::other-name"),
        ('files[3] = "c::./data" (job.toml:2)', "path::other-name"),
    )
