"""Product lines and their names, against the table of the documents copied by hand."""

from __future__ import annotations

import pytest

from nonpu import products

# line: SoC names, short SoC name, NpuArch, BFLOAT16.
TABLE = {
    "950": (
        "Ascend950PR_950z Ascend950PR_9579 Ascend950PR_957b Ascend950PR_957bx Ascend950PR_957c Ascend950PR_957d"
        " Ascend950PR_9589 Ascend950PR_958b Ascend950PR_9599 Ascend950DT_950x Ascend950DT_950y Ascend950DT_9571"
        " Ascend950DT_9572 Ascend950DT_9573 Ascend950DT_9574 Ascend950DT_9575 Ascend950DT_9576 Ascend950DT_9577"
        " Ascend950DT_9578 Ascend950DT_9581 Ascend950DT_9581x Ascend950DT_9582 Ascend950DT_9582x Ascend950DT_9583"
        " Ascend950DT_9584 Ascend950DT_9585 Ascend950DT_9586 Ascend950DT_9587 Ascend950DT_9588 Ascend950DT_9591"
        " Ascend950DT_9592 Ascend950DT_9595 Ascend950DT_9596 Ascend950DT_95A1 Ascend950DT_95A2",
        "Ascend950",
        3510,
        True,
    ),
    "A3": (
        "Ascend910_9362 Ascend910_9363 Ascend910_9372 Ascend910_9381 Ascend910_9382 Ascend910_9391 Ascend910_9392",
        "Ascend910_93",
        2201,
        True,
    ),
    "A2": ("Ascend910B1 Ascend910B2 Ascend910B2C Ascend910B3 Ascend910B4 Ascend910B4-1", "Ascend910B", 2201, True),
    "310B": ("Ascend310B1 Ascend310B2 Ascend310B3 Ascend310B4", "Ascend310B", 3002, False),
    "310P": ("Ascend310P1 Ascend310P3 Ascend310P5 Ascend310P7", "Ascend310P", 2002, False),
    "910": (
        "Ascend910A Ascend910B Ascend910ProA Ascend910ProB Ascend910PremiumA",
        "Ascend910",
        1001,
        False,
    ),
}


def test_lines_are_the_documents():
    assert {
        line.line: (" ".join(line.socs), line.short_name, line.arch, line.has_bf16) for line in products.LINES
    } == TABLE


@pytest.mark.parametrize("line", TABLE)
def test_every_soc_name_finds_its_line_and_keeps_its_name(line):
    for soc in TABLE[line][0].split():
        for spelling in (soc, soc.lower(), soc.upper()):
            found = products.find(spelling)
            assert (found.line, found.soc) == (line, soc)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("950", "950"),
        ("Ascend 950PR", "950"),
        ("Ascend 950PR/Ascend 950DT", "950"),
        ("a3", "A3"),
        ("Atlas A3", "A3"),
        ("Atlas A3 inference", "A3"),
        ("Ascend910_93", "A3"),
        ("A2", "A2"),
        ("910b", "A2"),
        ("910B2C", "A2"),
        ("Atlas A2 training series", "A2"),
        ("Atlas A2 训练系列产品/Atlas A2 推理系列产品", "A2"),
        ("310b", "310B"),
        ("Atlas 200I/500 A2 inference", "310B"),
        ("Atlas 200I/500 A2 推理产品", "310B"),
        ("310P", "310P"),
        ("Atlas inference series", "310P"),
        ("Atlas 推理系列产品", "310P"),
        ("910", "910"),
        ("ascend910", "910"),
        ("Atlas training series", "910"),
    ],
)
def test_product_names_lines_and_tags(name, line):
    assert products.find(name).line == line


def test_full_soc_name_ascend910b_is_the_training_chip():
    """The short name of Atlas A2 is spelt the same; its full names carry a digit."""
    trap = products.find("Ascend910B")
    assert (trap.line, trap.soc, trap.has_bf16) == ("910", "Ascend910B", False)
    assert products.find("Ascend910B1").has_bf16


@pytest.mark.parametrize("name", ["", "Ascend", "A4", "Ascend910B5", "H100"])
def test_unknown_name_lists_the_choices(name):
    with pytest.raises(ValueError, match=r"product must be a SoC name or one of 950 .*Ascend910B1.*310P.* \(got '"):
        products.find(name)


@pytest.mark.parametrize("name", [3, None, b"A2", ["A2"]])
def test_a_name_that_is_no_string_lists_the_choices_too(name):
    with pytest.raises(TypeError, match=r"^product must be a SoC name or one of 950 .*Ascend910B1.*310P.* \(got .+\)$"):
        products.find(name)


def test_default_is_atlas_a2(monkeypatch):
    monkeypatch.delenv("NONPU_PRODUCT", raising=False)
    assert products.current().soc == "Ascend910B1"
    monkeypatch.setenv("NONPU_PRODUCT", "")
    assert products.current().soc == "Ascend910B1"


def test_environment_selects_and_may_change(monkeypatch):
    monkeypatch.setenv("NONPU_PRODUCT", "Ascend310P3")
    assert products.current().soc == "Ascend310P3"
    monkeypatch.setenv("NONPU_PRODUCT", "Atlas A3")
    assert products.current().line == "A3"


def test_wrong_environment_names_the_variable(monkeypatch):
    monkeypatch.setenv("NONPU_PRODUCT", "TPU")
    with pytest.raises(ValueError, match=r"NONPU_PRODUCT: product must be .* \(got 'TPU'\)"):
        products.current()
