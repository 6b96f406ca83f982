"""The record that holds everything the documents say about one operator.

Validation, both Python phases, the C headers, the reference pages and the table-driven tests all come from this record.
"""

from __future__ import annotations

from nonpu.dtypes import BY_VALUE, DType, can_cast
from nonpu.status import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final, Protocol

    from nonpu.products import Product
    from nonpu.spec.call import Call, Failure, Violation
    from nonpu.tensor import Scalar

    class Check(Protocol):
        """A condition of the contract; see `nonpu.spec.checks`."""

        status: Status

        def describe(self) -> str:
            """Say in one English sentence what must hold."""

        def run(self, call: Call) -> Failure | None:
            """Return the failure of `call`, None if the condition holds; may note results on the call."""

        def violations(self, op: Op) -> list[Violation]:
            """Return calls that are valid but for this check."""

    Scalars = Callable[[Mapping[str, object], DType], tuple[float, ...]]

MAX_RANK: Final = 8
ALL_LINES: Final = ("950", "A3", "A2", "310B", "310P", "910")
# The six lines but 310B, for which the documents say "not supported".
ALL_BUT_310B: Final = ("950", "A3", "A2", "310P", "910")

FIRST_CHECK: Final = "workspaceSize and executor must not be null (tested before everything else)"


def snake_case(name: str) -> str:
    """Return `name` in the Python spelling: ``LeakyReluBackward`` becomes ``leaky_relu_backward``."""
    letters: list[str] = []
    for index, letter in enumerate(name):
        following = name[index + 1 : index + 2]
        starts_word = index > 0 and letter.isupper() and (not name[index - 1].isupper() or following.islower())
        letters.append(f"_{letter.lower()}" if starts_word else letter.lower())
    return "".join(letters)


def without(dtypes: tuple[DType, ...], *removed: DType) -> tuple[DType, ...]:
    """Return `dtypes` without some of them, in the same order."""
    return tuple(dtype for dtype in dtypes if dtype not in removed)


def show_dtypes(dtypes: tuple[DType, ...]) -> str:
    """Return the document names of `dtypes` as text: ``FLOAT, FLOAT16 or DOUBLE``."""
    names = [dtype.name for dtype in dtypes]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


class Parameter:
    """What every parameter has.

    Attributes
    ----------
    name : str
        Name in the C documents.
    python_name : str
        Name in the one-call functions.
    text : str
        What it means, one sentence.
    role : str
        ``in`` or ``out``.
    optional : bool
        Whether C callers may pass null.
    c_type : str
        C type in the first phase, with its trailing space if the name follows one.
    """

    __slots__ = ("c_type", "name", "optional", "python_name", "role", "text")

    def __init__(self, name: str, *, text: str, c_type: str, role: str = "in", optional: bool = False) -> None:
        self.name = name
        self.python_name = snake_case(name.removesuffix("Optional"))
        self.text = text
        self.role = role
        self.optional = optional
        self.c_type = c_type

    def describe(self, product: Product) -> dict[str, Any]:
        """Return the facts as JSON-able data."""
        return {
            "name": self.name,
            "python_name": self.python_name,
            "c_type": self.c_type,
            "role": self.role,
            "optional": self.optional,
            "text": self.text,
        }


class TensorParam(Parameter):
    """A tensor.

    Attributes
    ----------
    dtypes, dtypes_old : tuple of DType
        Types on products with and without BFLOAT16.
    converted : tuple of DType
        Further types that the documents grant to an output through automatic conversion, on every product.
    one_call : tuple of DType
        Further types that only the one-call functions accept.
    """

    __slots__ = ("_allowed", "converted", "dtypes", "dtypes_old", "one_call")

    def __init__(
        self,
        name: str,
        *,
        text: str,
        dtypes: tuple[DType, ...],
        role: str = "in",
        converted: tuple[DType, ...] = (),
        one_call: tuple[DType, ...] = (),
    ) -> None:
        super().__init__(name, text=text, role=role, c_type="aclTensor *" if role == "out" else "const aclTensor *")
        self.dtypes = dtypes
        self.dtypes_old = without(dtypes, DType.BFLOAT16)
        self.converted = converted
        self.one_call = one_call
        self._allowed = {
            (has_bf16, is_one_call): (dtypes if has_bf16 else self.dtypes_old)
            + converted
            + (one_call if is_one_call else ())
            for has_bf16 in (False, True)
            for is_one_call in (False, True)
        }

    def allowed(self, product: Product, one_call: bool = False) -> tuple[DType, ...]:
        """Return every type that the parameter may have on `product`."""
        return self._allowed[product.has_bf16, one_call]

    def describe(self, product: Product) -> dict[str, Any]:
        """Return the facts as JSON-able data."""
        dtypes = self.dtypes if product.has_bf16 else self.dtypes_old
        return {
            **super().describe(product),
            "kind": "tensor",
            "dtypes": [dtype.name for dtype in dtypes],
            "converted_dtypes": [dtype.name for dtype in self.converted],
            "one_call_dtypes": [dtype.name for dtype in self.one_call],
            "rank": [0, MAX_RANK],
            "format": "any (never checked)",
            "non_contiguous": True,
        }


