"""``nonpu run --product all``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nonpu import products
from nonpu.cli.every_product import Run
from tests.command_line import assert_refused, needs_cpp, nonpu

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

PROGRAM = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "acl/acl.h"
#include "aclnnop/aclnn_swish_backward.h"
int main(int argc, char **argv) {
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    aclInit(nullptr);
    if (argc > 1 && !std::strcmp(aclrtGetSocName(), argv[1])) std::abort();
    int64_t n = 2;
    float x[2] = {1, 2}, y[2];
    float one = 1;
    aclTensor *t = aclCreateTensor(&n, 1, ACL_BF16, nullptr, 0, ACL_FORMAT_ND, &n, 1, x);
    aclTensor *o = aclCreateTensor(&n, 1, ACL_BF16, nullptr, 0, ACL_FORMAT_ND, &n, 1, y);
    int status = aclnnSwishBackwardGetWorkspaceSize(t, t, aclCreateScalar(&one, ACL_FLOAT), o, &size, &executor);
    if (status) { std::printf("failed. ERROR: %d\\n", status); return 3; }
    std::fprintf(stderr, "planned\\n");
    return 0;
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a program that needs BFLOAT16 and never asks for the texts of its failures."""
    path = tmp_path / "program.cpp"
    path.write_text(PROGRAM)
    return path


def rows(finished: subprocess.CompletedProcess[str]) -> dict[str, list[str]]:
    """Return the table by product line: SoC, exit status and first error."""
    header, *lines = finished.stdout.split("\n\n", 1)[0].splitlines()
    assert header.split() == ["product", "SoC", "exit", "first", "error"]
    return {line.split()[0]: line.split(None, 3)[1:] for line in lines}


@needs_cpp
def test_every_product_line_has_a_row(program: Path) -> None:
    """Exit status and the library's own text, and each output once."""
    finished = nonpu("run", "--product", "all", program)
    assert finished.stderr == ""
    assert finished.returncode == 1
    table = rows(finished)
    assert list(table) == [line.line for line in products.LINES]
    for line in products.LINES:
        soc, status, error = table[line.line]
        works = line.has_bf16
        assert (soc, status) == (line.soc, "0" if works else "3")
        assert (error == "-") == works
        assert works or error.startswith("aclnnSwishBackwardGetWorkspaceSize: ")
    assert "\noutput on 950, A3, A2:\n  planned\n" in finished.stdout
    assert "\noutput on 310B, 310P, 910:\n  failed. ERROR: 161002\n" in finished.stdout


@needs_cpp
def test_a_program_that_crashes_has_a_row_as_well(program: Path) -> None:
    """128 + n after signal n, and the others go on; arguments reach the program."""
    table = rows(nonpu("run", "--product", "ALL", program, "--", "Ascend910_9391"))
    assert table["A3"][1:] == ["134", "ended by signal 6 (Aborted)"]
    assert table["A2"][1:] == ["0", "-"]


def test_python_and_executables(tmp_path: Path) -> None:
    """The last line that a failing program printed stands in where no call of the library failed."""
    script = tmp_path / "script.py"
    script.write_text("import os, sys\nprint(sys.argv[1])\nassert os.environ['NONPU_PRODUCT'] != 'Ascend310P1', 'no'\n")
    finished = nonpu("run", "--product", "all", script, "--", "word")
    table = rows(finished)
    assert finished.returncode == 1
    assert table["310P"][1:] == ["1", "AssertionError: no"]
    assert table["910"][1:] == ["0", "-"]
    assert "\noutput on 950, A3, A2, 310B, 910:\n  word\n" in finished.stdout
    finished = nonpu("run", "/bin/true", env={"NONPU_PRODUCT": "all"})
    assert finished.returncode == 0
    assert len(rows(finished)) == len(products.LINES)
    assert "no output on 950, A3, A2, 310B, 310P, 910" in finished.stdout


def test_programs_get_no_input_and_may_print_anything(tmp_path: Path) -> None:
    """Six runs cannot share one input; bytes that are no text are shown as such."""
    script = tmp_path / "script.sh"
    script.write_text("#!/bin/sh\ncat\nprintf '\\377\\n'\n")
    script.chmod(0o755)
    finished = nonpu("run", "--product", "all", script, text="input")
    assert finished.returncode == 0
    assert "  \N{REPLACEMENT CHARACTER}\n" in finished.stdout
    assert "input" not in finished.stdout


def test_other_names_are_refused_as_before(tmp_path: Path) -> None:
    """Only run knows the name all."""
    assert_refused(nonpu("ops", "--product", "all"), 2, "product must be")
    assert_refused(nonpu("run", "--product", "some", "/bin/true"), 2, "product must be")
    broken = tmp_path / "broken"
    broken.write_text("\x00")
    broken.chmod(0o755)
    finished = nonpu("run", "--product", "all", broken)
    assert finished.returncode == 1
    assert finished.stderr.count("\n") == 1
    assert "cannot be run" in finished.stderr


@pytest.mark.parametrize(
    ("status", "output", "errors", "expected"),
    [
        (0, "failed\n", "", ""),
        (0, "", "first: x\nsecond: y\n", "first: x"),
        (1, "a\n\n  b  \n\n", "", "b"),
        (1, "", "", "ended without a word"),
        (139, "", "", "ended by signal 11 (Segmentation fault)"),
    ],
)
def test_first_error(status: int, output: str, errors: str, expected: str) -> None:
    """The library's text comes first, then the program's last line, then how it ended."""
    assert Run("A2", status, output, errors).error == expected
