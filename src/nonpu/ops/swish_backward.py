"""Gradient of Swish."""

from __future__ import annotations

from nonpu.dtypes import DType
from nonpu.spec.checks import Broadcast, DTypes, Rank, SameDType, SameShape, ScalarDTypes
from nonpu.spec.model import Fast, Kernel, Op, ScalarParam, TensorParam
from nonpu.spec.primitives import FLOAT_MAGIC, MAGIC, fma, power_of_two, scaled, to_odd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Exp = Callable[[float, float], tuple[float, float, float]]
    Slope = Callable[[float, float, float, float, bool], float]
    Unit = Callable[[float, float], tuple[float, bool]]
    Stages = tuple[
        Callable[[float, float], tuple[float, float]], Callable[[float, float, float, float], tuple[float, bool]]
    ]
    General = Callable[[float, float, float], tuple[float, bool]]

# With a = |beta x| and e = exp(-a), the derivative is v = e (1 - a + e) / (1 + e)**2 at -a and 1 - v at +a.
# The sum t = 1 - a + e cancels at its root a0 = 1.2784645; exp is therefore reduced around the root:
#     -a = -a0 + k ln 2 + r,    e = E 2**k (1 + m),    E = exp(-a0) = a0 - 1,    m = expm1(r),
# and for k = 0 the sum is t = r + E m with r = a0 - a: both terms have the sign of r, nothing cancels.
LOG2E = 1.4426950408889634
ROOT, ROOT_LOW, ROOT_REST = 1.2784645427610737, 1.0946994183093437e-16, 3.907766676128665e-33
ROOT_OCTAVES = 1.8444344557937773  # a0 / ln 2
EXP_ROOT, EXP_ROOT_LOW = 0.2784645427610738, -5.5747156036064e-18  # E = EXP_ROOT * (1 + EXP_ROOT_LOW)
# LN2_HIGH has 40 fractional bits: k LN2_HIGH is exact for every k that occurs.
LN2_HIGH, LN2_LOW = 0.6931471805592082, 7.371002565167799e-13
# Chebyshev fit of (expm1(r) - r) / r**2 for |r| <= 0.347, error 1.5e-18 (mpmath.chebyfit, 11 terms).
P0, P1, P2, P3, P4, P5, P6, P7, P8, P9, P10 = (
    0.5,
    0.1666666666666667,
    0.04166666666666667,
    0.00833333333332607,
    0.0013888888888883703,
    0.00019841269875048905,
    2.480158732571076e-05,
    2.755725511097889e-06,
    2.755727343657049e-07,
    2.510533724466521e-08,
    2.091477283224809e-09,
)
# Below this the derivative is 1/2 + z/2 within 2**-57: the next term is -z**3/12.
NEAR_ZERO = 2.0**-18
# The documented formula in IEEE arithmetic has exp(-t) = inf, hence a zero derivative, from here on; it shows only
# where the gradient is infinite (inf * 0 is NaN).  FLOAT: the midpoint below the first float whose exp overflows.
FLOAT_ZERO, DOUBLE_ZERO = -88.7228355407715, -709.782712893384
# Where exp(-a) leaves the normal doubles: the exponent is kept apart, with 2**-FAR_BIAS left in the result.
FAR, FAR_BIAS, FAR_LIMIT = -700.0, 100.0, 1480.0
SATURATED = 700.0


def expm1_tail(r: float) -> float:
    """(expm1(r) - r) / r**2 for |r| <= 0.347."""
    p = fma(P10, r, P9)
    p = fma(p, r, P8)
    p = fma(p, r, P7)
    p = fma(p, r, P6)
    p = fma(p, r, P5)
    p = fma(p, r, P4)
    p = fma(p, r, P3)
    p = fma(p, r, P2)
    p = fma(p, r, P1)
    return fma(p, r, P0)


