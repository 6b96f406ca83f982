"""What the commands of verification have in common: their extra, and a bar on long work."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nonpu.cli import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Distributions of the extra by the names of their modules.
_EXTRA = {"mpmath": "mpmath", "jinja2": "Jinja2", "rich": "rich"}
_WORTH_A_BAR = 20


@contextmanager
def extra(command: str) -> Iterator[None]:
    """Turn the lack of a distribution of the extra ``verify`` into one line that names it."""
    try:
        yield
    except ImportError as error:
        missing = _EXTRA.get((error.name or "").partition(".")[0])
        if missing is None:
            raise
        raise Failure(f"{command} needs {missing}: install 'nonpu[verify]'") from error


@contextmanager
def bar(title: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar on a terminal while `total` steps are done; the function that is given tells of one step."""
    if total < _WORTH_A_BAR or not sys.stderr.isatty():
        yield lambda: None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        yield lambda: None
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda: progress.advance(task)
