"""Case files: every form loads, every mistake is named with file, case and field; ranges of values."""

from __future__ import annotations

import csv
import json
import math
from typing import Any

import numpy as np
import pytest

from nonpu.dtypes import DType
from nonpu.verify import tables
from nonpu.verify.casefiles import read_cases
from nonpu.verify.cases import CaseError
from nonpu.verify.ranges import Range, RangeError, gather, positions
from nonpu.verify.rounding import decode, numpy_dtype

DEVICE: Any = {
    "id": 17,
    "name": "torch.nn.functional.leaky_relu",
    "aclnn_name": "aclnnLeakyReluBackward",
    "api_type": "function",
    "standard": {"acc": {"single_bm": {"type": "default"}}, "perf": "default"},
    "inputs": [
        {"name": "grad", "type": "tensor", "required": True, "dtype": "fp16", "shape": [4, 5], "range_values": [-1, 1]},
        {
            "name": "x",
            "type": "tensor",
            "required": True,
            "dtype": "fp32",
            "shape": [5],
            "range_values": ["-inf", "inf"],
        },
        {"name": "a", "type": "scalar", "required": True, "dtype": "uint8", "shape": None, "range_values": -4},
        {"name": "flag", "type": "attr", "required": False, "dtype": "bool", "shape": None, "range_values": [False]},
    ],
}
for record in DEVICE["inputs"]:
    record |= {"backward": False, "align_32B": True, "is_boundary": False, "outlier_values": [0.5]}


def read(path, content) -> Any:
    """Write a case file and return its cases."""
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_cases(path)[0]


