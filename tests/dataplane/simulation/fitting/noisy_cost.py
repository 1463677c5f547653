"""Costs that vary, for fits that must see through it."""

import random

from dataplane.scheduling.step import StepPlan
from dataplane.simulation.cost import CostModel


class NoisyCost:
    """What `cost` says, give or take."""

    def __init__(self, cost: CostModel, sigma: float, wild: float = 0.0) -> None:
        self._cost = cost
        self._sigma = sigma
        self._wild = wild
        self._rng = random.Random(7)

    def step_time(self, plan: StepPlan) -> float:
        factor = self._rng.lognormvariate(0.0, self._sigma)
        if self._rng.random() < self._wild:
            factor *= 8
        return self._cost.step_time(plan) * factor
