"""What a row of the tables of C functions, enumerations and structures is made of."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


RUNTIME: Final = "acl/acl_rt.h"
RUNTIME_BASE: Final = "acl/acl_base_rt.h"
META: Final = "aclnn/acl_meta.h"
META_BASE: Final = "aclnn/aclnn_base.h"


class Function:
    """One exported function.

    Attributes
    ----------
    header : str
        Header that declares it, below ``include``.
    result : str
        C type of the result.
    name : str
        Its name.
    parameters : tuple of (str, str)
        C type and name of each parameter.
    text : str
        What it does, one sentence for the header.
    python_failure : str
        Not empty where `nonpu.capi.exports` implements the function: the C expression to return when Python cannot run.
    """

    __slots__ = ("header", "name", "parameters", "python_failure", "result", "text")

    def __init__(
        self,
        header: str,
        result: str,
        name: str,
        *parameters: tuple[str, str],
        text: str,
        python_failure: str = "",
    ) -> None:
        self.header = header
        self.result = result
        self.name = name
        self.parameters = parameters
        self.text = text
        self.python_failure = python_failure


class Enumeration:
    """One C enumeration: its name, the header that defines it, and its enumerators in order."""

    __slots__ = ("header", "members", "name")

    def __init__(self, header: str, name: str, members: dict[str, int]) -> None:
        self.header = header
        self.name = name
        self.members = members


class Structure:
    """One C structure or union.

    Attributes
    ----------
    header, name : str
        Header that defines it, and its name.
    members : tuple of (str, str)
        C type and name of each member; an array's name ends with its length in brackets.
    is_union : bool
        Whether the members share their place.
    """

    __slots__ = ("header", "is_union", "members", "name")

    def __init__(self, header: str, name: str, *members: tuple[str, str], is_union: bool = False) -> None:
        self.header = header
        self.name = name
        self.members = members
        self.is_union = is_union
