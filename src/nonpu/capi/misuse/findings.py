"""The kinds of misuse, why each is wrong and how it is mended, and the report of what was found."""

from __future__ import annotations

from nonpu.capi.misuse.places import source_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

MOST_SHOWN: Final = 40


class Kind:
    """One kind of misuse.

    Attributes
    ----------
    title : str
        What is wrong, in a few words.
    why : str
        Why it is wrong.
    mend : str
        How it is mended.
    is_misuse : bool
        Whether it alone makes the exit status 99.
    """

    __slots__ = ("is_misuse", "mend", "title", "why")

    def __init__(self, title: str, why: str, mend: str, is_misuse: bool = True) -> None:
        self.title = title
        self.why = why
        self.mend = mend
        self.is_misuse = is_misuse


_ASYNCHRONOUS = "Phase two and asynchronous copies only queue work; nothing waits for it but a synchronising call."
_ORDER = "The order at the end is: objects and memory, events and streams, contexts, aclrtResetDevice, aclFinalize."

LEFT_OBJECT: Final = Kind(
    "object not destroyed",
    "Objects live until they are destroyed; a program that goes on making them runs out of memory.",
    "Destroy it once phase two has returned; what a list holds is destroyed with the list.",
)
LEFT_RESOURCE: Final = Kind(
    "stream, event or context not destroyed",
    "The device has only so many of them.",
    "Destroy it when its work is done, before aclrtResetDevice.",
)
LEFT_MEMORY: Final = Kind(
    "memory not freed",
    "Memory of aclrtMalloc and aclrtMallocHost belongs to the program until it is given back.",
    "Call aclrtFree, or aclrtFreeHost for memory of aclrtMallocHost, after the stream is synchronised.",
)
LEFT_EXECUTOR: Final = Kind(
    "phase one without phase two",
    "Only phase two or aclDestroyAclOpExecutor releases an executor.",
    "Call phase two with it, or aclDestroyAclOpExecutor if the operator is not to run.",
)
LEFT_REPEATABLE: Final = Kind(
    "repeatable executor not destroyed",
    "Phase two does not consume a repeatable executor.",
    "Call aclDestroyAclOpExecutor after the last run has completed.",
)
LEFT_DEVICE: Final = Kind(
    "device not reset",
    "Every aclrtSetDevice raises a count that an aclrtResetDevice must lower.",
    "Call aclrtResetDevice once per aclrtSetDevice, before aclFinalize.",
)
LEFT_INITIALISED: Final = Kind(
    "aclInit without aclFinalize",
    "aclFinalize releases what aclInit has set up.",
    "Call aclFinalize last.",
)
RESET_EARLY: Final = Kind(
    "still alive when the device was reset",
    _ORDER,
    "Destroy it before aclrtResetDevice or aclrtDestroyContext.",
)
FREED_LATE: Final = Kind("memory freed after the device was reset", _ORDER, "Free it before aclrtResetDevice.")
READ_EARLY: Final = Kind(
    "result read before it was synchronised",
    f"{_ASYNCHRONOUS} On the device this reads what was there before.",
    "Call aclrtSynchronizeStream between the operator and this call.",
)
OVERWRITTEN: Final = Kind(
    "memory overwritten that queued work still uses",
    _ASYNCHRONOUS,
    "Call aclrtSynchronizeStream before the memory is used for something else.",
)
FREED_EARLY: Final = Kind(
    "memory freed that queued work still uses",
    f"{_ASYNCHRONOUS} aclrtFree does not wait either.",
    "Call aclrtSynchronizeStream before aclrtFree.",
)
UNORDERED: Final = Kind(
    "two streams use the same memory in no order",
    "Tasks of different streams have no order unless an event connects them.",
    "Record an event in the first stream and let the second one wait for it, or use one stream.",
)
OVERRUN: Final = Kind(
    "bytes changed outside a block",
    "The device hides small overruns in the padding of a block; a larger one destroys other data.",
    "Ask for as many bytes as are used: elements times size of the element.",
)
BEYOND: Final = Kind(
    "access past the bytes that were asked for",
    "The device hides small overruns in the padding of a block; what is read there has no meaning.",
    "Ask for as many bytes as are used, or use as many as were asked for.",
)
USED_FREED: Final = Kind(
    "memory used after it was freed",
    "The memory may belong to something else by then.",
    "Free it after its last use.",
)
WORKSPACE: Final = Kind(
    "workspace that does not do",
    "Phase two may use as much workspace as phase one has asked for, in device memory.",
    "Pass device memory of at least the size that phase one returned, and that size.",
)
IGNORED_STATUS: Final = Kind(
    "phase two after phase one had failed",
    "On failure phase one writes neither the workspace size nor the executor.",
    "Test the status of phase one, and stop if it is not 0.",
)
DESTROYED_BETWEEN: Final = Kind(
    "argument destroyed before phase two",
    "The executor keeps references to the tensors and scalars of phase one.",
    "Destroy them after phase two has returned; after the last run, for a repeatable executor.",
)
EXECUTOR_TWICE: Final = Kind(
    "executor used again",
    "Phase two consumes an executor, whether it succeeds or fails.",
    "Call phase one for every run, or aclSetAclOpExecutorRepeatable right after it.",
)
OTHER_OPERATOR: Final = Kind(
    "executor of another operator",
    "An executor belongs to the operator whose phase one made it.",
    "Call phase two of the same operator.",
)
DESTROYED_TWICE: Final = Kind(
    "object destroyed twice",
    "On the device this frees memory that may belong to something else by then.",
    "Destroy each object once; what a list holds is destroyed with the list and not by itself.",
)
USED_DESTROYED: Final = Kind(
    "object used after it was destroyed",
    "On the device this reads memory that may belong to something else by then.",
    "Destroy objects after their last use.",
)
FOREIGN_HANDLE: Final = Kind(
    "handle that no function has returned",
    "The device would take it for an address and read there.",
    "Pass what the creating function returned, and test that it has succeeded.",
)
NOT_INITIALISED: Final = Kind(
    "used before aclInit",
    "aclInit comes first; without it later calls may fail on the device.",
    "Call aclInit before everything else.",
)
AFTER_FINALIZE: Final = Kind(
    "used after aclFinalize",
    _ORDER,
    "Call aclFinalize last; look at destructors that run later.",
)
NO_CONTEXT: Final = Kind(
    "no device selected in this thread",
    "A thread has no context until it selects one, and none is left once the device is reset.",
    "Call aclrtSetDevice or aclrtSetCurrentContext in this thread first, and aclrtResetDevice last.",
)
WRONG_DIRECTION: Final = Kind(
    "direction of a copy that does not fit the addresses",
    "Host and device memory are apart on the device: an address of the one means nothing to the other.",
    "Exchange the pointers or the kind, or use memory of aclrtMalloc.",
)
HOST_TENSOR: Final = Kind(
    "operator on memory that is not the device's",
    "Operators can only reach memory of aclrtMalloc; here all memory is the host's, so that it worked.",
    "Copy the data to memory of aclrtMalloc, and create the tensor on that.",
)
COUNT: Final = Kind(
    "more bytes than the destination has room for",
    "The second argument is the room at the destination, and limits the copy.",
    "Pass the size of the destination, and copy no more than that.",
)
WRONG_FREE: Final = Kind(
    "freed with the wrong function, or what is no block",
    "aclrtFree takes what aclrtMalloc returned, aclrtFreeHost what aclrtMallocHost returned, and nothing else.",
    "Pass the very address to the function that belongs to the one that returned it.",
)
FREED_TWICE: Final = Kind(
    "memory freed twice",
    "By then the memory may belong to something else.",
    "Free each block once, and set the pointer to null.",
)
FAILED: Final = Kind(
    "call that failed",
    "Its arguments, or its place among the calls, are not what the function's reference allows.",
    "See what it expected, and test its status.",
)
CIRCUMSTANCE: Final = Kind(
    "call that failed, as it may",
    "Its status tells of the state of the machine or of the program, and is no misuse.",
    "Test its status.",
    is_misuse=False,
)


