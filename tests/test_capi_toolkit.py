"""The toolkit directory: what is in it, and how programs are built with it."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from nonpu.capi import toolkit
from tests.command_line import needs_cpp, run

SOURCE = """
#include <cstdio>
#include "acl/acl.h"
#include "aclnnop/aclnn_swish_backward.h"
int main() { std::printf("%s\\n", aclrtGetSocName()); return aclInit(nullptr) || aclFinalize(); }
"""
# The library list and flags of the documented CMake project.
CMAKE = """
cmake_minimum_required(VERSION 3.14)
project(ACLNN_EXAMPLE)
add_compile_options(-std=c++11)
set(CMAKE_CXX_FLAGS_RELEASE "-fPIC -O2 -Wall")
set(CMAKE_SKIP_RPATH TRUE)
set(INCLUDE_BASE_DIR "$ENV{ASCEND_CUSTOM_PATH}/include")
include_directories(${INCLUDE_BASE_DIR} ${INCLUDE_BASE_DIR}/aclnn)
add_executable(program program.cpp)
foreach(NAME ascendcl nnopbase opapi_math opapi_nn)
    target_link_libraries(program PRIVATE "$ENV{ASCEND_CUSTOM_PATH}/lib64/lib${NAME}.so")
endforeach()
"""
VARIABLES = ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "LD_LIBRARY_PATH", "PYTHONPATH")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a source file that uses the runtime and an operator's header."""
    path = tmp_path / "program.cpp"
    path.write_text(SOURCE)
    return path


def assert_works(program: Path, home: str) -> None:
    """Run a program with nothing in its environment but the library path."""
    finished = run("/usr/bin/env", "-i", f"LD_LIBRARY_PATH={home}/lib64", program)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "Ascend910B1\n", "")


def test_home_looks_like_a_toolkit() -> None:
    """It has what build scripts look for, below the architecture's folder and at the top."""
    home = Path(toolkit.home())
    for root in (home, home / f"{os.uname().machine}-linux"):
        assert (root / "include" / "acl" / "acl.h").is_file()
        assert (root / "lib64" / "libacl_rt.so").is_file()
    arch = home / f"{os.uname().machine}-linux"
    assert (arch / "devlib" / "libacl_rt.so").is_file()
    assert (home / "include").is_symlink()
    assert (home / "lib64").is_symlink()
    assert (home / "set_env.sh").is_file()
    assert (home / "version.info").read_text().startswith("Version=")
    assert toolkit.build_id() in (home / "version.info").read_text()


@pytest.mark.parametrize("shell", ["bash", "dash", "sh"])
def test_set_env_exports_what_clients_read(shell: str, tmp_path: Path) -> None:
    """Sourced by any shell, it sets the variables and keeps what was in the lists."""
    if shutil.which(shell) is None:
        pytest.skip(f"this machine has no {shell}")
    home = toolkit.home()
    values = " ".join(f'"${name}"' for name in VARIABLES)
    script = f"set -eu; . {shlex.quote(home)}/set_env.sh; printf '%s\\n' {values}"
    finished = run(shell, "-c", script, cwd=tmp_path, env={"LD_LIBRARY_PATH": "/before", "PYTHONPATH": ""})
    assert finished.stderr == ""
    expected = [home, home, f"{home}/opp", f"{home}/lib64:/before", f"{home}/python/site-packages"]
    assert finished.stdout.splitlines() == expected


@needs_cpp
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_plain_compiler_line(compiler: str, program: Path) -> None:
    """A program built with the flags runs by hand, without any variable."""
    if shutil.which(compiler) is None:
        pytest.skip(f"this machine has no {compiler}")
    target = program.with_suffix("")
    finished = run(compiler, "-Wall", "-Wextra", "-Werror", program, *toolkit.cflags(), *toolkit.libs(), "-o", target)
    assert finished.returncode == 0, finished.stderr
    finished = run("/usr/bin/env", "-i", target)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "Ascend910B1\n", "")


@needs_cpp
@pytest.mark.parametrize(
    "libraries",
    [
        ["-lopapi_nn", "-lopapi_math", "-lascendcl", "-lnnopbase"],
        ["-lopapi_nn", "-lopapi_math", "-lacl_rt", "-lnnopbase"],
        ["-lacl_rt", "-lnnopbase", "-lopapi"],
    ],
)
def test_library_lists_of_the_documents(libraries: list[str], program: Path) -> None:
    """Each of the documented ways to link gives a program that needs only the library path."""
    home, target = toolkit.home(), program.with_suffix("")
    paths = [f"-I{home}/include", f"-I{home}/include/aclnnop", f"-I{home}/include/aclnn", f"-L{home}/lib64"]
    finished = run("c++", program, *paths, *libraries, "-o", target)
    assert finished.returncode == 0, finished.stderr
    assert_works(target, home)


