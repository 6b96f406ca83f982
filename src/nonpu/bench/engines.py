"""The libraries that run a case: nonpu itself and its peers.

Every engine works on arrays that NumPy allocated and filled, so that all have the same values in the same kind of
memory.  Peers are imported by name when their process starts: none of them is needed.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import ml_dtypes
import numpy as np

from nonpu.bench.cases import BETA, COMPLEX, SLOPE, Case, Operand

Array = np.ndarray[Any, Any]
Run = Callable[[], object]
SAMPLE = 8
PATTERN = 1 << 14
"""Different values in an array; larger arrays repeat them."""


class UnsupportedError(Exception):
    """The engine cannot run this case; the text says why."""


class Engine(Protocol):
    """What a worker needs of an engine.

    Attributes
    ----------
    lanes : tuple of str
        The ways in which it runs a case, each measured on its own.
    """

    lanes: ClassVar[tuple[str, ...]]

    def __init__(self, threads: int) -> None:
        """Import the library and bind it to a number of threads; ImportError if it is not installed."""

    def versions(self) -> dict[str, str]:
        """Return the releases that matter for the times."""

    def prepare(self, case: Case, lane: str) -> Run:
        """Return what is to be timed; `UnsupportedError` if the lane cannot run the case."""

    def sample(self) -> list[float]:
        """Return real parts of the first elements of the last result, for a comparison with the other engines."""

    def release(self) -> None:
        """Forget the arrays."""


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return NumPy's type of that name, bfloat16 included."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def filled(operand: Operand, seed: int, is_output: bool = False) -> Array:
    """Return an allocation with values from -4 to 4 (outputs: zeros), every page of it touched."""
    dtype = numpy_dtype(operand.dtype)
    if is_output:
        array = np.empty(operand.shape, dtype)
        array.fill(0)
        return array
    random = np.random.default_rng(seed)
    count = min(operand.elements, PATTERN)
    values = random.uniform(-4, 4, count)
    pattern = (values + 1j * random.uniform(-4, 4, count) if dtype.kind == "c" else values).astype(dtype)
    return np.resize(pattern, operand.shape)


def seen(array: Any, operand: Operand) -> Any:
    """Return the view that the operator gets; NumPy arrays and tensors of PyTorch spell it alike."""
    if operand.view == "T":
        return array.T
    return array[:, ::2] if operand.view == "::2" else array


def arrays(case: Case) -> tuple[Array, Array, Array]:
    """Return gradient, forward value and result as NumPy views, in fresh memory."""
    first, second, third = case.operands()
    return seen(filled(first, 1), first), seen(filled(second, 2), second), filled(third, 3, is_output=True)


class _NumpyEngine:
    """What the engines that write into a NumPy array share."""

    _arrays: tuple[Array, Array, Array] | None = None
    _case: Case | None = None

    def _get(self, case: Case) -> tuple[Array, Array, Array]:
        if self._arrays is None or self._case != case:
            self.release()
            self._case, self._arrays = case, arrays(case)
        return self._arrays

    def sample(self) -> list[float]:
        if self._arrays is None:
            return []
        return [float(value) for value in self._arrays[2].ravel()[:SAMPLE].real.astype(np.float64)]

    def release(self) -> None:
        self._arrays = self._case = None


class Nonpu(_NumpyEngine):
    """Our side, twice: the run of a planned executor, waited for, and the one-call function with ``out=``."""

    lanes: ClassVar[tuple[str, ...]] = ("executor", "call")

    def __init__(self, threads: int) -> None:
        from nonpu._core import lib

        lib.nonpu_set_threads(threads)

    def versions(self) -> dict[str, str]:
        import nonpu
        from nonpu.engine import load

        return {"nonpu": nonpu.__version__, "kernels": load.cpu_level()}

    def prepare(self, case: Case, lane: str) -> Run:
        grad, forward, out = self._get(case)
        return self._executor(case, grad, forward, out) if lane == "executor" else self._call(case, grad, forward, out)

    @staticmethod
    def _call(case: Case, grad: Array, forward: Array, out: Array) -> Run:
        import nonpu

        name, scalars = {
            "leaky": ("leaky_relu_backward", (SLOPE,)),
            "sigmoid": ("sigmoid_backward", ()),
            "swish": ("swish_backward", ()),
            "swish-beta": ("swish_backward", (BETA,)),
        }[case.operator]
        return functools.partial(getattr(nonpu, name), grad, forward, *scalars, out=out)

    @staticmethod
    def _executor(case: Case, grad: Array, forward: Array, out: Array) -> Run:
        from nonpu import AclnnError, Scalar, Tensor, aclnn
        from nonpu._core import lib

        tensors = [Tensor.from_numpy(array) for array in (grad, forward, out)]
        name, scalars = {
            "leaky": ("aclnnLeakyReluBackward", (Scalar(SLOPE, "float64"), False)),
            "sigmoid": ("aclnnSigmoidBackward", ()),
            "swish": ("aclnnSwishBackward", (None,)),
            "swish-beta": ("aclnnSwishBackward", (Scalar(BETA, "float32"),)),
        }[case.operator]
        try:
            _, executor = getattr(aclnn, f"{name}GetWorkspaceSize")(*tensors[:2], *scalars, tensors[2])
        except AclnnError as error:
            raise UnsupportedError(f"the two-phase contract refuses it, because of {error.parameter}") from None
        executor.set_repeatable()
        run, wait = executor.run, lib.nonpu_stream_synchronize

        def run_and_wait() -> None:
            run()
            wait(0)

        return run_and_wait


class Torch:
    """PyTorch's own operators with ``out=``; for another beta, which it has no operator for, their composition."""

    lanes: ClassVar[tuple[str, ...]] = ("torch",)

    def __init__(self, threads: int) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._torch.set_num_threads(threads)
        self._out: Any = None

    def versions(self) -> dict[str, str]:
        return {"torch": self._torch.__version__, "torch CPU capability": self._torch.backends.cpu.get_cpu_capability()}

    def _tensor(self, operand: Operand, seed: int, is_output: bool = False) -> Any:
        array = filled(operand, seed, is_output)
        if operand.dtype == "bfloat16":
            return seen(self._torch.from_numpy(array.view(np.int16)).view(self._torch.bfloat16), operand)
        return seen(self._torch.from_numpy(array), operand)

    def prepare(self, case: Case, lane: str) -> Run:
        aten = self._torch.ops.aten
        first, second, third = case.operands()
        grad, forward, out = self._tensor(first, 1), self._tensor(second, 2), self._tensor(third, 3, is_output=True)
        self._out = out
        if case.operator == "leaky":
            operator = aten.leaky_relu_backward.grad_input
            return functools.partial(operator, grad, forward, SLOPE, False, grad_input=out)
        if case.operator == "sigmoid":
            return functools.partial(aten.sigmoid_backward.grad_input, grad, forward, grad_input=out)
        if case.operator == "swish":
            return functools.partial(aten.silu_backward.grad_input, grad, forward, grad_input=out)
        sigmoid = self._torch.sigmoid

        def composed() -> None:
            scaled = forward * BETA
            slope = sigmoid(scaled)
            self._out = grad * (slope * (1 + scaled * (1 - slope)))

        return composed

    def sample(self) -> list[float]:
        if self._out is None:
            return []
        values = self._out.reshape(-1)[:SAMPLE]
        return [float(value) for value in (values.real if values.is_complex() else values)]

    def release(self) -> None:
        self._out = None


