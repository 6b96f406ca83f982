"""``nonpu flags``: what a compiler needs to know."""

from __future__ import annotations

import click


@click.command(short_help="Print compiler and linker flags.")
@click.option("--cflags", is_flag=True, help="Only the compiler's flags.")
@click.option("--libs", is_flag=True, help="Only the linker's flags.")
def command(cflags: bool, libs: bool) -> None:
    """Print the flags that compile and link a program against the stand-in: g++ program.cpp $(nonpu flags)."""
    from nonpu.capi import toolkit

    every = cflags == libs
    words = [*(toolkit.cflags() if cflags or every else ()), *(toolkit.libs() if libs or every else ())]
    click.echo(" ".join(words))
