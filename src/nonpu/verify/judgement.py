"""The rule of a standard applied to what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nonpu.verify import standards
from nonpu.verify.standards import power

if TYPE_CHECKING:
    from nonpu.verify.measures import Totals
    from nonpu.verify.standards import Standard

# Whose zeros follow IEEE multiplication, so that their sign is part of the correct result.
SIGNED_ZEROS: Final = ("aclnnLeakyReluBackward",)


def judge(totals: Totals, standard: Standard, operator: str = "") -> tuple[str, int]:
    """Return why a result does not meet a standard, and how many elements are at fault.

    Parameters
    ----------
    totals : Totals
        What was measured over all elements; its limit is that of the standard.
    standard : Standard
        The standard.
    operator : str
        Name of the operator as in the documents.

    Returns
    -------
    reason : str
        Empty if the result meets the standard.
    failed : int
        Elements that the rule refuses. A rule of mean values refuses no single element: then only misplaced NaN and
        infinities count.
    """
    rule = "binary" if totals.dtype in standards.EXACT else standard.rule
    reason, failed = {
        "mixed": _mixed,
        "relative": _relative,
        "rms": _rms,
        "binary": _binary,
        "ulp": _ulp,
        "rounded": _rounded,
    }[rule](totals, operator)
    if totals.special:
        return f"NaN or infinity misplaced: {_share(totals.special, totals.count)}", max(failed, totals.special)
    return reason, failed


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} element{'s' if whole != 1 else ''}"


def _mixed(totals: Totals, _operator: str) -> tuple[str, int]:
    row = standards.MIXED[totals.dtype]
    failed = totals.outside + totals.special
    if failed * 100 > totals.count * (100 - standards.MIXED_SHARE):
        return (
            f"outside the tolerance {power(row.absolute)} + {power(row.relative)}*abs(g): "
            f"{_share(failed, totals.count)}, more than {100 - standards.MIXED_SHARE} %",
            failed,
        )
    if totals.beyond:
        return (
            f"absolute error at or above the hard limit {row.limit:.4g}, and more than {standards.MIXED_UNITS:.0f} ULP:"
            f" {_share(totals.beyond, totals.count)}, largest {totals.max_absolute:.4g}",
            max(failed, totals.beyond),
        )
    return "", failed


def _relative(totals: Totals, _operator: str) -> tuple[str, int]:
    limit = standards.RELATIVE[totals.dtype]
    found = []
    if not totals.mere < limit:
        found.append(f"mean relative error {totals.mere:.4g} is not below {power(limit)} ({limit:.4g})")
    top = standards.MARE_FACTOR * limit
    if not totals.max_relative < top:
        found.append(f"largest relative error {totals.max_relative:.4g} is not below 10*{power(limit)} ({top:.4g})")
    return "; ".join(found), 0


def _rms(totals: Totals, _operator: str) -> tuple[str, int]:
    limit = standards.RELATIVE[totals.dtype]
    error, size = totals.error_norm.value, totals.size_norm.value
    if error == 0 or error < limit * size:
        return "", 0
    share = f"{error / size:.4g} of that of g" if size else "where g is 0"
    return f"root mean square error {totals.rms:.4g}, {share}, is not below {power(limit)} of it ({limit:.4g})", 0


def _binary(totals: Totals, _operator: str) -> tuple[str, int]:
    failed = totals.count - totals.identical
    zeros = totals.equal - totals.identical
    remark = f" ({zeros} by the sign of zero)" if zeros else ""
    return f"not the same bits: {_share(failed, totals.count)}{remark}" if failed else "", failed


def _ulp(totals: Totals, _operator: str) -> tuple[str, int]:
    if not totals.above:
        return "", totals.special
    reason = f"more than {totals.limit:g} ULP: {_share(totals.above, totals.count)}, largest {totals.max_units:.4g} ULP"
    return reason, totals.above + totals.special


def _rounded(totals: Totals, operator: str) -> tuple[str, int]:
    if operator in SIGNED_ZEROS:
        reason, failed = _binary(totals, operator)
        return reason.replace("not the same bits", "not correctly rounded"), failed
    failed = totals.count - totals.equal
    reason = f"not correctly rounded: {_share(failed, totals.count)}, largest error {totals.max_units:.4g} ULP"
    return reason if failed else "", failed
