"""Are the specifications complete, and do they say what the documents say?

The lists in this file are copied by hand from the operator documents: an independent witness for data from which
headers, checks and pages are all derived.
"""

from __future__ import annotations

import json

import pytest

from nonpu import ops, products
from nonpu.dtypes import DType
from nonpu.spec.checks import sequence
from nonpu.spec.model import ScalarParam, TensorParam, snake_case
from nonpu.tensor import Scalar

# Header, then both phases, as the documents print them.
SIGNATURES = {
    "LeakyReluBackward": (
        "aclnn_leaky_relu_backward.h",
        "aclnnLeakyReluBackwardGetWorkspaceSize(const aclTensor *gradOutput, const aclTensor *self,"
        " const aclScalar *negativeSlope, bool selfIsResult, aclTensor *out, uint64_t *workspaceSize,"
        " aclOpExecutor **executor)",
        "aclnnLeakyReluBackward(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream)",
    ),
    "SigmoidBackward": (
        "aclnn_sigmoid_backward.h",
        "aclnnSigmoidBackwardGetWorkspaceSize(const aclTensor *gradOutput, const aclTensor *output,"
        " aclTensor *gradInput, uint64_t *workspaceSize, aclOpExecutor **executor)",
        "aclnnSigmoidBackward(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,"
        " const aclrtStream stream)",
    ),
    "SwishBackward": (
        "aclnn_swish_backward.h",
        "aclnnSwishBackwardGetWorkspaceSize(const aclTensor *gradOutput, const aclTensor *self,"
        " const aclScalar *betaOptional, aclTensor *gradInput, uint64_t *workspaceSize, aclOpExecutor **executor)",
        "aclnnSwishBackward(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream)",
    ),
}

# Parameter: types on products with BFLOAT16, and without.
DTYPES = {
    "LeakyReluBackward": {
        "gradOutput": ("FLOAT FLOAT16 BFLOAT16 DOUBLE", "FLOAT FLOAT16 DOUBLE"),
        "self": ("FLOAT FLOAT16 BFLOAT16 DOUBLE", "FLOAT FLOAT16 DOUBLE"),
        "negativeSlope": (
            "FLOAT FLOAT16 DOUBLE INT32 INT64 INT8 BOOL INT16 UINT8 BFLOAT16",
            "FLOAT FLOAT16 DOUBLE INT32 INT64 INT8 BOOL INT16 UINT8",
        ),
        "out": (
            "FLOAT FLOAT16 BFLOAT16 DOUBLE INT8 UINT8 INT16 UINT16 INT32 UINT32 INT64 UINT64 BOOL COMPLEX64 COMPLEX128",
            "FLOAT FLOAT16 DOUBLE INT8 UINT8 INT16 UINT16 INT32 UINT32 INT64 UINT64 BOOL COMPLEX64 COMPLEX128",
        ),
    },
    "SigmoidBackward": dict.fromkeys(
        ("gradOutput", "output", "gradInput"),
        ("FLOAT FLOAT16 BFLOAT16 DOUBLE COMPLEX64 COMPLEX128", "FLOAT FLOAT16 DOUBLE COMPLEX64 COMPLEX128"),
    ),
    "SwishBackward": {
        "gradOutput": ("BFLOAT16 FLOAT16 FLOAT", "FLOAT16 FLOAT"),
        "self": ("BFLOAT16 FLOAT16 FLOAT", "FLOAT16 FLOAT"),
        "gradInput": ("BFLOAT16 FLOAT16 FLOAT", "FLOAT16 FLOAT"),
        "betaOptional": (
            "FLOAT FLOAT16 DOUBLE BFLOAT16 INT8 UINT8 INT16 UINT16 INT32 UINT32 INT64 UINT64 BOOL HIFLOAT8"
            " FLOAT8_E5M2 FLOAT8_E4M3FN FLOAT8_E8M0 FLOAT6_E3M2 FLOAT6_E2M3 FLOAT4_E2M1 FLOAT4_E1M2",
        )
        * 2,
    },
}

