"""The benchmark: one table of cases, every engine in a process of its own, paired rounds, ratios and a report.

`cases` is the table; `engines` and `limit` run a case with one library each; `worker` is the process around an engine
and `session` the other side of its pipe; `results` holds what was measured and the arithmetic of ratios; `report` and
`plot` show it.
"""
