"""A stand-in for the policy server where vLLM's start would take longer than the test: answers at random.

``ANSWERS`` is a JSON list of token id lists to choose from, with equal chances. ``POST /control`` takes ``version``
(the policy version to claim), ``digest`` (and its weights' digest), ``fail`` (refuse so many of the next requests, -1
all) and ``status`` (with which HTTP status); ``reset`` takes all back. ``GET /requests`` tells what was asked.
``MODEL`` names the folder that it claims to serve; weights that a trainer pushes are taken, and change nothing.
"""

import argparse
import asyncio
import json
import math
import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvicorn

from shared.weights_digest import digest_of_folder

Message = dict[str, object]


class RandomPolicy:
    """The ASGI app."""

    def __init__(self, answers: list[list[int]], delay_s: float, model: Path | None) -> None:
        self._answers = answers
        self._delay_s = delay_s
        self._model = model
        self._initial_digest = "initial" if model is None else digest_of_folder(model)
        self._version, self._digest, self._fail, self._status = 0, "", 0, 503
        self._requests: list[dict[str, object]] = []

    async def __call__(
        self,
        scope: dict[str, str],
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message["body"]  # type: ignore[operator]
            if not message.get("more_body"):
                break
        status, answer = await self._answer(scope["method"], scope["path"], body)
        kind = b"application/json" if status == 200 else b"application/problem+json"
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    async def _answer(self, method: str, path: str, body: bytes) -> tuple[int, object]:
        match path:
            case "/readyz":
                return 200, {"status": "ready"}
            case "/requests":
                return 200, self._requests
            case "/control":
                given = json.loads(body)
                if given.get("reset"):
                    self._version, self._digest, self._fail, self._status = 0, "", 0, 503
                    self._requests.clear()
                self._version = given.get("version", self._version)
                self._digest = given.get("digest", self._digest)
                self._fail = given.get("fail", self._fail)
                self._status = given.get("status", self._status)
                return 200, {}
            case "/v1/weights":
                if method == "POST":
                    pushed = json.loads(body)
                    self._version, self._digest = pushed["version"], pushed["digest"]
                held = {"version": self._version, "digest": self._digest, "initial_digest": self._initial_digest}
                return 200, {**held, "model": "random", "history": []}
            case "/v1/models" if self._model is not None:
                return 200, {"data": [{"id": self._model.name, "root": str(self._model)}]}
            case "/v1/generate":
                return await self._generate(json.loads(body))
        return 404, {"type": "/problems/not-found", "title": "Not found", "status": 404, "detail": path}

    async def _generate(self, request: dict[str, object]) -> tuple[int, object]:
        if self._fail:
            self._fail -= 1
            return self._status, {
                "type": "/problems/made-up",
                "title": "Made up",
                "status": self._status,
                "detail": "refused for the test",
            }
        self._requests.append(request)
        seed = request["sampling"].get("seed")  # type: ignore[attr-defined]
        chooser = random.Random(f"{seed}{request['prompt_token_ids']}") if seed is not None else random
        tokens = chooser.choice(self._answers)
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        return 200, {
            "token_ids": tokens,
            "logprobs": [-math.log(len(self._answers))] + [0.0] * (len(tokens) - 1),
            "policy_versions": [self._version] * len(tokens),
            "finish_reason": "stop",
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    folder = os.environ.get("MODEL")
    app = RandomPolicy(
        json.loads(os.environ["ANSWERS"]), float(os.environ.get("DELAY_S", "0")), Path(folder) if folder else None
    )
    uvicorn.run(app, port=parser.parse_args().port, log_level="warning")
