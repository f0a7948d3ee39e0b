"""Command `palio warm`: compile the kernels of matching now, so that no process waits for them later."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from palio.cli import terminal

if TYPE_CHECKING:
    from palio.matching.precompilation import Precompilation


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.pass_context
def warm(ctx: click.Context, as_json: bool) -> None:
    """Compile the kernels of matching and keep them on disk, as the last step of an image.

    \b
    Examples:
      palio warm
      RUN pip install 'palio[spark]' && palio warm        (in a Dockerfile)

    Without it, the first process of a machine matches by an interpreter, while another one compiles. Compiled kernels
    are kept beside the package, or in the folder that NUMBA_CACHE_DIR names, and serve the processor they were compiled
    for. The exit code is 1 if they can be kept nowhere.
    """
    done = compile_with_progress()
    if as_json:
        terminal.print_json({**asdict(done), "seconds": round(done.seconds, 3)})
    else:
        console = terminal.results()
        taken = terminal.duration(done.seconds)
        console.print(f"{done.kernels} kernels are ready, {done.compiled} of them compiled now, in {taken}.")
        if done.folder is not None:
            console.print(f"They are kept in {done.folder}.", style="quiet", soft_wrap=True)
        else:
            console.print(
                "They can be kept nowhere; set NUMBA_CACHE_DIR to a folder that can be written to.",
                style="warning",
                soft_wrap=True,
            )
    if done.folder is None:
        ctx.exit(1)


def compile_with_progress() -> Precompilation:
    """Compile all kernels that are not on disk, with a progress bar on a terminal."""
    from palio.matching.precompilation import compile_kernels

    with terminal.progress(terminal.messages(), "Compiling", 1) as progress:
        bar = progress.add_task("", total=None, done="")

        def show(ready: int, total: int) -> None:
            progress.update(bar, completed=ready, total=total, done=f"{ready} of {total} kernels")

        return compile_kernels(report=show)
