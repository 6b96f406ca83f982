"""Compiling a program against the stand-in, and keeping the result.

The cache has two steps, because what a program includes is known only once it has been compiled. A first digest
(source, compiler, flags, environment, build of the stand-in) names the list of the program's own headers; a second
one, with their contents, names the executable. The stand-in's headers are covered by the first.
"""

from __future__ import annotations

import os
import shlex
import shutil
from typing import NamedTuple

from nonpu.capi import toolkit
from nonpu.cli import Failure


class Language(NamedTuple):
    """How a kind of source file is compiled."""

    name: str
    variable: str
    flags_variable: str
    compilers: tuple[str, ...]
    libraries: tuple[str, ...]


C = Language("C", "CC", "CFLAGS", ("cc", "gcc", "clang"), ("-lm",))
CPP = Language("C++", "CXX", "CXXFLAGS", ("g++", "clang++", "c++"), ())
LANGUAGES = {".c": C, **dict.fromkeys((".cc", ".cpp", ".cxx", ".C", ".CC", ".CPP", ".CXX"), CPP)}
# Compilers take these suffixes for object files.
UNKNOWN_TO_COMPILERS = (".CC", ".CXX")
FLAGS = ("-O2", "-g", "-pthread")
SEARCH_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "GCC_EXEC_PREFIX")


def find_compiler(language: Language) -> list[str]:
    """Return the command of a compiler, its path first."""
    command = words_of(language.variable)
    if command:
        path = shutil.which(command[0])
        if path is None:
            raise Failure(f"no {language.name} compiler: {language.variable} names {command[0]}, which is not found")
        return [path, *command[1:]]
    for name in language.compilers:
        path = shutil.which(name)
        if path is not None:
            return [path]
    choices = " or ".join(language.compilers[:2])
    raise Failure(f"no {language.name} compiler found: install {choices}, or set {language.variable}")


def words_of(variable: str) -> list[str]:
    """Return the words of an environment variable, quoted as in a shell."""
    try:
        return shlex.split(os.environ.get(variable, ""))
    except ValueError as error:
        raise Failure(f"environment variable {variable} must be words as in a shell (got {error})") from error


def cache_folder() -> str:
    """Return the folder of nonpu's cache; a relative XDG_CACHE_HOME counts as unset, as its specification asks."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
    return os.path.join(base, "nonpu")


def digest(*parts: str | bytes) -> str:
    """Return a name for these parts that no other parts have."""
    from hashlib import blake2b

    state = blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little") + data)
    return state.hexdigest()


def read(path: str) -> bytes:
    """Return the contents of a file."""
    with open(path, "rb") as file:
        return file.read()


def file_identity(word: str) -> str:
    """Return size and time of the program that a word of a compiler's command names, if it names one."""
    path = shutil.which(word)
    if path is None:
        return ""
    status = os.stat(path)
    return f"{status.st_size} {status.st_mtime_ns}"


def header_digest(first: str, headers: list[str]) -> str | None:
    """Return the digest of the executable, None if a header is gone."""
    try:
        return digest(first, *(part for path in headers for part in (path, read(path))))
    except OSError:
        return None


def compiled(source: str) -> str:
    """Return the path of the executable of ``source``, compiling it unless that has been done.

    The compiler writes its messages to stderr itself.
    """
    suffix = os.path.splitext(source)[1]
    language = LANGUAGES[suffix]
    compiler = find_compiler(language)
    # Not the real path: a compiler looks for "header.h" beside the name that it was given.
    path = [os.path.abspath(source)]
    named = ["-x", "c++", *path, "-x", "none"] if suffix in UNKNOWN_TO_COMPILERS else path
    command = [*compiler, *FLAGS, *toolkit.cflags(), *words_of(language.flags_variable), *named]
    libraries = [*toolkit.libs(), *language.libraries]
    first = digest(
        toolkit.build_id(),
        read(source),
        *map(file_identity, compiler),
        *(os.environ.get(name, "") for name in SEARCH_VARIABLES),
        *command,
        *libraries,
    )
    folder = os.path.join(cache_folder(), "programs")
    program = os.path.splitext(os.path.basename(source))[0]
    lists = os.path.join(folder, f"{first}.headers")
    try:
        if os.path.exists(lists):
            known = header_digest(first, os.fsdecode(read(lists)).splitlines())
            if known is not None and os.path.exists(os.path.join(folder, known, program)):
                return os.path.join(folder, known, program)
        return _compile(command, libraries, folder, program, first, source)
    except OSError as error:
        remedy = "set XDG_CACHE_HOME to a folder that is writable"
        raise Failure(f"the cache {cache_folder()} cannot be used ({error.strerror}): {remedy}") from error


def _compile(command: list[str], libraries: list[str], folder: str, program: str, first: str, source: str) -> str:
    """Compile into ``folder``. Each file appears there whole or not at all, whoever else compiles the same."""
    import subprocess
    import tempfile

    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="new-") as scratch:
        target, rules = os.path.join(scratch, "out", program), os.path.join(scratch, "rules")
        os.mkdir(os.path.dirname(target))
        try:
            finished = subprocess.run([*command, "-MMD", "-MT", "program", "-MF", rules, "-o", target, *libraries])
        except OSError as error:
            raise Failure(f"the compiler {command[0]} cannot be run: {error.strerror}") from error
        if finished.returncode != 0:
            raise Failure(f"{command[0]} could not compile {source} (its exit status: {finished.returncode})")
        headers = own_headers(os.fsdecode(read(rules)))
        listed = os.path.join(scratch, "headers")
        with open(listed, "wb") as file:
            file.write(os.fsencode("\n".join(headers)))
        second = header_digest(first, headers)
        if second is None:
            raise Failure(f"a header of {program} disappeared while it was compiled")
        kept = os.path.join(folder, second)
        if not os.path.exists(os.path.join(kept, program)):
            try:
                os.rename(os.path.dirname(target), kept)
            except OSError:
                # Another nonpu was faster.
                if not os.path.exists(os.path.join(kept, program)):
                    raise
        os.replace(listed, os.path.join(folder, f"{first}.headers"))
    return os.path.join(kept, program)


def own_headers(rules: str) -> list[str]:
    """Return the prerequisites of the compiler's make rule, without the source and the stand-in's headers."""
    import re

    _, _, prerequisites = rules.replace("\\\n", " ").partition(": ")
    words = re.findall(r"(?:\\.|\S)+", prerequisites)
    paths = [os.path.abspath(re.sub(r"\\(.)", r"\1", word).replace("$$", "$")) for word in words]
    inside = os.path.realpath(os.path.join(toolkit.home(), "include")) + os.sep
    return [path for path in paths[1:] if not os.path.realpath(path).startswith(inside)]
