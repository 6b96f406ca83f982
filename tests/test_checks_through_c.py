"""Every violation that the specifications know, through the C functions: status, text, and nothing written."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest

from nonpu.capi import toolkit
from nonpu.ops import OPS
from nonpu.spec.checks import Call, Invalid, Violation, sequence, valid_call, valid_tensor
from nonpu.status import Status
from nonpu.tensor import Scalar, Tensor

NO_CALL = -1
UNTOUCHED_SIZE, UNTOUCHED_EXECUTOR = 0xABCDEF, 0x123456


# Types that no aclScalar has (UNDEFINED, STRING, INT4, UINT1, COMPLEX32), and numbers that are no type.
NO_SCALARS = {-1, 13, 29, 30, 33, 5, 99, -(2**31)}


class Client:
    """A ctypes client that declares its own argument types, as existing Python clients of the C libraries do."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(f"{toolkit.home()}/lib64/libopapi.so")
        self.library.aclCreateTensor.restype = ctypes.c_void_p
        self.library.aclCreateScalar.restype = ctypes.c_void_p
        self.library.aclGetRecentErrMsg.restype = ctypes.c_char_p
        self.library.aclnnInit(None)
        assert self.library.aclrtSetDevice(0) == 0
        self.tensors: list[int] = []
        self.scalars: list[int] = []
        self.blocks: list[int] = []

    def tensor(self, tensor: Tensor) -> ctypes.c_void_p:
        """Make an aclTensor of the same description in memory of the same size from aclrtMalloc."""
        block = ctypes.c_void_p()
        if tensor.address:
            size = tensor.extent[1] if tensor.extent else 4096
            assert self.library.aclrtMalloc(ctypes.byref(block), ctypes.c_size_t(max(size, 1)), 0) == 0
            assert block.value is not None
            self.blocks.append(block.value)
            ctypes.memset(block.value, 0x5A, max(size, 1))
        handle = self.library.aclCreateTensor(
            _longs(tensor.shape), ctypes.c_uint64(len(tensor.shape)), ctypes.c_int32(int(tensor.dtype)),
            _longs(tensor.strides), ctypes.c_int64(tensor.offset), ctypes.c_int32(tensor.format),
            _longs(tensor.storage_shape or ()), ctypes.c_uint64(len(tensor.storage_shape or ())), block,
        )  # fmt: skip
        self.tensors.append(handle)
        return ctypes.c_void_p(handle)

    def argument(self, kind: type, value: object) -> Any:
        """Convert one argument of a call to what the C function takes."""
        if value is None:
            return ctypes.c_void_p(None)
        if isinstance(value, bool):
            return ctypes.c_bool(value)
        if isinstance(value, Tensor):
            return self.tensor(value)
        if isinstance(value, Scalar):
            raw = ctypes.create_string_buffer(value.raw.ljust(16, b"\0"), 16)
            handle = self.library.aclCreateScalar(raw, ctypes.c_int32(int(value.dtype)))
            if handle is None:
                assert int(value.dtype) in NO_SCALARS
                return None
            self.scalars.append(handle)
            return ctypes.c_void_p(handle)
        assert isinstance(value, Invalid)
        gone = self.tensor(valid_tensor())
        self.library.aclDestroyTensor(gone)
        self.tensors.remove(gone.value or 0)
        return gone

    def phase_one(self, call: Call) -> tuple[int, str, int, int]:
        """Call the first phase; return status, text and both out-parameters."""
        function = getattr(self.library, call.op.phase_one)
        arguments = [self.argument(type(value), value) for value in call.arguments.values()]
        if None in arguments:
            return NO_CALL, "", 0, 0
        size, executor = ctypes.c_uint64(UNTOUCHED_SIZE), ctypes.c_void_p(UNTOUCHED_EXECUTOR)
        self.library.aclGetRecentErrMsg()
        status = function(*arguments, ctypes.byref(size), ctypes.byref(executor))
        text = self.library.aclGetRecentErrMsg()
        return status, "" if text is None else text.decode(), size.value, executor.value or 0

    def close(self) -> None:
        """Give everything back; a refused call must not have touched any memory."""
        for handle in self.tensors:
            assert self.library.aclDestroyTensor(ctypes.c_void_p(handle)) == 0
        for handle in self.scalars:
            assert self.library.aclDestroyScalar(ctypes.c_void_p(handle)) == 0
        for block in self.blocks:
            assert ctypes.string_at(block, 1) == b"\x5a"
            assert self.library.aclrtFree(ctypes.c_void_p(block)) == 0
        self.library.aclrtResetDevice(0)


def _longs(values: tuple[int, ...]) -> Any:
    return (ctypes.c_int64 * max(len(values), 1))(*values)


@pytest.fixture
def client() -> Iterator[Client]:
    """A client that cleans up after itself."""
    client = Client()
    yield client
    client.close()


def _violations() -> list[Any]:
    return [
        pytest.param(violation, check.status, id=f"{op.name}-{type(check).__name__}-{violation.label}")
        for op in OPS
        for check in sequence(op)
        for violation in check.violations(op)
    ]


@pytest.mark.parametrize(("violation", "status"), _violations())
def test_a_violation_has_its_status_and_text_and_writes_nothing(
    client: Client, monkeypatch: pytest.MonkeyPatch, violation: Violation, status: Status
) -> None:
    """The C function answers what the check says, names itself and the parameter, and leaves its outputs alone."""
    monkeypatch.setenv("NONPU_PRODUCT", violation.call.product.soc)
    code, text, size, executor = client.phase_one(violation.call)
    if code == NO_CALL:
        return  # the argument cannot exist in C: the constructor has refused it, as the documents have it
    assert code == status
    assert violation.call.op.phase_one in text
    assert violation.parameter in text
    assert text.count("\n") == 1
    assert (size, executor) == (UNTOUCHED_SIZE, UNTOUCHED_EXECUTOR)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
@pytest.mark.parametrize("missing", ["workspaceSize", "executor"])
def test_null_out_parameters_come_before_everything_else(client: Client, op: Any, missing: str) -> None:
    """Check 0 of the documents: 161001, even where all other arguments are null too."""
    function = getattr(client.library, op.phase_one)
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    nulls = [ctypes.c_bool(False) if param.c_type == "bool" else ctypes.c_void_p(None) for param in op.params]
    outs = (None, ctypes.byref(executor)) if missing == "workspaceSize" else (ctypes.byref(size), None)
    assert function(*nulls, *outs) == 161001
    assert missing in client.library.aclGetRecentErrMsg().decode()


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_a_valid_call_passes_and_its_executor_runs_once(client: Client, op: Any) -> None:
    """Success writes both out-parameters; a second run of the consumed executor is refused with a text."""
    status, text, size, executor = client.phase_one(valid_call(op))
    assert (status, text, size) == (0, "", 0)
    run = getattr(client.library, op.phase_two)
    run.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p]
    # The tensors of valid_call share nothing; only the output's memory may change, so look at nothing else here.
    client.blocks, blocks = [], client.blocks
    assert run(None, 0, executor, None) == 0
    assert client.library.aclrtSynchronizeStream(None) == 0
    assert run(None, 0, executor, None) == 161002
    assert op.phase_two in client.library.aclGetRecentErrMsg().decode()
    assert run(None, 0, None, None) == 161001
    for block in blocks:
        assert client.library.aclrtFree(ctypes.c_void_p(block)) == 0
