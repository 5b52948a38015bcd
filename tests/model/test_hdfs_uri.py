"""Addresses of files in HDFS are told from paths, and brought into one form."""

from __future__ import annotations

from pathlib import Path

import pytest

from tony.config.load import load
from tony.errors import ConfigError
from tony.model.file_entry import parse_file_entry
from tony.model.hdfs_uri import is_address, normalize_hdfs_uri, split_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("hdfs://nn:8020/a/b.zip", "hdfs://nn:8020/a/b.zip"),
        ("hdfs:///a//b/", "hdfs:///a/b"),
        ("hdfs:/a/b", "hdfs:///a/b"),
        ("HDFS://NameService1/a b?c", "hdfs://NameService1/a b?c"),
    ],
)
def test_one_form(text: str, address: str) -> None:
    """Whatever the slashes: a name of a file system, perhaps empty, and an absolute path."""
    assert is_address(text)
    assert normalize_hdfs_uri(text) == address
    assert normalize_hdfs_uri(address) == address
    assert "".join(split_address(address)) == address.replace("hdfs:///", "/")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("s3a://bucket/x", "s3a:// is not supported. Addresses are hdfs://namenode/path"),
        ("viewfs://table/x", "Write the hdfs:// address that it resolves to"),
        ("webhdfs://nn:9870/x", "write hdfs://"),
        ("swebhdfs://nn:9871/x", "write hdfs://"),
        ("file:///x", "without `file://`"),
        ("hdfs://nn", "is a whole file system"),
        ("hdfs:///", "is a whole file system"),
        ("hdfs:///a/../b", "must not contain `.` or `..`"),
    ],
)
def test_invalid_hdfs_uris_are_refused(text: str, words: str) -> None:
    assert is_address(text)
    with pytest.raises(ValueError, match="^.*" + words.replace(".", r"\.")):
        normalize_hdfs_uri(text)


@pytest.mark.parametrize("text", ["a/b", "/a:/b", "C:/x", "hdfs", "hdfs:", "./hdfs://"])
def test_paths_are_none(text: str) -> None:
    assert not is_address(text)


def test_a_job_file_may_name_them(tmp_path: Path) -> None:
    """Files, source and archives of Python; marks stay behind the address, in one order."""
    (tmp_path / "job.toml").write_text(
        "command = 'x'\nsource = 'hdfs:/src.zip'\npython = 'hdfs:///env.tar.gz'\n"
        "files = ['hdfs:///a/b.zip#archive', 'hdfs://nn/dir::lib#optional', 'hdfs:/b.jar#optional#archive', "
        "'gone.txt#optional']\n"
    )
    spec = load(tmp_path / "job.toml").spec
    assert (spec.source, spec.python) == ("hdfs:///src.zip", "hdfs:///env.tar.gz")
    assert spec.files == (
        "hdfs:///a/b.zip#archive",
        "hdfs://nn/dir::lib#optional",
        "hdfs:///b.jar#archive#optional",
        f"{tmp_path}/gone.txt#optional",
    )
    entry = parse_file_entry(spec.files[1])
    assert (entry.path, entry.name, entry.unpack, entry.optional) == ("hdfs://nn/dir", "lib", False, True)
    assert parse_file_entry("a#archive#archive").path == "a#archive"


def test_two_paths_of_one_name_are_an_error(tmp_path: Path) -> None:
    """Wherever they are; of folders in HDFS the files are copied, each under its own name."""
    (tmp_path / "x.npz").touch()
    files = "'hdfs:///a/lib', 'hdfs:///b/lib'"
    (tmp_path / "job.toml").write_text(f"command = 'x'\nfiles = [{files}]\n")
    assert len(load(tmp_path / "job.toml").spec.files) == 2
    (tmp_path / "job.toml").write_text(f"command = 'x'\nfiles = [{files}, 'x.npz', 'hdfs:///data/y::x.npz']\n")
    with pytest.raises(ConfigError, match=r"two files have the name x\.npz"):
        load(tmp_path / "job.toml")


def test_an_interpreter_in_hdfs_is_an_error(tmp_path: Path) -> None:
    """Only archives are copied to the nodes."""
    with pytest.raises(ConfigError, match="python must be an archive"):
        load(overrides={"command": "x", "python": "hdfs:///opt/bin/python3"})


def test_variables_of_containers() -> None:
    """They are names that a shell can set, none that tony sets, and no secrets."""
    spec = load(overrides={"command": "x", "container_env": {"FOO": "$BAR/x", "N": 1}}).spec
    assert spec.container_env == {"FOO": "$BAR/x", "N": "1"}
    with pytest.raises(ConfigError) as caught:
        load(overrides={"command": "x", "container_env": {"A-B": "x", "TASK_INDEX": "1", "HF_TOKEN": "hush"}})
    messages = [problem.message for problem in caught.value.problems]
    assert "letters, digits and `_`" in messages[0]
    assert "tony sets this variable" in messages[1]
    assert "Set it below [env]" in messages[2]
    assert "hush" not in str(caught.value)
