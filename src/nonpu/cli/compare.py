"""``nonpu compare``: the verdict on what a device produced."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nonpu.cli import Failure
from nonpu.cli.verification import bar, extra

if TYPE_CHECKING:
    from nonpu.verify.matching import Comparison

PATH = click.Path(path_type=Path)


@click.command(short_help="Judge results against goldens under a named standard.")
@click.argument("actual", type=PATH, required=False)
@click.argument("expected", type=PATH, required=False)
@click.option("--standard", metavar="NAME", help="The standard; 'list' prints all of them with their sources.")
@click.option("--standards", "only_list", is_flag=True, help="Print all standards with their sources, and end.")
@click.option("--json", "json_file", type=PATH, metavar="FILE", help="Write the verdicts as JSON; '-' prints them.")
@click.option("--worst", type=click.IntRange(0, 1000), metavar="N", help="Worst elements to list per case (5).")
@click.option("--only", multiple=True, metavar="ID", help="Judge this case only; may be given several times.")
@click.option("--dtype", metavar="NAME", help="Type of the elements where a file does not tell it (.bin, bfloat16).")
def command(
    actual: Path | None,
    expected: Path | None,
    standard: str | None,
    only_list: bool,
    json_file: Path | None,
    worst: int | None,
    only: tuple[str, ...],
    dtype: str | None,
) -> int:
    """Judge ACTUAL, what a device produced, against EXPECTED, what `nonpu golden` wrote.

    Both are folders with one file per case, or both single files: .npz, .npy, .bin, .safetensors or .pt. Every case
    passes, fails, is untrusted (an output that was never written, for example) or is in error (missing, unreadable,
    of another shape or type). The verdicts are also written to ACTUAL/verdicts.json if ACTUAL is a folder and there
    is no --only.

    The exit status is 0 if all cases pass, 1 if one does not, 2 for a wrong command line.
    """
    with extra("nonpu compare"):
        from nonpu.verify import standards
    if only_list or standard == "list":
        click.echo(standards.render())
        return 0
    if actual is None or expected is None:
        raise click.UsageError(f"compare: {'ACTUAL' if actual is None else 'EXPECTED'} is missing")
    if json_file is not None and str(json_file) != "-" and not json_file.absolute().parent.is_dir():
        raise click.UsageError(f"--json: there is no folder {json_file.absolute().parent}")
    try:
        chosen = None if standard is None else standards.find(standard).name
    except ValueError as error:
        raise click.UsageError(f"--standard: {error}") from error
    with extra("nonpu compare"):
        content = judge(actual, expected, chosen, worst, only, dtype)
    return report(content, None if only else actual, json_file)


def judge(
    actual: Path, expected: Path, standard: str | None, worst: int | None, only: tuple[str, ...], dtype: str | None
) -> dict[str, Any]:
    """Return the document of verdicts."""
    from nonpu.verify import compare

    comparison = matched(actual, expected, only, dtype)
    with bar("comparing", comparison.total) as step:
        most = compare.WORST if worst is None else worst
        verdicts = compare.compare(comparison, standard, worst=most, progress=lambda _verdict: step())
    return compare.document(verdicts, comparison, standard, actual, expected)


def matched(actual: Path, expected: Path, only: tuple[str, ...], dtype: str | None) -> Comparison:
    """Return what belongs together, or refuse in one line."""
    from nonpu.dtypes import DType
    from nonpu.verify import matching, standards
    from nonpu.verify.cases import FieldError, parse_dtype
    from nonpu.verify.store import StoreError

    if dtype is not None:
        try:
            dtype = parse_dtype(dtype, "--dtype").python_name
            known = DType.parse(dtype) in standards.JUDGED
        except FieldError:
            known = False
        if not known:
            names = ", ".join(member.python_name for member in standards.JUDGED)
            raise click.UsageError(f"--dtype: must be one of {names} (got {dtype!r})")
    try:
        return matching.match(actual, expected, dtype=dtype, only=frozenset(only))
    except StoreError as error:
        raise Failure(str(error)) from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def report(content: dict[str, Any], actual: Path | None, json_file: Path | None) -> int:
    """Print the verdicts, write them to their files, that in `actual` too, and return the exit status."""
    from nonpu.verify import compare, listing, matching

    for note in content["notes"]:
        click.echo(f"nonpu: note: {note}", err=True)
    if actual is not None and actual.is_dir():
        try:
            compare.write(actual / matching.VERDICTS, content)
        except OSError as error:
            click.echo(f"nonpu: note: {actual / matching.VERDICTS}: not written ({error.strerror})", err=True)
    if json_file is None:
        show(listing.render(content))
    elif str(json_file) == "-":
        show(compare.as_text(content).removesuffix("\n"))
    else:
        compare.write(json_file, content)
        show(listing.render(content))
    return 0 if all(case["verdict"] == compare.PASS for case in content["cases"]) else 1


def show(text: str) -> None:
    """Print a text that may hold names of files that are no Unicode."""
    from nonpu.verify.store import UNENCODABLE

    click.echo(text.encode("utf-8", UNENCODABLE))
