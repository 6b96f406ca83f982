"""Compile all kernels, moves and the driver into one shared library per CPU level.

``python -m nonpu.engine.compile OUTDIR`` writes ``kernels_LEVEL.so`` for the levels of this machine's architecture
and does nothing when they are up to date.  Numba turns the Python sources into unoptimised LLVM code once; LLVM then
optimises it for each level, with everything but the entry points inlined, and the C compiler links the objects.
The libraries need neither Numba nor Python: a kernel that would call anything but a few functions of the C library,
because it raises, allocates or uses a library function, is refused.
"""

from __future__ import annotations

import os

os.environ["NUMBA_OPT"] = "0"  # read by Numba when it is imported; LLVM optimises below, once per level

import hashlib
import importlib
import multiprocessing
import platform
import re
import shlex
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import llvmlite.binding as llvm
import numba
from numba import cfunc, types

from nonpu.engine import conversions, guarded, loops, moves, splat
from nonpu.engine.conversions import COMPONENT, ITEM_SIZE, REAL

LEVELS = {
    "x86_64": {"x86_64_v2": "x86-64-v2", "x86_64_v3": "x86-64-v3", "x86_64_v4": "x86-64-v4"},
    "aarch64": {"aarch64": "generic"},
}
FEATURES = {"x86_64_v4": "-prefer-256-bit", "aarch64": "+neon,+fp-armv8"}
SOFT_HALF = ("x86_64_v2",)
ALLOWED = {"fma", "fmaf", "memcpy", "memmove", "memset"}
HALF_SYMBOLS = ("nonpu_half_to_single", "nonpu_single_to_half")
TASKS = 12
"""Parts of the work that processes pick up one by one."""

KERNEL_SIGNATURE = types.void(*(types.int64,) * 3)
MOVE_SIGNATURE = types.void(*(types.int64,) * 8)


class KernelError(Exception):
    """A kernel cannot be compiled into a library that stands by itself, or a tool for that is missing."""


class Source(NamedTuple):
    """One function of the library: its symbols, C signature, and a way to make the Python function."""

    symbols: tuple[str, ...]
    signature: Any
    make: Callable[[], Any]
    vectorise: bool = True
    group: str = ""  # sources of one group share functions, which one process compiles once


def sources(operators: Iterable[Any]) -> list[Source]:
    """Return everything that goes into the libraries."""
    return [
        Source(("nonpu_elementwise",), KERNEL_SIGNATURE, lambda: loops.elementwise, vectorise=False),
        *kernel_sources(operators),
        *_move_sources(),
    ]


def kernel_sources(operators: Iterable[Any]) -> Iterator[Source]:
    """Return the kernels of operators: one per promoted type, for real types one per input that is one number, and
    where nothing is guarded one for every second element of the inputs, as in the real parts of complex numbers."""
    for op in operators:
        for dtype, kernel in op.kernels.items():
            symbol, name, inputs = f"nonpu_{op.python_name}_{dtype.python_name}", dtype.python_name, len(op.inputs)
            yield Source((symbol,), KERNEL_SIGNATURE, partial(_kernel, kernel, name, inputs), group=symbol)
            for which in range(inputs if name not in COMPONENT else 0):
                make = partial(_splat, kernel, name, inputs, which)
                yield Source((f"{symbol}_splat_{which}",), KERNEL_SIGNATURE, make, group=symbol)
            if kernel.fast is None and name not in COMPONENT:
                make = partial(loops.kernel, kernel.function, kernel.compute.python_name, name, inputs, step=2)
                yield Source((f"{symbol}_step_2",), KERNEL_SIGNATURE, make, group=symbol)


def _splat(kernel: Any, dtype: str, inputs: int, which: int) -> Any:
    """Return the loop of a kernel that has one element of one of its inputs."""
    return splat.splat((kernel.function, kernel.compute.python_name), dtype, inputs, which, kernel.fast, kernel.unit)


def _kernel(kernel: Any, dtype: str, inputs: int) -> Any:
    """Return the loop of a kernel: the guarded one if it has a fast function."""
    if kernel.fast is None:
        return loops.kernel(kernel.function, kernel.compute.python_name, dtype, inputs)
    return guarded.guarded(kernel.function, dtype, inputs, kernel.fast, kernel.unit)


