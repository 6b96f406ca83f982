"""``nonpu flags``: what a compiler needs to know."""

from __future__ import annotations

import click


@click.command(short_help="Print compiler and linker flags.")
@click.option("--cflags", is_flag=True, help="Only the compiler's flags.")
@click.option("--libs", is_flag=True, help="Only the linker's flags.")
def command(cflags: bool, libs: bool) -> None:
    """Print the flags that compile and link a program against the stand-in: g++ program.cpp $(nonpu flags).

    Where a path has a space, the flags are quoted for a shell, and a warning says so: $(nonpu flags) alone would split
    them, but eval "g++ program.cpp $(nonpu flags)" and the recipes of a Makefile read them rightly.
    """
    import shlex

    from nonpu.capi import toolkit

    every = cflags == libs
    words = [*(toolkit.cflags() if cflags or every else ()), *(toolkit.libs() if libs or every else ())]
    click.echo(shlex.join(words))
    if any(len(word.split()) > 1 for word in words):
        click.echo(
            f"nonpu: warning: {toolkit.home()} contains a space, so the flags are quoted: unquoted use as in $(nonpu"
            " flags) splits them; use eval",
            err=True,
        )
