"""Environments for other people's agents: `import gagpo.envs`, then ``gymnasium.make("gagpo/ALFWorld-v0", url=…)``.

The import registers them. ``gymnasium.make("gagpo.envs:gagpo/ALFWorld-v0", url=…)`` imports and makes at once.
"""

try:
    import gymnasium
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError('gagpo.envs needs gymnasium: pip install "gagpo[gym]"', name="gymnasium") from missing

from gagpo.envs.environment import TextEnv
from gagpo.envs.vector import TextVectorEnv
from gagpo.stack import local_env_server as local_server

__all__ = ["TextEnv", "TextVectorEnv", "local_server"]

_SINGLE = "gagpo.envs.environment:TextEnv"
_VECTOR = "gagpo.envs.vector:TextVectorEnv"

for _name, _environment in (
    ("ALFWorld", {"environment": "alfworld"}),
    ("WebShop", {"environment": "webshop"}),
    ("Text", {}),
):
    gymnasium.register(f"gagpo/{_name}-v0", _SINGLE, vector_entry_point=_VECTOR, kwargs=_environment)
