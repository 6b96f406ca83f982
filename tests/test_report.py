"""`nonpu report`: the page as a browser sees it, and what is refused."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from nonpu import cli
from nonpu.dtypes import DType
from nonpu.verify import charts, matching, survey
from tests.command_line import assert_refused, nonpu
from tests.command_line import run as start
from tests.verification import Folders, nudged

pytest.importorskip("jinja2", reason="Jinja2 is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="this machine has no Chromium")
VOID = {"meta", "link", "br"}
PHONE = 375


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> Folders:
    """Verdicts of every kind, on all operators and several types."""
    folders = Folders(tmp_path_factory.mktemp("judged"))
    for dtype in (DType.FLOAT16, DType.FLOAT, DType.DOUBLE):
        folders.add(f"leaky-{dtype.python_name}", "aclnnLeakyReluBackward", dtype, (700,))
        folders.add(f"swish-{dtype.python_name}", "aclnnSwishBackward", dtype, (9, 5, 16))
    golden = folders.add("complex", "aclnnSigmoidBackward", DType.COMPLEX64, (32, 32))
    folders.result("complex", nudged(golden, 40, 3))
    golden = folders.add("near", shape=(64, 64))
    folders.result("near", nudged(nudged(golden, 1000, 2), 2000, 5))
    golden = folders.add("<b>&wrong", shape=(40, 30))
    wrong = golden.copy()
    wrong[10:12, 5:9] *= 1.5
    wrong[30, 3] = math.nan
    folders.result("<b>&wrong", wrong)
    folders.result("zero", np.zeros_like(folders.add("zero")))
    folders.add("point", shape=())
    folders.add("nothing", shape=(0, 4))
    folders.add("missing")
    (folders.actual / "missing.npz").unlink()
    folders.add("refused")
    folders.records[-1] |= {"status": "refused", "error": "161002: <no>"}
    folders.finish()
    assert cli.main(["compare", str(folders.actual), str(folders.golden)]) == 1
    return folders


@pytest.fixture(scope="module")
def pages(judged, tmp_path_factory) -> dict[str, Path]:
    """The page on the verdicts, and the one on the goldens alone."""
    target = tmp_path_factory.mktemp("pages")
    assert cli.main(["report", str(judged.actual), "-o", str(target / "verdicts.html")]) == 0
    assert cli.main(["report", str(judged.golden), "-o", str(target / "goldens.html")]) == 0
    return {name: target / f"{name}.html" for name in ("verdicts", "goldens")}


class Tree(HTMLParser):
    """Elements with their attributes and text, and whether every one is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        name, _ = self.open.pop()
        assert name == tag

    def handle_data(self, data):
        if self.open and self.open[-1][0] != "style":
            self.words.append(data)

    def all(self, tag):
        """Return the attributes of all elements of a name."""
        return [attributes for name, attributes in self.seen if name == tag]

    @property
    def text(self):
        """All words of the page."""
        return " ".join(" ".join(self.words).split())


