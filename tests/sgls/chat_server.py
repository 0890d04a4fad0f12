"""A server that speaks ``/v1/chat/completions`` and misbehaves on demand. As a program: prints its port and serves until killed.

``POST /plan`` takes a list of steps, one for each request to come (the last goes on for ever), and forgets what was seen:

* ``{"text": ...}``: an answer with this text; ``finish``: its finish reason.
* ``{"status": 429, "headers": {...}}``: an error. ``{"body": ...}``: a body that is sent as it stands.
* ``{"hang": true}``: no answer at all.
* ``{"together": 3, "text": ...}``: an answer once three requests are here, or have been.
* ``{"takes": [...], "text": ...}``: an answer to requests whose ``response_format`` has one of these types, 400 to others.

``GET /seen`` tells of every request its ``body``, ``key`` and time of arrival (``at``, seconds), and how many were here at once.
"""

import asyncio
import socket
import time
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


class Script:
    def __init__(self, steps: list[dict[str, Any]]) -> None:
        self.steps = steps
        self.requests: list[dict[str, Any]] = []
        self.here = 0
        self.at_once = 0
        self.arrival = asyncio.Condition()

    async def answer(self, request: Request) -> Response:
        step = self.steps[min(len(self.requests), len(self.steps) - 1)]
        body = await request.json()
        self.requests.append({"body": body, "key": request.headers.get("authorization"), "at": time.monotonic()})
        self.here += 1
        self.at_once = max(self.at_once, self.here)
        try:
            return await self._response(step, body)
        finally:
            self.here -= 1

    async def _response(self, step: dict[str, Any], body: dict[str, Any]) -> Response:
        if "hang" in step:
            await asyncio.Event().wait()
        if "together" in step:
            async with self.arrival:
                self.arrival.notify_all()
                await self.arrival.wait_for(lambda: self.at_once >= step["together"])
            await asyncio.sleep(0.02)  # the time an answer takes, in which a client without a limit would send more
        wanted = body.get("response_format", {"type": "text"})["type"]
        if wanted not in step.get("takes", [wanted]):
            return JSONResponse({"error": {"message": f"response_format {wanted} is not supported"}}, 400)
        if "status" in step:
            return JSONResponse({"error": {"message": "no luck"}}, step["status"], step.get("headers"))
        if "body" in step:
            return Response(step["body"], media_type="application/json")
        message = {"role": "assistant", "content": step["text"]}
        choice = {"index": 0, "message": message, "finish_reason": step.get("finish", "stop")}
        return JSONResponse({"id": "1", "object": "chat.completion", "created": 0, "model": body["model"], "choices": [choice]})


def app() -> Starlette:
    scripts = [Script([])]

    async def plan(request: Request) -> Response:
        scripts.append(Script(await request.json()))
        return JSONResponse({})

    async def seen(request: Request) -> Response:
        return JSONResponse({"requests": scripts[-1].requests, "at_once": scripts[-1].at_once})

    async def completions(request: Request) -> Response:
        return await scripts[-1].answer(request)

    return Starlette(
        routes=[
            Route("/plan", plan, methods=["POST"]),
            Route("/seen", seen),
            Route("/v1/chat/completions", completions, methods=["POST"]),
        ]
    )


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app(), log_level="error")).run(sockets=[listener])
