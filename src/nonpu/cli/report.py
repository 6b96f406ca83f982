"""``nonpu report``: verdicts and errors as one HTML page."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nonpu.cli import Failure
from nonpu.cli.verification import bar, extra

if TYPE_CHECKING:
    from collections.abc import Callable

PATH = click.Path(path_type=Path)


@click.command(short_help="Show verdicts and errors as one HTML page.")
@click.argument("folder", type=PATH, metavar="DIR")
@click.option("-o", "--output", type=PATH, required=True, metavar="FILE", help="The page to write.")
@click.option("--expected", type=PATH, metavar="DIR", help="The golden folder, where DIR does not tell.")
def command(folder: Path, output: Path, expected: Path | None) -> None:
    """Write one self-contained HTML page on DIR.

    DIR is a folder that `nonpu compare` judged (ACTUAL, with verdicts.json), or one that it has yet to judge (then
    --expected names the goldens), or a golden folder alone: its page shows what the documented formula gives in
    floating-point arithmetic against the goldens.
    """
    if not output.absolute().parent.is_dir():
        raise click.UsageError(f"--output: there is no folder {output.absolute().parent}")
    if output.is_dir():
        raise click.UsageError(f"--output: must be a file (got the folder {output})")
    if not folder.is_dir():
        raise click.UsageError(f"DIR: there is no folder {folder}")
    if expected is not None and not expected.is_dir():
        raise click.UsageError(f"--expected: there is no folder {expected}")
    with extra("nonpu report"), ExitStack() as stack:
        import jinja2  # noqa: F401  # before the work, not after it

        from nonpu.verify.store import replace_file

        text = page(folder, expected, stack)
    replace_file(output, text)
    click.echo(f"{output}: {output.stat().st_size / 1000:.0f} kB")


def page(folder: Path, expected: Path | None, stack: ExitStack) -> str:
    """Return the page, with a bar while cases are compared and while their arrays are read."""
    from nonpu.verify import page as pages
    from nonpu.verify.store import StoreError

    def progress(total: int) -> Callable[[], None]:
        return stack.enter_context(bar("comparing", total))

    try:
        found: Any = pages.source(folder, expected, progress)
    except StoreError as error:
        raise Failure(str(error)) from error
    with bar("reading", len(found.items)) as step:
        return pages.render(found, step)
