"""Precision standards: the rules by which a result is accepted, as data, each with its source.

Two standards are published with the operator base library, in documents that call them experimental; a third rule there
is the exact match. They define thresholds for the 16-bit types and FLOAT. What is judged here beyond that:

- DOUBLE takes the thresholds of FLOAT times 2**-29. A unit in the last place of DOUBLE is that much smaller (53 - 24
  bits of significand), so the standard allows the same number of units.
- COMPLEX64 and COMPLEX128 take those of FLOAT and DOUBLE. The error of an element is the modulus of the difference and
  its size the modulus of the expected value, as in NumPy's and PyTorch's ``isclose``: a component that cancels carries
  the rounding of its terms, so its own size is no measure.
- Integers and BOOL must match bit for bit under every standard.
- The published tables also have HIFLOAT32 and the 8-bit types. No operator here has results of these.

NaN and infinities come before any threshold: they must stand in the same places, infinities with the same sign; any NaN
equals any NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from nonpu.dtypes import INTEGERS, DType

if TYPE_CHECKING:
    from collections.abc import Mapping

# Percentage of elements that must be right; units up to which an absolute error above the limit is accepted.
MIXED_SHARE: Final = 99
MIXED_UNITS: Final = 32.0
# Added to the magnitude of the expected value before dividing by it, for types up to FLOAT.
OFFSET: Final = 1e-7
# The largest relative error may be this many times the threshold of the mean one.
MARE_FACTOR: Final = 10.0
# Unit in the last place of DOUBLE over that of FLOAT.
_FINER: Final = 2.0**-29


@dataclass(frozen=True)
class Tolerance:
    """Thresholds of the mixed tolerance.

    Parameters
    ----------
    relative, absolute : float
        An element passes if abs(actual - expected) <= absolute + relative * abs(expected). The relative one is a power
        of two, so that the product is exact.
    limit : float
        The largest absolute error must be below it.
    """

    relative: float
    absolute: float
    limit: float

    def scaled(self, factor: float) -> Tolerance:
        """Return all three times a power of two."""
        return Tolerance(self.relative * factor, self.absolute * factor, self.limit * factor)


def _extended(table: dict[DType, Tolerance]) -> dict[DType, Tolerance]:
    double = table[DType.FLOAT].scaled(_FINER)
    return {**table, DType.DOUBLE: double, DType.COMPLEX64: table[DType.FLOAT], DType.COMPLEX128: double}


MIXED: Final[Mapping[DType, Tolerance]] = _extended(
    {
        DType.FLOAT16: Tolerance(2.0**-9, 2.0**-9, 0.1),
        DType.BFLOAT16: Tolerance(2.0**-6, 2.0**-6, 1.0),
        DType.FLOAT: Tolerance(2.0**-10, 2.0**-16, 0.01),
    }
)
RELATIVE: Final[Mapping[DType, float]] = {
    DType.FLOAT16: 2.0**-10,
    DType.BFLOAT16: 2.0**-7,
    DType.FLOAT: 2.0**-13,
    DType.DOUBLE: 2.0**-13 * _FINER,
    DType.COMPLEX64: 2.0**-13,
    DType.COMPLEX128: 2.0**-13 * _FINER,
}
EXACT: Final = (*INTEGERS, DType.BOOL)
JUDGED: Final = (*RELATIVE, *EXACT)


def offset(dtype: DType) -> float:
    """Return what is added to the magnitude of the expected value before a difference is divided by it."""
    return OFFSET * _FINER if dtype in (DType.DOUBLE, DType.COMPLEX128) else OFFSET


@dataclass(frozen=True)
class Standard:
    """A named rule.

    Parameters
    ----------
    name : str
        As the command line takes it.
    rule : str
        ``mixed``, ``relative``, ``rms``, ``binary``, ``ulp`` or ``rounded``.
    text : str
        What it demands.
    source : str
        Where that comes from.
    units : float
        For ``ulp``: the largest error that passes.
    """

    name: str
    rule: str
    text: str
    source: str
    units: float = math.nan


_PAGE: Final = "experimental precision standard of the operator base library"
STANDARDS: Final[tuple[Standard, ...]] = (
    Standard(
        "mixed",
        "mixed",
        "abs(a - g) <= atol + rtol * abs(g) for at least 99 % of the elements, and no absolute error reaches the hard"
        " limit unless it is at most 32 ULP",
        f"{_PAGE}, the newer text (mixed tolerance)",
    ),
    Standard(
        "relative",
        "relative",
        "relative error abs(a - g) / (abs(g) + 1e-7): its mean (MERE) below t, its maximum (MARE) below 10 t",
        f"{_PAGE}, the older text (MERE and MARE)",
    ),
    Standard(
        "rms",
        "rms",
        "root mean square of a - g below t times the root mean square of g, with the t of the relative standard",
        "nonpu: the published texts set no threshold for the root mean square",
    ),
    Standard(
        "binary",
        "binary",
        "every element the same bits, the sign of zero included; any NaN for a NaN",
        f"{_PAGE}: integers, and operators that only copy, cast or select",
    ),
    Standard(
        "ulp",
        "ulp",
        "no element more than 1 unit in the last place of the expected value away; ulp:N sets another number",
        "nonpu: the unit is the one of its own accuracy tables",
        1.0,
    ),
    Standard(
        "correctly-rounded",
        "rounded",
        "every element equals the golden, the exact value rounded once; where that is 0 its sign counts for"
        " aclnnLeakyReluBackward only",
        "nonpu: the values that its goldens define; LeakyRelu's zeros follow IEEE multiplication",
    ),
)
# The words of device test suites' case files, and the standard each stands for here.
WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "default": ("mixed", "case files: no particular demand; the newer published text"),
    "single_bm": (
        "mixed",
        "case files: one reference of higher precision is the benchmark, as a golden is; the newer text",
    ),
    "high_precision": (
        "correctly-rounded",
        "case files: so tight that 1 ULP fails in FLOAT16; nothing is said of other types",
    ),
    "high_performance": ("ulp", "case files: about 1 ULP is tolerated"),
}
DEFAULT: Final = "mixed"
# Other spellings; 'exact' and 'bitwise' are what users call the exact match.
_SPELLINGS: Final = {
    "exact": "binary",
    "bitwise": "binary",
    "correctly_rounded": "correctly-rounded",
    "mere-mare": "relative",
    "mere_mare": "relative",
}


def find(name: str) -> Standard:
    """Return the standard of a name, of a word of case files, or of ``ulp:N``.

    Raises
    ------
    ValueError
        If there is none, or N is no number from 0 on.
    """
    word = name.strip().lower()
    word = _SPELLINGS.get(word, word)
    if word in WORDS:
        target, source = WORDS[word]
        return replace(find(target), name=word, source=source)
    for standard in STANDARDS:
        if standard.name == word:
            return standard
    head, colon, number = word.partition(":")
    if head == "ulp" and colon:
        return replace(find("ulp"), name=word, units=_units(number))
    known = ", ".join([standard.name for standard in STANDARDS] + ["ulp:N", *WORDS])
    raise ValueError(f"standard must be one of {known} (got {name!r})")


def _units(text: str) -> float:
    try:
        units = float(text)
    except ValueError:
        units = math.nan
    if not (0 <= units < math.inf):
        raise ValueError(f"standard: N of ulp:N must be a number from 0 on (got {text!r})")
    return units


def power(value: float) -> str:
    """Return a power of two as ``2^-9``, another number as it is."""
    mantissa, exponent = math.frexp(value)
    return f"2^{exponent - 1}" if mantissa == 0.5 and value != 1 else f"{value:.4g}"


def render() -> str:
    """Return all standards with thresholds and sources, for a terminal."""
    lines: list[str] = []
    for standard in STANDARDS:
        lines += [standard.name, f"    {standard.text}", f"    source: {standard.source}"]
        if standard.rule in ("relative", "rms"):
            lines += [f"    {dtype.name:<10} t = {power(t)}" for dtype, t in RELATIVE.items()]
        if standard.rule == "mixed":
            lines += [
                f"    {dtype.name:<10} rtol = {power(row.relative):<6} atol = {power(row.absolute):<6}"
                f" hard limit = {row.limit:.4g}"
                for dtype, row in MIXED.items()
            ]
    lines += ["", "Words of case files"]
    lines += [f"    {word:<16} = {target:<18} {source}" for word, (target, source) in WORDS.items()]
    lines += [
        "",
        "NaN and infinities must stand in the same places, infinities with the same sign, before anything else is",
        "looked at. Integers and BOOL must match bit for bit under every standard. The published tables do not define",
        "DOUBLE and COMPLEX: DOUBLE takes the thresholds of FLOAT times 2^-29 (the same number of units in the last",
        "place), COMPLEX64 and COMPLEX128 those of FLOAT and DOUBLE, with moduli in place of magnitudes.",
    ]
    return "\n".join(lines)
