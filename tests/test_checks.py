"""Every check of every operator: status, order and message.

Two witnesses. The first half runs over the violations that the specifications build themselves. The second half copies
the check tables of the operator documents by hand and knows nothing of the specifications but the parameter names.
"""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest

from nonpu import ops, products
from nonpu.dtypes import DType
from nonpu.spec.checks import Call, Invalid, infer_result, judge, sequence, valid_call, valid_tensor
from nonpu.status import AclnnError, AclnnTypeError, Status
from nonpu.tensor import Scalar, Tensor

VIOLATIONS = [
    (check, violation)
    for op in ops.OPS
    for check in sequence(op)
    for violation in check.violations(op)
]  # fmt: skip


def name_violation(value):
    if hasattr(value, "label"):
        return f"{value.call.op.name}-{value.label}"
    return type(value).__name__


def refuse(call):
    """Judge a call that must fail, and return the error."""
    with pytest.raises(AclnnError) as caught:
        judge(call)
    return caught.value


# --- from the specifications ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ops.OPS, ids=lambda op: op.name)
@pytest.mark.parametrize("one_call", [False, True])
def test_the_valid_call_passes(op, one_call):
    call = valid_call(op, one_call=one_call)
    judge(call)
    assert (call.promoted, call.shape, call.empty) == (DType.FLOAT, (2, 3), False)


@pytest.mark.parametrize(("check", "violation"), VIOLATIONS, ids=name_violation)
def test_each_violation_is_refused_by_its_check(check, violation):
    error = refuse(violation.call)
    op = violation.call.op
    assert error.status == check.status
    assert error.parameter == violation.parameter
    assert error.api == op.api
    what = rf"{violation.parameter}( \w+){{0,2}}"
    assert re.fullmatch(rf"{op.api}GetWorkspaceSize: {what} must be .+ \(got .+\)", str(error)), str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize("op", ops.OPS, ids=lambda op: op.name)
def test_every_check_has_a_violation_or_cannot_fail(op):
    """Promotion of the listed types is always defined, and emptiness is no fault: nothing else may be untested."""
    silent = {type(check).__name__ for check in sequence(op) if not check.violations(op)}
    assert silent <= {"Empty", "Promotes"}


# --- from the documents -----------------------------------------------------------------------------------------------

NULL = 161001
BAD = 161002
T = valid_tensor
S = Scalar


def of(dtype, shape=(2, 3)):
    """A tensor of an element type given by name, or by a number that may be none."""
    if isinstance(dtype, str):
        return T(shape, dtype)
    tensor = T(shape)
    tensor.dtype = dtype
    return tensor


