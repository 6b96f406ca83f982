"""Module ``acl``: names, arguments and results as pyACL has them, over the functions of the C library."""

from __future__ import annotations

import ctypes
import importlib
import inspect
import os
import shlex
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nonpu
from nonpu import Scalar
from nonpu.capi import toolkit
from nonpu.capi.functions import ENUMERATIONS, FUNCTIONS
from nonpu.codegen import pyacl
from nonpu.dtypes import DType
from nonpu.spec.model import Op
from tests.c_client import Client
from tests.command_line import ROOT, output, run
from tests.test_faces import SCALARS, arguments, bits, cases, views

SITE = Path(toolkit.home()) / "python" / "site-packages"
# The reference of pyACL: name, number of arguments, number of values before ret (-1: the value alone, no ret).
REFERENCE = """
finalize 0 0                      get_soc_name 0 -1                 get_recent_err_msg 0 -1
create_data_buffer 2 -1           destroy_data_buffer 1 0           data_type_size 1 -1
rt.set_device 1 0                 rt.reset_device 1 0               rt.get_device 0 1
rt.get_device_count 0 1           rt.get_run_mode 0 1               rt.create_context 1 1
rt.destroy_context 1 0            rt.set_context 1 0                rt.get_context 0 1
rt.create_stream 0 1              rt.create_stream_with_config 2 1  rt.destroy_stream 1 0
rt.synchronize_stream 1 0         rt.synchronize_device 0 0         rt.create_event 0 1
rt.create_event_with_flag 1 1     rt.create_event_ex_with_flag 1 1  rt.destroy_event 1 0
rt.record_event 2 0               rt.reset_event 2 0                rt.synchronize_event 1 0
rt.stream_wait_event 2 0          rt.query_event 1 1                rt.query_event_status 1 1
rt.query_event_wait_status 1 1    rt.event_elapsed_time 2 1         rt.event_get_timestamp 1 1
rt.malloc 2 1                     rt.malloc_align32 2 1             rt.malloc_cached 2 1
rt.free 1 0                       rt.malloc_host 1 1                rt.free_host 1 0
rt.memcpy 5 0                     rt.memcpy_async 6 0               rt.memset 4 0
rt.memset_async 5 0               rt.get_mem_info 1 2               rt.launch_callback 4 0
rt.subscribe_report 2 0           rt.unsubscribe_report 2 0         rt.process_report 1 0
"""
ROWS = [row.split() for line in REFERENCE.strip().splitlines() for row in line.replace("  ", "\n").split("\n") if row]
PRESENT = {function.name for function in FUNCTIONS}
OTHER_PYTHONS = [
    path
    for name in ("3.8", "3.10", "3.12", "3.13")
    for path in Path.home().glob(f".pyenv/versions/{name}.*/bin/python")
]


@pytest.fixture(scope="module")
def acl() -> Iterator[Any]:
    """The module, found as programs find it."""
    sys.path.insert(0, str(SITE))
    try:
        yield importlib.import_module("acl")
    finally:
        sys.path.remove(str(SITE))


@pytest.fixture
def device(acl: Any) -> Iterator[Any]:
    """The module with device 0 current."""
    assert acl.rt.set_device(0) == 0
    yield acl
    assert acl.rt.reset_device(0) == 0


def find(acl: Any, name: str) -> Any:
    """Return a function by its name below acl."""
    for part in name.split("."):
        acl = getattr(acl, part)
    return acl


@pytest.mark.parametrize(("name", "count", "values"), ROWS, ids=[row[0] for row in ROWS])
def test_names_arities_and_results_of_the_reference(acl: Any, name: str, count: str, values: str) -> None:
    """Every function of the reference takes positional arguments, and its result has the documented form."""
    function = find(acl, name)
    parameters = inspect.signature(function).parameters.values()
    assert [parameter.kind for parameter in parameters] == [inspect.Parameter.POSITIONAL_ONLY] * int(count)
    symbol = function.__doc__.rpartition("\n\n")[2].strip().partition(";")[0]
    result = function.__doc__.rpartition("returns ")[2].strip(" .\n").strip("()").split(", ")
    assert len(result) == (1 if values == "-1" else int(values) + 1)
    assert (result[-1] == "ret") == (values != "-1")
    for wrong in ((1,) * (int(count) + 1), *([(1,) * (int(count) - 1)] if int(count) else [])):
        with pytest.raises(TypeError, match="positional argument"):
            function(*wrong)
    if int(count) and "callback" not in name:
        with pytest.raises(TypeError, match=rf"^acl\.{name}: \w+ must be an int \(got str\)$"):
            function(*("x",) * int(count))
    if symbol not in PRESENT and "callback" not in name:
        expected = {"-1": 0, "0": 200001, "1": (0, 200001), "2": (0, 0, 200001)}[values]
        assert function(*(1,) * int(count)) == expected
        assert f"acl.{name}: {symbol} must be in the library" in acl.get_recent_err_msg()