def swish_backward(grad: float, x: float, beta: float) -> float:
    """FLOAT16, BFLOAT16 and FLOAT in DOUBLE: z = beta x is exact, and so are all ranges.

    The relative error stays below 2**-50 everywhere, the root and the tail included.  The final rounding to odd keeps
    ties right where the derivative is 1/2 plus something far below 2**-53.
    """
    z = x * beta
    a = abs(z)
    # exp(-700) times any float is far below the smallest FLOAT; an infinite or NaN argument becomes NaN here.
    a = (SATURATED if a > SATURATED else a) + ((x - x) + (beta - beta))
    octaves = fma(-a, LOG2E, ROOT_OCTAVES) + MAGIC
    k = octaves - MAGIC
    r = (fma(-k, LN2_HIGH, -a) + ROOT) + fma(-k, LN2_LOW, ROOT_LOW)
    m = fma(r * r, expm1_tail(r), r)
    scale = EXP_ROOT * power_of_two(octaves)
    e = fma(scale, m, scale)
    t = (r if k == 0.0 else (1.0 - a) + scale) + scale * m
    q = 1.0 + e
    v = e * t / (q * q)
    slope = v if z < 0.0 else 1.0 - v
    near_zero = a < NEAR_ZERO
    slope = fma(0.5, z, 0.5) if near_zero else slope
    lost = 0.5 * z - (slope - 0.5) if near_zero else 0.0
    slope = 0.0 if grad - grad != 0.0 and z < FLOAT_ZERO else slope
    result = grad * slope
    return to_odd(result, fma(grad, slope, -result) + grad * lost)


def swish_backward_double(grad: float, x: float, beta: float) -> float:
    """DOUBLE: z = beta x as a pair, and every rounding that can reach the last place as a correction.

    Names ending in ``_low`` hold what their partner has lost.  The root is known to three doubles because z is known
    to two: for beta != 1 it comes within 2**-106 of the root.
    """
    z = x * beta
    negative = z < 0.0
    limit = FAR_LIMIT if negative else SATURATED
    a = abs(z)
    beyond = a > limit
    z_low = fma(x, beta, -z)
    a_low = 0.0 if beyond else (-z_low if negative else z_low)
    a = (limit if beyond else a) + ((x - x) + (beta - beta))

    # r = a0 - a - k ln 2
    octaves = fma(-a, LOG2E, ROOT_OCTAVES) + MAGIC
    k = octaves - MAGIC
    first = fma(-k, LN2_HIGH, -a) + ROOT
    root_low = ROOT_LOW - a_low
    back = root_low - ROOT_LOW
    root_rest = ((ROOT_LOW - (root_low - back)) + (-a_low - back)) + ROOT_REST
    second = fma(-k, LN2_LOW, root_low)
    total = first + second
    rest = (second - (total - first)) + root_rest
    r = total + rest
    r_low = rest - (r - total)

    # e = exp(-a); far in the negative tail 2**k is left out, and e does not count beside 1
    m_tail = fma(r * r, expm1_tail(r), r_low)
    m = r + m_tail
    m_low = (r - m) + m_tail
    far = negative and k < FAR
    scale = EXP_ROOT * power_of_two(MAGIC - FAR_BIAS if far else octaves)
    e = fma(scale, m, scale)
    e_low = fma(scale, m, scale - e) + scale * (m_low + EXP_ROOT_LOW)
    counts = 0.0 if far else 1.0
    near_e, near_e_low = e * counts, e_low * counts

    # t = 1 - a + e, and at the root t = r + E m
    one_minus = 1.0 - a
    one_low = 1.0 - (one_minus + a)
    t = one_minus + near_e
    t_low = ((one_minus - t) + near_e) + ((one_low - a_low) + near_e_low)
    at_root = k == 0.0
    product = scale * m
    t_root = r + product
    t_root_low = ((r - t_root) + product) + (fma(scale, m, -product) + (r_low + scale * m_low))
    t, t_low = (t_root if at_root else t), (t_root_low if at_root else t_low)

    # v = e t / (1 + e)**2: one division, its error taken from the residual
    q = 1.0 + near_e
    q_low = ((1.0 - q) + near_e) + near_e_low
    square = q * q
    square_low = fma(q, q, -square) + 2.0 * q * q_low
    inverse = 1.0 / square
    w = t * inverse
    w_low = (fma(-w, square, t) + (t_low - w * square_low)) * inverse
    v = e * w
    v_low = fma(e, w, -v) + (e * w_low + e_low * w)

    slope = v if negative else 1.0 - v
    slope_low = v_low if negative else ((1.0 - slope) - v) - v_low
    linear = fma(0.5, z, 0.5)
    near_zero = a < NEAR_ZERO
    slope_low = 0.5 * z - (linear - 0.5) if near_zero else slope_low
    slope = linear if near_zero else slope
    slope = 0.0 if grad - grad != 0.0 and z < DOUBLE_ZERO else slope

    # In the far tail the exponent k + FAR_BIAS is applied in two halves around the product: the first leaves the
    # gradient normal unless the result is 0 anyway, so that only the last multiplication rounds.
    half = 0.5 * (k + FAR_BIAS) + MAGIC if far else MAGIC
    other = (k + FAR_BIAS) - (half - MAGIC) + MAGIC if far else MAGIC
    factor = grad * power_of_two(half)
    result = factor * slope
    low = factor * slope_low
    # An infinity or a zero stands as it is: its correction would be NaN or would lose the sign.
    exact = result - result == 0.0 and low - low == 0.0 and result != 0.0
    return (fma(factor, slope, low) if exact else result) * power_of_two(other)


