"""The command ``nonpu``.

Each command is a module of this package that defines ``command``. Modules are imported when their command is used, and
they import what they need inside the function, so that ``nonpu run`` starts a compiled program without NumPy.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

COMMANDS = ("run", "home", "flags", "ops", "golden", "compare", "report", "bench", "verify", "doctor")


class Failure(click.ClickException):
    """Something outside the command line went wrong: one line on stderr, exit status 1."""

    exit_code = 1


class Commands(click.Group):
    """The group that imports a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which the help lists them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"nonpu.cli.{cmd_name}").command
        return command


def print_version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    """Print the release and end, if the option was given."""
    if value:
        from importlib.metadata import version

        click.echo(f"nonpu {version('nonpu')}")
        ctx.exit()


@click.group(
    cls=Commands,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=print_version, help="Print it.")
def group() -> None:
    """Run aclnn programs, in C, C++ and Python, on this machine's CPU."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status: 2 after wrong usage, 1 after a failure."""
    try:
        status: Any = group.main(arguments, prog_name="nonpu", standalone_mode=False)
    except click.ClickException as error:
        return refuse(error.format_message(), error.exit_code)
    except OSError as error:
        # It may be the output that cannot be written; the interpreter would try, and complain, once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        text = str(error) if error.strerror is None else error.strerror
        return refuse(text if error.filename is None else f"{error.filename}: {text}", Failure.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return 130
    return status if isinstance(status, int) else 0


def refuse(text: str, status: int) -> int:
    """Print the one line of an error and return its exit status."""
    click.echo(f"nonpu: {' '.join(text.split())}", err=True)
    return status
