"""What names the old place of an environment names the new one afterwards, and nothing else is touched."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.storage.samples import snapshot, write_tree
from tony.errors import StorageError
from tony.storage.environments.environment_setup import relocate, require_suitable_packages

OLD = "/home/ann/.venvs/train"


def environment(prefix: Path, files: dict[str, str]) -> Path:
    config = f"home = /opt/python/bin\nversion = 3.11.7\ncommand = /opt/python/bin/python3 -m venv {OLD}\n"
    everything = {"pyvenv.cfg": config} | {f"bin/{name}": text for name, text in files.items()}
    return write_tree(prefix, {path: (text.encode(), 0o755) for path, text in everything.items()})


def text(prefix: Path, name: str) -> str:
    return (prefix / "bin" / name).read_text()


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (f"#!{OLD}/bin/python", "#!{new}/bin/python"),
        (f"#! {OLD}/bin/python3.11 -E", "#!{new}/bin/python3.11 -E"),
        (f"#!/bin/sh\n'''exec' {OLD}/bin/python \"$0\" \"$@\"\n' '''", "#!{new}/bin/python"),
        (f"#!/bin/sh\n'''exec' \"{OLD}/bin/python\" \"$0\" \"$@\"\n' '''", "#!{new}/bin/python"),
        ("#!/somewhere/else/bin/python", "#!{new}/bin/python"),  # an installer of an older place
        ("#!/usr/bin/env python", "#!/usr/bin/env python"),
        ("#!/usr/bin/python3", "#!/usr/bin/python3"),
        ("#!/opt/python/bin/python3", "#!/opt/python/bin/python3"),  # the Python that the environment borrows
        ("#!/bin/bash", "#!/bin/bash"),
        (
            "#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python' \"$0\" \"$@\"\n' '''",
            "#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python' \"$0\" \"$@\"\n' '''",
        ),
    ],
)
def test_first_lines(open_folder: Path, first: str, expected: str) -> None:
    """Scripts of the environment get its new Python, with their options; others keep theirs."""
    prefix = environment(open_folder / "e", {"tool": f"{first}\nprint('{OLD}')\n"})
    for _ in range(2):
        relocate(prefix)
        assert text(prefix, "tool") == f"{expected.format(new=prefix)}\nprint('{OLD}')\n"
    assert (prefix / "bin" / "tool").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("name", ["with blank", "l" * 150])
def test_places_that_no_first_line_can_hold(open_folder: Path, name: str) -> None:
    """The kernel cuts long first lines and splits at blanks: then the shell starts Python."""
    prefix = environment(open_folder / name, {"tool": f"#!{OLD}/bin/python -I\nthe rest\n"})
    relocate(prefix)
    (prefix / "bin" / "python").write_text('#!/bin/sh\necho python "$@"\n')
    (prefix / "bin" / "python").chmod(0o755)
    tool = str(prefix / "bin" / "tool")
    done = subprocess.run([tool, "a b"], capture_output=True, text=True, check=True)
    assert done.stdout == f"python -I {tool} a b\n"
    compile(text(prefix, "tool").replace("the rest", ""), "tool", "exec")  # and Python can still read it


def test_activate_and_config(open_folder: Path) -> None:
    """Every shell's activate script, and `pyvenv.cfg`; a longer name that begins alike is another place."""
    prefix = environment(
        open_folder / "e",
        {
            "activate": f'VIRTUAL_ENV="{OLD}"\nexport VIRTUAL_ENV\nX={OLD}2\n',
            "activate.csh": f"setenv VIRTUAL_ENV '{OLD}'\n",
            "activate.fish": f'set -gx VIRTUAL_ENV "{OLD}"\n',
            "activate_more": f"    export VIRTUAL_ENV={OLD}\n",
        },
    )
    relocate(prefix)
    assert text(prefix, "activate") == f'VIRTUAL_ENV="{prefix}"\nexport VIRTUAL_ENV\nX={OLD}2\n'
    assert text(prefix, "activate.csh") == f"setenv VIRTUAL_ENV '{prefix}'\n"
    assert text(prefix, "activate.fish") == f'set -gx VIRTUAL_ENV "{prefix}"\n'
    assert text(prefix, "activate_more") == f"    export VIRTUAL_ENV={prefix}\n"
    assert f"-m venv {prefix}\n" in (prefix / "pyvenv.cfg").read_text()
    assert "home = /opt/python/bin\n" in (prefix / "pyvenv.cfg").read_text()