# operator, arguments that differ from a valid call, product, status, parameter named
TABLE = [
    # aclnnLeakyReluBackward, row 1: nulls, in this order
    ("LeakyRelu", {"gradOutput": None}, "A2", NULL, "gradOutput"),
    ("LeakyRelu", {"self": None}, "A2", NULL, "self"),
    ("LeakyRelu", {"negativeSlope": None}, "A2", NULL, "negativeSlope"),
    ("LeakyRelu", {"out": None}, "A2", NULL, "out"),
    ("LeakyRelu", {"out": None, "negativeSlope": None, "self": None, "gradOutput": None}, "A2", NULL, "gradOutput"),
    ("LeakyRelu", {"out": None, "negativeSlope": None, "self": None}, "A2", NULL, "self"),
    ("LeakyRelu", {"out": None, "negativeSlope": None}, "A2", NULL, "negativeSlope"),
    # row 2: types of the tensors and of the slope
    ("LeakyRelu", {"gradOutput": of("int32")}, "A2", BAD, "gradOutput"),
    ("LeakyRelu", {"gradOutput": of("complex64")}, "A2", BAD, "gradOutput"),
    ("LeakyRelu", {"gradOutput": of(5)}, "A2", BAD, "gradOutput"),
    ("LeakyRelu", {"self": of("bool")}, "A2", BAD, "self"),
    ("LeakyRelu", {"self": of(-1)}, "A2", BAD, "self"),
    ("LeakyRelu", {"gradOutput": of("bfloat16")}, "310P", BAD, "gradOutput"),
    ("LeakyRelu", {"self": of("bfloat16")}, "910", BAD, "self"),
    ("LeakyRelu", {"negativeSlope": S(0, "uint16")}, "A2", BAD, "negativeSlope"),
    ("LeakyRelu", {"negativeSlope": S(0, "uint32")}, "A2", BAD, "negativeSlope"),
    ("LeakyRelu", {"negativeSlope": S(0, "uint64")}, "A2", BAD, "negativeSlope"),
    ("LeakyRelu", {"negativeSlope": S(0, "complex64")}, "A2", BAD, "negativeSlope"),
    ("LeakyRelu", {"negativeSlope": S(0, "float8_e5m2")}, "A2", BAD, "negativeSlope"),
    ("LeakyRelu", {"negativeSlope": S(0, "bfloat16")}, "910", BAD, "negativeSlope"),
    # row 3: rank, broadcasting, shape of out
    ("LeakyRelu", {"gradOutput": T((1,) * 9)}, "A2", BAD, "gradOutput"),
    ("LeakyRelu", {"self": T((1,) * 9)}, "A2", BAD, "self"),
    ("LeakyRelu", {"out": T((1,) * 9)}, "A2", BAD, "out"),
    ("LeakyRelu", {"gradOutput": T((4, 3))}, "A2", BAD, "self"),
    ("LeakyRelu", {"gradOutput": T((0, 3))}, "A2", BAD, "self"),
    ("LeakyRelu", {"gradOutput": T((2, 1)), "self": T((1, 3)), "out": T((2, 1))}, "A2", BAD, "out"),
    ("LeakyRelu", {"out": T((6,))}, "A2", BAD, "out"),
    ("LeakyRelu", {"out": T((1, 2, 3))}, "A2", BAD, "out"),
    # row 4: a negative slope for a result, compared as double
    ("LeakyRelu", {"selfIsResult": True, "negativeSlope": S(-0.5, "float32")}, "A2", BAD, "negativeSlope"),
    ("LeakyRelu", {"selfIsResult": True, "negativeSlope": S(-1, "int64")}, "A2", BAD, "negativeSlope"),
    ("LeakyRelu", {"selfIsResult": True, "negativeSlope": S(-1e-50, "float64")}, "A2", BAD, "negativeSlope"),
    # row 5: type of out
    ("LeakyRelu", {"out": of("complex32")}, "A2", BAD, "out"),
    ("LeakyRelu", {"out": of("string")}, "A2", BAD, "out"),
    ("LeakyRelu", {"out": of("int4")}, "950", BAD, "out"),
    ("LeakyRelu", {"out": of("float8_e5m2")}, "950", BAD, "out"),
    ("LeakyRelu", {"out": of(28)}, "A2", BAD, "out"),
    ("LeakyRelu", {"out": of("bfloat16")}, "310P", BAD, "out"),
    # aclnnSigmoidBackward, row 1
    ("Sigmoid", {"gradOutput": None}, "A2", NULL, "gradOutput"),
    ("Sigmoid", {"output": None}, "A2", NULL, "output"),
    ("Sigmoid", {"gradInput": None}, "A2", NULL, "gradInput"),
    ("Sigmoid", {"gradInput": None, "output": None}, "A2", NULL, "output"),
    # row 2
    ("Sigmoid", {"gradOutput": of("int32")}, "A2", BAD, "gradOutput"),
    ("Sigmoid", {"output": of("complex32")}, "A2", BAD, "output"),
    ("Sigmoid", {"gradInput": of("bool")}, "A2", BAD, "gradInput"),
    ("Sigmoid", {"gradInput": of(99)}, "A2", BAD, "gradInput"),
    ("Sigmoid", {"gradOutput": of("bfloat16")}, "310P", BAD, "gradOutput"),
    ("Sigmoid", {"output": of("bfloat16")}, "310P", BAD, "output"),
    ("Sigmoid", {"gradInput": of("bfloat16")}, "910", BAD, "gradInput"),
    # row 3
    ("Sigmoid", {"gradOutput": T((1,) * 9)}, "A2", BAD, "gradOutput"),
    ("Sigmoid", {"output": T((1,) * 9)}, "A2", BAD, "output"),
    # row 4: complex does not become real
    ("Sigmoid", {"gradOutput": of("complex64")}, "A2", BAD, "gradInput"),
    ("Sigmoid", {"output": of("complex128"), "gradInput": of("float64")}, "A2", BAD, "gradInput"),
    # row 5
    ("Sigmoid", {"gradOutput": T((3, 2))}, "A2", BAD, "output"),
    ("Sigmoid", {"gradInput": T((3,))}, "A2", BAD, "gradInput"),
    ("Sigmoid", {"gradInput": T((1,) * 9)}, "A2", BAD, "gradInput"),
    ("Sigmoid", {"gradOutput": T((0, 3)), "output": T((1, 3)), "gradInput": T((1, 3))}, "A2", BAD, "gradInput"),
    # aclnnSwishBackward, row 1
    ("Swish", {"gradOutput": None}, "A2", NULL, "gradOutput"),
    ("Swish", {"self": None}, "A2", NULL, "self"),
    ("Swish", {"gradInput": None}, "A2", NULL, "gradInput"),
    # row 2
    ("Swish", {"gradOutput": of("float64")}, "A2", BAD, "gradOutput"),
    ("Swish", {"self": of("int8")}, "A2", BAD, "self"),
    ("Swish", {name: of("float64") for name in ("gradOutput", "self", "gradInput")}, "A2", BAD, "gradOutput"),
    ("Swish", {"betaOptional": S(1, "complex64")}, "A2", BAD, "betaOptional"),
    ("Swish", {"betaOptional": S(1, "complex128")}, "A2", BAD, "betaOptional"),
    ("Swish", {"betaOptional": S.from_bytes(b"1234", 13)}, "A2", BAD, "betaOptional"),
    ("Swish", {"self": of("float16")}, "A2", BAD, "self"),
    ("Swish", {"gradInput": of("float16")}, "A2", BAD, "gradInput"),
    ("Swish", {"gradInput": of("int32")}, "A2", BAD, "gradInput"),
    ("Swish", {name: of("bfloat16") for name in ("gradOutput", "self", "gradInput")}, "310P", BAD, "gradOutput"),
    # row 3
    ("Swish", {name: T((1,) * 9) for name in ("gradOutput", "self", "gradInput")}, "A2", BAD, "gradOutput"),
    ("Swish", {"self": T((1, 3))}, "A2", BAD, "self"),
    ("Swish", {"gradInput": T((3, 2))}, "A2", BAD, "gradInput"),
    ("Swish", {"gradOutput": T((0,)), "self": T((16, 16)), "gradInput": T((16, 16))}, "A2", BAD, "self"),
    ("Swish", {"gradOutput": T((1,)), "self": T(()), "gradInput": T(())}, "A2", BAD, "self"),
]


