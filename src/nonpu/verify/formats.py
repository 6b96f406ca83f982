"""Files of arrays: .npz, .npy, .bin, .safetensors and .pt, read into and written from NumPy arrays.

bfloat16 is `ml_dtypes.bfloat16` in memory. NumPy's own files do not know it: .npy and .npz hold its bit patterns as
uint16. safetensors has no complex128: it is float64 with a last axis of length 2. Who reads such a file says which
type it means; in .bin, which holds nothing but the elements, the type must always be said.
"""

from __future__ import annotations

import io
import json
import math
import mmap
import struct
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]

FORMATS: Final = ("npz", "npy", "bin", "safetensors", "pt")
BFLOAT16: Final = np.dtype(ml_dtypes.bfloat16)
# Smaller files are read faster than they are mapped.
MAPPED_FROM: Final = 1 << 20
_LONGEST_HEADER: Final = 100_000_000  # the limit of the safetensors library
_SAFETENSORS: Final[dict[str, np.dtype[Any]]] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "U16": np.dtype(np.uint16),
    "I16": np.dtype(np.int16),
    "U32": np.dtype(np.uint32),
    "I32": np.dtype(np.int32),
    "U64": np.dtype(np.uint64),
    "I64": np.dtype(np.int64),
    "F16": np.dtype(np.float16),
    "BF16": BFLOAT16,
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
    "C64": np.dtype(np.complex64),
}
_NAMES: Final = {dtype: name for name, dtype in _SAFETENSORS.items()}


class StoreError(Exception):
    """A file or folder cannot be read or written as it should; the text is one line that names it."""


def numpy_type(dtype: object) -> np.dtype[Any] | None:
    """Return a NumPy type from a name that `nonpu.dtypes.DType` knows or from a NumPy type; None stays None."""
    if dtype is None:
        return None
    from nonpu.dtypes import DType

    member = DType.parse(dtype)
    return BFLOAT16 if member == DType.BFLOAT16 else np.dtype(member.python_name)


def read_arrays(
    path: str | Path, dtype: object = None, shape: Sequence[int] | None = None, only: str | None = None
) -> Arrays:
    """Read a file of any of the five kinds.

    Parameters
    ----------
    path : path
        The suffix tells the kind.
    dtype : name or type, optional
        What the elements are, where the file does not say it: always for .bin, and where bfloat16 or complex128 is
        stored as another type. A file that says something else keeps its own type.
    shape : sequence of int, optional
        For .bin only: the shape; one axis without it.
    only : str, optional
        Of a .npz that holds an array of this name, read that one and leave the others.

    Returns
    -------
    dict of str to array
        .npy and .bin, and a .pt that holds one tensor, give one array named like the file without its suffix. Large
        arrays are memory-mapped and read-only where the kind allows it.

    Raises
    ------
    StoreError
        If the file is missing, damaged, too short, or of another kind.
    """
    path = Path(path)
    if path.suffix.removeprefix(".") not in FORMATS:
        raise StoreError(f"{path}: the suffix must be one of .{', .'.join(FORMATS)} (got {path.suffix!r})")
    meant = numpy_type(dtype)
    try:
        arrays = _read_npz(path, only) if path.suffix == ".npz" else _READERS[path.suffix](path, meant, shape)
        return {name: _as_meant(array, meant) for name, array in arrays.items()}
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror if error.strerror else error}") from error
    except Exception as error:  # whatever a library raises about the contents of a file
        text = " ".join(str(error).split())
        raise StoreError(f"{path}: no readable {path.suffix} file ({text or type(error).__name__})") from error


def _as_meant(array: NDArray[Any], meant: np.dtype[Any] | None) -> NDArray[Any]:
    if array.dtype.kind == "V" and array.dtype.itemsize == 2 and meant in (None, BFLOAT16):
        return array.view(BFLOAT16)  # what numpy.save makes of it
    if meant == BFLOAT16 and array.dtype == np.uint16:
        return array.view(BFLOAT16)
    if meant == np.complex128 and array.dtype == np.float64 and array.ndim > 0 and array.shape[-1] == 2:
        return np.ascontiguousarray(array).view(np.complex128)[..., 0]
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _read_npz(path: Path, only: str | None) -> Arrays:
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise StoreError(f"{path}: no readable .npz file (it is cut short, or of another kind)")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            names = arrays.files if only is None or only not in arrays.files else [only]
            return {name: arrays[name] for name in names}