@pytest.mark.parametrize("name", ["verdicts", "goldens"])
class TestMarkup:
    """What the file holds."""

    def test_is_well_formed_and_self_contained(self, pages, name):
        """Every element is closed; nothing is fetched, and the page itself forbids it."""
        text = pages[name].read_text("utf-8")
        tree = Tree(text)
        assert text.startswith("<!DOCTYPE html>")
        assert tree.all("html") == [{"lang": "en"}]
        assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in tree.all("meta")
        policy = [meta["content"] for meta in tree.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
        assert policy == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
        assert tree.all("script") == tree.all("img") == tree.all("iframe") == []
        assert [link["href"] for link in tree.all("link")] == ["data:,"]
        assert all(str(a["href"]).startswith("#") for a in tree.all("a"))
        assert not re.search(r"url\(|@import|https?://", text)
        assert len(text.encode()) < 1_000_000

    def test_pictures_and_tables_can_be_read_without_seeing_them(self, pages, name):
        """Titles and descriptions that exist, ids once, header cells with a scope, scrolling regions with a name."""
        tree = Tree(pages[name].read_text("utf-8"))
        ids = [attributes["id"] for _, attributes in tree.seen if "id" in attributes]
        assert len(ids) == len(set(ids))
        assert len(tree.all("svg")) >= 12
        for picture in tree.all("svg"):
            assert picture["role"] == "img"
            assert set(str(picture["aria-labelledby"]).split()) <= set(ids)
        for cell in tree.all("th"):
            assert cell["scope"] in ("row", "col")
        assert {str(a["href"])[1:] for a in tree.all("a")} <= set(ids)
        for attributes in (attributes for _, attributes in tree.seen if attributes.get("role") == "region"):
            assert attributes.get("tabindex") == "0"
            assert attributes.get("aria-label") or attributes["aria-labelledby"] in ids
        levels = [int(tag[1]) for tag, _ in tree.seen if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_verdicts_are_all_there(pages, judged):
    """Counts, every case, reasons, both notations, commands; text from files is escaped."""
    text = pages["verdicts"].read_text("utf-8")
    tree = Tree(text)
    content = json.loads((judged.actual / "verdicts.json").read_text())
    assert content["counts"] == {"pass": 10, "fail": 1, "untrusted": 1, "error": 1}
    for case in content["cases"]:
        assert case["id"] in tree.text
        if case["verdict"] != "pass":
            assert case["reason"] in tree.text
            assert case["reproduce"] in tree.text
            for element in case["worst"]:
                assert element["actual_hex"] in tree.text
                assert element["inputs_hex"]["self"] in tree.text
    assert "<b>&wrong" not in text
    assert "161002: <no>" in tree.text
    rows = re.findall(r'<tr><th scope="row">([^<]*)</th><td><span class="v (\w+)', text)
    order = [verdict for _, verdict in rows]
    assert order == sorted(order, key=["error", "fail", "untrusted", "pass"].index)
    assert tree.text.count("Distribution of the error") == 7
    assert tree.text.count("Error against self") == 6 + 6  # captions and titles
    assert tree.text.count("Error against |output|") == 2


def test_goldens_alone_show_the_documented_formula(pages):
    """No verdicts, one unit in one element of each case."""
    tree = Tree(pages["goldens"].read_text("utf-8"))
    assert "Documented formula against goldens" in tree.text
    assert "No device is judged here" in tree.text
    assert "untrusted" not in tree.text
    assert "dots: documented formula" in tree.text


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours (WCAG 2)."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_colours_have_contrast_in_light_dark_and_print(pages):
    """4.5 for text, 3 for lines and bars, and the scale of the maps keeps its order."""
    style = pages["verdicts"].read_text("utf-8")
    blocks = re.findall(r":root \{(.*?)\}", style, re.S)
    assert len(blocks) == 3
    light = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6})\b", blocks[0]))
    for block in blocks:
        colours = light | dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6})\b", block))
        colours = {k: v if len(v) == 7 else "#" + "".join(2 * c for c in v[1:]) for k, v in colours.items()}
        for name in ("text", "soft", "link"):
            for ground in ("page", "card", "ground"):
                assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
        for name in ("pass", "fail", "untrusted", "error"):
            assert contrast(colours[name], colours[f"{name}-bg"]) >= 4.5, name
        for name in ("bar", "bad", "curve", "dots"):
            assert contrast(colours[name], colours["card"]) >= 3, name
        scale = [luminance(colours[f"l{i}"]) for i in range(1, 7)]
        assert scale in (sorted(scale), sorted(scale, reverse=True))


