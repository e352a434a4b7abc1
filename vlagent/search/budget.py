"""What a run may spend on paid services, and what it has spent. The limit is hard: the call beyond it is not made."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from pydantic import Field, ValidationError

from vlagent.errors import QuotaError, UserError
from vlagent.files import read_json, write_json, writing
from vlagent.types import Record


class BudgetConfig(Record):
    """What a run may spend."""

    max_paid_calls: int | None = Field(default=None, ge=0)
    """Calls of paid services, every attempt counted; None is no limit."""
    max_usd: float | None = Field(default=None, ge=0)
    usd_per_call: dict[str, float] = Field(default_factory=dict)
    """By service; wins over what the service costs by its list price."""
    ledger: str | None = None
    """A JSON file that carries the sums from one process of a run to the next; processes side by side share it."""


class Spent(Record):
    """What has been used up."""

    calls: dict[str, int] = Field(default_factory=dict)
    """Attempts by service."""
    usd: dict[str, float] = Field(default_factory=dict)

    @property
    def total_calls(self) -> int:
        return sum(self.calls.values())

    @property
    def total_usd(self) -> float:
        return sum(self.usd.values())


class Budget:
    """The meter and the limit."""

    def __init__(self, config: BudgetConfig | None = None) -> None:
        self.config = config or BudgetConfig()
        self._path = Path(self.config.ledger) if self.config.ledger else None
        self.spent = _read(self._path) if self._path and self._path.exists() else Spent()

    def spend(self, service: str, list_price_usd: float) -> None:
        """Book one call before it is made. Raises `QuotaError` instead where it would pass the limit."""
        with _alone(self._path) if self._path else nullcontext():
            if self._path and self._path.exists():
                self.spent = _read(self._path)
            self._book(service, list_price_usd)
            if self._path:
                write_json(self._path, self.spent)

    def _book(self, service: str, list_price_usd: float) -> None:
        price, limits = self.config.usd_per_call.get(service, list_price_usd), self.config
        if limits.max_paid_calls is not None and self.spent.total_calls >= limits.max_paid_calls:
            raise QuotaError(service, f"the run's {limits.max_paid_calls} paid calls are used up (max_paid_calls)")
        if limits.max_usd is not None and self.spent.total_usd + price > limits.max_usd + 1e-9:
            raise QuotaError(service, f"the run's {limits.max_usd:g} USD are used up (max_usd)")
        calls = {**self.spent.calls, service: self.spent.calls.get(service, 0) + 1}
        usd = {**self.spent.usd, service: self.spent.usd.get(service, 0.0) + price}
        self.spent = Spent(calls=calls, usd=usd)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Nobody else books in this ledger meanwhile; a killed holder leaves nothing behind."""
    import fcntl

    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _read(path: Path) -> Spent:
    try:
        return Spent.model_validate(read_json(path))
    except ValidationError:
        raise UserError(f"{path}: not a ledger of paid calls; name another one (budget.ledger)") from None
