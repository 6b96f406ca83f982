"""The six product lines that the documents know, and the SoC names that select them.

Source: the platform configuration of the runtime and the product tables of the operator documents.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

ENVIRONMENT: Final = "NONPU_PRODUCT"
DEFAULT: Final = "Ascend910B1"


class Product:
    """A product line together with one of its SoCs.

    Attributes
    ----------
    line : str
        Short name of the line: 950, A3, A2, 310B, 310P or 910.
    name, name_zh : str
        Name in the documents (English, Chinese).
    tag : str
        Tag in the documents' file names and tables, for example ``910b`` for Atlas A2.
    soc : str
        SoC name as ``aclrtGetSocName`` gives it.
    socs : tuple of str
        All SoC names of the line.
    short_name : str
        Short SoC name of the build system.
    arch : int
        NpuArch number.
    has_bf16 : bool
        Whether BFLOAT16 exists: the documents' dtype lists depend on this alone.
    """

    __slots__ = ("arch", "has_bf16", "line", "name", "name_zh", "short_name", "soc", "socs", "tag")

    def __init__(
        self,
        *,
        line: str,
        name: str,
        name_zh: str,
        tag: str,
        soc: str,
        socs: tuple[str, ...],
        short_name: str,
        arch: int,
        has_bf16: bool,
    ) -> None:
        self.line = line
        self.name = name
        self.name_zh = name_zh
        self.tag = tag
        self.soc = soc
        self.socs = socs
        self.short_name = short_name
        self.arch = arch
        self.has_bf16 = has_bf16

    def with_soc(self, soc: str) -> Product:
        """Return the same line with another of its SoCs."""
        return Product(
            line=self.line,
            name=self.name,
            name_zh=self.name_zh,
            tag=self.tag,
            soc=soc,
            socs=self.socs,
            short_name=self.short_name,
            arch=self.arch,
            has_bf16=self.has_bf16,
        )

    def __repr__(self) -> str:
        return f"<Product {self.soc}: {self.name}>"


def _names(prefix: str, *endings: str) -> tuple[str, ...]:
    return tuple(prefix + word for group in endings for word in group.split())


LINES: Final = (
    Product(
        line="950",
        name="Ascend 950PR / Ascend 950DT",
        name_zh="Ascend 950PR/Ascend 950DT",
        tag="950",
        soc="Ascend950PR_9599",
        socs=_names("Ascend950PR_", "950z 9579 957b 957bx 957c 957d 9589 958b 9599")
        + _names(
            "Ascend950DT_",
            "950x 950y 9571 9572 9573 9574 9575 9576 9577 9578 9581 9581x 9582 9582x 9583 9584 9585 9586 9587 9588",
            "9591 9592 9595 9596 95A1 95A2",
        ),
        short_name="Ascend950",
        arch=3510,
        has_bf16=True,
    ),
    Product(
        line="A3",
        name="Atlas A3 training / Atlas A3 inference",
        name_zh="Atlas A3 训练系列产品/Atlas A3 推理系列产品",
        tag="A3",
        soc="Ascend910_9391",
        socs=_names("Ascend910_", "9362 9363 9372 9381 9382 9391 9392"),
        short_name="Ascend910_93",
        arch=2201,
        has_bf16=True,
    ),
    Product(
        line="A2",
        name="Atlas A2 training / Atlas A2 inference",
        name_zh="Atlas A2 训练系列产品/Atlas A2 推理系列产品",
        tag="910b",
        soc="Ascend910B1",
        socs=_names("Ascend910", "B1 B2 B2C B3 B4 B4-1"),
        short_name="Ascend910B",
        arch=2201,
        has_bf16=True,
    ),
    Product(
        line="310B",
        name="Atlas 200I/500 A2 inference",
        name_zh="Atlas 200I/500 A2 推理产品",
        tag="310b",
        soc="Ascend310B1",
        socs=_names("Ascend310", "B1 B2 B3 B4"),
        short_name="Ascend310B",
        arch=3002,
        has_bf16=False,
    ),
    Product(
        line="310P",
        name="Atlas inference series",
        name_zh="Atlas 推理系列产品",
        tag="310p",
        soc="Ascend310P1",
        socs=_names("Ascend310", "P1 P3 P5 P7"),
        short_name="Ascend310P",
        arch=2002,
        has_bf16=False,
    ),
    Product(
        line="910",
        name="Atlas training series",
        name_zh="Atlas 训练系列产品",
        tag="910",
        soc="Ascend910A",
        # "Ascend910B" without a digit is a training chip, although it is also the short name of Atlas A2.
        socs=_names("Ascend910", "A B ProA ProB PremiumA"),
        short_name="Ascend910",
        arch=1001,
        has_bf16=False,
    ),
)


def _key(name: str) -> str:
    """Fold case and drop spaces: ``Ascend 910B1`` and ``ascend910b1`` are one name."""
    return "".join(name.split()).lower()


def _index() -> dict[str, Product]:
    """Map every accepted name to its product; an earlier entry wins, so a full SoC name beats a short one."""
    index: dict[str, Product] = {}
    for line in LINES:
        for soc in line.socs:
            index.setdefault(_key(soc), line.with_soc(soc))
    for line in LINES:
        for name in (line.line, line.tag, line.short_name, line.name, line.name_zh, *_parts(line)):
            index.setdefault(_key(name), line)
    for line in LINES:
        for soc in line.socs:
            index.setdefault(_key(soc).removeprefix("ascend"), line.with_soc(soc))
    return index


def _parts(line: Product) -> list[str]:
    """Names of the products that a line's document name lists, in full and without the words of its kind."""
    parts = [part.strip() for part in line.name.split(" / ")]
    if line.line == "950" or len(parts) == 1:
        return parts
    return [*parts, *(f"{part} series" for part in parts), parts[0].rsplit(" ", 1)[0]]


_PRODUCTS: Final = _index()


def find(name: str) -> Product:
    """Return the product with a SoC name, product name, line, tag or short SoC name; case and spaces do not matter.

    Raises
    ------
    TypeError
        If the name is no string.
    ValueError
        If nothing has this name. Both messages list the choices.
    """
    is_text = isinstance(name, str)
    product = _PRODUCTS.get(_key(name)) if is_text else None
    if product is None:
        choices = ", ".join(f"{line.line} ({line.name}; {line.soc})" for line in LINES)
        kind = ValueError if is_text else TypeError
        raise kind(f"product must be a SoC name or one of {choices} (got {name!r})")
    return product


def current(name: str | None = None) -> Product:
    """Return the product that the environment variable NONPU_PRODUCT selects, Ascend910B1 if it is unset or empty.

    Parameters
    ----------
    name : str, optional
        Value of the variable, where the caller has read it itself.

    Raises
    ------
    ValueError
        If the variable names no product.
    """
    if name is None:
        name = os.environ.get(ENVIRONMENT, "")
    if not name:
        return _PRODUCTS[_key(DEFAULT)]
    try:
        return find(name)
    except ValueError as error:
        raise ValueError(f"environment variable {ENVIRONMENT}: {error}") from None