@pytest.mark.parametrize(("name", "changes", "product", "status", "parameter"), TABLE)
def test_rows_of_the_documents(name, changes, product, status, parameter):
    op = ops.find(f"{name}Backward")
    error = refuse(valid_call(op, changes, product))
    assert (int(error.status), error.parameter) == (status, parameter)
    assert str(error).startswith(f"aclnn{name}BackwardGetWorkspaceSize: {parameter}")


FLOATS = ("float32", "float16", "bfloat16", "float64")
SIX = (*FLOATS, "complex64", "complex128")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")

# operator, arguments, product, promoted type
ACCEPTED = [
    *(("LeakyRelu", {"gradOutput": of(d), "self": of(d), "out": of(d)}, "A2", d) for d in FLOATS),
    *(("LeakyRelu", {"out": of(d)}, "A2", "float32") for d in (*FLOATS, *INTEGERS, "bool", "complex64", "complex128")),
    *(("LeakyRelu", {"out": of(d)}, "310P", "float32") for d in ("float32", *INTEGERS, "bool", "complex128")),
    *(
        ("LeakyRelu", {"negativeSlope": S(1, d)}, "A2", "float32")
        for d in (*FLOATS, "int8", "int16", "int32", "int64", "uint8", "bool")
    ),
    ("LeakyRelu", {"gradOutput": of("float16"), "self": of("bfloat16")}, "A2", "float32"),
    ("LeakyRelu", {"gradOutput": of("bfloat16"), "self": of("float64")}, "A3", "float64"),
    ("LeakyRelu", {"selfIsResult": True, "negativeSlope": S(0.0, "float32")}, "A2", "float32"),
    ("LeakyRelu", {"selfIsResult": True, "negativeSlope": S(-0.0, "float32")}, "A2", "float32"),
    ("LeakyRelu", {"selfIsResult": True, "negativeSlope": S(math.nan, "float16")}, "A2", "float32"),
    ("LeakyRelu", {"selfIsResult": False, "negativeSlope": S(-2.0, "float32")}, "A2", "float32"),
    *(("Sigmoid", {"gradOutput": of(d), "output": of(d), "gradInput": of(d)}, "A2", d) for d in SIX),
    *(("Sigmoid", {"gradInput": of(d)}, "950", "float32") for d in SIX),
    (
        "Sigmoid",
        {"gradOutput": of("complex64"), "output": of("float64"), "gradInput": of("complex64")},
        "910",
        "complex128",
    ),
    ("Sigmoid", {"gradOutput": of("float16"), "output": of("bfloat16"), "gradInput": of("float16")}, "A2", "float32"),
    *(("Swish", {"gradOutput": of(d), "self": of(d), "gradInput": of(d)}, "A2", d) for d in FLOATS[:3]),
    *(("Swish", {"gradOutput": of(d), "self": of(d), "gradInput": of(d)}, "910", d) for d in FLOATS[:2]),
    *(("Swish", {"betaOptional": S(1, d)}, "310P", "float32") for d in (*FLOATS, *INTEGERS, "bool", "float8_e5m2")),
    ("Swish", {"betaOptional": None}, "A2", "float32"),
    ("Swish", {"betaOptional": S(math.nan, "float32")}, "A2", "float32"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "product", "promoted"), ACCEPTED)