# ---------------------------------------------------------------- fast functions
# In the type of the result (FLOAT for 16 bits), right to a few ulps where they are sure.  exp is reduced as above, with
#     a = -|beta x| = CENTRE + k ln 2 + r,    e = S (1 + m),    S = S0 2**k,    S0 = exp(CENTRE) rounded.
# At the root r is nearly 0 and (1 + a) + S is exact, so that e = S + S m, kept with its rounding error, gives 1 + a + e
# with full relative accuracy and no branch.  What S0 and the first part of ln 2 lack goes into r before the polynomial,
# and so does the low part of beta x; it also counts in the sum.

# FLOAT.  CENTRE = SHIFT - 2 LN2 with k shifted by 2; SHIFT is a multiple of 2**-24, so that r is exact for a <= -1/2.
FLOAT_LN2, FLOAT_LN2_REST = 0.693147182464599609375, -1.904654299957768e-9
FLOAT_SHIFT = 0.10782980918884277
FLOAT_SCALE = 1.1138581037521362
FLOAT_REST = 5.1243606691286914e-08  # ln(exp(CENTRE) / S0) - 2 FLOAT_LN2_REST
# Minimax fit of (expm1(r) - r) / r**2 for r in [-ln2/2, ln2/2] - SHIFT, error 3e-9 of exp.
F0, F1, F2, F3, F4 = (
    0.4999998211860657,
    0.16666759550571442,
    0.04167691245675087,
    0.008326404727995396,
    0.0012528450461104512,
)

# DOUBLE: the same reduction as above.
# The root in three parts: a + 1.25 is exact for a <= -1/2, where a - k LN2_HIGH would be rounded before the root is in.
ROOT_SHORT, ROOT_PART = 1.25, 0.028464542761073797
DOUBLE_REST = -7.12707623518768e-18  # the rest of the root plus ln(exp(-root) / EXP_ROOT)
# Chebyshev fit for |r| <= 0.347, error 4e-18 of exp (mpmath.chebyfit, 10 terms).
D0, D1, D2, D3, D4, D5, D6, D7, D8, D9 = (
    0.5000000000000001,
    0.16666666666666669,
    0.04166666666662374,
    0.008333333333330032,
    0.0013888888917406447,
    0.00019841269863201828,
    2.4801520996825697e-05,
    2.7557268229963227e-06,
    2.76202305675069e-07,
    2.5100494788905042e-08,
)

# Below this exp would come near the smallest normal number and the result could be subnormal by itself.
FLOAT_FAR, DOUBLE_FAR = -80.0, -700.0
# Below this the product of any gradient and the derivative is less than half the smallest number.
FLOAT_LEAST = -200.0
FLOAT_SCALE_BIASED: float = FLOAT_SCALE * 2.0**-FAR_BIAS
# Nearer to a centre than this, the rounding of the low part shows in r; at the root that would be a relative error.
FLOAT_CLOSE, DOUBLE_CLOSE = 2.0**-20, 2.0**-40


