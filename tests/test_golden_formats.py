"""Files of arrays in five formats, and folders of cases: read as written, read by others, refused when damaged."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from nonpu.dtypes import DType
from nonpu.verify import formats, store
from nonpu.verify.formats import FORMATS, StoreError, read_arrays, write_arrays
from nonpu.verify.rounding import COMPONENT, INTEGERS, LAYOUTS, numpy_dtype
from nonpu.verify.store import Journal, open_folder

TYPES = [*LAYOUTS, *COMPONENT, *INTEGERS, DType.BOOL]


def sample(dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array with random bytes, NaN payloads and infinities among them."""
    rng = np.random.default_rng(1)
    kind = numpy_dtype(dtype)
    if dtype == DType.BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    return np.frombuffer(rng.bytes(int(np.prod(shape)) * kind.itemsize), kind).reshape(shape)


@pytest.mark.parametrize("shape", [(3, 5), (), (0, 4), (1,)], ids=str)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.python_name)
def test_every_type_comes_back_bit_for_bit(tmp_path, dtype, format, shape):
    array = sample(dtype, shape)
    paths = write_arrays(tmp_path / "case.1", {"self": array, "out.documented": array}, format)
    for path in paths:
        found = read_arrays(path, dtype, shape)
        for one in found.values():
            assert (one.dtype, one.shape, one.tobytes()) == (array.dtype, shape, array.tobytes())
    folder = open_folder(tmp_path)
    assert folder.names() == ["case.1"]
    assert sorted(folder.keys("case.1")) == ["out.documented", "self"]
    assert folder.load("case.1", "self", dtype, shape).tobytes() == array.tobytes()


@pytest.mark.parametrize("format", ["npz", "npy", "safetensors", "pt"])
def test_types_that_the_file_tells_need_no_hint(tmp_path, format):
    array = sample(DType.COMPLEX64, (4, 3))
    (path,) = write_arrays(tmp_path / "x", {"out": array}, format)
    assert read_arrays(path)["out"].dtype == np.complex64


def test_strided_and_foreign_byte_order_are_written_as_their_elements(tmp_path):
    array = np.arange(12, dtype=">f4").reshape(3, 4)[:, ::2]
    for format in ("npz", "npy"):
        path = write_arrays(tmp_path / "x", {"out": array}, format)[0]
        found = read_arrays(path)["out"]
        assert found.dtype == np.float32
        assert found.tolist() == array.tolist()


def test_the_libraries_read_what_is_written(tmp_path):
    """The safetensors library and PyTorch see real bfloat16, and complex128 as pairs."""
    torch = pytest.importorskip("torch")
    library = pytest.importorskip("safetensors.torch")
    half, wide = sample(DType.BFLOAT16, (2, 3)), np.array([1 + 2j, -3.5j])
    (path,) = write_arrays(tmp_path / "x", {"half": half, "wide": wide}, "safetensors")
    found = library.load_file(path)
    assert found["half"].dtype == torch.bfloat16
    assert found["half"].view(torch.uint16).numpy().tobytes() == half.tobytes()
    assert found["wide"].tolist() == [[1.0, 2.0], [-0.0, -3.5]]
    (path,) = write_arrays(tmp_path / "x", {"half": half, "wide": wide}, "pt")
    found = torch.load(path, weights_only=True)
    assert found["half"].dtype == torch.bfloat16
    assert found["wide"].tolist() == wide.tolist()


def test_what_the_libraries_write_is_read(tmp_path):
    torch = pytest.importorskip("torch")
    library = pytest.importorskip("safetensors.torch")
    tensors = {
        "half": torch.tensor([[1.5, -2.0]], dtype=torch.bfloat16),
        "pairs": torch.tensor([1 + 2j, 3j]),
        "flags": torch.tensor([True, False]),
        "none": torch.zeros(0, 3),
    }
    library.save_file(tensors, tmp_path / "x.safetensors", metadata={"made": "by torch"})
    torch.save(tensors, tmp_path / "x.pt")
    for name in ("x.safetensors", "x.pt"):
        found = read_arrays(tmp_path / name)
        assert found["half"].dtype == ml_dtypes.bfloat16
        assert {key: array.tolist() for key, array in found.items()} == {
            "half": [[1.5, -2.0]],
            "pairs": [1 + 2j, 3j],
            "flags": [True, False],
            "none": [],
        }
    torch.save(torch.tensor([[1.0, 2.0]], requires_grad=True).T, tmp_path / "one.pt")
    assert read_arrays(tmp_path / "one.pt")["one"].tolist() == [[1.0], [2.0]]
    np.save(tmp_path / "half.npy", np.array([1.5], ml_dtypes.bfloat16))
    assert read_arrays(tmp_path / "half.npy")["half"].dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("keep", [0, 5, 0.5, -1])
