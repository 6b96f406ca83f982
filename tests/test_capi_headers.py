"""The headers of the toolkit stand-in, judged by compilers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from nonpu.capi import toolkit
from nonpu.dtypes import DType, Format
from nonpu.errorcodes import ERROR_CODES
from nonpu.ops import OPS
from nonpu.status import Status
from tests.capi.programs import HERE, STRICT
from tests.command_line import run

INCLUDE = Path(toolkit.home()) / "include"
HEADERS = sorted(str(path.relative_to(INCLUDE)) for path in INCLUDE.rglob("*.h"))
C_COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
CXX_COMPILERS = [name for name in ("g++", "clang++") if shutil.which(name)]
DIALECTS = [
    *((compiler, "c", standard) for compiler in C_COMPILERS for standard in ("c11", "c17")),
    *((compiler, "c++", f"c++{year}") for compiler in CXX_COMPILERS for year in ("11", "14", "17", "20")),
]
EXPECTED = {
    *(f"acl/{name}.h" for name in ("acl", "acl_rt", "acl_base", "acl_base_rt", "acl_base_mdl", "acl_op", "acl_mdl")),
    "acl/acl_rt_allocator.h",
    "acl/acl_rt_api.h",
    *(f"acl/acl_{name}.h" for name in ("prof", "dump", "tdt", "tdt_queue", "platform", "rt_memory_soma")),
    "acl/error_codes/rt_error_codes.h",
    "acl/error_codes/ge_error_codes.h",
    "aclnn/acl_meta.h",
    "aclnn/aclnn_base.h",
    "aclnn/opdev/op_errno.h",
    "aclnnop/aclnn_util.h",
    "aclnnop/aclnn_ops_nn.h",
    *(f"aclnnop/aclnn_ops_{name}.h" for name in ("math", "cv", "transformer")),
    *(f"aclnnop/{folder}{op.header}" for op in OPS for folder in ("", "level2/")),
}


def compile_text(text: str, compiler: str, language: str, standard: str, folder: Path, *flags: str) -> None:
    """Have a compiler check a translation unit, with every warning an error."""
    source = folder / ("unit.c" if language == "c" else "unit.cpp")
    source.write_text(text)
    finished = run(
        compiler, f"-std={standard}", *STRICT, "-pedantic", "-fsyntax-only", *flags, *toolkit.cflags(), source
    )
    assert finished.returncode == 0, finished.stderr


def includes(*headers: str) -> str:
    """Return include lines and something to compile."""
    return "".join(f'#include "{header}"\n' for header in headers) + "int main(void) { return 0; }\n"


def test_every_expected_header_is_there() -> None:
    """The directory has the headers that programs include, and no other."""
    assert set(HEADERS) == EXPECTED


@pytest.mark.parametrize(("compiler", "language", "standard"), DIALECTS)
def test_each_header_compiles_alone(compiler: str, language: str, standard: str, tmp_path: Path) -> None:
    """A header needs no other before it, may come twice, and gives no warning."""
    for header in HEADERS:
        compile_text(includes(header, header), compiler, language, standard, tmp_path)
    compile_text(includes(*HEADERS, *reversed(HEADERS)), compiler, language, standard, tmp_path)


@pytest.mark.parametrize("compiler", CXX_COMPILERS)
def test_facts_hold(compiler: str, tmp_path: Path) -> None:
    """Types, values and signatures are those of the documents."""
    for standard in ("c++11", "c++20"):
        compile_text((HERE / "facts.cpp").read_text(), compiler, "c++", standard, tmp_path)


@pytest.mark.parametrize("compiler", CXX_COMPILERS)
def test_every_constant_has_its_value(compiler: str, tmp_path: Path) -> None:
    """Every enumerator and every code is there, in C++ as a constant expression."""
    values = {
        **{member.c_name: int(member) for member in DType},
        **{member.c_name: int(member) for member in Format},
        **{name: value for name, value, _ in ERROR_CODES},
        **{member.name: int(member) for member in Status},
    }
    lines = "".join(f'static_assert({name} == {value}, "{name}");\n' for name, value in values.items())
    text = includes("acl/acl.h", "aclnn/opdev/op_errno.h") + lines
    compile_text(text, compiler, "c++", "c++11", tmp_path)


@pytest.mark.parametrize("compiler", CXX_COMPILERS)
def test_a_client_may_define_the_meta_types_first(compiler: str, tmp_path: Path) -> None:
    """The guard ACLNN_META keeps the header from defining them again."""
    names = ("OpExecutor", "Tensor", "Scalar", "IntArray", "FloatArray", "BoolArray", "TensorList", "ScalarList")
    types = "".join(f"typedef struct acl{name} acl{name};\n" for name in names)
    own = (
        f"#include <cstdint>\n#define ACLNN_META\n{types}typedef int32_t aclnnStatus;\nconstexpr aclnnStatus OK = 0;\n"
        'static_assert(OK == 0, "");\n'
    )
    compile_text(own + includes("aclnnop/aclnn_ops_nn.h"), compiler, "c++", "c++11", tmp_path)


@pytest.mark.parametrize("compiler", CXX_COMPILERS)
def test_headers_are_found_by_their_short_names_too(compiler: str, tmp_path: Path) -> None:
    """Programs put aclnn and aclnnop on the include path and leave the folder out."""
    text = includes("aclnn_util.h", "acl_meta.h", *(op.header for op in OPS), *(f"level2/{op.header}" for op in OPS))
    compile_text(text, compiler, "c++", "c++17", tmp_path)


@pytest.mark.parametrize("compiler", C_COMPILERS)
def test_own_c_compiles_without_a_warning(compiler: str, tmp_path: Path) -> None:
    """The hand-written and the generated C of the front library, with warnings as errors."""
    import sysconfig

    import numpy as np

    from nonpu.capi.functions import FUNCTIONS, NAMES
    from nonpu.codegen import front

    folder = Path(toolkit.__file__).parent / "front"
    names = ("VERSION", "SONAME", "LIBDIR", "BASE", "STDLIB", "PREFIX", "SITE_PACKAGES", "BUILD")
    (tmp_path / "table.h").write_text(front.table_header(FUNCTIONS))
    (tmp_path / "entries.c").write_text(front.entries(FUNCTIONS, NAMES, OPS))
    (tmp_path / "build.h").write_text(front.build_header(dict.fromkeys(names, "x")))
    sources = [path for path in (*folder.glob("*.c"), tmp_path / "entries.c") if path.name != "core.c"]
    paths = [f"-I{path}" for path in (folder, tmp_path, sysconfig.get_path("include"))]
    paths += ["-isystem", np.get_include()]
    flags = ["-std=gnu11", "-O2", *STRICT, "-Wshadow", "-fvisibility=hidden", "-DFUNC_VISIBILITY", *toolkit.cflags()]
    for source in sources:
        finished = run(compiler, *flags, *paths, "-c", source, "-o", os.devnull)
        assert finished.returncode == 0, finished.stderr


def test_hand_written_c_names_no_operator() -> None:
    """What knows an operator is generated from the specifications."""
    folder = Path(toolkit.__file__).parent / "front"
    text = "".join(path.read_text() for path in folder.iterdir()).lower()
    assert not [op.name for op in OPS if op.name.lower() in text or op.python_name in text]
