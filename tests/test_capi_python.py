"""How the front library finds, joins, starts or refuses Python."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from nonpu.capi import toolkit
from tests.capi.programs import CC, cases, compiled, needs_c, run_case
from tests.command_line import output, run

LIBRARY = Path(toolkit.home()) / "lib64" / "libopapi.so"
SHARED = str(sysconfig.get_config_var("INSTSONAME"))
LIBPYTHON = Path(str(sysconfig.get_config_var("LIBDIR"))) / SHARED
SETTINGS = {"NONPU_LIBRARY": str(LIBRARY), "LIBPYTHON": str(LIBPYTHON)}
SPECIAL = {
    "no_python_library",
    "another_python_in_view",
    "another_python_out_of_view",
    "a_package_that_cannot_be_imported",
    "a_host_with_python_of_its_own",
}
needs_shared_python = pytest.mark.skipif(not LIBPYTHON.is_file(), reason="this Python has no shared library")
# A client of the C interface that knows nothing of nonpu.
CLIENT = """
import ctypes, os, sys, threading
front = {loader}(os.environ["NONPU_LIBRARY"])
front.aclCreateTensor.restype = ctypes.c_void_p
front.aclCreateTensor.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64,
                                  ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]
front.aclnnSigmoidBackwardGetWorkspaceSize.argtypes = [ctypes.c_void_p] * 5
front.aclnnSigmoidBackward.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p]
front.aclGetRecentErrMsg.restype = ctypes.c_char_p

def once():
    status = front.aclnnInit(None)
    assert status == 0, (status, front.aclGetRecentErrMsg())
    count = ctypes.c_int64(1)
    data = [ctypes.c_float(1), ctypes.c_float(2), ctypes.c_float(9)]
    tensors = [front.aclCreateTensor(ctypes.byref(count), 1, 0, None, 0, 2, ctypes.byref(count), 1, ctypes.byref(value))
               for value in data]
    size, executor = ctypes.c_uint64(9), ctypes.c_void_p()
    status = front.aclnnSigmoidBackwardGetWorkspaceSize(*tensors, ctypes.byref(size), ctypes.byref(executor))
    assert status == 0, (status, front.aclGetRecentErrMsg())
    assert front.aclnnSigmoidBackward(None, size, executor, None) == 0
    assert data[2].value == -2, data[2]

"""


@needs_c
@pytest.mark.parametrize("case", [case for case in cases("hosts.c") if case not in SPECIAL])
def test_host(case: str, tmp_path: Path) -> None:
    """C hosts of many kinds start an interpreter by their first call."""
    expect_host(case, tmp_path, {})


def expect_host(case: str, folder: Path, env: dict[str, str]) -> None:
    """Run a case that opens the library itself."""
    finished = run_case("hosts.c", case, folder, {**SETTINGS, **env})
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


@needs_c
@needs_shared_python
def test_host_that_embeds_python(tmp_path: Path) -> None:
    """The library joins the host's interpreter; after its end, calls give a status."""
    expect_host("a_host_with_python_of_its_own", tmp_path, {})


def altered_library(site: Path, old: bytes, new: bytes) -> Path:
    """Copy the library to where a package in `site` would have it, with some bytes replaced."""
    assert len(old) == len(new)
    target = site / "nonpu" / "toolkit" / toolkit.ARCH / "lib64" / "libascendcl.so"
    target.parent.mkdir(parents=True)
    content = LIBRARY.read_bytes()
    assert old in content
    target.write_bytes(content.replace(old, new))
    return target


@needs_c
@needs_shared_python
def test_machine_without_a_python_library(tmp_path: Path) -> None:
    """Where libpython cannot be found, calls that need it say so."""
    name = SHARED.encode()
    library = altered_library(tmp_path, name, b"libnothing".ljust(len(name), b"_"))
    expect_host("no_python_library", tmp_path, {"NONPU_LIBRARY": str(library)})


