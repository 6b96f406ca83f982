"""Executors and streams as Python objects over the native handles."""

from __future__ import annotations

from nonpu._core import ffi, lib
from nonpu.status import BY_VALUE, AclnnError, Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from nonpu.spec.model import Op
    from nonpu.tensor import Tensor

# Tensors of queued work by stream handle: their memory must stay until the stream has run past it.
_in_use: dict[int, list[tuple[Tensor, ...]]] = {}


def native_text() -> str:
    """Return and clear the text that the native library recorded for the last failure of this thread."""
    text = lib.nonpu_take_error()
    return "an unknown failure" if text == ffi.NULL else str(ffi.string(text).decode("utf-8", "replace"))


def stream_handle(stream: Stream | int | None) -> int:
    """Return the native handle: 0 stands for the default stream of the process."""
    if stream is None:
        return 0
    if isinstance(stream, Stream):
        return stream.handle
    if isinstance(stream, int):
        return stream
    raise TypeError(f"stream must be a nonpu.Stream, a handle or None (got {type(stream).__name__})")


class Stream:
    """A queue of operators that runs in order beside the calling thread.

    Usable as a context manager; leaving it waits for the queued work and destroys the stream.

    Attributes
    ----------
    handle : int
        What C functions call ``aclrtStream``; 0 once destroyed.
    """

    __slots__ = ("handle",)

    def __init__(self) -> None:
        self.handle: int = lib.nonpu_stream_create()
        if not self.handle:
            raise MemoryError("Stream: no memory for another stream")

    def synchronize(self) -> None:
        """Wait until everything queued so far has run."""
        synchronize(self)

    def destroy(self) -> None:
        """Wait for the queued work and give the stream back; doing so twice is harmless."""
        handle, self.handle = self.handle, 0
        if handle:
            lib.nonpu_stream_destroy(handle)
            _in_use.pop(handle, None)

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.destroy()

    def __del__(self) -> None:
        self.destroy()

    def __repr__(self) -> str:
        return f"<Stream {self.handle:#x}>" if self.handle else "<Stream (destroyed)>"


def synchronize(stream: Stream | int | None = None) -> None:
    """Wait for a stream; None waits for all streams of the process.

    Raises
    ------
    AclnnError
        361001 if `stream` is no live stream.
    """
    if stream is None:
        lib.nonpu_synchronize_all()
        _in_use.clear()
        return
    handle = stream_handle(stream)
    if lib.nonpu_stream_synchronize(handle):
        raise AclnnError(Status.ACLNN_ERR_RUNTIME_ERROR, "nonpu.synchronize", "stream", "a live stream", native_text())
    _in_use.pop(handle, None)


class Executor:
    """What phase one planned.

    An executor runs once; `set_repeatable` before the first run makes it run any number of times, on the data that its
    tensors hold by then.
    """

    __slots__ = ("_handle", "_repeatable", "_tensors", "op")

    def __init__(self, op: Op, handle: int, tensors: tuple[Tensor, ...]) -> None:
        self.op = op
        self._handle = handle
        self._tensors = tensors
        self._repeatable = False

    @property
    def handle(self) -> int:
        """The native handle; 0 once consumed."""
        return self._handle

    def set_repeatable(self) -> None:
        """Keep the executor after a run.

        Raises
        ------
        AclnnError
            161002 if it has been consumed.
        """
        if not self._handle:
            raise self._consumed()
        lib.nonpu_executor_set_repeatable(self._handle)
        self._repeatable = True

    def run(self, stream: Stream | int | None = None) -> None:
        """Run, or queue where the work is large; results are there after `nonpu.synchronize`.

        Raises
        ------
        AclnnError
            161002 if the executor has been consumed, 361001 if the stream is not alive or memory ends.
        """
        handle = self._handle
        if not handle:
            raise self._consumed()
        if not self._repeatable:
            self._handle = 0
        queue = 0 if stream is None else stream_handle(stream)
        status = lib.nonpu_execute(handle, queue)
        if status:
            raise AclnnError(
                BY_VALUE[status],
                self.op.api,
                "stream",
                "alive and able to run",
                native_text(),
                function=self.op.phase_two,
            )
        if not lib.nonpu_stream_idle(queue):
            _in_use.setdefault(queue, []).append(self._tensors)
        elif queue in _in_use:
            del _in_use[queue]

    def discard(self) -> None:
        """Give the executor back without running it; doing so twice is harmless."""
        handle, self._handle = self._handle, 0
        if handle:
            lib.nonpu_executor_destroy(handle)

    def _consumed(self) -> AclnnError:
        return AclnnError(
            Status.ACLNN_ERR_PARAM_INVALID,
            self.op.api,
            "executor",
            "one that has not run yet, or a repeatable one",
            "a consumed executor",
            function=self.op.phase_two,
        )

    def __del__(self) -> None:
        self.discard()

    def __repr__(self) -> str:
        state = "repeatable" if self._repeatable else "one run" if self._handle else "consumed"
        return f"<Executor of {self.op.api}: {state}>"
