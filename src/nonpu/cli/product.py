"""The option ``--product``, which several commands have."""

from __future__ import annotations

import click
from click.core import ParameterSource

EVERY = "all"


def known_product(ctx: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    """Return ``name``, having made sure that there is such a product."""
    if name is not None:
        from nonpu import products

        try:
            products.find(name)
        except ValueError as error:
            if ctx.get_parameter_source(str(parameter.name)) is ParameterSource.ENVIRONMENT:
                raise click.UsageError(f"environment variable {products.ENVIRONMENT}: {error}") from error
            raise click.BadParameter(str(error)) from error
    return name


def known_product_or_all(ctx: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    """Return ``name``, having made sure that there is such a product, or ``all``."""
    return EVERY if name is not None and name.lower() == EVERY else known_product(ctx, parameter, name)


product_option = click.option(
    "--product",
    metavar="NAME",
    envvar="NONPU_PRODUCT",
    callback=known_product,
    help="The product to stand in for: a SoC name such as Ascend910B1, or a product's name ($NONPU_PRODUCT).",
)
product_or_all_option = click.option(
    "--product",
    metavar="NAME",
    envvar="NONPU_PRODUCT",
    callback=known_product_or_all,
    help="The product to stand in for: a SoC name such as Ascend910B1, a product's name, or all ($NONPU_PRODUCT).",
)
