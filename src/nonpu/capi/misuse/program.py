"""What a program has done, replayed fact by fact, and the misuse in it."""

from __future__ import annotations

import _thread
import os

from nonpu._core import ffi, lib
from nonpu.capi.misuse import findings
from nonpu.capi.misuse.failures import handle_in, kind_of
from nonpu.capi.misuse.findings import Findings, Place, report
from nonpu.capi.misuse.memory import Memory
from nonpu.capi.misuse.objects import PHASE_ONE, Objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

INIT, FINALIZE, OPERATORS_INIT, OPERATORS_FINALIZE = range(4)
STREAM_TAG: Final = 0x6E74


class Failure:
    """A failing call whose status is still to come."""

    __slots__ = ("handle", "place", "text")

    def __init__(self, place: Place, text: str, handle: int) -> None:
        self.place = place
        self.text = text
        self.handle = handle


class Program:
    """The state of the program after the facts so far.

    Attributes
    ----------
    found : Findings
        The misuse in them.
    """

    def __init__(self) -> None:
        self.found = Findings()
        self._objects = Objects(self.found)
        self._memory = Memory(self.found)
        self._failures: dict[int, Failure] = {}
        self._explained: set[int] = set()
        self._failed_phases: dict[str, Place] = {}
        self._initialised: Place | None = None
        self._operators = self._finalised = self._was_initialised = False
        self._device_set: Place | None = None
        self._device_uses = 0
        self._handlers = self._table()

    def _table(self) -> dict[int, Callable[[Any, Place], object]]:
        objects, memory = self._objects, self._memory
        return {
            lib.NONPU_FAILED: self._failed,
            lib.NONPU_PROCESS: self._process,
            lib.NONPU_DEVICE: self._device,
            lib.NONPU_MADE: self._checked(objects.made),
            lib.NONPU_OWNED: objects.owned,
            lib.NONPU_ENDED: self._ended,
            lib.NONPU_ALLOCATED: self._checked(memory.allocated),
            lib.NONPU_GIVEN_BACK: self._checked(self._given_back),
            lib.NONPU_PLANNED: self._planned,
            lib.NONPU_ARGUMENT: objects.argument,
            lib.NONPU_REPEATABLE: objects.repeatable,
            lib.NONPU_PHASE_TWO: self._checked(self._phase_two),
            lib.NONPU_QUEUED: memory.queued,
            lib.NONPU_ACCESS: memory.access,
            lib.NONPU_COPIED: self._checked(memory.copied),
            lib.NONPU_SYNCHRONIZED: memory.synchronized,
            lib.NONPU_RECORDED: memory.recorded,
            lib.NONPU_WAITED: memory.waited,
            lib.NONPU_EVENT_REACHED: memory.event_reached,
            lib.NONPU_UNDERRUN: memory.underrun,
            lib.NONPU_OVERRUN: memory.overrun,
            lib.NONPU_WRITTEN_LATE: memory.written_late,
            lib.NONPU_RELEASED: memory.released,
        }

    def take(self, fact: Any) -> None:
        """Take the next fact."""
        if fact.kind == lib.NONPU_STATUS:
            self._settle(fact.thread, fact.a)
            return
        self._settle(fact.thread, 0)
        api = ffi.string(fact.api).decode() if fact.api else ""
        script = ffi.string(fact.script).decode("utf-8", "replace") if fact.script else ""
        self._handlers[fact.kind](fact, Place(api, fact.number, (fact.caller, fact.outer), script))

    def end(self) -> None:
        """The program has ended: what is still there has been left behind."""
        for thread in list(self._failures):
            self._settle(thread, 0)
        self._objects.end()
        self._memory.end()
        if self._device_uses and self._device_set:
            calls = f"{self._device_uses} call{'' if self._device_uses == 1 else 's'} of aclrtSetDevice"
            self.found.add(findings.LEFT_DEVICE, self._device_set, f"{calls} not undone at the end of the program")
        if self._initialised:
            self.found.add(findings.LEFT_INITIALISED, self._initialised, "aclFinalize was not called after this")

    # ------------------------------------------------------------ process and device

    def _checked(self, handler: Callable[[Any, Place], object]) -> Callable[[Any, Place], object]:
        """Return a handler that first makes sure that the library is initialised; of aclnn objects it need not be."""

        def handle(fact: Any, place: Place) -> object:
            if place.api.startswith(("aclrt", "aclnn")):
                self._needs_init(place)
            return handler(fact, place)

        return handle

    def _needs_init(self, place: Place) -> None:
        if self._finalised and not self._operators:
            self.found.add(findings.AFTER_FINALIZE, place, "aclFinalize had been called")
        elif not self._was_initialised:
            self._was_initialised = True
            self.found.add(findings.NOT_INITIALISED, place, "the first call of the program that needs it")

    def _process(self, fact: Any, place: Place) -> None:
        if fact.a in (INIT, OPERATORS_INIT):
            self._was_initialised = True
            self._finalised = False
        if fact.a == INIT:
            self._initialised = self._initialised or place
        elif fact.a == OPERATORS_INIT:
            self._operators = True
        elif fact.a == FINALIZE:
            self._initialised = None
            self._finalised = True
        else:
            self._operators = False
        self._memory.is_finalised = self._finalised

    def _device(self, fact: Any, place: Place) -> None:
        if fact.a > self._device_uses or place.api == "aclrtSetDevice":
            self._needs_init(place)
            self._device_set = place
        elif not fact.a:
            self._objects.device_was_reset(place)
            self._memory.synchronized(fact, place)
        self._device_uses = fact.a
        self._memory.device_count(fact.a)

    # ------------------------------------------------------------ what concerns more than one part

    def _ended(self, fact: Any, place: Place) -> None:
        self._objects.ended(fact, place)
        if fact.b == STREAM_TAG:
            self._memory.stream_ended(fact.a)

    def _given_back(self, fact: Any, place: Place) -> None:
        if not self._memory.given_back(fact, place):
            self._explained.add(fact.thread)  # the failure that follows says less

    def _planned(self, fact: Any, place: Place) -> None:
        self._failed_phases.pop(place.api.removesuffix(PHASE_ONE), None)
        self._objects.planned(fact, place)

    def _phase_two(self, fact: Any, place: Place) -> None:
        self._memory.phase_two(fact, place, self._objects.phase_two(fact, place))

    # ------------------------------------------------------------ failing calls

    def _failed(self, fact: Any, place: Place) -> None:
        text = ffi.string(fact.text).decode("utf-8", "replace") if fact.text else ""
        self._failures[fact.thread] = Failure(place.of(text.partition(": ")[0]), text, fact.a)

    def _settle(self, thread: int, status: int) -> None:
        """Judge the last failure of a thread, now that its status is known (0: it has none)."""
        failure = self._failures.pop(thread, None)
        if failure is None:
            return
        if thread in self._explained:
            self._explained.discard(thread)
            return
        api = failure.place.api
        rest = failure.text.partition(": ")[2]
        if api.endswith(PHASE_ONE):
            self._failed_phases[api.removesuffix(PHASE_ONE)] = failure.place
        phase_one = self._failed_phases.get(api)
        if phase_one and rest.startswith("executor must be a live executor"):
            self.found.add(findings.IGNORED_STATUS, failure.place, "its phase one had failed: ", phase_one)
        elif rest.startswith("the library must be initialised"):
            kind = findings.AFTER_FINALIZE if self._finalised else findings.NOT_INITIALISED
            self.found.add(kind, failure.place, failure.text)
        else:
            self._judge(failure, status)

    def _judge(self, failure: Failure, status: int) -> None:
        parts: list[str | Place] = [f"{failure.text}, status {status}" if status else failure.text]
        gone = self._objects.gone(failure.handle or handle_in(failure.text))
        if gone and gone.ended:
            parts += [f"; the {gone.noun} was made by ", gone.made, " and destroyed by ", gone.ended]
        kind = kind_of(failure.place.api, failure.text, status, gone is not None)
        self.found.add(kind, failure.place, *parts, subject=failure.text.partition(" (got ")[0])


PROGRAM = Program()
_lock = _thread.allocate_lock()


def examine(last: bool) -> int:
    """Take the new facts; the last time report what was found on stderr. Return the number of misuses.

    Parameters
    ----------
    last : bool
        Whether the program has ended.
    """
    facts = ffi.new("const nonpu_fact **")
    with _lock:
        for index in range(lib.nonpu_take_facts(facts)):
            PROGRAM.take(facts[0][index])
        if not last:
            return 0
        PROGRAM.end()
    found = PROGRAM.found.in_order()
    text = report(found).encode("utf-8", "replace")
    while text:
        text = text[os.write(2, text) :]
    return sum(finding.kind.is_misuse for finding in found)