def test_every_function_of_the_table_is_there(acl: Any) -> None:
    """Functions of the C table appear by the rule, without a list of their own."""
    renderer = pyacl.Renderer(FUNCTIONS, ENUMERATIONS)
    for function in FUNCTIONS:
        if function.header in pyacl.HEADERS and renderer.kinds(function) is not None:
            name = pyacl.python_name(function.name)
            assert not name or callable(find(acl, name))
    assert not hasattr(acl, "create_tensor")
    assert callable(acl.rt.reset_device_force)
    assert callable(acl.float_to_float16)


def test_declarations_agree_with_the_table() -> None:
    """What pyACL's reference declares and what the library declares is the same function."""
    renderer = pyacl.Renderer(FUNCTIONS, ENUMERATIONS)
    table = {function.name: function for function in FUNCTIONS}
    for entry in pyacl.declared():
        if entry.name in table:
            function = table[entry.name]
            kinds = [kind for _, kind in renderer.kinds(function) or []]
            assert kinds == [kind for _, kind in renderer.kinds(entry) or []], entry.name
            assert renderer.result(function.result) == renderer.result(entry.result), entry.name


def test_module_is_what_the_build_would_write(acl: Any) -> None:
    """An old build does not hide behind this file."""
    for name, text in pyacl.render(FUNCTIONS, ENUMERATIONS).items():
        assert (SITE / "acl" / name).read_text() == text
    for path in (Path(toolkit.__file__).parent / "pyacl").glob("[!_]*.py"):
        assert (SITE / "acl" / path.name).read_text() == path.read_text()
    assert Path(acl.__file__).parent == SITE / "acl"


def test_constants(acl: Any) -> None:
    """The C headers' constants, and NumPy's numbers of types under the names that programs give them."""
    assert (acl.ACL_SUCCESS, acl.ACL_MEM_MALLOC_HUGE_FIRST, acl.ACL_MEMCPY_DEVICE_TO_HOST) == (0, 0, 2)
    assert (acl.ACL_FLOAT16, acl.ACL_BF16, acl.ACL_FORMAT_ND, acl.ACL_ERROR_API_NOT_SUPPORT) == (1, 27, 2, 200001)
    for name in ("NPY_BOOL", "NPY_INT8", "NPY_UINT16", "NPY_INT32", "NPY_INT64", "NPY_FLOAT32", "NPY_FLOAT16"):
        assert getattr(acl, name) == np.dtype(name.removeprefix("NPY_").lower()).num


def test_absent_namespaces_say_so(acl: Any) -> None:
    """One sentence instead of a bare attribute error; other names get Python's own."""
    with pytest.raises(AttributeError, match=r"^module 'acl' has no attribute 'op': .* single-operator models"):
        acl.op.execute_v2()
    with pytest.raises(AttributeError, match="offline models"):
        _ = acl.mdl
    with pytest.raises(AttributeError, match=r"^module 'acl' has no attribute 'create_tensor_desc'$"):
        _ = acl.create_tensor_desc


def test_process_and_device(acl: Any, tmp_path: Path) -> None:
    """Init counts, queries answer, failures are numbers with a text."""
    first = acl.init()
    assert first in (0, 100002)
    assert acl.init(None) == 100002
    assert "aclInit" in acl.get_recent_err_msg()
    assert acl.get_recent_err_msg() is None
    assert acl.finalize() == 0
    assert acl.finalize() == 100037
    config = tmp_path / "acl.json"
    config.write_text("{}")
    assert acl.init(str(config)) == 0
    assert acl.finalize() == 0
    assert acl.init(os.fspath(tmp_path / "absent.json")) == 100003
    with pytest.raises(TypeError, match=r"^acl\.init: config_path must be a str or None \(got int\)$"):
        acl.init(1)
    assert acl.get_soc_name() == "Ascend910B1"
    assert acl.rt.get_device_count() == (1, 0)
    assert acl.rt.get_run_mode() == (1, 0)
    assert acl.rt.set_device(7) == 107001
    assert "aclrtSetDevice" in acl.get_recent_err_msg()
    assert acl.rt.set_device(0) == 0
    assert acl.rt.get_device() == (0, 0)
    assert acl.rt.reset_device(0) == 0


