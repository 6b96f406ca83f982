"""Memory, threads and the environment around queued work: nothing is freed, read or decided too early or too late."""

from __future__ import annotations

import copy
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import nonpu
from nonpu import Scalar, Tensor, aclnn
from nonpu.capi import toolkit
from nonpu.ops import OPS
from nonpu.spec.checks import valid_call
from nonpu.spec.model import Op
from tests.c_client import Client

QUEUE = """
import numpy as np
from nonpu import Scalar, Tensor, aclnn
for _ in range(3):
    g = np.ones(20_000_000, np.float32)
    tensors = [Tensor.from_numpy(a) for a in (g, g, np.empty_like(g))]
    size, executor = aclnn.aclnnSwishBackwardGetWorkspaceSize(*tensors[:2], Scalar(1.0, "float32"), tensors[2])
    aclnn.aclnnSwishBackward(None, size, executor, None)
print("end", flush=True)
"""


@pytest.mark.parametrize("last", ["", "raise SystemExit(0)"], ids=["plain", "exit"])
def test_a_script_may_end_with_work_in_the_queue(last: str) -> None:
    """The arrays are freed when Python ends; the workers must be through by then."""
    finished = subprocess.run([sys.executable, "-c", QUEUE + last], capture_output=True, text=True, timeout=120)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "end\n", "")


def test_one_thread_may_wait_while_another_queues() -> None:
    """What is queued during a wait keeps its arrays, although the waiting thread forgets those it waited for."""
    stop = threading.Event()

    def wait() -> None:
        while not stop.is_set():
            nonpu.synchronize()

    waiter = threading.Thread(target=wait)
    waiter.start()
    try:
        for step in range(60):
            grad = np.full(300_000, step, np.float32)
            x, out = np.ones_like(grad), np.empty_like(grad)
            tensors = [Tensor.from_numpy(array) for array in (grad, x, out)]
            size, executor = aclnn.aclnnSwishBackwardGetWorkspaceSize(
                tensors[0], tensors[1], Scalar(1.0, "float32"), tensors[2]
            )
            aclnn.aclnnSwishBackward(None, size, executor, None)
            del grad, x, tensors
            nonpu.synchronize()
            assert abs(out[-1] - step * 0.9276705118714869) <= 1e-5
    finally:
        stop.set()
        waiter.join()


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_tensor_cannot_leave_its_memory(duplicate: object) -> None:
    """A copy would keep an address that it does not own."""
    tensor = Tensor.from_numpy(np.ones(3, np.float32))
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        duplicate(tensor)  # type: ignore[operator]


def test_an_executor_survives_a_wrong_stream() -> None:
    """A stream of the wrong type is refused before the executor is consumed."""
    x = np.ones(4, np.float32)
    tensors = [Tensor.from_numpy(array) for array in (x, x, np.empty_like(x))]
    _, executor = aclnn.aclnnSwishBackwardGetWorkspaceSize(tensors[0], tensors[1], None, tensors[2])
    with pytest.raises(TypeError, match="stream"):
        executor.run("bad")  # type: ignore[arg-type]
    executor.run()


PRODUCT = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "acl/acl.h"
int main(void)
{
    aclInit(NULL);
    printf("%s\n", aclrtGetSocName());
    setenv("NONPU_PRODUCT", "Ascend310P3", 1);
    printf("%s\n", aclrtGetSocName());
    setenv("NONPU_PRODUCT", "nonsense", 1);
    printf("%s\n", aclrtGetSocName() ? "a name" : "null");
    printf("%d\n", strstr(aclGetRecentErrMsg(), "nonsense") != NULL);
    return 0;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_c_program_may_select_the_product_while_it_runs(tmp_path: Path) -> None:
    """setenv after the start of Python counts: Python's own copy of the environment does not see it."""
    source, program = tmp_path / "product.c", tmp_path / "product"
    source.write_text(PRODUCT)
    subprocess.run(["cc", source, *toolkit.cflags(), *toolkit.libs(), "-o", program], check=True)
    finished = subprocess.run([program], capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"})
    assert finished.stdout.split("\n") == ["Ascend910B1", "Ascend310P3", "null", "1", ""]


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_an_unknown_product_is_an_invalid_parameter_after_the_nulls(
    client: Client, monkeypatch: pytest.MonkeyPatch, op: Op
) -> None:
    """161002 with the variable's name; a null pointer still comes first."""
    monkeypatch.setenv("NONPU_PRODUCT", "nonsense")
    status, text, _, _ = client.phase_one(valid_call(op))
    assert status == 161002
    assert "product" in text
    assert "NONPU_PRODUCT" in text
    status, text, _, _ = client.phase_one(valid_call(op, {op.inputs[0]: None}))
    assert status == 161001
    assert op.inputs[0] in text


def test_a_folder_named_like_the_package_does_not_hide_it(tmp_path: Path) -> None:
    """A ctypes client in an interpreter without the package, started beside a clone of it."""
    (tmp_path / "nonpu").mkdir()
    script = tmp_path / "client.py"
    script.write_text(
        "import ctypes\n"
        f"library = ctypes.CDLL({toolkit.home() + '/lib64/libopapi.so'!r})\n"
        "print(library.aclInit(None))\n"
    )
    finished = subprocess.run([sys.executable, "-S", "-E", script], capture_output=True, text=True, timeout=60)
    assert finished.stdout == "0\n", finished.stderr


@pytest.mark.parametrize("address", [8, 0x7FFF_FFFF_F000, 0xDEAD_0000_BEEF_0000, 2**64 - 64])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_address_that_is_not_mapped_is_refused(address: int, position: int) -> None:
    """A tensor can be made from any number; phase one finds out that no memory is there."""
    tensors = [Tensor((4,), "float32", data=bytearray(16)) for _ in range(3)]
    tensors[position] = Tensor((4,), "float32", data=address)
    with pytest.raises(nonpu.AclnnError, match=rf"memory of this process \(got {address:#x}") as caught:
        aclnn.aclnnSigmoidBackwardGetWorkspaceSize(*tensors)
    assert caught.value.status == 161002
