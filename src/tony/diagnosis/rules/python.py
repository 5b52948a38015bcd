"""Python's own exceptions, and those of widely used libraries, as the last line of a traceback."""

from __future__ import annotations

from tony.diagnosis.rule import Rule
from tony.model.diagnosis import FailureKind, LineMeaning

#: The beginning of the last line of a traceback: the module of the class.
_HEAD = r"^([A-Za-z_]\w*\.)*"

RULES = (
    Rule(
        name="python-binary",
        pattern=_HEAD + r"ImportError: .*(undefined symbol|compiled against|numpy\.core\.multiarray failed to import)",
        kind=FailureKind.USER_CODE,
        advice="the module was built for another version of a library: install the build that fits it",
        source="glibc: elf/dl-lookup.c; numpy: numpy/_core/__init__.py",
        examples=("ImportError: /x/flash_attn_2_cuda.so: undefined symbol: _ZN2at4_ops5zeros4callE",),
        traps=("ImportError: cannot import name 'symbol'",),
    ),
    Rule(
        name="python-module",
        pattern=_HEAD + r"(ModuleNotFoundError|ImportError)\b",
        kind=FailureKind.USER_CODE,
        advice="install the module, or use a Python that has it: `python`, or the `image` of a container",
        source="cpython: Lib/importlib/_bootstrap.py",
        examples=("ModuleNotFoundError: No module named 'tranin'", "ImportError: cannot import name 'a'"),
        traps=("falling back, ImportError: no apex",),
    ),
    Rule(
        name="python-syntax",
        pattern=_HEAD + r"(SyntaxError|IndentationError|TabError)\b",
        kind=FailureKind.USER_CODE,
        advice="correct the line that the traceback shows",
        source="cpython: Parser/pegen_errors.c",
        examples=("SyntaxError: invalid syntax", "IndentationError: unexpected indent"),
        traps=("no SyntaxError found",),
    ),
    Rule(
        name="python-file",
        pattern=_HEAD + r"(FileNotFoundError|NotADirectoryError|IsADirectoryError|FileExistsError)\b",
        kind=FailureKind.USER_DATA,
        advice="check the path: relative ones start in the job's work folder, absolute ones must be on every node",
        source="cpython: Objects/exceptions.c",
        examples=("FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'",),
        traps=("ignored FileNotFoundError: a",),
    ),
    Rule(
        name="python-data",
        pattern=_HEAD + r"(JSONDecodeError|UnicodeDecodeError|BadZipFile|BadGzipFile|ParserError|EmptyDataError|"
        r"UnidentifiedImageError|ArrowInvalid|ArrowTypeError|zlib\.error|LZMAError|DecompressionBombError|"
        r"TokenizeError|YAMLError|ScannerError|ComposerError|ConstructorError|"
        r"TOMLDecodeError|MissingSectionHeaderError|ParquetError|DatabaseError: (file is not|database disk image)|"
        r"csv\.Error|struct\.error|EOFError|error: Error -\d while decompressing)",
        kind=FailureKind.USER_DATA,
        advice="the input is broken or of another format: check the file that the traceback names",
        source="cpython: Lib/json, Lib/zipfile; pandas: pandas/errors; pyarrow; pillow; pyyaml: yaml/scanner.py",
        examples=(
            "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
            "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        ),
        traps=("skipped: JSONDecodeError",),
    ),
    Rule(
        name="python-values",
        pattern=_HEAD + r"ValueError: (could not convert string to|invalid literal for|time data|Cannot load file|"
        r"This file contains pickled|"
        r".*\b[Nn]o (\w+ )?(files?|images|samples|records|rows|shards|data)\b.*\b(match|found|in)\b|"
        r"num_samples should be a positive|"
        r"[Ff]ound no |.*([Nn]a[Nn]|[Ii]nf)\b|.*cannot reshape array|.*corrupt|cannot convert float NaN)",
        kind=FailureKind.USER_DATA,
        advice="check the values in the input",
        source="cpython: Objects/floatobject.c, Objects/longobject.c; numpy",
        examples=("ValueError: could not convert string to float: 'abc'", "ValueError: Input contains NaN."),
        traps=("ValueError: unknown optimizer: adamm",),
    ),
    Rule(
        name="image-truncated",
        pattern=_HEAD
        + r"OSError: (image file is truncated|cannot identify image|broken data stream|unrecognized data)",
        kind=FailureKind.USER_DATA,
        advice="an image is broken: find and remove it",
        source="pillow: src/PIL/ImageFile.py",
        examples=("OSError: image file is truncated (5 bytes not processed)",),
        traps=("OSError: [Errno 5] Input/output error",),
    ),
    Rule(
        name="python-recursion",
        pattern=_HEAD + r"RecursionError\b",
        kind=FailureKind.USER_CODE,
        source="cpython: Objects/exceptions.c",
        examples=("RecursionError: maximum recursion depth exceeded",),
        traps=("raised the limit to avoid RecursionError",),
    ),
    Rule(
        name="exception-group",
        pattern=_HEAD + r"(Base)?ExceptionGroup: .*\(\d+ sub-exceptions?\)$",
        kind=FailureKind.USER_CODE,
        meaning=LineMeaning.SUMMARY,
        retry=True,
        source="cpython: Objects/exceptions.c (BaseExceptionGroup)",
        examples=("ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",),
        traps=("ExceptionGroup is new in Python 3.11",),
    ),
    Rule(
        name="python-timeout",
        pattern=_HEAD + r"(TimeoutError|TimeoutExpired|timeout)\b(:|$)",
        kind=FailureKind.TIMEOUT,
        retry=True,
        source="cpython: Objects/exceptions.c",
        examples=("TimeoutError: waited 5 s", "TimeoutError"),
        traps=("TimeoutErrors are counted: 3",),
    ),
    Rule(
        name="python-interrupt",
        pattern=_HEAD + r"(KeyboardInterrupt|SystemExit|asyncio\.CancelledError|CancelledError)\b",
        kind=FailureKind.KILLED,
        meaning=LineMeaning.CONSEQUENCE,
        retry=True,
        source="cpython: Objects/exceptions.c",
        examples=("KeyboardInterrupt",),
        traps=("stopping at KeyboardInterrupt",),
    ),
    Rule(
        name="python-code",
        pattern=_HEAD
        + r"(NameError|UnboundLocalError|AttributeError|TypeError|KeyError|IndexError|ValueError|AssertionError|"
        r"ZeroDivisionError|NotImplementedError|OverflowError|FloatingPointError|LookupError|ArithmeticError|"
        r"NotFittedError|NoSectionError|NoOptionError|UnsupportedOperation|FrozenInstanceError|PicklingError|"
        r"MissingMandatoryValue|ValidationError|ConfigError|ArgumentError)\b(:|$)|"
        + _HEAD
        + r"OSError: \[Errno (7|9|17|18|20|21|22|25|29|36|40|95)\]",
        kind=FailureKind.USER_CODE,
        source="cpython: Objects/exceptions.c",
        examples=("NameError: name 'x' is not defined", "AssertionError", "KeyError: 'label'"),
        traps=("ValueErrors were ignored",),
    ),
    Rule(
        name="python-exception",
        pattern=_HEAD + r"\w*(Error|Exception|Failure|Fault|Warning|Exit)(: .*|$)",
        kind=FailureKind.USER_CODE,
        retry=None,
        source="cpython: Lib/traceback.py",
        examples=("RuntimeError: boom", "my.module.CustomError: x", "Exception"),
        traps=("12:00 INFO no Error: here", "Errors: 3"),
    ),
)
