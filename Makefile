# Two commands do the work: `make repro` runs the pipeline, `make test` runs the tests. Both set up what they need first.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || echo python3)
# The CPU build is enough for the default profile. Another build: make setup TORCH=torch==2.13.0+cu130 TORCH_ARGS="--index-url ..."
TORCH ?= torch==2.13.0
TORCH_ARGS ?=
XGRAMMAR := xgrammar==0.2.9 apache-tvm-ffi==0.1.15.post2
BIN := .venv/bin
PIP := -m pip install -q --disable-pip-version-check
export PATH := $(CURDIR)/$(BIN):$(PATH)
export DVC_NO_ANALYTICS := 1
export DO_NOT_TRACK := 1

.PHONY: setup repro experiment test check bench vllm

setup: .venv/ready .venv-bfcl/ready .venv-tau2/ready

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) $(TORCH) $(TORCH_ARGS)
	$(BIN)/python $(PIP) -e '.[dev,mcp,server,openai,dask]'
	# The extra `models` without what xgrammar needs on GPUs alone, a gigabyte.
	$(BIN)/python $(PIP) --no-deps $(XGRAMMAR)
	touch $@

# The official checkers pin old packages and run text that a model wrote: they live in an environment of their own.
.venv-bfcl/ready: slca/benchmarks/bfcl/requirements.txt
	$(PYTHON) -m venv .venv-bfcl
	.venv-bfcl/bin/python $(PIP) --no-deps -r $<
	touch $@

.venv-tau2/ready: slca/benchmarks/tau2/requirements.txt
	$(PYTHON) -m venv .venv-tau2
	.venv-tau2/bin/python $(PIP) --no-deps -r $<
	touch $@

repro: setup
	$(BIN)/dvc repro

experiment: setup
	$(BIN)/python -m slca experiment

test: setup check
	$(BIN)/python -m pytest --benchmark-disable -m "not bench"

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup
	$(BIN)/python -m pytest tests/benches --benchmark-only -m "slow or not slow"

# vLLM for CPUs, to try the vLLM backends without a GPU (3.5 GB). It does not go with Prefect's FastAPI, so it has an environment of
# its own. The four packages that go again do not load beside the CPU build of torch, or are needed on GPUs alone.
vllm: .venv-vllm/ready

.venv-vllm/ready: slca/rollouts/vllm_requirements.txt
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python $(PIP) torch==2.13.0
	.venv-vllm/bin/python $(PIP) -r $<
	.venv-vllm/bin/python -m pip uninstall -q -y torchvision torchaudio torchcodec triton
	.venv-vllm/bin/python $(PIP) --no-deps -e .
	touch $@
