"""Judgement of results: exact values, their rounding, and the error of a result in units in the last place.

Nothing here is imported by the operators or by a program that only uses them. The values come from
`nonpu.verify.oracles`, which imports nothing of what it judges: an error in a formula, a table or a rounding must not
be shared between a result and the value that it is compared with. Where cases are made, the operators' contract is read
too: names, types and refusals, never a formula.
"""