@needs_c
@pytest.mark.parametrize("case", ["another_python_in_view", "another_python_out_of_view"])
def test_process_with_another_python(case: str, tmp_path: Path) -> None:
    """A process that runs another version of Python is refused, whichever way that was loaded."""
    source, other = tmp_path / "other.c", tmp_path / "libpython3.7m.so.1.0"
    source.write_text(
        'const char *Py_GetVersion(void) { return "3.7.1 (of a test)"; }\nint Py_IsInitialized(void) { return 1; }\n'
        "int PyGILState_Check(void) { return 0; }\n"
    )
    assert run(CC, "-shared", "-fPIC", source, "-o", other).returncode == 0
    expect_host(case, tmp_path, {"OTHER_PYTHON": str(other)})


@needs_c
def test_package_that_cannot_be_imported(tmp_path: Path) -> None:
    """A broken installation gives a status and the reason, not a crash."""
    library = altered_library(tmp_path, b"", b"")
    (tmp_path / "nonpu" / "__init__.py").write_text("raise ImportError('broken on purpose')\n")
    expect_host("a_package_that_cannot_be_imported", tmp_path, {"NONPU_LIBRARY": str(library)})


@needs_c
@pytest.mark.parametrize("environment", [{"LC_ALL": "C"}, {"PYTHONHOME": "/nonexistent", "PYTHONPATH": "/nonexistent"}])
def test_environment_does_not_matter(environment: dict[str, str], tmp_path: Path) -> None:
    """The interpreter is isolated: variables meant for another Python do not reach it."""
    expect_host("a_plain_host", tmp_path, environment)


@needs_c
def test_program_with_only_the_library_path(tmp_path: Path) -> None:
    """A program that is linked by name alone finds library, Python and package by itself."""
    home = Path(toolkit.home())
    source, program = tmp_path / "plain.c", tmp_path / "plain"
    source.write_text('#include "acl/acl.h"\nint main(void) { return aclInit(NULL) || aclFinalize(); }\n')
    paths = [f"-I{home}/include", f"-L{home}/lib64"]
    linked = run(CC, source, *paths, "-lopapi_nn", "-lopapi_math", "-lacl_rt", "-lnnopbase", "-o", program)
    assert linked.returncode == 0, linked.stderr
    finished = run("/usr/bin/env", "-i", f"LD_LIBRARY_PATH={home}/lib64", program)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


def client(code: str, *flags: str, loader: str = "ctypes.CDLL", python: str = sys.executable) -> None:
    """Run a ctypes client in a Python of its own."""
    finished = run(python, *flags, "-c", CLIENT.format(loader=loader) + code, env={**SETTINGS, "PYTHONPATH": ""})
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


@pytest.mark.parametrize("loader", ["ctypes.CDLL", "ctypes.PyDLL"])
def test_ctypes_client_joins_its_own_python(loader: str) -> None:
    """No second interpreter: the package is imported into the client's, with or without the GIL held by the caller."""
    client("once()\nassert 'nonpu.capi.exports' in sys.modules\nonce()", "-I", loader=loader)


def test_ctypes_client_outside_of_the_environment() -> None:
    """The interpreter below the environment has the same version and knows none of its packages."""
    python = getattr(sys, "_base_executable", sys.executable)
    client("once()\nassert 'nonpu.capi.exports' in sys.modules", "-I", "-S", python=python)


@pytest.mark.parametrize("loader", ["ctypes.CDLL", "ctypes.PyDLL"])
def test_threads_of_a_ctypes_client_race_the_first_call(loader: str) -> None:
    """Whoever waits for the start does not hold the GIL that the start needs."""
    code = """
gate, done = threading.Barrier(8), []
def race():
    gate.wait()
    once()
    done.append(1)
threads = [threading.Thread(target=race) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join(30)
assert len(done) == 8, done
"""
    client(code, "-I", loader=loader)