def test_memory(device: Any) -> None:
    """Bytes travel to the device and back; addresses are plain integers."""
    acl = device
    data = np.arange(24, dtype=np.float32)
    raw = data.tobytes()
    address, ret = acl.rt.malloc(len(raw), acl.ACL_MEM_MALLOC_HUGE_FIRST)
    assert ret == 0
    assert type(address) is int
    assert address % 64 == 0
    assert acl.rt.memcpy(address, len(raw), acl.util.bytes_to_ptr(raw), len(raw), 1) == 0
    host, ret = acl.rt.malloc_host(len(raw))
    assert ret == 0
    assert acl.rt.memcpy(host, len(raw), address, len(raw), 2) == 0
    assert acl.util.ptr_to_bytes(host, len(raw)) == raw
    back = np.zeros_like(data)
    assert acl.rt.memcpy(back.ctypes.data, np.int64(back.nbytes), address, back.nbytes, 2) == 0
    assert np.array_equal(back, data)
    assert acl.rt.memset(address, len(raw), 0, 4) == 0
    assert acl.util.ptr_to_bytes(address, 8) == b"\0" * 4 + raw[4:8]
    assert acl.rt.memcpy(address, 8, host, 16, 1) == 107000
    assert acl.rt.malloc(0, 0) == (0, 100000)
    assert acl.rt.free_host(host) == 0
    assert acl.rt.free(address) == 0
    assert acl.rt.free(0) == 100000


def test_arguments_out_of_range(acl: Any) -> None:
    """Numbers that the C type cannot hold are refused before they would be cut."""
    for call in (lambda: acl.rt.malloc(-1, 0), lambda: acl.rt.set_device(2**31), lambda: acl.rt.free(2**64)):
        with pytest.raises(ValueError, match=r"^acl\.rt\.\w+: \w+ must be from -?\d+ to \d+ \(got -?\d+\)$"):
            call()
    with pytest.raises(TypeError, match=r"must be an int \(got float\)"):
        acl.rt.malloc(64.0, 0)
    with pytest.raises(TypeError, match="positional-only"):
        acl.rt.malloc(size=64, policy=0)


def test_util_on_bytes(acl: Any) -> None:
    """Addresses of bytes objects, embedded zeros too."""
    data = b"\x01\0\x02"
    assert ctypes.string_at(acl.util.bytes_to_ptr(data), 3) == data
    assert acl.util.ptr_to_bytes(acl.util.bytes_to_ptr(data), 2) == b"\x01\0"
    assert acl.util.ptr_to_bytes(0, 0) == b""
    with pytest.raises(ValueError, match="bytes object"):
        acl.util.bytes_to_ptr(bytearray(3))
    with pytest.raises(ValueError, match="got 0"):
        acl.util.ptr_to_bytes(0, 1)
    with pytest.raises(TypeError):
        acl.util.ptr_to_bytes()


def test_util_on_arrays(acl: Any) -> None:
    """The deprecated functions work, and name their successors."""
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    with pytest.warns(Warning, match="bytes_to_ptr"):
        address = acl.util.numpy_to_ptr(array)
    assert address == array.ctypes.data
    with pytest.warns(Warning, match="bytes_to_ptr"):
        assert acl.util.numpy_contiguous_to_ptr(array) == address
    with pytest.warns(Warning, match="ptr_to_bytes"):
        view = acl.util.ptr_to_numpy(address, (3, 2), acl.NPY_INT16)
    view[0, 0] = 77
    assert array[0, 0] == 77
    assert view.shape == (3, 2)
    for wrong, values in (
        (acl.util.numpy_to_ptr, ([1],)),
        (acl.util.numpy_contiguous_to_ptr, (array.T,)),
        (acl.util.ptr_to_numpy, (address, (2,), 99)),
    ):
        with pytest.warns(DeprecationWarning, match="deprecated"), pytest.raises(ValueError, match=r"^acl\.util\."):
            wrong(*values)


