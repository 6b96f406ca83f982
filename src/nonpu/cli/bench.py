"""``nonpu bench``: the speed of the operators beside the peers that are installed."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from nonpu.cli import Failure


def target(ctx: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """Return the path of a file to write, having made sure that its folder is there: a run takes minutes."""
    folder = "." if path is None else os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise click.BadParameter(f"there is no folder {folder}", ctx, parameter)
    return path


FILE = click.Path(dir_okay=False, writable=True)


@click.command(short_help="Measure the operators beside the peers that are installed.")
@click.option("--json", "json_file", type=FILE, callback=target, metavar="FILE", help="Write the results as JSON.")
@click.option("--quick", is_flag=True, help="A choice of small cases, in less than a minute.")
@click.option(
    "--cases", "pattern", metavar="PATTERN", help="Only cases whose name has a match, as 'swish*/float32' or '16Mi'."
)
@click.option("--list", "only_list", is_flag=True, help="List the names of the cases, and measure nothing.")
@click.option(
    "--from",
    "source",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Take the results of an earlier --json, and measure nothing.",
)
@click.option("--report", type=FILE, callback=target, metavar="FILE", help="Write the tables as a Markdown page.")
@click.option(
    "--plot", type=FILE, callback=target, metavar="FILE", help="Draw time per element over size (.png, .svg)."
)
def command(
    json_file: str | None,
    quick: bool,
    pattern: str | None,
    only_list: bool,
    source: str | None,
    report: str | None,
    plot: str | None,
) -> None:
    """Measure the operators with one and two threads, beside PyTorch, NumExpr and JAX, where these are installed.

    Prints the tables unless --report takes them. Ratios are a peer's time over ours: above 1, nonpu is faster. A full
    run takes some ten minutes.
    """
    if source is not None and (quick or pattern is not None or json_file is not None or only_list):
        raise click.UsageError("--from takes results as they are: it goes with --report and --plot only")
    chosen = [] if source is not None else choose(pattern, quick)
    if only_list:
        click.echo("\n".join(case.name for case in chosen))
        return
    if plot is not None:
        check_plot(plot)
    results = measure(chosen, quick) if source is None else read(source)
    if json_file is not None:
        from nonpu.bench import results as measured

        write(json_file, measured.dump(results))
    if plot is not None:
        from nonpu.bench.plot import draw

        try:
            draw(results, plot)
        except ValueError as error:
            raise Failure(f"--plot: {error}") from error
    from nonpu.bench.report import render

    if report is None:
        click.echo(render(results), nl=False)
        return
    beside = None if plot is None else os.path.relpath(plot, os.path.dirname(os.path.abspath(report)))
    write(report, render(results, beside))


def choose(pattern: str | None, quick: bool) -> list[Any]:
    """Return the cases that the options ask for."""
    from nonpu.bench.cases import CASES, select

    chosen = select(pattern, quick)
    if not chosen:
        where = "the quick ones" if quick else "all"
        raise click.UsageError(f"--cases: {pattern!r} matches none of {where}; names are like {CASES[0].name}")
    return chosen


def check_plot(path: str) -> None:
    """Refuse at once what would fail after the run."""
    from nonpu.bench import plot

    if os.path.splitext(path)[1] not in (".png", ".svg", ".pdf"):
        raise click.UsageError(f"--plot: the name must end with .png, .svg or .pdf (got {path})")
    if not plot.available():
        raise Failure("--plot needs matplotlib: install 'nonpu[verify]'")


def measure(chosen: list[Any], quick: bool) -> dict[str, Any]:
    """Run the cases, with a line of progress where somebody watches."""
    from nonpu.bench import session

    watched = sys.stderr.isatty()

    def progress(done: int, total: int, name: str) -> None:
        if watched:
            click.echo(f"\r\x1b[K{f'{done + 1}/{total} {name}' if name else ''}", nl=False, err=True)

    try:
        return session.run(chosen, session.QUICK if quick else session.FULL, progress=progress)
    except session.WorkerError as error:
        raise Failure(str(error)) from error


def read(path: str) -> dict[str, Any]:
    """Return the results in a file."""
    from nonpu.bench import results

    try:
        return results.load(path)
    except ValueError as error:
        raise Failure(f"{path} holds no results of nonpu bench: {error}") from error


def write(path: str, text: str) -> None:
    """Write a file."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
