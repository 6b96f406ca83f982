"""Correct results of an operator: the exact value of its formula, rounded as the contract says.

Finite arguments give the exact real value, rounded once to the promoted type; infinite and NaN arguments give the
documented formula in IEEE arithmetic of the compute type. The output's type comes from the promoted one by one more
conversion. Nothing is shared with the kernels: the formulas are those of `nonpu.verify.oracles`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import mpmath
import numpy as np

from nonpu.dtypes import DType
from nonpu.verify import oracles, quick, rounding
from nonpu.verify.quick import QuickArithmetic
from nonpu.verify.rounding import COMPONENT
from nonpu.verify.values import PairArithmetic, Values, exactly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from nonpu.verify.rounding import Real

    Arrays = Sequence[NDArray[Any]]
    Scalars = Sequence[Real | None]
    Parts = list[tuple[NDArray[np.float64], ...]]  # per argument: its value, or real and imaginary part
    Element = list[tuple[float, ...]]
    Enclosure = Callable[[int], tuple[Fraction, Fraction]]  # of one number, by precision

# A reference with this relative error moves the error of a DOUBLE result by less than 2**-10 of a unit.
_FINE: Final = 2.0**-63
_FIRST_PRECISION: Final = 160
_LAST_PRECISION: Final = 1 << 17
_EXACT_PRECISION: Final = 256
# Elements whose intermediate arrays stay in the second-level cache, and below the size from which on the allocator asks
# the system for each: Dask's workers, whose allocator gives everything back at once, would do little else.
_CHUNK: Final = 1 << 13
_FLAT: Final = 200.0  # exp of it is out of the range of FLOAT, at either end


@dataclass(frozen=True, eq=False)
class Reference:
    """Exact results of many elements.

    Parameters
    ----------
    components : tuple of Values
        One for real results, two for complex ones.
    floors : tuple of int64 arrays or None
        Per component: the unit of its error is taken in the binade [2**(floor-1), 2**floor) where that is above its
        own. None: its own binade everywhere.
    """

    components: tuple[Values, ...]
    floors: tuple[NDArray[np.int64] | None, ...]


class IeeeArithmetic:
    """What a documented formula needs besides operators, on arrays of float32 or float64."""

    choose = staticmethod(np.where)

    @staticmethod
    def exp(value: NDArray[Any]) -> NDArray[Any]:
        """Return the exponential, rounded correctly."""
        dtype = DType.parse(value.dtype)
        if dtype == DType.FLOAT:
            wide = quick.exactly(np.clip(np.asarray(value, np.float64), -_FLAT, _FLAT), dtype)
            result, undecided = quick.rounded(QuickArithmetic.exp(wide), dtype)
            for index in np.flatnonzero(undecided & ~np.isnan(value)):
                bits, _ = rounding.round_values(PairArithmetic.exp(exactly(np.asarray(wide.value.flat[index]))), dtype)
                result.flat[index] = rounding.from_bits(bits, dtype)
            return result
        # exp(+-8192) is out of range at either end, as exp of an infinity is.
        bits, _ = rounding.round_values(PairArithmetic.exp(exactly(np.clip(value, -8192, 8192))), dtype)
        return rounding.from_bits(bits, dtype)

    @staticmethod
    def clip(value: NDArray[Any], limit: int) -> NDArray[Any]:
        """Return the value, or +-limit where its magnitude is greater."""
        return np.asarray(np.clip(value, -limit, limit))


class LiteralArithmetic(IeeeArithmetic):
    """The same without the limits by which an overflow on the way stands for its limit: the formula to the letter."""

    @staticmethod
    def clip(value: NDArray[Any], limit: int) -> NDArray[Any]:
        """Return the value."""
        del limit
        return value


class Oracle:
    """Correct results of one operator.

    Parameters
    ----------
    name : str
        Python name of the operator.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._formula = oracles.formula(name)

    def exact(self, inputs: Sequence[complex], scalars: Scalars, promoted: DType) -> Any:
        """Return the exact result of one element.

        Parameters
        ----------
        inputs : numbers
            Exactly representable in the promoted type.
        scalars : numbers or None
            Before their rounding to the compute type; None takes the default.
        promoted : DType
            Promoted type of the inputs.

        Returns
        -------
        Fraction, mpf, float or pair of them
            A Fraction where intervals find the value exactly, else an mpf with a relative error below 2**-256. What
            infinite or NaN arguments give is a float if it is infinite or NaN. A pair for complex types.
        """
        arrays = [np.asarray(value, rounding.wide_dtype(promoted)) for value in inputs]
        parts, special = self._arguments(arrays, scalars, promoted)
        if bool(special):
            quick = self.reference(arrays, scalars, promoted).components
            answers: list[Any] = [component.element(0) for component in quick]
        else:
            element = _element(parts, 0)
            answers = [_tight(self._enclosure(element, i)) for i in range(2 if promoted in COMPONENT else 1)]
        return answers[0] if len(answers) == 1 else tuple(answers)

    def reference(self, arrays: Arrays, scalars: Scalars, promoted: DType) -> Reference:
        """Return the exact results of arrays that broadcast together, with relative errors below 2**-63."""
        with np.errstate(all="ignore"):
            parts, special = self._arguments(arrays, scalars, promoted)
            components, floors = self._fast(parts, promoted)
            components = self._refined(components, parts, special)
            if bool(np.any(special)):
                components = self._with_special(components, parts, special, promoted)
        return Reference(components, floors)

    def golden(self, arrays: Arrays, scalars: Scalars, promoted: DType, out: DType) -> NDArray[Any]:
        """Return the correct result.

        Parameters
        ----------
        arrays : NumPy arrays
            Inputs in kernel order, of any types that promote to `promoted`; they broadcast together.
        scalars : numbers or None
            Scalar parameters before their rounding to the compute type; None takes the default.
        promoted, out : DType
            Promoted type of the inputs, type of the output.

        Returns
        -------
        array of the output's NumPy type, in the broadcast shape
        """
        return self._chunked(self._golden, arrays, scalars, promoted, out)

    def documented(self, arrays: Arrays, scalars: Scalars, promoted: DType, out: DType) -> NDArray[Any]:
        """Return what the documented formula gives, operation by operation, in IEEE arithmetic of the compute type.

        That is FLOAT for up to 32 bits, else DOUBLE; the exponential is rounded correctly, and so are the result to the
        promoted type and that to the output's. Parameters and result are those of `golden`.
        """
        return self._chunked(self._documented, arrays, scalars, promoted, out)

    def _chunked(
        self, compute: Callable[..., list[NDArray[Any]]], arrays: Arrays, scalars: Scalars, promoted: DType, out: DType
    ) -> NDArray[Any]:
        """Compute a part of the elements at a time; the components are those of the promoted type."""
        result = np.empty(np.broadcast_shapes(*(array.shape for array in arrays)), rounding.numpy_dtype(out))
        flat, start = result.reshape(-1), 0
        with np.errstate(all="ignore"):
            for chunk in _chunks(arrays, result.size):
                components = compute(chunk, scalars, promoted)
                stop = start + components[0].size
                flat[start:stop] = rounding.convert(_joined(components, promoted), out)
                start = stop
        return result

    def _golden(self, arrays: Arrays, scalars: Scalars, promoted: DType) -> list[NDArray[Any]]:
        component = COMPONENT.get(promoted, promoted)
        types = [DType.parse(array.dtype) for array in arrays]
        if component == DType.DOUBLE or not all(COMPONENT.get(dtype, dtype) in quick.SIGNIFICANT for dtype in types):
            return self._careful(arrays, scalars, promoted)
        parts, _ = self._arguments(arrays, scalars, promoted)
        results: list[NDArray[Any]] = []
        undecided: Any = np.False_
        for values in self._quick(parts, types, promoted):
            result, doubtful = quick.rounded(values, component)
            results.append(result)
            undecided = undecided | doubtful
        wanted = np.flatnonzero(undecided)
        if wanted.size:
            answers = self._careful([array[wanted] for array in arrays], scalars, promoted)
            for result, answer in zip(results, answers, strict=True):
                result[wanted] = answer
        return results

    def _quick(self, parts: Parts, types: list[DType], promoted: DType) -> list[quick.Quick]:
        types = types + [DType.FLOAT] * (len(parts) - len(types))
        arithmetic = QuickArithmetic()
        known = [
            tuple(quick.exactly(part, COMPONENT.get(dtype, dtype)) for part in argument)
            for argument, dtype in zip(parts, types, strict=True)
        ]
        if promoted not in COMPONENT:
            return [self._formula.exact(arithmetic, *(number for (number,) in known))]
        return [_total(group) for group in self._formula.exact_complex(arithmetic, *known)]

    def _careful(self, arrays: Arrays, scalars: Scalars, promoted: DType) -> list[NDArray[Any]]:
        reference = self.reference(arrays, scalars, promoted)
        parts, _ = self._arguments(arrays, scalars, promoted)
        component = COMPONENT.get(promoted, promoted)
        return [self._rounded(values, parts, i, component) for i, values in enumerate(reference.components)]

    def _documented(self, arrays: Arrays, scalars: Scalars, promoted: DType) -> list[NDArray[Any]]:
        parts, _ = self._arguments(arrays, scalars, promoted)
        component = COMPONENT.get(promoted, promoted)
        answers = self._literal(LiteralArithmetic(), parts, promoted)
        return [quick.narrow(np.asarray(answer, np.float64), component) for answer in answers]

    def _literal(self, arithmetic: IeeeArithmetic, parts: Parts, promoted: DType) -> tuple[NDArray[Any], ...]:
        """Evaluate the documented formula in the compute type; without one, the exact formula has its order."""
        compute = np.float64 if promoted in (DType.DOUBLE, DType.COMPLEX128) else np.float32
        given = [tuple(part.astype(compute) for part in argument) for argument in parts]
        if promoted in COMPONENT:
            answers: tuple[NDArray[Any], ...] = self._formula.documented_complex(arithmetic, *given)
            return answers
        documented = getattr(self._formula, "documented", self._formula.exact)
        return (documented(arithmetic, *(part for (part,) in given)),)

    def _arguments(self, arrays: Arrays, scalars: Scalars, promoted: DType) -> tuple[Parts, NDArray[np.bool_]]:
        compute = DType.DOUBLE if promoted in (DType.DOUBLE, DType.COMPLEX128) else DType.FLOAT
        parts: Parts = []
        for array in arrays:
            wide = rounding.decode(np.asarray(array))
            if promoted in COMPONENT:
                parts.append((np.array(wide.real, np.float64), np.array(wide.imag, np.float64)))
            else:
                parts.append((wide,))
        defaults = self._formula.DEFAULTS
        given = [default if value is None else value for value, default in zip(scalars, defaults, strict=True)]
        parts += [(np.asarray(rounding.round_number(value, compute)),) for value in given]
        special: Any = np.False_
        for argument in parts:
            for part in argument:
                special = special | ~np.isfinite(part)
        return parts, np.asarray(special)

    def _fast(self, parts: Parts, promoted: DType) -> tuple[tuple[Values, ...], tuple[NDArray[np.int64] | None, ...]]:
        arithmetic = PairArithmetic()
        if promoted not in COMPONENT:
            return (self._formula.exact(arithmetic, *(exactly(part) for (part,) in parts)),), (None,)
        terms = self._formula.exact_complex(arithmetic, *(tuple(map(exactly, part)) for part in parts))
        components = tuple(_total(group) for group in terms)
        modulus = np.maximum(*(_magnitude(value) for value in components))
        sizes = (_total([abs(term) for term in group]) for group in terms)
        # A component cancels when its terms are together more than twice as large as it is.
        floors = tuple(
            np.where((abs(size) + -2 * abs(value)) > 0, modulus, np.iinfo(np.int64).min // 2)
            for size, value in zip(sizes, components, strict=True)
        )
        return components, floors

    def _enclosure(self, element: Element, component: int) -> Enclosure:
        return lambda precision: self._enclosed(element, precision)[component]

    def _enclosed(self, element: Element, precision: int) -> list[tuple[Fraction, Fraction]]:
        intervals = oracles.Intervals(precision)
        numbers = [tuple(map(intervals.number, part)) for part in element]
        if max(map(len, numbers)) == 1:
            return [oracles.ends(self._formula.exact(intervals, *(number for (number,) in numbers)))]
        return [oracles.ends(_total(group)) for group in self._formula.exact_complex(intervals, *numbers)]

    def _refined(self, components: tuple[Values, ...], parts: Parts, special: NDArray[np.bool_]) -> tuple[Values, ...]:
        result = []
        for i, values in enumerate(components):
            wanted = np.flatnonzero((values.bound > _FINE) & ~special)
            if wanted.size:
                elements = _elements(parts, wanted, values.shape)
                numbers = [rounding.fraction(_tight(self._enclosure(element, i))) for element in elements]
                values = values.replaced([int(index) for index in wanted], numbers)
            result.append(values)
        return tuple(result)

    def _with_special(
        self,
        components: tuple[Values, ...],
        parts: Parts,
        special: NDArray[np.bool_],
        promoted: DType,
    ) -> tuple[Values, ...]:
        name = "documented_complex" if promoted in COMPONENT else "documented"
        if not hasattr(self._formula, name):
            return components
        special = np.broadcast_to(special, components[0].shape)
        chosen = [tuple(np.broadcast_to(part, special.shape)[special] for part in argument) for argument in parts]
        answers = self._literal(IeeeArithmetic(), chosen, promoted)
        return tuple(values.overwritten(special, answer) for values, answer in zip(components, answers, strict=True))

    def _rounded(self, values: Values, parts: Parts, component: int, dtype: DType) -> NDArray[Any]:
        bits, undecided = rounding.round_values(values, dtype)
        wanted = np.flatnonzero(undecided)
        for index, element in zip(wanted, _elements(parts, wanted, values.shape), strict=True):
            bits.flat[index] = _decided(self._enclosure(element, component), dtype)
        return rounding.from_bits(bits, dtype)


def oracle(name: str) -> Oracle:
    """Return the oracle of an operator by its Python name, for example ``swish_backward``."""
    return Oracle(name)


def _total(terms: Sequence[Any]) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _chunks(arrays: Arrays, size: int) -> Iterator[list[NDArray[Any]]]:
    """Yield runs of the elements of arrays that broadcast together, in row-major order, each run flat."""
    if size == 0:
        return
    if size <= _CHUNK:
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
        yield [np.broadcast_to(array, shape).reshape(-1) for array in arrays]
        return
    flags: Any = ["external_loop", "buffered"]
    for chunk in np.nditer(tuple(arrays), flags, order="C", buffersize=_CHUNK):
        # The iterator uses its buffers again.
        yield [np.array(part) for part in (chunk if isinstance(chunk, tuple) else (chunk,))]


def _joined(components: list[NDArray[Any]], promoted: DType) -> NDArray[Any]:
    if promoted not in COMPONENT:
        return components[0]
    result = np.empty(components[0].shape, rounding.numpy_dtype(promoted))
    result.real, result.imag = components
    return result


def _magnitude(values: Values) -> NDArray[np.int64]:
    return np.where(values.high == 0, np.iinfo(np.int64).min // 2, values.exponent)


def _element(parts: Parts, index: int) -> Element:
    return [tuple(float(part.flat[index]) for part in argument) for argument in parts]


def _elements(parts: Parts, indices: NDArray[np.intp], shape: tuple[int, ...]) -> Iterator[Element]:
    wide = [tuple(np.broadcast_to(part, shape) for part in argument) for argument in parts]
    for index in indices:
        yield _element(wide, int(index))


def _precisions() -> Iterator[int]:
    precision = _FIRST_PRECISION
    while precision <= _LAST_PRECISION:
        yield precision
        precision *= 2
    raise ArithmeticError(f"oracle: {_LAST_PRECISION} bits leave the value open")


def _tight(enclosed: Enclosure) -> Fraction | mpmath.mpf:
    """Return the value: exactly if an interval shrinks to it, else to `_EXACT_PRECISION` bits."""
    for precision in _precisions():
        low, high = enclosed(precision)
        if low == high:
            return low
        if low * high > 0 and (high - low) * 2 ** (_EXACT_PRECISION + 4) < abs(low):
            with mpmath.workprec(_EXACT_PRECISION + 4):
                return mpmath.mpf(low.numerator) / low.denominator
    raise AssertionError  # the generator raises


def _decided(enclosed: Enclosure, dtype: DType) -> int:
    for precision in _precisions():
        low, high = (rounding.nearest_bits(end, dtype) for end in enclosed(precision))
        if low == high:
            return low
    raise AssertionError  # the generator raises
