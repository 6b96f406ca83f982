"""The examples and the documents' own program print the documented results, whichever way they are built."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nonpu.capi import toolkit
from tests.command_line import NONPU, ROOT, needs_cpp, nonpu, output, run

EXAMPLES = ROOT / "examples"
# The documents print in FLOAT; the exact value of the fourth result lies between the two sixth decimals.
SWISH = [r"0\.956367", r"1\.097810", r"1\.077638", r"1\.0405(89|90)", r"1\.018224", r"1\.007596"]
DOCUMENTED = {
    "leaky_relu_backward": [f"result[{i}] is: {value}.000000" for i, value in enumerate(("2", "3", "4", "5"))],
    "sigmoid_backward": [f"result[{i}] is: {value}.000000" for i, value in enumerate(("0", "-2", "-6", "-12"))],
}

CMAKE = """\
cmake_minimum_required(VERSION 3.14)
project(ACLNN_EXAMPLE)
add_compile_options(-std=c++11)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "./bin")
set(CMAKE_CXX_FLAGS_DEBUG "-fPIC -O0 -g -Wall")
set(CMAKE_CXX_FLAGS_RELEASE "-fPIC -O2 -Wall")
add_executable(opapi_test swish.cpp)
if(NOT "$ENV{ASCEND_CUSTOM_PATH}" STREQUAL "")
    set(ASCEND_PATH $ENV{ASCEND_CUSTOM_PATH})
else()
    set(ASCEND_PATH "/usr/local/Ascend/cann")
endif()
set(INCLUDE_BASE_DIR "${ASCEND_PATH}/include")
include_directories(${INCLUDE_BASE_DIR} ${INCLUDE_BASE_DIR}/aclnn)
target_link_libraries(opapi_test PRIVATE ${ASCEND_PATH}/lib64/libascendcl.so ${ASCEND_PATH}/lib64/libnnopbase.so
    ${ASCEND_PATH}/lib64/libopapi_math.so ${ASCEND_PATH}/lib64/libopapi_nn.so)