def float_reduced(a: float, a_low: float) -> tuple[float, float, float]:
    """Return r, k as a magic sum and m of exp(a + a_low) for a <= 0."""
    octaves = fma(a, LOG2E, FLOAT_MAGIC)
    k = octaves - FLOAT_MAGIC
    r = (fma(k, -FLOAT_LN2, a) - FLOAT_SHIFT) + (fma(k, -FLOAT_LN2_REST, FLOAT_REST) + a_low)
    p = fma(F4, r, F3)
    p = fma(p, r, F2)
    p = fma(p, r, F1)
    p = fma(p, r, F0)
    return r, octaves, fma(r * r, p, r)


def float_exp(a: float, a_low: float) -> tuple[float, float, float]:
    """Return r, S and m of exp(a + a_low) for a in [-80, 0]."""
    r, octaves, m = float_reduced(a, a_low)
    return r, scaled(FLOAT_SCALE, octaves), m


def double_exp(a: float, a_low: float) -> tuple[float, float, float]:
    """Return r, S and m of exp(a + a_low) for a in [-700, 0]."""
    octaves = fma(a, LOG2E, ROOT_OCTAVES) + MAGIC
    k = octaves - MAGIC
    r = (fma(k, -LN2_HIGH, a + ROOT_SHORT) + ROOT_PART) + (fma(k, -LN2_LOW, DOUBLE_REST) + a_low)
    p = fma(D9, r, D8)
    p = fma(p, r, D7)
    p = fma(p, r, D6)
    p = fma(p, r, D5)
    p = fma(p, r, D4)
    p = fma(p, r, D3)
    p = fma(p, r, D2)
    p = fma(p, r, D1)
    p = fma(p, r, D0)
    return r, scaled(EXP_ROOT, octaves), fma(r * r, p, r)


def fine_slope(scale: float, m: float, one_plus: float, low: float, negative: bool) -> float:
    """The derivative within 3 ulps: e and the sum as pairs, one rounding each for e t, (1 + e)**2 and the quotient."""
    e = fma(scale, m, scale)
    e_low = fma(scale, m, scale - e)
    t = one_plus + e
    t_low = (e - (t - one_plus)) + (e_low + low)
    product = fma(e, t, fma(e, t_low, e_low * t))
    q = 1.0 + e
    q_low = ((1.0 - q) + e) + e_low
    v = product / fma(q, q, (q + q) * q_low)
    return v if negative else 1.0 - v


def rough_slope(scale: float, m: float, one_plus: float, low: float, negative: bool) -> float:
    """The derivative within 5 ulps, for results of 16 bits."""
    e = fma(scale, m, scale)
    t = fma(scale, m, one_plus + scale) + low
    v = e * t / fma(e, 2.0 + e, 1.0)
    return v if negative else 1.0 - v


def swish_unit(exp: Exp, slope: Slope, far: float) -> tuple[Unit, Stages]:
    """Return the fast function for beta = 1, made from an exponential and a derivative, and its two stages."""

    def begin(grad: float, x: float) -> tuple[float, float]:
        _, scale, m = exp(-abs(x), -0.0)
        return scale, m

    def end(grad: float, x: float, scale: float, m: float) -> tuple[float, bool]:
        a = -abs(x)
        return grad * slope(scale, m, 1.0 + a, -0.0, x < 0.0), fma(grad, 0.0, a) >= far

    def unit(grad: float, x: float) -> tuple[float, bool]:
        scale, m = begin(grad, x)
        return end(grad, x, scale, m)

    return unit, (begin, end)


