"""An MCP server that lets any agent play an env server's environments.

It holds nothing: an episode is a session of the env server and goes by its id, so episodes outlive this server, any
number of them are played side by side, and a call that is sent again does no harm.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field, ValidationError

from gagpo.environment_client import EnvironmentClient, EnvironmentServerError
from gagpo.stack import ServiceDiedError
from shared.schemas.environment import (
    MAX_ACTION_CHARS,
    EnvironmentDescription,
    InfoValue,
    Observation,
    OptionDescription,
    SessionRequest,
    SessionState,
    StepResult,
    TaskPage,
)
from shared.service import Access, Scope, Tokens, listening_host
from shared.service.auth import BearerAuth
from shared.service.http_protocol import BoundedHttpProtocol
from shared.service.listening import listener

PATH = "/mcp"
"""Where the HTTP transport answers."""

INSTRUCTIONS = """Text environments to play: a household to do chores in (alfworld), a web shop to buy in (webshop), and
whatever else list_environments tells.

1. reset opens an episode. Its text tells the task, what there is to see, and the actions that are possible now.
2. step takes one action, word for word one of those possible (where one says search[<query>], with words of your own in
   place of <query>). The answer tells what came of it. Go on until it says that the episode is over.
3. observe tells the present state of an episode again; it costs no step.

Every episode has an id, which reset tells and the other two take: any number of episodes can be played side by side.
Steps are limited, so do not wander."""

_SEEDS = 2**32

_READS = ToolAnnotations(read_only_hint=True)
_ACTS = ToolAnnotations(read_only_hint=False, destructive_hint=False)

EpisodeId = Annotated[str, Field(description="The episode's id, as reset told it.")]


class Turn(BaseModel):
    """An episode's present state."""

    episode: str = Field(description="The episode's id, for step and observe.")
    environment_text: str = Field(description="What the environment says.")
    admissible_actions: list[str] = Field(description="The actions that are possible now.")
    task_id: str
    steps_taken: int
    reward: float | None = Field(description="What the last step was worth; null after reset and observe.")
    done: bool = Field(description="The episode is over.")
    info: dict[str, InfoValue] = Field(description="More about the state, such as whether the task is won.")


class ServedEnvironment(BaseModel):
    """One environment to play."""

    name: str
    action_format: str
    splits: dict[str, int] = Field(description="The sets of tasks, and how many each has.")
    usual_split: str = Field(description="The split that reset takes when none is given.")
    max_steps: int = Field(description="How many steps an episode has when reset does not say.")
    options: list[OptionDescription]


class ServedEnvironments(BaseModel):
    """What there is to play."""

    environments: list[ServedEnvironment]