def _read_npy(path: Path, _meant: np.dtype[Any] | None, _shape: Sequence[int] | None) -> Arrays:
    size = path.stat().st_size
    if size == 0:
        raise StoreError(f"{path}: the file is empty")
    with path.open("rb") as file:
        if file.read(len(np.lib.format.MAGIC_PREFIX)) != np.lib.format.MAGIC_PREFIX:
            raise StoreError(f"{path}: no readable .npy file (it is of another kind)")
        file.seek(0)
        if size < MAPPED_FROM:
            array = np.lib.format.read_array(file, allow_pickle=False)
            end = file.tell()
        else:
            mapped = np.load(path, allow_pickle=False, mmap_mode="r")
            array, end = mapped, mapped.offset + mapped.nbytes
    if end != size:
        raise StoreError(f"{path}: must end after {end} bytes, where its array does (got {size})")
    return {path.stem: array}


def _read_bin(path: Path, meant: np.dtype[Any] | None, shape: Sequence[int] | None) -> Arrays:
    if meant is None:
        raise StoreError(f"{path}: a .bin file holds no type, so the dtype must be given")
    size = path.stat().st_size
    if shape is None and size % meant.itemsize:
        raise StoreError(f"{path}: {size} bytes are no whole number of {meant} elements")
    lengths = (size // meant.itemsize,) if shape is None else tuple(shape)
    wanted = math.prod(lengths) * meant.itemsize
    if size != wanted:
        raise StoreError(f"{path}: must have {wanted} bytes for {meant} of shape {list(lengths)} (got {size})")
    data: Any = path.read_bytes() if size < MAPPED_FROM else _mapped(path)
    return {path.stem: np.frombuffer(data, meant).reshape(lengths)}


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _read_safetensors(path: Path, _meant: np.dtype[Any] | None, _shape: Sequence[int] | None) -> Arrays:
    # The library's NumPy reader lacks bfloat16 and maps nothing.
    size = path.stat().st_size
    data: Any = path.read_bytes() if size < MAPPED_FROM else _mapped(path)
    if size < 8:
        raise StoreError(f"{path}: no safetensors file: {size} bytes")
    (length,) = struct.unpack("<Q", data[:8])
    if length > min(size - 8, _LONGEST_HEADER):
        raise StoreError(f"{path}: cut short, or no safetensors file: its header of {length} bytes is not there")
    header = json.loads(data[8 : 8 + length])
    found: Arrays = {}
    last = 0
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype = _SAFETENSORS.get(entry["dtype"])
        if dtype is None:
            raise StoreError(f"{path}: {name} has the type {entry['dtype']}, which nonpu does not read")
        begin, end = entry["data_offsets"]
        last = max(last, end)
        lengths = tuple(entry["shape"])
        if not 0 <= begin <= end <= size - 8 - length or end - begin != math.prod(lengths) * dtype.itemsize:
            raise StoreError(f"{path}: cut short: {name} is not whole")
        found[name] = np.frombuffer(data, dtype, math.prod(lengths), 8 + length + begin).reshape(lengths)
    if last != size - 8 - length:
        raise StoreError(f"{path}: must end after {8 + length + last} bytes, where its last array does (got {size})")
    return found


def _read_pt(path: Path, _meant: np.dtype[Any] | None, _shape: Sequence[int] | None) -> Arrays:
    torch = _torch()
    if not path.is_file():
        raise FileNotFoundError(2, "No such file or directory")
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises its own and pickle's errors
        text = str(error).strip().splitlines()
        reason = text[0] if text else type(error).__name__
        raise StoreError(f"{path}: no readable .pt file of tensors ({reason})") from error
    if isinstance(loaded, torch.Tensor):
        loaded = {path.stem: loaded}
    if not isinstance(loaded, dict) or not all(isinstance(value, torch.Tensor) for value in loaded.values()):
        raise StoreError(f"{path}: must hold a tensor or a dict of tensors (got {type(loaded).__name__})")
    return {str(name): _from_torch(torch, tensor) for name, tensor in loaded.items()}


def _from_torch(torch: Any, tensor: Any) -> NDArray[Any]:
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if tensor.dtype == torch.bfloat16:
        array: NDArray[Any] = tensor.view(torch.uint16).numpy().view(BFLOAT16)
        return array
    array = tensor.numpy()
    return array


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise StoreError("files in the format pt need PyTorch: install 'nonpu[torch]'") from None
    return torch


_READERS: Final[dict[str, Callable[[Path, np.dtype[Any] | None, Sequence[int] | None], Arrays]]] = {
    ".npy": _read_npy,
    ".bin": _read_bin,
    ".safetensors": _read_safetensors,
    ".pt": _read_pt,
}


def write_arrays(stem: str | Path, arrays: Mapping[str, NDArray[Any]], format: str) -> list[Path]:
    """Write arrays by name.

    Parameters
    ----------
    stem : path
        The path without a suffix: one file ``<stem>.<format>``, but for npy and bin a folder of that name with one
        file for each array.
    arrays : mapping of str to array
        Any types that `nonpu.dtypes.DType` knows by a NumPy name.
    format : str
        One of `FORMATS`.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    StoreError
        If a file cannot be written.
    """
    if format not in FORMATS:
        raise StoreError(f"format must be one of {', '.join(FORMATS)} (got {format!r})")
    stem = Path(stem)
    paths = []
    for suffix, content in encode_arrays(arrays, format).items():
        path = Path(f"{stem}{suffix}")
        try:
            if format in ("npy", "bin"):
                path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror or error}") from error
        paths.append(path)
    return paths