class Numexpr(_NumpyEngine):
    """NumExpr, for FLOAT and DOUBLE."""

    lanes: ClassVar[tuple[str, ...]] = ("numexpr",)

    def __init__(self, threads: int) -> None:
        self._numexpr: Any = importlib.import_module("numexpr")
        self._numexpr.set_num_threads(threads)

    def versions(self) -> dict[str, str]:
        return {"numexpr": self._numexpr.__version__}

    def prepare(self, case: Case, lane: str) -> Run:
        if case.dtype not in ("float32", "float64") or case.layout != "contiguous":
            raise UnsupportedError("measured for contiguous FLOAT and DOUBLE only")
        grad, forward, out = self._get(case)
        expression = {
            "leaky": "where(x > 0, g, g * c)",
            "sigmoid": "g * x * (1 - x)",
            "swish": "g / (1 + exp(-x)) * (1 + x * (1 - 1 / (1 + exp(-x))))",
            "swish-beta": "g / (1 + exp(-c * x)) * (1 + c * x * (1 - 1 / (1 + exp(-c * x))))",
        }[case.operator]
        # An array, since a Python number would turn the expression into DOUBLE.
        constant = np.array(SLOPE if case.operator == "leaky" else BETA, forward.dtype)
        names = {"g": grad, "x": forward, **({"c": constant} if "c" in expression.replace("exp", "") else {})}
        return functools.partial(self._numexpr.evaluate, expression, local_dict=names, global_dict={}, out=out)


class Jax:
    """JAX, jitted, on its own copies of the arrays and without ``out=``, which it does not have."""

    lanes: ClassVar[tuple[str, ...]] = ("jax",)

    def __init__(self, threads: int) -> None:
        import os

        # Its thread pool has one thread per processor that the process may use when the library starts.
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[:threads])
        os.environ["JAX_PLATFORMS"] = "cpu"
        self._jax: Any = importlib.import_module("jax")
        self._jax.config.update("jax_enable_x64", True)
        self._out: Any = None

    def versions(self) -> dict[str, str]:
        return {"jax": self._jax.__version__}

    def prepare(self, case: Case, lane: str) -> Run:
        if case.dtype in COMPLEX or case.layout != "contiguous":
            raise UnsupportedError("measured for contiguous real types only")
        jax, where = self._jax, self._jax.numpy.where
        sigmoid, beta = jax.nn.sigmoid, case.beta
        formula: Callable[[Any, Any], Any] = {
            "leaky": lambda grad, x: where(x > 0, grad, grad * SLOPE),
            "sigmoid": lambda grad, y: grad * y * (1 - y),
        }.get(case.operator, lambda grad, x: grad * sigmoid(beta * x) * (1 + beta * x * (1 - sigmoid(beta * x))))
        grad, forward, _ = (jax.numpy.asarray(array) for array in arrays(case))
        compiled = jax.jit(formula)

        def run() -> None:
            self._out = compiled(grad, forward).block_until_ready()

        return run

    def sample(self) -> list[float]:
        return [] if self._out is None else [float(value) for value in self._out[:SAMPLE]]

    def release(self) -> None:
        self._out = None
