# make run     everything from a fresh machine to a trained network and a page about it
# make test    everything from a fresh machine to the whole test suite; its last line is "N passed, N failed, N skipped"
# make build   only the program and the library, in build/
# make bench   speed against PyTorch on this machine
# make test-gpu       all tests of the engine cuda, on a real GPU where there is one, and on a pretended one (twelve minutes on two cores)
# make test-cluster   batch jobs on a Slurm with three pretended nodes, interrupted in all ways
# make nightly        two hundred thousand random worlds of calls; every cut of every network; jobs under mpirun, killed and stopped at random moments and resumed
# make test-portable  everything for aarch64, tested under qemu's emulation (ten minutes)
# make sanitize, make thread-sanitize, make fuzz, make format, make clean

BUILD      ?= build
EXPERIMENT ?= experiments/11-fashion-cycle.yaml
JOBS       ?= $(shell nproc)
FUZZ_S     ?= 60
KILLS      ?= 50
SEED       ?= 0

configure = cmake -G Ninja -S . -B $(1) $(2) >$(1).log 2>&1 || { cat $(1).log; exit 1; }; \
            sed -n 's/^-- \(the engine .* is left out: nvcc .*\)/note: \1/p' $(1).log; rm -f $(1).log
compile   = cmake --build $(1) -j $(JOBS)

.PHONY: run test test-gpu test-cluster test-portable nightly build bench sanitize thread-sanitize fuzz format clean

run: build
	@$(BUILD)/veche data get fashion-mnist
	@table=$$($(BUILD)/veche run $(EXPERIMENT)); code=$$?; echo "$$table"; [ $$code -eq 0 ] || exit $$code; \
	  echo; $(BUILD)/veche report "$$(echo "$$table" | sed -n 's/^ *kept in *//p')"

build:
	@scripts/setup.sh build
	@$(call configure,$(BUILD),-DVECHE_TESTS=OFF)
	@$(call compile,$(BUILD))

test:
	@scripts/setup.sh test
	@$(call configure,$(BUILD),-DVECHE_TESTS=ON)
	@$(call compile,$(BUILD))
	@$(BUILD)/veche data get fashion-mnist
	@tests/summary.py ctest --test-dir $(BUILD) --output-on-failure -j $$(($(JOBS) + 1)) -LE long

test-gpu:
	@scripts/setup.sh test
	@$(call configure,$(BUILD),-DVECHE_TESTS=ON)
	@$(call compile,$(BUILD))
	@tests/summary.py ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) -R 'gpu|cuda'

test-cluster:
	@scripts/setup.sh test
	@scripts/setup.sh cluster || true
	@$(call configure,$(BUILD),-DVECHE_TESTS=ON)
	@$(call compile,$(BUILD))
	@tests/summary.py tests/cluster/run.sh $(BUILD)

test-portable:
	@scripts/setup.sh portable || true
	@JOBS=$(JOBS) tests/portable/aarch64.sh $(BUILD)-aarch64

nightly:
	@scripts/setup.sh test
	@$(call configure,$(BUILD),-DVECHE_TESTS=ON)
	@$(call compile,$(BUILD))
	@$(BUILD)/tests/call.call 200000 $(SEED)00000
	@VECHE_ALL_CUTS=1 $(BUILD)/tests/engine.passes
	@tests/cluster/nightly.sh $(BUILD) $(KILLS) $(SEED)

sanitize:
	@scripts/setup.sh test
	@$(call configure,$(BUILD)-asan,-DVECHE_SANITIZE=address$(comma)undefined)
	@$(call compile,$(BUILD)-asan)
	@tests/summary.py ctest --test-dir $(BUILD)-asan --output-on-failure -j $(JOBS)

thread-sanitize:
	@scripts/setup.sh test
	@$(call configure,$(BUILD)-tsan,-DVECHE_SANITIZE=thread)
	@$(call compile,$(BUILD)-tsan)
	@tests/summary.py ctest --test-dir $(BUILD)-tsan --output-on-failure -j $(JOBS) -R 'base\.pool|engine\.|api\.|mpi\.(mail|world|asking|strategies)'

fuzz:
	@scripts/setup.sh test
	@tests/fuzz/short.sh $(BUILD) $(FUZZ_S)

bench: build
	@scripts/setup.sh bench
	@bench/compare.sh $(BUILD)/veche

format:
	@clang-format -i $$(git ls-files '*.c' '*.h')

clean:
	@rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-fuzz $(BUILD)-aarch64

comma := ,
