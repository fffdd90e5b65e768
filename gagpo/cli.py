"""The ``gagpo`` command."""

import typer

from gagpo.commands import data, eval, job
from gagpo.commands.compare import compare
from gagpo.commands.demo import demo
from gagpo.commands.doctor import doctor
from gagpo.commands.hand_over import PASS_ON
from gagpo.commands.mcp import mcp
from gagpo.commands.model import model
from gagpo.commands.plan import plan
from gagpo.commands.play import play
from gagpo.commands.train import train
from gagpo.commands.up import up
from gagpo.commands.warmstart import warmstart

app = typer.Typer(
    name="gagpo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # an unexpected error is for a developer, who wants the plain trace
    help="Train LLM agents on multi-turn text environments with GAGPO. Start with: gagpo demo alfworld",
)
app.command()(demo)
app.command()(train)
app.command()(up)
app.command()(play)
app.command()(mcp)
app.command()(compare)
app.command()(plan)
app.command()(doctor)
app.command(context_settings=PASS_ON)(warmstart)
app.command(context_settings=PASS_ON)(model)
app.add_typer(eval.app, name="eval")
app.add_typer(data.app, name="data")
app.add_typer(job.app, name="job")