class TestForms:
    """What the same case looks like in each form."""

    def test_list_form_of_device_suites(self, tmp_path):
        (case,) = read(tmp_path / "cases.json", [DEVICE])
        assert (case.id, case.operator, case.standard) == ("17", "leaky_relu_backward", "single_bm")
        grad, x = case.tensors["gradOutput"], case.tensors["self"]
        assert (grad.dtype, grad.shape, grad.values.entries) == (DType.FLOAT16, (4, 5), ((-1, 1),))
        assert (x.dtype, x.shape, x.values.entries) == (DType.FLOAT, (5,), ((-math.inf,), (math.inf,)))
        slope = case.scalars["negativeSlope"]
        assert (slope.dtype, slope.values.entries) == (DType.UINT8, ((0,),))
        assert slope.values.notes == ("-4 became 0 to fit uint8",)
        assert case.flags == {"selfIsResult": True}

    def test_json_lines_and_an_object_with_defaults(self, tmp_path):
        lines = read(tmp_path / "cases.jsonl", f"{json.dumps(DEVICE)}\n\n{json.dumps({**DEVICE, 'id': 'b'})}\n")
        assert [case.id for case in lines] == ["17", "b"]
        assert lines[0] == read(tmp_path / "cases.json", DEVICE)[0]
        product = read(tmp_path / "cases.json", {"cases": [DEVICE], "seed": 5, "product": "310P"})
        assert product[0].product.startswith("Ascend310P")
        assert product[0].seed != lines[0].seed

    def test_our_form_by_every_spelling_of_names(self, tmp_path):
        own = {
            "id": "17",
            "operator": "LeakyReluBackward",
            "standard": "single_bm",
            "inputs": {
                "grad_output": {"dtype": "FLOAT16", "shape": [4, 5], "range": [-1, 1]},
                "self": {"dtype": "torch.float32", "shape": [5], "range": ["-inf", "inf"]},
            },
            "scalars": {"negative_slope": {"dtype": "uint8", "value": -4}},
            "attributes": {"selfIsResult": True},
        }
        assert read(tmp_path / "own.json", [own])[0] == read(tmp_path / "device.json", [DEVICE])[0]

    def test_defaults_of_a_case_hold_for_all_its_tensors(self, tmp_path):
        case = {"operator": "aclnnSwishBackward", "dtype": "bf16", "shape": [3], "range": "nan"}
        (found,) = read(tmp_path / "a.json", [case])
        assert found.id == "swish_backward-000000"
        assert [(t.dtype, t.shape) for t in found.tensors.values()] == [(DType.BFLOAT16, (3,))] * 2
        assert found.scalars == {"betaOptional": None}
        (other,) = read(tmp_path / "a.json", [{**case, "inputs": {"self": {"shape": []}, "beta": 2}}])
        assert [t.shape for t in other.tensors.values()] == [(3,), ()]
        assert other.scalars["betaOptional"].values.entries == ((2,),)

    def test_layouts_outputs_seed_and_product(self, tmp_path):
        case = {
            "operator": "aclnnSigmoidBackward",
            "dtype": "complex64",
            "shape": [2, 3],
            "inputs": {"output": {"strides": [1, 2], "offset": 7}, "gradOutput": None},
            "outputs": {"gradInput": {"dtype": "complex128", "shape": [2, 3], "strides": [6, 2]}},
            "seed": 2**64 - 1,
            "product": "A3",
        }
        (found,) = read(tmp_path / "a.json", [case])
        assert (found.tensors["output"].strides, found.tensors["output"].offset) == ((1, 2), 7)
        assert found.tensors["gradOutput"] is None
        assert (found.output.dtype, found.output.strides) == (DType.COMPLEX128, (6, 2))
        assert (found.seed, found.product) == (2**64 - 1, "Ascend910_9391")

    def test_a_row_for_each_case(self, tmp_path):
        text = (
            "id,operator,dtype,shape,self.shape,self.range,gradOutput.dtype,negativeSlope,selfIsResult,out.dtype\n"
            'a,aclnnLeakyReluBackward,fp32,4x5,5,"-inf,inf",fp16,0.5,true,fp64\n'
            'b,aclnnLeakyReluBackward,bf16,"[2, 3]",,"[[-1, 1], \'nan\']",,,,\n'
        )
        first, second = read(tmp_path / "a.csv", text)
        assert [(t.dtype, t.shape) for t in first.tensors.values()] == [(DType.FLOAT16, (4, 5)), (DType.FLOAT, (5,))]
        assert first.tensors["self"].values.entries == ((-math.inf,), (math.inf,))
        assert (first.scalars["negativeSlope"].values.entries, first.flags) == (((0.5,),), {"selfIsResult": True})
        assert first.output.dtype == DType.DOUBLE
        assert second.tensors["self"].values.entries[0] == (-1, 1)
        assert second.scalars["negativeSlope"].values.entries == ((0.01,),)
        assert second.flags == {"selfIsResult": False}

    def test_columns_of_ops_test_kit(self, tmp_path):
        rows = [
            ("aclnnLeakyReluBackward", "[[4,5],[5],[4,5]]", "['float16','float32','float32']",
             "{'negativeSlope': 0.1, 'selfIsResult': False}", "['float64']", "[2]", "x"),
            ("aclnnSwishBackward", "((2,3),(2,3),(2,3))", "float32,float32,float32", "1.5", "float32", "2", ""),
            ("aclnnSigmoidBackward", "[2,3];[2,3]", "fp16", "", "", "", ""),
        ]  # fmt: skip
        with (tmp_path / "kit.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("api_name", "tensor_view_shapes", "tensor_dtypes", "attributes",
                                         "scalar_dtypes", "output_tensor_indexes", "remark"), *rows])  # fmt: skip
        cases: Any = read_cases(tmp_path / "kit.csv")[0]
        leaky, swish, sigmoid = cases
        assert [t.dtype for t in leaky.tensors.values()] == [DType.FLOAT16, DType.FLOAT]
        assert leaky.scalars["negativeSlope"].dtype == DType.DOUBLE
        assert leaky.scalars["negativeSlope"].values.entries == ((0.1,),)
        assert (leaky.flags, leaky.output.shape) == ({"selfIsResult": False}, (4, 5))
        assert swish.scalars["betaOptional"].values.entries == ((1.5,),)
        assert [t.shape for t in sigmoid.tensors.values()] == [(2, 3), (2, 3)]

    @pytest.mark.parametrize(
        ("spelling", "dtype"),
        [("fp16", DType.FLOAT16), ("FLOAT16", DType.FLOAT16), ("half", DType.FLOAT16), ("ACL_FLOAT16", DType.FLOAT16),
         ("fp32", DType.FLOAT), ("float", DType.FLOAT), ("DT_FLOAT", DType.FLOAT), ("fp64", DType.DOUBLE),
         ("double", DType.DOUBLE), ("bf16", DType.BFLOAT16), ("bfloat16", DType.BFLOAT16), ("uint8", DType.UINT8),
         ("complex64", DType.COMPLEX64), ("bool", DType.BOOL), ("torch.bfloat16", DType.BFLOAT16),
         (27, DType.BFLOAT16)],
    )  # fmt: skip
    def test_spellings_of_types(self, tmp_path, spelling, dtype):
        (case,) = read(tmp_path / "a.json", [{"operator": "aclnnSwishBackward", "dtype": spelling, "shape": [1]}])
        assert case.tensors["self"].dtype == dtype

    @pytest.mark.parametrize(
        ("cell", "value"),
        [("[1, 2]", [1, 2]), ("(1,)", [1]), ("1,2", [1, 2]), ("nan", "nan"), ("[-inf, inf]", ["-inf", "inf"]),
         ("1e-3", 1e-3), ("[nan, 1e3]", ["nan", 1e3]), ("{'a': True}", {"a": True}), ("[true, null]", [True, None]),
         ("a;b", ["a", "b"]), ("[float16, bf16]", ["float16", "bf16"])],
    )  # fmt: skip
    def test_cells(self, cell, value):
        assert tables.read_cell(cell) == value


