"""Tests of `tony.hadoop.configuration.settings`: which files are read, who wins, and where a value comes from."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from tony.address import Address
from tony.hadoop.configuration import Configuration, ConfigurationError
from tony.hadoop.configuration.settings import parse_bool, parse_int, parse_size


def site(folder: Path, name: str, text: str = "", **keys: str) -> Path:
    """Writes `<name>-site.xml`, one property a line from line 2 on; `__` in keys stands for a dot."""
    lines = [
        f"<property><name>{key.replace('__', '.')}</name><value>{value}</value></property>"
        for key, value in keys.items()
    ]
    path = folder / f"{name}-site.xml"
    path.write_text("\n".join(["<configuration>", *lines, text, "</configuration>"]))
    return path


def test_a_value_knows_file_and_line(tmp_path: Path) -> None:
    """The place is that of the property that won; others are told apart from it."""
    core = site(tmp_path, "core", a="1", fs__default__name="hdfs://old")
    yarn = site(tmp_path, "yarn", x="0", a="2")
    settings = Configuration.load(tmp_path, given={"g": "3"})
    assert ("2", f"{yarn}:3") == (settings.get("a"), settings.find_source("a"))
    assert f"{core}:3, as fs.default.name" == settings.find_source("fs.defaultFS")
    assert ("3", "given") == (settings.get("g"), settings.find_source("g"))
    assert "not set" == settings.find_source("nothing.of.the.kind")
    assert "Hadoop's default (yarn-default.xml)" == settings.find_source("yarn.resourcemanager.address")
    assert (core, yarn) == settings.files


def test_a_default_names_the_missing_file(tmp_path: Path) -> None:
    """A folder without a site file may be the wrong one."""
    site(tmp_path, "core", a="1")
    settings = Configuration.load(tmp_path)
    assert "Hadoop's default (core-default.xml)" == settings.find_source("fs.defaultFS")
    told = f"Hadoop's default (yarn-default.xml; there is no yarn-site.xml in {tmp_path})"
    assert told == settings.find_source("yarn.resourcemanager.address")
    assert "Hadoop's default (yarn-default.xml)" == Configuration.load().find_source("yarn.resourcemanager.address")


def test_the_site_files_have_an_order_and_final_ends_it(tmp_path: Path) -> None:
    """core, hdfs, yarn, mapred; a later file wins unless an earlier one said `final`; what is given wins over all."""
    final = "<property><name>f</name><value>core</value><final>true</final></property>"
    site(tmp_path, "core", final, k="core", m="core")
    site(tmp_path, "yarn", k="yarn", f="yarn")
    site(tmp_path, "mapred", k="mapred")
    (tmp_path / "other.xml").write_text("no XML, and of no interest")
    settings = Configuration.load(tmp_path)
    assert ("mapred", "core", "core") == (settings.get("k"), settings.get("m"), settings.get("f"))
    assert "mine" == Configuration.load(tmp_path, given={"f": "mine"}).get("f")


@pytest.mark.parametrize("name", ["HADOOP_CONF_DIR", "YARN_CONF_DIR", "HADOOP_HOME"])
def test_the_environment_names_the_folder(tmp_path: Path, name: str) -> None:
    """A folder that is given goes before all of them."""
    folder = tmp_path / "etc/hadoop" if name == "HADOOP_HOME" else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    site(folder, "core", where=name)
    environ = {name: str(tmp_path)}
    assert name == Configuration.load(environ=environ).get("where")
    given = tmp_path / "given"
    given.mkdir()
    assert None is Configuration.load(given, environ).get("where")


def test_a_missing_folder_is_reported_with_its_origin(tmp_path: Path) -> None:
    """No folder at all is no error: Hadoop's defaults remain."""
    with pytest.raises(ConfigurationError, match=r"HADOOP_CONF_DIR = .*gone: no such folder"):
        Configuration.load(environ={"HADOOP_CONF_DIR": str(tmp_path / "gone")})
    settings = Configuration.load(environ={"HADOOP_HOME": str(tmp_path)})
    assert (None, ()) == (settings.folder, settings.files)
    assert "0.0.0.0:8032" == settings.get("yarn.resourcemanager.address")


