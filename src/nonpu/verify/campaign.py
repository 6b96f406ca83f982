"""Making a folder of cases: split into tasks, run here or on a Dask cluster, and written by this process alone.

Small cases travel in batches; a case above the chunk limit is made part by part, into .npy files that are filled as the
parts arrive. A task depends on its arguments alone, so that neither the number of workers nor their death, nor the
order in which they finish, can change a bit of the result.
"""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nonpu.verify import produce
from nonpu.verify.formats import StoreError, patterns
from nonpu.verify.store import DATA, Journal, file_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from nonpu.verify.produce import Judged
    from nonpu.verify.request import Request

    Progress = Callable[[int, int], None]
    Runner = Callable[[Iterable["Task"]], Iterator[tuple["Task", Any]]]

_BATCH_CASES: Final = 100
_BATCH_ELEMENTS: Final = 1 << 19
CHUNK: Final = 1 << 22  # elements; a part of a case then takes some tens of megabytes


@dataclass(frozen=True)
class Task:
    """A piece of work: cases, or the elements `start` to `stop` of one case or of one of its inputs (`name`)."""

    requests: tuple[Request, ...]
    format: str
    start: int = 0
    stop: int = 0
    name: str = ""

    @property
    def is_part(self) -> bool:
        """Whether this is a piece of a single large case."""
        return self.stop > 0

    def run(self) -> Any:
        """Return the records and files of the cases, or the arrays of the part."""
        if not self.is_part:
            return produce.make_cases(self.requests, self.format)
        (request,) = self.requests
        try:
            if self.name:
                return produce.make_input(request, self.name, self.start, self.stop)
            return produce.make_part(request, self.start, self.stop)
        except Exception as error:
            return error

    def split(self) -> list[Task]:
        """Return one task for each case; a part stays as it is."""
        return [replace(self, requests=(request,)) for request in self.requests]

    def given_up(self, error: BaseException) -> Any:
        """Return what stands for the result of a task whose worker died again and again."""
        return error if self.is_part else [(produce.failed(request, error), {}) for request in self.requests]


def serially(tasks: Iterable[Task]) -> Iterator[tuple[Task, Any]]:
    """Run the tasks in this process."""
    for task in tasks:
        yield task, task.run()


@dataclass(frozen=True)
class Outcome:
    """How many cases ended how."""

    done: int
    refused: int
    failed: int

    @property
    def count(self) -> int:
        """All of them."""
        return self.done + self.refused + self.failed


def make_folder(
    path: str | Path,
    requests: Sequence[Request],
    manifest: Mapping[str, Any],
    *,
    resume: bool = False,
    chunk: int = CHUNK,
    runner: Runner = serially,
    progress: Progress = lambda cases, elements: None,
) -> Outcome:
    """Make all cases that the folder does not have yet.

    Parameters
    ----------
    path : path
        The folder.
    requests : sequence of Request
        The cases.
    manifest : mapping
        For ``manifest.json``; holds at least ``format``.
    resume : bool
        Go on with a folder that holds cases.
    chunk : int
        Elements above which a case is made in parts.
    runner : callable
        Runs tasks and gives each with its result, in any order.
    progress : callable
        Told how many cases and elements have been finished since it was called before.

    Raises
    ------
    StoreError
        If the folder cannot be written. What is finished stays, as it does after any other exception.
    """
    journal = Journal(path, manifest, resume=resume)
    writer = Writer(journal, progress)
    whole = False
    try:
        open_requests = [request for request in requests if request.id not in journal.finished]
        progress(len(requests) - len(open_requests), 0)
        for task, result in runner(writer.tasks(open_requests, str(manifest["format"]), chunk)):
            writer.take(task, result)
        whole = True
    finally:
        writer.abandon()
        journal.close(whole=whole)
    ended = [journal.finished[request.id]["status"] for request in requests]
    return Outcome(ended.count("done"), ended.count("refused"), ended.count("failed"))


