"""The simulator behind the host's contract: what `SteppedCore` needs of this plugin."""

import random
from pathlib import Path

from dataplane.host.stepped_core import SteppedCore
from pilothouse_simulator.answer import Answer
from pilothouse_simulator.machine import find_machine
from pilothouse_simulator.pace import Pace, Waiting
from pilothouse_simulator.runner import SimulatedRunner
from pilothouse_simulator.settings import ENGINE, SimulatorSettings
from pilothouse_simulator.vocabulary import Vocabulary, read_vocabulary


class SimulatorCore(SteppedCore[Answer]):
    """EngineCore that waits where others compute (see dataplane.host.core).

    Requests without a seed draw one from the settings' in the order in which they arrive: the
    same requests in the same order get the same answers.
    """

    def __init__(
        self, artifact: str, settings: SimulatorSettings, waiting: Waiting, replica_id: str
    ) -> None:
        """`artifact` is what a Model names; only its tokenizer is read, and that by `load`."""
        seeds = random.Random(settings.seed)
        super().__init__(
            ENGINE,
            shares_prefixes=settings.prefix_caching,
            clock=waiting.now,
            draw_seed=lambda: seeds.getrandbits(64),
        )
        self._artifact = Path(artifact)
        self._settings = settings
        self._replica_id = replica_id
        self._waiting = waiting
        self._pace = Pace(waiting, settings.time_scale)

    def load(self) -> None:
        """Read the vocabulary, and wait as long as loading and compiling take.

        Raises OSError and ValueError, with the remedy, for what cannot work.
        """
        vocabulary = read_vocabulary(self._artifact)
        start = find_machine(self._settings, self._replica_id).start_seconds
        self._pace.wait(start.load)
        if start.compile:
            began_at = self._waiting.now()
            self._pace.wait(start.compile)
            self.compile_seconds = self._waiting.now() - began_at
        self.start(vocabulary)

    def start(self, vocabulary: Vocabulary) -> None:
        """Serve with a vocabulary that is read already: the second half of `load`."""
        settings = self._settings
        runner = SimulatedRunner(
            vocabulary,
            find_machine(settings, self._replica_id),
            settings.output_tokens.to_distribution(),
            self._pace,
            settings.ledger_lines(),
        )
        self.begin_with(runner, settings.bounds())