def test_only_real_files_in_a_real_folder_are_touched(open_folder: Path) -> None:
    """A link in an archive must not make tony write into another user's file."""
    victims = write_tree(open_folder / "victims", {"tool": (f"#!{OLD}/bin/python\n".encode(), 0o755)})
    before = snapshot(victims)
    prefix = environment(open_folder / "e", {"x": ""})
    (prefix / "bin" / "tool").symlink_to(victims / "tool")
    relocate(prefix)
    second = environment(open_folder / "f", {})
    (second / "bin").symlink_to(victims)
    relocate(second)
    assert snapshot(victims) == before


def test_a_hard_linked_script_keeps_its_other_link(open_folder: Path) -> None:
    """Scripts are replaced, not written into."""
    prefix = environment(open_folder / "e", {"tool": f"#!{OLD}/bin/python\n"})
    (open_folder / "other").hardlink_to(prefix / "bin" / "tool")
    relocate(prefix)
    assert (open_folder / "other").read_text() == f"#!{OLD}/bin/python\n"


def test_binaries_are_left_alone(open_folder: Path) -> None:
    """What is not text is not looked into."""
    content = b"\x7fELF" + OLD.encode() + bytes(1000)
    prefix = write_tree(open_folder / "e", {"bin/tool": (content, 0o755)})
    relocate(prefix)
    assert (prefix / "bin" / "tool").read_bytes() == content


GLIBC, MUSL = ("manylinux", (2, 31)), ("musllinux", (1, 99))


@pytest.mark.parametrize(
    ("tags", "libc", "machine", "expected"),
    [
        (["py3-none-any"], MUSL, "x86_64", ""),
        (["cp311-cp311-manylinux_2_17_x86_64", "cp311-cp311-manylinux2014_x86_64"], GLIBC, "x86_64", ""),
        (["cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64"], GLIBC, "x86_64", ""),
        (["cp311-cp311-manylinux1_x86_64"], GLIBC, "x86_64", ""),
        (["cp311-cp311-linux_x86_64"], GLIBC, "x86_64", ""),
        (["cp311-cp311-musllinux_1_2_x86_64"], MUSL, "x86_64", ""),
        (["cp311-cp311-manylinux_2_35_x86_64"], GLIBC, "x86_64", "manylinux_2_35_x86_64, but .* glibc 2.31 on x86_64"),
        (["cp311-cp311-manylinux2014_x86_64"], MUSL, "x86_64", "has musl on x86_64"),
        (["cp311-cp311-musllinux_1_2_x86_64"], GLIBC, "x86_64", "has glibc 2.31"),
        (["cp311-cp311-manylinux2014_x86_64"], GLIBC, "aarch64", "x86_64, but .* on aarch64"),
        (["cp311-cp311-macosx_11_0_arm64"], GLIBC, "aarch64", "macosx_11_0_arm64"),
    ],
)
def test_packages_for_other_systems_are_named(
    open_folder: Path, tags: list[str], libc: tuple[str, tuple[int, int]], machine: str, expected: str
) -> None:
    text = "Wheel-Version: 1.0\n" + "".join(f"Tag: {tag}\n" for tag in tags)
    place = "lib/python3.11/site-packages/torch-2.9.0.dist-info/WHEEL"
    prefix = write_tree(open_folder / "e", {place: (text.encode(), 0o644)})
    if not expected:
        require_suitable_packages(prefix, "env.tar.gz", libc, machine)
        return
    with pytest.raises(StorageError, match=rf"env\.tar\.gz: its package torch 2\.9\.0 was built for .*{expected}"):
        require_suitable_packages(prefix, "env.tar.gz", libc, machine)
