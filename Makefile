# The short face of the build: each target is one or two cmake/ctest calls and installs what it lacks.
BUILD ?= build
JOBS  ?= $(shell nproc)
MARCH ?= x86-64-v3
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build
.PHONY: setup setup-tests build demo test bench lint format study gpu-test gpu-racecheck gpu-bench needs-gpu clean
CMAKE = cmake -S . -G Ninja -DOGROM_MARCH=$(MARCH)

setup-tests: ## setup, and the daemons that the launch tests start by themselves (SLURM, sshd)
	@jobscripts/local/setup.sh tests

setup: ## install missing Debian packages (root or sudo), else print the exact list
	@jobscripts/local/setup.sh

build: setup ## build/ogrom; CUDA sources too when nvcc is found
	@[ ! -L $(BUILD)/ogrom ] || rm $(BUILD)/ogrom # the demo's link: never write through it
	@$(CMAKE) -B $(BUILD) -DOGROM_TESTS=OFF
	@cmake --build $(BUILD) -j $(JOBS)

demo: setup ## train a small GPT on real English text with several ranks, then sample from it (TEXT=path for your own)
	@$(CMAKE) -B $(BUILD)/demo -DOGROM_TESTS=OFF -DOGROM_CUDA=$$(jobscripts/local/has_gpu.sh)
	@cmake --build $(BUILD)/demo -j $(JOBS)
	@[ -e $(BUILD)/ogrom ] || ln -sfn demo/ogrom $(BUILD)/ogrom
	@OGROM=$(BUILD)/demo/ogrom jobscripts/local/demo.sh

test: setup-tests ## build everything, CUDA too when nvcc is found, and run every test
	@$(CMAKE) -B $(BUILD)/test -DOGROM_TESTS=ON -DOGROM_BENCH=ON
	@cmake --build $(BUILD)/test -j $(JOBS)
	@$(CMAKE) -B $(BUILD)/faults -DOGROM_TESTS=ON -DOGROM_FAULTS=ON -DOGROM_CUDA=OFF
	@cmake --build $(BUILD)/faults -j $(JOBS) --target fault_programs
	@tests/run_all.sh $(BUILD)/test $(BUILD)/faults

bench: setup ## CPU benchmarks: verify, then rate and fraction of the limit; ROWS=regex selects; writes results/
	@$(CMAKE) -B $(BUILD)/bench -DOGROM_TESTS=OFF -DOGROM_BENCH=ON
	@cmake --build $(BUILD)/bench -j $(JOBS)
	@BUILD=$(BUILD)/bench ROWS="$(ROWS)" tests/peers/bench.sh

lint: setup ## clang-format, clang-tidy (.cpp/.h), include order, file and function size, shellcheck
	@$(CMAKE) -B $(BUILD)/test -DOGROM_TESTS=ON -DOGROM_BENCH=ON > /dev/null
	@BUILD=$(BUILD)/test JOBS=$(JOBS) tests/structure/lint.sh

format: setup ## apply clang-format
	@git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i

gpu-test: needs-gpu setup ## build with CUDA and run every test that needs a GPU (PARTS=regex); writes results/gpu/tests.json
	@$(CMAKE) -B $(BUILD)/gpu -DOGROM_TESTS=ON -DOGROM_BENCH=ON -DOGROM_CUDA=ON
	@cmake --build $(BUILD)/gpu -j $(JOBS)
	@tests/device/run.sh $(BUILD)/gpu "$(PARTS)"

gpu-racecheck: needs-gpu setup ## build with CUDA; memcheck, racecheck, initcheck of the kernel tests at small sizes (PARTS=regex)
	@$(CMAKE) -B $(BUILD)/gpu -DOGROM_TESTS=ON -DOGROM_BENCH=ON -DOGROM_CUDA=ON
	@cmake --build $(BUILD)/gpu -j $(JOBS) --target ogrom test_cuda_kernels test_cuda_attention
	@tests/device/sanitize.sh $(BUILD)/gpu "$(PARTS)"

gpu-bench: needs-gpu setup ## build with CUDA; kernels, loss curve, a training step beside PyTorch (ROWS=regex); writes results/gpu/
	@$(CMAKE) -B $(BUILD)/gpu -DOGROM_TESTS=ON -DOGROM_BENCH=ON -DOGROM_CUDA=ON
	@cmake --build $(BUILD)/gpu -j $(JOBS) --target ogrom curve_inputs bench_floor bench_cuda_streaming bench_attention_device bench_cuda_products
	@BUILD=$(BUILD)/gpu ROWS="$(ROWS)" TEXT="$(TEXT)" tests/peers/bench_gpu.sh

needs-gpu:
	@[ "$$(jobscripts/local/has_gpu.sh)" = ON ] || { echo "no NVIDIA driver on this machine: the gpu- targets need a GPU" >&2; exit 2; }

study: build ## weak and strong scaling at 1, 2 and 4 ranks under two layouts on this machine, and its report
	@OGROM=$(BUILD)/ogrom jobscripts/local/study.sh

clean:
	@rm -rf $(BUILD)
