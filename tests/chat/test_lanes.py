from contextlib import ExitStack

import httpx

from vlagent.chat.lanes import PER_LANE, Lanes


async def test_a_lane_is_opened_only_when_the_others_are_full_and_is_used_again():
    made = []

    def make():
        made.append(httpx.AsyncClient(trust_env=False, verify=False))
        return made[-1]

    lanes = Lanes(make, most=3)
    with lanes.client() as first:
        pass
    with lanes.client() as again:
        assert again is first
    with ExitStack() as running:
        used = [running.enter_context(lanes.client()) for _ in range(4 * PER_LANE)]
        assert len(made) == 3
        assert max(used.count(client) for client in made) <= PER_LANE + 3
    with lanes.client() as again:
        assert again is first
    await lanes.aclose()
    assert all(client.is_closed for client in made)


async def test_a_request_that_fails_gives_its_place_back():
    lanes = Lanes(lambda: httpx.AsyncClient(trust_env=False, verify=False), most=1)
    for _ in range(3 * PER_LANE):
        try:
            with lanes.client():
                raise httpx.ConnectError("down")
        except httpx.ConnectError:
            pass
    assert lanes._lanes[0].running == 0
    await lanes.aclose()
