"""Build what is not Python: the headers, the front library, the module nonpu._core and the kernels.

Everything lands inside the package, so that an editable installation and a wheel look the same:
``nonpu/toolkit`` (headers, libascendcl.so), ``nonpu/_core*.so``, ``nonpu/engine/kernels``.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "src"))

from nonpu.capi.functions import ENUMERATIONS, FUNCTIONS, NAMES, STRUCTURES  # noqa: E402
from nonpu.capi.functions_runtime import DEFINITIONS  # noqa: E402
from nonpu.codegen import front, headers, pyacl  # noqa: E402
from nonpu.ops import OPS  # noqa: E402

FRONT = ROOT / "src" / "nonpu" / "capi" / "front"
PYACL = ROOT / "src" / "nonpu" / "capi" / "pyacl"
FRONT_SOURCES = tuple(
    f"{name}.c"
    for name in (
        *("error", "handle", "memo", "memory", "meta", "team", "phase", "processor", "ready", "rebind", "start"),
        *("callback", "check", "context", "copy", "event", "guard", "queue", "stack", "stream", "work"),
    )
)
LIBRARY = "libascendcl.so"
ARCH = f"{platform.machine()}-linux"
WARNINGS = ("-Wall", "-Wextra")
COMPILE = ("-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-pthread", "-DFUNC_VISIBILITY", *WARNINGS)
LINK = ("-shared", f"-Wl,-soname,{LIBRARY},-z,defs,-z,nodelete,-z,now,-z,relro,-z,noexecstack", "-s", "-lm", "-ldl")


def python_facts() -> dict[str, str]:
    """Return what the front library has to know about the Python that it is built for."""
    stdlib = sysconfig.get_path("stdlib").removeprefix(sys.base_prefix)
    version = sysconfig.get_python_version()
    # A Python without a shared library may still run beside a package that brings one, under this name.
    shared = sysconfig.get_config_var("Py_ENABLE_SHARED")
    return {
        "VERSION": version,
        "SONAME": str(sysconfig.get_config_var("INSTSONAME")) if shared else f"libpython{version}{sys.abiflags}.so.1.0",
        "LIBDIR": str(sysconfig.get_config_var("LIBDIR")),
        "BASE": sys.base_prefix,
        "STDLIB": stdlib,
        "PREFIX": sys.prefix,
        "SITE_PACKAGES": sysconfig.get_path("platlib"),
    }


def generated_sources() -> tuple[dict[str, str], str]:
    """Return the generated C files of the front library, and the identity of this build."""
    texts = {"table.h": front.table_header(FUNCTIONS), "entries.c": front.entries(FUNCTIONS, NAMES, OPS)}
    facts = python_facts()
    public = headers.render(FUNCTIONS, ENUMERATIONS, STRUCTURES, NAMES, OPS, DEFINITIONS)
    digest = hashlib.sha256(repr((texts, public, facts, sysconfig.get_config_var("SOABI"), COMPILE, LINK)).encode())
    for path in sorted(FRONT.iterdir()):
        digest.update(path.read_bytes())
    build = digest.hexdigest()[:16]
    texts["build.h"] = front.build_header({**facts, "BUILD": build})
    return texts, build


def write(folder: Path, texts: dict[str, str]) -> None:
    """Write files, leaving those alone that are right already."""
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def write_headers(folder: Path) -> None:
    """Write the headers, and remove what an earlier build has left there."""
    texts = headers.render(FUNCTIONS, ENUMERATIONS, STRUCTURES, NAMES, OPS, DEFINITIONS)
    write(folder, texts)
    for path in folder.rglob("*.h"):
        if str(path.relative_to(folder)) not in texts:
            path.unlink()


def write_pyacl(folder: Path) -> None:
    """Write the module ``acl``: the parts that the table of functions gives, and the hand-written ones."""
    texts = pyacl.render(FUNCTIONS, ENUMERATIONS)
    write(folder, {path.name: path.read_text() for path in PYACL.glob("*.py")} | texts)


def compile_front(generated: Path, include: Path, library: Path) -> None:
    """Compile and link the front library; a process that runs the old one keeps it."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    folders = [
        f"-I{folder}" for folder in (FRONT, generated, include, include / "aclnnop", sysconfig.get_path("include"))
    ]
    sources = [*(FRONT / name for name in FRONT_SOURCES), generated / "entries.c"]
    library.parent.mkdir(parents=True, exist_ok=True)
    part = library.with_suffix(".part")
    subprocess.run([*compiler, *COMPILE, *folders, *sources, *LINK, "-o", part], check=True)
    part.replace(library)


def core_source(path: Path) -> None:
    """Write cffi's C source of nonpu._core."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(front.cdef(FUNCTIONS, (FRONT / "native.h").read_text()))
    source = '#define PyInit__core nonpu_core_init\n#include <stdint.h>\n#include "native.h"\n#include "table.h"\n'
    ffi.set_source("nonpu._core", source)
    ffi.emit_c_code(str(path))


class Build(build_ext):
    """Make everything, each part only if it is not up to date."""

    def run(self) -> None:
        """Build into the source package (in place, editable) or into the build folder (wheel)."""
        package = (ROOT / "src" if self.inplace else Path(self.build_lib)) / "nonpu"
        generated = Path(self.build_temp).resolve() / "front"
        texts, build = generated_sources()
        write(generated, texts)
        toolkit = package / "toolkit"
        include, library = toolkit / ARCH / "include", toolkit / ARCH / "lib64" / LIBRARY
        write_headers(include)
        write_pyacl(toolkit / "python" / "site-packages" / "acl")
        stamp = toolkit / "version.info"
        record = f"Version={self.distribution.get_version()}\nbuild={build}\n"
        stale = not library.exists() or not stamp.exists() or stamp.read_text() != record
        if stale:
            compile_front(generated, include, library)
        self.add_core(generated, library.parent, build)
        self.force = bool(self.force or stale)
        super().run()
        write(toolkit, {"version.info": record})
        self.build_kernels(package / "engine" / "kernels")

    def add_core(self, generated: Path, library: Path, build: str) -> None:
        """Fill in the extension that setup() could only name."""
        core_source(generated / "_core.c")
        (extension,) = self.extensions
        own = [str((FRONT / name).relative_to(ROOT)) for name in ("core.c", "arrays.c")]
        extension.sources = [str(generated / "_core.c"), *own]
        extension.include_dirs = [str(FRONT), str(generated), numpy.get_include()]
        extension.library_dirs = [str(library)]
        extension.libraries = ["ascendcl"]
        extension.define_macros = [("NONPU_BUILD", f'"{build}"'), ("_CFFI_NO_LIMITED_API", "1")]
        extension.extra_link_args = [f"-Wl,-rpath,$ORIGIN/toolkit/{ARCH}/lib64,-z,now"]

    def build_kernels(self, folder: Path) -> None:
        """Compile the kernels, in a process of their own: Numba reads its settings when it is first imported."""
        paths = os.pathsep.join(path for path in (str(ROOT / "src"), os.environ.get("PYTHONPATH", "")) if path)
        command = [sys.executable, "-m", "nonpu.engine.compile", str(folder)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": paths})


setup(ext_modules=[Extension("nonpu._core", ["generated"])], cmdclass={"build_ext": Build})
