"""The CostModel of a fit."""

import numpy as np

from dataplane.scheduling.step import StepPlan
from dataplane.simulation.fitting.document import Fit, StepForm
from dataplane.simulation.fitting.noise import NoiseSource
from dataplane.simulation.fitting.regression import line_at

_TABLE_TOKENS = 1024


class FittedCost:
    """Steps take what the form says, times what the noise draws. In seconds."""

    __slots__ = (
        "_line",
        "_noise",
        "_per_attended",
        "_per_context",
        "_per_decode",
        "_per_prompt",
        "_per_reread",
        "_slope",
    )

    def __init__(self, form: StepForm, noise: NoiseSource | None = None) -> None:
        """Without noise, steps of the same work take the same."""
        num_tokens = max(_TABLE_TOKENS, form.knots[-1].num_tokens + 1)
        counts = np.arange(num_tokens + 1, dtype=float)
        self._line: list[float] = line_at(form.knots, counts).tolist()
        self._slope = self._line[-1] - self._line[-2]
        self._noise = noise
        self._per_prompt = form.per_prompt_token
        self._per_decode = form.per_decode_step
        self._per_context = form.per_context_token
        self._per_reread = form.per_reread_token
        self._per_attended = form.per_attended_token

    @classmethod
    def of(cls, fit: Fit, seed: int | None) -> "FittedCost":
        """With the noise of `fit`, drawn from `seed`; None: without noise."""
        if fit.noise is None or seed is None:
            return cls(fit.form)
        return cls(fit.form, NoiseSource(fit.noise, seed))

    def step_time(self, plan: StepPlan) -> float:
        """In seconds."""
        num_decodes = plan.num_decode_steps
        num_prompt = plan.num_prompt_tokens
        num_tokens = num_decodes + num_prompt
        line = self._line
        seconds = self._per_decode * num_decodes + self._per_context * plan.num_context_tokens
        if num_tokens < len(line):
            seconds += line[num_tokens]
        else:
            seconds += line[-1] + self._slope * (num_tokens - len(line) + 1)
        if num_prompt:
            seconds += self._per_prompt * num_prompt + self._per_reread * plan.num_reread_tokens
            attended = 0.0
            for chunk in plan.prefill_chunks:
                attended += chunk.num_tokens * (chunk.start + (chunk.num_tokens + 1) / 2)
            seconds += self._per_attended * attended
        noise = self._noise
        if noise is None:
            return seconds
        if not noise.ranks:
            noise.refill()
        factors = noise.prompt_factors if num_prompt else noise.decode_factors
        return seconds * factors[noise.ranks.pop()]
