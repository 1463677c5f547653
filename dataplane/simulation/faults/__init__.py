"""What goes wrong, on purpose and the same way every time.

A fault changes costs, memory, processes, traffic or what is exported, from a time on and for a
while. It draws by name from its own seed, so a fault that is added or taken away changes no
other, and a stronger one hits everything that a weaker one hits. With intensity 0 it is not
there at all. `FaultPlan` puts several together for the parts of a fleet to ask.
"""