GOOD = {"id": "one", "operator": "aclnnSwishBackward", "dtype": "fp32", "shape": [2]}


class TestNumbersBeyondEveryType:
    """A number that DOUBLE does not reach moves to the end of the type, as the page says; it is no infinity."""

    @pytest.mark.parametrize("text", ["1" + "0" * 400, "1e400"])
    @pytest.mark.parametrize(("dtype", "largest"), [("fp16", 65504), ("fp32", (2 - 2.0**-23) * 2.0**127)])
    def test_constants_and_intervals(self, tmp_path, text, dtype, largest):
        for number, values in enumerate((text, f"-{text}", f"[-{text}, {text}]")):
            path = tmp_path / f"{number}.json"
            case = {**GOOD, "dtype": dtype, "range": "RANGE"}
            path.write_text(json.dumps([case]).replace('"RANGE"', values))
            ((request,), _) = read_cases(path)
            tensor = request.tensors["self"]
            assert tensor is not None
            found = tensor.values
            assert found.entries == (((largest,), (-largest,), (-largest, largest))[number],)
            assert np.all(np.isfinite(found.draw(1, 1, 0, 100)))
            assert all("a number beyond" in note and len(note) < 150 for note in found.notes)
            assert len(found.notes) == 1

    def test_of_integers(self, tmp_path):
        found = Range.parse([-(10**400), 10**400], DType.INT8)
        assert found.entries == ((-128, 127),)
        assert Range.parse(10**400, DType.UINT64).entries == ((2**64 - 1,),)


