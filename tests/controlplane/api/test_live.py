"""What one tenant may know of the requests in flight at a gateway."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.live import LiveRequest, within

LIVE = st.lists(
    st.builds(
        lambda tenant, deployment: (tenant, deployment),
        st.sampled_from(["acme", "rival", None]),
        st.sampled_from(["chat", "batch"]),
    ),
    max_size=20,
)


def _in_flight(whose: list[tuple[str | None, str]], waiting: set[int]) -> list[LiveRequest]:
    """Oldest first; those that wait stand in their deployment's queue in this order."""
    places = {"chat": 0, "batch": 0}
    found = []
    for number, (tenant, deployment) in enumerate(whose):
        place = None
        if number in waiting:
            places[deployment] += 1
            place = places[deployment]
        found.append(
            LiveRequest(
                request_id=str(number), trace_id="t", state="queued", age_seconds=1.0,
                waits_for="a slot", queue_position=place, tenant=tenant, deployment=deployment,
            )
        )  # fmt: skip
    return found


@given(whose=LIVE, waiting=st.sets(st.integers(0, 19)))
def test_a_tenants_view_is_the_same_whatever_others_do(
    whose: list[tuple[str | None, str]], waiting: set[int]
) -> None:
    everybody = _in_flight(whose, waiting)
    alone = [each for each in everybody if each.tenant == "acme"]
    mine = within("acme", everybody)
    assert [each.request_id for each in mine] == [each.request_id for each in alone]
    for deployment in ("chat", "batch"):
        places = [
            each.queue_position
            for each in mine
            if each.deployment == deployment and each.queue_position is not None
        ]
        assert places == list(range(1, len(places) + 1))
    assert [each.queue_position is None for each in mine] == [
        each.queue_position is None for each in alone
    ]