class ScalarParam(Parameter):
    """A host scalar, read in phase one.

    Attributes
    ----------
    dtypes, dtypes_old : tuple of DType
        Types on products with and without BFLOAT16.
    castable_to : DType or None
        Where the documents give a rule instead of a list: the type that the scalar's type must convert to.
    default : float or None
        Value that a null scalar stands for, and the one-call functions' default.
    """

    __slots__ = ("castable_to", "default", "dtypes", "dtypes_old")

    def __init__(
        self,
        name: str,
        *,
        text: str,
        dtypes: tuple[DType, ...] = (),
        castable_to: DType | None = None,
        optional: bool = False,
        default: float | None = None,
    ) -> None:
        super().__init__(name, text=text, optional=optional, c_type="const aclScalar *")
        self.castable_to = castable_to
        self.default = default
        if castable_to is None:
            self.dtypes = dtypes
            self.dtypes_old = without(dtypes, DType.BFLOAT16)
        else:
            # A rule holds on every product: no document takes BFLOAT16 from such a scalar.
            self.dtypes = tuple(dtype for dtype in BY_VALUE.values() if can_cast(dtype, castable_to))
            self.dtypes_old = self.dtypes

    def allowed(self, product: Product) -> tuple[DType, ...]:
        """Return every type that the scalar may have on `product`."""
        return self.dtypes if product.has_bf16 else self.dtypes_old

    def describe(self, product: Product) -> dict[str, Any]:
        """Return the facts as JSON-able data."""
        return {
            **super().describe(product),
            "kind": "scalar",
            "dtypes": [dtype.name for dtype in self.allowed(product)],
            "castable_to": None if self.castable_to is None else self.castable_to.name,
            "default": self.default,
        }


class FlagParam(Parameter):
    """A host bool.

    Attributes
    ----------
    default : bool
        Default of the one-call function.
    """

    __slots__ = ("default",)

    def __init__(self, name: str, *, text: str, default: bool = False) -> None:
        super().__init__(name, text=text, c_type="bool")
        self.default = default

    def describe(self, product: Product) -> dict[str, Any]:
        """Return the facts as JSON-able data."""
        return {**super().describe(product), "kind": "flag", "default": self.default}


class Fast:
    """A quick function that is right for nearly all elements and knows for which (see `nonpu.engine.guarded`).

    Attributes
    ----------
    function : callable
        Like the function of a `Kernel`, but returns ``(value, sure)``; for complex types ``(re, im, sure)``.
    compute : DType
        FLOAT, or DOUBLE for DOUBLE and COMPLEX128 elements.
    error : int or None
        What the error of a sure value in ulps of FLOAT is below, or below that and one more where the value is too
        small; used for elements of 16 bits, to find the values whose rounding is in doubt. None, for BFLOAT16: values
        are the exact results rounded to FLOAT, and in the place of ``sure`` the function returns a number that is 0
        where the value is exact, so that a tie is not in doubt.
    trial : callable or None
        For FLOAT16 and one parameter: takes a significand of the first input, the parameter and a neighbour of it or
        the parameter itself; returns whether the neighbour may give another result. If it does not for any significand
        in [1, 2), `function` with the neighbour computes everything.
    values : int or None
        Of how many inputs the value counts; `function` only compares the others with 0, and for FLOAT16 they are 1
        where they are positive and 0 elsewhere, which is quicker than to widen them. None: of all.
    flagged : callable or None
        For BFLOAT16: takes the place of `function` on processors that note subnormal operands, and returns the result,
        rounded to BFLOAT16. Where that could be wrong, an operation under- or overflows, is invalid or has a subnormal
        operand, or the last input is at least `limit`, a power of two, or NaN.
    limit : float
        See there.
    stages : tuple of callable, optional
        For FLOAT and DOUBLE, `function` in two: the first takes the same and returns two numbers, which the second
        takes as well, at the end.
    broad : Fast, optional
        The same values where `function` is sure, but it is sure of more arguments: slower than this one, quicker than
        the accurate function.
    """

    __slots__ = ("broad", "compute", "error", "flagged", "function", "limit", "stages", "trial", "values")

    def __init__(
        self,
        function: Callable[..., Any],
        compute: DType,
        error: int | None = 0,
        trial: Callable[..., Any] | None = None,
        values: int | None = None,
        flagged: Callable[..., Any] | None = None,
        limit: float = 2.0**127,
        stages: tuple[Callable[..., Any], Callable[..., Any]] | None = None,
        broad: Fast | None = None,
    ) -> None:
        self.function = function
        self.compute = compute
        self.error = error
        self.trial = trial
        self.values = values
        self.flagged = flagged
        self.limit = limit
        self.stages = stages
        self.broad = broad


