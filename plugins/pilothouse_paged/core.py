"""The native engine behind the host's contract: what `SteppedCore` needs of this plugin."""

from pathlib import Path

from dataplane.clock import MonotonicClock, monotonic_clock
from dataplane.host.stepped_core import SteppedCore
from dataplane.scheduling.bounds import SchedulerConfig
from pilothouse_paged.runner import Runner, load_runner
from pilothouse_paged.selecting_runner import SelectingRunner
from pilothouse_paged.selection import Selector
from pilothouse_paged.settings import ENGINE, PagedSettings


class PagedEngineCore(SteppedCore[Selector]):
    """EngineCore over paged attention (see dataplane.host.core)."""

    def __init__(
        self, artifact: str, settings: PagedSettings, clock: MonotonicClock = monotonic_clock
    ) -> None:
        """`artifact` is a GGUF file or a folder of safetensors. Nothing is read before `load`."""
        super().__init__(ENGINE, shares_prefixes=settings.prefix_caching, clock=clock)
        self._artifact = Path(artifact)
        self._settings = settings

    def load(self) -> None:
        """Read the weights, measure, and allocate the KV pool.

        Raises OSError and ValueError, with the remedy, for what cannot work.
        """
        self.start(load_runner(self._artifact, self._settings))

    def start(self, runner: Runner) -> None:
        """Serve with a model that is loaded already: the second half of `load`."""
        settings, device = self._settings, runner.device_kind
        self.compile_seconds = runner.compile_seconds
        bounds = SchedulerConfig(
            max_num_seqs=settings.max_num_seqs,
            max_num_batched_tokens=settings.batched_tokens(device),
            max_model_len=runner.max_model_len,
            num_blocks=runner.num_blocks,
            block_size=settings.block_size,
            max_prefill_tokens_per_step=settings.prefill_tokens_per_step(device),
        )
        self.begin_with(SelectingRunner(runner), bounds)
