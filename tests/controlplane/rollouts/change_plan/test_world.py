"""What moved since a plan was made is named, place by place."""

from controlplane.rollouts.change_plan.world import World, moved_since

BEFORE = World(
    latest={"Model/a": "1 aaaaaaaaaaaaaaaa", "Model/b": "1 bbbbbbbbbbbbbbbb"},
    generations={"chat": 1},
    rollouts={"chat": "1 running"},
)


def test_nothing_has_moved() -> None:
    assert moved_since(BEFORE, BEFORE) == []


def test_every_difference_is_named() -> None:
    now = World(
        latest={"Model/a": "2 cccccccccccccccc", "Model/c": "1 dddddddddddddddd"},
        generations={"chat": 2},
        rollouts={"chat": "1 aborted"},
    )

    assert moved_since(BEFORE, now) == [
        "Model/a is at 2 (cccccccccccc), and was at 1 (aaaaaaaaaaaa)",
        "Model/b is gone, and was at 1 (bbbbbbbbbbbb)",
        "Model/c is new, at 1 (dddddddddddd)",
        "the generation of Deployment/chat is at 2, and was at 1",
        "the rollout of Deployment/chat is at 1 aborted, and was at 1 running",
    ]