def browse(page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Open a page without a window and return what the browser says."""
    assert CHROMIUM is not None
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--enable-logging=stderr",
        "--hide-scrollbars",
        f"--user-data-dir={page.parent / 'profile'}",
        *options,
        page.as_uri(),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, env={**os.environ, "TZ": "UTC"})


PROBE = """<!DOCTYPE html><html><body>
<iframe id="f" src="{page}" style="width:{width}px;height:800px;border:0"></iframe>
<script>
document.getElementById("f").addEventListener("load", function () {{
  const d = this.contentDocument, root = d.documentElement, found = {{}};
  found.client = root.clientWidth; found.scroll = root.scrollWidth; found.body = d.body.scrollWidth;
  const boxes = [...d.querySelectorAll("svg")].map(s => s.getBoundingClientRect());
  found.pictures = boxes.map(r => [r.left, r.right, r.height]);
  found.outside = [...d.querySelectorAll("svg text")].filter(t => {{
    const a = t.getBoundingClientRect(), b = t.ownerSVGElement.getBoundingClientRect();
    return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1;
  }}).map(t => t.textContent);
  found.background = this.contentWindow.getComputedStyle(d.body).backgroundColor;
  found.resources = this.contentWindow.performance.getEntriesByType("resource").map(e => e.name);
  found.text = d.body.innerText.length;
  const out = document.createElement("pre"); out.id = "found"; out.textContent = JSON.stringify(found);
  document.body.appendChild(out);
}});
</script></body></html>"""


def probe(page: Path, folder: Path, width: int, *options: str) -> dict:
    """Return what a script finds in a page that is shown at a width."""
    outer = folder / f"probe-{page.stem}-{width}.html"
    outer.write_text(PROBE.format(page=page.as_uri(), width=width))
    finished = browse(outer, "--allow-file-access-from-files", "--virtual-time-budget=5000", "--dump-dom", *options)
    (found,) = re.findall(r'<pre id="found">(.*?)</pre>', finished.stdout, re.S)
    result = json.loads(found.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))
    result["console"] = [line for line in finished.stderr.splitlines() if "CONSOLE" in line]
    assert isinstance(result, dict)
    return result


@needs_browser
@pytest.mark.parametrize("name", ["verdicts", "goldens"])
@pytest.mark.parametrize("width", [PHONE, 1280])
def test_browser_shows_it_on_a_phone_and_on_a_desktop(pages, tmp_path, name, width):
    """From file://: nothing is wider than the window, cut off, fetched, or complained of in the console."""
    found = probe(pages[name], tmp_path, width)
    assert found["client"] == width
    assert max(found["scroll"], found["body"]) <= width
    assert found["pictures"]
    for left, right, height in found["pictures"]:
        assert left >= 0
        assert right <= width
        assert height > 20
    assert found["outside"] == []
    assert found["resources"] == []
    assert found["console"] == []
    assert found["text"] > 1000


@needs_browser
def test_browser_follows_light_and_dark(pages, tmp_path):
    """The colour scheme of the system decides."""
    grounds = []
    for scheme in ("1", "0"):
        found = probe(pages["verdicts"], tmp_path, 800, f"--blink-settings=preferredColorScheme={scheme}")
        grounds.append(sum(map(int, re.findall(r"\d+", found["background"])[:3])))
    assert grounds[0] > 600
    assert grounds[1] < 200


@needs_browser
def test_browser_prints_it(pages, tmp_path):
    """A PDF with pages comes out."""
    copy = tmp_path / "page.html"
    shutil.copy(pages["verdicts"], copy)
    browse(copy, f"--print-to-pdf={tmp_path / 'page.pdf'}", "--no-pdf-header-footer")
    data = (tmp_path / "page.pdf").read_bytes()
    assert data.startswith(b"%PDF")
    assert len(data) > 20_000


def test_many_cases_stay_usable(tmp_path):
    """2000 cases: the failing ones come first, the table and the details end somewhere, the file stays small."""
    template = Folders(tmp_path / "one")
    template.add("one", shape=(4,))
    template.finish()
    cli.main(["compare", str(template.actual), str(template.golden)])
    path = template.actual / "verdicts.json"
    content = json.loads(path.read_text())
    (case,) = content["cases"]
    bad = {"verdict": "fail", "reason": "too far"}
    content["cases"] = [{**case, "id": f"case-{i}", **(bad if i % 40 == 39 else {})} for i in range(2000)]
    path.write_text(json.dumps(content))
    page = tmp_path / "page.html"
    assert cli.main(["report", str(template.actual), "-o", str(page)]) == 0
    text = page.read_text()
    assert len(text) < 500_000
    assert text.count('<th scope="row">case-') == 300
    assert text.count('<span class="v fail">') == 50 + 12
    assert "1700 more cases" in text
    assert "38 more did not pass" in text


def test_verdicts_without_their_arrays(tmp_path, capsys):
    """The tables are there, and a note says why the pictures are not."""
    folders = Folders(tmp_path)
    folders.add("one")
    folders.finish()
    cli.main(["compare", str(folders.actual), str(folders.golden)])
    moved = tmp_path / "moved"
    folders.golden.rename(moved)
    page = tmp_path / "page.html"
    assert cli.main(["report", str(folders.actual), "-o", str(page)]) == 0
    assert "no pictures" in page.read_text()
    assert "<svg" not in page.read_text()
    assert cli.main(["report", str(folders.actual), "-o", str(page), "--expected", str(moved)]) == 0
    assert "<svg" in page.read_text()
    (folders.actual / "verdicts.json").unlink()
    assert cli.main(["report", str(folders.actual), "-o", str(page), "--expected", str(moved)]) == 0
    assert "<svg" in page.read_text()
    capsys.readouterr()
    assert cli.main(["report", str(folders.actual), "-o", str(page)]) == 1
    assert "give --expected" in capsys.readouterr().err


def test_wrong_usage_is_one_line(tmp_path):
    """Status 2 for the command line, 1 for folders that hold nothing to show."""
    empty = tmp_path / "empty"
    empty.mkdir()
    page = tmp_path / "page.html"
    assert_refused(nonpu("report", empty), 2, "--output")
    assert_refused(nonpu("report", tmp_path / "none", "-o", page), 2, "there is no folder")
    assert_refused(nonpu("report", empty, "-o", empty), 2, "must be a file")
    assert_refused(nonpu("report", empty, "-o", tmp_path / "no" / "page.html"), 2, "there is no folder")
    assert_refused(nonpu("report", empty, "-o", page), 1, "run nonpu compare")
    for text in ("", "{", "[]", "{}", '{"cases": [], "expected": 3}', '{"cases": [1], "expected": "x"}', "[" * 5000):
        (empty / "verdicts.json").write_text(text)
        assert_refused(nonpu("report", empty, "-o", page), 1, "verdicts.json")
    assert not page.exists()
    code = "import sys; sys.modules['jinja2'] = None; from nonpu.cli import main;"
    code += f"sys.exit(main(['report', {str(empty)!r}, '-o', {str(page)!r}]))"
    assert_refused(start(sys.executable, "-c", code), 1, "nonpu[verify]", "Jinja2")


CHANGES = [
    {"verdict": "fine"},
    {"measures": None},
    {"measures": {"max_ulp": 1}},
    {"measures": {"max_ulp": "x", "share_exact": "y", "max_abs": 0, "mere": 0, "misplaced_specials": 0, "elements": 1}},
    {"worst": [{}]},
    {"worst": [3]},
    {"shape": ["a"]},
    {"reason": 5},
    {"id": None},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_verdicts_that_are_none_are_refused(tmp_path, capsys, change):
    """One line that names the file and the case."""
    folders = Folders(tmp_path)
    folders.add("one")
    folders.finish()
    cli.main(["compare", str(folders.actual), str(folders.golden)])
    path = folders.actual / "verdicts.json"
    content = json.loads(path.read_text())
    content["cases"][0] |= change
    path.write_text(json.dumps(content))
    capsys.readouterr()
    assert cli.main(["report", str(folders.actual), "-o", str(tmp_path / "page.html")]) == 1
    assert capsys.readouterr().err == f"nonpu: {path}: case 0 is no verdict of nonpu compare\n"


def group_of(values: np.ndarray, errors: np.ndarray) -> survey.Group:
    """Return a group with elements at values and with errors."""
    group = survey.Group("op", "FLOAT", "self")
    np.add.at(group.table, (survey.value_bins(values), survey.unit_bins(errors)), 1)
    return group


def test_columns_by_value_lose_no_element():
    """Whatever values occur: merged, trimmed at the ends and around 0, one-sided, or none but NaN."""
    rng = np.random.default_rng(1)
    for values in (
        rng.normal(size=500),
        rng.uniform(1, 2, 100),
        -rng.uniform(1e-9, 1e9, 100),
        np.exp(rng.normal(size=1000) * 20) * rng.choice([-1, 1], 1000),
        np.array([0.0, -0.0]),
        np.array([math.nan, math.inf]),
        np.array([3.0, math.nan, -1e-30, 1e300]),
    ):
        group = group_of(values, np.resize([0, 0.5, 3, math.inf], values.size))
        columns = charts._columns(group.table)
        assert int(columns.counts.sum()) == values.size
        assert columns.counts.shape[0] <= 60
        places = [place for place, _ in columns.ticks]
        assert all(0 <= place <= columns.counts.shape[0] for place in places)
        assert "<svg" in charts.against_value("x", group)
        assert "<svg" in charts.histogram("y", group)


def test_ticks_stand_where_their_values_are():
    """1.5 lies in a column right of the mark of 1 and left of that of 2."""
    group = group_of(np.array([-8.0, -1.0, 0.3, 1.5, 4.0]), np.array([0, 0, 0, 4.0, 0]))
    columns = charts._columns(group.table)
    marks = {label: place for place, label in columns.ticks}
    (place,) = np.flatnonzero(columns.counts[:, 4])
    assert marks["1"] <= place < marks["2"]
    assert marks["−8"] < marks["−1"] < marks["0"] < marks["1"]


def item_of(expected: np.ndarray, actual: np.ndarray, **inputs: np.ndarray) -> matching.Item:
    """Return arrays as an item."""
    return matching.Item("one", "out", "op", lambda: actual, lambda: expected, lambda: inputs)


@pytest.mark.parametrize(
    ("shape", "place", "cell", "grid"),
    [
        ((8, 16), (7, 15), (7, 15), (8, 16)),
        ((4, 6, 10), (1, 2, 3), (8, 3), (24, 10)),
        ((100, 400), (50, 200), (12, 20), (24, 40)),
        ((1000,), (999,), (23, 39), (24, 40)),
        ((5,), (2,), (0, 2), (1, 5)),
        ((), (), (0, 0), (1, 1)),
    ],
)
def test_the_map_shows_the_place_of_an_error(shape, place, cell, grid):
    """One wrong element colours one block, whatever the rank."""
    expected = np.ones(shape, np.float32)
    actual = expected.copy()
    actual[place] = 1 + 3 * 2.0**-23
    found = survey.places(item_of(expected, actual))
    assert found.grid.shape == grid
    assert found.grid[cell] == 3
    assert np.count_nonzero(found.grid) == 1
    actual[place] = math.nan
    assert charts.map_levels(survey.places(item_of(expected, actual)).grid)[cell] == charts.LEVELS + 1


def test_the_curve_divides_by_the_incoming_gradient():
    """The line is the expected slope, the dots are the actual one, and the error stands under its input."""
    rng = np.random.default_rng(2)
    x, grad = rng.uniform(-4, 4, (50, 40)), rng.normal(size=(50, 40))
    expected = grad * x**2
    actual = expected.copy()
    x[3, 5], grad[3, 5] = 1.0, 1.0
    expected[3, 5], actual[3, 5] = 1.0, 1.0 + 7 * 2.0**-52
    found = survey.curve(item_of(expected, actual, gradOutput=grad, self=x))
    assert found is not None
    assert found.name == "self"
    middles = (found.edges[:-1] + found.edges[1:]) / 2
    assert np.allclose(found.expected, middles**2, atol=0.6)
    assert np.allclose(found.dots[:, 1], found.dots[:, 0] ** 2)
    (wrong,) = np.flatnonzero(found.errors)
    assert found.edges[wrong] <= 1.0 <= found.edges[wrong + 1]
    assert found.errors[wrong] == 7
    assert "<svg" in charts.gradient("x", found)


def test_what_has_no_curve():
    """Complex results, a missing gradient, an input of one value only or none that is finite."""
    ones = np.ones(20)
    assert survey.curve(item_of(ones, ones, self=ones)) is None
    assert survey.curve(item_of(ones + 1j, ones + 1j, gradOutput=ones + 1j, output=ones + 1j)) is None
    assert survey.curve(item_of(ones, ones, gradOutput=ones, self=ones * math.nan)) is None
    for values in (
        ones,
        ones * 100,
        np.array([1e30, -1e30] * 10),
        np.array([5e-324, 0.0] * 10),
        np.linspace(0, 1e-20, 20),
    ):
        found = survey.curve(item_of(ones, ones, gradOutput=ones, self=values))
        assert found is not None
        assert "<svg" in charts.gradient("x", found)
    for results in (ones * 1e308, np.array([1e308, -1e308] * 10), np.array([5e-324, 0.0] * 10)):
        found = survey.curve(item_of(results, ones, gradOutput=ones, self=np.linspace(-1, 1, 20)))
        assert found is not None
        assert "nan" not in charts.gradient("x", found)
