"""The stand-in for a toolkit directory: ``nonpu home``.

Its files are built into the package (``nonpu/toolkit/<arch>-linux``). The names that are links to them cannot travel in
a wheel, so they are made when the directory is first asked for; in a mirror below the user's cache if the package is
read-only.
"""

from __future__ import annotations

import os

PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "toolkit")
ARCH = f"{os.uname().machine}-linux"
LIBRARY = "libascendcl.so"
# Every name under which programs link or load a part of the toolkit; all of them are one file.
LINKS = (
    "libacl_rt.so",
    "libnnopbase.so",
    "libopapi.so",
    "libopapi_nn.so",
    "libopapi_math.so",
    "libopapi_cv.so",
    "libopapi_transformer.so",
    "libaclnn_ops_infer.so",
    "libaclnn_math.so",
)
SET_ENV = """\
# Source this file to use the directory that it lies in as the toolkit.
if [ -n "${BASH_SOURCE:-}" ]; then
    nonpu_home=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
else
    nonpu_home=@HOME@
fi
export ASCEND_TOOLKIT_HOME="$nonpu_home" ASCEND_HOME_PATH="$nonpu_home" TOOLCHAIN_HOME="$nonpu_home"
export ASCEND_OPP_PATH="$nonpu_home/opp" ASCEND_AICPU_PATH="$nonpu_home"
export LD_LIBRARY_PATH="$nonpu_home/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PYTHONPATH="$nonpu_home/python/site-packages${PYTHONPATH:+:$PYTHONPATH}"
unset nonpu_home
"""


def home() -> str:
    """Return the path of the toolkit directory, complete with its links.

    Raises
    ------
    OSError
        If the package was not built, or neither the package nor the user's cache is writable.
    """
    library = os.path.join(PACKAGE, ARCH, "lib64", LIBRARY)
    if not os.path.exists(library):
        raise FileNotFoundError(2, "the front library is not built (install nonpu again)", library)
    if _is_complete(PACKAGE):
        return PACKAGE
    if os.access(os.path.join(PACKAGE, ARCH, "lib64"), os.W_OK) and os.access(PACKAGE, os.W_OK):
        _complete(PACKAGE)
        return PACKAGE
    return _mirror()


def include_folders() -> list[str]:
    """Return the folders that programs expect on their include path."""
    include = os.path.join(home(), "include")
    return [include, os.path.join(include, "aclnn"), os.path.join(include, "aclnnop")]


def cflags() -> list[str]:
    """Return what a compiler needs to find the headers."""
    return [f"-I{folder}" for folder in include_folders()]


def libs() -> list[str]:
    """Return what a linker needs; the program then finds the libraries by itself."""
    folder = os.path.join(home(), "lib64")
    return [f"-L{folder}", f"-Wl,-rpath,{folder}", "-lascendcl", "-lnnopbase", "-lopapi"]


def build_id() -> str:
    """Return the identity of this build: another one has other headers or another library."""
    with open(os.path.join(PACKAGE, "version.info")) as file:
        return dict(line.rstrip("\n").split("=", 1) for line in file)["build"]


def _set_env(root: str) -> str:
    return SET_ENV.replace("@HOME@", _quoted(root))


def _links() -> dict[str, str]:
    """Return every link, by its path below the toolkit directory; ``lib64`` is the last one made."""
    libraries = {os.path.join(ARCH, "lib64", name): LIBRARY for name in LINKS}
    return {**libraries, f"{ARCH}/devlib": "lib64", "include": f"{ARCH}/include", "lib64": f"{ARCH}/lib64"}


def _is_complete(root: str) -> bool:
    try:
        with open(os.path.join(root, "set_env.sh")) as file:
            if file.read() != _set_env(root):
                return False
        return all(os.readlink(os.path.join(root, path)) == target for path, target in _links().items())
    except OSError:
        return False


def _complete(root: str) -> None:
    """Make the script and the links; each appears at once, whoever else makes the same."""
    _replace(os.path.join(root, "set_env.sh"), text=_set_env(root))
    for path, target in _links().items():
        _replace(os.path.join(root, path), target=target)


def _mirror() -> str:
    """Return a directory in the user's cache that stands for the read-only one in the package."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    root = os.path.join(cache, "nonpu", "toolkit", build_id())
    files = os.path.join(root, ARCH)
    library = os.path.join(files, "lib64", LIBRARY)
    if _is_complete(root) and os.path.realpath(library) == os.path.realpath(
        os.path.join(PACKAGE, ARCH, "lib64", LIBRARY)
    ):
        return root
    os.makedirs(os.path.join(files, "lib64"), exist_ok=True)
    for path in (f"{ARCH}/include", f"{ARCH}/lib64/{LIBRARY}", "python", "version.info"):
        _replace(os.path.join(root, path), target=os.path.join(PACKAGE, path))
    _complete(root)
    return root


def _replace(path: str, *, target: str = "", text: str = "") -> None:
    """Put a link or a file in place of whatever is there."""
    part = f"{path}.{os.getpid()}"
    if target:
        os.symlink(target, part)
    else:
        with open(part, "w") as file:
            file.write(text)
    os.replace(part, path)


def _quoted(path: str) -> str:
    """Quote for a shell."""
    return "'" + path.replace("'", "'\\''") + "'"