def encode_arrays(arrays: Mapping[str, NDArray[Any]], format: str) -> dict[str, bytes]:
    """Return what `write_arrays` writes: the contents of each file, by what follows the stem in its path."""
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    if format == "npy":
        return {f"/{name}.npy": _npy(array) for name, array in whole.items()}
    if format == "bin":
        return {f"/{name}.bin": array.tobytes() for name, array in whole.items()}
    return {f".{format}": _ENCODERS[format](whole)}


def patterns(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array as NumPy's own files hold it: bfloat16 as uint16."""
    return array.view(np.uint16) if array.dtype == BFLOAT16 else array


def _npy(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, patterns(array), allow_pickle=False)
    return buffer.getvalue()


def _npz(arrays: Arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **{name: patterns(array) for name, array in arrays.items()})
    return buffer.getvalue()


def _safetensors(arrays: Arrays) -> bytes:
    header: dict[str, Any] = {}
    position = 0
    # Widest elements first, as the library writes them: every array then begins on a multiple of its element size.
    chosen = sorted(_pairs(arrays).items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    for name, array in chosen:
        end = position + array.nbytes
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [position, end]}
        position = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([struct.pack("<Q", len(text)), text, *(array.tobytes() for _, array in chosen)])


def _pairs(arrays: Arrays) -> Arrays:
    return {
        name: np.stack([array.real, array.imag], axis=-1) if array.dtype == np.complex128 else array
        for name, array in arrays.items()
    }


def _pt(arrays: Arrays) -> bytes:
    torch = _torch()
    tensors = {}
    for name, array in arrays.items():
        tensor = torch.from_numpy(np.array(patterns(array)))
        tensors[name] = tensor.view(torch.bfloat16) if array.dtype == BFLOAT16 else tensor
    buffer = io.BytesIO()
    torch.save(tensors, buffer)
    return buffer.getvalue()


_ENCODERS: Final[dict[str, Callable[[Arrays], bytes]]] = {"npz": _npz, "safetensors": _safetensors, "pt": _pt}