def test_threads(acl: Any) -> None:
    """A thread gets its list, its number is pthread_self, and it is ended whether or not it ends by itself."""
    seen: list[Any] = []
    done = threading.Event()

    def once(args: list[Any]) -> None:
        seen.extend([*args, threading.get_ident()])
        done.set()

    number, ret = acl.util.start_thread(once, [1, 2])
    assert ret == 0
    assert done.wait(10)
    assert seen == [1, 2, number]
    assert acl.util.stop_thread(number) == 0
    assert acl.util.stop_thread(number) == 100000

    def forever(_args: list[Any]) -> None:
        while True:
            done.wait(0.001)

    number, ret = acl.util.start_thread(forever, [])
    assert ret == 0
    assert acl.util.stop_thread(number) == 0
    with pytest.raises(TypeError, match="callable"):
        acl.util.start_thread(1, [])


def test_contexts(device: Any) -> None:
    """A new context becomes current; the old one can be set again."""
    acl = device
    old, ret = acl.rt.get_context()
    assert ret == 0
    context, ret = acl.rt.create_context(0)
    assert (ret, acl.rt.get_context()) == (0, (context, 0))
    assert acl.rt.set_context(old) == 0
    assert acl.rt.destroy_context(context) == 0
    assert acl.rt.set_context(0) == 100000


def test_events(device: Any) -> None:
    """Recorded, waited for, queried, timed."""
    acl = device
    stream, _ = acl.rt.create_stream()
    events = [acl.rt.create_event_with_flag(8)[0] for _ in range(2)]
    for event in events:
        assert acl.rt.record_event(event, stream) == 0
    assert acl.rt.stream_wait_event(stream, events[0]) == 0
    assert acl.rt.synchronize_event(events[1]) == 0
    assert acl.rt.query_event_status(events[1]) == (1, 0)
    assert acl.rt.query_event(events[1]) == (0, 0)
    milliseconds, ret = acl.rt.event_elapsed_time(*events)
    assert ret == 0
    assert isinstance(milliseconds, float)
    assert milliseconds >= 0
    for event in events:
        assert acl.rt.destroy_event(event) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert acl.rt.destroy_stream(stream) == 0