PYTHON = {
    "LeakyReluBackward": ("leaky_relu_backward", "grad_output self negative_slope self_is_result out"),
    "SigmoidBackward": ("sigmoid_backward", "grad_output output grad_input"),
    "SwishBackward": ("swish_backward", "grad_output self beta grad_input"),
}


def declaration(name, parameters):
    """Render a C declaration from the specification's pairs of type and name."""
    return f"{name}({', '.join(kind + ('' if kind.endswith('*') else ' ') + word for kind, word in parameters)})"


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_the_documents(name):
    op = ops.find(name)
    assert (
        op.header,
        declaration(op.phase_one, op.c_phase_one),
        declaration(op.phase_two, op.c_phase_two),
    ) == SIGNATURES[name]


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_are_the_documents(name):
    op = ops.find(name)
    found = {}
    for param in op.params:
        if isinstance(param, TensorParam | ScalarParam):
            lists = (param.allowed(products.find("A2")), param.allowed(products.find("310P")))
            found[param.name] = tuple({dtype.name for dtype in dtypes} for dtypes in lists)
    assert found == {param: tuple(set(names.split()) for names in lists) for param, lists in DTYPES[name].items()}


@pytest.mark.parametrize("name", SIGNATURES)
def test_all_products_with_bfloat16_agree(name):
    for param in ops.find(name).params:
        if isinstance(param, TensorParam | ScalarParam):
            for group in (("950", "A3", "A2"), ("310P", "910")):
                assert len({param.allowed(products.find(line)) for line in group}) == 1


@pytest.mark.parametrize("name", PYTHON)
def test_python_names(name):
    op = ops.find(name)
    assert (op.python_name, " ".join(param.python_name for param in op.params)) == PYTHON[name]


@pytest.mark.parametrize("name", SIGNATURES)
def test_products_are_all_but_310b(name):
    op = ops.find(name)
    assert [line.line for line in products.LINES if op.supports(line)] == ["950", "A3", "A2", "310P", "910"]


def test_only_beta_may_be_null_and_means_one():
    optional = [(op.name, param.name) for op in ops.OPS for param in op.params if param.optional]
    assert ("SwishBackward", "betaOptional") in optional
    assert [entry for entry in optional if entry[0] in SIGNATURES] == [("SwishBackward", "betaOptional")]
    assert ops.find("SwishBackward").scalar_params[0].default == 1.0


def test_one_call_extensions_are_those_of_swish_alone():
    swish = ops.find("SwishBackward")
    assert all(DType.DOUBLE in param.allowed(products.find("A2"), True) for param in swish.tensors.values())
    assert all(DType.DOUBLE in param.allowed(products.find("910"), True) for param in swish.tensors.values())
    for name in ("LeakyReluBackward", "SigmoidBackward"):
        op = ops.find(name)
        assert op.one_call_checks is op.checks
        assert not any(param.one_call for param in op.tensors.values())
        assert op.describe(products.find("A2"))["one_call"] == ["Negative strides."]
    assert swish.describe(products.find("A2"))["one_call"] == [
        "DOUBLE for gradOutput, self and gradInput, on every product.",
        "Further shapes: gradOutput and self must broadcast, and gradInput must have exactly the broadcast shape.",
        "Negative strides.",
    ]


# --- the registry -----------------------------------------------------------------------------------------------------


def test_registry_is_sorted_and_holds_the_three():
    names = [op.name for op in ops.OPS]
    assert names == sorted(names)
    assert set(SIGNATURES) <= set(names)
    assert isinstance(ops.OPS, tuple)


@pytest.mark.parametrize("spelling", ["SwishBackward", "aclnnSwishBackward", "swish_backward", "ACLNNSWISHBACKWARD"])
def test_find_knows_every_spelling(spelling):
    assert ops.find(spelling).name == "SwishBackward"


