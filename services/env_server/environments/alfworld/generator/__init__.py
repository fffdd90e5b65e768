"""Furnishes rooms from real floor plans and writes ALFWorld games in the official layout.

`spec` says what to make, `facts` and `floor_plans` hold what the ``alfworld`` package knows, `goals` chooses what to
ask for, `furnish` places things, `problem` writes PDDL, `wording` writes the goals of people, `walkthrough` solves the
game, `write` puts it all on disk. The same spec gives byte-identical files on any machine.
"""
