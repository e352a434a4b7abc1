"""Errors by whose fault they are. Anything else that is raised is a bug and keeps its traceback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError


class VlagentError(Exception):
    """Base of the errors that a caller may want to catch."""


class UserError(VlagentError):
    """The user's mistake: one line that names the value and the fix. Exit code 2."""


class ToolInputError(VlagentError):
    """The model called a tool wrongly; the message is shown to the model. `fault = model`."""


class ServiceError(VlagentError):
    """Something that we depend on failed. `fault = world`, exit code 3."""

    retryable = False

    def __init__(self, service: str, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(f"{service}: {message}")
        self.service = service
        self.retry_after_s = retry_after_s


class TransientError(ServiceError):
    """A time-out, a reset, a 5xx: worth another try."""

    retryable = True


class RateLimitedError(ServiceError):
    """429 or its like; `retry_after_s` if the service said so."""

    retryable = True


class AuthError(ServiceError):
    """A missing or refused key."""


class QuotaError(ServiceError):
    """The account's or the run's budget is used up."""


class PermanentError(ServiceError):
    """The service understood and refused, or answers nonsense."""


class ContentFilterError(PermanentError):
    """The provider's content filter refused the prompt or the answer."""


LONG = 100
"""Characters of a value that are not shown: a table whose parts contradict each other."""


@dataclass(frozen=True)
class Problem:
    """What is wrong with data of a declared shape."""

    key: str
    """Path to the value; empty where it is the data as a whole."""
    given: Any
    said: str
    kind: str
    """Pydantic's name for it, such as `missing`."""

    @property
    def option(self) -> str:
        """The value as the command line names it."""
        return "--" + self.key.partition(".")[0].replace("_", "-")

    def line(self, whole: str = "") -> str:
        """Key, value (where it is short) and mistake; `whole` names the data where it is wrong as a whole."""
        if not self.key:
            return f"{whole}: {self.said}".removeprefix(": ")
        given = repr(self.given)
        return f"{self.key} = {given}: {self.said}" if len(given) <= LONG else f"{self.key}: {self.said}"


def first_problem(error: ValidationError) -> Problem:
    """The first of the mistakes that were found."""
    first = error.errors()[0]
    key = ".".join(map(str, first["loc"]))
    return Problem(key, first["input"], first["msg"].removeprefix("Value error, "), first["type"])