class Place:
    """Where the program called.

    Attributes
    ----------
    api : str
        The function.
    number : int
        Counts what the program has done.
    callers : tuple of int
        Return addresses in the program, the innermost first; 0 where there is none.
    script : str
        Line and function of a Python program, if they are known.
    """

    __slots__ = ("api", "callers", "number", "script")

    def __init__(self, api: str, number: int, callers: tuple[int, int], script: str = "") -> None:
        self.api = api
        self.number = number
        self.callers = callers
        self.script = script

    def of(self, api: str) -> Place:
        """Return the same place in another function."""
        return Place(api, self.number, self.callers, self.script)


class Finding:
    """One misuse at one place.

    Attributes
    ----------
    kind : Kind
        What it is.
    place : Place
        Where it was noticed, the first time.
    parts : tuple of str or Place
        The first case, in words and other places.
    count : int
        How often it was found there.
    """

    __slots__ = ("count", "kind", "parts", "place")

    def __init__(self, kind: Kind, place: Place, parts: tuple[str | Place, ...]) -> None:
        self.kind = kind
        self.place = place
        self.parts = parts
        self.count = 1


class Findings:
    """What was found so far; the same at the same place is counted."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], Finding] = {}

    def add(self, kind: Kind, place: Place, *parts: str | Place, subject: object = None) -> None:
        """Add a misuse; `subject` tells apart what is the same kind at the same place."""
        key = (kind, place.api, place.callers, place.script, subject)
        if key in self._found:
            self._found[key].count += 1
        else:
            self._found[key] = Finding(kind, place, parts)

    def in_order(self) -> list[Finding]:
        """Return the findings in the order in which they were noticed."""
        return list(self._found.values())


def report(found: list[Finding]) -> str:
    """Return the report in lines; empty if there is nothing to report."""
    if not found:
        return ""
    lines = source_lines({caller for finding in found for place in _places(finding) for caller in place.callers})
    merged = _merged(found, lines)
    misuses = sum(finding.kind.is_misuse for finding in merged)
    text = f"nonpu check: {_plural(misuses, 'misuse')}"
    if misuses < len(merged):
        text += f", {_plural(len(merged) - misuses, 'note')}"
    text += "\n"
    explained: set[str] = set()
    for index, finding in enumerate(merged[:MOST_SHOWN], 1):
        text += _paragraph(index, finding, lines)
        if finding.kind.title not in explained:
            text += f"   why:  {finding.kind.why}\n   mend: {finding.kind.mend}\n"
        explained.add(finding.kind.title)
    if len(merged) > MOST_SHOWN:
        text += f"\n... and {len(merged) - MOST_SHOWN} more\n"
    return text


def _places(finding: Finding) -> list[Place]:
    return [finding.place, *(part for part in finding.parts if isinstance(part, Place))]


def _merged(found: list[Finding], lines: dict[int, str]) -> list[Finding]:
    """Count what reads the same: a line can make several calls."""
    merged: dict[tuple[str, str, str], Finding] = {}
    for finding in found:
        key = (finding.kind.title, described(finding.place, lines), _words(finding, lines))
        if key in merged:
            merged[key].count += finding.count
        else:
            merged[key] = finding
    return list(merged.values())


def _words(finding: Finding, lines: dict[int, str]) -> str:
    return "".join(part if isinstance(part, str) else described(part, lines) for part in finding.parts)


def _paragraph(index: int, finding: Finding, lines: dict[int, str]) -> str:
    times = f" ({finding.count} times)" if finding.count > 1 else ""
    title = f"{index}. {finding.kind.title}{times}"
    return f"\n{title}\n   at {described(finding.place, lines)}\n   {_words(finding, lines)}\n"


def described(place: Place, lines: dict[int, str]) -> str:
    """Return a place in words: the function, and the lines of the source, or what there is instead."""
    if place.script:
        return f"{place.api} ({place.script})"
    innermost, outer = (lines.get(caller, "") for caller in place.callers)
    if not innermost:
        return f"{place.api} (event {place.number} of this run)"
    return f"{place.api} ({innermost}, from {outer})" if outer else f"{place.api} ({innermost})"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
