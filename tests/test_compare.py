"""`nonpu compare`: verdicts on folders and files, and what is said of everything that does not fit."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from nonpu import cli
from nonpu.dtypes import DType
from nonpu.verify import matching, rounding, standards, store
from nonpu.verify.compare import VERDICTS
from tests.command_line import ROOT, assert_refused, nonpu
from tests.command_line import run as start
from tests.verification import OPERATORS, Folders, nudged

# numpy.load leaves the file of a damaged archive to the garbage collector.
damaged = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """Nothing in it yet."""
    return Folders(tmp_path)


@pytest.fixture
def run(capsys):
    """Run the command in this process; returns exit status, output and complaints."""

    def command(*arguments):
        status = cli.main(["compare", *map(str, arguments)])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return status, captured.out, captured.err

    return command


def judged(run, folders, *options):
    """Return the exit status and the verdicts by id."""
    status, _, errors = run(folders.actual, folders.golden, *options)
    assert errors == ""
    content = json.loads((folders.actual / "verdicts.json").read_text())
    return status, {case["id"]: case for case in content["cases"]}


@pytest.mark.parametrize("format", store.FORMATS)
@pytest.mark.parametrize(
    "dtype", [DType.FLOAT16, DType.BFLOAT16, DType.FLOAT, DType.DOUBLE, DType.COMPLEX64, DType.COMPLEX128]
)
def test_every_format_and_type(tmp_path, run, format, dtype):
    """Goldens pass as results; one unit in one element fails where none is allowed, with everything about it."""
    if format == "pt":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    folders = Folders(tmp_path, format)
    golden = folders.add("one", "aclnnSigmoidBackward", dtype, (8, 16))
    folders.finish()
    assert judged(run, folders, "--standard", "binary")[0] == 0
    folders.result("one", nudged(golden, 37))
    status, cases = judged(run, folders, "--standard", "correctly-rounded")
    assert (status, cases["one"]["verdict"], cases["one"]["dtype"]) == (1, "fail", dtype.name)
    assert cases["one"]["measures"]["failed_elements"] == 1
    (worst,) = cases["one"]["worst"]
    assert worst["index"] == [2, 5]
    assert worst["ulp"] <= 1
    value = nudged(golden, 37)[2, 5]
    parts = [value.real, value.imag] if dtype in rounding.COMPONENT else [value]
    assert worst["actual_hex"] == " ".join("0x" + part.tobytes()[::-1].hex() for part in parts)
    assert worst["actual_hex"] != worst["expected_hex"]
    assert worst["inputs"].keys() == {"gradOutput", "output"}
    assert judged(run, folders)[0] == 0  # one unit is within the default standard


@pytest.mark.parametrize("operator", OPERATORS)
def test_known_faults_are_found_under_every_standard(folders, run, operator):
    """Zeros, NaN, one value, a shift, a sign, a transposition, a tail that was not written, a copied input."""
    output = OPERATORS[operator][2]
    faults = {
        "zero": lambda g: np.zeros_like(g),
        "nan": lambda g: np.full_like(g, math.nan),
        "equal": lambda g: np.full_like(g, 1.5),
        "filled": lambda g: np.full(g.nbytes, 0xCD, np.uint8).view(g.dtype).reshape(g.shape),
        "row": lambda g: np.roll(g, 1, axis=0),
        "sign": lambda g: -g,
        "turned": lambda g: np.ascontiguousarray(g.reshape(8, 16).T).reshape(8, 16),
        "tail": lambda g: np.concatenate([g.reshape(-1)[:100], np.zeros(28, g.dtype)]).reshape(8, 16),
    }
    hints = {
        "zero": "all elements are 0",
        "nan": "all elements are NaN",
        "equal": "same value",
        "filled": "0xcd",
        "row": "shifted by one along axis 0",
        "sign": "opposite sign",
        "tail": "the last 28 of 128 elements are all 0.0",
    }
    for name, fault in faults.items():
        folders.result(name, fault(folders.add(name, operator)), output)
    folders.add("copy", operator)
    folders.result("copy", store.open_folder(folders.golden).load("copy", "gradOutput"), output)
    hints["copy"] = "bits of the input gradOutput"
    folders.finish()
    for standard in (*(s.name for s in standards.STANDARDS), *standards.WORDS):
        status, cases = judged(run, folders, "--standard", standard)
        assert status == 1
        assert len(cases) == len(faults) + 1
        for name, case in cases.items():
            untrusted = name in ("zero", "nan", "equal", "filled", "copy")
            assert case["verdict"] == ("untrusted" if untrusted else "fail"), (standard, name)
            assert hints.get(name, "") in case["reason"], (standard, name)


def test_an_output_of_zeros_is_untrusted_even_where_it_passes(folders, run):
    """All that is expected lies below the absolute tolerance; the kernel may never have run."""
    golden = folders.add("tiny", dtype=DType.FLOAT16)
    tiny = (np.asarray(golden, np.float32) * 1e-4).astype(np.float16)
    folders.write(folders.golden / "data", "tiny", {"gradInput": tiny})
    folders.result("tiny", np.zeros_like(tiny))
    folders.finish()
    status, cases = judged(run, folders)
    assert (status, cases["tiny"]["verdict"]) == (1, "untrusted")


def test_flushed_subnormals_are_named(folders, run):
    """A device that flushes subnormals to 0 is told so."""
    golden = folders.add("small").copy()
    golden[0, :3] = [2.0**-140, -(2.0**-130), 2.0**-149]
    folders.write(folders.golden / "data", "small", {"gradInput": golden})
    golden[0, :3] = 0
    folders.result("small", golden)
    folders.finish()
    status, cases = judged(run, folders, "--standard", "ulp")
    assert (status, cases["small"]["measures"]["failed_elements"]) == (1, 2)  # 2**-149 is one unit from 0
    assert "subnormal" in cases["small"]["reason"]


def test_one_unit_in_a_million_elements(folders, run):
    """Index, inputs and both values of the one element, in a case that is judged in several blocks."""
    golden = folders.add("large", "aclnnLeakyReluBackward", shape=(1000, 1000))
    folders.result("large", nudged(golden, 987_654), "out")
    folders.finish()
    status, cases = judged(run, folders, "--standard", "high_precision")
    case = cases["large"]
    assert (status, case["verdict"]) == (1, "fail")
    assert "1 of 1000000 elements" in case["reason"]
    (worst,) = case["worst"]
    assert (worst["index"], worst["ulp"]) == ([987, 654], 1.0)
    inputs = store.open_folder(folders.golden)
    assert float(worst["inputs"]["self"]) == pytest.approx(float(inputs.load("large", "self")[987, 654]))
    assert worst["inputs"]["negativeSlope"] == "0.01"
    assert judged(run, folders)[0] == 0


def test_a_result_is_as_precise_as_the_type_it_was_rounded_to(folders, run):
    """A FLOAT result in a DOUBLE output is judged in units of FLOAT, a FLOAT16 output of a FLOAT result in its own."""
    golden = folders.add("wide", dtype=DType.DOUBLE, promoted="float32").astype(np.float32)
    folders.write(folders.golden / "data", "wide", {"gradInput": golden.astype(np.float64)})
    folders.result("wide", nudged(golden, 7).astype(np.float64))
    folders.result("narrow", nudged(folders.add("narrow", dtype=DType.FLOAT16, promoted="float32"), 7))
    golden = folders.add("complex", "aclnnSigmoidBackward", DType.COMPLEX128, promoted="complex64").astype(np.complex64)
    folders.write(folders.golden / "data", "complex", {"gradInput": golden.astype(np.complex128)})
    folders.result("complex", nudged(golden, 7).astype(np.complex128))
    folders.finish()
    status, cases = judged(run, folders, "--standard", "ulp")
    assert status == 0
    assert {case["measures"]["max_ulp"] for case in (cases["wide"], cases["narrow"])} == {1.0}
    found = {name: (case["dtype"], case["precision"]) for name, case in cases.items()}
    assert found == {
        "wide": ("DOUBLE", "FLOAT"),
        "narrow": ("FLOAT16", "FLOAT16"),
        "complex": ("COMPLEX128", "COMPLEX64"),
    }
    assert "DOUBLE as FLOAT" in run(folders.actual, folders.golden)[1]


def test_the_table_names_everything(folders, run):
    """Counts, reasons, both notations, and the commands that repeat a case."""
    golden = folders.add("case 1/a")
    folders.result("case 1/a", nudged(golden, 3, 9))
    folders.add("good")
    folders.finish()
    status, out, _ = run(folders.actual, folders.golden, "--standard", "ulp:2", "--worst", "1")
    assert status == 1
    assert "2 cases: 1 pass, 1 fail" in out
    assert "more than 2 ULP: 1 of 128 elements" in out
    assert f"actual {nudged(golden, 3, 9)[0, 3]!s}" in out
    assert f"expected {golden[0, 3]!s} (0x{golden[0, 3].tobytes()[::-1].hex()})" in out
    again = f"nonpu compare {folders.actual} DIR --only 'case 1/a'"
    assert f"nonpu golden 'my cases.json' -o DIR --only 'case 1/a' --seed 7 && {again}" in out
    whole = (folders.actual / "verdicts.json").read_text()
    assert run(folders.actual, folders.golden, "--only", "good")[0] == 0
    assert (folders.actual / "verdicts.json").read_text() == whole, "one case is no verdict on the folder"
    status, _, err = run(folders.actual, folders.golden, "--only", "other")
    assert (status, err) == (2, "nonpu: --only: there is no case 'other'\n")


def test_standards_of_the_case_file(folders, run):
    """A case's own standard holds unless the command line says otherwise; an unknown one is an error of that case."""
    for name, standard in (("tight", "high_precision"), ("loose", "single_bm"), ("odd", "best")):
        folders.result(name, nudged(folders.add(name, dtype=DType.FLOAT16, standard=standard), 5))
    folders.finish()
    cases = judged(run, folders)[1]
    assert {name: case["verdict"] for name, case in cases.items()} == {"tight": "fail", "loose": "pass", "odd": "error"}
    assert "best" in cases["odd"]["reason"]
    assert judged(run, folders, "--standard", "mixed")[0] == 0