class EnvironmentTools:
    """The tools, each of them a call or two of the env server's REST API."""

    def __init__(self, client: EnvironmentClient, only: str | None, wait_ready: Callable[[], None]) -> None:
        """``only`` is the one environment to offer, None for all; ``wait_ready`` returns once the server answers."""
        self._client = client
        self._only = only
        self._wait_ready = wait_ready

    def list_environments(self) -> ServedEnvironments:
        """Tell which environments can be played, how their actions look, and their splits, step limits and options."""
        with self._asking():
            return ServedEnvironments(environments=[_served(described) for described in self._offered().values()])

    def list_tasks(
        self,
        environment: Annotated[str, Field(description="An environment's name, from list_environments.")],
        split: Annotated[str, Field(description="One of its splits.")],
        offset: Annotated[int, Field(ge=0, description="Index of the first task to list.")] = 0,
        limit: Annotated[int, Field(ge=1, le=1000, description="How many to list at most.")] = 20,
    ) -> TaskPage:
        """List the ids of an environment's tasks, for reset's task_id. To play any task, this is not needed."""
        with self._asking():
            return self._client.tasks(self._chosen(environment).name, split, offset, limit)

    def reset(
        self,
        environment: Annotated[
            str | None,
            Field(description="What to play, such as alfworld or webshop; may be left out where there is one only."),
        ] = None,
        task_id: Annotated[str | None, Field(description="Play this very task; else one is drawn.")] = None,
        split: Annotated[str | None, Field(description="Draw from this split; the usual one when left out.")] = None,
        index: Annotated[int | None, Field(ge=0, description="Play the split's task of this index.")] = None,
        seed: Annotated[
            int | None, Field(ge=0, description="Draws the task: the same seed, the same task. Random when left out.")
        ] = None,
        max_steps: Annotated[int | None, Field(ge=1, le=10_000, description="The step limit.")] = None,
        options: Annotated[
            dict[str, InfoValue] | None,
            Field(description='The environment\'s own, from list_environments; {"expert": true} gives hints in info.'),
        ] = None,
    ) -> Annotated[CallToolResult, Turn]:
        """Open a new episode and tell its id, its task and the first observation. Others that are open go on."""
        with self._asking():
            described = self._chosen(environment)
            if task_id is None and index is None and seed is None:
                seed = secrets.randbelow(_SEEDS)
            request = SessionRequest(
                environment=described.name,
                task_id=task_id,
                split=split if split is not None or task_id is not None else described.training_split,
                index=index,
                seed=seed,
                max_steps=max_steps,
                options=options or {},
            )
            return _told(self._client.open(request)[0])

    def step(
        self,
        episode: EpisodeId,
        action: Annotated[
            str,
            Field(
                min_length=1,
                max_length=MAX_ACTION_CHARS,
                description="One of the possible actions, such as: go to desk 1, or search[red shoes].",
            ),
        ],
    ) -> Annotated[CallToolResult, Turn]:
        """Take one action in an episode and tell what came of it."""
        with self._asking():
            step_index = self._client.state(episode).step_index
            return _told(self._client.step(episode, action, step_index))

    def observe(self, episode: EpisodeId) -> Annotated[CallToolResult, Turn]:
        """Tell the present state of an episode again: the observation and the possible actions. Takes no step."""
        with self._asking():
            return _told(self._client.state(episode))

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Around all that asks the env server: what it refuses is a tool error in its own words."""
        try:
            self._wait_ready()
            yield
        except (EnvironmentServerError, ServiceDiedError) as error:
            raise ToolError(str(error)) from error
        except ValidationError as error:
            raise ToolError("; ".join(fault["msg"] for fault in error.errors())) from error

    def _offered(self) -> dict[str, EnvironmentDescription]:
        served = {described.name: described for described in self._client.environments()}
        if self._only is None:
            return served
        if self._only not in served:
            raise ToolError(f"--environment {self._only}: the env server has {', '.join(sorted(served))}")
        return {self._only: served[self._only]}

    def _chosen(self, environment: str | None) -> EnvironmentDescription:
        offered = self._offered()
        if environment is None and len(offered) == 1:
            return next(iter(offered.values()))
        if environment is None or environment not in offered:
            given = "is missing" if environment is None else f"= {environment!r} is none of those offered"
            raise ToolError(f"environment {given}; there are: {', '.join(sorted(offered))}")
        return offered[environment]


def make_server(tools: EnvironmentTools) -> MCPServer[None]:
    """The MCP server with its tools."""
    server = MCPServer[None]("gagpo", title="gagpo's text environments", instructions=INSTRUCTIONS, log_level="WARNING")
    for read in (tools.list_environments, tools.list_tasks, tools.observe):
        server.add_tool(read, annotations=_READS)
    for act in (tools.reset, tools.step):
        server.add_tool(act, annotations=_ACTS)
    return server


def serve_http(server: MCPServer[None], host: str, port: int, announce: Callable[[str], None]) -> None:
    """Serve streamable HTTP at `PATH` until told to stop; ``announce`` is given the URL. Port 0 takes a free one.

    A token that opens environments is asked for where there is one; without, only this machine is served. Raises
    `TokenError` for one that can't be used, and `ListenError`.
    """
    access = (Access(PATH, {Scope.ENVIRONMENTS}),)
    tokens = Tokens.from_environment()
    listens = listening_host(host, tokens, access)
    app = server.streamable_http_app(streamable_http_path=PATH, stateless_http=True, json_response=True, host=listens)
    if tokens.open(Scope.ENVIRONMENTS):
        app.add_middleware(BearerAuth, tokens=tokens, access=access)
    with listener(listens, port) as bound:
        name = f"[{listens}]" if ":" in listens else listens
        announce(f"http://{name}:{bound.getsockname()[1]}{PATH}")
        config = uvicorn.Config(app, http=BoundedHttpProtocol, log_level="warning", server_header=False)
        uvicorn.Server(config).run(sockets=[bound])


def _told(seen: Observation | StepResult | SessionState) -> CallToolResult:
    done = isinstance(seen, StepResult | SessionState) and (seen.terminated or seen.truncated)
    turn = Turn(
        episode=seen.session_id,
        environment_text=seen.observation,
        admissible_actions=seen.admissible_actions,
        task_id=seen.task_id,
        steps_taken=seen.step_index,
        reward=seen.reward if isinstance(seen, StepResult) else None,
        done=done,
        info=seen.info,
    )
    text = TextContent(type="text", text=_in_words(turn))
    return CallToolResult(content=[text], structured_content=turn.model_dump(mode="json"))


def _in_words(turn: Turn) -> str:
    """What a model reads."""
    steps = f"{turn.steps_taken} step" + ("" if turn.steps_taken == 1 else "s")
    if turn.done:
        reward = "" if turn.reward is None else f", with reward {turn.reward:g} for the last step"
        won = "won" if turn.info.get("won") is True else "not won"
        end = f"The episode is over: {won}{reward}, after {steps}."
        return f"{turn.environment_text}\n\n{end}"
    actions = "\n".join(f"- {action}" for action in turn.admissible_actions)
    hint = turn.info.get("expert_action")
    return (
        f"{turn.environment_text}\n\nPossible actions:\n{actions}\n\n"
        + (f"The expert would: {hint}\n" if hint is not None else "")
        + f"Episode {turn.episode}, {steps} taken."
    )


def _served(described: EnvironmentDescription) -> ServedEnvironment:
    return ServedEnvironment(
        name=described.name,
        action_format=described.action_format,
        splits=described.splits,
        usual_split=described.training_split,
        max_steps=described.max_steps,
        options=described.options,
    )
