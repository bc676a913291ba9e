"""`pocketnas describe`: what an arch costs, block by block."""

from __future__ import annotations

import click

from pocketnas.cli.options import json_option, output, print_json, shape_options


@click.command()
@click.argument("arch")
@shape_options
@json_option
def describe(
    arch: str,
    resolution: int | None,
    channels: int | None,
    classes: int | None,
    as_json: bool,
) -> None:
    """Show what an ARCH costs, block by block.

    Prints shapes, MAdds, params and peak activation memory. MAdds are the multiply-adds of
    convolutions and linear layers. Peak activation memory is the most that inputs, outputs and
    kept skips need at once, in float32.
    """
    from rich import box
    from rich.table import Table

    from pocketnas.cli.arch import arch_task
    from pocketnas.reports.tables import kibibytes, quantity
    from pocketnas.searchspace import count

    task = arch_task(arch, resolution, channels, classes)
    cost = count(task.arch, task.input_shape, task.classes)
    if as_json:
        print_json(
            {
                "name": task.arch.name,
                "arch": list(task.arch.strings),
                "input_shape": list(task.input_shape),
                "classes": task.classes,
                "params": cost.params,
                "madds": cost.madds,
                "peak_activation_bytes": cost.peak_activation_bytes,
                "blocks": [
                    {
                        "name": block.name,
                        "block": block.text,
                        "input_shape": list(block.input_shape),
                        "output_shape": list(block.output_shape),
                        "params": block.params,
                        "madds": block.madds,
                        "peak_activation_bytes": block.peak_activation_bytes,
                    }
                    for block in cost.blocks
                ],
            }
        )
        return
    console = output()
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        show_edge=False,
        show_footer=True,
    )
    table.add_column("block", "total", overflow="fold")
    for name, footer in (
        ("input", ""),
        ("output", ""),
        ("MAdds", quantity(cost.madds)),
        ("params", quantity(cost.params)),
        ("peak KiB", kibibytes(cost.peak_activation_bytes)),
    ):
        table.add_column(name, footer, justify="right", no_wrap=True)
    for block in cost.blocks:
        table.add_row(
            block.text,
            "x".join(map(str, block.input_shape)),
            "x".join(map(str, block.output_shape)),
            quantity(block.madds),
            quantity(block.params),
            kibibytes(block.peak_activation_bytes),
        )
    shape = " x ".join(map(str, task.input_shape))
    console.print(
        f"{task.arch.name or 'arch'} at {shape}, {task.classes} classes: "
        f"{cost.madds:,} MAdds, {cost.params:,} params",
        markup=False,
    )
    console.print(table)