@damaged
def test_missing_extra_and_mismatched_cases_are_named(folders, run):
    """Every fault is an error of its case, and the others are judged all the same."""
    for name in ("good", "missing", "shape", "type", "short", "garbage", "empty", "key"):
        golden = folders.add(name)
        if name == "shape":
            folders.result(name, golden.reshape(16, 8))
        if name == "type":
            folders.result(name, golden.astype(np.float16))
        if name == "key":
            folders.write(folders.actual, name, {"a": golden, "b": golden})
    (folders.actual / "missing.npz").unlink()
    short = folders.actual / "short.npz"
    short.write_bytes(short.read_bytes()[:-200])
    (folders.actual / "garbage.npz").write_bytes(random.Random(1).randbytes(2000))
    (folders.actual / "empty.npz").write_bytes(b"")
    folders.result("extra", np.zeros(3, np.float32))
    folders.add("failed")
    folders.records[-1] |= {"status": "failed", "error": "too little memory"}
    folders.add("refused")
    folders.records[-1] |= {"status": "refused", "error": "161002: no"}
    folders.finish(count=12)
    status, out, err = run(folders.actual, folders.golden)
    assert status == 1
    assert err == ""
    cases = {case["id"]: case for case in json.loads((folders.actual / "verdicts.json").read_text())["cases"]}
    assert cases["good"]["verdict"] == "pass"
    wanted = {
        "missing": "no data of case 'missing'",
        "shape": "shape must be [8, 16] (got [16, 8])",
        "type": "type must be float32 (got float16)",
        "short": "short.npz",
        "garbage": "garbage.npz",
        "empty": "empty.npz",
        "key": "no array called gradInput (there: a, b)",
        "extra": "has a case extra that",
        "failed": "no golden: too little memory",
        "(unfinished)": "holds 10 of 12 cases",
    }
    for name, text in wanted.items():
        assert cases[name]["verdict"] == "error", name
        assert text in cases[name]["reason"], name
        assert "\n" not in cases[name]["reason"]
    assert cases.keys() == {"good", *wanted}
    assert "refused: not judged" in out
    assert "1 pass, 10 error, 1 not judged" in out


