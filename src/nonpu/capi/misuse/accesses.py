"""Which work may still be reading or writing which memory, as far as the program can know.

What counts is what the program has waited for, not whether the work happens to be done: a program that reads a result
too early is wrong although a small operator has run by then.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nonpu.capi.misuse.findings import Place

# By stream, the number of the last fact that is known to be done.
Frontier = dict[int, int]


class Access:
    """Bytes that work of a stream reads or writes; stream 0 is the program itself, at once."""

    __slots__ = ("end", "first", "place", "stream", "writes")

    def __init__(self, stream: int, first: int, end: int, writes: bool, place: Place) -> None:
        self.stream = stream
        self.first = first
        self.end = end
        self.writes = writes
        self.place = place


class Accesses:
    """The accesses that nobody has waited for, and what orders them."""

    __slots__ = ("_events", "_frontiers", "_latest", "_pending")

    def __init__(self) -> None:
        self._pending: dict[tuple[int, int, int, bool], Access] = {}
        self._latest: Frontier = {}
        self._frontiers: dict[int, Frontier] = {}
        self._events: dict[int, Frontier] = {}

    def overlapping(self, first: int, end: int) -> Access | None:
        """Return an access to any of these bytes that may be still to come."""
        return next((access for access in self._pending.values() if access.first < end and first < access.end), None)

    def add(self, access: Access) -> Access | None:
        """Add an access, and return an earlier one that it is in no order with, though one of them writes."""
        known = self._frontiers.get(access.stream, {})
        clash = None
        for other in self._pending.values():
            if (
                (access.writes or other.writes)
                and other.first < access.end
                and access.first < other.end
                and other.stream != access.stream
                and other.place.number > known.get(other.stream, 0)
            ):
                clash = other
                break
        if access.stream:
            self._pending[access.stream, access.first, access.end, access.writes] = access
            self._latest[access.stream] = access.place.number
        return clash

    def synchronize(self, stream: int) -> None:
        """The program has waited for a stream, or for all of them: 0."""
        if stream:
            self._forget(self._reached(stream))
        else:
            self._pending.clear()

    def record(self, event: int, stream: int) -> None:
        """An event stands for the work of a stream so far."""
        self._events[event] = self._reached(stream)

    def wait(self, event: int, stream: int) -> None:
        """Later work of a stream comes after the event."""
        known = self._frontiers.setdefault(stream, {})
        for other, number in self._events.get(event, {}).items():
            known[other] = max(known.get(other, 0), number)

    def reach(self, event: int) -> None:
        """The program has waited for an event."""
        self._forget(self._events.get(event, {}))

    def _reached(self, stream: int) -> Frontier:
        return {**self._frontiers.get(stream, {}), stream: self._latest.get(stream, 0)}

    def _forget(self, done: Frontier) -> None:
        self._pending = {
            key: access for key, access in self._pending.items() if access.place.number > done.get(access.stream, 0)
        }
