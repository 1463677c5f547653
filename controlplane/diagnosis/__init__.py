"""What is wrong with a deployment or an engine, by rules over what could be seen of it.

Sources (`controlplane.diagnosis.sources`) bring whatever they find into one normal form, the
`Window`: signals, facts, log events, changes. Rules (`controlplane.diagnosis.rules`) are pure
functions over it and each gives a verdict about one mechanism. `judging` ranks the verdicts into a
`Diagnosis`, in which `healthy` and `cannot_tell` are answers too.
"""
