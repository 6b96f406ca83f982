"""Folders of cases: a manifest, a journal with one line for each finished case, and the arrays of each case.

    DIR/manifest.json             what made the folder, and how
    DIR/cases.jsonl               one JSON object for each finished case
    DIR/data/<id>.npz             the arrays of a case; also .safetensors and .pt
    DIR/data/<id>/<key>.npy       the same, one file for each array; also .bin

A line is written once the arrays of its case are, so a folder whose making was broken off holds whole cases only. What
a device produced may lie in a folder without manifest and journal, with the files in ``data`` or right inside.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from nonpu.verify.formats import FORMATS, StoreError, read_arrays, write_arrays

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["FORMATS", "Case", "Folder", "Journal", "StoreError", "open_folder", "read_arrays", "write_arrays"]

MANIFEST: Final = "manifest.json"
JOURNAL: Final = "cases.jsonl"
DATA: Final = "data"
UNENCODABLE: Final = "backslashreplace"
"""For names of files that are no Unicode: what this makes of them is an escape of JSON."""
_WHOLE: Final = (".npz", ".safetensors", ".pt")
_SINGLE: Final = (".npy", ".bin")
_LONGEST: Final = 180  # characters of a file name; systems take 255 bytes, and temporary names need some


def file_name(case_id: str) -> str:
    """Return the name, without a suffix, of the files of a case: the id itself where it is harmless.

    Different ids give different names: what is no letter, digit or one of ``_-.`` is written as in URLs; a point at the
    front too. Very long ids end with a digest.
    """
    name = quote(case_id, safe="")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) > _LONGEST:
        from hashlib import blake2b

        name = f"{name[: _LONGEST - 33]}~{blake2b(case_id.encode(), digest_size=16).hexdigest()}"
    return name


@dataclass(frozen=True)
class Case:
    """One finished case.

    Parameters
    ----------
    record : dict
        Its line of the journal.
    """

    record: dict[str, Any]

    @property
    def id(self) -> str:
        """Name of the case, unique in its folder."""
        return str(self.record["id"])

    @property
    def index(self) -> int:
        """Position in the case file."""
        return int(self.record["index"])

    @property
    def operator(self) -> str:
        """Name of the operator as in the documents, for example ``aclnnSwishBackward``."""
        return str(self.record["operator"])

    @property
    def status(self) -> str:
        """``done``, ``refused`` (by the contract) or ``failed``."""
        return str(self.record["status"])

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """Name, kind (``tensor``, ``scalar``, ``attr``) and type of every input, in contract order."""
        return list(self.record.get("inputs", ()))

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """Name, dtype and shape of every output."""
        return list(self.record.get("outputs", ()))

    def described(self, key: str) -> dict[str, Any] | None:
        """Return name, dtype and shape of the array called `key`, None if the case has none of that name."""
        wanted = key.removesuffix(".documented")
        for entry in self.outputs:
            if entry["name"] == wanted:
                return entry
        for entry in self.inputs:
            if entry["name"] == key and entry["kind"] == "tensor":
                return entry
        return None


@dataclass(frozen=True)
class Folder:
    """A folder of cases.

    Parameters
    ----------
    path : Path
        The folder.
    manifest : dict
        Empty if there is none.
    cases : list of Case
        Finished cases, in the order of the case file; empty if there is no journal.
    """

    path: Path
    manifest: dict[str, Any] = field(default_factory=dict)
    cases: list[Case] = field(default_factory=list)

    def case(self, case_id: str) -> Case | None:
        """Return the case of that id, None if the journal has none."""
        return self._by_id.get(case_id)

    @property
    def _by_id(self) -> dict[str, Case]:
        known: dict[str, Case] | None = self.__dict__.get("known")
        if known is None:
            known = {case.id: case for case in self.cases}
            self.__dict__["known"] = known
        return known

    def names(self) -> list[str]:
        """Return the file names, without suffixes, of all cases that have data, also where there is no journal."""
        found = set()
        for place in self._places():
            if place.is_dir():
                for entry in place.iterdir():
                    if entry.suffix in _WHOLE + _SINGLE and entry.is_file():
                        found.add(entry.name.removesuffix(entry.suffix))
                    elif entry.is_dir() and entry != self.path / DATA and any(_members(entry)):
                        found.add(entry.name)
        return sorted(found)

    def keys(self, case_id: str) -> list[str]:
        """Return the names of the arrays of a case.

        Raises
        ------
        StoreError
            If the case has no data, or a file cannot be read.
        """
        place = self._find(case_id)
        if place.is_dir():
            return sorted(path.name.removesuffix(path.suffix) for path in _members(place))
        if place.suffix in _SINGLE:
            return [place.stem]
        return list(read_arrays(place))

    def load(self, case_id: str, key: str, dtype: object = None, shape: Sequence[int] | None = None) -> NDArray[Any]:
        """Return an array of a case.

        A case with a single array gives that whatever its name.

        Parameters
        ----------
        case_id, key : str
            The case; the name of an input, an output, or an output with ``.documented``.
        dtype, shape : optional
            What the array is where neither file nor journal tell.

        Raises
        ------
        StoreError
            If there is no such array, it cannot be read, or it is not what the journal says.
        """
        case = self.case(case_id)
        entry = None if case is None else case.described(key)
        if entry is not None:
            dtype = entry["dtype"] if dtype is None else dtype
            shape = entry["shape"] if shape is None else shape
        place = self._find(case_id)
        if place.is_dir():
            paths = {path.name.removesuffix(path.suffix): path for path in _members(place)}
            path = _chosen(paths, key, place)
            (array,) = read_arrays(path, dtype, shape).values()
        else:
            path = place
            array = _chosen(read_arrays(place, dtype, shape, key), key, place)
        if entry is not None:
            _check(array, entry, path, key)
        return array

    def _places(self) -> tuple[Path, Path]:
        return self.path / DATA, self.path

    def _find(self, case_id: str) -> Path:
        for name in dict.fromkeys((file_name(case_id), case_id)):
            if "/" in name or name in ("", ".", ".."):
                continue
            for place in self._places():
                for suffix in _WHOLE + _SINGLE:
                    path = place / f"{name}{suffix}"
                    if path.is_file():
                        return path
                path = place / name
                if path.is_dir() and any(_members(path)):
                    return path
        suffixes = ", ".join(_WHOLE + _SINGLE)
        raise StoreError(f"{self.path}: no data of case {case_id!r} (looked for {file_name(case_id)} with {suffixes})")


def _members(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.suffix in _SINGLE and path.is_file())


def _chosen(found: Mapping[str, Any], key: str, place: Path) -> Any:
    if key in found:
        return found[key]
    if len(found) == 1 and not key.endswith(".documented"):
        return next(iter(found.values()))
    raise StoreError(f"{place}: no array called {key} (there: {', '.join(sorted(found)) or 'none'})")


def _check(array: NDArray[Any], entry: Mapping[str, Any], path: Path, key: str) -> None:
    if list(array.shape) != list(entry["shape"]):
        raise StoreError(f"{path}: {key} must have shape {list(entry['shape'])} (got {list(array.shape)})")
    if array.dtype.name != entry["dtype"]:
        raise StoreError(f"{path}: {key} must be {entry['dtype']} (got {array.dtype.name})")


def open_folder(path: str | Path) -> Folder:
    """Read the manifest and the journal of a folder; it may have neither.

    Raises
    ------
    StoreError
        If it is no folder, or one of these files is damaged. A last line of the journal that was cut off while it was
        written is no damage: its case is not finished.
    """
    path = Path(path)
    if not path.is_dir():
        raise StoreError(f"{path}: no such folder" if not path.exists() else f"{path}: must be a folder")
    manifest: dict[str, Any] = {}
    if (path / MANIFEST).exists():
        try:
            manifest = json.loads((path / MANIFEST).read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise StoreError(f"{path / MANIFEST}: no readable manifest ({error})") from error
        if not isinstance(manifest, dict):
            raise StoreError(f"{path / MANIFEST}: must be an object (got {type(manifest).__name__})")
    cases = {case.id: case for case in map(Case, read_journal(path / JOURNAL))}
    return Folder(path, manifest, sorted(cases.values(), key=lambda case: case.index))


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Return the records of a journal in the order of its lines; none if there is no such file."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: cannot be read ({error})") from error
    records = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if number == len(lines):
            break  # empty, or cut off
        try:
            record = json.loads(line)
            if not (isinstance(record["id"], str) and isinstance(record["index"], int)):
                raise TypeError
            if not (isinstance(record["operator"], str) and isinstance(record["status"], str)):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise StoreError(f"{path}, line {number}: no record of a case") from None
        records.append(record)
    return records


class Journal:
    """The writing side of a folder; one process has it.

    Parameters
    ----------
    path : Path
        The folder; made if it is not there.
    manifest : dict
        Facts for ``manifest.json``.
    resume : bool
        Keep the cases of an earlier run. Without it the folder must hold none.

    Raises
    ------
    StoreError
        If the folder cannot be written, or holds cases and `resume` is false, or cases of another kind.
    """

    def __init__(self, path: str | Path, manifest: Mapping[str, Any], *, resume: bool = False) -> None:
        self.path = Path(path)
        self.finished: dict[str, dict[str, Any]] = {}
        if (self.path / JOURNAL).exists() and not resume:
            raise StoreError(f"{self.path}: holds cases already: give --resume to go on with them, or another folder")
        try:
            (self.path / DATA).mkdir(parents=True, exist_ok=True)
            if resume:
                self._take_over(manifest)
            replace_file(self.path / MANIFEST, json.dumps(dict(manifest), indent=2, ensure_ascii=False) + "\n")
            # A last line that was cut off goes away with this.
            replace_file(self.path / JOURNAL, "".join(map(_line, self.finished.values())))
            self._file = (self.path / JOURNAL).open("a", encoding="utf-8", errors=UNENCODABLE)
        except OSError as error:
            raise StoreError(f"{error.filename or self.path}: {error.strerror or error}") from error

    def _take_over(self, manifest: Mapping[str, Any]) -> None:
        earlier = open_folder(self.path)
        if not earlier.manifest:
            if earlier.cases:
                raise StoreError(f"{self.path}: {MANIFEST} is missing, which tells how its cases were made")
            return
        for name in ("kind", "format", "seed", "cases_file", "product"):
            before, now = earlier.manifest.get(name), manifest.get(name)
            if before != now:
                raise StoreError(f"{self.path}: {name} must be {before!r}, as in the run to go on with (got {now!r})")
        if earlier.manifest.get("cases_digest") != manifest.get("cases_digest"):
            raise StoreError(f"{self.path}: {manifest.get('cases_file')} has changed since the run to go on with")
        names = set(earlier.names())
        for case in earlier.cases:
            if case.status == "refused" or (case.status == "done" and file_name(case.id) in names):
                self.finished[case.id] = case.record

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Add the lines of cases whose arrays have been written."""
        try:
            self._file.write("".join(map(_line, records)))
            self._file.flush()
        except OSError as error:
            raise StoreError(f"{self.path / JOURNAL}: {error.strerror}") from error
        self.finished.update((record["id"], dict(record)) for record in records)

    def close(self, *, whole: bool) -> None:
        """End the journal; `whole` puts the lines into the order of the case file."""
        try:
            os.fsync(self._file.fileno())
            self._file.close()
            if whole:
                ordered = sorted(self.finished.values(), key=lambda record: int(record["index"]))
                replace_file(self.path / JOURNAL, "".join(map(_line, ordered)))
        except OSError as error:
            raise StoreError(f"{self.path / JOURNAL}: {error.strerror}") from error


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(", ", ": ")) + "\n"


def replace_file(path: Path, text: str) -> None:
    """Write a text file so that it is there whole or not at all.

    Raises
    ------
    OSError
        With the file's name.
    """
    scratch = path.with_name(f"{path.name}.new")
    try:
        with scratch.open("w", encoding="utf-8", errors=UNENCODABLE) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from error