def test_what_the_documents_grant_passes(name, changes, product, promoted):
    call = valid_call(ops.find(f"{name}Backward"), changes, product)
    judge(call)
    assert call.promoted is DType.parse(promoted)


SHAPES = [
    # operator, first input, second input, output, empty
    ("LeakyRelu", (), (), (), False),
    ("LeakyRelu", (), (2, 3), (2, 3), False),
    ("LeakyRelu", (2, 1, 4), (3, 1), (2, 3, 4), False),
    ("LeakyRelu", (1,) * 8, (2,) * 8, (2,) * 8, False),
    ("LeakyRelu", (0, 3), (1, 3), (0, 3), True),
    ("LeakyRelu", (1, 3), (0, 3), (0, 3), True),
    ("Sigmoid", (), (), (), False),
    ("Sigmoid", (5, 1), (1, 4), (5, 4), False),
    ("Sigmoid", (0,), (1,), (0,), True),
    ("Sigmoid", (2, 0), (), (2, 0), True),
    ("Swish", (), (), (), False),
    ("Swish", (2,) * 8, (2,) * 8, (2,) * 8, False),
    ("Swish", (2, 0, 3), (2, 0, 3), (2, 0, 3), True),
]


@pytest.mark.parametrize(("name", "first", "second", "result", "empty"), SHAPES)
def test_shapes_that_the_documents_grant(name, first, second, result, empty):
    op = ops.find(f"{name}Backward")
    call = valid_call(op, {op.inputs[0]: T(first), op.inputs[1]: T(second), op.output: T(result)})
    judge(call)
    assert (call.shape, call.empty) == (result, empty)