def test_truncated_files_are_refused(tmp_path, format, keep):
    (path,) = write_arrays(tmp_path / "x", {"out": sample(DType.FLOAT, (40,))}, format)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(StoreError, match=r"^/.*x.*: ") as caught:
        read_arrays(path, DType.FLOAT, (40,))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("format", ["npy", "bin", "safetensors"])
@pytest.mark.parametrize("count", [40, 1 << 19])
def test_files_that_go_on_after_their_arrays_are_refused(tmp_path, format, count):
    """Small files are read and large ones mapped."""
    (path,) = write_arrays(tmp_path / "x", {"out": sample(DType.FLOAT, (count,))}, format)
    assert read_arrays(path, DType.FLOAT, (count,))["out"].shape == (count,)
    with path.open("ab") as file:
        file.write(b"x")
    with pytest.raises(StoreError, match=rf"^/.*x.*: must .*bytes.* \(got {path.stat().st_size}\)"):
        read_arrays(path, DType.FLOAT, (count,))


def test_one_array_of_an_archive_is_read_without_the_others(tmp_path):
    """Damage of another one does not matter then; a name that is not there gives all of them."""
    (path,) = write_arrays(tmp_path / "x", {"out": np.arange(3.0), "self": np.full(9, 7.0)}, "npz")
    content = path.read_bytes()
    path.write_bytes(content.replace(np.full(9, 7.0).tobytes(), np.full(9, 8.0).tobytes()))
    assert {name: array.tolist() for name, array in read_arrays(path, only="out").items()} == {"out": [0, 1, 2]}
    for only in ("self", "other", None):
        with pytest.raises(StoreError, match="CRC"):
            read_arrays(path, only=only)
    path.write_bytes(content)
    assert set(read_arrays(path, only="other")) == {"out", "self"}


@pytest.mark.parametrize(
    ("name", "content", "fragment"),
    [
        ("a.npz", b"not a zip", "no readable .npz file"),
        ("a.npy", b"not an array", "no readable .npy file"),
        ("a.pt", b"not a pickle", "no readable .pt file"),
        ("a.safetensors", b"\xff" * 64, "cut short, or no safetensors file"),
        ("a.safetensors", b"\x02" + bytes(7) + b"[]" + bytes(9), "no readable .safetensors file"),
        ("a.txt", b"", "suffix must be one of"),
        ("a.bin", b"123", "must have 160 bytes for float32 of shape [40] (got 3)"),
    ],
)
def test_other_files_are_refused(tmp_path, name, content, fragment):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(StoreError) as caught:
        read_arrays(tmp_path / name, DType.FLOAT, (40,))
    assert fragment in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)


def test_files_that_are_not_there_and_types_that_nobody_says(tmp_path):
    for suffix in ("npz", "npy", "bin", "safetensors", "pt"):
        with pytest.raises(StoreError, match="No such file"):
            read_arrays(tmp_path / f"none.{suffix}", DType.FLOAT)
    (tmp_path / "a.bin").write_bytes(bytes(7))
    with pytest.raises(StoreError, match="the dtype must be given"):
        read_arrays(tmp_path / "a.bin")
    with pytest.raises(StoreError, match="7 bytes are no whole number of float32 elements"):
        read_arrays(tmp_path / "a.bin", DType.FLOAT)


