"""Executors and streams as Python objects over the native handles."""

from __future__ import annotations

import atexit

from nonpu._core import ffi, lib
from nonpu.status import BY_VALUE, AclnnError, Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    from nonpu.spec.model import Op
    from nonpu.tensor import Tensor

# Tensors of queued work by stream handle: their memory must stay until the stream has run past it.
_in_use: dict[int, list[tuple[Tensor, ...]]] = {}
# Those of streams that ended without having been waited for.
_left: list[object] = []
# At the end of Python arrays are freed, whoever still writes them.
atexit.register(lib.nonpu_end_queues)


def native_failure(status: Status, api: str, function: str, stream: object = None) -> AclnnError:
    """Return the last failure that the native library recorded for this thread as an exception of `function`.

    Its text has the form "function: parameter must be expected (got actual)", with a function of the library; lines
    that earlier failures left follow. Of a stream, what the caller gave is shown.
    """
    recorded = lib.nonpu_take_error()
    text = "" if recorded == ffi.NULL else str(ffi.string(recorded).decode("utf-8", "replace"))
    _, _, sentence = text.partition("\n")[0].partition(": ")
    parameter, _, rest = sentence.partition(" must be ")
    expected, _, actual = rest.removesuffix(")").rpartition(" (got ")
    if not expected:
        parameter, expected, actual = "the runtime", "able to run", f"status {int(status)}"
    elif parameter == "stream":
        actual = _shown(stream)
    return AclnnError(status, api, parameter, expected, actual, function=function)


def stream_handle(stream: Stream | int | None, api: str, function: str) -> int:
    """Return the native handle: 0 stands for the default stream of the process.

    Raises
    ------
    TypeError
        If `stream` can be no stream.
    AclnnError
        361001 if it is one that has been destroyed, or no address.
    """
    if stream is None:
        return 0
    if isinstance(stream, Stream):
        handle = stream.handle
        if handle:
            return handle
    elif isinstance(stream, int) and not isinstance(stream, bool):
        if 0 <= stream < 2**64:
            return stream
    else:
        expected = "a nonpu.Stream, a handle or None"
        raise TypeError(f"{function}: stream must be {expected} (got {type(stream).__name__})")
    status = Status.ACLNN_ERR_RUNTIME_ERROR
    raise AclnnError(status, api, "stream", "a live stream", _shown(stream), function=function)


def _shown(stream: Any) -> str:
    if isinstance(stream, Stream):
        return repr(stream) if stream.handle else "a destroyed stream"
    return repr(stream)


class Stream:
    """A queue of operators that runs in order beside the calling thread.

    Usable as a context manager; leaving it waits for the queued work and destroys the stream.

    Attributes
    ----------
    handle : int
        What C functions call ``aclrtStream``; 0 once destroyed.

    Examples
    --------
    >>> import nonpu
    >>> with nonpu.Stream() as stream:
    ...     stream.synchronize()
    >>> stream
    <Stream (destroyed)>
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
            done = _in_use.pop(handle, None)
            if lib.nonpu_stream_destroy(handle):
                _left.append(done)
            del done

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.destroy()

    def __del__(self) -> None:
        self.destroy()

    def __repr__(self) -> str:
        if not self.handle:
            return "<Stream (destroyed)>"
        state = "idle" if lib.nonpu_stream_idle(self.handle) else "busy"
        return f"<Stream {self.handle:#x}: {state}>"


def synchronize(stream: Stream | int | None = None) -> None:
    """Wait for a stream; None waits for all streams of the process.

    Raises
    ------
    AclnnError
        361001 if `stream` is no live stream.
    """
    # Taken out before the wait: what other threads queue meanwhile goes into new lists, which stay.
    if stream is None:
        done = [_in_use.pop(handle, None) for handle in list(_in_use)]
        lib.nonpu_synchronize_all()
        del done
        return
    name = "nonpu.synchronize"
    handle = stream_handle(stream, name, name)
    waited = _in_use.pop(handle, None)
    if lib.nonpu_stream_synchronize(handle):
        raise native_failure(Status.ACLNN_ERR_RUNTIME_ERROR, name, name, stream)
    del waited


class Executor:
    """What phase one planned.

    An executor runs once; `set_repeatable` before the first run makes it run any number of times, on the data that its
    tensors hold by then.

    Examples
    --------
    >>> import numpy as np
    >>> import nonpu
    >>> from nonpu import Tensor, aclnn
    >>> grad_output, output, grad_input = np.ones(2), np.array([0.5, 0.25]), np.empty(2)
    >>> tensors = map(Tensor.from_numpy, (grad_output, output, grad_input))
    >>> size, executor = aclnn.aclnnSigmoidBackwardGetWorkspaceSize(*tensors)
    >>> executor.set_repeatable()
    >>> for output[0] in (0.5, 0.125):
    ...     executor.run()
    ...     nonpu.synchronize()
    ...     print(grad_input)
    [0.25   0.1875]
    [0.109375 0.1875  ]
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
        queue = 0 if stream is None else stream_handle(stream, self.op.api, self.op.phase_two)
        if not self._repeatable:
            self._handle = 0
        status = lib.nonpu_execute(handle, queue)
        if status:
            raise native_failure(BY_VALUE[status], self.op.api, self.op.phase_two, stream)
        # Taken out before the question: whoever queues meanwhile keeps its own.
        held = _in_use.pop(queue, [])
        if not lib.nonpu_stream_idle(queue):
            held.append(self._tensors)
            kept = _in_use.setdefault(queue, held)
            if kept is not held:
                kept.extend(held)

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
        state = "consumed" if not self._handle else "repeatable" if self._repeatable else "one run"
        tensors = (param.name for param in self.op.tensors.values())
        shown = (f"{name}={tensor!r}" for name, tensor in zip(tensors, self._tensors, strict=True))
        return f"<Executor of {self.op.api}: {state}; {', '.join(shown)}>"