@pytest.mark.parametrize("name", ["LeakyRelu", "Sigmoid", "Swish"])
@pytest.mark.parametrize("format", [*range(-1, 6), 12, 16, 27, 29, 30, 32, 33, 35, 47, 50, 54, 1234])
def test_formats_are_never_checked(name, format):
    op = ops.find(f"{name}Backward")
    tensors = {param: T((2, 1, 1, 3)) for param in op.tensors}
    for index, tensor in enumerate(tensors.values()):
        tensor.format = format if index % 2 else 2
    judge(valid_call(op, tensors))


def test_leaky_relu_takes_the_cast_types_for_every_promoted_type():
    op = ops.find("LeakyReluBackward")
    for source, target in itertools.product(FLOATS, (*INTEGERS, "bool", "complex64", "complex128")):
        judge(valid_call(op, {"gradOutput": of(source), "self": of(source), "out": of(target)}))


# --- products ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["LeakyRelu", "Sigmoid", "Swish"])
@pytest.mark.parametrize("soc", ["Ascend310B1", "Ascend310B4"])
def test_310b_supports_nothing_and_the_message_names_it(name, soc):
    error = refuse(valid_call(ops.find(f"{name}Backward"), product=soc))
    assert error.status is Status.ACLNN_ERR_PARAM_INVALID
    assert error.parameter == "product"
    assert "Atlas 200I/500 A2 inference" in str(error)
    assert soc in str(error)


def test_310b_is_refused_one_call_too():
    assert refuse(valid_call(ops.find("SwishBackward"), product="310B", one_call=True)).parameter == "product"


# --- order ------------------------------------------------------------------------------------------------------------

GONE = Invalid("a destroyed tensor")

# operator, several faults at once, product, the one that must be reported: parameter and property
ORDER = [
    ("LeakyRelu", {"gradOutput": GONE, "out": None}, "310B", "out", ""),
    ("LeakyRelu", {"self": GONE, "gradOutput": of("int8")}, "310B", "self", ""),
    ("LeakyRelu", {"gradOutput": of("int8")}, "310B", "product", ""),
    ("LeakyRelu", {"self": of("int8"), "negativeSlope": S(1, "uint16"), "gradOutput": T((7,))}, "A2", "self", "dtype"),
    ("LeakyRelu", {"negativeSlope": S(1, "uint16"), "gradOutput": T((1,) * 9)}, "A2", "negativeSlope", "dtype"),
    ("LeakyRelu", {"self": T((1,) * 9), "out": of("string")}, "A2", "self", "rank"),
    ("LeakyRelu", {"out": of("string", (7,))}, "A2", "out", "shape"),
    (
        "LeakyRelu",
        {"out": T((7,)), "selfIsResult": True, "negativeSlope": S(-1.0, "float32")},
        "A2",
        "out",
        "shape",
    ),
    (
        "LeakyRelu",
        {"out": of("string"), "selfIsResult": True, "negativeSlope": S(-1.0, "float32")},
        "A2",
        "negativeSlope",
        "",
    ),
    ("LeakyRelu", {"out": of("string"), "self": T(offset=1)}, "A2", "out", "dtype"),
    ("Sigmoid", {"gradInput": of("int8"), "gradOutput": T((1,) * 9)}, "A2", "gradInput", "dtype"),
    ("Sigmoid", {"gradOutput": T((1,) * 9), "output": of("complex64")}, "A2", "gradOutput", "rank"),
    ("Sigmoid", {"gradOutput": of("complex64", (7,))}, "A2", "gradInput", "dtype"),
    ("Sigmoid", {"gradInput": T((7,)), "gradOutput": T(offset=1)}, "A2", "gradInput", "shape"),
    ("Swish", {"self": of("int8"), "betaOptional": S(1, "complex64")}, "A2", "self", "dtype"),
    ("Swish", {"betaOptional": S(1, "complex64"), "gradInput": of("float16")}, "A2", "betaOptional", "dtype"),
    ("Swish", {"gradInput": of("float16", (1,) * 9)}, "A2", "gradInput", "dtype"),
    ("Swish", {"gradInput": T((1,) * 9), "self": T((7,))}, "A2", "gradInput", "rank"),
    ("Swish", {"self": T((7,)), "gradOutput": T(offset=1)}, "A2", "self", "shape"),
    ("Swish", {"self": T(offset=1), "gradOutput": T(offset=1)}, "A2", "gradOutput", "view"),
]