def _move_sources() -> Iterator[Source]:
    for size in sorted(set(ITEM_SIZE.values())):
        names = [name for name, item in ITEM_SIZE.items() if item == size]
        yield Source(tuple(f"nonpu_move_{name}_{name}" for name in names), MOVE_SIGNATURE, partial(moves.copy, size))
        yield Source(tuple(f"nonpu_stream_{name}" for name in names), MOVE_SIGNATURE, partial(moves.stream, size))
    pairs = [(source, target) for source in REAL for target in ITEM_SIZE if source != target]
    for source, target in [*pairs, ("complex64", "complex128"), ("complex128", "complex64")]:
        yield Source((f"nonpu_move_{source}_{target}",), MOVE_SIGNATURE, partial(moves.conversion, source, target))


def half_sources(level: str) -> list[Source]:
    """Return the FLOAT16 conversions of a level."""
    soft = level in SOFT_HALF
    widen = conversions.soft_half_to_single if soft else conversions.fast_half_to_single
    narrow = conversions.soft_single_to_half if soft else conversions.fast_single_to_half
    return [
        Source(HALF_SYMBOLS[:1], types.float32(types.uint16), lambda: widen),
        Source(HALF_SYMBOLS[1:], types.uint16(types.float32), lambda: narrow),
    ]


def intermediate(source: Source) -> str:
    """Return unoptimised LLVM code in which the source's symbols are defined and all else is internal."""
    if numba.config.OPT != 0:
        raise KernelError("nonpu.engine.compile: must be imported before numba, to turn off its optimiser")
    for symbol in (*HALF_SYMBOLS, "__extendhfsf2", "__truncsfhf2"):
        llvm.add_symbol(symbol, 1)  # Numba resolves the names of functions that it never runs
    compiled = cfunc(source.signature, error_model="numpy")(source.make())
    # Numba keeps a C wrapper and its function apart; here the whole is one function.
    text = re.sub(r"^(attributes #.*)\bnoinline\b", r"\1nounwind", compiled.inspect_llvm(), flags=re.MULTILINE)
    first, *others = source.symbols
    head = re.compile(rf'^define (.*)@"?{re.escape(compiled.native_name)}"?\((.*)\).*{{$', re.MULTILINE)
    found = head.search(text)
    assert found is not None
    result, parameters = found.groups()
    text = head.sub(rf'define {result}@{first}({parameters}) "prefer-vector-width"="512" {{', text)
    kinds = ", ".join(part.split()[0] for part in parameters.split(","))
    aliases = (f"@{other} = alias {result.split()[-1]} ({kinds}), ptr @{first}" for other in others)
    return "\n".join((text, *aliases))


class Machine:
    """LLVM's code generator for one level."""

    def __init__(self, level: str) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
        architecture = platform.machine()
        self.triple = f"{architecture}-unknown-linux-gnu"
        self.target = llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=LEVELS[architecture][level], features=FEATURES.get(level, ""), opt=3, reloc="pic", codemodel="default"
        )
        self.halves = [self.parse(intermediate(source), source.symbols) for source in half_sources(level)]

    def parse(self, text: str, symbols: tuple[str, ...]) -> Any:
        """Return the module of LLVM code with everything but `symbols` internal and to be inlined."""
        module = llvm.parse_assembly(text)
        module.triple, module.data_layout = self.triple, str(self.target.target_data)
        for function in module.functions:
            if not function.is_declaration and function.name not in symbols:
                function.linkage = "internal"
                function.add_function_attribute("alwaysinline")
        for variable in module.global_variables:
            if not variable.is_declaration:
                variable.linkage = "internal"
        return module

    def compile(self, text: str, source: Source) -> Any:
        """Return the optimised module of one source."""
        module = self.parse(text, source.symbols)
        for half, name in zip(self.halves, HALF_SYMBOLS, strict=True):
            if any(function.name == name for function in module.functions):
                module.link_in(half, preserve=True)
                function = module.get_function(name)
                function.linkage = "internal"
                function.add_function_attribute("alwaysinline")
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = options.slp_vectorization = source.vectorise
        options.loop_unrolling = True
        builder = llvm.create_pass_builder(self.target, options)
        builder.getModulePassManager().run(module, builder)
        everything = (*module.functions, *module.global_variables)
        _refuse(source.symbols[0], {item.name for item in everything if item.is_declaration})
        return module


@cache
def machine_for(level: str) -> Machine:
    """Return the code generator of a level, made once per process."""
    return Machine(level)


def _refuse(name: str, needed: set[str]) -> None:
    left = {symbol for symbol in needed if not symbol.startswith("llvm.")} - ALLOWED
    if left:
        raise KernelError(
            f"kernel {name}: open symbols must be among {', '.join(sorted(ALLOWED))} (got {', '.join(sorted(left))}): "
            "it raises, allocates or calls a library function"
        )


