"""``nonpu run --check`` and NONPU_CHECK=1: programs with one mistake each, and programs without any."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nonpu.capi import toolkit
from nonpu.capi.misuse import findings
from tests.capi.programs import needs_c
from tests.command_line import ROOT, needs_cpp, nonpu, output, run

SOURCE = Path(__file__).parent / "capi" / "checked.c"
EXAMPLES = ROOT / "examples"
# By case of checked.c: the titles of what must be found, and nothing else.
MISUSES = {
    "leaks_tensor": [findings.LEFT_OBJECT],
    "leaks_scalar": [findings.LEFT_OBJECT],
    "leaks_array": [findings.LEFT_OBJECT],
    "leaks_list": [findings.LEFT_OBJECT],
    "leaks_memory": [findings.LEFT_MEMORY],
    "leaks_host_memory": [findings.LEFT_MEMORY],
    "leaks_executor": [findings.LEFT_EXECUTOR],
    "leaks_repeatable": [findings.LEFT_REPEATABLE],
    "leaks_stream": [findings.RESET_EARLY],
    "leaks_event": [findings.RESET_EARLY],
    "leaks_context": [findings.RESET_EARLY],
    "leaks_stream_of_context": [findings.RESET_EARLY],
    "leaks_device": [findings.LEFT_DEVICE],
    "leaks_initialisation": [findings.LEFT_INITIALISED],
    "reads_early": [findings.READ_EARLY],
    "reads_large_early": [findings.READ_EARLY],
    "overwrites": [findings.OVERWRITTEN],
    "frees_early": [findings.FREED_EARLY],
    "frees_workspace": [findings.FREED_EARLY],
    "small_workspace": [findings.WORKSPACE],
    "host_workspace": [findings.WORKSPACE],
    "unordered": [findings.UNORDERED],
    "destroys_between": [findings.DESTROYED_BETWEEN],
    "destroys_scalar_between": [findings.DESTROYED_BETWEEN],
    "runs_twice": [findings.EXECUTOR_TWICE],
    "other_operator": [findings.OTHER_OPERATOR],
    "ignores_status": [findings.FAILED, findings.IGNORED_STATUS],
    "frees_late": [findings.FREED_LATE],
    "no_init": [findings.NOT_INITIALISED],
    "after_finalize": [findings.AFTER_FINALIZE],
    "no_device": [findings.NO_CONTEXT],
    "overruns": [findings.OVERRUN],
    "underruns": [findings.OVERRUN],
    "overruns_host": [findings.OVERRUN],
    "copies_past": [findings.BEYOND],
    "fills_past": [findings.BEYOND, findings.OVERRUN],
    "reads_freed": [findings.USED_FREED],
    "writes_freed": [findings.USED_FREED],
    "plans_freed": [findings.USED_FREED],
    "view_past": [findings.BEYOND],
    "host_tensor": [findings.HOST_TENSOR],
    "destroys_twice": [findings.DESTROYED_TWICE],
    "destroys_element": [findings.DESTROYED_TWICE],
    "uses_destroyed": [findings.USED_DESTROYED],
    "foreign_handle": [findings.FOREIGN_HANDLE],
    "frees_host_as_device": [findings.WRONG_FREE],
    "frees_device_as_host": [findings.WRONG_FREE],
    "frees_twice": [findings.FREED_TWICE],
    "frees_inside": [findings.WRONG_FREE],
    "wrong_direction": [findings.WRONG_DIRECTION],
    "count_past_room": [findings.COUNT],
    "bad_device": [findings.FAILED],
    "many": [findings.LEFT_OBJECT],
}
# What would damage the heap of a program that is not checked.
HARMFUL = {"underruns", "writes_freed"}
NOTES = ["clean_initialised_twice", "incomplete_event"]
OTHERS = ["returns_three", "forks", "writes_without_newline", "threads"]
CLEAN = [
    name
    for name in re.findall(r"CASE\((\w+)\)", SOURCE.read_text().partition("cases[] = {")[2])
    if name not in (*MISUSES, *NOTES, *OTHERS)
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the executable of checked.c, with lines."""
    executable = tmp_path_factory.mktemp("checked") / "checked"
    compiler = os.environ.get("CC", "cc")
    flags = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", *toolkit.cflags()]
    finished = run(compiler, *flags, SOURCE, *toolkit.libs(), "-pthread", "-o", executable)
    assert finished.returncode == 0, finished.stderr
    return executable


def checked(program: Path, case: str) -> subprocess.CompletedProcess[str]:
    """Run a case without the command: the variable alone must do."""
    return run(program, case, env={"NONPU_CHECK": "1", "PYTHONPATH": ""})