@pytest.mark.parametrize(("name", "changes", "product", "parameter", "subject"), ORDER)
def test_the_first_failing_check_is_reported(name, changes, product, parameter, subject):
    error = refuse(valid_call(ops.find(f"{name}Backward"), changes, product))
    assert (error.parameter, error.subject) == (parameter, subject)


# --- handles and messages ---------------------------------------------------------------------------------------------


def test_invalid_handles_give_their_reason():
    error = refuse(valid_call(ops.find("SwishBackward"), {"betaOptional": Invalid("a destroyed scalar")}))
    assert error.status == 161002
    assert str(error) == (
        "aclnnSwishBackwardGetWorkspaceSize: betaOptional must be a live scalar (got a destroyed scalar)"
    )


@pytest.mark.parametrize(("parameter", "value"), [("self", np.zeros(3)), ("self", S(1, "int8")), ("betaOptional", 1.0)])
def test_other_python_objects_are_type_errors(parameter, value):
    error = refuse(valid_call(ops.find("SwishBackward"), {parameter: value}))
    assert isinstance(error, AclnnTypeError)
    assert type(value).__name__ in str(error)


MESSAGES = [
    (
        "Sigmoid",
        {"output": None},
        "A2",
        "aclnnSigmoidBackwardGetWorkspaceSize: output must be a tensor (got null)",
    ),
    (
        "Swish",
        {"self": of("int32")},
        "310P",
        "aclnnSwishBackwardGetWorkspaceSize: self dtype must be FLOAT or FLOAT16 on Atlas inference series (got INT32)",
    ),
    (
        "Swish",
        {"self": of(5)},
        "310P",
        "aclnnSwishBackwardGetWorkspaceSize: self dtype must be FLOAT or FLOAT16 on Atlas inference series"
        " (got 5, which is no aclDataType)",
    ),
    (
        "Sigmoid",
        {"gradInput": T((6,))},
        "A2",
        "aclnnSigmoidBackwardGetWorkspaceSize: gradInput shape must be [2, 3], the broadcast shape of gradOutput and"
        " output (got [6])",
    ),
    (
        "Sigmoid",
        {"output": T(offset=2)},
        "A2",
        "aclnnSigmoidBackwardGetWorkspaceSize: output view must be inside bytes 0 to 24 of its storage shape [2, 3]"
        " (got bytes 8 to 32)",
    ),
    (
        "Sigmoid",
        {"output": T(storage_shape=(2, -3))},
        "A2",
        "aclnnSigmoidBackwardGetWorkspaceSize: output storage shape must be without negative dimensions (got [2, -3])",
    ),
    (
        "LeakyRelu",
        {"selfIsResult": True, "negativeSlope": S(-0.5, "float32")},
        "A2",
        "aclnnLeakyReluBackwardGetWorkspaceSize: negativeSlope must be at least 0 if selfIsResult is true (got -0.5)",
    ),
]


