"""Tests of `tony.hadoop.configuration.xml_file`: hostile and broken files, includes and their bounds."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tony.hadoop.configuration import ConfigurationError, xml_file
from tony.hadoop.configuration.xml_file import SiteXmlReader


def read(tmp_path: Path, text: str | bytes, name: str = "core-site.xml") -> dict[str, str | None]:
    """The properties of a file with this content."""
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return {each.name: each.value for each in SiteXmlReader(tmp_path).read(path)}


_BOMB = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10 if n else "lol"}">' for n in range(10))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"<!DOCTYPE configuration [{_BOMB}]><configuration>&l9;</configuration>", "declares the entity 'l0'"),
        (
            '<!DOCTYPE c [<!ENTITY x SYSTEM "file:///etc/passwd">]><configuration>&x;</configuration>',
            "declares the entity 'x'",
        ),
        ('<!DOCTYPE c [<!ENTITY % x SYSTEM "http://h/x"> %x;]><configuration/>', "declares the entity 'x'"),
        ('<!DOCTYPE c SYSTEM "http://h/x.dtd"><configuration>&x;</configuration>', "unknown entity 'x'"),
        ("<configuration>&x;</configuration>", "undefined entity"),
        ("<configuration><property></configuration>", ":1: not valid XML: mismatched tag"),
        ("", "no element found"),
        ("<html><body>Not found</body></html>", "starts with <html>"),
        ('<?xml version="1.0" encoding="no-such"?><configuration/>', "unknown encoding"),
        ("<configuration>" + "<a>" * 60, "deep"),
        (b"<configuration>\xff</configuration>", "not well-formed"),
        ('<configuration>\n<xi:include href="http://h/x.xml"/></configuration>', ":2: 'http://h/x.xml' is included"),
        ('<configuration><xi:include href="gone.xml"/></configuration>', "does not exist, and has no fallback"),
        ('<configuration><include href="core-site.xml"/></configuration>', "includes itself"),
        ('<configuration><include href="a&#10;b"/></configuration>', "does not exist"),
    ],
)
def test_invalid_files_are_refused_with_their_place(tmp_path: Path, text: str | bytes, said: str) -> None:
    """Entities of all sorts, other files than Hadoop's, remote includes, cycles."""
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, text)
    assert said in str(caught.value)
    assert "core-site.xml:" in str(caught.value)


def test_a_document_type_alone_is_harmless(tmp_path: Path) -> None:
    """Some tools write one; nothing is fetched."""
    text = '<!DOCTYPE c SYSTEM "http://h/x.dtd"><configuration><property name="a" value="&lt;"/></configuration>'
    assert {"a": "<"} == read(tmp_path, text)


def test_other_encodings_are_read(tmp_path: Path) -> None:
    text = '<?xml version="1.0" encoding="{}"?><configuration><property name="a" value="ä"/></configuration>'
    for encoding in ("iso-8859-1", "utf-16", "cp1252"):
        assert {"a": "ä"} == read(tmp_path, text.format(encoding).encode(encoding))


def test_an_included_file_is_searched_in_the_folder_first(tmp_path: Path) -> None:
    """Then beside the including file; absolute paths and file URLs are taken as they are. Lines are the file's own."""
    sub = tmp_path / "sub"
    sub.mkdir()
    (sub / "inner.xml").write_text(
        '<configuration><include href="who.xml"/><include href="beside.xml"/></configuration>'
    )
    (sub / "who.xml").write_text('<configuration><property name="who" value="beside"/></configuration>')
    (sub / "beside.xml").write_text('<configuration>\n\n<property name="b" value="1"/></configuration>')
    (tmp_path / "who.xml").write_text('<configuration><property name="who" value="folder"/></configuration>')
    path = tmp_path / "core-site.xml"
    path.write_text(f'<configuration><include href="file://{sub}/inner.xml"/></configuration>')
    found = SiteXmlReader(tmp_path).read(path)
    assert [("who", "folder"), ("b", "1")] == [(each.name, each.value) for each in found]
    assert (str(sub / "beside.xml"), 3) == (found[1].file, found[1].line)


def test_includes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In depth and in number: twenty files that all include the next one twice would be a million."""
    for number in range(40):
        include = f'<include href="f{number + 1}.xml"/>'
        (tmp_path / f"f{number}.xml").write_text(f"<configuration>{include * 2}</configuration>")
    (tmp_path / "f40.xml").write_text("<configuration/>")
    with pytest.raises(ConfigurationError, match="include one another"):
        SiteXmlReader(tmp_path).read(tmp_path / "f0.xml")
    with pytest.raises(ConfigurationError, match="more than 100 files"):
        SiteXmlReader(tmp_path).read(tmp_path / "f27.xml")
    monkeypatch.setattr(xml_file, "MAX_PROPERTIES", 3)
    with pytest.raises(ConfigurationError, match="more than 3 properties"):
        read(tmp_path, "<configuration>" + '<property name="a" value="b"/>' * 4 + "</configuration>")
    monkeypatch.setattr(xml_file, "MAX_BYTES", 10)
    with pytest.raises(ConfigurationError, match="larger than"):
        read(tmp_path, "<configuration>" + " " * 100 + "</configuration>")


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    """A folder with the name of a file, say."""
    with pytest.raises(ConfigurationError, match="cannot be read"):
        SiteXmlReader().read(tmp_path)


_PARTS = (
    *(f"<{slash}{name}>" for name in ("configuration", "property", "name", "value", "fallback") for slash in ("", "/")),
    *("a", "&lt;", "<![CDATA[", "<xi:include href='x'>", "</xi:include>"),
)


@settings(max_examples=200)
@given(
    st.lists(
        st.sampled_from(_PARTS),
        max_size=30,
    )
)
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    with contextlib.suppress(ConfigurationError):
        read(tmp_path_factory.getbasetemp(), "<configuration>" + "".join(parts) + "</configuration>")