def test_an_invalid_value_is_reported_with_its_place(tmp_path: Path) -> None:
    """Key, value, file and line, and what is wanted."""
    path = site(tmp_path, "core", n="many", t="5 minutes", a="a b", e="")
    settings = Configuration.load(tmp_path)
    for read, key, wanted in (
        (settings.get_size, "n", "a size is wanted"),
        (settings.get_seconds, "t", "a time is wanted"),
    ):
        with pytest.raises(ConfigurationError, match=wanted) as caught:
            read(key)
        assert str(path) in str(caught.value)
    with pytest.raises(ConfigurationError, match="not an address"):
        settings.get_address("a", 1)
    with pytest.raises(ConfigurationError, match="has no value"):
        settings.get_size("missing")


def test_addresses_have_default_ports(tmp_path: Path) -> None:
    """Names, numbers, IPv6 in brackets, and URIs, as Hadoop takes them."""
    site(tmp_path, "core", a="h:1", b="h", c="[::1]:2", d="http://h:3/x", e=" h:4 ")
    settings = Configuration.load(tmp_path)
    assert Address(host="h", port=1) == settings.get_address("a", 9)
    assert Address(host="h", port=9) == settings.get_address("b", 9)
    assert Address(host="::1", port=2) == settings.get_address("c", 9)
    assert Address(host="h", port=3) == settings.get_address("d", 9)
    assert Address(host="h", port=4) == settings.get_address("e", 9)
    assert None is settings.get_address("missing", 9)


def test_a_time_without_unit_has_that_of_its_key() -> None:
    """`...ms` and `...millis` tell theirs; seconds otherwise."""
    given = {"a.ms": "1500", "b-ms": "10s", "c.millis": "5", "d-secs": "5", "e": "2m"}
    settings = Configuration.load(given=given)
    assert [1.5, 10.0, 0.005, 5.0, 120.0] == [settings.get_seconds(key) for key in given]


@pytest.mark.parametrize(
    ("text", "expected"), [("0x7f", 127), ("-5", -5), (" 7 ", 7), ("9223372036854775807", 2**63 - 1)]
)
def test_whole_numbers(text: str, expected: int) -> None:
    assert expected == parse_int(text)


@pytest.mark.parametrize("text", ["", "1_000", "٣", "1.0", "9223372036854775808", "0x" + "f" * 16])
def test_numbers_that_java_refuses(text: str) -> None:
    """Neither what Python would accept beyond Java, nor what does not fit."""
    with pytest.raises(ValueError, match="wanted"):
        parse_int(text)


def test_other_values() -> None:
    """Truth in any case, sizes beyond all bounds."""
    assert (True, False, None) == (parse_bool(" TRUE"), parse_bool("false"), parse_bool("yes"))
    with pytest.raises(ValueError, match="64 bits"):
        parse_size("8e")


def test_javas_properties_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that files use, such as the user's name in `hadoop.tmp.dir`; also for a user without a name."""
    user = pwd.getpwuid(os.getuid()).pw_name
    settings = Configuration.load(given={"a": "${java.io.tmpdir}${file.separator}${user.name}", "b": "${user.home}"})
    assert f"/tmp/{user}" == settings.get("a")
    assert f"/tmp/hadoop-{user}" == settings.get("hadoop.tmp.dir")
    assert str(Path.home()) == settings.get("b")

    def raise_key_error(_: int) -> object:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", raise_key_error)
    assert "/tmp/?" == settings.get("a")


def test_a_value_cannot_grow_without_end() -> None:
    """Twenty replacements are enough to fill a memory."""
    big = "x" * (1 << 19)
    settings = Configuration.load(given={"a": "${b}${b}${b}", "b": big})
    with pytest.raises(ConfigurationError, match="grows beyond"):
        settings.get("a")
