"""One-call functions on Dask arrays: lazy, chunk by chunk, and the same bits as NumPy's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import dask
import dask.array as da
import ml_dtypes
import numpy as np
import pytest

import nonpu
from nonpu import AclnnError, AclnnTypeError, Scalar
from nonpu.dtypes import DType
from nonpu.interop import numpy as arrays
from nonpu.spec.model import Op
from tests.command_line import run
from tests.test_faces import SCALARS, bits, cases, views

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def synchronous() -> Iterator[None]:
    """One chunk after the other, unless a test asks for more."""
    with dask.config.set(scheduler="synchronous"):
        yield


def forbid(*_: Any, **__: Any) -> Any:
    """Fail where a chunk would be computed."""
    raise AssertionError("a chunk was computed")


def numbers(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    """Return normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def chunked(array: Array, chunks: Any) -> Any:
    """Return a Dask array; bfloat16 too."""
    return da.from_array(array, chunks=chunks)


@pytest.mark.parametrize("layout", ["contiguous", "strided"])
@pytest.mark.parametrize(("op", "dtype"), cases())
def test_same_bits_as_numpy(op: Op, dtype: DType, layout: str) -> None:
    """The table of cases of test_faces, in chunks that divide neither axis."""
    grad, primal, _ = views(dtype, layout)
    scalars = {param.python_name: np.float32(SCALARS[param.name]) for param in op.scalar_params}
    function = getattr(nonpu, op.python_name)
    expected = function(grad, primal, **scalars)
    result = function(chunked(grad, (13, 17)), chunked(primal, (9, 50)), **scalars)
    assert isinstance(result, da.Array)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    assert bits(result.compute()) == bits(expected)


