"""What the Python interface says to a caller who errs: his own names first, one line, nothing of the inside."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import nonpu
from nonpu import AclnnError, AclnnTypeError, Status, Stream, Tensor, aclnn
from nonpu.ops import OPS, find
from nonpu.spec.call import in_python
from nonpu.spec.model import Op

X = np.ones(3, np.float32)
READ_ONLY = np.ones(3, np.float32)
READ_ONLY.flags.writeable = False

# Function, arguments, keywords, parameter of the contract, text.
REFUSALS: list[tuple[str, tuple[Any, ...], dict[str, Any], str, str]] = [
    (
        "swish_backward", (X, X), {"out": READ_ONLY}, "gradInput",
        "out (gradInput) must be writable (got a read-only array)",
    ),
    (
        "swish_backward", (X, X, "1"), {}, "betaOptional",
        "beta (betaOptional) must be a number or a nonpu.Scalar (got str)",
    ),
    (
        "swish_backward", (X, X, np.longdouble(1)), {}, "betaOptional",
        f"beta (betaOptional) dtype must be of a type that scalars can have (got {np.dtype(np.longdouble)})",
    ),
    (
        "swish_backward", (X, X, 10**400), {}, "betaOptional",
        "beta (betaOptional) must be a number in the range of float64 (got an int of 1329 bits)",
    ),
    (
        "swish_backward", (X, X.astype(np.float64)), {}, "self",
        "self dtype must be float32, the dtype of grad_output (got float64)",
    ),
    (
        "swish_backward", (X, X), {"out": np.ones(4, np.float32)}, "gradInput",
        "out (gradInput) shape must be [3], the broadcast shape of grad_output and self (got [4])",
    ),
    (
        "swish_backward", (None, X), {}, "gradOutput",
        "grad_output (gradOutput) must be an array (got None)",
    ),
    (
        "leaky_relu_backward", (X, X, -1, True), {}, "negativeSlope",
        "negative_slope (negativeSlope) must be at least 0 if self_is_result is True (got -1.0)",
    ),
    (
        "leaky_relu_backward", (X, X, 0.1, "yes"), {}, "selfIsResult",
        "self_is_result (selfIsResult) must be a bool (got 'yes')",
    ),
    (
        "leaky_relu_backward", (X, X), {"out": READ_ONLY}, "out",
        "out must be writable (got a read-only array)",
    ),
    (
        "sigmoid_backward", (X.astype(np.int32), X), {}, "gradOutput",
        "grad_output (gradOutput) dtype must be float32, float16, float64, bfloat16, complex64 or complex128 on"
        " Atlas A2 training / Atlas A2 inference (got int32)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("function", "arguments", "keywords", "parameter", "text"), REFUSALS)
def test_one_call_errors_speak_python(
    function: str, arguments: tuple[Any, ...], keywords: dict[str, Any], parameter: str, text: str
) -> None:
    """The caller's parameter comes first, the contract's behind it; `parameter` stays the contract's."""
    with pytest.raises(AclnnError) as caught:
        getattr(nonpu, function)(*arguments, **keywords)
    error = caught.value
    assert str(error) == f"nonpu.{function}: {text}"
    assert (error.parameter, error.argument) == (parameter, text.split()[0])
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), type(again), again.__dict__) == (str(error), type(error), error.__dict__)


@pytest.mark.parametrize(
    ("product", "kind"), [(3, TypeError), (["A2"], TypeError), (b"A2", TypeError), ("", ValueError)]
)
def test_a_product_that_is_none(product: Any, kind: type[Exception]) -> None:
    """One line that names the function, the parameter and the choices, whatever came."""
    with pytest.raises(kind) as caught:
        nonpu.sigmoid_backward(X, X, product=product)
    text = str(caught.value)
    assert text.startswith("nonpu.sigmoid_backward: product must be a SoC name or one of 950 (")
    assert "A2 (Atlas A2 training / Atlas A2 inference; Ascend910B1)" in text
    assert text.endswith(f"(got {product!r})")
    assert "\n" not in text