@pytest.mark.parametrize("suffix", ["npy", "bin"])
def test_truncated_raw_files_are_named(tmp_path, run, suffix):
    """A file of the wrong length is no result."""
    folders = Folders(tmp_path, suffix)
    folders.add("one")
    folders.finish()
    path = folders.actual / "one" / f"gradInput.{suffix}"
    path.write_bytes(path.read_bytes()[:-4])
    status, cases = judged(run, folders)
    assert (status, cases["one"]["verdict"]) == (1, "error")
    assert str(path) in cases["one"]["reason"]


def test_files(tmp_path, run):
    """Single files of different kinds; a raw file takes type and shape from the other one."""
    values = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    np.save(tmp_path / "g.npy", values)
    np.save(tmp_path / "wrong.npy", nudged(values, 7, 5))
    (tmp_path / "a.bin").write_bytes(values.tobytes())
    (tmp_path / "cut.bin").write_bytes(values.tobytes()[:-3])
    store.write_arrays(tmp_path / "a", {"out": values}, "safetensors")
    np.savez(tmp_path / "all.npz", out=values, self=values, more=values)
    g = tmp_path / "g.npy"
    for name in ("g.npy", "a.bin", "a.safetensors"):
        assert run(tmp_path / name, g, "--standard", "binary")[0] == 0, name
        assert run(g, tmp_path / name, "--standard", "binary")[0] == 0, name
    status, out, _ = run(tmp_path / "wrong.npy", g, "--standard", "ulp")
    assert status == 1
    assert "[1, 2] 5 ULP" in out
    status, out, err = run(tmp_path / "cut.bin", g)
    assert (status, out) == (1, "")
    assert "cut.bin: must have 80 bytes" in err
    status, out, err = run(tmp_path / "a.bin", tmp_path / "a.bin")
    assert (status, "dtype must be given" in err) == (1, True)
    assert run(tmp_path / "a.bin", tmp_path / "a.bin", "--dtype", "float32")[0] == 0
    status, out, err = run(g, tmp_path / "all.npz")
    assert status == 1
    assert "no array called" in out
    np.savez(tmp_path / "some.npz", out=values, more=values)
    assert run(tmp_path / "some.npz", tmp_path / "all.npz")[0] == 0  # self is an input, which ACTUAL may leave out
    status, out, _ = run(tmp_path / "all.npz", tmp_path / "some.npz")
    assert "has an array self that" in out


