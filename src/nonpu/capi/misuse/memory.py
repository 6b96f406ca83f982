"""Memory of the runtime: allocated, used, given back, overrun; by the program at once and by queued work."""

from __future__ import annotations

from bisect import bisect_right, insort

from nonpu.capi.misuse import findings
from nonpu.capi.misuse.accesses import Access, Accesses
from nonpu.capi.misuse.findings import Findings, Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

# By number of the kind of a copy: where destination and source are.
ENDS: Final = {
    0: ("host", "host"),
    1: ("device", "host"),
    2: ("host", "device"),
    3: ("device", "device"),
    5: ("device", "host"),
}
KINDS: Final = {
    0: "ACL_MEMCPY_HOST_TO_HOST",
    1: "ACL_MEMCPY_HOST_TO_DEVICE",
    2: "ACL_MEMCPY_DEVICE_TO_HOST",
    3: "ACL_MEMCPY_DEVICE_TO_DEVICE",
    5: "ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE",
}


class Block:
    """One block of aclrtMalloc, or of aclrtMallocHost."""

    __slots__ = ("base", "freed", "is_host", "made", "size")

    def __init__(self, base: int, size: int, is_host: bool, made: Place) -> None:
        self.base = base
        self.size = size
        self.is_host = is_host
        self.made = made
        self.freed: Place | None = None

    def __str__(self) -> str:
        return f"block of {self.size} bytes"


