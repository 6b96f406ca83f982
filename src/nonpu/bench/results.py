"""What a run measured: the file, its checks, and the arithmetic of ratios.

The file is one JSON object.  ``schema`` is its version; ``begun``, ``machine``, ``versions``, ``settings`` and
``engines`` say how and with what was measured; ``cases`` has one record per case: its four names (see
`nonpu.bench.cases.Case`), ``times`` (seconds per call of every round, by number of threads and lane), ``refused`` (by
lane, why it was left out) and ``differs`` (lanes whose first results are not ours).  Round *i* of all lanes was
measured together.
"""

from __future__ import annotations

import json
import statistics
from typing import Any

from nonpu.bench.limit import LANES as LIMITS
from nonpu.bench.session import SCHEMA

OURS = ("executor", "call")
PEERS = ("torch", "numexpr", "jax")
_FIELDS = {
    "schema": int,
    "begun": str,
    "machine": dict,
    "versions": dict,
    "settings": dict,
    "engines": dict,
    "cases": list,
}
_MACHINE = ("processor", "architecture", "processors", "caches", "memory", "system", "load")


def check(results: Any) -> dict[str, Any]:
    """Return `results` if they are what this module describes.

    Raises
    ------
    ValueError
        What is wrong, and where.
    """
    _require(isinstance(results, dict), "the file must hold an object")
    _require(results.get("schema") == SCHEMA, f"schema must be {SCHEMA} (got {results.get('schema')!r})")
    for name, kind in _FIELDS.items():
        _require(isinstance(results.get(name), kind), f"{name} must be of type {kind.__name__}")
    missing = [name for name in _MACHINE if name not in results["machine"]]
    _require(not missing, f"machine must have {', '.join(missing)}")
    _require(_are_strings(results["versions"]), "versions must be strings by name")
    _require(bool(results["settings"].get("threads")), "settings must have threads")
    for name, state in results["engines"].items():
        _require(isinstance(state, dict) and {"available", "reason"} <= state.keys(), f"engines: {name} is incomplete")
    for index, record in enumerate(results["cases"]):
        _check_record(record, f"cases[{index}]")
    whole: dict[str, Any] = results
    return whole


def _check_record(record: Any, where: str) -> None:
    _require(isinstance(record, dict), f"{where} must be an object")
    for name in ("operator", "dtype", "layout", "size"):
        _require(isinstance(record.get(name), str), f"{where}: {name} must be a string")
    _require(_are_strings(record.get("refused")), f"{where}: refused must be strings by lane")
    _require(isinstance(record.get("differs"), list), f"{where}: differs must be a list")
    _require(isinstance(record.get("times"), dict), f"{where}: times must be an object")
    for threads, lanes in record["times"].items():
        _require(threads.isdigit() and isinstance(lanes, dict), f"{where}: times must be by number of threads")
        for lane, rounds in lanes.items():
            good = isinstance(rounds, list) and rounds and all(isinstance(x, int | float) and x > 0 for x in rounds)
            _require(bool(good), f"{where}: times of {lane} must be positive numbers")


def _are_strings(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise ValueError(text)


def load(path: str) -> dict[str, Any]:
    """Read and check a file.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is not what `check` wants.
    """
    with open(path, encoding="utf-8") as file:
        return check(json.load(file))


def dump(results: dict[str, Any]) -> str:
    """Return the text of the file: one line per case, so that two runs can be compared line by line."""
    head = {name: value for name, value in results.items() if name != "cases"}
    lines = ",\n".join("  " + json.dumps(record) for record in results["cases"])
    return json.dumps(head, indent=1)[:-2] + f',\n "cases": [\n{lines}\n ]\n}}\n'


def times(record: dict[str, Any], threads: int, lane: str) -> list[float]:
    """Return the seconds per call of every round, empty if the lane was not measured."""
    rounds: list[float] = record["times"].get(str(threads), {}).get(lane, [])
    return rounds


def median(record: dict[str, Any], threads: int, lane: str) -> float | None:
    """Return the median of the seconds per call."""
    rounds = times(record, threads, lane)
    return statistics.median(rounds) if rounds else None


def paired(numerator: list[float], denominator: list[float]) -> float | None:
    """Return the median of the ratios round by round, None without a common round."""
    ratios = [a / b for a, b in zip(numerator, denominator, strict=False)]
    return statistics.median(ratios) if ratios else None


def speed(record: dict[str, Any], threads: int, lane: str, peer: str) -> float | None:
    """Return the peer's time over the lane's: above 1 the lane is faster."""
    return paired(times(record, threads, peer), times(record, threads, lane))


def scaling(record: dict[str, Any], lane: str, threads: int) -> float | None:
    """Return the time of one thread over that of several."""
    return paired(times(record, 1, lane), times(record, threads, lane))


def limit(record: dict[str, Any], threads: int) -> str | None:
    """Return the quicker of the two triads."""
    found = {lane: value for lane in LIMITS if (value := median(record, threads, lane)) is not None}
    return min(found, key=found.__getitem__) if found else None


def share_of_limit(record: dict[str, Any], threads: int) -> float | None:
    """Return the quicker triad's time over ours: 1 is the limit."""
    name, lane = limit(record, threads), best_lane(record, threads)
    return None if name is None or lane is None else speed(record, threads, lane, name)


def best_lane(record: dict[str, Any], threads: int) -> str | None:
    """Return the executor where the contract has one, else the call."""
    return next((lane for lane in OURS if times(record, threads, lane)), None)
