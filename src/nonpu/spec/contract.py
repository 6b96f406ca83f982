"""The contract of one operator as text and as HTML, from what ``Op.describe`` says."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

WIDTH = 100
# No colours of our own: text and lines take the notebook's, light or dark.
STYLE = (
    "<style>"
    ".nonpu-contract table{border-collapse:collapse;margin:.5em 0;font-size:inherit}"
    ".nonpu-contract th,.nonpu-contract td{text-align:left!important;vertical-align:top;padding:.2em .6em;"
    "border-bottom:1px solid color-mix(in srgb,currentColor 25%,transparent);"
    "background:transparent!important;color:inherit}"
    ".nonpu-contract pre{white-space:pre-wrap;background:transparent!important;color:inherit}"
    "</style>"
)


def declaration(name: str, parameters: Iterable[tuple[str, str]]) -> str:
    """Return the C declaration of one phase, a parameter per line."""
    lines = [c_type + title if c_type.endswith("*") else f"{c_type} {title}" for c_type, title in parameters]
    return f"aclnnStatus {name}(\n    " + ",\n    ".join(lines) + ");"


def signature(facts: dict[str, Any]) -> str:
    """Return the signature of the one-call function."""
    words = ["*", "out=None", "product=None"]
    for parameter in reversed([entry for entry in facts["parameters"] if entry["role"] == "in"]):
        name = parameter["python_name"]
        if parameter["optional"]:
            words.insert(0, f"{name}=None")
        elif parameter.get("default") is not None:
            words.insert(0, f"{name}={parameter['default']}")
        else:
            words.insert(0, name)
    return f"nonpu.{facts['python_name']}({', '.join(words)})"


def types(parameter: dict[str, Any]) -> str:
    """Return the data types of a parameter as text."""
    if parameter["kind"] == "flag":
        return "bool"
    if parameter.get("castable_to") is not None:
        return f"any that converts to {parameter['castable_to']}"
    return ", ".join(parameter["dtypes"])


def further(parameter: dict[str, Any]) -> str:
    """Return the sentences on data types beyond the list."""
    sentences = []
    if parameter.get("converted_dtypes"):
        sentences.append(f"By conversion also {', '.join(parameter['converted_dtypes'])}.")
    if parameter.get("one_call_dtypes"):
        sentences.append(f"In the one-call function also {', '.join(parameter['one_call_dtypes'])}.")
    return " ".join(sentences)


def exactness(bound: float) -> str:
    """Return the words for a bound of the error."""
    return "0.5 ULP: correctly rounded" if bound == 0.5 else f"{bound:g} ULP"


def render_text(facts: dict[str, Any]) -> str:
    """Return the terminal text of ``nonpu ops NAME`` for what ``Op.describe`` said."""
    product = facts["product"]
    support = "supported" if facts["supported"] else "not supported"
    lines = [
        f"{facts['api']}  ({facts['header']})",
        f"{facts['text']}",
        "",
        f"{product['soc']} ({product['name']}): {support}",
        "",
        declaration(facts["api"] + "GetWorkspaceSize", facts["c_phase_one"]),
        declaration(facts["api"], facts["c_phase_two"]),
        signature(facts),
        "",
        "Formula (LaTeX)",
        *wrap(facts["formula"]),
        "",
        "Parameters",
    ]
    width = max(len(parameter["name"]) for parameter in facts["parameters"])
    for parameter in facts["parameters"]:
        optional = ", null allowed" if parameter["optional"] else ""
        lines.append(f"  {parameter['name']:{width}}  {parameter['role']}, {parameter['kind']}{optional}")
        for sentence in (parameter["text"], f"Types: {types(parameter)}. {further(parameter)}".strip()):
            lines += wrap(sentence, width + 4)
    lines += ["", "Shapes", *wrap(f"{facts['shape_rule']} Rank {facts['rank'][0]} to {facts['rank'][1]}.")]
    lines += ["", f"nonpu.{facts['python_name']} also accepts"]
    lines += [line for sentence in facts["one_call"] for line in wrap(sentence)]
    lines += ["", "Checks, in this order"]
    for check in facts["checks"]:
        first, *rest = wrap(check["sentence"], 10)
        lines += [f"  {check['status']:6}  {first.lstrip()}", *rest]
    lines += ["", "Accuracy (largest error for finite arguments, by promoted type)"]
    lines += [f"  {name:10}  {exactness(bound)}" for name, bound in facts["accuracy"].items()]
    for title, sentences in (("Notes", facts["notes"]), ("Differs from the device", facts["differences"])):
        if sentences:
            lines += ["", title, *(line for sentence in sentences for line in wrap(sentence))]
    return "\n".join(lines)


def wrap(text: str, indent: int = 2) -> list[str]:
    """Return ``text`` as indented lines."""
    import textwrap

    blank = " " * indent
    return textwrap.wrap(
        text, WIDTH, initial_indent=blank, subsequent_indent=blank, break_long_words=False, break_on_hyphens=False
    )


def render_html(facts: dict[str, Any]) -> str:
    """Return the contract for a notebook."""
    from html import escape

    product = facts["product"]
    support = "supported" if facts["supported"] else "not supported"
    parameters = [
        (
            f"<code>{escape(parameter['name'])}</code>",
            escape(f"{parameter['role']}, {parameter['kind']}{', null allowed' if parameter['optional'] else ''}"),
            escape(f"{parameter['text']} {further(parameter)}".strip()),
            escape(types(parameter)),
        )
        for parameter in facts["parameters"]
    ]
    checks = [
        (str(number), escape(check["sentence"]), str(check["status"])) for number, check in enumerate(facts["checks"])
    ]
    parts = [
        f"<h3>{escape(facts['api'])}</h3><p>{escape(facts['text'])}</p>",
        f"<p>{escape(product['soc'])} ({escape(product['name'])}): {support}</p>",
        f"<pre>{escape(signature(facts))}</pre>",
        f"<p>$${escape(facts['formula'])}$$</p>",
        _table(("parameter", "role", "meaning", "data types"), parameters),
        f"<p>{escape(facts['shape_rule'])} Rank {facts['rank'][0]} to {facts['rank'][1]}.</p>",
        f"<p><code>nonpu.{escape(facts['python_name'])}</code> also accepts:</p>{_bullets(facts['one_call'])}",
        "<p>Checks, in this order:</p>",
        _table(("#", "must hold", "status"), checks),
    ]
    for title, sentences in (("Notes", facts["notes"]), ("Differs from the device", facts["differences"])):
        if sentences:
            parts.append(f"<p>{title}:</p>{_bullets(sentences)}")
    return f'{STYLE}<div class="nonpu-contract">{"".join(parts)}</div>'


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{cell}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _bullets(sentences: Iterable[str]) -> str:
    from html import escape

    return f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)}</ul>"
