"""Our programs see the standard library and this package, whichever way they are started."""

import subprocess
import sys

import pytest

from tony import isolated_interpreter


def test_module_of_is_the_inverse_of_command() -> None:
    """An argv tells whether it is one of tony's processes."""
    assert (
        isolated_interpreter.module_of(isolated_interpreter.command("tony.executor.main", "a", "b"))
        == "tony.executor.main"
    )


@pytest.mark.parametrize(
    "argv", [[], ["sleep", "1"], [sys.executable, "-I", "-S", "-c", "print()", "x"], [sys.executable, "-c", "x"]]
)
def test_other_programs_are_none_of_ours(argv: list[str]) -> None:
    """Everything else is executed as it is."""
    assert isolated_interpreter.module_of(argv) is None


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_a_secluded_fork_has_the_path_of_a_fresh_interpreter() -> None:
    """No site-packages, no current folder, no PYTHONPATH."""
    code = "import sys; from tony import isolated_interpreter; isolated_interpreter.seclude(); print(sys.path)"
    fresh = "import sys; sys.path.pop(0); print([p for p in sys.path if not p.endswith('.zip')])"
    argv = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, ''); {fresh}"]
    standard = eval(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
    own, *others = eval(run(code).stdout)
    assert others == standard
    assert own == isolated_interpreter.command("x")[5]


@pytest.mark.parametrize(
    ("end", "code"),
    [("return 3", 3), ("return None", 0), ("sys.exit(4)", 4), ("sys.exit()", 0), ("sys.exit('no')", 1), ("1 / 0", 1)],
)
def test_a_fork_ends_as_the_program_would(end: str, code: int) -> None:
    """Exit codes are those of a fresh interpreter; what was printed is not lost; a bug shows its traceback."""
    module = f"def main():\\n    print('said'); {end}"
    program = (
        "import sys, types; from tony import isolated_interpreter\n"
        "module = types.ModuleType('made'); module.sys = sys\n"
        f"exec({module!r}.replace('\\\\n', chr(10)), module.__dict__); sys.modules['made'] = module\n"
        "isolated_interpreter.enter(isolated_interpreter.command('made'))"
    )
    done = run(program)
    assert (done.returncode, done.stdout) == (code, "said\n"), done.stderr
    assert ("ZeroDivisionError" in done.stderr) == ("/" in end)


def test_asyncio_is_loaded_without_openssl_and_openssl_is_there_afterwards() -> None:
    """4 MiB less in each process; our own TLS finds it all the same."""
    code = (
        "import sys; from tony import isolated_interpreter\n"
        "isolated_interpreter.load('asyncio'); print('_ssl' in sys.modules); "
        "import ssl; print(ssl.OPENSSL_VERSION_INFO > (1,))"
    )
    assert run(code).stdout.split() == ["False", "True"]