def swish_general(exp: Exp, slope: Slope, far: float, close: float) -> General:
    """Return the fast function for any beta.  Two stages would not make it quicker: they need four numbers."""

    def general(grad: float, x: float, beta: float) -> tuple[float, bool]:
        size, minus = abs(x), -abs(beta)
        a = size * minus
        a_low = fma(size, minus, -a)
        r, scale, m = exp(a, a_low)
        sure = (fma(grad, 0.0, a) >= far) & (abs(r) > close)  # a NaN where anything is not finite
        return grad * slope(scale, m, 1.0 + a, a_low, (x < 0.0) != (beta < 0.0)), sure

    return general


def tail(grad: float, one_plus: float, octaves: float, m: float) -> float:
    """The result for a below FLOAT_FAR and a negative beta x, where the derivative is e (1 + a).

    There e leaves the normal numbers, so 2**k is applied in three parts: 2**-FAR_BIAS before the product with the
    gradient, which cannot overflow then, and two halves after it.  Of these products the last one rounds; what an
    earlier one could lose is far below its last place.
    """
    left = octaves - (FLOAT_MAGIC - FAR_BIAS)
    half = fma(0.5, left, FLOAT_MAGIC)
    other = (left - half) + 2.0 * FLOAT_MAGIC
    v = fma(one_plus, m, one_plus) * FLOAT_SCALE_BIASED
    return grad * v * power_of_two(half) * power_of_two(other)


def swish_broad(slope: Slope) -> tuple[General, Unit]:
    """Return the function that is sure of large arguments too, in FLOAT, for any beta and for 1."""

    def value(grad: float, a: float, a_low: float, octaves: float, m: float, negative: bool) -> float:
        one_plus = 1.0 + a
        near = grad * slope(scaled(FLOAT_SCALE, octaves), m, one_plus, a_low, negative)
        distant = tail(grad, one_plus, octaves, m) if negative else grad
        return distant if a < FLOAT_FAR else near

    def broad(grad: float, x: float, beta: float) -> tuple[float, bool]:
        size, minus = abs(x), -abs(beta)
        whole = size * minus
        beyond = whole < FLOAT_LEAST
        a, a_low = (FLOAT_LEAST if beyond else whole), (0.0 if beyond else fma(size, minus, -whole))
        r, octaves, m = float_reduced(a, a_low)
        sure = (fma(grad, 0.0, fma(x, 0.0, beta * 0.0)) == 0.0) & ((a < FLOAT_FAR) | (abs(r) > FLOAT_CLOSE))
        return value(grad, a, a_low, octaves, m, (x < 0.0) != (beta < 0.0)), sure

    def broad_unit(grad: float, x: float) -> tuple[float, bool]:
        whole = -abs(x)
        a = FLOAT_LEAST if whole < FLOAT_LEAST else whole
        _, octaves, m = float_reduced(a, -0.0)
        return value(grad, a, -0.0, octaves, m, x < 0.0), fma(grad, 0.0, x * 0.0) == 0.0

    return broad, broad_unit


FLOAT_UNIT, FLOAT_STAGES = swish_unit(float_exp, fine_slope, FLOAT_FAR)
SHORT_UNIT, _ = swish_unit(float_exp, rough_slope, FLOAT_FAR)
DOUBLE_UNIT, DOUBLE_STAGES = swish_unit(double_exp, fine_slope, DOUBLE_FAR)
FLOAT_GENERAL = swish_general(float_exp, fine_slope, FLOAT_FAR, FLOAT_CLOSE)
SHORT_GENERAL = swish_general(float_exp, rough_slope, FLOAT_FAR, FLOAT_CLOSE)
DOUBLE_GENERAL = swish_general(double_exp, fine_slope, DOUBLE_FAR, DOUBLE_CLOSE)
FLOAT_BROAD, FLOAT_BROAD_UNIT = swish_broad(fine_slope)
SHORT_BROAD, SHORT_BROAD_UNIT = swish_broad(rough_slope)

