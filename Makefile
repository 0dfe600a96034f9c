# The commands of this project. Each can be repeated; completed work is not done again.
PREFIX ?= /usr/local
PYTHON := .venv/bin/python
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc)

# Set-up and build share .venv and dpkg.
.NOTPARALLEL:
.PHONY: help setup setup-tests build run test bench study soak install wheel gpu-kit clean
help:
	@echo "make setup    install what running needs (Debian 12; root or sudo), and LibTorch into .venv"
	@echo "make setup-tests  setup, then what only the tests need (a browser, shells, Python packages)"
	@echo "make build    setup, then build/bin/wmtp-host"
	@echo "make run      build, then run experiments/rho1.toml on two ranks"
	@echo "make test     build, then all tests"
	@echo "make bench    build, then measure speed and memory against PyTorch, rho-1, saves, imports, the page, the log"
	@echo "make study    build, then train what the studies of docs/studies.md lack (all with FRESH=1: thirteen hours)"
	@echo "make soak     build, then the long forms of the random tests"
	@echo "make install  build, then install under PREFIX (now $(PREFIX))"
	@echo "make wheel    build, then dist/wmtp_host-….whl, for \`pip install\` without root, next to torch"
	@echo "make gpu-kit  build, then dist/gpu-kit: the wheel with what checks and measures it on a machine with a GPU"
	@echo "make clean    remove the build; keep .venv and runs/"

setup:
	@bash scripts/setup.sh

setup-tests:
	@bash scripts/setup.sh tests

build: setup
	@test -f build/build.ninja || cmake --preset release
	@cmake --build build --target sdk/all host/all plugins/all
	@sed -n 's/^WMTP_ABOUT_CUDA:INTERNAL=/CUDA: /p' build/CMakeCache.txt

run: build
	build/bin/wmtp-host run experiments/rho1.toml

test: setup-tests build
	@cmake --build build
	@ctest --preset release -j$$(($$(nproc) + 1)) || { status=$$?; echo "The failed cases (build/Testing/Temporary):"; \
	grep -hE '^(FAILED|ERROR) |^E   |: Failure$$|^\[  FAILED  \]' build/Testing/Temporary/LastTest.log | tail -30; \
	exit $$status; }

bench: setup-tests build
	$(PYTHON) tests/bench/bench.py
	$(PYTHON) tests/bench/rho1_bench.py
	$(PYTHON) tests/bench/own_bench.py
	@cmake --build build --target products_bench reducer_bench
	$(PYTHON) tests/bench/products_bench.py
	$(PYTHON) tests/bench/reducer_bench.py
	@if command -v perf >/dev/null; then $(PYTHON) tests/bench/profile_bench.py; \
	else echo "no profile of a step: it needs perf, Debian's linux-perf"; fi
	$(PYTHON) tests/bench/links_bench.py
	$(PYTHON) tests/bench/growth_bench.py
	$(PYTHON) tests/bench/busy_bench.py
	$(PYTHON) tests/bench/checkpoint_bench.py
	$(PYTHON) tests/bench/files_bench.py
	$(PYTHON) tests/bench/tokens_bench.py
	$(PYTHON) tests/bench/answers_bench.py
	$(PYTHON) tests/bench/ui_bench.py
	$(PYTHON) tests/bench/log_bench.py

# Runs whose results are committed are trained again with FRESH=1 only.
known = $(if $(FRESH),,--known docs/studies/$(1).json)

study: build
	$(PYTHON) experiments/study/paths/make_graphs.py dag 1 2 11 12 13 14 15 16 17 18 19 -o runs/paths
	build/bin/wmtp-host study experiments/study/paths.toml --jobs 2 $(call known,paths)
	$(PYTHON) experiments/study/paths/make_graphs.py blocksworld 1 2 11 12 13 14 15 16 17 --paths 100 -o runs/blocksworld
	build/bin/wmtp-host study experiments/study/blocksworld.toml --jobs 2 $(call known,blocksworld)
	$(PYTHON) experiments/study/path_star/make_stars.py 3 4 5 11 12 13 14 15 16 17 -o runs/path_star
	build/bin/wmtp-host study experiments/study/path_star.toml --jobs 2 $(call known,path_star)
	$(PYTHON) experiments/study/noise/make_text.py 1 2 11 12 13 14 15 16 17 18 19 20 -o runs/noise
	build/bin/wmtp-host study experiments/study/noise.toml --jobs 2 $(call known,noise)
	build/bin/wmtp-host study experiments/study/per_head.toml --jobs 2 $(call known,per_head)
	build/bin/wmtp-host study experiments/study/heads_text.toml --jobs 2 $(call known,heads_text)
	$(PYTHON) experiments/study/wrong_answers/make_answers.py 1 2 11 12 13 14 15 16 17 4 -o runs/wrong_answers
	build/bin/wmtp-host study experiments/study/wrong_answers.toml --jobs 2 $(call known,wrong_answers)
	$(PYTHON) experiments/study/heads/make_totals.py 1 11 12 13 14 15 -o runs/heads
	build/bin/wmtp-host study experiments/study/heads.toml --jobs 2 $(call known,heads)
	build/bin/wmtp-host study experiments/study/text.toml $(call known,text)

soak: setup-tests build
	WMTP_SOAK=1 $(PYTHON) -m pytest -q -m soak tests

install: build
	cmake --install build --prefix $(PREFIX)

wheel: build
	$(PYTHON) scripts/make_wheel.py build dist

gpu-kit: build
	$(PYTHON) scripts/make_gpu_kit.py "$$($(PYTHON) scripts/make_wheel.py build dist)" dist/gpu-kit

clean:
	rm -rf build build-* dist