@needs_cpp
@pytest.mark.parametrize("abi", ["0", "1"])
def test_flags_of_the_runtime_samples(abi: str, program: Path) -> None:
    """C++17, every warning an error, the older ABI of the standard library, libraries by their full paths."""
    home, target = toolkit.home(), program.with_suffix("")
    flags = ["-std=c++17", "-O2", "-Wall", "-Werror", f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
    libraries = [f"{home}/lib64/lib{name}.so" for name in ("acl_rt", "nnopbase", "opapi")]
    finished = run("c++", *flags, program, f"-I{home}/include", f"-I{home}/aclnn", *libraries, "-o", target)
    assert finished.returncode == 0, finished.stderr
    assert_works(target, home)


@needs_cpp
@pytest.mark.skipif(shutil.which("cmake") is None, reason="this machine has no CMake")
def test_cmake_project_of_the_documents(program: Path) -> None:
    """The documented project builds against the directory as it stands."""
    home, folder = toolkit.home(), program.parent
    (folder / "CMakeLists.txt").write_text(CMAKE)
    env = {"ASCEND_CUSTOM_PATH": home}
    build = str(folder / "build")
    for step in (["-S", str(folder), "-B", build, "-DCMAKE_BUILD_TYPE=Release"], ["--build", build]):
        finished = run("cmake", *step, env=env)
        assert finished.returncode == 0, finished.stdout + finished.stderr
        assert "warning" not in finished.stdout.lower()
    assert_works(folder / "build" / "program", home)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the built files, as a wheel has them: without links."""
    folder = tmp_path / "installed" / "toolkit"
    (folder / toolkit.ARCH / "lib64").mkdir(parents=True)
    original = Path(toolkit.home())
    library = Path(toolkit.ARCH) / "lib64" / "libascendcl.so"
    shutil.copy(original / library, folder / library)
    shutil.copytree(original / toolkit.ARCH / "include", folder / toolkit.ARCH / "include")
    shutil.copytree(original / "python", folder / "python", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(original / "version.info", folder)
    monkeypatch.setattr(toolkit, "PACKAGE", os.fspath(folder))
    return folder


def test_links_are_made_when_they_are_missing(package: Path) -> None:
    """An installed package is completed in place, once."""
    assert toolkit.home() == os.fspath(package)
    assert (package / "lib64" / "libopapi_cv.so").resolve() == package / toolkit.ARCH / "lib64" / "libascendcl.so"
    before = (package / "set_env.sh").stat().st_mtime_ns
    assert toolkit.home() == os.fspath(package)
    assert (package / "set_env.sh").stat().st_mtime_ns == before
    (package / "lib64").unlink()
    assert toolkit.home() == os.fspath(package)
    assert (package / "lib64" / "libacl_rt.so").is_file()
    (package / "set_env.sh").write_text("of another place")
    assert toolkit.home() == os.fspath(package)
    assert os.fspath(package) in (package / "set_env.sh").read_text()


def test_read_only_package_has_a_mirror_in_the_cache(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the package cannot be completed, a directory of links in the user's cache stands for it."""
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path / "cache"))
    monkeypatch.setattr(os, "access", lambda *_: False)
    home = Path(toolkit.home())
    assert home.is_relative_to(tmp_path / "cache")
    assert {path.name for path in package.iterdir()} == {toolkit.ARCH, "python", "version.info"}
    assert (home / "lib64" / "libopapi.so").resolve() == package / toolkit.ARCH / "lib64" / "libascendcl.so"
    assert (home / "include" / "aclnnop" / "aclnn_swish_backward.h").is_file()
    assert (home / "set_env.sh").is_file()
    code = "import acl; print(acl.rt.get_device_count())"
    finished = run(sys.executable, "-c", code, env={"PYTHONPATH": f"{home}/python/site-packages"})
    assert (finished.stdout, finished.stderr) == ("(1, 0)\n", "")
    assert toolkit.home() == os.fspath(home)


def test_package_that_was_not_built_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library there is no directory, but an error with its path."""
    monkeypatch.setattr(toolkit, "PACKAGE", os.fspath(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"libascendcl\.so"):
        toolkit.home()