def titles(report: str) -> list[str]:
    """Return what a report has found."""
    return [re.sub(r" \(\d+ times\)$", "", title) for title in re.findall(r"^\d+\. (.*)$", report, re.MULTILINE)]


@needs_c
class TestMisuse:
    """One mistake per program."""

    @pytest.mark.parametrize("case", MISUSES)
    def test_is_found_explained_and_placed(self, program: Path, case: str) -> None:
        finished = checked(program, case)
        assert titles(finished.stderr) == [kind.title for kind in MISUSES[case]], finished.stderr
        assert finished.returncode == 99
        for kind in MISUSES[case]:
            assert f"   why:  {kind.why}\n   mend: {kind.mend}\n" in finished.stderr
        if shutil.which("addr2line"):
            assert re.search(r"   at \w+ \(.*checked\.c:\d+ in \w+", finished.stderr), finished.stderr

    @pytest.mark.parametrize("case", sorted(MISUSES.keys() - HARMFUL))
    def test_nothing_is_said_without_the_variable(self, program: Path, case: str) -> None:
        finished = run(program, case, env={"NONPU_CHECK": "", "PYTHONPATH": ""})
        assert (finished.returncode, finished.stderr) == (0, "")

    def test_what_repeats_is_counted(self, program: Path) -> None:
        assert "1. object not destroyed (2 times)\n" in checked(program, "leaks_tensor").stderr

    def test_the_line_is_the_one_of_the_call(self, program: Path) -> None:
        if not shutil.which("addr2line"):
            pytest.skip("this machine has no addr2line")
        lines = SOURCE.read_text().splitlines()
        line = next(number for number, text in enumerate(lines, 1) if "AROUND(leaks_memory" in text)
        assert f"checked.c:{line} in leaks_memory, from " in checked(program, "leaks_memory").stderr

    def test_both_ends_are_named(self, program: Path) -> None:
        """Who read, and who was still to write."""
        report = checked(program, "reads_early").stderr
        assert re.search(r"at aclrtMemcpy .*\n   it is written by aclnnSigmoidBackward ", report), report

    def test_bytes_are_named(self, program: Path) -> None:
        assert "bytes 0 to 1 behind the end changed, of this block of 24 bytes" in checked(program, "overruns").stderr
        assert "bytes -1 to 0 changed, before this block of 24 bytes" in checked(program, "underruns").stderr
        assert "bytes 0 to 48 are read in a block of 24 bytes" in checked(program, "copies_past").stderr


@needs_c
class TestCorrectPrograms:
    """Nothing is said about them, and nothing changes."""

    @pytest.mark.parametrize("case", CLEAN)
    def test_is_silent(self, program: Path, case: str) -> None:
        finished = checked(program, case)
        assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")

    @pytest.mark.parametrize("case", ["threads", "forks"])
    def test_threads_and_children(self, program: Path, case: str) -> None:
        """A child does not answer for what its parent has made."""
        finished = checked(program, case)
        assert (finished.returncode, finished.stderr) == (0, "")

    @pytest.mark.parametrize("case", NOTES)
    def test_failure_that_may_happen_is_a_note(self, program: Path, case: str) -> None:
        finished = checked(program, case)
        assert finished.returncode == 0
        assert finished.stderr.startswith("nonpu check: 0 misuses, 1 note\n")

    @needs_cpp
    @pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.cpp")), ids=lambda path: path.stem)
    def test_examples(self, example: Path, tmp_path: Path) -> None:
        cache = {"XDG_CACHE_HOME": str(tmp_path)}
        assert output("run", "--check", example, env=cache) == output("run", example, env=cache)

    @needs_cpp
    def test_program_of_a_document(self, swish_program: Path, tmp_path: Path) -> None:
        assert "result[0] is" in output("run", "--check", swish_program, env={"XDG_CACHE_HOME": str(tmp_path)})


@needs_c
class TestExitStatus:
    """99 only instead of 0."""

    def test_programs_own_status_stays(self, program: Path) -> None:
        finished = checked(program, "returns_three")
        assert finished.returncode == 3
        assert findings.LEFT_DEVICE.title in titles(finished.stderr)

    def test_output_in_buffers_is_not_lost(self, program: Path) -> None:
        finished = checked(program, "writes_without_newline")
        assert (finished.returncode, finished.stdout) == (99, "not flushed yet")

    @pytest.mark.parametrize("value", ["", "0"])
    def test_off(self, program: Path, value: str) -> None:
        finished = run(program, "leaks_memory", env={"NONPU_CHECK": value, "PYTHONPATH": ""})
        assert (finished.returncode, finished.stderr) == (0, "")