def test_nothing_is_computed_when_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither chunks nor kernels: type and shape come from the contract."""
    x = da.map_blocks(forbid, chunks=((40,) * 25, (40,) * 25), dtype=np.float16, meta=np.empty((0, 0), np.float16))
    monkeypatch.setattr(arrays, "run", forbid)
    result = nonpu.leaky_relu_backward(x, x.astype(np.float64), 0.1)
    assert (result.dtype, result.shape, result.chunks) == (np.dtype(np.float64), (1000, 1000), x.chunks)
    assert result.name.startswith("leaky-relu-backward-")
    assert isinstance(result._meta, np.ndarray)


def test_huge_arrays_cost_nothing_to_describe() -> None:
    """Sixteen tebibytes."""
    x = da.zeros((2**21, 2**21), chunks=(2**17, 2**17), dtype=np.float32)
    result = nonpu.swish_backward(x, x)
    assert result.nbytes == 2**44
    assert result.npartitions == 256


def test_names_are_reproducible() -> None:
    """The same call gives the same keys, another parameter others."""
    x = chunked(numbers(8, 8), 4)
    first = nonpu.swish_backward(x, x, 0.5)
    assert nonpu.swish_backward(x, x, 0.5).name == first.name
    names = {first.name, nonpu.swish_backward(x, x, 0.25).name, nonpu.swish_backward(x, x, product="A3").name}
    assert len(names) == 3


@pytest.mark.parametrize(
    ("left", "right"),
    [((6, 8), (8,)), ((6, 1), (1, 8)), ((1, 8), (6, 8)), ((2, 6, 8), (6, 1)), ((), (6, 8)), ((6, 8), ()), ((), ())],
)
@pytest.mark.parametrize("mixed", ["both", "left", "right"])
def test_broadcasting(left: tuple[int, ...], right: tuple[int, ...], mixed: str) -> None:
    """Between chunked arrays, and with a NumPy array on either side."""
    a, b = np.asarray(numbers(*left, seed=1)), np.asarray(numbers(*right, seed=2))
    expected = nonpu.swish_backward(a, b, -1.25)
    x: Any = a if mixed == "right" else chunked(a, 3)
    y: Any = b if mixed == "left" else chunked(b, 5)
    result = nonpu.swish_backward(x, y, -1.25)
    assert result.shape == expected.shape
    assert bits(np.asarray(result.compute())) == bits(np.asarray(expected))


def test_a_numpy_array_is_cut_like_its_partner() -> None:
    """No rechunking: the graph has one task per chunk of the result and one per chunk of each input."""
    x = chunked(numbers(12, 12), (4, 6))
    result = nonpu.sigmoid_backward(numbers(12, 12, seed=1), x)
    assert result.chunks == x.chunks
    assert not [name for name in result.__dask_graph__().layers if "rechunk" in name]


def test_unknown_chunk_sizes() -> None:
    """As boolean indexing leaves them: the shape stays unknown, the values are right."""
    values, grad = numbers(30, 4), numbers(30, 4, seed=1)
    kept = values[:, 0] > 0
    mask = chunked(values, (7, 4))[:, 0] > 0
    x, g = chunked(values, (7, 4))[mask], chunked(grad, (7, 4))[mask]
    result = nonpu.leaky_relu_backward(g, x, 0.5)
    assert np.isnan(result.shape[0])
    assert result.shape[1] == 4
    assert np.array_equal(result.compute(), nonpu.leaky_relu_backward(grad[kept], values[kept], 0.5))
    row = nonpu.swish_backward(x, grad[0])
    assert np.array_equal(row.compute(), nonpu.swish_backward(values[kept], grad[0]))
    with pytest.raises(AclnnError, match=r"^nonpu\.sigmoid_backward: output chunks must be able to be aligned"):
        nonpu.sigmoid_backward(x, grad)


def test_unknown_chunks_of_different_lengths_are_not_broadcast() -> None:
    """A chunk that happens to have one row must not stand for five."""
    values = numbers(10, 2)
    few, many = np.zeros(10, bool), np.zeros(10, bool)
    few[3] = True
    many[2:7] = True
    x = chunked(values, (10, 2))
    result = nonpu.swish_backward(x[chunked(few, 10)], x[chunked(many, 10)])
    with pytest.raises(AclnnError, match=r"self chunks must be as long as grad_output's along axis -2, 1 \(got 5\)"):
        result.compute()


def test_bfloat16_and_scalars() -> None:
    """Types that NumPy does not have itself, and every kind of beta."""
    x = numbers(20, dtype=ml_dtypes.bfloat16)
    for beta in (2, 0.5, np.float16(0.5), np.array(0.5), Scalar(0.5, "float32"), None):
        result = nonpu.swish_backward(chunked(x, 6), chunked(x, 6), beta)
        assert result.dtype == ml_dtypes.bfloat16
        assert bits(result.compute()) == bits(nonpu.swish_backward(x, x, beta))


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_schedulers(scheduler: str) -> None:
    """Many chunks at once."""
    x = numbers(64, 64)
    y = chunked(x, 16)
    result = nonpu.swish_backward(y, y, 1.7)
    assert bits(result.compute(scheduler=scheduler, num_workers=2)) == bits(nonpu.swish_backward(x, x, 1.7))


REFUSALS: list[tuple[str, Any, type[Exception], str]] = [
    (
        "output",
        lambda x: nonpu.swish_backward(x, x, out=x),
        AclnnTypeError,
        "out (gradInput) must be None with Dask arrays, whose results are new arrays (got Array)",
    ),
    (
        "output only",
        lambda x: nonpu.swish_backward(numbers(4, 4), numbers(4, 4), out=x),
        AclnnTypeError,
        "out (gradInput) must be None with Dask arrays, whose results are new arrays (got Array)",
    ),
    (
        "NumPy output",
        lambda x: nonpu.swish_backward(x, x, out=numbers(4, 4)),
        AclnnTypeError,
        "out (gradInput) must be None with Dask arrays, whose results are new arrays (got ndarray)",
    ),
    (
        "masked",
        lambda x: nonpu.swish_backward(x, da.ma.masked_greater(x, 0)),
        AclnnTypeError,
        "self must be an array without a mask (got a Dask array of masked arrays)",
    ),
    (
        "lazy scalar",
        lambda x: nonpu.swish_backward(x, x, x.sum()),
        AclnnTypeError,
        "beta (betaOptional) must be a number or a nonpu.Scalar (got Array)",
    ),
    (
        "types",
        lambda x: nonpu.swish_backward(x, x.astype(np.float64)),
        AclnnTypeError,
        "self dtype must be float32, the dtype of grad_output (got float64)",
    ),
    (
        "no type of the contract",
        lambda x: nonpu.swish_backward(x.astype(np.int32), x.astype(np.int32)),
        AclnnTypeError,
        "",
    ),
    ("shapes", lambda x: nonpu.swish_backward(x, x[:3]), AclnnError, ""),
    ("flag", lambda x: nonpu.leaky_relu_backward(x, x, -1.0, True), AclnnError, ""),
    ("product", lambda x: nonpu.swish_backward(x, x, product="310B"), AclnnError, ""),
    (
        "rank",
        lambda x: nonpu.swish_backward(x.reshape((2,) * 4 + (1,) * 5), x.reshape((2,) * 4 + (1,) * 5)),
        AclnnError,
        "",
    ),
]


@pytest.mark.parametrize(("label", "call", "kind", "text"), REFUSALS, ids=[row[0] for row in REFUSALS])
def test_refused_when_it_is_called(label: str, call: Any, kind: type[Exception], text: str) -> None:
    """The contract's own errors, and what Dask arrays cannot have, before anything is computed."""
    with pytest.raises(kind) as caught:
        call(chunked(numbers(4, 4), 2))
    assert caught.type is kind
    if text:
        assert str(caught.value) == f"nonpu.swish_backward: {text}"
    else:
        with pytest.raises(kind) as expected:
            call(numbers(4, 4))
        assert str(caught.value) == str(expected.value)


