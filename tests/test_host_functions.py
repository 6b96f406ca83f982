"""Functions of a Python client in streams, by way of ctypes."""

from __future__ import annotations

import sys

from tests.command_line import run

# A host function that holds the last reference to its own stream, as a garbage collection inside it would.
DESTROYS_ITS_STREAM = """
import ctypes, threading, nonpu
from nonpu.capi import toolkit
acl = ctypes.CDLL(toolkit.home() + "/lib64/libascendcl.so")
acl.aclrtLaunchHostFunc.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
assert acl.aclrtSetDevice(0) == 0
streams, done = [nonpu.Stream()], threading.Event()
second = threading.Event()

@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def drop(_):
    streams.pop().destroy()
    done.set()

@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def after(_):
    second.set()

handle = streams[0].handle
gate = threading.Event()

@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def hold(_):
    gate.wait()

for function in (hold, drop, after):
    assert acl.aclrtLaunchHostFunc(handle, ctypes.cast(function, ctypes.c_void_p), None) == 0
gate.set()
assert done.wait(60) and second.wait(60)
print(acl.aclrtSynchronizeDevice())
"""
# The interpreter must be able to end while a callback waits for a thread that is no longer there.
ENDS_WITH_A_CALLBACK = """
import ctypes, nonpu, threading
from nonpu.capi import toolkit
acl = ctypes.CDLL(toolkit.home() + "/lib64/libascendcl.so")
acl.aclrtLaunchCallback.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
acl.aclrtSubscribeReport.argtypes = [ctypes.c_uint64, ctypes.c_void_p]
assert acl.aclrtSetDevice(0) == 0

@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def never(_):
    raise AssertionError

stream = nonpu.Stream()
assert acl.aclrtSubscribeReport(threading.get_ident(), stream.handle) == 0
assert acl.aclrtLaunchCallback(ctypes.cast(never, ctypes.c_void_p), None, 1, stream.handle) == 0

print("end")
"""


def test_a_host_function_may_drop_its_own_stream() -> None:
    """Nothing waits for itself, and what was queued behind it still runs."""
    finished = run(sys.executable, "-c", DESTROYS_ITS_STREAM)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "0\n", "")


def test_python_ends_although_a_callback_waits() -> None:
    """At exit queued work is finished, and callbacks that nobody runs are left out."""
    finished = run(sys.executable, "-c", ENDS_WITH_A_CALLBACK)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "end\n", "")