class TestMistakes:
    """One line that names file, case and field."""

    @pytest.mark.parametrize(
        ("name", "text"), [("a.json", "[" * 100000), ("a.jsonl", "[" * 100000), ("b.json", '[{"id":' * 3000)]
    )
    def test_deep_nesting(self, tmp_path, name, text):
        (tmp_path / name).write_text(text)
        with pytest.raises(CaseError, match="nested too deeply"):
            read_cases(tmp_path / name)

    def test_ids_that_no_file_takes(self, tmp_path):
        with pytest.raises(CaseError, match="id must be Unicode text"):
            read(tmp_path / "cases.json", [{**GOOD, "id": "\ud800"}])
        assert read(tmp_path / "cases.json", [{**GOOD, "id": "\U0001f600 é"}])

    def test_a_shape_of_too_many_digits(self, tmp_path):
        (tmp_path / "a.csv").write_text(f"operator,dtype,shape\naclnnSwishBackward,fp32,{'9' * 5000}x2\n")
        with pytest.raises(CaseError, match="shape must be a shape"):
            read_cases(tmp_path / "a.csv")

    @pytest.mark.parametrize(
        ("case", "fragments"),
        [
            ({"operator": "aclnnFly"}, ("operator must be one of aclnn", "got 'aclnnFly'")),
            ({"operator": None}, ("operator must be one of",)),
            ({"dtype": "fp17"}, ("inputs.gradOutput.dtype must be a data type", "'fp17'")),
            ({"dtype": None}, ("inputs.gradOutput.dtype", "None")),
            ({"shape": "2x3"}, ("inputs.gradOutput.shape must be a list of integers", "'2x3'")),
            ({"shape": [2.5]}, ("inputs.gradOutput.shape", "2.5")),
            ({"shape": [2**70]}, ("inputs.gradOutput.shape must fit 64 bits",)),
            ({"range": "big"}, ("range must be a number, an interval", "'big'")),
            ({"range": [2, 1]}, ("range must be an interval whose first number is not above",)),
            ({"range": []}, ("range", "[]")),
            ({"range": {"values": [1], "weights": [0]}}, ("positive weights",)),
            ({"range": {"value": [1]}}, ("range must be an object",)),
            ({"range": {"values": [1, 2], "weights": [1, 10**400]}}, ("positive weights", "at most 1e+300")),
            ({"standard": "\ud800"}, ("standard must be Unicode text",)),
            ({"range": "x" * 9999}, ("range must be a number", "xxx ... xxx")),
            ({"inputs": {"x": 3}}, ("inputs.x is no parameter of aclnnSwishBackward: gradOutput, self",)),
            ({"inputs": {"self": {"rnage": 3}}}, ("inputs.self.rnage is not known here",)),
            ({"inputs": {"self": 3}}, ("inputs.self must be an object",)),
            ({"inputs": {"self": {"strides": [1, 1]}}}, ("inputs.self.strides must have as many entries",)),
            ({"inputs": {"self": {"offset": "a"}}}, ("inputs.self.offset",)),
            ({"inputs": {"beta": "fast"}}, ("inputs.beta must be a number", "'fast'")),
            ({"inputs": {"beta": {"dtype": "fp32"}}}, ("inputs.beta.value is missing",)),
            ({"inputs": 3}, ("inputs must be a list of records or an object",)),
            ({"inputs": [3]}, ("inputs[0] must be an object",)),
            ({"inputs": [{"name": 3}]}, ("inputs[0].name",)),
            ({"outputs": {"gradInput": 3}}, ("outputs.gradInput must be an object",)),
            ({"seed": -1}, ("seed must be an integer from 0",)),
            ({"product": "Ascend1"}, ("product must be", "Ascend1")),
            ({"standard": 3}, ("standard must be a name",)),
            ({"colour": 3}, ("colour is not known here",)),
            (
                {"operator": "aclnnLeakyReluBackward", "attributes": {"selfIsResult": "maybe"}},
                ("must be true or false",),
            ),
        ],
        ids=str,
    )
    def test_fields(self, tmp_path, case, fragments):
        with pytest.raises(CaseError) as caught:
            read(tmp_path / "cases.json", [{**GOOD, "id": "zero"}, {**GOOD, **case}])
        text = str(caught.value)
        assert len(text) < 1010
        assert text.startswith(f"{tmp_path}/cases.json: case 2 (id one): ")
        assert "\n" not in text
        assert all(fragment in text for fragment in fragments), text

    @pytest.mark.parametrize(
        ("name", "content", "fragment"),
        [
            ("a.json", "", "no JSON"),
            ("a.json", '[{"id": ', "no JSON: Expecting value: line 1 column 9"),
            ("a.json", "[]", "no cases"),
            ("a.json", "3", "must be a list of cases"),
            ("a.json", "[3]", "case 1: must be an object (got int)"),
            ("a.json", '{"cases": [], "colour": 1}', "colour is not known here"),
            ("a.json", '{"cases": [1], "seed": "x"}', "seed must be an integer"),
            ("a.jsonl", json.dumps(GOOD) + '\n{"id"', "line 2: no JSON"),
            ("a.csv", "", "header: must have a column operator or api_name"),
            ("a.csv", "id,operator,operator\n", "column 'operator' must be there once"),
            ("a.csv", "id,operator,self.colour\n", "column 'self.colour' must be"),
            ("a.csv", "id,operator\na\n", "line 2: must have 2 columns, as the header (got 1)"),
            ("a.csv", 'id,operator\na,"x\n', "no CSV"),
            ("a.csv", "id,operator,dtype,shape\na,aclnnSwishBackward,fp32,two\n",
             "line 2 (id a): shape must be a shape"),
            ("a.csv", "api_name,tensor_view_shapes,tensor_dtypes\naclnnSwishBackward,[[2]],\"fp16,fp16\"\n",
             "line 2: tensor_dtypes must have as many entries"),
            ("a.csv", "api_name,tensor_view_shapes,tensor_dtypes,output_tensor_indexes\n"
             "aclnnSwishBackward,[[2]],fp16,7\n",
             "output_tensor_indexes must be positions"),
            ("a.txt", "", "the suffix must be one of .json"),
        ],
        ids=range(17),
    )  # fmt: skip
    def test_files(self, tmp_path, name, content, fragment):
        with pytest.raises(CaseError) as caught:
            read(tmp_path / name, content)
        assert str(caught.value).startswith(f"{tmp_path / name}: ")
        assert fragment in str(caught.value)

    def test_ids_are_unique_and_text_is_text(self, tmp_path):
        with pytest.raises(CaseError, match=r"case 2 \(id one\): id must be unique \(got 'one' as in case 1\)"):
            read(tmp_path / "a.json", [GOOD, GOOD])
        (tmp_path / "b.json").write_bytes(b"[\xff]")
        with pytest.raises(CaseError, match="must be UTF-8"):
            read_cases(tmp_path / "b.json")

    def test_one_tensor_too_many_or_too_few(self, tmp_path):
        tensor = {"type": "tensor", "dtype": "fp16", "shape": [2]}
        for count, text in ((1, "inputs.self is missing"), (3, r"inputs\[2\] is one more")):
            with pytest.raises(CaseError, match=text):
                read(tmp_path / "a.json", [{"aclnn_name": "aclnnSwishBackward", "inputs": [tensor] * count}])


