"""Which array of ACTUAL belongs to which of EXPECTED: cases of two folders, or arrays of two files.

Nothing is passed over: what is missing on one side, or is on one side only, becomes an item with a problem.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nonpu import products
from nonpu.dtypes import DType
from nonpu.verify.store import Case, Folder, StoreError, file_name, open_folder, read_arrays

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from numpy.typing import NDArray

    Array = NDArray[Any]

DOCUMENTED: Final = ".documented"
# Names of tensor inputs in the contract; in files without a journal nothing else tells inputs from outputs.
_INPUTS: Final = ("gradOutput", "self", "output")
VERDICTS: Final = "verdicts.json"


@dataclass(frozen=True, eq=False)
class Item:
    """One array to be judged.

    Parameters
    ----------
    id, output : str
        The case and the name of its output.
    operator : str
        Name as in the documents, empty where it is not known.
    actual, expected : callables
        They load the arrays, or raise StoreError.
    inputs : callable
        Loads the tensor inputs that can be loaded, by name.
    scalars : dict
        Scalars and attributes by name.
    standard : str
        Standard that the case file names, empty without one.
    problem : str
        Why there is nothing to judge; empty if there is.
    dtype, shape :
        As the journal says, for items with a problem.
    promoted : str
        Type that the result was rounded to before it was converted to its own, empty where it is not known.
    reproduce : str
        Command that makes the one case again, or compares it again.
    """

    id: str
    output: str
    operator: str = ""
    actual: Callable[[], Array] | None = None
    expected: Callable[[], Array] | None = None
    inputs: Callable[[], dict[str, Array]] = dict
    scalars: dict[str, Any] = field(default_factory=dict)
    standard: str = ""
    problem: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    promoted: str = ""
    reproduce: str = ""


@dataclass(frozen=True, eq=False)
class Comparison:
    """All items of ACTUAL and EXPECTED.

    Parameters
    ----------
    total : int
        Number of items.
    items : iterator of Item
        In the order of EXPECTED; what only ACTUAL has comes last.
    refused : list of dict
        Cases without a golden because the contract refuses the call: id and error.
    notes : list of str
        Remarks that are no problem of a case.
    """

    total: int
    items: Iterator[Item]
    refused: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def match(actual: Path, expected: Path, *, dtype: str | None = None, only: Collection[str] = ()) -> Comparison:
    """Pair the arrays of two folders or of two files.

    Parameters
    ----------
    actual, expected : Path
        Both folders or both files.
    dtype : str, optional
        Type of arrays whose file does not tell it.
    only : collection of str, optional
        Ids of the cases to take; all without it.

    Raises
    ------
    StoreError
        If EXPECTED or a whole file cannot be read, or one is a file and the other a folder.
    ValueError
        If a case of `only` does not exist.
    """
    for path in (actual, expected):
        if not path.exists():
            raise StoreError(f"{path}: no such file or folder")
    if actual.is_dir() != expected.is_dir():
        kinds = [f"{path} is a {'folder' if path.is_dir() else 'file'}" for path in (actual, expected)]
        raise StoreError(f"ACTUAL and EXPECTED must be two folders or two files ({', '.join(kinds)})")
    if not actual.is_dir():
        found = _files(actual, expected, dtype)
    else:
        given, wanted = open_folder(actual), open_folder(expected)
        found = _journal(given, wanted) if wanted.cases or wanted.manifest else _loose(given, wanted, dtype)
    if actual.resolve() == expected.resolve():
        found.notes.append("ACTUAL and EXPECTED are the same: this shows nothing but that they can be read")
    return _restricted(found, only) if only else found


def documented(folder: Folder) -> Comparison:
    """Pair what the documented formula gives, as ACTUAL, with the goldens of one folder."""
    items = [
        item for case in folder.cases if case.status == "done" for item in _items_of(case, folder, folder, DOCUMENTED)
    ]
    notes = [_unfinished(folder)] if _unfinished(folder) else []
    return Comparison(len(items), iter(items), _refused(folder), notes)


def _restricted(found: Comparison, only: Collection[str]) -> Comparison:
    chosen = [item for item in found.items if item.id in only]
    missing = set(only) - {item.id for item in chosen} - {entry["id"] for entry in found.refused}
    if missing:
        raise ValueError(f"--only: there is no case {sorted(missing)[0]!r}")
    return Comparison(len(chosen), iter(chosen), [e for e in found.refused if e["id"] in only], found.notes)


def _refused(folder: Folder) -> list[dict[str, str]]:
    return [
        {"id": case.id, "error": str(case.record.get("error", ""))} for case in folder.cases if case.status == "refused"
    ]


def _unfinished(folder: Folder) -> str:
    """Return what is wrong with a folder whose making was broken off, empty if it is whole."""
    planned = folder.manifest.get("count")
    if not isinstance(planned, int) or planned <= len(folder.cases):
        return ""
    return f"{folder.path} holds {len(folder.cases)} of {planned} cases: finish it with nonpu golden --resume"


def _journal(actual: Folder, expected: Folder) -> Comparison:
    items: list[Item] = []
    known: set[str] = set()
    for case in expected.cases:
        known |= {file_name(case.id), case.id}
        if case.status != "refused":
            items += _items_of(case, actual, expected)
    for name in actual.names():
        if name not in known:
            items.append(Item(name, "", problem=f"{actual.path} has a case {name} that {expected.path} does not have"))
    if _unfinished(expected):
        items.append(Item("(unfinished)", "", problem=_unfinished(expected)))
    return Comparison(len(items), iter(items), _refused(expected))


def _items_of(case: Case, actual: Folder, expected: Folder, suffix: str = "") -> Iterator[Item]:
    reproduce = _again(case.id, actual, expected)
    if case.status != "done":
        reason = f"no golden: {case.record.get('error', case.status)}"
        yield Item(case.id, "", case.operator, problem=reason, reproduce=reproduce)
        return
    defect = _defect(case)
    if defect:
        yield Item(case.id, "", case.operator, problem=f"{expected.path}: {defect}", reproduce=reproduce)
        return
    standard = case.record.get("standard")
    for entry in case.outputs:
        name, dtype, shape = entry["name"], entry["dtype"], tuple(entry["shape"])
        yield Item(
            case.id,
            name,
            case.operator,
            _loader(actual, case.id, name + suffix, dtype, shape),
            _loader(expected, case.id, name, dtype, shape),
            _inputs_loader(expected, case),
            {e["name"]: e.get("value") for e in case.inputs if e["kind"] != "tensor"},
            standard if isinstance(standard, str) else "",
            dtype=dtype,
            shape=shape,
            promoted=str(case.record.get("promoted", "")),
            reproduce=reproduce,
        )


def _loader(folder: Folder, case: str, key: str, dtype: str | None, shape: tuple[int, ...] | None) -> Any:
    return lambda: folder.load(case, key, dtype, shape)


def _inputs_loader(folder: Folder, case: Case) -> Callable[[], dict[str, Array]]:
    def load() -> dict[str, Array]:
        found = {}
        for entry in case.inputs:
            if entry["kind"] == "tensor":
                try:
                    found[entry["name"]] = folder.load(case.id, entry["name"])
                except StoreError:
                    continue  # a folder of goldens alone is enough for a verdict
        return found

    return load


def _defect(case: Case) -> str:
    """Return what is wrong with the line of a case in the journal; empty if it can be used."""
    record = case.record
    outputs, inputs = record.get("outputs"), record.get("inputs", [])
    if not isinstance(outputs, list) or not outputs or not isinstance(inputs, list):
        return f"the record of case {case.id!r} names no outputs, or its inputs are no list"
    for entry in (*outputs, *inputs):
        if not (isinstance(entry, dict) and isinstance(entry.get("name"), str)):
            return f"the record of case {case.id!r} has an input or output without a name"
    if not all(isinstance(entry.get("kind"), str) for entry in inputs):
        return f"the record of case {case.id!r} has an input without a kind"
    for entry in (*outputs, *(entry for entry in inputs if entry["kind"] == "tensor")):
        shape = entry.get("shape")
        if not isinstance(shape, list) or not all(isinstance(length, int) and length >= 0 for length in shape):
            return f"the record of case {case.id!r} has no shape of {entry['name']} (got {shape!r})"
        try:
            DType.parse(entry.get("dtype"))
        except TypeError:
            return f"the record of case {case.id!r} has no known dtype of {entry['name']} (got {entry.get('dtype')!r})"
    return ""


def _again(case: str, actual: Folder, expected: Folder) -> str:
    """Return the commands that make the golden of a case again, where the manifest tells how, and compare it."""
    source = expected.manifest.get("cases_file")
    if not isinstance(source, str):
        return _compare_command(actual.path, expected.path, case)
    seed = str(expected.manifest.get("seed", 0))
    where, product = expected.manifest.get("cases_path", source), expected.manifest.get("product")
    foreign = ["--product", product] if isinstance(product, str) and product != products.DEFAULT else []
    made = shlex.join(["nonpu", "golden", str(where), "-o", "DIR", "--only", case, "--seed", seed, *foreign])
    if actual.path == expected.path:
        return made
    return f"{made} && {_compare_command(actual.path, Path('DIR'), case)}"


def _compare_command(actual: Path, expected: Path, case: str = "") -> str:
    return shlex.join(["nonpu", "compare", str(actual), str(expected), *(["--only", case] if case else [])])


def _loose(actual: Folder, expected: Folder, dtype: str | None) -> Comparison:
    """Pair folders without a journal, by the names of their files."""
    names, given = expected.names(), set(actual.names())
    items: list[Item] = []
    for name in names:
        command = _compare_command(actual.path, expected.path, name)
        if name not in given:
            items.append(Item(name, "", problem=f"{actual.path}: no data of case {name!r}", reproduce=command))
            continue
        try:
            keys = _outputs(expected.keys(name), actual.keys(name))
        except StoreError as error:
            if dtype is None:
                items.append(Item(name, "", problem=str(error), reproduce=command))
                continue
            keys = ["out"]
        for key in keys:
            load = _loader(actual, name, key, dtype, None), _loader(expected, name, key, dtype, None)
            items.append(Item(name, key, "", *load, reproduce=command))
    items += [
        Item(name, "", problem=f"{actual.path} has a case {name} that {expected.path} does not have")
        for name in sorted(given - set(names))
    ]
    if not items:
        raise StoreError(f"{expected.path}: no arrays there (.npz, .npy, .bin, .safetensors or .pt)")
    return Comparison(len(items), iter(items))


def _outputs(wanted: Collection[str], given: Collection[str]) -> list[str]:
    """Return the names of the arrays to compare: all of EXPECTED but the inputs that ACTUAL leaves out."""
    if len(wanted) == 1:
        return list(wanted)
    return [key for key in wanted if key in given or not (key in _INPUTS or key.endswith(DOCUMENTED))]


def _files(actual: Path, expected: Path, dtype: str | None) -> Comparison:
    # A raw file tells nothing, so the other one does.
    raw = expected.suffix == ".bin" and actual.suffix != ".bin"
    first, second = (actual, expected) if raw else (expected, actual)
    one = read_arrays(first, dtype)
    known = next(iter(one.values())) if len(one) == 1 else None
    shape = known.shape if known is not None and first.suffix != ".bin" else None
    other = read_arrays(second, dtype if dtype is not None or known is None else known.dtype, shape)
    given, wanted = (one, other) if raw else (other, one)
    command = _compare_command(actual, expected)
    if len(given) == 1 == len(wanted):
        (key, g), (a,) = next(iter(wanted.items())), given.values()
        item = Item(key, key, "", lambda: a, lambda: g, reproduce=command)
        return Comparison(1, iter([item]))
    items = [_file_item(key, given, wanted, actual, command) for key in _outputs(wanted, given)]
    for key in given:
        if key not in wanted:
            items.append(Item(key, key, problem=f"{actual} has an array {key} that {expected} does not have"))
    if not items:
        raise StoreError(f"{expected}: no array to compare (there: {', '.join(sorted(wanted)) or 'none'})")
    return Comparison(len(items), iter(items))


def _file_item(key: str, given: dict[str, Array], wanted: dict[str, Array], path: Path, command: str) -> Item:
    if key not in given:
        problem = f"{path}: no array called {key} (there: {', '.join(sorted(given)) or 'none'})"
        return Item(key, key, problem=problem, reproduce=command)
    inputs: dict[str, Array] = {name: wanted[name] for name in _INPUTS if name in wanted and name != key}
    return Item(key, key, "", lambda: given[key], lambda: wanted[key], lambda: inputs, reproduce=command)
