"""Objects, streams, events, contexts and executors: made, used, destroyed, left behind."""

from __future__ import annotations

from nonpu.capi.misuse import findings
from nonpu.capi.misuse.findings import Findings, Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

# By tag of their handles: what objects are.
NOUNS: Final = {
    0x6E71: "tensor",
    0x6E72: "scalar",
    0x6E74: "stream",
    0x6E75: "context",
    0x6E76: "event",
    0x6E80: "int array",
    0x6E81: "float array",
    0x6E82: "bool array",
    0x6E83: "tensor list",
    0x6E84: "scalar list",
    0x6E85: "data buffer",
}
CONTEXT_TAG: Final = 0x6E75
DESTROYERS: Final = {
    "tensor": "aclDestroyTensor",
    "scalar": "aclDestroyScalar",
    "stream": "aclrtDestroyStream",
    "context": "aclrtDestroyContext",
    "event": "aclrtDestroyEvent",
    "int array": "aclDestroyIntArray",
    "float array": "aclDestroyFloatArray",
    "bool array": "aclDestroyBoolArray",
    "tensor list": "aclDestroyTensorList",
    "scalar list": "aclDestroyScalarList",
    "data buffer": "aclDestroyDataBuffer",
}
RESOURCES: Final = ("stream", "context", "event")
PHASE_ONE: Final = "GetWorkspaceSize"
MOST_GONE: Final = 4096


class Thing:
    """An object of the meta library, a stream, an event or a context.

    Attributes
    ----------
    noun : str
        What it is.
    made : Place
        Where it was made.
    context : int
        Context of a stream, else 0.
    is_owned : bool
        Whether a list destroys it.
    ended : Place or None
        Where it was destroyed.
    """

    __slots__ = ("context", "ended", "is_owned", "made", "noun")

    def __init__(self, noun: str, made: Place, context: int) -> None:
        self.noun = noun
        self.made = made
        self.context = context
        self.is_owned = False
        self.ended: Place | None = None


class Executor:
    """What phase one has made, and with which objects."""

    __slots__ = ("arguments", "is_repeatable", "made", "workspace")

    def __init__(self, made: Place, workspace: int) -> None:
        self.made = made
        self.workspace = workspace
        self.arguments: list[int] = []
        self.is_repeatable = False


class Objects:
    """All objects that are alive, and the last ones that are not."""

    __slots__ = ("_executors", "_found", "_gone", "_things")

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._things: dict[int, Thing] = {}
        self._executors: dict[int, Executor] = {}
        self._gone: dict[int, Thing] = {}

    def gone(self, handle: int) -> Thing | None:
        """Return the destroyed object of this handle."""
        return self._gone.get(handle)

    def made(self, fact: Any, place: Place) -> None:
        """An object was made."""
        self._things[fact.a] = Thing(NOUNS[fact.b], place, fact.c)

    def owned(self, fact: Any, _place: Place) -> None:
        """An object came into a list."""
        thing = self._things.get(fact.a)
        if thing:
            thing.is_owned = True

    def ended(self, fact: Any, place: Place) -> None:
        """An object was destroyed, or an executor consumed."""
        self._executors.pop(fact.a, None)
        thing = self._things.pop(fact.a, None)
        if thing is None:
            return
        thing.ended = place.of(DESTROYERS[f"{thing.noun} list" if thing.is_owned else thing.noun])
        self._gone[fact.a] = thing
        if len(self._gone) > MOST_GONE:
            del self._gone[next(iter(self._gone))]
        if fact.b == CONTEXT_TAG:
            self._leave_behind(thing.ended, fact.a)

    def device_was_reset(self, place: Place) -> None:
        """The device has gone, and with it what was made for it."""
        self._leave_behind(place, 0)

    def _leave_behind(self, place: Place, context: int) -> None:
        """Report what is alive of a context, or of all (0), at its end."""
        for handle, thing in list(self._things.items()):
            if thing.noun in RESOURCES and context in (0, thing.context):
                text = f"this {thing.noun} was still alive at "
                self._found.add(findings.RESET_EARLY, thing.made, text, place, subject=thing.noun)
                del self._things[handle]

    def planned(self, fact: Any, place: Place) -> None:
        """Phase one has succeeded."""
        self._executors[fact.a] = Executor(place, fact.c)

    def argument(self, fact: Any, _place: Place) -> None:
        """Phase one was given this object."""
        self._executors[fact.a].arguments.append(fact.b)

    def repeatable(self, fact: Any, _place: Place) -> None:
        """An executor was made repeatable."""
        if fact.a in self._executors:
            self._executors[fact.a].is_repeatable = True

    def phase_two(self, fact: Any, place: Place) -> int:
        """Phase two was called; return the size of the workspace that phase one asked for."""
        executor = self._executors.get(fact.a)
        if executor is None or executor.made.api != place.api + PHASE_ONE:
            return 0
        for handle in executor.arguments:
            thing = self._gone.get(handle)
            if thing and thing.ended:
                text = f"the {thing.noun} of phase one was destroyed by "
                self._found.add(findings.DESTROYED_BETWEEN, place, text, thing.ended, subject=thing.noun)
        return executor.workspace

    def end(self) -> None:
        """The program has ended."""
        for thing in self._things.values():
            if not thing.is_owned:
                kind = findings.LEFT_RESOURCE if thing.noun in RESOURCES else findings.LEFT_OBJECT
                self._found.add(kind, thing.made, f"this {thing.noun} was not destroyed", subject=thing.noun)
        for executor in self._executors.values():
            kind = findings.LEFT_REPEATABLE if executor.is_repeatable else findings.LEFT_EXECUTOR
            self._found.add(kind, executor.made, "this executor was not released")
