"""The life of requests in virtual time: costs instead of computation, everything else real.

A simulation is a `Timeline` of actions at virtual times. What is scheduled, cached, preempted,
admitted and routed is decided by the very objects that serve (`dataplane.scheduling`,
`dataplane.admission`, `dataplane.queueing`, `dataplane.leases`, `dataplane.routing`); what a step
takes is told by a `CostModel`. Nothing here reads a clock, sleeps, or draws from a generator that
was not seeded.
"""
