"""``nonpu verify``: nonpu's own accuracy, measured, with PyTorch's beside it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from nonpu.cli import Failure
from nonpu.cli.bench import FILE, target, write

if TYPE_CHECKING:
    from nonpu.verify.accuracy import Measured

EXTRA = "nonpu verify needs mpmath: install 'nonpu[verify]'"


@click.command(short_help="Measure nonpu's own accuracy, beside PyTorch's.")
@click.argument("operators", nargs=-1, metavar="[OPERATOR]...")
@click.option("--count", type=click.IntRange(1000, 1 << 30), default=1 << 20, show_default=True, help="Size of a set.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Another one draws other arguments.")
@click.option("--workers", type=click.IntRange(1), default=None, help="Processes; the default is one per CPU.")
@click.option("--peers/--no-peers", default=True, help="Whether to measure PyTorch too, where it is installed.")
@click.option("--json", "json_file", type=FILE, callback=target, metavar="FILE", help="Write the results as JSON.")
@click.option("--report", type=FILE, callback=target, metavar="FILE", help="Write the tables as a Markdown page.")
def command(
    operators: tuple[str, ...],
    count: int,
    seed: int,
    workers: int | None,
    peers: bool,
    json_file: str | None,
    report: str | None,
) -> None:
    """Compare every result of the operators with the exact value of their formulas.

    The arguments are the ends of each type, every value of the 16-bit types, bit patterns over the whole range of the
    others and the places where the formula is hard. Ends with 1 if an error is above the bound that the operator's page
    promises, or a special value differs from the documented formula.
    """
    try:
        import mpmath  # noqa: F401
    except ImportError as error:
        raise Failure(EXTRA) from error
    from nonpu.verify import accuracy, accuracy_report

    engines = accuracy.ENGINES if peers and accuracy.torch_available() else ("nonpu",)
    todo = accuracy.jobs(names(operators), count=count, seed=seed, engines=engines)
    results = accuracy.run(todo, workers if workers is not None else len(os.sched_getaffinity(0)), progress)
    if json_file is not None:
        import json

        facts = {"count": count, "seed": seed, "versions": versions(engines), "results": accuracy.as_records(results)}
        write(json_file, json.dumps(facts, indent=1) + "\n")
    if report is None:
        show(accuracy_report.table(results))
    else:
        write(report, accuracy_report.render(results, count=count, seed=seed, versions=versions(engines)))
    judge(results)


def names(chosen: tuple[str, ...]) -> list[str]:
    """Return the Python names of the operators that were asked for; all of them if none was."""
    from nonpu.ops import OPS, find

    if not chosen:
        return [op.python_name for op in OPS]
    found = []
    for name in chosen:
        try:
            found.append(find(name).python_name)
        except ValueError:
            known = ", ".join(op.api for op in OPS)
            raise click.UsageError(f"there is no operator {name!r}; known are {known}") from None
    return list(dict.fromkeys(found))


def progress(done: int, total: int) -> None:
    """Say how far it is, where somebody watches."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{f'{done}/{total}' if done < total else ''}", nl=False, err=True)


def show(rows: list[list[str]]) -> None:
    """Print a table with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def versions(engines: tuple[str, ...]) -> dict[str, str]:
    """Return the releases that matter for the numbers."""
    import importlib.metadata

    import nonpu
    from nonpu.engine import load

    found: dict[str, Any] = {"nonpu": nonpu.__version__, "kernels": load.cpu_level()}
    if "torch" in engines:
        found["PyTorch"] = importlib.metadata.version("torch")
    return found


def judge(results: list[Measured]) -> None:
    """Fail with one line if an operator of ours does not keep what its page promises."""
    from nonpu.verify.accuracy_report import held

    broken = [result for result in results if result.engine == "nonpu" and not held(result)]
    if not broken:
        return
    worst = max(broken, key=lambda result: (result.largest, result.special_wrong))
    detail = (
        f"{worst.special_wrong} of {worst.special} special values are wrong"
        if worst.special_wrong
        else f"{worst.elements - worst.right} of {worst.elements} are not correctly rounded, the worst {worst.worst}"
    )
    raise Failure(f"{worst.operator} {worst.dtype} with scalars {worst.scalars} exceeds its bound: {detail}")
