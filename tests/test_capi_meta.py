"""The meta interface beyond tensors and scalars, called from C and C++."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from nonpu.capi import functions, toolkit
from nonpu.codegen import headers
from tests.capi.programs import HERE, STRICT, cases, expect_pass, needs_c
from tests.command_line import needs_cpp, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_c


@pytest.mark.parametrize("case", cases("tier2_meta.c"))
def test_meta_function(case: str, tmp_path: Path) -> None:
    """Arrays, lists, getters, data buffers: documented statuses, and never a crash."""
    expect_pass("tier2_meta.c", case, tmp_path)


@pytest.mark.parametrize("case", cases("tier2_rebinding.c"))
def test_rebinding(case: str, tmp_path: Path) -> None:
    """Executors move to other addresses, judged as in phase one; what is gone or never was memory is refused."""
    expect_pass("tier2_rebinding.c", case, tmp_path)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("case", "rounds"), list(zip(cases("misuse.c"), (20000, 2000), strict=True)))
def test_misuse_in_random_order(case: str, rounds: int, seed: int, tmp_path: Path) -> None:
    """Whatever is passed, by one thread or by eight, each function returns a documented status, with a text."""
    expect_pass("misuse.c", case, tmp_path, {"SEED": str(seed), "ROUNDS": str(rounds)})


def built(source: Path, compiler: str, *flags: str, folder: Path) -> Path:
    """Return the executable of a source file, compiled without a warning."""
    if shutil.which(compiler) is None:
        pytest.skip(f"this machine has no {compiler}")
    program = folder / "program"
    finished = run(compiler, *STRICT, *flags, source, *toolkit.cflags(), *toolkit.libs(), "-ldl", "-o", program)
    assert finished.returncode == 0, finished.stderr
    return program


@needs_cpp
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_from_cpp(compiler: str, standard: str, tmp_path: Path) -> None:
    """delete[], any arguments for bare names, and the log, which is printed where the switch is on."""
    program = built(HERE / "tier2_meta.cpp", compiler, f"-std={standard}", "-pedantic", folder=tmp_path)
    finished = run(program, env={"ASCEND_GLOBAL_LOG_LEVEL": "", "ASCEND_SLOG_PRINT_TO_STDOUT": ""})
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")
    lines = run(program, env={"ASCEND_SLOG_PRINT_TO_STDOUT": "1"}).stdout.splitlines()
    assert [line.partition(" logging: ")[2] for line in lines] == ["no values", "two values 2", "x" * 1023]
    assert all(line.startswith("[ERROR] APP ") and "tier2_meta.cpp:" in line for line in lines)
    lower = run(program, env={"ASCEND_LOG_PRINT_TO_STDOUT": "1", "ASCEND_GLOBAL_LOG_LEVEL": "0"}).stdout
    assert "[INFO] APP " in lower
    assert run(program, env={"ASCEND_LOG_PRINT_TO_STDOUT": "1", "ASCEND_GLOBAL_LOG_LEVEL": "4"}).stdout == ""


@needs_cpp
@pytest.mark.parametrize("allocator", ["", "void *operator new[](size_t n) { made++; return std::malloc(n); }"])
def test_arrays_come_from_the_operator_new_of_the_program(allocator: str, tmp_path: Path) -> None:
    """AddressSanitizer knows which function allocated and which released; a program may have its own."""
    source = tmp_path / "program.cpp"
    source.write_text(
        '#include <cstdlib>\n#include <iostream>\n#include <new>\n#include "aclnn/acl_meta.h"\nstatic int made;\n'
        f"{allocator}\n{'void operator delete[](void *p) noexcept { std::free(p); }' if allocator else ''}\n"
        "int main() { std::cout << std::flush; const int64_t n = 2; int64_t *dims = nullptr; uint64_t size = 0;\n"
        "aclTensor *t = aclCreateTensor(&n, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &n, 1, nullptr);\n"
        "if (aclGetViewShape(t, &dims, &size)) return 1;\ndelete[] dims; return aclDestroyTensor(t) || made != "
        f"{1 if allocator else 0}; }}\n"
    )
    flags = [] if allocator else ["-fsanitize=address"]
    program = built(source, "g++", *flags, "-Wno-sized-deallocation", folder=tmp_path)
    finished = run(program, env={"ASAN_OPTIONS": "detect_leaks=0:alloc_dealloc_mismatch=1"})
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


@pytest.mark.parametrize(("compiler", "standard"), [("gcc", "c11"), ("gcc", "c17"), ("clang", "c11"), ("clang", "c17")])
def test_every_bare_name_answers(compiler: str, standard: str, tmp_path: Path) -> None:
    """Each one links, returns ACL_ERROR_API_NOT_SUPPORT or null, and names itself in the text."""
    declared = [name for name in functions.NAMES if name.header]
    assert len(declared) > 200
    calls = "".join(
        f"    bad += {name.name}() != {'ACL_ERROR_API_NOT_SUPPORT' if name.result == 'aclError' else 'NULL'}"
        f' || !text("{name.name}: ");\n'
        for name in declared
    )
    others = "".join(f'    bad += !dlsym(0, "{name.name}");\n' for name in functions.NAMES if not name.header)
    source = tmp_path / "names.c"
    source.write_text(
        '#include <dlfcn.h>\n#include <string.h>\n#include "acl/acl.h"\n'
        "static int text(const char *start)\n{\n    const char *t = aclGetRecentErrMsg();\n"
        "    return t && !strncmp(t, start, strlen(start));\n}\n"
        f"int main(void)\n{{\n    int bad = 0;\n{calls}{others}    return bad;\n}}\n"
    )
    finished = run(built(source, compiler, f"-std={standard}", "-pedantic", folder=tmp_path))
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


@needs_cpp
def test_overloads_call_what_they_stand_for(tmp_path: Path) -> None:
    """acl_rt_api.h has those whose function exists; C ignores them."""
    known = {function.name for function in functions.FUNCTIONS}
    calls = "".join(
        f"    (void)static_cast<aclError (*)({', '.join(kind for kind, _ in parameters)})>({name});\n"
        for name, parameters, target in headers.OVERLOADS
        if target in known
    )
    source = tmp_path / "overloads.cpp"
    source.write_text(f'#include "acl/acl_rt_api.h"\nint main() {{\n{calls}    return 0;\n}}\n')
    built(source, "g++", "-std=c++11", "-pedantic", folder=tmp_path)
