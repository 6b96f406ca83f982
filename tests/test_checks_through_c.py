"""Every violation that the specifications know, through the C functions: status, text, and nothing written."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from nonpu.ops import OPS
from nonpu.spec.checks import Violation, sequence, valid_call
from nonpu.status import Status
from tests.c_client import NO_CALL, UNTOUCHED_EXECUTOR, UNTOUCHED_SIZE, Client


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
    assert "\n" not in text
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
