"""``nonpu run``: compile a program if need be, and run it against the stand-in."""

from __future__ import annotations

import os

import click

from nonpu.cli import Failure
from nonpu.cli.compilation import LANGUAGES, compiled
from nonpu.cli.launch import environment, launch
from nonpu.cli.product import EVERY, product_or_all_option


@click.command(short_help="Compile and run a program.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@product_or_all_option
@click.option("--check", is_flag=True, help="Report misuse of the C functions; exit with 99 if there is any.")
@click.argument("arguments", metavar="[-- ARGS]", nargs=-1, type=click.UNPROCESSED)
def command(file: str, product: str | None, check: bool, arguments: tuple[str, ...]) -> int:
    """Run FILE against the toolkit stand-in, with ARGS.

    A .c file is compiled first as C, with $CC if set, and a .cc, .cpp, .cxx or .C file as C++, with $CXX if set; the
    flags are -O2 -g -pthread, the stand-in's, and then those of $CFLAGS or $CXXFLAGS. The result is kept below
    $XDG_CACHE_HOME until the file, one of its own headers, the compiler, the flags or the stand-in changes. A .py file
    runs with this Python. Anything else is run as it is. The exit status is the program's, 128 + n after signal n.

    With --check the program runs with NONPU_CHECK=1: at its end what it did wrong is reported on stderr, with the place
    in its source, and the exit status is 99 if there was misuse and the program itself ended with 0. --check changes
    nothing that a correct program can see.

    With --product all the program runs once per product line, without input. A table shows the exit status and the
    first error of each run, and below it stands what the runs printed, once where it is the same. The exit status is
    then 0 if every run ended with 0, else 1.
    """
    argv = command_of(file)
    if product == EVERY:
        from nonpu.cli.every_product import run_on_every_product

        return run_on_every_product([*argv, *arguments], file, check)
    try:
        return launch([*argv, *arguments], environment(product, check), file)
    except OSError as error:
        raise Failure(f"{file} cannot be run: {error.strerror}") from error


def command_of(file: str) -> list[str]:
    """Return the words that run a file, which is compiled first if need be."""
    kind = os.path.splitext(file)[1]
    if kind in LANGUAGES:
        return [compiled(file)]
    if kind == ".py":
        import sys

        return [sys.executable, file]
    if not os.access(file, os.X_OK):
        raise click.UsageError(f"{file} is not executable, and no source file ({', '.join(LANGUAGES)}, .py)")
    return [os.path.abspath(file)]
