"""Status codes of the aclnn interface and the exceptions that carry them.

Source: the return codes of the operator library (``op_errno.h`` and its document).
"""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """``aclnnStatus``: 0 is success, 161xxx blames the caller, 361xxx the runtime, 561xxx the library itself.

    Attributes
    ----------
    phrase : str
        What the code means, in one phrase.

    Examples
    --------
    >>> from nonpu import Status
    >>> Status(161001)
    <Status.ACLNN_ERR_PARAM_NULLPTR: 161001, a parameter that must not be null is null>
    """

    phrase: str

    # The default is for type checkers: a look-up by number, Status(161002), has no phrase.
    def __new__(cls, value: int, phrase: str = "") -> Status:
        """Build one member from its table row."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.phrase = phrase
        return member

    def __repr__(self) -> str:
        return f"<Status.{self.name}: {int(self)}, {self.phrase}>"

    ACLNN_SUCCESS = 0, "success"
    ACLNN_ERR_PARAM_NULLPTR = 161001, "a parameter that must not be null is null"
    ACLNN_ERR_PARAM_INVALID = 161002, "a parameter is invalid: dtype, shape, rank, promotion, conversion, value"
    ACLNN_ERR_RUNTIME_ERROR = 361001, "a call of the NPU runtime failed inside the API"
    ACLNN_ERR_INNER = 561000, "internal error"
    ACLNN_ERR_INNER_INFERSHAPE_ERROR = 561001, "internal: output shape inference failed"
    ACLNN_ERR_INNER_TILING_ERROR = 561002, "internal: kernel tiling failed"
    ACLNN_ERR_INNER_FIND_KERNEL_ERROR = (
        561003,
        "internal: kernel not found (operator binary package perhaps not installed)",
    )
    ACLNN_ERR_INNER_CREATE_EXECUTOR = 561101, "internal: the executor object could not be created"
    ACLNN_ERR_INNER_NOT_TRANS_EXECUTOR = 561102, "internal: the executor was not handed over to the caller"
    ACLNN_ERR_INNER_NULLPTR = 561103, "internal: a step of the computation returned null"
    ACLNN_ERR_INNER_WRONG_ATTR_INFO_SIZE = 561104, "internal: wrong number of operator attributes"
    ACLNN_ERR_INNER_KEY_CONFLICT = (
        561105,
        "internal: kernel hash key conflict (older misspelt alias: ACLNN_ERR_INNER_KEY_CONFILICT)",
    )
    ACLNN_ERR_INNER_INVALID_IMPL_MODE = 561106, "internal: bad implementation-mode parameter"
    ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND = 561107, "internal: environment variable ASCEND_OPP_PATH missing"
    ACLNN_ERR_INNER_LOAD_JSON_FAILED = 561108, "internal: operator information file could not be loaded"
    ACLNN_ERR_INNER_JSON_VALUE_NOT_FOUND = 561109, "internal: field missing in the operator information file"
    ACLNN_ERR_INNER_JSON_FORMAT_INVALID = 561110, "internal: illegal format in the operator information file"
    ACLNN_ERR_INNER_JSON_DTYPE_INVALID = 561111, "internal: illegal dtype in the operator information file"
    ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND = 561112, "internal: binary kernel library not loaded"
    ACLNN_ERR_INNER_OP_FILE_INVALID = 561113, "internal: error while reading a field of the operator file"
    ACLNN_ERR_INNER_ATTR_NUM_OUT_OF_BOUND = 561114, "internal: more attributes than the operator file declares"
    ACLNN_ERR_INNER_ATTR_LEN_NOT_ENOUGH = 561115, "internal: fewer attributes than the operator file declares"
    ACLNN_ERR_INNER_INPUT_NUM_IN_JSON_TOO_LARGE = 561116, "internal: more than 32 inputs"
    ACLNN_ERR_INNER_INPUT_JSON_IS_NULL = 561117, "internal: operator information incomplete"
    ACLNN_ERR_INNER_STATIC_WORKSPACE_INVALID = 561118, "internal: bad workspace entry of a static binary"
    ACLNN_ERR_INNER_STATIC_BLOCK_DIM_INVALID = 561119, "internal: bad core-count entry of a static binary"


# Looked up by number: what the native functions return.
BY_VALUE: dict[int, Status] = {int(member): member for member in Status}


class AclnnError(ValueError):
    """A check that failed.

    Parameters
    ----------
    status : Status
        Code that the C function would return.
    api : str
        Name of the operator's interface, for example ``aclnnSwishBackward``.
    parameter : str
        Parameter at fault, as the documents spell it.
    expected, actual : str
        What the contract wants and what came.
    function : str, optional
        Function that the message begins with, if that is not `api`.
    subject : str, optional
        Property of the parameter, for example ``dtype``.
    argument : str, optional
        What the function calls the parameter, where that is another name.
    """

    def __init__(
        self,
        status: Status,
        api: str,
        parameter: str,
        expected: str,
        actual: str,
        *,
        function: str = "",
        subject: str = "",
        argument: str = "",
    ) -> None:
        self.status = status
        self.api = api
        self.parameter = parameter
        self.expected = expected
        self.actual = actual
        self.function = function if function else api
        self.subject = subject
        self.argument = argument if argument else parameter
        what = parameter if self.argument == parameter else f"{argument} ({parameter})"
        if subject:
            what = f"{what} {subject}"
        super().__init__(f"{self.function}: {what} must be {expected} (got {actual})")

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by the arguments of the constructor, so that the error survives a process boundary."""
        texts = (self.api, self.parameter, self.expected, self.actual, self.function, self.subject, self.argument)
        return _rebuild, (type(self), self.status, *texts)


class AclnnTypeError(AclnnError, TypeError):
    """A check that failed because of an element type or of the type of a Python argument."""


def _rebuild(
    kind: type[AclnnError],
    status: Status,
    api: str,
    parameter: str,
    expected: str,
    actual: str,
    function: str,
    subject: str,
    argument: str,
) -> AclnnError:
    return kind(status, api, parameter, expected, actual, function=function, subject=subject, argument=argument)
