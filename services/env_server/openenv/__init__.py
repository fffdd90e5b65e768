"""The protocol of OpenEnv's clients, over the same sessions as the REST API. ``docs/openenv.md`` shows it.

Each environment is an OpenEnv server of its own at ``/openenv/<environment>``: `EnvClient(base_url=…)` connects there.
"""