def test_product_of_the_call_counts_and_not_the_workers() -> None:
    """NONPU_PRODUCT is read once, where the call is made."""
    x = chunked(numbers(4, dtype=ml_dtypes.bfloat16), 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NONPU_PRODUCT", "910")
        with pytest.raises(AclnnTypeError, match="bfloat16"):
            nonpu.swish_backward(x, x)
    result = nonpu.swish_backward(x, x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NONPU_PRODUCT", "910")
        assert result.compute().dtype == ml_dtypes.bfloat16


def test_wrong_meta_is_found_by_the_chunks() -> None:
    """A Dask array that promised another type than its chunks have fails with the contract's error."""
    x = da.map_blocks(lambda block: block.astype(np.float64), chunked(numbers(4), 2), dtype=np.float32)
    with pytest.raises(AclnnTypeError, match="float64"):
        nonpu.swish_backward(chunked(numbers(4), 2), x).compute()


DISTRIBUTED = """
import numpy as np, dask.array as da, nonpu
from distributed import Client, LocalCluster
if __name__ == "__main__":
    x = np.random.default_rng(0).standard_normal((50, 50)).astype(np.float32)
    y = da.from_array(x, chunks=20)
    with LocalCluster(n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None) as cluster:
        with Client(cluster):
            result = nonpu.swish_backward(y, y, 1.5).compute()
            assert result.tobytes() == nonpu.swish_backward(x, x, 1.5).tobytes()
            wrong = da.map_blocks(lambda block: block.astype(np.float64), y, dtype=np.float32)
            try:
                nonpu.swish_backward(wrong, wrong, product="310P").compute()
                nonpu.swish_backward(y, wrong).compute()
            except nonpu.AclnnError as error:
                print(int(error.status), error)
"""


def test_distributed_scheduler(tmp_path: Any) -> None:
    """A worker process gets the call, computes the same bits, and its error comes back as it is."""
    script = tmp_path / "cluster.py"
    script.write_text(DISTRIBUTED)
    finished = run(sys.executable, script, cwd=tmp_path)
    expected = "161002 nonpu.swish_backward: self dtype must be float32, the dtype of grad_output (got float64)\n"
    assert finished.stdout == expected, finished.stderr


LARGE = """
import sys
import numpy as np, zarr, dask, dask.array as da, nonpu
folder, rows, parts = sys.argv[1], 2048, 40
layout = dict(shape=(parts * rows, 512), chunks=(rows, 512), dtype="f4", compressors=None)
store = {name: zarr.create_array(f"{folder}/{name}", **layout) for name in ("grad", "x")}
for index in range(parts):
    for seed, array in enumerate((store["grad"], store["x"])):
        numbers = np.random.default_rng((seed, index)).standard_normal((rows, 512), np.float32)
        array[index * rows:(index + 1) * rows] = numbers
nonpu.swish_backward(np.ones(3, "f4"), np.ones(3, "f4"))
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) << 10
before = peak()
lazy = nonpu.swish_backward(da.from_zarr(f"{folder}/grad"), da.from_zarr(f"{folder}/x"), 1.5)
with dask.config.set(scheduler="threads", num_workers=2):
    total = int(lazy.view("u4").sum(dtype="u8").compute())
print("more memory than for half of one array:", peak() - before > lazy.nbytes / 2)
expected = 0
for index in range(parts):
    part = slice(index * rows, (index + 1) * rows)
    expected += int(nonpu.swish_backward(store["grad"][part], store["x"][part], 1.5).view("u4").sum(dtype="u8"))
print("sum of all patterns:", "right" if total == expected else "wrong")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the memory of a process is read from /proc")
def test_arrays_larger_than_memory(tmp_path: Any) -> None:
    """From Zarr, in a process that never holds even half of one of the two arrays."""
    finished = run(sys.executable, "-W", "ignore", "-c", LARGE, tmp_path)
    expected = ["more memory than for half of one array: False", "sum of all patterns: right"]
    assert finished.stdout.splitlines() == expected, finished.stderr


def test_dask_is_not_imported_before_it_is_needed() -> None:
    """Neither with the package nor by a call on NumPy arrays."""
    code = "import sys, numpy, nonpu; x = numpy.ones(3); nonpu.swish_backward(x, x); print('dask' in sys.modules)"
    finished = run(sys.executable, "-c", code)
    assert (finished.stdout, finished.stderr) == ("False\n", "")
