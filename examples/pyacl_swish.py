"""aclnnSwishBackward on the device with pyACL: memory and streams from acl, the operator through ctypes.

pyACL has no aclnn functions, so its users load the libraries and declare the argument types themselves. Run it with
``nonpu run examples/pyacl_swish.py``, or with any Python after ``source $(nonpu home)/set_env.sh``.
"""

from __future__ import annotations

import ctypes
from typing import Any

import acl
import numpy as np

ACL_SUCCESS = 0
ACL_FLOAT = 0
ACL_FORMAT_ND = 2
ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2

nnopbase = ctypes.CDLL("libnnopbase.so", mode=ctypes.RTLD_GLOBAL)
opapi = ctypes.CDLL("libopapi.so", mode=ctypes.RTLD_GLOBAL)

nnopbase.aclCreateTensor.restype = ctypes.c_void_p
nnopbase.aclCreateTensor.argtypes = [
    ctypes.POINTER(ctypes.c_int64), ctypes.c_uint64, ctypes.c_int32, ctypes.POINTER(ctypes.c_int64), ctypes.c_int64,
    ctypes.c_int32, ctypes.POINTER(ctypes.c_int64), ctypes.c_uint64, ctypes.c_void_p,
]  # fmt: skip
nnopbase.aclCreateScalar.restype = ctypes.c_void_p
nnopbase.aclCreateScalar.argtypes = [ctypes.c_void_p, ctypes.c_int32]
nnopbase.aclDestroyTensor.argtypes = [ctypes.c_void_p]
nnopbase.aclDestroyScalar.argtypes = [ctypes.c_void_p]
opapi.aclnnSwishBackwardGetWorkspaceSize.restype = ctypes.c_int32
opapi.aclnnSwishBackwardGetWorkspaceSize.argtypes = [
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_void_p),
]  # fmt: skip
opapi.aclnnSwishBackward.restype = ctypes.c_int32
opapi.aclnnSwishBackward.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p]


def check(ret: int, what: str) -> None:
    """Stop with the library's text if a call has failed."""
    if ret != ACL_SUCCESS:
        raise RuntimeError(f"{what} failed, ret = {ret}: {acl.get_recent_err_msg()}")


def to_device(array: np.ndarray[Any, Any]) -> int:
    """Copy an array into new device memory and return its address."""
    data = array.tobytes()
    address, ret = acl.rt.malloc(len(data), ACL_MEM_MALLOC_HUGE_FIRST)
    check(ret, "acl.rt.malloc")
    ret = acl.rt.memcpy(address, len(data), acl.util.bytes_to_ptr(data), len(data), ACL_MEMCPY_HOST_TO_DEVICE)
    check(ret, "acl.rt.memcpy")
    return int(address)


def to_host(address: int, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Copy device memory into a new array of the type and shape of another."""
    host, ret = acl.rt.malloc_host(like.nbytes)
    check(ret, "acl.rt.malloc_host")
    check(acl.rt.memcpy(host, like.nbytes, address, like.nbytes, ACL_MEMCPY_DEVICE_TO_HOST), "acl.rt.memcpy")
    result = np.frombuffer(acl.util.ptr_to_bytes(host, like.nbytes), like.dtype).reshape(like.shape)
    check(acl.rt.free_host(host), "acl.rt.free_host")
    return result


def create_tensor(shape: tuple[int, ...], address: int) -> int:
    """Describe contiguous FLOAT memory."""
    dims = (ctypes.c_int64 * len(shape))(*shape)
    rank = len(shape)
    tensor = nnopbase.aclCreateTensor(dims, rank, ACL_FLOAT, None, 0, ACL_FORMAT_ND, dims, rank, address)
    assert tensor, "aclCreateTensor failed"
    return int(tensor)


def swish_backward(
    grad: np.ndarray[Any, Any], x: np.ndarray[Any, Any], beta: float, stream: int
) -> np.ndarray[Any, Any]:
    """Run both phases of the operator on copies in device memory."""
    addresses = [to_device(array) for array in (grad, x, np.zeros_like(x))]
    tensors = [create_tensor(x.shape, address) for address in addresses]
    value = ctypes.c_float(beta)
    scalar = nnopbase.aclCreateScalar(ctypes.byref(value), ACL_FLOAT)
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    ret = opapi.aclnnSwishBackwardGetWorkspaceSize(
        tensors[0], tensors[1], scalar, tensors[2], ctypes.byref(size), ctypes.byref(executor)
    )
    check(ret, "aclnnSwishBackwardGetWorkspaceSize")
    workspace = 0
    if size.value > 0:
        workspace, ret = acl.rt.malloc(size.value, ACL_MEM_MALLOC_HUGE_FIRST)
        check(ret, "acl.rt.malloc")
    check(opapi.aclnnSwishBackward(workspace, size, executor, stream), "aclnnSwishBackward")
    for tensor in tensors:
        nnopbase.aclDestroyTensor(tensor)
    nnopbase.aclDestroyScalar(scalar)
    check(acl.rt.synchronize_stream(stream), "acl.rt.synchronize_stream")
    result = to_host(addresses[2], x)
    for address in [*addresses, workspace]:
        if address:
            check(acl.rt.free(address), "acl.rt.free")
    return result


def main() -> None:
    """Initialise, compute, compare with the formula, release."""
    check(acl.init(), "acl.init")
    check(acl.rt.set_device(0), "acl.rt.set_device")
    stream, ret = acl.rt.create_stream()
    check(ret, "acl.rt.create_stream")

    x = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
    result = swish_backward(np.ones_like(x), x, 1.5, stream)
    sigmoid = 1 / (1 + np.exp(-1.5 * x.astype(np.float64)))
    expected = sigmoid * (1 + 1.5 * x * (1 - sigmoid))
    print(np.array2string(result, precision=6))
    print("agrees with the formula:", bool(np.allclose(result, expected, rtol=1e-6)))

    check(acl.rt.destroy_stream(stream), "acl.rt.destroy_stream")
    check(acl.rt.reset_device(0), "acl.rt.reset_device")
    check(acl.finalize(), "acl.finalize")


if __name__ == "__main__":
    main()