@pytest.mark.parametrize("beta", [2**63, 2**70, -(2**63) - 1, 10**300])
def test_large_integers_pass_through_float(beta: int) -> None:
    """A scalar that fits no INT64 counts as the float of its value."""
    grad, x = np.ones(4), np.array([0.0, 1e-20, -1e-20, 1.0])
    assert np.array_equal(nonpu.swish_backward(grad, x, beta), nonpu.swish_backward(grad, x, float(beta)))


def executor() -> tuple[int, nonpu.Executor]:
    """A planned call."""
    return aclnn.aclnnSigmoidBackwardGetWorkspaceSize(*(Tensor.from_numpy(X.copy()) for _ in range(3)))


def destroyed() -> Stream:
    """A stream that is no more."""
    stream = Stream()
    stream.destroy()
    return stream


@pytest.mark.parametrize(
    ("stream", "shown"), [(5, "5"), (-1, "-1"), (2**64, str(2**64)), (destroyed(), "a destroyed stream")]
)
def test_a_stream_that_is_not_alive(stream: Stream | int, shown: str) -> None:
    """One line, of the function that was called and with what the caller gave; the executor can still run."""
    with pytest.raises(AclnnError) as caught:
        nonpu.synchronize(stream)
    assert str(caught.value) == f"nonpu.synchronize: stream must be a live stream (got {shown})"
    size, planned = executor()
    with pytest.raises(AclnnError) as caught:
        aclnn.aclnnSigmoidBackward(None, size, planned, stream)
    assert str(caught.value) == f"aclnnSigmoidBackward: stream must be a live stream (got {shown})"
    assert caught.value.status is Status.ACLNN_ERR_RUNTIME_ERROR
    assert caught.value.parameter == "stream"


def test_earlier_failures_do_not_show() -> None:
    """The library keeps the texts of several failures; an exception has the last one only."""
    for number in (3, 7, 11):
        with pytest.raises(AclnnError, match=rf"^nonpu\.synchronize: .* \(got {number}\)$"):
            nonpu.synchronize(number)


@pytest.mark.parametrize("stream", ["5", 1.0, True])
def test_what_can_be_no_stream(stream: Any) -> None:
    """A TypeError that begins with the function."""
    size, planned = executor()
    for name, call in (
        ("nonpu.synchronize", lambda: nonpu.synchronize(stream)),
        ("aclnnSigmoidBackward", lambda: aclnn.aclnnSigmoidBackward(None, size, planned, stream)),
    ):
        with pytest.raises(TypeError) as caught:
            call()
        expected = f"{name}: stream must be a nonpu.Stream, a handle or None (got {type(stream).__name__})"
        assert str(caught.value) == expected
    aclnn.aclnnSigmoidBackward(None, size, planned)


def test_type_faults_of_one_call_functions_are_type_errors() -> None:
    """As they are of the two phases."""
    with pytest.raises(AclnnTypeError):
        nonpu.swish_backward(X, X.astype(np.float64))


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.python_name)
def test_help_speaks_python(op: Op) -> None:
    """No name of the C interface that has another one in Python."""
    text = getattr(nonpu, op.python_name).__doc__
    assert in_python(op, text) == text
    for param in op.params:
        if param.role == "in":
            assert f"\n{param.python_name} : " in text


def test_help_of_swish() -> None:
    """Nothing promotes, shapes broadcast, and no beta is 1."""
    text = nonpu.swish_backward.__doc__
    assert text is not None
    assert "None means 1.0" in text
    assert "promote" not in text
    assert "broadcast" in text
    assert "float64" in text


def test_contract_words_become_python_words() -> None:
    """Whole words only, and the output is called what the keyword is called."""
    op = find("SwishBackward")
    text = "gradInput of FLOAT16, betaOptional null, FLOATING gradInputs and BF16"
    assert in_python(op, text) == "out of float16, beta None, FLOATING gradInputs and BF16"
