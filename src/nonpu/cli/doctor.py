"""``nonpu doctor``: what is installed, what is missing, and how to mend it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from typing import NamedTuple

import click

BUILD_AGAIN = "install nonpu again (in its source tree: make clean run)"


class Finding(NamedTuple):
    """What one check found out; ``remedy`` is empty where nothing is missing."""

    detail: str
    remedy: str = ""


class Check(NamedTuple):
    """One line of the report. Without an optional thing nonpu works, with fewer features."""

    title: str
    look: Callable[[], Finding]
    required: bool = True


def python() -> Finding:
    """Report the interpreter."""
    return Finding(f"{platform.python_version()} at {sys.executable}")


def package() -> Finding:
    """Report the package."""
    import nonpu

    return Finding(f"{release('nonpu')} at {os.path.dirname(nonpu.__file__)}")


def stand_in() -> Finding:
    """Report the toolkit directory."""
    from nonpu.capi import toolkit

    library = os.path.join(toolkit.home(), "lib64", "libascendcl.so")
    return Finding(str(toolkit.home()), "" if os.path.exists(library) else f"{library} is missing: {BUILD_AGAIN}")


def kernels() -> Finding:
    """Report the CPU level that the kernels are chosen for."""
    from nonpu.engine import load

    return Finding(f"level {load.cpu_level()} on {platform.machine()}")


def call() -> Finding:
    """Report the outcome of a call whose result is known: Swish has slope 1/2 at 0."""
    import numpy as np

    import nonpu

    (slope,) = nonpu.swish_backward(np.ones(1, np.float32), np.zeros(1, np.float32))
    return Finding(f"swish_backward(1, 0) = {slope}", "" if slope == 0.5 else f"it should be 0.5: {BUILD_AGAIN}")


def product() -> Finding:
    """Report the product that NONPU_PRODUCT selects."""
    from nonpu import products

    try:
        chosen = products.current()
    except ValueError as error:
        return Finding("unknown", f"{error}: set NONPU_PRODUCT to one of these, or unset it")
    return Finding(f"{chosen.soc} ({chosen.name})")


def compiler(name: str) -> Finding:
    """Report the compiler for ``nonpu run``."""
    from nonpu.cli import Failure, compilation

    try:
        command = compilation.find_compiler(compilation.C if name == "C" else compilation.CPP)
    except Failure as error:
        return Finding("none", error.message)
    return Finding(" ".join(command))


def cache() -> Finding:
    """Report where ``nonpu run`` keeps what it compiled."""
    from nonpu.cli.compilation import cache_folder

    folder = existing = cache_folder()
    while not os.path.exists(existing):
        existing = os.path.dirname(existing)
    writable = os.path.isdir(existing) and os.access(existing, os.W_OK)
    return Finding(folder, "" if writable else "it is not writable: set XDG_CACHE_HOME to a folder that is")


def release(distribution: str) -> str:
    """Return the installed release of a distribution."""
    from importlib.metadata import version

    return version(distribution)


def extra(name: str, *distributions: str) -> Finding:
    """Report the distributions of an extra."""
    from importlib.metadata import PackageNotFoundError

    found, missing = [], []
    for distribution in distributions:
        try:
            found.append(f"{distribution} {release(distribution)}")
        except PackageNotFoundError:
            missing.append(distribution)
    detail = ", ".join([*found, *(f"no {distribution}" for distribution in missing)])
    return Finding(detail, f"{sys.executable} -m pip install 'nonpu[{name}]'" if missing else "")


VERIFY = ("mpmath", "matplotlib", "Jinja2", "rich", "safetensors", "dask", "distributed")

CHECKS = (
    Check("Python", python),
    Check("nonpu", package),
    Check("stand-in", stand_in),
    Check("kernels", kernels),
    Check("a call", call),
    Check("product", product),
    Check("cache", cache),
    Check("C++ compiler", lambda: compiler("C++"), required=False),
    Check("C compiler", lambda: compiler("C"), required=False),
    Check("torch", lambda: extra("torch", "torch"), required=False),
    Check("dask", lambda: extra("dask", "dask", "distributed"), required=False),
    Check("verify", lambda: extra("verify", *VERIFY), required=False),
)


def examine(check: Check) -> Finding:
    """Return the finding of a check; whatever goes wrong in it is what the report is for."""
    try:
        return check.look()
    except Exception as error:
        return Finding(f"{type(error).__name__}: {' '.join(str(error).split())}", BUILD_AGAIN)


@click.command(short_help="Report what is installed, what is missing, and how to mend it.")
def command() -> int:
    """Report what is installed, what is missing, and how to mend it. The exit status is 1 if nonpu cannot work."""
    status = 0
    for check in CHECKS:
        finding = examine(check)
        state = "ok" if not finding.remedy else "broken" if check.required else "absent"
        click.echo(f"{state:7} {check.title:13} {finding.detail}")
        if finding.remedy:
            click.echo(f"{'':7} {'':13} -> {finding.remedy}")
            status = max(status, int(check.required))
    return status
