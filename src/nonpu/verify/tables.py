"""Rows of CSV case files, turned into the cases of JSON files.

Our own form has a column for each field: ``id``, ``operator``, ``dtype``, ``shape`` and ``range`` for all tensors, and
``<parameter>.<field>`` for one of them (``self.shape``, ``out.dtype``); ``<parameter>`` alone is the value of a scalar
or flag. The columns of ops-test-kit (``api_name``, ``tensor_view_shapes``, ``tensor_dtypes``, ``attributes``,
``scalar_dtypes``, ``output_tensor_indexes``) are known too; others that stand beside them are passed over.
"""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    Cells = dict[str, str]

_PLAIN: Final = {"id", "operator", "product", "standard", "comment", "dtype"}
_READ: Final = {"shape", "range", "seed"}
_FIELDS: Final = {"dtype", "shape", "range", "strides", "offset", "value"}
_IDS: Final = ("id", "case_id", "case_name", "testcase_name", "name")
_TENSOR_LISTS: Final = {
    "tensor_view_strides": "strides",
    "tensor_strides": "strides",
    "tensor_view_offsets": "offset",
    "tensor_ranges": "range_values",
    "tensor_data_ranges": "range_values",
}


class CellError(ValueError):
    """A cell or a header that cannot be used; the text names the column."""


def converter(header: list[str]) -> Callable[[Cells], dict[str, Any]]:
    """Return the function that makes a case of a row's cells.

    Raises
    ------
    CellError
        If the header has a column twice, or one that means nothing.
    """
    for name in header:
        if header.count(name) > 1:
            raise CellError(f"column {name!r} must be there once (got {header.count(name)})")
    if "api_name" in header:
        return from_test_kit
    if "operator" not in header:
        raise CellError(f"must have a column operator or api_name (got {', '.join(header) or 'nothing'})")
    for name in header:
        parameter, point, field = name.partition(".")
        if point and (field not in _FIELDS or not parameter):
            raise CellError(f"column {name!r} must be <parameter>.<one of {', '.join(sorted(_FIELDS))}>")
    return from_row


def from_row(cells: Cells) -> dict[str, Any]:
    """Return the case of a row of our own form."""
    case: dict[str, Any] = {}
    inputs: dict[str, Any] = {}
    for name, cell in cells.items():
        parameter, point, field = name.partition(".")
        if name in _PLAIN:
            case[name] = cell
        elif name in _READ:
            case[name] = _shape(cell, name) if name == "shape" else read_cell(cell)
        elif not point:
            inputs[name] = _number(cell, name)
        else:
            value = cell if field == "dtype" else _shape(cell, name) if field == "shape" else read_cell(cell)
            record = inputs.setdefault(parameter, {})
            if not isinstance(record, dict):
                record = inputs[parameter] = {"value": record}
            record[field] = [value] if field == "strides" and isinstance(value, int) else value
    return {**case, "inputs": inputs}


def from_test_kit(cells: Cells) -> dict[str, Any]:
    """Return the case of a row of ops-test-kit, in the list form of device test suites."""
    shapes = _list_of(cells, "tensor_view_shapes")
    if shapes and not isinstance(shapes[0], list):
        shapes = [shapes]
    dtypes = _list_of(cells, "tensor_dtypes")
    if len(dtypes) == 1:
        dtypes = dtypes * len(shapes)
    if len(dtypes) != len(shapes):
        raise CellError(f"tensor_dtypes must have as many entries as tensor_view_shapes, {len(shapes)} (got {dtypes})")
    records = [{"type": "tensor", "shape": s, "dtype": d} for s, d in zip(shapes, dtypes, strict=True)]
    for column, field in _TENSOR_LISTS.items():
        for record, value in zip(records, _list_of(cells, column), strict=False):
            record[field] = value
    outputs = _list_of(cells, "output_tensor_indexes")
    if not outputs and len(records) > 2:
        outputs = [len(records) - 1]
    if not all(isinstance(place, int) and -len(records) <= place < len(records) for place in outputs):
        raise CellError(f"output_tensor_indexes must be positions in tensor_dtypes (got {outputs})")
    places = {place % len(records) for place in outputs}
    case = {
        "aclnn_name": cells.get("api_name"),
        "id": next((cells[name] for name in _IDS if name in cells), None),
        "inputs": [record for place, record in enumerate(records) if place not in places] + _attributes(cells),
        "outputs": [{**records[place], "name": "out"} for place in sorted(places)],
        "product": cells.get("product"),
    }
    return case if "seed" not in cells else {**case, "seed": read_cell(cells["seed"])}


def _attributes(cells: Cells) -> list[dict[str, Any]]:
    raw = read_cell(cells["attributes"]) if "attributes" in cells else []
    named = list(raw.items()) if isinstance(raw, dict) else [(None, one) for one in _as_list(raw)]
    dtypes = iter(_list_of(cells, "scalar_dtypes"))
    records = []
    for name, value in named:
        record: dict[str, Any] = {} if name is None else {"name": name}
        if isinstance(value, bool):
            records.append({**record, "type": "attr", "dtype": "bool", "range_values": value})
        else:
            dtype = next(dtypes, None)
            known = {} if dtype is None else {"dtype": dtype}
            records.append({**record, "type": "scalar", **known, "range_values": value})
    return records


def _list_of(cells: Cells, column: str) -> list[Any]:
    return _as_list(read_cell(cells[column])) if column in cells else []


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def read_cell(cell: str) -> Any:
    """Return the value of a cell: JSON, a Python literal (tuples become lists), a list without brackets, or a word."""
    for read in (json.loads, ast.literal_eval):
        try:
            return _lists(read(cell))
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            continue
    if ";" in cell:
        return [read_cell(part.strip()) for part in cell.split(";") if part.strip()]
    if cell.startswith(("[", "(", "{")):
        inner = re.sub(r"[A-Za-z_+-][\w.]*", lambda match: _quoted(match[0]), cell.replace("'", "").replace('"', ""))
        try:
            return _lists(ast.literal_eval(inner))
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            raise CellError(f"{cell!r} must be a list, for example [2, 3]") from None
    if "," in cell:
        return [read_cell(part.strip()) for part in cell.split(",") if part.strip()]
    return cell


def _quoted(word: str) -> str:
    """Return a word of a list in quotes, unless it is a number or a constant of Python."""
    if word in ("True", "False", "None") or re.fullmatch(r"[+-]?\d[\d.]*|[+-]|[eE]\d*", word):
        return word
    return {"true": "True", "false": "False", "null": "None"}.get(word, repr(word))


def _lists(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_lists(one) for one in value]
    return {str(key): _lists(one) for key, one in value.items()} if isinstance(value, dict) else value


def _shape(cell: str, name: str) -> list[int]:
    """Return a shape written as [2, 3], 2x3, "2, 3" or 2; [] is a single element."""
    if re.fullmatch(r"-?\d{1,20}(\s*[x*×]\s*-?\d{1,20})+", cell):
        return [int(part) for part in re.split(r"\s*[x*×]\s*", cell)]
    value = _as_list(read_cell(cell))
    if not all(isinstance(length, int) for length in value):
        raise CellError(f"{name} must be a shape, for example [2, 3] or 2x3 (got {cell!r})")
    return value


def _number(cell: str, name: str) -> Any:
    value = read_cell(cell)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if isinstance(value, str) and value.lower() == "null":
        return None
    if isinstance(value, dict):
        raise CellError(f"{name} must be a number, a list or a word (got {cell!r})")
    return value