class Kernel:
    """The scalar function of one promoted type.

    Attributes
    ----------
    function : callable
        Takes one element of every input in the order of `Op.inputs`, then the scalar parameters; returns the result.
    compute : DType
        Type of the function's arguments and result; narrower elements are widened before and rounded after.
    cost : float
        Rough nanoseconds per element in cache on one thread; decides from which size on threads share the work.
    fast : Fast or None
        Computes the elements that it is sure of; `function`, in DOUBLE, then only computes the others.
    unit : Fast or None
        Takes the place of `fast` where the only parameter is 1; its function takes the inputs alone.
    """

    __slots__ = ("compute", "cost", "fast", "function", "unit")

    def __init__(
        self,
        function: Callable[..., Any],
        compute: DType,
        cost: float = 0.2,
        fast: Fast | None = None,
        unit: Fast | None = None,
    ) -> None:
        self.function = function
        self.compute = compute
        self.cost = cost
        self.fast = fast
        self.unit = unit


class Op:
    """One operator of the aclnn interface.

    Attributes
    ----------
    name : str
        ``LeakyReluBackward``.
    api, phase_one, phase_two : str
        ``aclnnLeakyReluBackward``, the same with ``GetWorkspaceSize``, the same without.
    python_name, header : str
        ``leaky_relu_backward``, ``aclnn_leaky_relu_backward.h``.
    params : tuple of Parameter
        In C order, without workspaceSize and executor.
    tensors : dict of str to TensorParam
        Tensor parameters by name, in C order.
    scalar_params : tuple of ScalarParam
        Scalar parameters in C order.
    inputs, output : tuple of str, str
        Names of the input tensors in kernel order, name of the output tensor.
    products : tuple of str
        Product lines that support it.
    checks, one_call_checks : tuple of Check
        In contract order; the null, handle and product checks before them and the layout check after them belong to
        every operator.
    result_type : str
        ``promote``: the inputs promote; ``same``: all tensors have one type.
    shape_rule, formula, text, document : str
        Sentence, LaTeX, what the operator does, and where these facts come from.
    example : str
        Lines for Python's prompt, and what they print; `np` and `nonpu` are imported.
    notes, differences : tuple of str
        Special values; sentences on where results or refusals differ from the device.
    stream_const : bool
        Whether the header declares the stream of phase two const.
    kernels : dict of DType to Kernel
        By promoted type.
    bounds : dict of DType to float
        Largest error of each kernel for finite arguments, in units in the last place of the promoted type, that is
        promised; of complex types per component, relative to the modulus where a component cancels. 0.5: correctly
        rounded.
    """

    __slots__ = (
        "api",
        "bounds",
        "checks",
        "differences",
        "document",
        "example",
        "formula",
        "header",
        "inputs",
        "kernels",
        "name",
        "notes",
        "one_call_checks",
        "output",
        "params",
        "phase_one",
        "phase_two",
        "prepared",
        "products",
        "python_name",
        "result_type",
        "scalar_params",
        "scalars",
        "shape_rule",
        "stream_const",
        "tensors",
        "text",
    )

    def __init__(
        self,
        name: str,
        *,
        text: str,
        document: str,
        formula: str,
        params: tuple[Parameter, ...],
        checks: tuple[Check, ...],
        shape_rule: str,
        kernels: dict[DType, Kernel],
        bounds: dict[DType, float],
        result_type: str = "promote",
        one_call_checks: tuple[Check, ...] | None = None,
        products: tuple[str, ...] = ALL_BUT_310B,
        scalars: Scalars | None = None,
        notes: tuple[str, ...] = (),
        differences: tuple[str, ...] = (),
        stream_const: bool = False,
        example: str = "",
    ) -> None:
        self.name = name
        self.api = self.phase_two = f"aclnn{name}"
        self.phase_one = f"aclnn{name}GetWorkspaceSize"
        self.python_name = snake_case(name)
        self.header = f"aclnn_{self.python_name}.h"
        self.text = text
        self.document = document
        self.example = example
        self.formula = formula
        self.params = params
        self.tensors = {param.name: param for param in params if isinstance(param, TensorParam)}
        self.scalar_params = tuple(param for param in params if isinstance(param, ScalarParam))
        self.inputs = tuple(param.name for param in self.tensors.values() if param.role == "in")
        (self.output,) = (param.name for param in self.tensors.values() if param.role == "out")
        self.checks = checks
        self.one_call_checks = checks if one_call_checks is None else one_call_checks
        self.result_type = result_type
        self.shape_rule = shape_rule
        self.products = products
        self.scalars = self._round_scalars if scalars is None else scalars
        if kernels.keys() != bounds.keys():
            raise ValueError(f"{name}: bounds must have the types of kernels (got {sorted(bounds)})")
        self.kernels = kernels
        self.bounds = bounds
        self.notes = notes
        self.differences = differences
        self.stream_const = stream_const
        # Run lists of `nonpu.spec.checks.judge`, by Call.one_call.
        self.prepared: dict[bool, tuple[Callable[[Call], Failure | None], ...]] = {}

    @property
    def c_phase_one(self) -> list[tuple[str, str]]:
        """C type and name of every parameter of the first phase."""
        own = [(param.c_type, param.name) for param in self.params]
        return [*own, ("uint64_t *", "workspaceSize"), ("aclOpExecutor **", "executor")]

    @property
    def c_phase_two(self) -> list[tuple[str, str]]:
        """C type and name of every parameter of the second phase."""
        stream = "const aclrtStream" if self.stream_const else "aclrtStream"
        return [
            ("void *", "workspace"),
            ("uint64_t", "workspaceSize"),
            ("aclOpExecutor *", "executor"),
            (stream, "stream"),
        ]

    def supports(self, product: Product) -> bool:
        """Return whether the documents list `product` as supported."""
        return product.line in self.products

    def _round_scalars(self, arguments: Mapping[str, object], promoted: DType) -> tuple[float, ...]:
        """Return the scalars as the kernel wants them, rounded once to the real type it computes in."""
        wide = promoted in (DType.DOUBLE, DType.COMPLEX128)
        values = []
        for param in self.scalar_params:
            scalar: Scalar | None = arguments[param.name]  # type: ignore[assignment]
            if scalar is None:
                assert param.default is not None
                values.append(param.default)
            else:
                values.append(scalar.to_double() if wide else scalar.to_float())
        return tuple(values)

    def describe(self, product: Product) -> dict[str, Any]:
        """Return everything the specification says for `product`, as JSON-able data."""
        from nonpu.spec.checks import sequence

        checks = [{"status": int(Status.ACLNN_ERR_PARAM_NULLPTR), "sentence": FIRST_CHECK}]
        checks += [{"status": int(check.status), "sentence": check.describe()} for check in sequence(self)]
        return {
            "name": self.name,
            "api": self.api,
            "python_name": self.python_name,
            "header": f"aclnnop/{self.header}",
            "text": self.text,
            "document": self.document,
            "example": self.example,
            "formula": self.formula,
            "product": {"line": product.line, "name": product.name, "soc": product.soc},
            "supported": self.supports(product),
            "products": list(self.products),
            "parameters": [param.describe(product) for param in self.params],
            "one_call": self._extensions(),
            "rank": [0, MAX_RANK],
            "shape_rule": self.shape_rule,
            "result_type": self.result_type,
            "c_phase_one": [list(pair) for pair in self.c_phase_one],
            "c_phase_two": [list(pair) for pair in self.c_phase_two],
            "checks": checks,
            "accuracy": {dtype.name: bound for dtype, bound in self.bounds.items()},
            "notes": list(self.notes),
            "differences": list(self.differences),
        }

    def _extensions(self) -> list[str]:
        """Say what the one-call function accepts beyond the contract."""
        from nonpu.spec.universal import listed

        found = []
        wider = tuple(param.name for param in self.tensors.values() if param.one_call)
        for dtypes in dict.fromkeys(self.tensors[name].one_call for name in wider):
            names = tuple(name for name in wider if self.tensors[name].one_call == dtypes)
            found.append(f"{show_dtypes(dtypes)} for {listed(names)}, on every product.")
        other = [check.describe() for check in self.one_call_checks if check not in self.checks]
        if other:
            found.append(f"Further shapes: {'; '.join(other)}.")
        return [*found, "Negative strides."]

    def __repr__(self) -> str:
        """Show the contract for the product that NONPU_PRODUCT names."""
        from nonpu.spec.contract import render_text

        return render_text(self.describe(_environment_product()))

    def _repr_html_(self) -> str:
        """Show the contract in a notebook."""
        from nonpu.spec.contract import render_html

        return render_html(self.describe(_environment_product()))


def _environment_product() -> Product:
    from nonpu import products

    try:
        return products.current()
    except ValueError:
        return products.find(products.DEFAULT)
