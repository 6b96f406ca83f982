"""``nonpu home``: where the stand-in is."""

from __future__ import annotations

import click


@click.command(short_help="Print the path of the toolkit stand-in.")
def command() -> None:
    """Print the path of the toolkit stand-in: include/, lib64/, set_env.sh."""
    from nonpu.capi import toolkit

    click.echo(toolkit.home())