def test_pickles_are_never_executed(tmp_path):
    """An object array and a pickled object are refused, not loaded."""
    np.save(tmp_path / "a.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(StoreError, match=r"a\.npy"):
        read_arrays(tmp_path / "a.npy")
    torch = pytest.importorskip("torch")
    torch.save(Path("/"), tmp_path / "a.pt")
    with pytest.raises(StoreError, match=r"a\.pt"):
        read_arrays(tmp_path / "a.pt")


@pytest.mark.parametrize("format", ["npy", "bin", "safetensors", "pt"])
def test_large_arrays_are_mapped_or_whole(tmp_path, format):
    array = np.arange(formats.MAPPED_FROM // 4 + 1, dtype=np.float32)
    (path,) = write_arrays(tmp_path / "x", {"out": array}, format)
    (found,) = read_arrays(path, DType.FLOAT, array.shape).values()
    assert found.tobytes() == array.tobytes()


RECORD = {
    "id": "a/b",
    "index": 0,
    "operator": "aclnnSwishBackward",
    "status": "done",
    "inputs": [{"name": "self", "kind": "tensor", "dtype": "bfloat16", "shape": [2]}],
    "outputs": [{"name": "gradInput", "dtype": "complex128", "shape": [2]}],
}


class TestFolder:
    """Manifest, journal and data together."""

    def write(self, folder: Path, format: str = "npz", **changes: object) -> None:
        journal = Journal(folder, {"format": format})
        arrays = {"self": np.ones(2, ml_dtypes.bfloat16), "gradInput": np.array([1j, 2])}
        write_arrays(folder / "data" / store.file_name("a/b"), arrays, format)
        journal.append([{**RECORD, **changes}])
        journal.close(whole=True)

    @pytest.mark.parametrize("format", FORMATS)
    def test_the_journal_tells_types_and_shapes(self, tmp_path, format):
        self.write(tmp_path, format)
        folder = open_folder(tmp_path)
        assert folder.manifest == {"format": format}
        (case,) = folder.cases
        assert (case.id, case.index, case.operator, case.status) == ("a/b", 0, "aclnnSwishBackward", "done")
        assert folder.load("a/b", "self").dtype == ml_dtypes.bfloat16
        assert folder.load("a/b", "gradInput").tolist() == [1j, 2]

    def test_arrays_that_are_not_as_the_journal_says(self, tmp_path):
        self.write(tmp_path, outputs=[{"name": "gradInput", "dtype": "complex128", "shape": [3]}])
        with pytest.raises(StoreError, match=r"gradInput must have shape \[3\] \(got \[2\]\)"):
            open_folder(tmp_path).load("a/b", "gradInput")
        with pytest.raises(StoreError, match="no array called out"):
            open_folder(tmp_path).load("a/b", "out")
        with pytest.raises(StoreError, match="no data of case 'c'"):
            open_folder(tmp_path).load("c", "out")

    def test_what_a_device_left_needs_no_journal(self, tmp_path):
        """One file for a case, in the folder itself; its only array is the output whatever it is called."""
        np.save(tmp_path / "one.npy", np.ones(3, np.float32))
        np.savez(tmp_path / "two.npz", np.zeros(2))
        (tmp_path / "three").mkdir()
        np.ones(4, np.float16).tofile(tmp_path / "three" / "out.bin")
        folder = open_folder(tmp_path)
        assert (folder.manifest, folder.cases) == ({}, [])
        assert folder.names() == ["one", "three", "two"]
        assert folder.load("one", "out").shape == (3,)
        assert folder.load("two", "out").shape == (2,)
        assert folder.load("three", "out", "float16", (2, 2)).shape == (2, 2)

    def test_a_line_that_was_cut_off_is_no_case(self, tmp_path):
        self.write(tmp_path)
        with (tmp_path / "cases.jsonl").open("a") as file:
            file.write(json.dumps({**RECORD, "id": "late"})[:-5])
        assert [case.id for case in open_folder(tmp_path).cases] == ["a/b"]

    @pytest.mark.parametrize("line", ["{", "[]", '{"id": 3}', "null", '{"id": "x", "index": 1}'])
    def test_damage_is_named_by_line(self, tmp_path, line):
        self.write(tmp_path)
        path = tmp_path / "cases.jsonl"
        path.write_text(path.read_text() + line + "\n" + path.read_text())
        with pytest.raises(StoreError, match=r"cases.jsonl, line 2: no record of a case"):
            open_folder(tmp_path)

    def test_damaged_manifest_and_missing_folder(self, tmp_path):
        with pytest.raises(StoreError, match="no such folder"):
            open_folder(tmp_path / "none")
        (tmp_path / "manifest.json").write_text("{")
        with pytest.raises(StoreError, match="manifest"):
            open_folder(tmp_path)

    def test_file_names_are_harmless_and_different(self):
        ids = ["a", "A/b", "A b", "..", ".", "../../etc", "a%2Fb", "a/b", "x" * 300, "x" * 301, "é", "CON?*"]
        names = [store.file_name(one) for one in ids]
        assert len(set(names)) == len(ids)
        assert all("/" not in name and not name.startswith(".") and len(name) <= 200 for name in names)
        assert store.file_name("leaky-001_b.c") == "leaky-001_b.c"