def test_bfloat16_files(tmp_path, run):
    """Bit patterns in .npy need --dtype; numpy.save of ml_dtypes' type does not."""
    values = np.linspace(-2, 2, 40).astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "bits.npy", values.view(np.uint16))
    np.save(tmp_path / "void.npy", values)
    wrong = nudged(values, 8, 1)
    np.save(tmp_path / "wrong.npy", wrong.view(np.uint16))
    assert run(tmp_path / "void.npy", tmp_path / "void.npy", "--standard", "binary")[0] == 0
    assert run(tmp_path / "bits.npy", tmp_path / "void.npy", "--dtype", "bfloat16")[0] == 0
    status, out, _ = run(tmp_path / "wrong.npy", tmp_path / "bits.npy", "--dtype", "bf16", "--standard", "ulp:0")
    assert status == 1
    assert "BFLOAT16" in out
    assert "1 ULP" in out
    assert run(tmp_path / "wrong.npy", tmp_path / "bits.npy", "--dtype", "bf16")[0] == 0


def test_folders_without_a_journal(tmp_path, run):
    """Files pair by name; what one side lacks is named."""
    for side in ("a", "g"):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "one.npy", np.ones(9, np.float32))
    np.save(tmp_path / "g" / "two.npy", np.ones(3))
    np.save(tmp_path / "a" / "three.npy", np.ones(3))
    status, out, _ = run(tmp_path / "a", tmp_path / "g")
    assert status == 1
    assert "no data of case 'two'" in out
    assert "has a case three that" in out
    assert "3 cases: 1 pass, 2 error" in out


