"""Hand-written loops: a decorator for the functions that are the agent's tools.

`guarded` makes a tool of a function that answers only within a `conversation`: it gives back what the model is to read,
be it the function's return or the reason why the call was dropped. How the loop calls the model, and how it finds the
function for a call, stays its own business. A function does not know which calls came in one message of the model, so
each is judged as a message of its own.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, get_type_hints

from ledgeragent.adapters.core import Call, Guard, Rejected, apart
from ledgeragent.errors import TicketError

_GUARD: Final[ContextVar[Guard | None]] = ContextVar("ledgeragent_conversation", default=None)


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a tool of a function; its name is the tool's.

    Args:
        function: plain or a coroutine function, with named parameters.

    Returns:
        A function of the same signature. It returns what the model is to read: the function's own return, or text when
        the call was rejected or the function failed. Outside a `conversation` it raises `TicketError`.
    """
    name, signature = function.__name__, inspect.signature(function)

    def call_of(given: tuple[Any, ...], named: dict[str, Any]) -> Call:
        # What is missing is the gate's to say.
        return Call(name, {**dict(zip(signature.parameters, given, strict=False)), **named})

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def later(*given: Any, **named: Any) -> Any:
            guard = _guard(name)
            answer = await guard.ajudge(call_of(given, named))
            if isinstance(answer, Rejected):
                return answer.message
            returned = await guard.aexecute(name, answer.call_id, lambda arguments: function(**arguments))
            return returned.content

        return _shown_as(function, later)

    @functools.wraps(function)
    def now(*given: Any, **named: Any) -> Any:
        guard = _guard(name)
        answer = guard.judge(call_of(given, named))
        if isinstance(answer, Rejected):
            return answer.message
        return guard.execute(name, answer.call_id, lambda arguments: function(**arguments)).content

    return _shown_as(function, now)


@contextmanager
def conversation(guard: Guard, dispatch: Callable[[str, dict[str, Any]], Any], tools: Iterable[str]) -> Iterator[Guard]:
    """Let the guarded functions run in a conversation, once it is proved that the loop calls them and nothing else.

    Args:
        guard: the conversation's; it holds for this thread or task and the tasks it starts.
        dispatch: the loop's own way from a call to a tool: name and parsed arguments in, what the model reads out. It
            may be a coroutine function. At the start it is called once for each tool, and the guard must refuse.
        tools: the names of all the tools that the loop can call.

    Raises:
        WiringError: when a tool is not declared in the domain, or is not guarded.
    """
    names = list(tools)
    guard.check(names)
    token = _GUARD.set(guard)
    try:
        with guard.canary() as canary:
            canary.check({name: _asked(dispatch, name) for name in names})
        yield guard
    finally:
        _GUARD.reset(token)
        guard.give_up()


def _asked(dispatch: Callable[[str, dict[str, Any]], Any], name: str) -> str:
    answer = dispatch(name, {})
    return str(apart(answer) if inspect.iscoroutine(answer) else answer)


def _guard(name: str) -> Guard:
    guard = _GUARD.get()
    if guard is None:
        raise TicketError(f"{name} was called outside a conversation: there is nothing to judge it by")
    return guard


def _shown_as(function: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """What describes the function to a model stays; the way around the guard does not."""
    del wrapper.__wrapped__  # type: ignore[attr-defined]
    wrapper.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    wrapper.__annotations__ = get_type_hints(function, include_extras=True)
    return wrapper
