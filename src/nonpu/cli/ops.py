"""``nonpu ops``: the operators and their contracts."""

from __future__ import annotations

import click

from nonpu.cli.product import product_option


@click.command(short_help="List the operators, or show the contract of one.")
@click.argument("name", required=False)
@product_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(name: str | None, product: str | None, as_json: bool) -> None:
    """List the operators, or show the contract of NAME: aclnnSwishBackward, SwishBackward or swish_backward."""
    from nonpu import ops, products
    from nonpu.codegen import docs
    from nonpu.spec.contract import render_text

    chosen = products.find(products.DEFAULT if product is None else product)
    if name is None:
        if as_json:
            click.echo(as_text([op.describe(chosen) for op in ops.OPS]))
        else:
            click.echo(docs.render_list(chosen))
        return
    try:
        facts = ops.find(name).describe(chosen)
    except ValueError as error:
        close = ops.similar(name, [op.api for op in ops.OPS])
        question = f"there is no operator {name}: did you mean {' or '.join(close)}?"
        raise click.UsageError(question if close else str(error)) from error
    click.echo(as_text(facts) if as_json else render_text(facts))


def as_text(facts: object) -> str:
    """Return facts as JSON."""
    import json

    return json.dumps(facts, indent=2)
