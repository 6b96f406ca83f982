"""The option ``--product``, which several commands have."""

from __future__ import annotations

import click
from click.core import ParameterSource


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


product_option = click.option(
    "--product",
    metavar="NAME",
    envvar="NONPU_PRODUCT",
    callback=known_product,
    help="The product to stand in for: a SoC name such as Ascend910B1, or a product's name ($NONPU_PRODUCT).",
)