install(TARGETS opapi_test DESTINATION ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
"""

compilers = pytest.mark.parametrize(
    "compiler",
    [
        pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"this machine has no {name}"))
        for name in ("g++", "clang++")
    ],
)


def assert_swish(printed: str) -> None:
    """Check the lines of the Swish document."""
    lines = printed.splitlines()
    assert len(lines) == len(SWISH), printed
    for i, (line, value) in enumerate(zip(lines, SWISH, strict=True)):
        assert re.fullmatch(rf"out result\[{i}\] is: {value}", line), line


def toolkit_only() -> dict[str, str]:
    """Return an environment in which LD_LIBRARY_PATH is all that points to nonpu."""
    return {"LD_LIBRARY_PATH": f"{output('home').strip()}/lib64"}


def run_alone(program: Path) -> str:
    """Run a program in that environment, from a folder that has nothing to do with nonpu, and return its output."""
    finished = subprocess.run([program], env=toolkit_only(), cwd="/", capture_output=True, text=True, timeout=60)
    assert (finished.returncode, finished.stderr) == (0, "")
    return finished.stdout


@needs_cpp
class TestCppExamples:
    """examples/*.cpp."""

    @pytest.mark.parametrize("name", sorted(DOCUMENTED))
    def test_example_prints_the_documented_results(self, tmp_path: Path, name: str) -> None:
        printed = output("run", EXAMPLES / f"{name}.cpp", env={"XDG_CACHE_HOME": str(tmp_path)})
        # The product with 0 may be -0.
        assert printed.replace("-0.000000", "0.000000").splitlines() == DOCUMENTED[name]

    def test_swish_example_prints_the_documented_results(self, tmp_path: Path) -> None:
        assert_swish(output("run", EXAMPLES / "swish_backward.cpp", env={"XDG_CACHE_HOME": str(tmp_path)}))

    @compilers
    @pytest.mark.parametrize("standard", ["c++11", "c++20"])
    @pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.cpp")), ids=lambda path: path.stem)
    def test_example_compiles_without_a_warning(
        self, tmp_path: Path, example: Path, standard: str, compiler: str
    ) -> None:
        flags = toolkit.cflags()
        strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-std={standard}"]
        finished = run(compiler, *strict, *flags, "-c", example, "-o", tmp_path / "example.o")
        assert (finished.returncode, finished.stderr) == (0, "")


class TestDocumentsProgram:
    """The Swish document's own program, unmodified."""

    @compilers
    def test_through_nonpu_run(self, swish_program: Path, tmp_path: Path, compiler: str) -> None:
        assert_swish(output("run", swish_program, env={"CXX": compiler, "XDG_CACHE_HOME": str(tmp_path / "cache")}))

    @compilers
    @pytest.mark.skipif(" " in str(ROOT), reason="a shell splits $(nonpu flags) at spaces")
    def test_through_a_plain_compiler_line(self, swish_program: Path, tmp_path: Path, compiler: str) -> None:
        finished = run("sh", "-c", f'{compiler} swish.cpp $("{NONPU}" flags) -o swish', cwd=tmp_path)
        assert (finished.returncode, finished.stderr) == (0, "")
        assert_swish(run_alone(tmp_path / "swish"))

    @compilers
    @pytest.mark.skipif(shutil.which("cmake") is None, reason="this machine has no cmake")
    def test_through_a_cmake_project_like_the_documented_one(
        self, swish_program: Path, tmp_path: Path, compiler: str
    ) -> None:
        (tmp_path / "CMakeLists.txt").write_text(CMAKE)
        env = {"ASCEND_CUSTOM_PATH": output("home").strip()}
        options = [f"-DCMAKE_CXX_COMPILER={compiler}", "-DCMAKE_SKIP_RPATH=TRUE", "-DCMAKE_BUILD_TYPE=Release"]
        for step in (["-S", ".", "-B", "build", *options], ["--build", "build"]):
            finished = run("cmake", *step, env=env, cwd=tmp_path)
            assert finished.returncode == 0, finished.stdout + finished.stderr
            assert "warning" not in finished.stdout + finished.stderr
        (program,) = tmp_path.rglob("opapi_test")
        assert_swish(run_alone(program))

    def test_after_sourcing_the_environment_script(self, swish_program: Path, tmp_path: Path) -> None:
        compiler = next(filter(None, map(shutil.which, ("g++", "clang++"))), None)
        if compiler is None:
            pytest.skip("this machine has no C++ compiler")
        line = (
            f'. "$("{NONPU}" home)/set_env.sh" && "{compiler}" swish.cpp -I "$ASCEND_HOME_PATH/include"'
            ' -L "$ASCEND_HOME_PATH/lib64" -lopapi_nn -lopapi_math -lascendcl -lnnopbase -o swish && ./swish'
        )
        finished = run("bash", "-c", line, cwd=tmp_path)
        assert (finished.returncode, finished.stderr) == (0, "")
        assert_swish(finished.stdout)


class TestPythonExamples:
    """examples/*.py."""

    def test_two_phase_script_prints_the_same_values_and_a_refusal(self) -> None:
        printed = output("run", EXAMPLES / "two_phase.py")
        numbers = re.findall(r"\d\.\d{5,}", printed)
        for number, value in zip(
            numbers[:6], (0.956367, 1.097810, 1.077638, 1.040590, 1.018224, 1.007596), strict=True
        ):
            assert abs(float(number) - value) < 2e-6
        assert "status 161002 ACLNN_ERR_PARAM_INVALID" in printed

    @pytest.mark.slow
    def test_gradients_script_draws_a_picture_and_stays_within_the_bounds(self, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        pytest.importorskip("mpmath")
        picture = tmp_path / "picture.png"
        env = {"MPLCONFIGDIR": str(tmp_path)}
        finished = nonpu("run", EXAMPLES / "gradients.py", "--", picture, env=env)
        assert finished.returncode == 0, finished.stderr
        errors = [float(text) for text in re.findall(r"largest error (\S+) ULP", finished.stdout)]
        assert len(errors) == 6
        assert max(errors) <= 4  # the bound of FLOAT Swish, the widest of the six
        assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert picture.stat().st_size > 20_000
