"""The policy server's app: our routes, and vLLM's own beside them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI

from services.policy_server.engine import EngineHost, Running
from services.policy_server.metrics import PolicyMetrics
from services.policy_server.openai import OpenAiRoutes
from services.policy_server.routes import ACCESS, router
from services.policy_server.settings import PolicySettings
from services.policy_server.weights import WeightStore
from shared.schemas.policy import GenerateRequest, SamplingSettings
from shared.service import Tokens, install_service

TRIAL = GenerateRequest(prompt_token_ids=[0], sampling=SamplingSettings(max_tokens=2))


def create_app(settings: PolicySettings, on_failure: Callable[[str], None] = lambda reason: None) -> FastAPI:
    """The app. Its lifespan owns the engine; ``on_failure`` is told why when the engine can't serve.

    Raises `TokenError` for a token that can't be used.
    """
    host = EngineHost(settings, on_failure)
    metrics = PolicyMetrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async def prepare(running: Running) -> None:
            from services.policy_server.generation import Generator  # imports vLLM, once its environment is set

            store = WeightStore(settings, running, host.fail, metrics)
            await store.open()
            generator = Generator(running)
            # Ready means able to answer: some models load and then fail in the first step (heads too small, say).
            await generator.generate(TRIAL)
            app.state.generator, app.state.weights = generator, store

        host.start(prepare)
        try:
            yield
        finally:
            await host.stop()

    app = FastAPI(title="gagpo policy server", lifespan=lifespan)
    app.state.host, app.state.metrics = host, metrics
    app.include_router(router)
    install_service(
        app,
        service="policy",
        tokens=Tokens.from_environment(),
        access=ACCESS,
        registry=metrics.registry,
        max_body_bytes=settings.max_body_bytes,
    )
    app.mount("/", OpenAiRoutes(host))
    return app
