"""The command ``nonpu``, run as a user runs it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from nonpu import ops, products
from nonpu.capi import toolkit
from nonpu.cli import compilation, flags
from nonpu.spec.model import Op
from tests.command_line import NONPU, ROOT, assert_refused, needs_cpp, nonpu, output, run

COMMAND = shlex.quote(str(NONPU))


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    """An empty cache for compiled programs."""
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture
def counting_compiler(tmp_path: Path) -> tuple[dict[str, str], Path]:
    """A C++ compiler that writes a line per call to a file."""
    log = tmp_path / "calls"
    log.touch()
    wrapper = tmp_path / "counting-g++"
    real = next(filter(None, map(shutil.which, ("g++", "clang++", "c++"))))
    wrapper.write_text(f'#!/bin/sh\necho call >> "{log}"\nexec "{real}" "$@"\n')
    wrapper.chmod(0o755)
    return {"CXX": str(wrapper), "XDG_CACHE_HOME": str(tmp_path / "cache")}, log


def write(path: Path, text: str) -> Path:
    """Write a file and return its path."""
    path.write_text(text)
    return path


class TestHomeAndFlags:
    """Where the stand-in is and how to build against it."""

    def test_home_is_laid_out_like_a_toolkit(self) -> None:
        home = Path(output("home").strip())
        for name in ("include/acl/acl.h", "lib64/libascendcl.so", "lib64/libopapi.so", "set_env.sh"):
            assert (home / name).exists(), name

    def test_flags_without_option_are_both_kinds(self) -> None:
        every, both, cflags, libs = (
            shlex.split(nonpu("flags", *options).stdout)
            for options in ([], ["--libs", "--cflags"], ["--cflags"], ["--libs"])
        )
        assert cflags == toolkit.cflags()
        assert libs == toolkit.libs()
        assert every == both == cflags + libs

    def test_flags_with_a_space_are_quoted_and_a_warning_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(toolkit, "home", lambda: "/with space/toolkit")
        result = CliRunner().invoke(flags.command, [])
        assert result.exit_code == 0
        assert shlex.split(result.stdout) == [*toolkit.cflags(), *toolkit.libs()]
        assert result.stderr.startswith("nonpu: warning: /with space/toolkit contains a space")
        assert result.stderr.count("\n") == 1
        assert CliRunner().invoke(flags.command, ["--help"]).stdout.count("space") == 1

    def test_flags_without_a_space_are_plain_words(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(toolkit, "home", lambda: "/toolkit")
        result = CliRunner().invoke(flags.command, [])
        assert result.stdout.split() == [*toolkit.cflags(), *toolkit.libs()]
        assert result.stderr == ""


class TestOps:
    """The contracts on the terminal."""

    def test_list_has_every_operator(self) -> None:
        printed = output("ops")
        assert all(op.api in printed for op in ops.OPS)

    @pytest.mark.parametrize("name", ["aclnnSwishBackward", "SwishBackward", "swish_backward", "ACLNNSWISHBACKWARD"])
    def test_an_operator_is_found_by_any_of_its_names(self, name: str) -> None:
        assert output("ops", name).startswith("aclnnSwishBackward ")

    @pytest.mark.parametrize("op", ops.OPS, ids=lambda op: op.api)
    def test_page_shows_the_whole_contract(self, op: Op) -> None:
        facts = op.describe(products.find("A2"))
        printed = " ".join(output("ops", op.api, "--product", "A2").split())
        sentences = [check["sentence"] for check in facts["checks"]] + facts["notes"] + facts["differences"]
        for sentence in [*sentences, *facts["one_call"], op.formula, op.text, op.shape_rule]:
            assert " ".join(sentence.split()) in printed
        for parameter in facts["parameters"]:
            assert f"{parameter['name']} {parameter['role']}, {parameter['kind']}" in printed

    def test_json_is_what_the_specification_says(self) -> None:
        product = products.find("310P")
        assert json.loads(output("ops", "--json", "--product", "310P")) == [op.describe(product) for op in ops.OPS]
        one = json.loads(output("ops", "swish_backward", "--json"))
        assert one == ops.find("swish_backward").describe(products.find(products.DEFAULT))

    def test_product_decides_on_bfloat16(self) -> None:
        for product, present in (("Ascend910B1", True), ("Ascend910B", False), ("310P", False)):
            facts = json.loads(output("ops", "swish_backward", "--json", "--product", product))
            assert ("BFLOAT16" in facts["parameters"][0]["dtypes"]) is present

    def test_environment_selects_the_product_and_the_option_wins(self) -> None:
        env = {"NONPU_PRODUCT": "310B"}
        assert output("ops", env=env).count("not supported") == len(ops.OPS)
        assert "not supported" not in output("ops", "--product", "A2", env=env)


class TestWrongUsage:
    """Exit status 2 and one line, never a traceback."""

    @pytest.mark.parametrize(
        ("arguments", "fragment"),
        [
            ([], "command"),
            (["fly"], "fly"),
            (["run"], "FILE"),
            (["run", "missing.cpp"], "missing.cpp"),
            (["run", "."], "directory"),
            (["run", "data.txt"], "not executable"),
            (["run", "data.txt", "--fast"], "--fast"),
            (["run", "data.txt", "--product", "Ascend1"], "Ascend910B1"),
            (["run", "data.txt", "--product"], "--product"),
            (["home", "extra"], "extra"),
            (["flags", "--rpath"], "--rpath"),
            (["ops", "aclnnFly"], "aclnnSwishBackward"),
            (["ops", "Swish"], "no operator Swish: did you mean aclnnSwishBackward?"),
            (["ops", "swish_backwards"], "did you mean aclnnSwishBackward?"),
            (["ops", "sigmoid_bakward"], "did you mean aclnnSigmoidBackward?"),
            (["ops", "--product", "Ascend1"], "Ascend1"),
            (["doctor", "--fix"], "--fix"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_wrong_usage_is_one_line(self, tmp_path: Path, arguments: list[str], fragment: str) -> None:
        write(tmp_path / "data.txt", "no program")
        assert_refused(nonpu(*arguments, cwd=tmp_path), 2, fragment)

    def test_unknown_product_in_the_environment(self) -> None:
        """The variable is named, and not an option that nobody gave."""
        wrong = {"NONPU_PRODUCT": "Ascend1"}
        refused = nonpu("ops", env=wrong)
        assert_refused(refused, 2, "nonpu: environment variable NONPU_PRODUCT: product must be ", "(got 'Ascend1')")
        assert "--product" not in refused.stderr
        assert_refused(nonpu("ops", "--product", "Ascend2", env=wrong), 2, "--product", "(got 'Ascend2')")

    @pytest.mark.parametrize(
        "arguments", ["home", "flags", "ops", "ops swish_backward", "doctor", "--help", "--version"]
    )
    def test_output_that_cannot_be_written(self, arguments: str) -> None:
        """A full disk is one line; a reader that has gone away is none."""
        full = run("sh", "-c", f"{COMMAND} {arguments} > /dev/full")
        assert full.returncode == 1
        *warnings, last = full.stderr.splitlines()
        assert last == "nonpu: No space left on device"
        assert warnings == [] or " " in toolkit.home()
        piped = run("sh", "-c", f"{COMMAND} {arguments} | true")
        assert piped.stderr == "" or " " in toolkit.home()

    def test_help_lists_every_command(self) -> None:
        printed = output("--help")
        assert all(f"\n  {name} " in printed for name in ("run", "home", "flags", "ops", "doctor"))


@needs_cpp
class TestRunCompiled:
    """C and C++ sources."""

    def test_status_arguments_and_stdin_are_the_programs(self, tmp_path: Path, cache: dict[str, str]) -> None:
        source = write(
            tmp_path / "echo.cpp",
            "#include <iostream>\nint main(int n, char **v) {\n"
            'for (int i = 1; i < n; ++i) std::cout << v[i] << "\\n";\nstd::cout << std::cin.rdbuf();\nreturn 7;\n}\n',
        )
        finished = nonpu("run", source, "--", "--product", "a b", "--", "", env=cache, text="typed\n")
        assert (finished.returncode, finished.stdout, finished.stderr) == (7, "--product\na b\n--\n\ntyped\n", "")

    @pytest.mark.parametrize("suffix", [".c", ".cc", ".cpp", ".cxx", ".C", ".CC", ".CPP", ".CXX"])
    def test_every_kind_of_source_compiles(self, tmp_path: Path, cache: dict[str, str], suffix: str) -> None:
        source = write(
            tmp_path / f"kind{suffix}",
            '#include <math.h>\n#include <stdio.h>\n#ifdef __cplusplus\n#define NAME "C++"\n#else\n'
            '#define NAME "C"\n#endif\n'
            'int main(int n, char **v) { (void)v; printf("%s %.0f", NAME, cbrt(n * 27.0)); }\n',
        )
        assert output("run", source, env=cache) == ("C 3" if suffix == ".c" else "C++ 3")

    @pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
    def test_signal_gives_128_and_its_number(self, tmp_path: Path, cache: dict[str, str], number: int) -> None:
        source = write(
            tmp_path / "die.cpp",
            f"#include <csignal>\n#include <unistd.h>\nint main() {{ kill(getpid(), {number}); }}\n",
        )
        assert nonpu("run", source, env=cache).returncode == 128 + number

    def test_second_run_does_not_compile(self, tmp_path: Path, counting_compiler: tuple[dict[str, str], Path]) -> None:
        env, log = counting_compiler
        source = write(tmp_path / "one.cpp", "int main() {}\n")
        for _ in range(3):
            assert output("run", source, env=env) == ""
        assert log.read_text() == "call\n"

    def test_changed_source_or_header_is_compiled_again(
        self, tmp_path: Path, counting_compiler: tuple[dict[str, str], Path]
    ) -> None:
        env, log = counting_compiler
        folder = tmp_path / "with space # and $ign"
        folder.mkdir()
        source = write(folder / "print.cpp", '#include <cstdio>\n#include "text.h"\nint main() { puts(TEXT); }\n')
        for text, calls in (("one", 1), ("two", 2), ("two", 2), ("one", 2)):
            write(folder / "text.h", f'#define TEXT "{text}"\n')
            assert output("run", source, env=env) == text + "\n"
            assert log.read_text().count("call") == calls
        write(source, source.read_text().replace("puts(TEXT)", 'puts("new")'))
        assert output("run", source, env=env) == "new\n"
        assert log.read_text().count("call") == 3

    def test_compile_error_shows_the_compilers_output_and_one_line(self, tmp_path: Path, cache: dict[str, str]) -> None:
        source = write(tmp_path / "wrong.cpp", "int main() { return missing; }\n")
        finished = nonpu("run", source, env=cache)
        assert (finished.returncode, finished.stdout) == (1, "")
        *compiler_lines, last = finished.stderr.splitlines()
        assert "missing" in "".join(compiler_lines)
        assert last.startswith("nonpu: ")
        assert "could not compile" in last
        assert not list(Path(cache["XDG_CACHE_HOME"]).rglob("new-*"))

    def test_no_compiler_says_what_to_install(self, tmp_path: Path, cache: dict[str, str]) -> None:
        source = write(tmp_path / "one.cpp", "int main() {}\n")
        assert_refused(nonpu("run", source, env={**cache, "PATH": str(tmp_path), "CXX": ""}), 1, "g++", "CXX")
        assert_refused(nonpu("run", source, env={**cache, "CXX": "no-such-compiler -O1"}), 1, "no-such-compiler")
        assert_refused(nonpu("run", source, env={**cache, "CXX": "g++ 'unclosed"}), 1, "CXX", "quotation")

    def test_unusable_cache_is_one_line(self, tmp_path: Path) -> None:
        source = write(tmp_path / "one.cpp", "int main() {}\n")
        """It says that it is the cache and what to set, as `nonpu doctor` does."""
        refused = nonpu("run", source, env={"XDG_CACHE_HOME": str(source)})
        assert_refused(refused, 1, f"the cache {source}/nonpu cannot be used (Not a directory)", "set XDG_CACHE_HOME")

    @pytest.mark.parametrize(("suffix", "variable"), [(".c", "CFLAGS"), (".cpp", "CXXFLAGS")])
    def test_flags_of_the_environment_come_after_ours(
        self, tmp_path: Path, cache: dict[str, str], suffix: str, variable: str
    ) -> None:
        """They are part of what the cache goes by; the other language's have no effect."""
        text = '#include <stdio.h>\n#ifndef VALUE\n#define VALUE "none"\n#endif\nint main(void) { puts(VALUE); }\n'
        source = write(tmp_path / f"value{suffix}", text.replace("void", "void" if suffix == ".c" else ""))
        other = {"CFLAGS": "CXXFLAGS", "CXXFLAGS": "CFLAGS"}[variable]
        for value in ("none", "a b", "c", "a b"):
            words = "" if value == "none" else f"""-DVALUE='"{value}"' -O0"""
            env = {**cache, variable: words, other: "-no-such-flag"}
            assert output("run", source, env=env) == f"{value}\n"
        assert_refused(nonpu("run", source, env={**cache, variable: "'unclosed"}), 1, variable, "quotation")
        assert variable in output("run", "--help")

    def test_program_sees_libraries_and_product(self, tmp_path: Path, cache: dict[str, str]) -> None:
        source = write(
            tmp_path / "env.cpp",
            '#include <cstdio>\n#include <cstdlib>\nint main() { puts(getenv("LD_LIBRARY_PATH"));'
            ' puts(getenv("NONPU_PRODUCT")); }\n',
        )
        env = {**cache, "LD_LIBRARY_PATH": "/elsewhere:", "NONPU_PRODUCT": ""}
        libraries, product = output("run", source, "--product", "310P", env=env).splitlines()
        assert libraries == f"{output('home').strip()}/lib64:/elsewhere"
        assert product == "310P"

    def test_interrupt_and_termination_reach_the_program(self, tmp_path: Path, cache: dict[str, str]) -> None:
        source = write(
            tmp_path / "wait.cpp",
            "#include <csignal>\n#include <cstdio>\n#include <unistd.h>\nvoid stop(int) { _exit(42); }\n"
            'int main() { signal(SIGTERM, stop); puts("ready"); fflush(stdout); for (;;) pause(); }\n',
        )
        with subprocess.Popen(
            [NONPU, "run", source], env={**os.environ, **cache}, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.terminate()
            assert process.wait(60) == 42

    def test_closed_pipe_ends_the_program_quietly(self, tmp_path: Path, cache: dict[str, str]) -> None:
        source = write(
            tmp_path / "yes.cpp", '#include <cstdio>\nint main() { for (int i = 0; i < 1000000; ++i) puts("y"); }\n'
        )
        finished = run("sh", "-c", f"{COMMAND} run {shlex.quote(str(source))} | head -n 1", env=cache)
        assert (finished.stdout, finished.stderr) == ("y\n", "")


class TestRunOther:
    """Python scripts and executables."""

    def test_script_runs_with_this_python_and_its_arguments(self, tmp_path: Path) -> None:
        write(
            tmp_path / "show.py",
            "import json, os, sys\nprint(json.dumps([sys.prefix, sys.argv, sys.path, dict(os.environ)]))\nexit(3)\n",
        )
        finished = nonpu("run", "show.py", "--product", "A3", "--", "-x", cwd=tmp_path)
        assert finished.returncode == 3
        prefix, argv, path, env = json.loads(finished.stdout)
        home = output("home").strip()
        assert (prefix, argv) == (sys.prefix, ["show.py", "-x"])
        assert path[:2] == [str(tmp_path), f"{home}/python/site-packages"]
        assert env["LD_LIBRARY_PATH"].split(":")[0] == f"{home}/lib64"
        assert env["NONPU_PRODUCT"] == "A3"
        assert env["ASCEND_HOME_PATH"] == env["ASCEND_TOOLKIT_HOME"] == home

    def test_script_can_load_every_library_by_name(self, tmp_path: Path) -> None:
        script = write(
            tmp_path / "load.py",
            "import ctypes\nfor name in ('libascendcl.so', 'libnnopbase.so', 'libopapi.so', 'libopapi_nn.so'):\n"
            "    assert ctypes.CDLL(name).aclnnSwishBackwardGetWorkspaceSize\n",
        )
        assert output("run", script) == ""

    def test_executable_runs_from_any_folder(self, tmp_path: Path) -> None:
        write(tmp_path / "tool", '#!/bin/sh\necho "$1"\nexit 5\n').chmod(0o755)
        finished = nonpu("run", "tool", "--", "hello", cwd=tmp_path)
        assert (finished.returncode, finished.stdout) == (5, "hello\n")

    def test_executable_that_the_system_cannot_run(self, tmp_path: Path) -> None:
        program = write(tmp_path / "tool", "no header\n")
        program.chmod(0o755)
        assert_refused(nonpu("run", program), 1, "cannot be run")

    def test_run_imports_neither_numpy_nor_an_operator(self, tmp_path: Path) -> None:
        program = write(tmp_path / "tool", "#!/bin/sh\n")
        program.chmod(0o755)
        code = (
            "import sys; from nonpu.cli import main; status = main(sys.argv[1:]);"
            "print(*(name for name in ('numpy', 'nonpu.ops', 'nonpu.engine', 'subprocess') if name in sys.modules));"
            "sys.exit(status)"
        )
        finished = run(sys.executable, "-c", code, "run", program)
        assert (finished.returncode, finished.stdout, finished.stderr) == (0, "\n", "")


class TestDoctor:
    """What is installed, what is missing."""

    def test_working_installation_passes(self) -> None:
        printed = nonpu("doctor")
        assert printed.returncode == 0, printed.stdout
        assert "broken" not in printed.stdout
        assert "0.5" in printed.stdout

    def test_extras_are_listed_whole(self) -> None:
        """Each distribution that pyproject.toml names under the extra."""
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        lines = {line.split()[1]: line for line in nonpu("doctor").stdout.splitlines() if not line.startswith(" ")}
        for name in ("torch", "dask", "verify"):
            for requirement in extras[name]:
                assert f"{re.split('[^A-Za-z0-9_-]', requirement)[0]} " in lines[name]

    def test_unknown_product_is_reported_with_the_remedy(self) -> None:
        printed = nonpu("doctor", env={"NONPU_PRODUCT": "Ascend1"})
        assert printed.returncode == 1
        assert any(line.startswith("broken") and "product" in line for line in printed.stdout.splitlines())
        assert "-> " in printed.stdout
        assert "Ascend910B1" in printed.stdout

    def test_missing_compiler_is_reported_but_no_failure(self, tmp_path: Path) -> None:
        printed = nonpu("doctor", env={"PATH": str(tmp_path), "CXX": "", "CC": ""})
        assert printed.returncode == 0, printed.stdout
        assert "install g++ or clang++" in printed.stdout


class TestCacheNames:
    """Parts of the cache's key that no run shows."""

    def test_digest_separates_its_parts(self) -> None:
        """Moving a byte from one part to the next gives another name."""
        assert len({compilation.digest("ab", "c"), compilation.digest("a", "bc"), compilation.digest("abc")}) == 3

    @pytest.mark.parametrize(("value", "expected"), [("", "~/.cache"), ("relative", "~/.cache"), ("/a", "/a")])
    def test_relative_cache_home_counts_as_unset(
        self, monkeypatch: pytest.MonkeyPatch, value: str, expected: str
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert compilation.cache_folder() == os.path.join(os.path.expanduser(expected), "nonpu")
