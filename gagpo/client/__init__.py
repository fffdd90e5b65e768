"""Remote training jobs from Python: `Client`, and `AsyncClient` with the same verbs (docs/jobs.md).

with Client("http://trainer:8000") as client:
    job = client.submit(tomllib.loads(Path("recipe.toml").read_text()))
    for event in client.watch(job.id):
        print(event.kind, event.payload)
    client.download(job.id, Path("policy"))
"""

from gagpo.client.asynchronous import AsyncClient
from gagpo.client.blocking import Client
from gagpo.client.calls import When
from gagpo.client.errors import Fault, JobError
from gagpo.client.following import Patience
from gagpo.client.server import DEFAULT_SERVER, Server, find_server

__all__ = ["DEFAULT_SERVER", "AsyncClient", "Client", "Fault", "JobError", "Patience", "Server", "When", "find_server"]