KERNELS = {
    DType.FLOAT: Kernel(
        swish_backward,
        DType.DOUBLE,
        cost=0.5,
        fast=Fast(FLOAT_GENERAL, DType.FLOAT, broad=Fast(FLOAT_BROAD, DType.FLOAT)),
        unit=Fast(FLOAT_UNIT, DType.FLOAT, stages=FLOAT_STAGES, broad=Fast(FLOAT_BROAD_UNIT, DType.FLOAT)),
    ),
    DType.DOUBLE: Kernel(
        swish_backward_double,
        DType.DOUBLE,
        cost=1.2,
        fast=Fast(DOUBLE_GENERAL, DType.DOUBLE),
        unit=Fast(DOUBLE_UNIT, DType.DOUBLE, stages=DOUBLE_STAGES),
    ),
}
# The errors are measured over all 65,536 values of x, in ulps of FLOAT and with the rounding of the last product.  For
# beta = 1 they lie between -4.41 and 3.84 (FLOAT16), -3.9 and 3.6 (BFLOAT16); for 300 others they stay below 5.8.
KERNELS |= {
    dtype: Kernel(
        swish_backward,
        DType.DOUBLE,
        cost=0.6,
        fast=Fast(SHORT_GENERAL, DType.FLOAT, error=7, broad=Fast(SHORT_BROAD, DType.FLOAT, error=7)),
        unit=Fast(SHORT_UNIT, DType.FLOAT, error=4, broad=Fast(SHORT_BROAD_UNIT, DType.FLOAT, error=4)),
    )
    for dtype in (DType.FLOAT16, DType.BFLOAT16)
}

DTYPES = (DType.FLOAT, DType.FLOAT16, DType.BFLOAT16)
ONE_CALL = (DType.DOUBLE,)
DTYPE_CHECKS = (
    DTypes("gradOutput", "self"),
    ScalarDTypes("betaOptional"),
    SameDType("gradOutput", "self", "gradInput"),
    Rank("gradOutput", "self", "gradInput"),
)

SPEC = Op(
    "SwishBackward",
    text="Gradient of Swish, x times the logistic sigmoid of beta x.",
    document="aclnnSwishBackward",
    formula=(
        r"\mathrm{gradInput} = \mathrm{gradOutput} \cdot \sigma(\beta x)\,"
        r"\bigl(1 + \beta x\,(1 - \sigma(\beta x))\bigr), \qquad x = \mathrm{self},\ \sigma(t) = \frac{1}{1 + e^{-t}}"
    ),
    params=(
        TensorParam(
            "gradOutput",
            dtypes=DTYPES,
            one_call=ONE_CALL,
            text="Gradient of the loss with respect to the forward output.",
        ),
        TensorParam("self", dtypes=DTYPES, one_call=ONE_CALL, text="Forward input."),
        ScalarParam(
            "betaOptional",
            castable_to=DType.FLOAT,
            optional=True,
            default=1.0,
            text="Factor of the argument of the sigmoid; null means 1.0.",
        ),
        TensorParam(
            "gradInput",
            role="out",
            dtypes=DTYPES,
            one_call=ONE_CALL,
            text="Gradient with respect to the forward input.",
        ),
    ),
    checks=(*DTYPE_CHECKS, SameShape("gradOutput", "self", "gradInput")),
    one_call_checks=(*DTYPE_CHECKS, Broadcast("gradOutput", "self", into="gradInput")),
    result_type="same",
    shape_rule="gradOutput, self and gradInput have the same shape.",
    example="""\
>>> x = np.array([-2, 0, 2], np.float32)
>>> nonpu.swish_backward(np.ones_like(x), x, 1.5)
array([-0.08810411,  0.5       ,  1.0881041 ], dtype=float32)
""",
    notes=(
        "An infinite argument gives NaN, as the documented formula does in IEEE arithmetic.",
        "self = +0.0 or -0.0 and finite beta give half the gradient.",
        "FLOAT16 and BFLOAT16 compute in FLOAT and round once.",
    ),
    differences=(
        "Finite arguments give the exact value of the formula, rounded once: far below zero the small true value, where"
        " the device gives exactly 0, and at the limit where beta times self overflows, where the device gives NaN.",
    ),
    kernels=KERNELS,
    bounds={DType.FLOAT: 4.0, DType.DOUBLE: 4.0, DType.FLOAT16: 0.5, DType.BFLOAT16: 0.5},
)
