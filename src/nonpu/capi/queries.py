"""C functions that tell about the emulated device and the installed packages.

Cores, memory and caches are those of this machine, because operators run on them; the architecture is the product's.

Sources: the runtime's reference of ``aclrtGetDeviceInfo`` and ``aclsysGetVersionStr``.
"""

from __future__ import annotations

import os

from nonpu._core import ffi, lib
from nonpu.aclnn import phases
from nonpu.capi.bridge import INTERNAL_ERROR, INVALID_FILE, INVALID_PARAM, SUCCESS, exported, fail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

INVALID_DEVICE = 107001
# Packages that this stand-in takes the place of.
PACKAGES = ("runtime", "opbase", "ops-nn")


def _cores() -> int:
    return int(lib.nonpu_get_threads())


def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cache() -> int:
    return max(0, os.sysconf("SC_LEVEL2_CACHE_SIZE")) if "SC_LEVEL2_CACHE_SIZE" in os.sysconf_names else 0


# aclrtDevAttr.
FACTS: dict[int, Callable[[], int]] = {
    1: _cores,
    101: _cores,
    102: _cores,
    201: _cores,
    301: _memory,
    302: _cache,
    601: lambda: phases.environment_product().arch,
}


@exported(INTERNAL_ERROR)
def aclrtGetDeviceInfo(device_id: int, attribute: int, value: Any) -> int:
    """Look up one fact."""
    if not value:
        return fail(INVALID_PARAM, "aclrtGetDeviceInfo: value must be a pointer (got null)")
    if device_id:
        return fail(INVALID_DEVICE, f"aclrtGetDeviceInfo: deviceId must be 0 (got {device_id})")
    if attribute not in FACTS:
        choices = ", ".join(map(str, FACTS))
        return fail(INVALID_PARAM, f"aclrtGetDeviceInfo: attr must be one of {choices} (got {attribute})")
    try:
        value[0] = FACTS[attribute]()
    except ValueError as error:
        return fail(INTERNAL_ERROR, f"aclrtGetDeviceInfo: {error}")
    return SUCCESS


def _version(api: str, name: Any, out: Any, what: str) -> tuple[int, str]:
    """Return a status, and the version of the package if that is 0."""
    if not name or not out:
        return fail(INVALID_PARAM, f"{api}: {what if name else 'pkgName'} must be a pointer (got null)"), ""
    package = ffi.string(name).decode("utf-8", "replace")
    if package not in PACKAGES:
        text = f"{api}: pkgName must be one of {', '.join(PACKAGES)} (got {package!r})"
        return fail(INVALID_FILE, text), ""
    root = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "toolkit")
    try:
        with open(os.path.join(root, "version.info")) as file:
            return SUCCESS, dict(line.rstrip("\n").split("=", 1) for line in file)["Version"]
    except (OSError, KeyError, ValueError):
        return fail(INVALID_FILE, f"{api}: the toolkit's version.info must name a version (got none)"), ""


@exported(INTERNAL_ERROR)
def aclsysGetVersionStr(name: Any, out: Any) -> int:
    """Copy the version of a package."""
    status, version = _version("aclsysGetVersionStr", name, out, "versionStr")
    if not status:
        # The reference gives the buffer 128 bytes, the terminating zero included.
        ffi.memmove(out, version.encode()[:127] + b"\0", min(len(version.encode()), 127) + 1)
    return status


@exported(INTERNAL_ERROR)
def aclsysGetVersionNum(name: Any, out: Any) -> int:
    """Return the version of a package as one number."""
    status, version = _version("aclsysGetVersionNum", name, out, "versionNum")
    if not status:
        parts = [int("".join(filter(str.isdigit, part)) or "0") for part in version.split(".")[:3]]
        major, minor, patch = [*parts, 0, 0][:3]
        out[0] = major * 10000000 + minor * 100000 + patch * 1000
    return status
