"""Hosts in unusual circumstances, processes with another Python or another nonpu: statuses and texts, no crash."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from nonpu.capi import toolkit
from tests.capi.programs import cases, needs_c, run_case
from tests.command_line import needs_cpp, run

HOME = Path(toolkit.home())
PACKAGE = Path(toolkit.__file__).parents[1]
LIBRARY = HOME / "lib64" / "libopapi.so"
# How the processes end whose case does not return: by the status that the host chose, or by its signal.
ENDS = {
    "an_interrupt_ends_the_host": -signal.SIGINT,
    "exit_with_queued_work": 7,
    "quick_exit_with_queued_work": 7,
    "exit_at_once_with_queued_work": 7,
    "abort_with_queued_work": -signal.SIGABRT,
    "exit_in_a_host_function": 7,
    "exit_in_another_thread": 7,
    "the_main_thread_ends_first": 7,
    "calls_at_exit": 7,
}
# What other programs may have set: for another Python, another locale, another installation.
FOREIGN = [
    {"PYTHONHOME": "/nonexistent", "PYTHONPATH": "/nonexistent", "PYTHONPLATLIBDIR": "nowhere"},
    {"PYTHONMALLOC": "debug", "PYTHONDEVMODE": "1", "PYTHONTRACEMALLOC": "9", "PYTHONFAULTHANDLER": "1"},
    {"PYTHONVERBOSE": "1", "PYTHONINSPECT": "1", "PYTHONOPTIMIZE": "2", "PYTHONWARNINGS": "error"},
    {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "warn", "PYTHONHASHSEED": "x"},
    {"LC_ALL": "tr_TR.UTF-8", "LANG": "xx", "LANGUAGE": "de"},
    {"HOME": "/nonexistent", "TMPDIR": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent", "USER": ""},
    {"LD_LIBRARY_PATH": "/nonexistent:/usr/lib", "LD_BIND_NOW": "1", "MALLOC_PERTURB_": "165"},
    {"NONPU_NUM_THREADS": "1000000", "NONPU_CPU_LEVEL": "", "NONPU_ERRORS": "/nonexistent/file"},
]
CLIENT = """
import ctypes, os, sys
front = ctypes.CDLL(os.environ["NONPU_LIBRARY"])
front.aclGetRecentErrMsg.restype = ctypes.c_char_p
status = front.aclInit(None)
text = (front.aclGetRecentErrMsg() or b"").decode()
sys.stdout.write("%d %d %s" % (status, front.aclrtSetDevice(0), text))
"""


@needs_c
@pytest.mark.parametrize("case", cases("surroundings.c"))
def test_circumstances(case: str, tmp_path: Path) -> None:
    """Little stack, no files, no memory, no threads, signals, and every end of a process with work in its queue."""
    finished = run_case("surroundings.c", case, tmp_path)
    assert (finished.returncode, finished.stdout, finished.stderr) == (ENDS.get(case, 0), "", "")


@needs_c
@pytest.mark.parametrize("environment", FOREIGN, ids=lambda environment: next(iter(environment)))
def test_environment_of_other_programs(environment: dict[str, str], tmp_path: Path) -> None:
    """A host's interpreter reads no variable that was meant for another Python, and says nothing."""
    env = {"NONPU_LIBRARY": str(LIBRARY), **environment}
    finished = run_case("hosts.c", "a_plain_host", tmp_path, env)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