def test_work_on_streams(device: Any) -> None:
    """Copies and sets run in the order of the stream."""
    acl = device
    stream, _ = acl.rt.create_stream()
    address, _ = acl.rt.malloc(64, 0)
    host, _ = acl.rt.malloc_host(64)
    assert acl.rt.memset_async(address, 64, 7, 64, stream) == 0
    assert acl.rt.memcpy_async(host, 64, address, 64, 2, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert acl.util.ptr_to_bytes(host, 64) == b"\7" * 64
    assert (acl.rt.free_host(host), acl.rt.free(address), acl.rt.destroy_stream(stream)) == (0, 0, 0)


def test_buffers_and_sizes(device: Any) -> None:
    """A create function returns the handle alone; two outputs come before the status."""
    acl = device
    buffer = acl.create_data_buffer(4096, 64)
    assert buffer > 0
    assert acl.get_data_buffer_addr(buffer) == 4096
    assert acl.destroy_data_buffer(buffer) == 0
    assert [acl.data_type_size(code) for code in (0, 1, 11, 17)] == [4, 2, 8, 16]
    free, total, ret = acl.rt.get_mem_info(1)
    assert ret == 0
    assert 0 < free <= total


def test_callbacks(device: Any) -> None:
    """The documented flow: a thread that processes reports runs the function with its Python argument."""
    acl = device
    stream, _ = acl.rt.create_stream()
    running = [True]
    seen: list[int] = []

    def loop(args: list[int]) -> None:
        while running[0]:
            acl.rt.process_report(args[0])

    thread, _ = acl.util.start_thread(loop, [50])
    assert acl.rt.subscribe_report(thread, stream) == 0
    for value in range(3):
        assert acl.rt.launch_callback(seen.append, value, 1, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert acl.rt.unsubscribe_report(thread, stream) == 0
    running[0] = False
    assert acl.util.stop_thread(thread) == 0
    assert seen == [0, 1, 2]
    assert acl.rt.destroy_stream(stream) == 0


def test_callbacks_must_be_callable(acl: Any) -> None:
    """Checked before the library is asked."""
    with pytest.raises(TypeError, match=r"fn must be callable \(got int\)"):
        acl.rt.launch_callback(1, None, 0, 0)


def through_pyacl(acl: Any, client: Client, op: Op, tensors: dict[str, Any]) -> Any:
    """Run both phases on memory from acl, as in examples/pyacl_swish.py, and return the output."""
    library = client.library
    library.aclnnInit(None)
    addresses = {}
    handles: dict[str, Any] = {}
    for name, array in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        addresses[name], ret = acl.rt.malloc(len(raw), 0)
        assert ret == 0
        assert acl.rt.memcpy(addresses[name], len(raw), acl.util.bytes_to_ptr(raw), len(raw), 1) == 0
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        rank = ctypes.c_uint64(array.ndim)
        code = ctypes.c_int32(int(DType.parse(array.dtype)))
        handles[name] = ctypes.c_void_p(
            library.aclCreateTensor(
                shape, rank, code, None, ctypes.c_int64(0), 2, shape, rank, ctypes.c_void_p(addresses[name])
            )
        )
    values = [
        client.argument(type(value), value) if isinstance(value, Scalar | bool) else value
        for value in arguments(op, handles)
    ]
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    assert getattr(library, op.phase_one)(*values, ctypes.byref(size), ctypes.byref(executor)) == 0
    stream, ret = acl.rt.create_stream()
    assert ret == 0
    assert getattr(library, op.phase_two)(None, size, executor, ctypes.c_void_p(stream)) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert acl.rt.destroy_stream(stream) == 0
    output = tensors[op.output]
    result = np.empty(output.shape, output.dtype)
    address = result.__array_interface__["data"][0]
    assert acl.rt.memcpy(address, result.nbytes, addresses[op.output], result.nbytes, 2) == 0
    for name, block in addresses.items():
        assert library.aclDestroyTensor(handles[name]) == 0
        assert acl.rt.free(block) == 0
    return result


@pytest.mark.parametrize(("op", "dtype"), cases())
def test_same_bits_as_the_one_call_function(acl: Any, client: Client, op: Op, dtype: DType) -> None:
    """The table of cases of test_faces through pyACL."""
    grad, primal, out = views(dtype, "contiguous")
    scalars = {param.python_name: np.float32(SCALARS[param.name]) for param in op.scalar_params}
    expected = bits(getattr(nonpu, op.python_name)(grad, primal, **scalars))
    tensors = dict(zip((*op.inputs, op.output), (grad, primal, out), strict=True))
    assert bits(through_pyacl(acl, client, op, tensors)) == expected


def assert_example(printed: str) -> None:
    """Check what examples/pyacl_swish.py prints."""
    assert printed.splitlines()[-1] == "agrees with the formula: True", printed


def test_example_through_nonpu_run() -> None:
    """A script written for the device runs as it is."""
    assert_example(output("run", ROOT / "examples" / "pyacl_swish.py"))


def test_example_under_set_env() -> None:
    """The same with the environment of the toolkit and a Python that was started by hand."""
    script = f"set -eu; . {shlex.quote(toolkit.home())}/set_env.sh; exec {shlex.quote(sys.executable)} pyacl_swish.py"
    finished = run("sh", "-c", script, cwd=ROOT / "examples")
    assert finished.stderr == ""
    assert_example(finished.stdout)


@pytest.mark.skipif(not OTHER_PYTHONS, reason="this machine has no other Python")
@pytest.mark.parametrize("python", OTHER_PYTHONS, ids=lambda path: path.parents[1].name)
def test_another_version_of_python(python: Path) -> None:
    """The runtime works; what needs the package says which Python it wants."""
    code = (
        "import acl; print(acl.init()); print(acl.get_recent_err_msg()); print(acl.rt.set_device(0));"
        "address, ret = acl.rt.malloc(64, 0); print(ret, acl.rt.free(address))"
    )
    finished = run(python, "-c", code, env={"PYTHONPATH": str(SITE)})
    status, text, *rest = finished.stdout.splitlines()
    assert (status, rest, finished.stderr) == ("500000", ["0", "0 0"], "")
    version = python.parents[1].name
    assert f"got Python {version} in this process, and this library is built for Python 3." in text


def test_import_is_light() -> None:
    """Neither NumPy nor nonpu comes with the module."""
    code = "import acl, sys; print(sorted({'numpy', 'nonpu', 'torch'} & set(sys.modules)))"
    finished = run(sys.executable, "-S", "-c", code, env={"PYTHONPATH": str(SITE)})
    assert (finished.stdout, finished.stderr) == ("[]\n", "")
