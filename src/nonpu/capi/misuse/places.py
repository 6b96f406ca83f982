"""Return addresses as lines of source: the memory map of this process, and ``addr2line``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

FIXED_ADDRESSES = 2  # e_type of an executable that is not moved when it is loaded


def source_lines(callers: Iterable[int]) -> dict[int, str]:
    """Return, by return address, the line of source and the function, or the file and the offset in it.

    Addresses that belong to no file are left out.
    """
    found: dict[int, str] = {}
    by_file: dict[str, list[tuple[int, int]]] = {}
    regions = _files()
    for caller in callers:
        for start, end, path, base in regions:
            if caller and start <= caller < end:
                # The call itself is before the address to return to.
                by_file.setdefault(path, []).append((caller, caller - 1 - base))
    for path, pairs in by_file.items():
        lines = _ask(path, [offset for _, offset in pairs])
        for (caller, offset), line in zip(pairs, lines, strict=True):
            found[caller] = line or f"{path.rpartition('/')[2]}+{offset:#x}"
    return found


def _files() -> list[tuple[int, int, str, int]]:
    """Return start, end, file and load address of each region of this process that a file is mapped to."""
    regions = []
    bases: dict[str, int] = {}
    with open("/proc/self/maps") as file:
        for row in file:
            fields = row.split(None, 5)
            path = fields[5].rstrip("\n") if len(fields) > 5 else ""
            if not path.startswith("/"):
                continue
            start, end = (int(number, 16) for number in fields[0].split("-"))
            if path not in bases:
                bases[path] = 0 if _is_fixed(path) else start - int(fields[2], 16)
            regions.append((start, end, path, bases[path]))
    return regions


def _is_fixed(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            head = file.read(18)
    except OSError:
        return False
    return head[:4] == b"\x7fELF" and int.from_bytes(head[16:18], "little") == FIXED_ADDRESSES


def _ask(path: str, offsets: list[int]) -> list[str]:
    """Return the line of each offset into a file, "" where there is none."""
    import subprocess

    command = ["addr2line", "-f", "-C", "-e", path, *map(hex, offsets)]
    try:
        output = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return [""] * len(offsets)
    rows = output.decode("utf-8", "replace").splitlines()
    if len(rows) != 2 * len(offsets):
        return [""] * len(offsets)
    return [_line(function, place) for function, place in zip(rows[::2], rows[1::2], strict=True)]


def _line(function: str, place: str) -> str:
    import contextlib
    import os

    place = place.partition(" (discriminator")[0]
    if place.startswith("??"):
        return "" if function == "??" else function
    name, _, line = place.rpartition(":")
    with contextlib.suppress(OSError):  # the directory may be gone; a short path is not worth more
        name = name.removeprefix(os.getcwd() + "/")
    return f"{name}:{line}" if function == "??" else f"{name}:{line} in {function}"
