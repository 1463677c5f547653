"""Faults of what is asked."""

from typing import Literal

from controlplane.specs.faults.fault import CallFaultFields, Multiple, Part, Tokens
from controlplane.specs.quantity import Duration
from dataplane.simulation.faults.traffic import (
    ClusteredArrivals,
    LongerOutputs,
    LongPrompts,
    PrefixChange,
    TenantFlood,
)


class LongerOutputsSpec(CallFaultFields):
    """Answers get longer, and so does what callers allow."""

    makes = LongerOutputs
    fault: Literal["longer_outputs"]
    intensity: Multiple = 1.0
    """By how many times longer: 1 doubles them."""


class LongPromptsSpec(CallFaultFields):
    """Prompts get longer, behind what they share."""

    makes = LongPrompts
    fault: Literal["long_prompts"]
    intensity: Multiple = 1.0
    """How many times `added_tokens`."""
    added_tokens: Tokens = 8000
    """Tokens that are added at intensity 1."""


class PrefixChangeSpec(CallFaultFields):
    """Prompts begin with something of their own; what they had in common no longer matches."""

    makes = PrefixChange
    fault: Literal["prefix_change"]
    intensity: Part = 1.0
    """The share of prompts that do."""


class ClusteredArrivalsSpec(CallFaultFields):
    """As many calls come, but closer together."""

    makes = ClusteredArrivals
    fault: Literal["clustered_arrivals"]
    intensity: Part = 1.0
    """How close: at 1 all calls of a period come at once."""
    period: Duration = 10.0
    """From one cluster to the next."""


class TenantFloodSpec(CallFaultFields):
    """Some call more often."""

    makes = TenantFlood
    fault: Literal["tenant_flood"]
    intensity: Multiple = 9.0
    """How many more calls for each: 9 makes ten of one, each with as many turns behind it."""