class Writer:
    """The writing side of a run.

    Parameters
    ----------
    journal : Journal
        Of the folder.
    progress : callable
        As in `make_folder`.
    """

    def __init__(self, journal: Journal, progress: Progress) -> None:
        self._journal = journal
        self._progress = progress
        self._large: dict[str, _LargeCase] = {}

    def tasks(self, requests: Iterable[Request], format: str, chunk: int) -> Iterator[Task]:
        """Yield the work, which is split as it is asked for."""
        batch: list[Request] = []
        elements = 0
        for request in requests:
            size = produce.size(request)
            if size > chunk:
                case = produce.judged(request)
                if case.refusal is None:
                    yield from self._parts(case, format, chunk)
                    continue
            batch.append(request)
            elements += size
            if len(batch) >= _BATCH_CASES or elements >= _BATCH_ELEMENTS:
                yield Task(tuple(batch), format)
                batch, elements = [], 0
        if batch:
            yield Task(tuple(batch), format)

    def _parts(self, case: Judged, format: str, chunk: int) -> Iterator[Task]:
        sizes = {"": math.prod(case.shape)}
        for name in case.op.inputs:
            shape = case.request.tensors[name].shape  # type: ignore[union-attr]  # judged: there is no null
            if shape != case.shape:
                sizes[name] = math.prod(shape)
        needed, free = case.nbytes(), shutil.disk_usage(self._journal.path).free
        if needed > free:
            error = StoreError(f"{self._journal.path}: needs {needed} bytes for this case, and {free} are free")
            self._finish([produce.failed(case.request, error)])
            return
        count = sum(-(-size // chunk) for size in sizes.values())
        self._large[case.request.id] = _LargeCase(self._journal.path, case, count)
        for name, size in sizes.items():
            for start in range(0, size, chunk):
                yield Task((case.request,), format, start, min(start + chunk, size), name)

    def take(self, task: Task, result: Any) -> None:
        """Write what a task gave."""
        if task.is_part:
            self._take_part(task, result)
            return
        for record, files in result:
            for suffix, content in files.items():
                _write(self._journal.path, record["id"], suffix, content)
        self._finish([record for record, _ in result])

    def _take_part(self, task: Task, result: Any) -> None:
        (request,) = task.requests
        case = self._large[request.id]
        case.left -= 1
        if isinstance(result, BaseException):
            case.error = result
        elif case.error is None:
            case.write(result, task.start)
        if case.left == 0:
            case.close()
            del self._large[request.id]
            self._finish([case.record() if case.error is None else produce.failed(request, case.error)])

    def _finish(self, records: list[dict[str, Any]]) -> None:
        self._journal.append(records)
        sizes = (math.prod(entry["shape"]) for record in records for entry in record.get("outputs", ()))
        self._progress(len(records), sum(sizes))

    def abandon(self) -> None:
        """Close the files of large cases that are not finished."""
        for case in self._large.values():
            case.close()


class _LargeCase:
    """The files of a case that is made in parts."""

    def __init__(self, folder: Path, case: Judged, parts: int) -> None:
        self.left = parts
        self.error: BaseException | None = None
        self._record = case.record()
        self._folder = folder / DATA / file_name(case.request.id)
        self._files: dict[str, tuple[BinaryIO, int]] = {}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for entry in self._record["inputs"]:
                if entry["kind"] == "tensor":
                    self._create(entry["name"], entry)
            for entry in self._record["outputs"]:
                self._create(entry["name"], entry)
                self._create(entry["name"] + produce.DOCUMENTED, entry)
        except OSError as error:
            raise StoreError(f"{error.filename or self._folder}: {error.strerror or error}") from error

    def _create(self, key: str, entry: Mapping[str, Any]) -> None:
        name = "uint16" if entry["dtype"] == "bfloat16" else entry["dtype"]
        descr = np.lib.format.dtype_to_descr(np.dtype(name))
        file = (self._folder / f"{key}.npy").open("wb")
        np.lib.format.write_array_header_1_0(
            file, {"descr": descr, "fortran_order": False, "shape": tuple(entry["shape"])}
        )
        self._files[key] = file, file.tell()

    def write(self, arrays: Mapping[str, Any], start: int) -> None:
        try:
            for key, array in arrays.items():
                file, origin = self._files[key]
                file.seek(origin + start * array.dtype.itemsize)
                file.write(patterns(array).tobytes())
        except OSError as error:
            raise StoreError(f"{self._folder}: {error.strerror or error}") from error

    def record(self) -> dict[str, Any]:
        return self._record

    def close(self) -> None:
        for file, _ in self._files.values():
            file.close()


def _write(folder: Path, case_id: str, suffix: str, content: bytes) -> None:
    path = folder / DATA / f"{file_name(case_id)}{suffix}"
    try:
        if suffix.startswith("/"):
            path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error