class TestRanges:
    """Values of one type, and what is done with those that do not fit."""

    @pytest.mark.parametrize(
        ("raw", "dtype", "allowed"),
        [
            (3, DType.FLOAT, {3.0}),
            (0.1, DType.BFLOAT16, {0.10009765625}),
            ("nan", DType.FLOAT16, {"nan"}),
            (["NaN"], DType.DOUBLE, {"nan"}),
            (["-inf", "inf"], DType.FLOAT, {-math.inf, math.inf}),
            ([1, 2, 3], DType.FLOAT, {1.0, 2.0, 3.0}),
            (["nan", 5], DType.FLOAT, {"nan", 5.0}),
            ({"values": [1, [2, 2]], "weights": [1, 3]}, DType.FLOAT, {1.0, 2.0}),
            (1e9, DType.FLOAT16, {65504.0}),
            (-5, DType.UINT8, {0}),
            ([-5, 1], DType.UINT8, {0, 1}),
            ([0.5, 2.5], DType.INT8, {1, 2}),
            ("inf", DType.INT16, {32767}),
            ("nan", DType.INT16, {0}),
            (7, DType.BOOL, {True}),
            ([0, 1], DType.BOOL, {False, True}),
            ("max", DType.BFLOAT16, {3.3895313892515355e38}),
            (["tiny", "-subnormal"], DType.FLOAT16, {2.0**-14, -(2.0**-24)}),
            (2**64 - 1, DType.UINT64, {2**64 - 1}),
        ],
        ids=lambda value: "-".join(sorted(map(str, value))) if isinstance(value, set) else str(value),
    )
    def test_drawn_values(self, raw, dtype, allowed):
        found = Range.parse(raw, dtype).draw(1, 0, 0, 400)
        assert found.dtype == numpy_dtype(dtype)
        seen = {"nan" if value != value else value for value in found.astype(object).tolist()}
        assert seen == allowed

    def test_intervals_are_uniform(self):
        """Every sixteenth of the interval has its share, within five standard deviations."""
        drawn = Range.parse([-3, 5], DType.FLOAT).draw(7, 1, 0, 160_000)
        counts, _ = np.histogram(drawn, 16, (-3, 5))
        assert np.abs(counts - 10_000).max() < 5 * math.sqrt(10_000)

    def test_the_widest_interval_does_not_overflow(self):
        drawn = Range.parse([-1.7e308, 1.7e308], DType.DOUBLE).draw(7, 1, 0, 1000)
        assert np.isfinite(drawn).all()
        assert np.ptp(drawn / 1e308) > 3

    def test_a_choice_has_its_weights(self):
        drawn = Range.parse({"values": ["nan", [0, 1]], "weights": [1, 9]}, DType.FLOAT).draw(3, 0, 0, 100_000)
        assert abs(np.isnan(drawn).sum() - 10_000) < 500

    def test_special_values_all_come(self):
        drawn = decode(Range.parse("special", DType.FLOAT16).draw(3, 0, 0, 2000))
        wanted = {"nan", *(s * v for v in (math.inf, 1.0, 65504.0, 2.0**-14, 2.0**-24) for s in (1, -1)), 0.0}
        assert {"nan" if value != value else value for value in drawn.tolist()} == wanted
        assert np.signbit(drawn[drawn == 0]).any()

    def test_complex_parts_are_independent_and_constants_real(self):
        drawn = Range.parse([-1, 1], DType.COMPLEX64).draw(3, 0, 0, 5000)
        assert abs(np.corrcoef(drawn.real, drawn.imag)[0, 1]) < 0.1
        assert Range.parse(2, DType.COMPLEX128).draw(3, 0, 0, 2).tolist() == [2, 2]
        assert np.isnan(Range.parse("nan", DType.COMPLEX64).draw(3, 0, 0, 2).imag).all()

    def test_any_part_is_the_same_as_in_the_whole(self):
        values = Range.parse({"values": [[-1, 1], "nan"], "weights": [3, 1]}, DType.BFLOAT16)
        whole = values.draw(5, 2, 0, 200_000)
        for start, stop in ((0, 1), (65_535, 65_537), (1000, 140_000), (199_999, 200_000), (7, 7)):
            assert values.draw(5, 2, start, stop).tobytes() == whole[start:stop].tobytes()
        others = [values.draw(seed, stream, 0, 1000).tobytes() for seed, stream in ((5, 3), (6, 2), (5, 2))]
        assert len({whole[:1000].tobytes(), *others[:2]}) == 3
        assert others[2] == whole[:1000].tobytes()

    def test_values_do_not_change_between_releases(self):
        """Case files and seeds are kept: these values must stay."""
        assert Range.parse([0, 1], DType.DOUBLE).draw(1, 0, 0, 3).tolist() == KEPT_REAL
        assert Range.parse([-100, 100], DType.INT32).draw(2**63, 5, 70_000, 70_003).tolist() == KEPT_WHOLE

    @pytest.mark.parametrize(
        ("shape", "strides", "offset", "over"),
        [
            ((3, 4), (4, 1), 0, (3, 4)),
            ((3, 4), (1, 3), 5, (3, 4)),
            ((4,), (2,), 1, (3, 4)),
            ((3, 1), (7, 100), 0, (2, 3, 4)),
            ((), (), 9, (3, 4)),
            ((3, 4), (0, 0), 2, (3, 4)),
            ((1, 5), (5, 1), 0, (1, 5)),
        ],
    )
    def test_positions_are_those_of_numpy_views(self, shape, strides, offset, over):
        memory = np.arange(200)
        view = np.lib.stride_tricks.as_strided(memory[offset:], shape, [8 * step for step in strides])
        expected = np.broadcast_to(view, over).ravel()
        size = expected.size
        for start, stop in ((0, size), (1, size - 1), (size // 2, size // 2)):
            assert list(positions(shape, strides, offset, over, start, stop)) == expected[start:stop].tolist()

    def test_values_far_apart_are_gathered_block_by_block(self):
        values = Range.parse([-1, 1], DType.FLOAT)
        where = np.array([10**9, 5, 70_000, 10**9 + 1, 5, 10**9 - 70_000], np.int64)
        expected = [values.draw(1, 0, int(one), int(one) + 1)[0] for one in where]
        assert gather(values, 1, 0, where).tolist() == expected

    @pytest.mark.parametrize("raw", [None, [], "huge", [[1, 2, 3]], {"values": []}, [1, None], {}])
    def test_what_is_no_range(self, raw):
        with pytest.raises(RangeError, match="must be"):
            Range.parse(raw, DType.FLOAT)


KEPT_REAL = [0.3035680343067586, 0.8487087496857769, 0.1561347780434731]
KEPT_WHOLE = [-40, -16, 52]