def test_arrays_larger_than_a_block_stay_mapped(tmp_path, run, monkeypatch):
    """No whole array is copied: what is allocated stays far below the size of the files."""
    import tracemalloc

    count = 1 << 24
    for name in ("a.npy", "g.npy"):
        array = np.lib.format.open_memmap(tmp_path / name, "w+", np.float32, (count // 64, 64))
        array[:] = 1.0
        array[:, 3] = 2.0
        if name == "a.npy":
            array[-1, -1] = 1.5
        del array
    tracemalloc.start()
    status, out, _ = run(tmp_path / "a.npy", tmp_path / "g.npy", "--standard", "ulp:3")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert status == 1
    assert f"1 of {count} elements" in out
    assert peak < count * 4 / 1.5, peak


def test_the_command_that_repeats_a_case_names_file_and_product(tmp_path, run):
    """Where `nonpu golden` was told to find it, and the product where it is not the default."""
    (tmp_path / "sub").mkdir()
    path = tmp_path / "sub" / "cases.json"
    path.write_text(json.dumps([{"id": "a", "operator": "aclnnSwishBackward", "dtype": "fp16", "shape": [3]}]))
    for product, words in (("Ascend910B1", ""), ("Ascend310P1", " --product Ascend310P1")):
        golden, actual = tmp_path / product, tmp_path / f"actual {product}"
        assert nonpu("golden", path, "-o", golden, "--product", product).returncode == 0
        actual.mkdir()
        np.savez(actual / "a.npz", gradInput=np.full(3, 9, np.float16))
        _, out, _ = run(actual, golden)
        assert f"again: nonpu golden {path} -o DIR --only a --seed 0{words} && nonpu compare" in out


def test_names_that_are_no_unicode(folders, run, tmp_path):
    """Folders of such names are judged and reported on like others."""
    folders.add("one")
    folders.result("one", np.zeros((8, 16), np.float32))
    folders.finish()
    odd = tmp_path / os.fsdecode(b"odd\xff")
    folders.actual.rename(odd)
    status = run(odd, folders.golden, "--json", tmp_path / "v.json")[0]
    assert status == 1
    assert json.loads((tmp_path / "v.json").read_text())["actual"] == str(odd)
    assert nonpu("report", odd, "-o", tmp_path / "r.html").returncode == 0


def test_types_may_be_spelled_as_in_case_files(run, tmp_path):
    np.arange(3, dtype=np.float32).tofile(tmp_path / "a.bin")
    for name in ("fp32", "float32", "ACL_FLOAT", "torch.float32"):
        assert run(tmp_path / "a.bin", tmp_path / "a.bin", "--dtype", name)[0] == 0
    assert run(tmp_path / "a.bin", tmp_path / "a.bin", "--dtype", "fp33")[0] == 2


def test_json_to_a_file_and_to_the_output(folders, run, tmp_path):
    """The same verdicts in all three places, without numbers that JSON does not have."""
    folders.result("one", np.full((8, 16), math.inf, np.float32))
    folders.add("one")
    folders.result("one", np.full((8, 16), math.inf, np.float32))
    folders.finish()
    status, out, _ = run(folders.actual, folders.golden, "--json", "-")
    printed = json.loads(out, parse_constant=lambda name: pytest.fail(name))
    assert status == 1
    assert printed["counts"]["untrusted"] == 1
    assert run(folders.actual, folders.golden, "--json", tmp_path / "v.json")[0] == 1
    written = json.loads((tmp_path / "v.json").read_text())
    assert written == printed == json.loads((folders.actual / "verdicts.json").read_text())
    assert printed["expected"] == str(folders.golden)
    assert set(printed["counts"]) == set(VERDICTS)


def test_many_cases_list_only_what_did_not_pass(tmp_path, run):
    """A table that somebody can read."""
    for side in ("a", "g"):
        (tmp_path / side).mkdir()
        for i in range(60):
            np.save(tmp_path / side / f"case{i}.npy", np.full(16, i + (side == "a" and i == 33), np.int32))
    status, out, _ = run(tmp_path / "a", tmp_path / "g")
    assert status == 1
    assert "case33" in out
    assert "case32" not in out
    assert "60 cases: 59 pass, 1 untrusted" in out or "60 cases: 59 pass, 1 fail" in out


def test_wrong_usage_is_one_line(folders, run, tmp_path):
    """Exit status 2 and the parameter's name."""
    folders.add("one")
    folders.finish()
    pair = (folders.actual, folders.golden)
    wrong: list[tuple[tuple, str]] = [
        ((), "ACTUAL is missing"),
        ((folders.actual,), "EXPECTED is missing"),
        ((*pair, "--standard", "best"), "--standard: standard must be one of mixed, relative"),
        ((*pair, "--standard", "ulp:-3"), "--standard"),
        ((*pair, "--worst", "-1"), "--worst"),
        ((*pair, "--dtype", "float8"), "--dtype: must be one of"),
        ((*pair, "--dtype", "string"), "--dtype: must be one of"),
        ((*pair, "--json", tmp_path / "no" / "v.json"), "--json: there is no folder"),
    ]
    for arguments, text in wrong:
        status, out, err = run(*arguments)
        assert (status, out) == (2, ""), arguments
        assert text in err
        assert err.count("\n") == 1
    absent: list[tuple[tuple, str]] = [
        ((tmp_path / "nothing", folders.golden), "nothing: no such file or folder"),
        ((folders.actual / "one.npz", folders.golden), "must be two folders or two files"),
    ]
    for arguments, text in absent:
        status, out, err = run(*arguments)
        assert (status, out) == (1, ""), arguments
        assert text in err
        assert err.count("\n") == 1


def test_a_folder_against_itself_says_so(folders, run):
    """It passes, and shows nothing."""
    folders.add("one")
    folders.finish()
    status, _, err = run(folders.golden, folders.golden)
    assert status == 0
    assert "the same" in err


def test_standards_are_printed(run):
    """Both ways to ask for them."""
    status, out, _ = run("--standards")
    assert (status, out) == (0, run("--standard", "list")[1])
    assert "2^-16" in out


def test_without_the_extra_one_line_names_it(folders, tmp_path):
    """mpmath is part of the extra `verify`."""
    folders.add("one")
    folders.finish()
    code = (
        "import sys; sys.modules['mpmath'] = None; from nonpu.cli import main;"
        f"sys.exit(main(['compare', {str(folders.actual)!r}, {str(folders.golden)!r}]))"
    )
    assert_refused(start(sys.executable, "-c", code), 1, "nonpu[verify]", "mpmath")
    assert nonpu("compare", folders.actual, folders.golden).returncode == 0


@damaged
def test_damaged_folders_never_end_in_a_traceback(folders, run, tmp_path):
    """Bytes of every file are changed, cut and removed at random; also records that are no records."""
    rng = random.Random(20)
    for name, operator in zip(("one", "two"), ("aclnnSwishBackward", "aclnnSigmoidBackward"), strict=True):
        folders.add(name, operator)
    folders.finish()
    files = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    for trial in range(60):
        copy = tmp_path / "copies" / str(trial)
        for side in ("actual", "golden"):
            shutil.copytree(tmp_path / side, copy / side)
        path = copy / rng.choice(files)
        data = bytearray(path.read_bytes())
        for _ in range(rng.choice([1, 1, 5, 50])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data[: rng.choice([len(data), len(data), rng.randrange(len(data) + 1)])])
        status, _, err = run(copy / "actual", copy / "golden")
        assert status in (0, 1)
        assert all(line.startswith("nonpu: ") for line in err.splitlines())


RECORDS = [
    {"outputs": []},
    {"outputs": [3]},
    {"outputs": [{"name": "gradInput"}]},
    {"outputs": [{"name": "gradInput", "dtype": "float31", "shape": [8, 16]}]},
    {"outputs": [{"name": "gradInput", "dtype": "float32", "shape": [8, -16]}]},
    {"outputs": [{"name": "gradInput", "dtype": "float32", "shape": ["8"]}]},
    {"outputs": 5},
    {"inputs": 5},
    {"inputs": [{"name": "self"}]},
    {"inputs": [{"name": "self", "kind": "tensor"}]},
    {"inputs": [None]},
    {"inputs": [{"name": "self", "kind": "tensor", "dtype": 1.5, "shape": None}]},
    {"standard": {"acc": "x"}},
]


@pytest.mark.parametrize("change", RECORDS, ids=str)
def test_records_that_are_no_records(folders, run, change):
    """A wrong line of the journal is an error of its case."""
    folders.add("one")
    folders.records[-1] |= change
    folders.finish()
    status, _, err = run(folders.actual, folders.golden)
    assert status == (0 if "standard" in change else 1)
    assert err == ""


def test_the_example_of_a_wrong_kernel(folders, run):
    """Each of its faults gets the verdict that the documentation shows."""
    for name, operator, dtype, shape in (
        ("leaky-fp32-broadcast", "aclnnLeakyReluBackward", DType.FLOAT, (2, 3, 32)),
        ("sigmoid-complex", "aclnnSigmoidBackward", DType.COMPLEX64, (100,)),
        ("sigmoid-strided", "aclnnSigmoidBackward", DType.DOUBLE, (16, 8)),
        ("swish-fp16", "aclnnSwishBackward", DType.FLOAT16, (4, 1000)),
        ("other", "aclnnSwishBackward", DType.FLOAT, (64,)),
    ):
        folders.add(name, operator, dtype, shape)
    folders.finish()
    shutil.rmtree(folders.actual)
    finished = start(sys.executable, ROOT / "examples" / "wrong_kernel.py", folders.golden, folders.actual)
    assert (finished.returncode, finished.stderr) == (0, "")
    status, cases = judged(run, folders)
    assert status == 1
    assert {name: case["verdict"] for name, case in cases.items()} == {
        "leaky-fp32-broadcast": "untrusted",
        "sigmoid-complex": "error",
        "sigmoid-strided": "fail",
        "swish-fp16": "fail",
        "other": "pass",
    }
    assert "the last 500 of 4000 elements are all 0.0" in cases["swish-fp16"]["reason"]


def test_documented_formula_pairs_with_the_goldens(folders):
    """The pairs of a report on a golden folder alone."""
    folders.add("one")
    folders.finish()
    found = matching.documented(store.open_folder(folders.golden))
    (item,) = found.items
    assert item.actual is not None
    assert item.expected is not None
    assert int((item.actual() != item.expected()).sum()) == 1