class Memory:
    """The blocks, live and given back, and who uses them.

    Attributes
    ----------
    is_finalised : bool
        Whether aclFinalize was called, so that every use is reported for that.
    """

    __slots__ = ("_accesses", "_bases", "_blocks", "_found", "_was_reset", "_workspaces", "is_finalised")

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._blocks: dict[int, Block] = {}
        self._bases: list[int] = []
        self._accesses = Accesses()
        self._workspaces: dict[int, tuple[int, int]] = {}
        self._was_reset = False
        self.is_finalised = False

    def _at(self, address: int) -> Block | None:
        """Return the block that an address lies in or, as the runtime hides small overruns, shortly behind."""
        index = bisect_right(self._bases, address)
        block = self._blocks[self._bases[index - 1]] if index else None
        slack = 4096
        return block if block and address < block.base + block.size + slack else None

    def device_count(self, uses: int) -> None:
        """The device was set or reset; `uses` is what is not undone."""
        self._was_reset = uses == 0

    # ------------------------------------------------------------ lives of blocks

    def allocated(self, fact: Any, place: Place) -> None:
        """A block was handed out."""
        if fact.a not in self._blocks:
            insort(self._bases, fact.a)
        self._blocks[fact.a] = Block(fact.a, fact.b, bool(fact.c), place)

    def given_back(self, fact: Any, place: Place) -> bool:
        """A block was given back, or what is none; return whether it was a live block of this kind."""
        block = self._at(fact.a)
        if not fact.c:
            self._wrong_free(fact.a, block, place)
            return False
        if block is None:
            return True
        access = self._accesses.overlapping(block.base, block.base + block.size)
        if access:
            self._found.add(findings.FREED_EARLY, place, f"a {block} that is still used by ", access.place)
        elif self._was_reset and not block.is_host and not self.is_finalised:
            self._found.add(findings.FREED_LATE, place, f"a {block} of ", block.made)
        block.freed = place
        return True

    def _wrong_free(self, address: int, block: Block | None, place: Place) -> None:
        if block is None:
            self._found.add(findings.WRONG_FREE, place, "this address is in no block of the runtime")
        elif block.freed:
            self._found.add(findings.FREED_TWICE, place, f"this {block} was freed before: ", block.freed)
        elif block.base != address:
            text = f"the address is {address - block.base} bytes inside a {block} of "
            self._found.add(findings.WRONG_FREE, place, text, block.made)
        else:
            self._found.add(findings.WRONG_FREE, place, f"this {block} is of ", block.made)

    def released(self, fact: Any, _place: Place) -> None:
        """The addresses of a block that was given back are free for other use."""
        block = self._blocks.get(fact.a)
        if block and block.freed:
            del self._blocks[fact.a]
            del self._bases[bisect_right(self._bases, fact.a) - 1]

    def underrun(self, fact: Any, place: Place) -> None:
        """Bytes before a block have changed."""
        text = f"bytes {-fact.b} to {1 - fact.c} changed, before"
        self._overran(fact.a, place, text)

    def overrun(self, fact: Any, place: Place) -> None:
        """Bytes behind a block have changed."""
        self._overran(fact.a, place, f"bytes {fact.b} to {fact.c} behind the end changed, of")

    def _overran(self, base: int, place: Place, text: str) -> None:
        block = self._blocks.get(base)
        if block:
            how = f"{text} this {block}; noticed at "
            noticed = place if any(place.callers) or place.script else "the end of the program"
            self._found.add(findings.OVERRUN, block.made, how, noticed)

    def written_late(self, fact: Any, _place: Place) -> None:
        """Bytes of a block have changed after it was given back."""
        block = self._blocks.get(fact.a)
        if block and block.freed:
            text = f"bytes {fact.b} to {fact.c} of this {block} changed after it was freed: "
            self._found.add(findings.USED_FREED, block.made, text, block.freed)

    # ------------------------------------------------------------ uses

    def phase_two(self, fact: Any, place: Place, wanted: int) -> None:
        """Phase two was given a workspace; phase one wanted so many bytes."""
        address, size = fact.b, fact.c
        self._workspaces.pop(fact.thread, None)
        if size < wanted:
            self._found.add(findings.WORKSPACE, place, f"{size} bytes of workspace; phase one asked for {wanted}")
        if not (address and size):
            return
        block = self._at(address)
        if block is None or block.is_host:
            self._found.add(findings.WORKSPACE, place, "the workspace is not in device memory")
        elif block.freed:
            self._found.add(findings.USED_FREED, place, f"the workspace, a {block}, was freed: ", block.freed)
        elif address + size > block.base + block.size:
            text = f"{size} bytes of workspace in a {block} of "
            self._found.add(findings.WORKSPACE, place, text, block.made)
        else:
            self._workspaces[fact.thread] = (address, address + size)

    def queued(self, fact: Any, place: Place) -> None:
        """Phase two goes into a stream; what it uses follows."""
        workspace = self._workspaces.pop(fact.thread, None)
        if workspace:
            self._use(Access(fact.a, *workspace, True, place))

    def access(self, fact: Any, place: Place) -> None:
        """Bytes are used, now or by queued work."""
        access = Access(fact.a, fact.b, fact.c, bool(fact.d), place)
        block = self._at(access.first)
        is_operator = place.api.startswith("aclnn")
        if block is None or (block.is_host and is_operator):
            if is_operator:
                where = "host memory" if block is None else f"a {block} of host memory"
                self._found.add(findings.HOST_TENSOR, place, f"a tensor of this call lies in {where}")
            if block is None and not is_operator:
                return
        elif block.freed:
            self._found.add(findings.USED_FREED, place, f"a {block} that was freed: ", block.freed)
        elif access.end > block.base + block.size and not is_operator:
            verb = "written" if access.writes else "read"
            text = f"bytes {access.first - block.base} to {access.end - block.base} are {verb} in a {block} of "
            self._found.add(findings.BEYOND, place, text, block.made, subject=access.writes)
        self._use(access)

    def _use(self, access: Access) -> None:
        other = self._accesses.add(access)
        if other is None:
            return
        if access.stream:
            kind, text = findings.UNORDERED, "the other one: "
        elif other.writes and not access.writes:
            kind, text = findings.READ_EARLY, "it is written by "
        else:
            kind, text = findings.OVERWRITTEN, "it is used by "
        self._found.add(kind, access.place, text, other.place)

    def copied(self, fact: Any, place: Place) -> None:
        """A copy was asked for, of a kind."""
        wanted = ENDS.get(fact.c)
        blocks = self._at(fact.a), self._at(fact.b)
        if wanted is None or any(block and block.freed for block in blocks):
            return
        actual = tuple("device" if block and not block.is_host else "host" for block in blocks)
        if actual != wanted:
            text = f"{KINDS[fact.c]}, but from {actual[1]} to {actual[0]} memory"
            self._found.add(findings.WRONG_DIRECTION, place, text, subject=text)

    # ------------------------------------------------------------ order

    def synchronized(self, fact: Any, _place: Place) -> None:
        """The program has waited for a stream, or for all."""
        self._accesses.synchronize(fact.a)

    def stream_ended(self, stream: int) -> None:
        """A stream was destroyed, which waits for its work."""
        self._accesses.synchronize(stream)

    def recorded(self, fact: Any, _place: Place) -> None:
        """An event was recorded."""
        self._accesses.record(fact.a, fact.b)

    def waited(self, fact: Any, _place: Place) -> None:
        """A stream waits for an event."""
        self._accesses.wait(fact.a, fact.b)

    def event_reached(self, fact: Any, _place: Place) -> None:
        """The program has waited for an event."""
        self._accesses.reach(fact.a)

    def end(self) -> None:
        """The program has ended."""
        for block in self._blocks.values():
            if not block.freed:
                kind = "host memory" if block.is_host else "device memory"
                self._found.add(findings.LEFT_MEMORY, block.made, f"this {block} of {kind} was not freed")
