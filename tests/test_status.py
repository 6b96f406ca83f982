"""Status codes, the runtime's error codes, and the exceptions."""

from __future__ import annotations

import pickle

import pytest

from nonpu.errorcodes import ERROR_CODES
from nonpu.status import AclnnError, AclnnTypeError, Status

# The operator library's return codes, copied by hand from its document.
CODES = """
0 SUCCESS
161001 ERR_PARAM_NULLPTR
161002 ERR_PARAM_INVALID
361001 ERR_RUNTIME_ERROR
561000 ERR_INNER
561001 ERR_INNER_INFERSHAPE_ERROR
561002 ERR_INNER_TILING_ERROR
561003 ERR_INNER_FIND_KERNEL_ERROR
561101 ERR_INNER_CREATE_EXECUTOR
561102 ERR_INNER_NOT_TRANS_EXECUTOR
561103 ERR_INNER_NULLPTR
561104 ERR_INNER_WRONG_ATTR_INFO_SIZE
561105 ERR_INNER_KEY_CONFLICT
561106 ERR_INNER_INVALID_IMPL_MODE
561107 ERR_INNER_OPP_PATH_NOT_FOUND
561108 ERR_INNER_LOAD_JSON_FAILED
561109 ERR_INNER_JSON_VALUE_NOT_FOUND
561110 ERR_INNER_JSON_FORMAT_INVALID
561111 ERR_INNER_JSON_DTYPE_INVALID
561112 ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND
561113 ERR_INNER_OP_FILE_INVALID
561114 ERR_INNER_ATTR_NUM_OUT_OF_BOUND
561115 ERR_INNER_ATTR_LEN_NOT_ENOUGH
561116 ERR_INNER_INPUT_NUM_IN_JSON_TOO_LARGE
561117 ERR_INNER_INPUT_JSON_IS_NULL
561118 ERR_INNER_STATIC_WORKSPACE_INVALID
561119 ERR_INNER_STATIC_BLOCK_DIM_INVALID
"""


def test_codes_are_the_documents():
    assert [f"{int(status)} {status.name.removeprefix('ACLNN_')}" for status in Status] == CODES.split("\n")[1:-1]


def test_every_code_has_a_phrase():
    assert all(status.phrase for status in Status)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ACL_SUCCESS", 0),
        ("ACL_ERROR_INVALID_PARAM", 100000),
        ("ACL_ERROR_REPEAT_INITIALIZE", 100002),
        ("ACL_ERROR_REPEAT_FINALIZE", 100037),
        ("ACL_ERROR_UNSUPPORTED_JPEG", 148052),
        ("ACL_ERROR_BAD_ALLOC", 200000),
        ("ACL_ERROR_FAILURE", 500001),
        ("ACL_ERROR_RT_PARAM_INVALID", 107000),
        ("ACL_ERROR_RT_INVALID_DEVICEID", 107001),
        ("ACL_ERROR_RT_CONTEXT_NULL", 107002),
        ("ACL_ERROR_RT_MEMORY_ALLOCATION", 207001),
        ("ACL_ERROR_RT_DEVICE_OOM", 207018),
        ("ACL_ERROR_RT_DRV_INTERNAL_ERROR", 507899),
    ],
)
def test_runtime_codes(name, value):
    assert {known: number for known, number, _ in ERROR_CODES}[name] == value


def test_runtime_codes_are_complete_and_unique():
    names = [name for name, _, _ in ERROR_CODES]
    assert len(names) == len(set(names)) == 216
    assert all(meaning for _, _, meaning in ERROR_CODES)


def make_error(kind):
    return kind(
        Status.ACLNN_ERR_PARAM_INVALID,
        "aclnnSwishBackward",
        "self",
        "FLOAT",
        "INT8",
        function="aclnnSwishBackwardGetWorkspaceSize",
        subject="dtype",
    )


@pytest.mark.parametrize("kind", [AclnnError, AclnnTypeError])
def test_message_names_function_parameter_expected_and_got(kind):
    error = make_error(kind)
    assert str(error) == "aclnnSwishBackwardGetWorkspaceSize: self dtype must be FLOAT (got INT8)"
    assert (error.status, error.api, error.parameter) == (161002, "aclnnSwishBackward", "self")
    assert isinstance(error, ValueError)


def test_function_defaults_to_the_api():
    error = AclnnError(Status.ACLNN_ERR_PARAM_NULLPTR, "aclnnSwishBackward", "executor", "an executor", "null")
    assert str(error) == "aclnnSwishBackward: executor must be an executor (got null)"


def test_type_failures_are_type_errors_too():
    assert issubclass(AclnnTypeError, TypeError)
    assert not issubclass(AclnnError, TypeError)


@pytest.mark.parametrize("kind", [AclnnError, AclnnTypeError])
def test_errors_survive_pickling(kind):
    error = make_error(kind)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
    assert copy.status is error.status