@pytest.mark.parametrize("error", ["RuntimeError('broken')", "MemoryError()"])
def test_no_exception_escapes(error: str) -> None:
    """Whatever goes wrong inside becomes a status and a text, and the next call works."""
    code = f"""
once()
from nonpu.aclnn import phases
judge = phases.judge_native
def broken(*arguments):
    raise {error}
phases.judge_native = broken
try:
    once()
except AssertionError as failure:
    status, text = failure.args[0]
    assert status == 561000 and b"internal error" in text and {error.split("(")[0].encode()!r} in text, (status, text)
else:
    raise AssertionError("no status")
phases.judge_native = judge
once()
"""
    client(code, "-I")


# A judge that a signal interrupts, as Ctrl-C may interrupt the real one.
INTERRUPTED = """
import signal
from nonpu.aclnn import phases
judge = phases.judge_native
def interrupted(*arguments):
    signal.raise_signal(signal.{signal})
    judge(*arguments)
phases.judge_native = interrupted
size, executor = ctypes.c_uint64(9), ctypes.c_void_p(7)
def call():
    global reached
    count = ctypes.c_int64(2)
    data = (ctypes.c_float * 2)(1, 2)
    tensor = front.aclCreateTensor(ctypes.byref(count), 1, 0, None, 0, 2, ctypes.byref(count), 1, ctypes.byref(data))
    outputs = ctypes.byref(size), ctypes.byref(executor)
    reached = front.aclnnSigmoidBackwardGetWorkspaceSize(tensor, tensor, tensor, *outputs)
"""


@pytest.mark.parametrize("loader", ["ctypes.CDLL", "ctypes.PyDLL"])
@pytest.mark.parametrize(
    ("signal", "handler", "expected"),
    [
        ("SIGINT", "signal.default_int_handler", "KeyboardInterrupt"),
        ("SIGTERM", "lambda *_: sys.exit(3)", "SystemExit"),
        ("SIGALRM", "lambda *_: (_ for _ in ()).throw(TimeoutError('late'))", "TimeoutError"),
    ],
)
def test_exception_of_a_signal_handler_reaches_the_client(
    signal: str, handler: str, expected: str, loader: str
) -> None:
    """The very one is raised where the client called; nothing was written, there is a text, and the next call works."""
    code = f"""
once()
reached = None
{INTERRUPTED.format(signal=signal)}
signal.signal(signal.{signal}, {handler})
try:
    call()
except {expected} as error:
    assert error.args in ((), (3,), ("late",)) and error.__traceback__.tb_next.tb_next is None, error
else:
    raise AssertionError("lost")
assert reached is None and (size.value, executor.value) == (9, 7)
text = front.aclGetRecentErrMsg()
assert text.startswith(b"interrupted: {expected}"), text
phases.judge_native = judge
once()
call()
assert reached == 0
"""
    client(code, "-I", loader=loader)


def test_exception_of_another_thread_stays_there() -> None:
    """An exception that a program sends to one of its threads does not end up in the main thread."""
    code = f"""
once()
{INTERRUPTED.format(signal="SIGINT")}
def ended(*arguments):
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), ctypes.py_object(SystemExit))
    for _ in range(1000): pass
phases.judge_native = ended
seen = []
def body():
    try:
        call()
        seen.append("went on")
    except SystemExit:
        seen.append("ended")
thread = threading.Thread(target=body)
thread.start()
thread.join(30)
assert seen == ["ended"], seen
"""
    client(code, "-I")


def test_interrupted_import_is_tried_again() -> None:
    """Ctrl-C during the first call, which imports the package, is no reason to refuse all later ones."""
    code = """
import signal
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "nonpu.aclnn.phases":
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
try:
    front.aclnnInit(None)
except KeyboardInterrupt:
    pass
else:
    raise AssertionError("lost")
assert b"an interrupted import" in front.aclGetRecentErrMsg()
once()
"""
    client(code, "-I")


