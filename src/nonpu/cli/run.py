"""``nonpu run``: compile a program if need be, and run it against the stand-in."""

from __future__ import annotations

import os

import click

from nonpu.cli import Failure
from nonpu.cli.compilation import LANGUAGES, compiled
from nonpu.cli.launch import environment, launch
from nonpu.cli.product import product_option


@click.command(short_help="Compile and run a program.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@product_option
@click.argument("arguments", metavar="[-- ARGS]", nargs=-1, type=click.UNPROCESSED)
def command(file: str, product: str | None, arguments: tuple[str, ...]) -> int:
    """Run FILE against the toolkit stand-in, with ARGS.

    A .c file is compiled first as C, with $CC if set, and a .cc, .cpp, .cxx or .C file as C++, with $CXX if set; the
    flags are -O2 -g -pthread, the stand-in's, and then those of $CFLAGS or $CXXFLAGS. The result is kept below
    $XDG_CACHE_HOME until the file, one of its own headers, the compiler, the flags or the stand-in changes. A .py file
    runs with this Python. Anything else is run as it is. The exit status is the program's, 128 + n after signal n.
    """
    kind = os.path.splitext(file)[1]
    if kind in LANGUAGES:
        return launch([compiled(file), *arguments], environment(product), file)
    if kind == ".py":
        import sys

        return launch([sys.executable, file, *arguments], environment(product), file)
    if not os.access(file, os.X_OK):
        raise click.UsageError(f"{file} is not executable, and no source file ({', '.join(LANGUAGES)}, .py)")
    try:
        return launch([os.path.abspath(file), *arguments], environment(product), file)
    except OSError as error:
        raise Failure(f"{file} cannot be run: {error.strerror}") from error
