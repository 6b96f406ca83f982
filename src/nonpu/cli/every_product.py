"""``nonpu run --product all``: one run per product line, and a table of what each did."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap

import click

from nonpu import products
from nonpu.cli import Failure
from nonpu.cli.launch import environment

# A file to which the library appends the text of every failing call.
ERRORS = "NONPU_ERRORS"
# How the report of --check begins, and the exit status that goes with it.
REPORT = "nonpu check: "
MISUSE = 99


class Run:
    """What a program did on one product.

    Attributes
    ----------
    line : str
        Short name of the product line.
    status : int
        Exit status, 128 + n after signal n.
    output : str
        What it printed, to stdout and stderr.
    error : str
        With --check, what is wrong first; else the text of the first call that failed; of a program that failed without
        one, the last line that it printed.
    """

    __slots__ = ("error", "line", "output", "status")

    def __init__(self, line: str, status: int, output: str, errors: str) -> None:
        self.line = line
        self.status = status
        self.output = output
        self.error = first_line(errors)
        if status == MISUSE and REPORT in output:
            self.error = first_misuse(output)
        if status and not self.error:
            self.error = first_line("\n".join(reversed(output.splitlines()))) or ended_by(status)


def folded(text: str, indent: int) -> str:
    """Return a text in the last column of a terminal; what another program reads stays one line."""
    if not sys.stdout.isatty():
        return text
    return f"\n{' ' * indent}".join(textwrap.wrap(text, max(shutil.get_terminal_size().columns - indent, 30)))


def first_line(text: str) -> str:
    """Return the first line that is not blank."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def first_misuse(output: str) -> str:
    """Return the first line of the report of --check, and what is wrong first."""
    lines = output[output.index(REPORT) :].splitlines()
    first = next((line for line in lines if line.startswith("1. ")), "1. ")
    return f"{lines[0]}; first: {first[3:]}"


def ended_by(status: int) -> str:
    """Return in words how a program ended that says nothing itself."""
    return (
        f"ended by signal {status - 128} ({signal.strsignal(status - 128)})" if status > 128 else "ended without a word"
    )


def run_on_every_product(argv: list[str], name: str, check: bool = False) -> int:
    """Run a program once per product line, print the table, and return 0 if every run ended with 0, else 1."""
    width = max(len(line.soc) for line in products.LINES)
    click.echo(f"{'product':8} {'SoC':{width}} {'exit':>4}  first error")
    runs = []
    for line in products.LINES:
        run = run_on(argv, line, name, check)
        start = f"{line.line:8} {line.soc:{width}} {run.status:4}  "
        click.echo(start + folded(run.error or "-", len(start)))
        runs.append(run)
    for text, names in by_output(runs).items():
        click.echo(f"\noutput on {', '.join(names)}:" if text else f"\nno output on {', '.join(names)}")
        for row in text.splitlines():
            click.echo(f"  {row}".rstrip())
    return int(any(run.status for run in runs))


def run_on(argv: list[str], line: products.Product, name: str, check: bool) -> Run:
    """Run a program on one product and keep what it prints.

    Raises
    ------
    Failure
        If it cannot be run.
    """
    with tempfile.NamedTemporaryFile(prefix="nonpu-errors-") as errors:
        env = {**environment(line.soc, check), ERRORS: errors.name}
        try:
            finished = subprocess.run(
                argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        except OSError as error:
            raise Failure(f"{name} cannot be run: {os.strerror(error.errno or 0)}") from error
        texts = errors.read().decode("utf-8", "replace")
    status = finished.returncode if finished.returncode >= 0 else 128 - finished.returncode
    return Run(line.line, status, finished.stdout.decode("utf-8", "replace"), texts)


def by_output(runs: list[Run]) -> dict[str, list[str]]:
    """Return the product lines by what the program printed there; each text once, in order of appearance."""
    found: dict[str, list[str]] = {}
    for run in runs:
        found.setdefault(run.output.rstrip("\n"), []).append(run.line)
    return found