def test_signals_at_any_moment() -> None:
    """A client that is interrupted again and again sees each KeyboardInterrupt and no internal error.

    All but those that CPython loses: what is raised in a weak reference's callback of its import system.
    """
    code = """
import signal
signal.signal(signal.SIGALRM, signal.default_int_handler)
seen, status = 0, 0

def lost(unraisable):
    assert unraisable.object.__qualname__ == "_get_module_lock.<locals>.cb", unraisable
    signal.setitimer(signal.ITIMER_REAL, 0.05)

sys.unraisablehook = lost
for round in range(300):
    try:
        signal.setitimer(signal.ITIMER_REAL, 2e-5 + round * 1e-6)
        front.aclnnFinalize()  # forgets the judged calls
        status = status or front.aclnnInit(None)
        once()
        while True:
            pass
    except KeyboardInterrupt:
        seen += 1
    text = front.aclGetRecentErrMsg() or b""
    assert b"internal" not in text, text
assert (seen, status) == (300, 0), (seen, status)
"""
    client(code, "-I")


def test_ctypes_client_and_python_interface_share_one_library() -> None:
    """Whoever comes first, the module and the client meet in the same file."""
    code = "import nonpu._core\nonce()\nassert nonpu._core.ffi.string(nonpu._core.lib.nonpu_state()) == b'started'"
    client(f"sys.path.insert(0, {os.fspath(Path(toolkit.__file__).parents[2])!r})\n{code}")


BY_NAME = """
import ctypes, os, sys
folder = f"{os.environ['ASCEND_HOME_PATH']}/lib64"
names = ["libascendcl.so", "libnnopbase.so", "libopapi.so", "libopapi_nn.so", "libaclnn_ops_infer.so"]
names += [f"{folder}/{name}" for name in ("libopapi.so", "libaclnn_math.so")]
libraries = [ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL) for name in names]
symbols = ["aclInit", "aclnnInit", "aclCreateTensor", "aclnnSwishBackward", "aclnnSwishBackwardGetWorkspaceSize"]
everywhere = ctypes.CDLL(None)
for symbol in symbols:
    addresses = {ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value for library in [*libraries, everywhere]}
    assert len(addresses) == 1, (symbol, addresses)
assert libraries[2].aclnnInit(None) == 0
assert "nonpu.capi.exports" in sys.modules
assert not hasattr(everywhere, "aclnnNoSuchOperator")
print("one library, one interpreter")
"""


def test_libraries_by_name(tmp_path: Path) -> None:
    """As clients open them: by bare name or below the toolkit's path, with global symbols, all of them one library."""
    script = tmp_path / "client.py"
    script.write_text(BY_NAME)
    assert output("run", script) == "one library, one interpreter\n"


def test_forked_child_of_a_ctypes_client_goes_on() -> None:
    """The child of a Python client has its interpreter already."""
    code = """
once()
child = os.fork()
if not child:
    once()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
once()
"""
    client(code, "-I", "-Wignore")


def test_library_of_another_build_is_refused(tmp_path: Path) -> None:
    """Where the loader hands nonpu._core the library of another installation, the import says so."""
    build = toolkit.build_id().encode()
    library = altered_library(tmp_path, build, build[::-1])
    code = f"import ctypes; ctypes.CDLL({os.fspath(library)!r}); import nonpu._core"
    finished = run(sys.executable, "-c", code, env={"PYTHONPATH": os.fspath(Path(toolkit.__file__).parents[2])})
    assert finished.returncode == 1
    message = finished.stderr.splitlines()[-1]
    assert message.startswith("ImportError: nonpu._core: libascendcl.so must be build ")
    assert build.decode() in message
    assert build[::-1].decode() in message


@needs_c
def test_hosts_are_built_without_the_library() -> None:
    """The program that opens the library itself must not be linked to it, or nothing above would be tested."""
    if shutil.which("readelf") is None:
        pytest.skip("this machine has no readelf")
    assert "libascendcl" not in run("readelf", "-d", compiled("hosts.c")).stdout
