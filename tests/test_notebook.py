"""What a reader sees at a prompt or in a notebook: contracts, representations, help, completion."""

from __future__ import annotations

import ctypes
import doctest
import html.parser
import inspect
import pydoc
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import nonpu
from nonpu import Scalar, Status, Stream, Tensor, aclnn, ops
from nonpu.capi import toolkit
from nonpu.ops import Registry
from nonpu.spec.contract import render_html
from nonpu.spec.model import Op
from tests.command_line import ROOT, output

VOID = {"br", "hr", "img"}


class Outline(html.parser.HTMLParser):
    """Collects the text of well-formed HTML; fails on a tag that is not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(text: str) -> Outline:
    """Parse a piece of HTML to its end."""
    outline = Outline()
    outline.feed(text)
    outline.close()
    assert outline.open == []
    return outline


@pytest.mark.parametrize("op", ops.OPS, ids=lambda op: op.api)
def test_operators_by_name(op: Op) -> None:
    """By the Python name and by the C name, in any case; the same object as in the registry."""
    for name in (op.python_name, op.api, op.name, op.api.upper()):
        assert nonpu.ops[name] is op
        assert name in nonpu.ops
    assert list(nonpu.ops) == [entry.python_name for entry in ops.OPS]
    assert len(nonpu.ops) == len(ops.OPS)
    assert isinstance(nonpu.ops, Registry)
    assert nonpu.ops._ipython_key_completions_() == list(nonpu.ops)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("swish_bakward", "no operator 'swish_bakward': did you mean swish_backward?"),
        ("Sigmoid", "no operator 'Sigmoid': did you mean sigmoid_backward?"),
        ("xyz", "no operator 'xyz': the operators are leaky_relu_backward, sigmoid_backward, swish_backward"),
        (3, "no operator 3: the operators are leaky_relu_backward, sigmoid_backward, swish_backward"),
    ],
)
def test_unknown_operators(key: Any, text: str) -> None:
    """KeyError with the names that are near."""
    assert key not in nonpu.ops
    with pytest.raises(KeyError) as caught:
        nonpu.ops[key]
    assert caught.value.args == (text,)


@pytest.mark.parametrize("op", ops.OPS, ids=lambda op: op.api)
def test_contract_as_text(op: Op) -> None:
    """The representation is what `nonpu ops NAME` prints."""
    assert repr(op) == str(op) == output("ops", op.api).rstrip("\n")


def test_contract_is_that_of_the_selected_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """NONPU_PRODUCT counts; a wrong value does not break the display."""
    op = nonpu.ops["swish_backward"]
    monkeypatch.setenv("NONPU_PRODUCT", "310B")
    assert ": not supported" in repr(op)
    assert "not supported" in parsed(op._repr_html_()).text
    monkeypatch.setenv("NONPU_PRODUCT", "nothing of the kind")
    assert "Ascend910B1" in repr(op)


@pytest.mark.parametrize("op", ops.OPS, ids=lambda op: op.api)
def test_contract_as_html(op: Op) -> None:
    """Well-formed, with every parameter, check and note, and without colours that one of the themes would hide."""
    text = op._repr_html_()
    outline = parsed(text)
    facts = op.describe(nonpu.products.current())
    for sentence in (op.text, op.shape_rule, *op.notes, *op.differences, *facts["one_call"]):
        assert sentence in outline.text
    for check in facts["checks"]:
        assert check["sentence"] in outline.text
    for parameter in facts["parameters"]:
        assert parameter["name"] in outline.text
    assert set(re.findall(r"[^-]color:([^;}!]+)", text)) == {"inherit"}
    assert not re.search(r"#[0-9a-f]{3,6}\b|rgb\(|white\b(?!-space)|black", text)
    assert op.formula in outline.text


def test_html_is_escaped() -> None:
    """Nothing of a record can become a tag."""
    facts = nonpu.ops["swish_backward"].describe(nonpu.products.current())
    evil = "<script>alert('&')</script>"
    facts["text"] = facts["formula"] = facts["shape_rule"] = facts["api"] = evil
    facts["notes"] = facts["differences"] = facts["one_call"] = [evil]
    facts["parameters"][0] |= {"name": evil, "text": evil}
    facts["checks"][0]["sentence"] = evil
    outline = parsed(render_html(facts))
    assert "script" not in outline.tags
    assert outline.text.count(evil) >= 8


def test_representations() -> None:
    """One line each, with what a reader asks for first."""
    array = np.zeros((2, 3), np.float16)
    tensor = Tensor.from_numpy(array)
    assert repr(tensor) == f"Tensor((2, 3), float16, data={array.ctypes.data:#x})"
    assert repr(Scalar(1.5, "bfloat16")) == "Scalar(1.5, 'bfloat16')"
    assert repr(Status(161001)) == "<Status.ACLNN_ERR_PARAM_NULLPTR: 161001, a parameter that must not be null is null>"
    assert (str(Status(161001)), f"{Status(161001):d}") == ("161001", "161001")
    stream = Stream()
    assert re.fullmatch(r"<Stream 0x[0-9a-f]+: (idle|busy)>", repr(stream))
    stream.destroy()
    assert repr(stream) == "<Stream (destroyed)>"
    _, executor = aclnn.aclnnSigmoidBackwardGetWorkspaceSize(tensor, tensor, tensor)
    shown = f"gradOutput={tensor!r}, output={tensor!r}, gradInput={tensor!r}"
    assert repr(executor) == f"<Executor of aclnnSigmoidBackward: one run; {shown}>"
    executor.set_repeatable()
    assert repr(executor).startswith("<Executor of aclnnSigmoidBackward: repeatable; ")
    executor.discard()
    assert "consumed" in repr(executor)


@pytest.mark.parametrize("op", ops.OPS, ids=lambda op: op.api)
def test_help_is_complete(op: Op) -> None:
    """Signature, every parameter, the errors, an example: for all three functions of an operator."""
    function = getattr(nonpu, op.python_name)
    text = pydoc.plain(pydoc.render_doc(function))
    assert f"{op.python_name}{inspect.signature(function)}" in text
    assert f"function {op.python_name} in module nonpu" in text
    for name in inspect.signature(function).parameters:
        assert re.search(rf"^    {name} : ", text, re.M), name
    for section in ("Parameters", "Returns", "Raises", "Notes", "Examples"):
        assert re.search(rf"^    {section}\n    -+$", text, re.M), section
    assert max(map(len, text.splitlines())) <= 120
    for kind in ("NumPy arrays", "PyTorch's tensors", "Dask array"):
        assert kind in text
    for name in (op.phase_one, op.phase_two):
        phase = getattr(aclnn, name)
        text = pydoc.plain(pydoc.render_doc(phase))
        for parameter in inspect.signature(phase).parameters:
            assert re.search(rf"^    {parameter} : ", text, re.M), parameter


@pytest.mark.parametrize("op", ops.OPS, ids=lambda op: op.api)
def test_examples_of_the_help(op: Op) -> None:
    """They print what they say; every operator has one."""
    function = getattr(nonpu, op.python_name)
    assert run_examples(function.__doc__, op.python_name) >= 4


def run_examples(text: str, name: str) -> int:
    """Run the examples of a text, one after the other, and return their number."""
    test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    report: list[str] = []
    runner.run(test, out=report.append)
    assert not report, "".join(report)
    return len(test.examples)


def test_examples_of_the_modules() -> None:
    """The two-phase example of nonpu.aclnn and that of the package."""
    assert aclnn.__doc__ is not None
    assert nonpu.__doc__ is not None
    assert run_examples(aclnn.__doc__, "nonpu.aclnn") >= 9
    assert run_examples(nonpu.__doc__, "nonpu") >= 3


@pytest.mark.parametrize("kind", [Tensor, Scalar, Status, Stream, nonpu.Executor], ids=lambda kind: kind.__name__)
def test_examples_of_the_classes(kind: type) -> None:
    """Each has one."""
    assert run_examples(inspect.getdoc(kind) or "", kind.__name__) >= 2


def test_examples_of_the_python_page() -> None:
    """docs/python.md, from its first line to its last."""
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```pycon\n(.*?)^```$", text, re.M | re.S)
    ctypes.CDLL(f"{toolkit.home()}/lib64/libopapi.so").aclGetRecentErrMsg()  # what other tests have left unread
    assert run_examples("\n".join(blocks), "python.md") >= 20


def test_completion() -> None:
    """What a prompt offers after a dot, in a process that has used nothing yet."""
    code = "import nonpu, sys; print(*dir(nonpu)); print(*dir(nonpu.aclnn)); print('nonpu.interop' in sys.modules)"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    package, phases, loaded = finished.stdout.splitlines()
    assert {"swish_backward", "Tensor", "ops", "aclnn", "synchronize", "__version__"} <= set(package.split())
    assert not [name for name in package.split() if name.startswith("_") and not name.startswith("__")]
    assert phases.split() == sorted(name for op in ops.OPS for name in (op.phase_one, op.phase_two))
    assert loaded == "False"
