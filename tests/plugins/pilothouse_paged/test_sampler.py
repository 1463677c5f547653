"""Temperatures at the edge of what numbers can hold select as greedily as they should."""

import pytest
import torch

from pilothouse_paged.sampler import SelectionParams, select

LOGITS = torch.tensor([[0.5, 3.0, 30.0, -2.0, 1.0]])
LIKELIEST = 2


def selected(temperature: float, top_p: float = 1.0, top_k: int | None = None) -> int:
    params = SelectionParams(temperature=temperature, top_p=top_p, top_k=top_k, seed=7, index=0)
    (token_id,) = select(LOGITS, [params])
    return token_id


@pytest.mark.parametrize("temperature", [5e-324, 1e-308, 1e-300, 1e-6, 0.99e-5, 1e-5, 1e-3])
def test_a_temperature_near_zero_selects_the_likeliest_token(temperature: float) -> None:
    assert selected(temperature) == LIKELIEST
    assert selected(temperature, top_p=0.5) == LIKELIEST
    assert selected(temperature, top_k=3) == LIKELIEST
