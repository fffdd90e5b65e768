"""RFC 9457 problem documents, the one way in which every service reports an error."""

from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from shared.schemas.environment import InfoValue, Problem
from shared.telemetry import request_id

PROBLEM_JSON = "application/problem+json"


class ProblemError(Exception):
    """An error with a stable type, raised anywhere in a service and answered as a problem document."""

    def __init__(
        self,
        status: int,
        kind: str,
        title: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, InfoValue] | None = None,
    ) -> None:
        """``kind`` becomes the type ``/problems/<kind>``; ``detail`` names the field, the value and the remedy."""
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.title = title
        self.detail = detail
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})

    def document(self, instance: str | None = None) -> Problem:
        """The problem document that says this error."""
        return Problem(
            type=f"/problems/{self.kind}",
            title=self.title,
            status=self.status,
            detail=self.detail,
            instance=instance,
            **self.extra,  # extension members, RFC 9457 §3.2
        )


def install_problem_handlers(app: FastAPI) -> None:
    """Answer every error of the app, also those of FastAPI itself, with a problem document."""

    async def problem(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, ProblemError)
        return problem_response(error, request.url.path)

    async def validation(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return problem_response(validation_problem(error), request.url.path)

    async def http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, StarletteHTTPException)
        kind = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "http-error")
        title = str(error.detail)
        headers = dict(error.headers or {})
        detail = f"{request.method} {request.url.path}: {title}. /docs lists what is served."
        return problem_response(ProblemError(error.status_code, kind, title, detail, headers=headers), request.url.path)

    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        # Starlette logs the traceback; a client needs no more than the error's type.
        detail = f"{request.method} {request.url.path} failed with {type(error).__name__}; the log has the details."
        answer = problem_response(ProblemError(500, "internal-error", "The service failed", detail), request.url.path)
        if (identity := request_id.get()) is not None:
            answer.headers["X-Request-Id"] = identity  # made outside of the middleware that sets it elsewhere
        return answer

    app.add_exception_handler(Exception, unexpected)
    app.add_exception_handler(ProblemError, problem)
    app.add_exception_handler(RequestValidationError, validation)
    app.add_exception_handler(StarletteHTTPException, http)


def validation_problem(error: RequestValidationError) -> ProblemError:
    """The problem that says what is wrong with each field of a request."""
    faults: list[InfoValue] = [
        {"field": ".".join(str(part) for part in fault["loc"]), "message": str(fault["msg"])}
        for fault in error.errors()
    ]
    detail = "; ".join(f"{fault['field']}: {fault['message']}" for fault in faults if isinstance(fault, dict))
    return ProblemError(422, "invalid-request", "The request is not valid", detail, extra={"faults": faults})


def problem_response(error: ProblemError, path: str) -> JSONResponse:
    """The answer that says this error about a request to ``path``, with the request's id."""
    document = error.document(instance=path).model_dump()
    if (identity := request_id.get()) is not None:
        document["request_id"] = identity
    return JSONResponse(document, status_code=error.status, headers=error.headers, media_type=PROBLEM_JSON)
