import asyncio

import pytest

from vlagent.bench.pace import Pace, Paced
from vlagent.chat.base import ChatReply, ChatRequest
from vlagent.errors import RateLimitedError

REQUEST = ChatRequest(())


class Endpoint:
    """Takes so many requests at one time; more are refused, or waited out where `patient`."""

    name = "endpoint"
    special_tokens = ("<x>",)

    def __init__(self, takes: int, patient: bool = True) -> None:
        self.takes, self.patient = takes, patient
        self.running, self.most, self.refused = 0, 0, 0

    async def complete(self, request):
        retries = 0
        while self.running >= self.takes:
            self.refused += 1
            if not self.patient:
                raise RateLimitedError("endpoint", "429")
            retries += 1
            await asyncio.sleep(0.002)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.001)
        self.running -= 1
        return ChatReply("x", retries=retries)


async def ask(model, count):
    await asyncio.gather(*(model.complete(REQUEST) for _ in range(count)))


class SimulatedTime(asyncio.SelectorEventLoop):
    """Jumps to the next moment at which something is due: what comes out does not depend on the machine."""

    moment = 0.0

    def time(self):
        return self.moment

    def _run_once(self):
        if not self._ready and self._scheduled:
            self.moment = max(self.moment, self._scheduled[0].when())
        super()._run_once()


def test_it_finds_what_the_endpoint_takes():
    with asyncio.Runner(loop_factory=SimulatedTime) as runner:
        runner.run(_learn_what_the_endpoint_takes())


async def _learn_what_the_endpoint_takes():
    endpoint = Endpoint(takes=8)
    paced = Paced(endpoint, Pace(64))
    await ask(paced, 500)
    learning = endpoint.refused
    await ask(paced, 1000)
    assert 2 <= paced.pace.limit <= 16
    plain = Endpoint(takes=8)
    slots = asyncio.Semaphore(64)

    async def one():
        async with slots:
            await plain.complete(REQUEST)

    await asyncio.gather(*(one() for _ in range(1000)))
    assert endpoint.refused - learning < plain.refused / 2


async def test_it_stays_at_the_ceiling_where_nothing_is_refused():
    endpoint = Endpoint(takes=1000)
    paced = Paced(endpoint, Pace(10))
    await ask(paced, 200)
    assert (endpoint.most, paced.pace.limit, paced.pace.cuts) == (10, 10.0, 0)


async def test_a_refusal_lowers_the_pace_and_comes_out():
    paced = Paced(Endpoint(takes=0, patient=False), Pace(10))
    with pytest.raises(RateLimitedError):
        await paced.complete(REQUEST)
    assert paced.pace.limit == pytest.approx(7)
    assert paced.pace.running == 0


def test_a_burst_of_refusals_is_one_decrease_and_the_pace_never_falls_below_one():
    pace = Pace(100)
    for end in (1.0, 1.1, 1.2):
        pace.learn(0.0, end, overloaded=True)
    assert pace.limit == pytest.approx(70)
    for start in range(2, 40):
        pace.learn(float(start), start + 0.5, overloaded=True)
    assert pace.limit == 1.0


def test_success_raises_it_by_about_one_a_round():
    pace = Pace(100)
    pace.limit = 10.0
    for at in range(10):
        pace.learn(at, at + 0.1, overloaded=False)
    assert pace.limit == pytest.approx(10.96, abs=0.02)


@pytest.mark.parametrize(("slow_s", "cuts"), [(10.0, 1), (3.0, 0)])
def test_a_latency_that_grew_manifold_is_a_queue(slow_s, cuts):
    pace = Pace(32)
    now = 0.0
    for seconds in [1.0] * 16 + [slow_s] * 16:
        pace.learn(now, now + seconds, overloaded=False)
        now += seconds
    assert pace.cuts == cuts


async def test_a_caller_that_gives_up_leaves_no_slot_behind():
    pace = Pace(1)
    await pace.enter()
    waiting = asyncio.create_task(pace.enter())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    pace.leave()
    await asyncio.wait_for(pace.enter(), 1)
    assert pace.running == 1


def test_everything_else_of_the_model_shines_through():
    assert Paced(Endpoint(1), Pace(1)).special_tokens == ("<x>",)
    with pytest.raises(AttributeError):
        _ = Paced(Endpoint(1), Pace(1)).count_tokens