@needs_c
def test_folder_of_the_host_is_not_searched(tmp_path: Path) -> None:
    """Modules that lie in the folder a host runs in are not those that the library imports."""
    for name in ("nonpu", "json", "typing", "encodings", "site", "sitecustomize", "cffi"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')\n")
    finished = run_case("hosts.c", "a_plain_host", tmp_path, {"NONPU_LIBRARY": str(LIBRARY)})
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


STATIC = """
#include <cstdio>
#include <cstdlib>
#include "acl/acl.h"
#include "aclnnop/aclnn_sigmoid_backward.h"
static int failed;
static void expect(bool holds, int line) { if (!holds) { std::printf("line %d\\n", line); failed = 1; } }
#define EXPECT(condition) expect(condition, __LINE__)
struct Runtime {
    void *memory = nullptr;
    aclrtStream stream = nullptr;
    Runtime() {
        EXPECT(aclInit(nullptr) == 0 && aclrtSetDevice(0) == 0 && aclrtCreateStream(&stream) == 0);
        EXPECT(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST) == 0);
        run();
    }
    void run() {
        float *data = static_cast<float *>(memory);
        data[0] = 1, data[1] = 2, data[2] = 9;
        int64_t one = 1;
        uint64_t size = 0;
        aclOpExecutor *executor = nullptr;
        aclTensor *t[3];
        for (int i = 0; i < 3; ++i)
            t[i] = aclCreateTensor(&one, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &one, 1, data + i);
        EXPECT(aclnnSigmoidBackwardGetWorkspaceSize(t[0], t[1], t[2], &size, &executor) == 0);
        EXPECT(aclnnSigmoidBackward(nullptr, size, executor, stream) == 0 && aclrtSynchronizeStream(stream) == 0);
        EXPECT(data[2] == -2);
        for (int i = 0; i < 3; ++i) EXPECT(aclDestroyTensor(t[i]) == 0);
    }
    ~Runtime() {
        run();
        EXPECT(aclrtDestroyStream(stream) == 0 && aclrtFree(memory) == 0 && aclrtResetDevice(0) == 0);
        EXPECT(aclFinalize() == 0);
        std::fflush(stdout);
        if (failed) std::_Exit(1);
    }
};
static Runtime runtime;
int main() { runtime.run(); return 0; }
"""


@needs_cpp
def test_static_objects_use_the_library(tmp_path: Path) -> None:
    """Before main and after it, whatever the order in which the libraries end."""
    source, program = tmp_path / "static.cpp", tmp_path / "static"
    source.write_text(STATIC)
    built = run("c++", "-std=c++11", source, *toolkit.cflags(), *toolkit.libs(), "-o", program)
    assert built.returncode == 0, built.stderr
    finished = run(program, cwd=tmp_path)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


@functools.cache
def other_pythons() -> list[str]:
    """Return interpreters of other versions that this machine has: by name, or where pyenv keeps them."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    versions = ["2.7", *(f"3.{minor}" for minor in range(6, 16))]
    named = {version: shutil.which(f"python{version}") for version in versions}
    for folder in sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/*/bin/python")):
        named[".".join(folder.parents[1].name.split(".")[:2])] = os.fspath(folder)
    runs = {
        version: path for version, path in named.items() if path and run(path, "-c", "import ctypes").returncode == 0
    }
    return [path for version, path in runs.items() if version != own]


def ask(python: str, library: Path, code: str = "") -> str:
    """Run a ctypes client, and return its two statuses and the text."""
    finished = run(python, "-E", "-c", code + CLIENT, env={"NONPU_LIBRARY": str(library)})
    assert (finished.returncode, finished.stderr) == (0, ""), finished
    return finished.stdout


def test_client_of_another_version_is_refused() -> None:
    """A process that runs another Python than the one the library is built for: refused, with both versions."""
    if not other_pythons():
        pytest.skip("this machine has no other version of Python with ctypes")
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in other_pythons():
        answer = ask(python, LIBRARY)
        assert answer.startswith("500000 0 aclInit: the Python side of this library must be running (got Python "), (
            answer
        )
        assert answer.endswith(f" in this process, and this library is built for Python {own})"), answer


@pytest.fixture
def another_installation(tmp_path: Path) -> Path:
    """Return the library of a copy of this package, as a second environment has it."""
    folder = Path(toolkit.ARCH) / "lib64"
    (tmp_path / "nonpu" / "toolkit" / folder).mkdir(parents=True)
    for path in PACKAGE.rglob("*.py"):
        target = tmp_path / "nonpu" / path.relative_to(PACKAGE)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for path in (*PACKAGE.glob("_core*.so"), *PACKAGE.glob("engine/kernels/*")):
        (tmp_path / "nonpu" / path.relative_to(PACKAGE)).parent.mkdir(exist_ok=True)
        shutil.copy(path, tmp_path / "nonpu" / path.relative_to(PACKAGE))
    return Path(shutil.copy(HOME / "lib64" / "libascendcl.so", tmp_path / "nonpu" / "toolkit" / folder))


@pytest.mark.parametrize("altered", [False, True], ids=["same build", "another build"])
@pytest.mark.parametrize("order", ["package first", "library first"])
def test_two_installations_in_one_process(altered: bool, order: str, another_installation: Path) -> None:
    """The library of one and the package of the other do not mix, unless the loader joins two equal ones."""
    build = toolkit.build_id()
    if altered:
        content = another_installation.read_bytes()
        assert build.encode() in content
        another_installation.write_bytes(content.replace(build.encode(), build[::-1].encode()))
    first = "import nonpu._core\n" if order == "package first" else ""
    answer = ask(
        sys.executable, another_installation, f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n{first}"
    )
    if first:
        assert f"this Python has loaded nonpu from {PACKAGE}, which has a libascendcl.so of its own" in answer
    elif altered:
        assert f"libascendcl.so must be build {build} (got {build[::-1]}, from another installation of nonpu)" in answer
    expected = (
        "0 0 " if not first and not altered else "500000 0 aclInit: the Python side of this library must be running"
    )
    assert answer.startswith(expected), answer


def test_library_brings_its_own_package(another_installation: Path, tmp_path: Path) -> None:
    """A Python that finds no nonpu uses the package that the library belongs to, also where nobody may write."""
    folders = [tmp_path, *(path for path in tmp_path.rglob("*") if path.is_dir())]
    for path in folders:
        path.chmod(0o555)
    try:
        code = "import sys; sys.path[:] = [path for path in sys.path if 'python3' in path]\n"
        assert ask(sys.executable, another_installation, code) == "0 0 "
    finally:
        for path in folders:
            path.chmod(0o755)


SUBINTERPRETER = """
import _xxsubinterpreters as interpreters
exec(client)
first = interpreters.create()
interpreters.run_string(first, "import os; exec(os.environ['CODE'])")
interpreters.destroy(first)
sys.stdout.write("%d" % front.aclnnInit(None))
"""


@pytest.mark.parametrize("loader", ["CDLL", "PyDLL"])
def test_subinterpreters(loader: str) -> None:
    """The first call may come from one that lets the GIL go meanwhile; from one that keeps it, calls are refused."""
    code = CLIENT.replace("CDLL", loader)
    script = f"import os\nclient = {CLIENT.replace('status =', 'status = 0 #')!r}\n{SUBINTERPRETER}"
    if run(sys.executable, "-c", "import _xxsubinterpreters").returncode:
        pytest.skip("this Python has no module for subinterpreters")
    finished = run(sys.executable, "-E", "-c", script, env={"NONPU_LIBRARY": str(LIBRARY), "CODE": code})
    refused = (
        "500000 0 aclInit: the caller, if it keeps the GIL, must be in the main interpreter (got a subinterpreter)"
    )
    # What the other interpreter writes comes out first, at its end.
    expected = "0 0 0 0 0" if loader == "CDLL" else f"{refused}0 0 0"
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, expected, "")
