"""``gagpo compare``: algorithms × seeds under one budget, and the report of how they differ.

A `study` is planned into ordinary runs (`planning`), which processes of their own make one after another (`lane`) while
the command watches (`running`). The report is made from the runs' files alone: `figures` and `curves` of each run,
`statistics` over seeds, put together in `numbers` and told by `markdown` and `plots`.
"""