@pytest.mark.parametrize(("name", "changes", "product", "text"), MESSAGES)
def test_messages_in_full(name, changes, product, text):
    assert str(refuse(valid_call(ops.find(f"{name}Backward"), changes, product))) == text


def test_dtype_failures_are_type_errors_and_shape_failures_are_not():
    op = ops.find("SigmoidBackward")
    assert isinstance(refuse(valid_call(op, {"output": of("int8")})), AclnnTypeError)
    assert not isinstance(refuse(valid_call(op, {"output": T((7,))})), AclnnTypeError)


# --- one-call functions -----------------------------------------------------------------------------------------------


def test_one_call_swish_broadcasts_and_takes_double():
    op = ops.find("SwishBackward")
    tensors = {"gradOutput": of("float64", (2, 1)), "self": of("float64", (3,)), "gradInput": of("float64", (2, 3))}
    for product in ("A2", "910"):
        call = valid_call(op, tensors, product, one_call=True)
        judge(call)
        assert (call.promoted, call.shape) == (DType.DOUBLE, (2, 3))
    assert refuse(valid_call(op, tensors)).subject == "dtype"


def test_one_call_swish_still_wants_one_type():
    op = ops.find("SwishBackward")
    assert refuse(valid_call(op, {"self": of("float64")}, one_call=True)).parameter == "self"


def test_one_call_messages_name_the_python_function():
    error = refuse(valid_call(ops.find("SwishBackward"), {"self": of("int8")}, one_call=True))
    assert str(error).startswith("nonpu.swish_backward: self dtype must be float32, float16, bfloat16 or float64 on")
    assert error.api == "aclnnSwishBackward"


def test_negative_strides_pass_in_one_call_functions_only():
    op = ops.find("SigmoidBackward")
    whole = np.zeros((4, 6), np.float32)
    view = {"output": Tensor.from_numpy(whole[::-2, ::-2])}
    judge(valid_call(op, view, one_call=True))
    error = refuse(valid_call(op, view))
    assert (error.parameter, error.subject, error.actual) == ("output", "strides", "[-12, -2]")


def test_infer_result_gives_shape_and_type_of_the_output():
    leaky, swish = ops.find("LeakyReluBackward"), ops.find("SwishBackward")
    call = valid_call(leaky, {"gradOutput": of("float16", (2, 1)), "self": of("bfloat16", (3,)), "out": None})
    assert infer_result(call) == ((2, 3), DType.FLOAT)
    call = valid_call(swish, {"gradOutput": of("float16", (2, 1)), "self": of("float16", (3,)), "gradInput": None})
    assert infer_result(call) == ((2, 3), DType.FLOAT16)


def test_infer_result_leaves_faults_to_the_judge():
    call = valid_call(ops.find("LeakyReluBackward"), {"gradOutput": of("float16", (4,)), "self": of("int8", (3,))})
    assert infer_result(call) == ((4,), DType.FLOAT16)
    with pytest.raises(TypeError, match="no input tensor"):
        infer_result(valid_call(ops.find("SwishBackward"), {"gradOutput": None, "self": None}))


# --- building blocks --------------------------------------------------------------------------------------------------


def test_valid_call_refuses_unknown_parameters():
    with pytest.raises(ValueError, match="parameter must be one of aclnnSwishBackward's"):
        valid_call(ops.find("SwishBackward"), {"gradInputs": None})


SIGMOID = ops.find("SigmoidBackward")


def test_judging_does_not_touch_the_arguments():
    call = valid_call(SIGMOID)
    before = dict(call.arguments)
    judge(call)
    assert call.arguments == before


def test_a_call_keeps_its_product():
    call = Call(SIGMOID, {}, products.find("A3"))
    assert (call.product.line, call.one_call, call.find_block) == ("A3", False, None)