@needs_c
class TestCommand:
    """``nonpu run --check``."""

    def test_source_is_compiled_and_checked(self, tmp_path: Path) -> None:
        cache = {"XDG_CACHE_HOME": str(tmp_path)}
        finished = nonpu("run", SOURCE, "--check", "--", "reads_early", env=cache)
        assert finished.returncode == 99
        assert titles(finished.stderr) == [findings.READ_EARLY.title]

    def test_executable(self, program: Path) -> None:
        assert nonpu("run", "--check", program, "--", "clean").returncode == 0
        assert nonpu("run", "--check", program, "--", "overruns").returncode == 99

    def test_every_product(self, program: Path) -> None:
        finished = nonpu("run", "--check", "--product", "all", program, "--", "leaks_array")
        assert finished.returncode == 1
        assert finished.stdout.count(" 99  nonpu check: 1 misuse; first: object not destroyed") == 6
        assert nonpu("run", "--check", "--product", "all", program, "--", "clean_list").returncode == 0

    def test_program_that_loads_the_library_itself(self, tmp_path: Path) -> None:
        source = tmp_path / "loader.c"
        source.write_text(
            "#include <dlfcn.h>\n"
            "int main(void) {\n"
            '    void *library = dlopen("libascendcl.so", RTLD_NOW);\n'
            '    int (*init)(const char *) = (int (*)(const char *))dlsym(library, "aclInit");\n'
            "    return init(0);\n"
            "}\n"
        )
        finished = nonpu("run", "--check", source, env={"XDG_CACHE_HOME": str(tmp_path), "CFLAGS": "-ldl"})
        assert (finished.returncode, titles(finished.stderr)) == (99, [findings.LEFT_INITIALISED.title])

    @needs_cpp
    def test_objects_of_static_lifetime_are_destroyed_before_the_report(self, tmp_path: Path) -> None:
        source = tmp_path / "holder.cpp"
        source.write_text(
            '#include "acl/acl.h"\n#include "aclnn/acl_meta.h"\n'
            "struct Holder { aclTensor *tensor = nullptr; ~Holder() { aclDestroyTensor(tensor); } } holder;\n"
            "int main() {\n"
            "    int64_t shape[] = {1};\n"
            "    aclInit(nullptr);\n"
            "    holder.tensor = aclCreateTensor(shape, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, 1, nullptr);\n"
            "    return aclFinalize();\n"
            "}\n"
        )
        assert output("run", "--check", source, env={"XDG_CACHE_HOME": str(tmp_path)}) == ""


class TestPython:
    """Scripts: module acl, nonpu.aclnn."""

    @pytest.mark.parametrize("name", ["pyacl_swish", "two_phase"])
    def test_examples_are_silent(self, name: str) -> None:
        output("run", "--check", EXAMPLES / f"{name}.py")

    def test_script_is_told_its_lines(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text(
            "import acl\n"
            "acl.init()\n"
            "acl.rt.set_device(0)\n"
            "def work():\n"
            "    return acl.rt.malloc(24, 0)[0]\n"
            "address = work()\n"
            "acl.rt.memset(address, 28, 0, 28)\n"
            "acl.rt.reset_device(0)\n"
            "acl.finalize()\n"
            "print('done')\n"
        )
        finished = nonpu("run", "--check", script)
        assert (finished.returncode, finished.stdout) == (99, "done\n")
        assert titles(finished.stderr) == [
            kind.title for kind in (findings.BEYOND, findings.OVERRUN, findings.LEFT_MEMORY)
        ]
        assert f"at aclrtMemset ({script}:7 in <module>)" in finished.stderr
        assert f"of aclrtMalloc ({script}:5 in work)" in finished.stderr

    def test_status_of_the_script_stays(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text("import acl\nacl.init()\nraise SystemExit(5)\n")
        assert nonpu("run", "--check", script).returncode == 5

    def test_objects_of_python_are_its_own(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text(
            "import numpy as np, nonpu\n"
            "from nonpu import Tensor, aclnn\n"
            "x = np.ones(4, np.float32)\n"
            "tensors = [Tensor.from_numpy(x.copy()) for _ in range(3)]\n"
            "size, executor = aclnn.aclnnSigmoidBackwardGetWorkspaceSize(*tensors)\n"
            "executor.set_repeatable()\n"
            "executor.run()\n"
            "nonpu.sigmoid_backward(x, x)\n"
        )
        assert output("run", "--check", script) == ""


def test_every_finding_is_documented() -> None:
    """docs/checking.md has the words of the report."""
    page = (ROOT / "docs" / "checking.md").read_text(encoding="utf-8")
    for kind in vars(findings).values():
        if isinstance(kind, findings.Kind):
            assert f"| {kind.title} | {kind.why} | {kind.mend} |" in page
