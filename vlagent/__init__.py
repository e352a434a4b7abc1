"""vlagent: a vision-language agent that looks, thinks, crops and searches; its training, data and measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vlagent.version import VERSION

if TYPE_CHECKING:
    from vlagent.api import ask, ask_async

__version__ = VERSION
__all__ = ["__version__", "ask", "ask_async"]


def __getattr__(name: str) -> Any:
    """`vlagent.ask` is loaded when it is first used, so that `import vlagent` stays light."""
    if name in ("ask", "ask_async"):
        from vlagent import api

        return getattr(api, name)
    raise AttributeError(f"module 'vlagent' has no attribute {name!r}")
