"""What a failing call says about the program: the kind of misuse, by the status and the text of the failure."""

from __future__ import annotations

from nonpu.capi.misuse import findings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from nonpu.capi.misuse.findings import Kind

# Statuses that tell of the machine, of a timeout or of work that is not done yet; a program may meet and handle them.
CIRCUMSTANCES: Final = frozenset(
    {
        100002,  # aclInit a second time, which clients may ignore
        107006,  # time of an event that is not complete
        107019,
        107020,
        107021,  # an option that was never set
        200000,
        200001,  # exported in name only
        507012,
        507046,
        507047,
    }
)
CIRCUMSTANCE_SERIES: Final = (207, 500)
# Ends of texts, as front/handle.c and front/phase.c write them.
BY_END: Final = (
    ("(got one that is consumed or destroyed)", findings.EXECUTOR_TWICE),
    ("(got one of another operator)", findings.OTHER_OPERATOR),
    ("(got one that is destroyed with its list)", findings.DESTROYED_TWICE),
    (", which is none)", findings.FOREIGN_HANDLE),
    ("(got memory that was given back)", findings.USED_FREED),
    (", in memory that was given back)", findings.USED_FREED),
)


def handle_in(text: str) -> int:
    """Return the handle that the text of a failing phase one names, else 0."""
    number, _, rest = text.rpartition(" (got 0x")[2].partition(", which is no live ")
    try:
        return int(number, 16) if rest else 0
    except ValueError:
        return 0


def kind_of(api: str, text: str, status: int, was_live: bool) -> Kind:
    """Return the kind of misuse that a failing call is, as far as it tells.

    Parameters
    ----------
    api : str
        The function that failed.
    text : str
        What it says.
    status : int
        What it returned.
    was_live : bool
        Whether the object that it is about has been alive.
    """
    if ", which is no live " in text:
        return findings.USED_DESTROYED if was_live else findings.FOREIGN_HANDLE
    if text.endswith("(got one that is destroyed)"):
        return findings.DESTROYED_TWICE if "Destroy" in api else findings.USED_DESTROYED
    for end, kind in BY_END:
        if text.endswith(end):
            return kind
    if ": the context of this thread must be set" in text:
        return findings.NO_CONTEXT
    if " view must be inside its memory" in text:
        return findings.BEYOND
    if ": count must be at most " in text:
        return findings.COUNT
    if status in CIRCUMSTANCES or status // 1000 in CIRCUMSTANCE_SERIES:
        return findings.CIRCUMSTANCE
    return findings.FAILED