def undefined_symbols(code: bytes) -> set[str]:
    """Return the names that an ELF object file leaves to the linker."""
    section_table, entry_size, entries = *struct.unpack_from("<Q", code, 40), *struct.unpack_from("<HH", code, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, section_table + entry_size * index) for index in range(entries)]
    names = set()
    for kind, offset, size, link in ((item[1], item[4], item[5], item[6]) for item in sections):
        if kind != 2:  # SHT_SYMTAB
            continue
        strings = sections[link][4]
        for position in range(offset, offset + size, 24):
            name, _, _, section = struct.unpack_from("<IBBH", code, position)
            if section == 0 and name:
                names.add(code[strings + name : code.index(b"\0", strings + name)].decode())
    return names


def compile_part(part: list[Source], levels: Iterable[str]) -> dict[str, bytes]:
    """Return the object code of some sources for each level."""
    texts = [(intermediate(source), source) for source in part]
    result = {}
    for level in levels:
        machine = machine_for(level)
        whole, *others = (machine.compile(text, source) for text, source in texts)
        for other in others:
            whole.link_in(other)
        result[level] = machine.target.emit_object(whole)
        _refuse(", ".join(name for source in part for name in source.symbols), undefined_symbols(result[level]))
    return result


def link(objects: list[bytes], library: Path) -> None:
    """Link object code into a shared library."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for index, code in enumerate(objects):
            paths.append(Path(folder, f"{index}.o"))
            paths[-1].write_bytes(code)
        compiler = shlex.split(os.environ.get("CC", "cc"))
        flags = ["-shared", "-nostartfiles", "-s", "-Wl,-z,defs,-z,relro,-z,now,-z,noexecstack,--as-needed"]
        part = library.with_suffix(".part")
        try:
            subprocess.run([*compiler, *flags, "-o", part, *paths, "-lm"], check=True)
        except OSError as error:
            raise KernelError(f"CC: must name a C compiler (got {shlex.join(compiler)!r}: {error.strerror})") from error
        part.replace(library)  # a process that runs the old one keeps its pages


def fingerprint() -> str:
    """Return a hash of all that the libraries are made from."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256(f"{llvmlite.__version__} {numba.__version__} {platform.machine()}".encode())
    files = [*root.glob("engine/*.py"), *root.glob("ops/*.py"), root / "spec/primitives.py", root / "dtypes.py"]
    for path in sorted(files):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def build(folder: Path, operators: Iterable[Any]) -> bool:
    """Write the libraries into a folder; return False if they were up to date already."""
    levels = LEVELS[platform.machine()]
    stamp, mark = folder / "stamp", fingerprint()
    libraries = {level: folder / f"kernels_{level}.so" for level in levels}
    if stamp.exists() and stamp.read_text() == mark and all(path.exists() for path in libraries.values()):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    results = _compile_all(_parts(sources(operators)), tuple(levels))
    for level, library in libraries.items():
        link([result[level] for result in results], library)
    stamp.write_text(mark)
    return True


def _parts(everything: list[Source]) -> list[list[Source]]:
    """Divide the work, the sources of a group together."""
    groups: dict[str, list[Source]] = {}
    for source in everything:
        groups.setdefault(source.group or source.symbols[0], []).append(source)
    together = list(groups.values())
    parts = [[source for group in together[index::TASKS] for source in group] for index in range(TASKS)]
    return [part for part in parts if part]


_work: list[list[Source]] = []


def _compile_numbered(number: int, levels: tuple[str, ...]) -> dict[str, bytes]:
    return compile_part(_work[number], levels)


def _compile_all(parts: list[list[Source]], levels: tuple[str, ...]) -> list[dict[str, bytes]]:
    """Compile the parts in one process per processor.  Sources hold functions, so they are inherited by forking."""
    _work[:] = parts
    processors = len(os.sched_getaffinity(0))
    with multiprocessing.get_context("fork").Pool(min(processors, len(parts))) as pool:
        return pool.starmap(_compile_numbered, [(number, levels) for number in range(len(parts))], chunksize=1)


def main(arguments: list[str]) -> int:
    """Build into the folder that the only argument names."""
    if len(arguments) != 1:
        print("usage: python -m nonpu.engine.compile OUTDIR", file=sys.stderr)
        return 2
    # By name, because operators and engine do not depend on each other: here the build joins them.
    operators = importlib.import_module("nonpu.ops").OPS
    try:
        build(Path(arguments[0]), operators)
    except (KernelError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