def test_find_lists_the_choices():
    with pytest.raises(ValueError, match=r"operator must be one of .*aclnnSigmoidBackward.* \(got 'Tanh'\)"):
        ops.find("Tanh")


@pytest.mark.parametrize(
    ("contract", "python"),
    [
        ("LeakyReluBackward", "leaky_relu_backward"),
        ("GeluBackwardV2", "gelu_backward_v2"),
        ("gradOutput", "grad_output"),
        ("selfIsResult", "self_is_result"),
        ("RReluWithNoise", "r_relu_with_noise"),
        ("self", "self"),
    ],
)
def test_snake_case(contract, python):
    assert snake_case(contract) == python


# --- completeness, for every operator ---------------------------------------------------------------------------------


@pytest.fixture(params=ops.OPS, ids=lambda op: op.name)
def op(request):
    return request.param


def test_every_fact_is_stated(op):
    assert op.text
    assert op.document
    assert op.formula
    assert op.shape_rule
    assert op.notes
    assert op.result_type in ("promote", "same")
    assert all(param.text for param in op.params)
    assert set(op.products) <= {line.line for line in products.LINES}


def test_texts_are_sentences(op):
    for text in (op.text, op.shape_rule, *op.notes, *op.differences, *(param.text for param in op.params)):
        assert text.endswith("."), text
        assert "  " not in text, text
    for check in sequence(op):
        assert check.describe()
        assert not check.describe().endswith("."), "a check is a clause"


def test_parameters_are_distinct_and_have_one_output(op):
    names = [param.name for param in op.params]
    assert len(set(names)) == len(names)
    assert [param.name for param in op.params if param.role == "out"] == [op.output]
    assert list(op.inputs) == [name for name in op.tensors if name != op.output]


def test_optional_scalars_have_a_default(op):
    for param in op.params:
        if param.optional:
            assert isinstance(param, ScalarParam)
            assert param.default is not None


def test_every_promoted_type_has_a_kernel(op):
    tensors = [op.tensors[name] for name in op.inputs]
    types = {dtype for param in tensors for dtype in param.dtypes + param.one_call}
    assert set(op.kernels) == types
    for kernel in op.kernels.values():
        assert callable(kernel.function)
        assert isinstance(kernel.compute, DType)


@pytest.mark.parametrize("line", [line.line for line in products.LINES])
def test_description_is_json(op, line):
    text = json.loads(json.dumps(op.describe(products.find(line))))
    assert text["supported"] is (line in op.products)
    assert text["checks"][0] == {
        "status": 161001,
        "sentence": "workspaceSize and executor must not be null (tested before everything else)",
    }
    assert [check["status"] for check in text["checks"][1:]] == [int(check.status) for check in sequence(op)]
    described = {entry["name"]: entry for entry in text["parameters"]}
    for param in op.params:
        entry = described[param.name]
        assert entry["c_type"] == param.c_type
        if isinstance(param, TensorParam):
            assert ("BFLOAT16" in entry["dtypes"]) is (DType.BFLOAT16 in param.dtypes and products.find(line).has_bf16)


# --- scalars ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("promoted", "expected"),
    [
        (DType.FLOAT, 0.009999999776482582),
        (DType.FLOAT16, 0.009999999776482582),
        (DType.BFLOAT16, 0.009999999776482582),
        (DType.DOUBLE, 0.01),
    ],
)
def test_scalars_are_rounded_once_to_the_type_computed_in(promoted, expected):
    op = ops.find("LeakyReluBackward")
    assert op.scalars({"negativeSlope": Scalar(0.01, "float64")}, promoted) == (expected,)


def test_null_beta_is_one():
    op = ops.find("SwishBackward")
    assert op.scalars({"betaOptional": None}, DType.FLOAT) == (1.0,)
    assert op.scalars({"betaOptional": Scalar(0, "int32")}, DType.FLOAT) == (0.0,)


def test_no_scalars_no_parameters():
    assert ops.find("SigmoidBackward").scalars({}, DType.COMPLEX64) == ()
