"""What the times were measured on."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from typing import Any


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def now() -> str:
    """Return the time of day in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _field(path: str, name: str) -> str:
    """Return the first value of a ``name : value`` file of the kernel, empty if there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == name:
                    return value.strip()
    except OSError:
        pass
    return ""


def available_memory() -> int:
    """Return the bytes that can be allocated without swapping; half of the memory where the kernel does not say."""
    text = _field("/proc/meminfo", "MemAvailable")
    if text:
        return int(text.split()[0]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def caches() -> list[str]:
    """Return the data caches of the first processor, for example ``L2 1024K``."""
    found = []
    folder = "/sys/devices/system/cpu/cpu0/cache"
    for index in range(8):
        try:
            parts = []
            for name in ("level", "type", "size"):
                with open(f"{folder}/index{index}/{name}") as file:
                    parts.append(file.read().strip())
        except OSError:
            break
        if parts[1] != "Instruction":
            found.append(f"L{parts[0]} {parts[2]}")
    return found


def describe() -> dict[str, Any]:
    """Return the machine: processor, caches, memory, system, and how busy it is."""
    return {
        "processor": _field("/proc/cpuinfo", "model name") or platform.machine(),
        "architecture": platform.machine(),
        "processors": processors(),
        "caches": caches(),
        "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": f"{platform.system()} {platform.release()}",
        "load": round(os.getloadavg()[0], 2),
    }


def versions() -> dict[str, str]:
    """Return the releases of Python and NumPy."""
    import numpy as np

    return {"python": platform.python_version(), "numpy": np.__version__}
