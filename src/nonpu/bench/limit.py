"""The limit of the machine: a triad of two reads and one write, as many bytes as the operator reads and writes.

It is a loop in C, compiled when it is first needed, for this processor: ``out[i] = a[i] + b[i]`` on FLOAT, whatever the
type of the case, over arrays of the same number of bytes; once with plain stores and once with non-temporal ones, which
do not read a cache line before it is written.  With several threads each repeats its own share, without meeting the
others between two passes, so that nothing but memory and arithmetic is in the time.  Without a C compiler the plain
triad is NumPy's ``add`` with ``out=``, and there is no non-temporal one.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from nonpu.bench.cases import Case
from nonpu.bench.engines import Run, UnsupportedError

SOURCE = r"""
#include <stddef.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

int triad_streams(void)
{
#if defined(__x86_64__)
    return 1;
#else
    return 0;
#endif
}

static void plain(float *restrict out, const float *restrict a, const float *restrict b, ptrdiff_t count)
{
    for (ptrdiff_t i = 0; i < count; i++)
        out[i] = a[i] + b[i];
    __asm__ volatile("" ::: "memory");
}

/* `out` is aligned to 64 bytes. */
static void streaming(float *restrict out, const float *restrict a, const float *restrict b, ptrdiff_t count)
{
    ptrdiff_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= count; i += 16)
        _mm512_stream_ps(out + i, _mm512_add_ps(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i)));
#elif defined(__AVX__)
    for (; i + 8 <= count; i += 8)
        _mm256_stream_ps(out + i, _mm256_add_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
#elif defined(__x86_64__)
    for (; i + 4 <= count; i += 4)
        _mm_stream_ps(out + i, _mm_add_ps(_mm_loadu_ps(a + i), _mm_loadu_ps(b + i)));
#endif
    plain(out + i, a + i, b + i, count - i);
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

void triad(float *out, const float *a, const float *b, ptrdiff_t count, ptrdiff_t passes, int stream)
{
    for (ptrdiff_t pass = 0; pass < passes; pass++) {
        if (stream)
            streaming(out, a, b, count);
        else
            plain(out, a, b, count);
    }
}
"""
FLAGS = ("-O3", "-march=native", "-shared", "-fPIC")
WIDE = ("-mprefer-vector-width=512",)
LINE = 64
LANES = ("plain triad", "streaming triad")


def find_compiler() -> list[str]:
    """Return the command of the C compiler, empty if there is none."""
    for word in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        command = shlex.split(word)
        if command and (path := shutil.which(command[0])) is not None:
            return [path, *command[1:]]
    return []


def compiled() -> Any:
    """Return the compiled library, None if it cannot be made."""
    compiler = find_compiler()
    if not compiler:
        return None
    with tempfile.TemporaryDirectory(prefix="nonpu-bench-") as folder:
        source, target = os.path.join(folder, "triad.c"), os.path.join(folder, "triad.so")
        with open(source, "w") as file:
            file.write(SOURCE)
        for wide in (WIDE, ()):
            command = [*compiler, *FLAGS, *wide, source, "-o", target]
            if subprocess.run(command, capture_output=True).returncode == 0:
                return ctypes.CDLL(target)  # stays usable: the file is mapped
    return None


def aligned(nbytes: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return FLOAT ones in memory that starts at a cache line."""
    block = np.empty(nbytes + LINE, np.uint8)
    start = -block.ctypes.data % LINE
    array = block[start : start + nbytes].view(np.float32)
    array.fill(1)
    return array


class Limit:
    """The triad as an engine: one lane with plain stores, one with non-temporal stores."""

    lanes: ClassVar[tuple[str, ...]] = LANES

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._library = compiled()
        self._arrays: list[Any] = []

    def versions(self) -> dict[str, str]:
        return {"triad": "NumPy" if self._library is None else f"C, {' '.join(FLAGS[:2])}"}

    def prepare(self, case: Case, lane: str) -> Run:
        """Return one pass; `timed` is what is measured, since threads repeat their shares by themselves."""
        if case.layout != "contiguous":
            raise UnsupportedError("measured for contiguous cases only: others read less or more")
        if lane == LANES[1] and (self._library is None or not self._library.triad_streams()):
            raise UnsupportedError("needs a C compiler and an x86-64 processor")
        nbytes = case.operands()[2].nbytes
        if not self._arrays or self._arrays[0].nbytes != nbytes:
            self.release()
            self._arrays = [aligned(nbytes) for _ in range(3)]
        share = nbytes // 4 // self._threads
        parts = [[array[share * i : share * (i + 1)] for array in self._arrays] for i in range(self._threads)]
        return TriadRun([self._passes(part, lane == LANES[1]) for part in parts])

    def _passes(self, part: list[Any], stream: bool) -> Callable[[int], None]:
        out, a, b = part
        if self._library is None:
            return functools.partial(_add, a, b, out)
        function, count = self._library.triad, ctypes.c_ssize_t(out.size)
        addresses = [ctypes.c_void_p(array.ctypes.data) for array in (out, a, b)]

        def run(passes: int, _keep: object = part) -> None:
            function(*addresses, count, ctypes.c_ssize_t(passes), ctypes.c_int(stream))

        return run

    def sample(self) -> list[float]:
        return []

    def release(self) -> None:
        self._arrays = []


def _add(a: Any, b: Any, out: Any, passes: int) -> None:
    for _ in range(passes):
        np.add(a, b, out=out)


class TriadRun:
    """Passes over all shares, one share per thread."""

    def __init__(self, shares: list[Callable[[int], None]]) -> None:
        self._shares = shares

    def __call__(self) -> None:
        self.timed(1)

    def timed(self, passes: int) -> float:
        """Return the seconds from the moment when all threads are ready until the last has made its passes."""
        first, *others = self._shares
        barrier = threading.Barrier(len(self._shares))

        def work(share: Callable[[int], None]) -> None:
            barrier.wait()
            share(passes)

        threads = [threading.Thread(target=work, args=(share,)) for share in others]
        for thread in threads:
            thread.start()
        barrier.wait()
        start = time.perf_counter()
        first(passes)
        for thread in threads:
            thread.join()
        return time.perf_counter() - start
