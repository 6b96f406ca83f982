"""A client of the C libraries that reaches them as existing Python clients do: by name, with its own argument types."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest

from nonpu.capi import toolkit
from nonpu.spec.checks import Call, Invalid, valid_tensor
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
