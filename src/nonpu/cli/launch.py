"""Running a program: its environment, its signals, its exit status."""

from __future__ import annotations

import os
import signal

import click

from nonpu.capi import toolkit

# Ctrl-C and Ctrl-\ reach the program from the terminal; nonpu only has to outlive them.
FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
# Python ignores these two for itself, and what is ignored stays so across exec.
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
USUAL_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)


def environment(product: str | None, check: bool = False) -> dict[str, str]:
    """Return the environment of a program: the stand-in's libraries and modules first, product, --check.

    ``ASCEND_HOME_PATH`` and ``ASCEND_TOOLKIT_HOME`` are what ctypes clients build library paths from.
    """
    home = toolkit.home()
    result = dict(os.environ, ASCEND_HOME_PATH=home, ASCEND_TOOLKIT_HOME=home)
    if product is not None:
        result["NONPU_PRODUCT"] = product
    if check:
        result["NONPU_CHECK"] = "1"
    for variable, folder in (("LD_LIBRARY_PATH", "lib64"), ("PYTHONPATH", "python/site-packages")):
        # An empty entry would mean the working directory.
        inherited = [entry for entry in result.get(variable, "").split(os.pathsep) if entry]
        result[variable] = os.pathsep.join([os.path.join(home, folder), *inherited])
    return result


def launch(argv: list[str], env: dict[str, str], name: str) -> int:
    """Run ``argv`` to its end and return its exit status, 128 + n after signal n.

    The program is a child and not an ``exec``, because a caller that is no shell must see 128 + n as well.
    """
    changed = [number for number in FROM_TERMINAL if signal.getsignal(number) != signal.SIG_IGN]
    forwarded = [number for number in FORWARDED if signal.getsignal(number) != signal.SIG_IGN]
    held = signal.pthread_sigmask(signal.SIG_BLOCK, [*changed, *forwarded])
    try:
        child = os.posix_spawn(argv[0], argv, env, setsigmask=held, setsigdef=[*changed, *IGNORED_BY_PYTHON])
        for number in changed:
            signal.signal(number, signal.SIG_IGN)
        for number in forwarded:
            signal.signal(number, lambda received, _frame: os.kill(child, received))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status >= 0:
        return status
    if -status not in USUAL_ENDS:
        click.echo(f"nonpu: {name} was ended by signal {-status} ({signal.strsignal(-status)})", err=True)
    return 128 - status
