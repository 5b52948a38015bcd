"""What programs of any kind print before they end."""

from __future__ import annotations

from tony.diagnosis.rule import Rule
from tony.model.diagnosis import FailureKind

RULES = (
    Rule(
        name="usage",
        pattern=r": error: (unrecognized arguments|the following arguments are required|argument \S+|invalid choice|"
        r"ambiguous option|one of the arguments)|unrecognized option|unknown (command line )?flag|"
        r"^Error: (No such option|Missing (option|argument|parameter)|Invalid value for|Got unexpected extra argument)|"
        r"FATAL Flags parsing error",
        kind=FailureKind.USER_CODE,
        advice="correct the arguments of the command",
        source="cpython: Lib/argparse.py; click: src/click/exceptions.py; glibc: posix/getopt.c; absl-py: absl/app.py",
        examples=(
            "train.py: error: unrecognized arguments: --lerning-rate 1",
            "Error: No such option: --lerning-rate",
        ),
    ),
    Rule(
        name="java-memory",
        pattern=r"java\.lang\.OutOfMemoryError|There is insufficient memory for the Java Runtime Environment",
        kind=FailureKind.MEMORY,
        advice="give the JVM a larger heap, and the role more memory",
        source="JDK: hotspot/share/utilities/debug.cpp",
        examples=("# There is insufficient memory for the Java Runtime Environment to continue.",),
    ),
    Rule(
        name="java-exception",
        pattern=r"^(Exception in thread \"[^\"]*\" |Caused by: )[\w.$]+(Exception|Error)\b",
        kind=FailureKind.USER_CODE,
        retry=True,
        source="JDK: java.lang.ThreadGroup",
        examples=('Exception in thread "main" java.lang.IllegalStateException: x',),
    ),
    Rule(
        name="segmentation-fault",
        pattern=r"Segmentation fault|Fatal Python error: |\*\*\* Aborted at|double free or corruption|"
        r"terminate called|Illegal instruction|Floating point exception|SIGSEGV|stack smashing detected|"
        r"^Bus error|^Aborted|core dumped",
        kind=FailureKind.USER_CODE,
        retry=True,
        advice="a native library crashed: the traceback above, or PYTHONFAULTHANDLER, says where",
        source="glibc: malloc/malloc.c; cpython: Python/pylifecycle.c; bash: siglist.c",
        examples=("Segmentation fault (core dumped)", "Fatal Python error: Segmentation fault"),
    ),
    Rule(
        name="panic",
        pattern=r"^thread '.*' panicked at|^panic: |^fatal error: |^F\d{4} \d\d:\d\d:\d\d|^FATAL\b|^CRITICAL\b",
        kind=FailureKind.USER_CODE,
        retry=True,
        source="rust: library/std/src/panicking.rs; go: src/runtime/panic.go; glog: src/logging.cc",
        examples=("thread 'main' panicked at src/main.rs:2:5:", "panic: runtime error: index out of range [5]"),
    ),
    Rule(
        name="script-error",
        pattern=r"^(ERROR|Error|error|fatal)\b[: ]",
        kind=FailureKind.USER_CODE,
        retry=True,
        source="the convention of command line programs",
        examples=("error: something is wrong", "ERROR: no input"),
        traps=("error_rate 0.1", "errors 0"),
    ),
)
