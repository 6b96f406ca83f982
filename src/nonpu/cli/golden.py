"""``nonpu golden``: inputs and correct results of the cases in a file."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from nonpu.cli import Failure
from nonpu.cli.product import product_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from nonpu.verify.campaign import Outcome
    from nonpu.verify.request import Request

FORMATS = ("npz", "npy", "bin", "safetensors", "pt")
INTERRUPTED = 130


@click.command(short_help="Make inputs and correct results of the cases in a file.")
@click.argument("cases", type=click.Path(exists=True, dir_okay=False))
@click.option("-o", "--output", "folder", required=True, type=click.Path(file_okay=False), metavar="DIR", help="Where.")
@click.option("--format", type=click.Choice(FORMATS), default="npz", show_default=True, help="Kind of the array files.")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="In place of the file's own seed, or of 0.")
@product_option
@click.option("--only", multiple=True, metavar="ID", help="Only this case; may be given several times.")
@click.option("--workers", type=click.IntRange(1, 1024), metavar="N", help="Share the work among N processes.")
@click.option("--scheduler", metavar="ADDRESS", help="Send the work to a Dask cluster, as tcp://host:8786.")
@click.option("--resume", is_flag=True, help="Go on with a folder whose making was broken off.")
@click.option(
    "--chunk",
    type=click.IntRange(min=1),
    metavar="N",
    help="Make cases of more than N elements part by part, into .npy files (4194304).",
)
def command(
    cases: str,
    folder: str,
    format: str,
    seed: int | None,
    product: str | None,
    only: tuple[str, ...],
    workers: int | None,
    scheduler: str | None,
    resume: bool,
    chunk: int | None,
) -> int:
    """Make the inputs and the correct results of the cases in CASES (.json, .jsonl or .csv).

    DIR gets manifest.json, cases.jsonl with a line for each case, and the arrays under data. The exit status is 1 if a
    case failed; cases that the contract refuses are recorded with their status and are no failure.
    """
    if workers is not None and scheduler is not None:
        raise click.UsageError("--workers starts processes here, --scheduler uses those of a cluster: give one of them")
    check_extras(format, workers is not None or scheduler is not None)
    from nonpu.verify import campaign
    from nonpu.verify.casefiles import read_cases
    from nonpu.verify.cases import CaseError
    from nonpu.verify.store import StoreError

    try:
        requests, defaults = read_cases(cases, seed, product)
    except CaseError as error:
        raise Failure(str(error)) from error
    requests = chosen(requests, only)
    manifest = {
        "nonpu": release(),
        "kind": "golden",
        "format": format,
        "seed": defaults.seed,
        "product": defaults.product,
        "cases_file": os.path.basename(cases),
        "cases_path": cases,
        "cases_digest": digest(cases),
        "count": len(requests),
    }
    limit = campaign.CHUNK if chunk is None else chunk
    try:
        with runner(workers, scheduler) as run, bar(len(requests)) as progress:
            outcome = campaign.make_folder(
                folder, requests, manifest, resume=resume, chunk=limit, runner=run, progress=progress
            )
    except StoreError as error:
        raise Failure(str(error)) from error
    except KeyboardInterrupt:
        click.echo(f"nonpu: interrupted; {folder} keeps the finished cases: go on with --resume", err=True)
        return INTERRUPTED
    return summary(folder, outcome)


def summary(folder: str, outcome: Outcome) -> int:
    """Print how many cases ended how, and return the exit status."""
    noun = "case" if outcome.count == 1 else "cases"
    parts = [f"{outcome.done} done", f"{outcome.refused} refused by the contract", f"{outcome.failed} failed"]
    click.echo(f"{folder}: {outcome.count} {noun}: {', '.join(parts)}")
    if outcome.failed:
        raise Failure(
            f"{outcome.failed} of {outcome.count} {noun} failed: {os.path.join(folder, 'cases.jsonl')} says why"
        )
    return 0


def check_extras(format: str, is_distributed: bool) -> None:
    """Say in one line which extra is missing, before anything is done."""
    from importlib.util import find_spec

    needed = [("mpmath", "verify", "nonpu golden")]
    if format == "pt":
        needed.append(("torch", "torch", "--format pt"))
    if is_distributed:
        needed.append(("distributed", "dask", "--workers and --scheduler"))
    for module, extra, what in needed:
        try:
            found = find_spec(module)
        except ImportError:
            found = None
        if found is None:
            raise Failure(f"{what}: needs {module}: install 'nonpu[{extra}]'")


def chosen(requests: list[Request], only: tuple[str, ...]) -> list[Request]:
    """Return the cases that ``--only`` names, all without it."""
    known = {request.id for request in requests}
    for name in only:
        if name not in known:
            raise click.BadParameter(f"no case {name!r} in the file", param_hint="--only")
    return [request for request in requests if not only or request.id in only]


def release() -> str:
    """Return the installed release."""
    from importlib.metadata import version

    return version("nonpu")


def digest(path: str) -> str:
    """Return a digest of a file's contents: a changed case file is not the one to go on with."""
    from hashlib import blake2b

    with open(path, "rb") as file:
        return blake2b(file.read(), digest_size=8).hexdigest()


def runner(workers: int | None, scheduler: str | None) -> AbstractContextManager[Any]:
    """Return a context whose value runs tasks: in this process, or on a cluster."""
    from contextlib import contextmanager, nullcontext

    from nonpu.verify import campaign

    if workers is None and scheduler is None:
        return nullcontext(campaign.serially)

    @contextmanager
    def on_cluster() -> Iterator[Any]:
        from nonpu.verify.cluster import Cluster, ClusterError

        try:
            with Cluster(1 if workers is None else workers, scheduler) as cluster:
                yield cluster.run
        except ClusterError as error:
            raise Failure(str(error)) from error

    return on_cluster()


def bar(total: int) -> AbstractContextManager[Callable[[int, int], None]]:
    """Return a context whose value is told of progress, and shows it on stderr if that is a terminal."""
    from contextlib import contextmanager, nullcontext
    from importlib.util import find_spec

    def silent(cases: int, elements: int) -> None:
        del cases, elements

    if not sys.stderr.isatty() or find_spec("rich") is None:
        return nullcontext(silent)

    @contextmanager
    def shown() -> Iterator[Callable[[int, int], None]]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("cases"), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task("", total=total)

            def advance(cases: int, elements: int) -> None:
                del elements
                progress.advance(task, cases)

            yield advance

    return shown()
