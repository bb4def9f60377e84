# anneal: build, test, demo. One file, read from top to bottom.
#
#   make            build/anneal            CUDA=auto|0|1  the CUDA plugin: where nvcc is found, never, insist
#   make demo       train and watch         SAN=1          AddressSanitizer and UBSan, in build-san/
#   make test       the whole suite         SAN=thread     ThreadSanitizer, in build-tsan/: what has threads
#   make help       all targets             DEBUG=1        for a debugger (-O0 -g3), in build-debug/
#                                           V=1            show the commands

.DEFAULT_GOAL := all
SHELL := /bin/bash
MAKEFLAGS += --no-builtin-rules
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif
Q := $(if $(V),,@)

CUDA ?= auto
MPI ?= auto
PREFIX ?= /usr/local
TSAN := $(filter thread,$(SAN))
DEBUG ?=
BUILD := build$(if $(SAN),$(if $(TSAN),-tsan,-san))$(if $(DEBUG),-debug)$(if $(COVERAGE),-coverage)
ifeq ($(origin CC),default)
CC := gcc
endif

# ---- what the distribution gives (Debian and Ubuntu package names) ----
PACKAGES := gcc libc6-dev binutils libncurses-dev libedit-dev libsqlite3-dev libcsv-dev \
            libjansson-dev libpcre2-dev libutf8proc-dev libxxhash-dev zlib1g-dev libzstd-dev libopenmpi-dev \
            openmpi-bin bible-kjv
TEST_PACKAGES := libcmocka-dev libvterm-dev sqlite3 g++ libboost-context-dev libopenblas-dev jq
HEADERS := curses.h histedit.h sqlite3.h csv.h jansson.h pcre2.h utf8proc.h xxhash.h zlib.h zstd.h
TEST_HEADERS := cmocka.h vterm.h openblas_config.h

# ---- version ----
# The commit that `anneal --version` prints: of this checkout, else the one that `git archive` wrote into packaging/commit,
# else none. safe.directory lets git answer where the checkout belongs to another user, as in `sudo make install`.
COMMIT := $(shell if [ -e .git ]; then git --no-optional-locks -c safe.directory="$$PWD" describe --always --dirty --abbrev=10 --exclude='*'; \
            else grep -v Format packaging/commit | cut -c 1-10; fi 2>/dev/null)

# ---- flags ----
WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-unknown-pragmas
# Fixed buffers cut what is too long, by design; gcc warns of it where it inlines, and every release inlines otherwise.
# A loop that clang leaves as it is in spite of `omp simd` is no mistake.
WARN += $(if $(findstring clang,$(CC)),-Wno-pass-failed,-Wno-format-truncation)
comma := ,
SANITIZERS := $(if $(TSAN),-fsanitize=thread,-fsanitize=address$(comma)undefined$(if $(FUZZ),$(comma)fuzzer-no-link \
              -fsanitize-coverage-ignorelist=tests/fuzz/uncounted.txt) \
              -fno-sanitize-recover=undefined)
COUNTERS := $(if $(COVERAGE),--coverage -fprofile-abs-path -fprofile-update=atomic)
SAN_FLAGS := $(if $(SAN),$(SANITIZERS) -fno-omit-frame-pointer) $(COUNTERS)
CFLAGS ?= $(if $(DEBUG),-O0 -g3,-O2 -g)
BASE_CFLAGS = -std=c17 -D_GNU_SOURCE $(WARN) $(CPPFLAGS) $(CFLAGS) $(SAN_FLAGS) -I. -fopenmp \
              -pthread -MMD -MP
LIBS = -lncursesw -ltinfo -ledit -lsqlite3 -lcsv -ljansson \
       -lpcre2-8 -lutf8proc -lxxhash -lz -lzstd -lm -ldl

# ---- sources ----
# CPU kernels are compiled twice per instruction set, for streams in fp32 and in bf16 (kernels/real.h), in bf16
# once more for processors with AVX512-BF16; each of these
# becomes one relocatable object that exports nothing but its table (see kernels/device/cpu_select.c). The rest of
# kernels/ is compiled once, like everything else.
KERNEL_ONCE := kernels/device/cpu_select.c kernels/device/cpu_threads.c kernels/device/cuda_plugin.c kernels/linear_cross_entropy.c \
               kernels/moments.c kernels/nf4_quantise.c kernels/device/chip.c kernels/device/gauge.c kernels/device/observed.c \
               kernels/device/occupancy.c kernels/device/roofline.c kernels/device/world.c
KERNEL_SRC := $(filter-out $(KERNEL_ONCE),$(wildcard kernels/*.c kernels/device/*.c))
ifneq ($(filter x86_64-%,$(shell $(CC) -dumpmachine 2>/dev/null)),)
ISAS := baseline v3 v4
else
ISAS := baseline
endif
ISA_baseline :=
ISA_v3 := -march=x86-64-v3
ISA_v4 := -march=x86-64-v4 -mprefer-vector-width=512 -DCPU_TABLE_BF16_NATIVE=cpu_table_v4dot_bf16
ISA_v4dot := $(ISA_v4) -mavx512bf16
# AMX is used where functions of amx.h say so and nowhere else, so these tables run on processors without it, too.
AMX_v4 := -mamx-tile -mamx-bf16
AMX_v4dot_bf16 := $(AMX_v4)
TABLES := $(ISAS) $(ISAS:%=%_bf16) $(if $(filter v4,$(ISAS)),v4dot_bf16)
KERNEL_CFLAGS := $(if $(DEBUG),,-O3) -ffp-contract=fast -fno-math-errno -fno-trapping-math

SRC := $(wildcard core/*/*.c datasets/*.c runs/*.c runs/*/*.c tui/*/*.c) \
       $(wildcard $(KERNEL_ONCE))
OBJ := $(SRC:%.c=$(BUILD)/%.o)
KERNEL_OBJ := $(if $(KERNEL_SRC),$(TABLES:%=$(BUILD)/kernels/cpu_%.o))
LIB := $(BUILD)/libanneal.a
MAIN := $(BUILD)/anneal

TEST_SRC := $(wildcard tests/*/test_*.c tests/*/*/test_*.c)
TESTS := $(TEST_SRC:tests/%.c=$(BUILD)/tests/%)
TEST_HELP_SRC := $(filter-out $(TEST_SRC) tests/bench/% tests/gpu/gpu_check.c tests/gpu/plain/% tests/kernels/stand_in/% \
                   tests/runs/stand_in/%, \
                   $(wildcard tests/*.c tests/*/*.c tests/*/*/*.c))
TEST_HELP_OBJ := $(TEST_HELP_SRC:%.c=$(BUILD)/%.o)
BENCH_SRC := $(wildcard tests/bench/bench_*.c)
BENCHES := $(BENCH_SRC:tests/%.c=$(BUILD)/tests/%)

# The CUDA twins are compiled twice: by nvcc into the plugin that `anneal` opens at run time, and as C++ for the
# simulator of tests/cuda_sim, which runs them on the CPU in the ordinary test suite.
CUDA_SRC := $(wildcard kernels/*.cu kernels/device/*.cu)
PLUGIN := $(BUILD)/anneal_cuda.so
NVCC := $(if $(filter 0,$(CUDA)),,$(shell command -v nvcc || { [ -x /usr/local/cuda/bin/nvcc ] && echo /usr/local/cuda/bin/nvcc; }))
ifeq ($(CUDA)$(NVCC),1)
ifneq ($(filter-out help deps clean,$(or $(MAKECMDGOALS),all)),)
$(error CUDA=1, but nvcc is not on PATH (install NVIDIA's CUDA Toolkit, or build with CUDA=0))
endif
endif

# The plugin that several ranks need, where an MPI has its compiler.
MPICC := $(if $(filter 0,$(MPI))$(findstring -linux-,$(CC)),,$(shell command -v mpicc))
MPI_PLUGIN := $(if $(MPICC),$(if $(SAN),,$(BUILD)/anneal_mpi.so))
ifeq ($(MPI)$(MPICC),1)
ifneq ($(filter-out help deps test-deps clean,$(or $(MAKECMDGOALS),all)),)
$(error MPI=1, but mpicc is not on PATH (run `make deps`, or build with MPI=0))
endif
endif
SIM_CXX = $(if $(findstring clang,$(CC)),clang++,g++)
CXXFLAGS ?= $(CFLAGS)
SIM_CXXFLAGS = -std=c++20 -Wall -Wextra -Wshadow -Werror -Wno-unknown-pragmas -Wno-psabi $(CPPFLAGS) $(CXXFLAGS) $(SAN_FLAGS) -I. -Itests/cuda_sim/include \
               -fPIC -fvisibility=hidden -pthread -MMD -MP
# Kernels call tests/cuda_sim/races.cc at every load and store. Their file's host code has one thread.
SIM_RACES = $(if $(SAN),,-fsanitize=thread -fno-threadsafe-statics \
              $(if $(findstring clang,$(CC)),,--param tsan-instrument-func-entry-exit=0))
SIM_SRC := $(wildcard tests/cuda_sim/*.cc)
SIM_PLUGIN := $(BUILD)/tests/cuda_sim/simulated_cuda.so
SIM_TESTS := $(filter $(BUILD)/tests/cuda_sim/%,$(TESTS))
SIM_OBJ := $(SIM_SRC:%.cc=$(BUILD)/%.o) $(CUDA_SRC:%.cu=$(BUILD)/sim/%.o)

# The library that --check-allocations preloads; a sanitizer has a malloc of its own.
HEAP_COUNTER := $(if $(SAN),,$(BUILD)/anneal_heap.so)

# The program that writes the reference, and the first of the manual pages, which stands for all of them.
GENERATE := $(BUILD)/docs/generate
MAN := $(BUILD)/man/anneal.1

.PHONY: help all docs tests deps test-deps demo demo-classify test test-long run-tests fuzz planted mutate check bench static ptx gpu-check bundle install uninstall clean coverage release FORCE
.SECONDARY:

all: $(MAIN) $(HEAP_COUNTER) $(MPI_PLUGIN) $(MAN) $(if $(NVCC),$(if $(SAN),,$(PLUGIN)))

help:
	@echo "make                build $(MAIN)"
	@echo "make demo           install what is missing, prepare the King James Bible, train on it and watch it live"
	@echo "make demo-classify  train a model on its verses, and from it classifiers, and compare them with a bag of words"
	@echo "make test           install what is missing, build, run the whole test suite"
	@echo "make test-long      the same with soak, crash, power and fault tests at full length, and fuzzing, before a release; SOAK=60: an hour of soak"
	@echo "make fuzz           every parser of foreign data with libFuzzer, in build-fuzz/, for FUZZ_SECONDS (600) in total"
	@echo "make run-tests      the test suite without installing anything; make tests only builds its programs"
	@echo "make docs           write docs/reference anew, from the tables of the program; make check compares it"
	@echo "make check          layout, include arrows, warnings of clang"
	@echo "make coverage       which lines the test suite runs: a table by folder, and build-coverage/html/"
	@echo "make bench          speed and memory on this machine, and of its own GEMM and, where installed, PyTorch"
	@echo "make planted        bugs planted in kernels, one at a time: which test finds each (tests/cuda_sim/bugs.md)"
	@echo "make mutate         N=40 small bugs in FILES (default: those changed), one at a time: which does no test find?"
	@echo "make ptx            tests of the CUDA kernels on what nvcc makes of them, run by the simulator instead of their source"
	@echo "make static         registers, spills and instructions of the CUDA kernels, as nvcc made them, against a table"
	@echo "make gpu-check      every CUDA operation and training against the CPU, and judged speeds, on this machine's GPU"
	@echo "make bundle         one folder and .tar.gz that runs after one copy, also on a GPU server without our libraries"
	@echo "make release        source archive, bundle and checksums, in $(BUILD)/release (docs/releasing.md)"
	@echo "make deps           only install the packages that the build needs; make test-deps: and those of the tests"
	@echo "make install        to PREFIX ($(PREFIX)), below DESTDIR; make uninstall"
	@echo "make clean          remove all build folders"
	@echo
	@echo "CUDA=auto|0|1       build the CUDA plugin where nvcc is found | never | insist"
	@echo "MPI=auto|0|1        build the MPI plugin, for several ranks, where mpicc is found | never | insist"
	@echo "CC=clang            another compiler"
	@echo "SAN=1 SAN=thread    AddressSanitizer and UBSan, in build-san/ | ThreadSanitizer, for what has threads, in build-tsan/"
	@echo "DEBUG=1             for a debugger (-O0 -g3), in build-debug/"
	@echo "V=1                 show the commands"

# ---- compiling ----
# Checked once per build folder, so that a machine without the libraries gets one sentence instead of pages of errors.
# $(call look_for,HEADERS,TARGET): TARGET is the make target that installs them. -g0 because with -g3 (DEBUG=1) the
# preprocessor also prints the macros.
define look_for
@mkdir -p $(@D)
@command -v $(CC) >/dev/null || { echo "make: the compiler $(CC) is not installed (run \`make $(2)\` to install what is missing)" >&2; exit 1; }
@missing=$$(printf '#if !__has_include(<%s>)\n%s\n#endif\n' $(foreach h,$(1),$(h) $(h)) | \
  $(CC) $(filter-out -MMD -MP,$(BASE_CFLAGS)) -g0 -E -P -x c - | xargs); [ -z "$$missing" ] || { \
  echo "make: these headers are not installed: $$missing (run \`make $(2)\` to install what is missing)" >&2; exit 1; }
@touch $@
endef
$(BUILD)/headers:
	$(call look_for,$(HEADERS),deps)
$(BUILD)/test_headers: | $(BUILD)/headers
	$(call look_for,$(TEST_HEADERS),test-deps)
$(TESTS:%=%.o) $(TEST_HELP_OBJ): | $(BUILD)/test_headers

$(BUILD)/%.o: %.c | $(BUILD)/headers
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC   $<")
	$(Q)$(CC) $(BASE_CFLAGS) -c $< -o $@

define kernel_rules
$(BUILD)/isa/$(1)/%.o: %.c | $(BUILD)/headers
	@mkdir -p $$(@D)
	$(if $(V),,@echo "  CC   $$< ($(1))")
	$(Q)$$(CC) $$(BASE_CFLAGS) $(KERNEL_CFLAGS) $(ISA_$(1:_bf16=)) $(AMX_$(1)) \
	  $(if $(filter %_bf16,$(1)),-DKERNELS_BF16,-DCPU_TABLE_BF16=cpu_table_$(1)_bf16) -c $$< -o $$@

$(BUILD)/kernels/cpu_$(1).o: $(KERNEL_SRC:%.c=$(BUILD)/isa/$(1)/%.o)
	@mkdir -p $$(@D)
	$(Q)$$(LD_RELOCATABLE) -r -o $$@.all $$^
	$(Q)$$(OBJCOPY) --redefine-sym cpu_table=cpu_table_$(1) --keep-global-symbol=cpu_table_$(1) $$@.all $$@
	@rm -f $$@.all
endef
# The compiler's own tools, so that CC alone chooses another machine (CC=aarch64-linux-gnu-gcc).
LD_RELOCATABLE = $(shell $(CC) -print-prog-name=ld)
OBJCOPY = $(shell $(CC) -print-prog-name=objcopy)
AR = $(shell $(CC) -print-prog-name=ar)
$(foreach table,$(TABLES),$(eval $(call kernel_rules,$(table))))

# Two more for tests: with AMX in plain C, for processors that lack it.
ISA_amx_emulated := $(ISA_v4) -mavx512bf16 -D__AMX_BF16__ -include tests/kernels/amx_emulated.h
EMULATED := $(if $(filter v4,$(ISAS)),amx_emulated amx_emulated_bf16)
$(foreach table,$(EMULATED),$(eval $(call kernel_rules,$(table))))

$(LIB): $(OBJ) $(KERNEL_OBJ)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

# Written only when the commit has changed: otherwise nothing is compiled again.
$(BUILD)/commit: FORCE
	@mkdir -p $(@D)
	@echo '$(COMMIT)' | cmp -s - $@ || echo '$(COMMIT)' >$@
$(BUILD)/tui/main.o: BASE_CFLAGS += -DCOMMIT='"$(COMMIT)"'
$(BUILD)/tui/main.o: $(BUILD)/commit

$(MAIN): $(BUILD)/tui/main.o $(LIB)
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CC) $(BASE_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/anneal_heap.so: core/base/preload/heap_counter.c | $(BUILD)/headers
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CC) $(filter-out $(SAN_FLAGS) -fopenmp -MMD -MP,$(BASE_CFLAGS)) -fPIC -shared -ftls-model=initial-exec $(LDFLAGS) -o $@ $< -ldl

# ---- the MPI plugin ----
MPI_SOURCES := $(wildcard kernels/device/mpi/*.c)
$(BUILD)/anneal_mpi.so: $(MPI_SOURCES) kernels/device/mpi/watch.h kernels/device/world.h core/base/err.h | $(BUILD)/headers
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LD   $@")
	$(Q)OMPI_CC="$(CC)" MPICH_CC="$(CC)" $(MPICC) $(filter-out -fopenmp -MMD -MP,$(BASE_CFLAGS)) -fPIC -fvisibility=hidden -shared $(LDFLAGS) -o $@ $(MPI_SOURCES)

# ---- the reference: written from the tables of the program ----
# The Markdown is part of the tree, so that it can be read where the source is; the manual pages are built.
VERSION_OF_MAN = $$($(MAIN) --version | cut -d ' ' -f 2)
DATE_OF_MAN = $$(date -u -d "@$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || date +%s)}" +%F)

$(GENERATE): $(patsubst %.c,$(BUILD)/%.o,$(wildcard docs/generator/*.c)) $(LIB)
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CC) $(BASE_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

docs: $(GENERATE)
	@mkdir -p docs/reference
	$(GENERATE) markdown docs/reference

$(MAN): $(GENERATE) $(MAIN)
	$(if $(V),,@echo "  MAN  $(@D)")
	@rm -rf $(@D) && mkdir -p $(@D)
	$(Q)$(GENERATE) man $(@D) "$(VERSION_OF_MAN)" "$(DATE_OF_MAN)"

# ---- the CUDA plugin ----
# Machine code for compute capability 8.0 (and 8.6, 8.9) and 9.0, and PTX that a newer GPU's driver compiles. The CUDA
# runtime is linked in, cuBLASLt is found next to the plugin or where the system has it. The flags are in a file of their
# own because tests/gpu/build.sh compiles the plugin where there is no make; some Toolkits keep CUPTI's headers apart. Of
# the C++ library the few functions that nvcc's launch code calls are linked in, too.
NVCC_FLAGS := --options-file kernels/nvcc.flags -I$(dir $(NVCC))../extras/CUPTI/include -Werror all-warnings
PLUGIN_BASE := core/base/arena.c core/base/err.c core/base/file.c core/base/text.c kernels/device/chip.c kernels/device/occupancy.c kernels/device/world.c
PLUGIN_OBJ := $(CUDA_SRC:%.cu=$(BUILD)/cuda/%.o) $(PLUGIN_BASE:%.c=$(BUILD)/cuda/%.o)

$(BUILD)/cuda/%.o: %.cu kernels/nvcc.flags
	@mkdir -p $(@D)
	$(if $(V),,@echo "  NVCC $<")
	$(Q)$(NVCC) $(NVCC_FLAGS) -MMD -MP -c $< -o $@

$(BUILD)/cuda/%.o: %.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC   $< (plugin)")
	$(Q)$(CC) $(filter-out $(SAN_FLAGS),$(BASE_CFLAGS)) -fPIC -fvisibility=hidden -c $< -o $@

$(PLUGIN): $(PLUGIN_OBJ)
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(NVCC) -shared -cudart static -Xcompiler -static-libstdc++ -Xlinker --exclude-libs,ALL -o $@ $^ -lcublasLt \
	  -Xlinker -rpath,'$$ORIGIN',-rpath,$(dir $(NVCC))../lib64,-rpath,/usr/local/cuda/lib64

# The PTX of the kernels, from which nvcc goes on to machine code, for the tests that run it: see `make ptx`.
PTX_KERNELS := $(shell grep -l __global__ $(CUDA_SRC))
PTX_TARGETS := $(shell grep -o 'compute_[0-9a-z]*,' kernels/nvcc.flags | tr -d ,)
PTX := $(foreach target,$(PTX_TARGETS),$(PTX_KERNELS:%.cu=$(BUILD)/ptx/$(target)/%.ptx))
define PTX_RULE
$(BUILD)/ptx/$(1)/%.ptx: %.cu kernels/nvcc.flags
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo "  NVCC $$< ($(1))")
	$$(Q)$$(NVCC) $(shell sed '/-gencode/d; /-Xcompiler/d; s/-lineinfo//' kernels/nvcc.flags) -arch=$(1) -MMD -MP -ptx -o $$@ $$<
endef
$(foreach target,$(PTX_TARGETS),$(eval $(call PTX_RULE,$(target))))

# ---- tests ----
# An archive, so that a test has only what it uses of it, and of the program.
TEST_HELP := $(BUILD)/tests/libhelp.a
$(TEST_HELP): $(TEST_HELP_OBJ) $(EMULATED:%=$(BUILD)/kernels/cpu_%.o)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(BUILD)/sim/%.o: %.cu
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CXX  $< (simulator)")
	$(Q)$(SIM_CXX) -x c++ $(SIM_CXXFLAGS) $(if $(shell grep -l __global__ $<),$(SIM_RACES)) -c $< -o $@

$(BUILD)/tests/cuda_sim/planted.o: CXXFLAGS += $(SIM_RACES)
$(BUILD)/%.o: %.cc
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CXX  $<")
	$(Q)$(SIM_CXX) $(SIM_CXXFLAGS) -c $< -o $@

# The plugin as the simulator runs it: what the real binary opens in the tests of --device cuda.
$(SIM_PLUGIN): $(SIM_OBJ) $(PLUGIN_BASE:%.c=$(BUILD)/cuda/%.o)
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(SIM_CXX) $(CXXFLAGS) $(SAN_FLAGS) -shared -pthread -o $@ $^ -lboost_context -lopenblas

# What the stand-ins for NVIDIA's libraries call.
SIM_EXPORTS := -Wl,--export-dynamic-symbol=sim_queue_exchange,--export-dynamic-symbol=sim_queue_work
$(SIM_TESTS): $(SIM_PLUGIN)
$(SIM_TESTS): LIBS += -lopenblas
$(SIM_TESTS): $(BUILD)/tests/cuda_sim/%: $(BUILD)/tests/cuda_sim/%.o $(TEST_HELP) $(SIM_OBJ) $(LIB)
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(SIM_CXX) $(CXXFLAGS) $(SAN_FLAGS) -fopenmp -pthread $(LDFLAGS) -o $@ $(filter-out %.so,$^) -lcmocka -lvterm -lutil -lboost_context $(LIBS) \
	  $(SIM_EXPORTS)

# Under the name of NVIDIA's library, for the tests of several ranks on GPUs.
NCCL_STAND_IN := $(BUILD)/tests/cuda_sim/stand_in/libnccl.so.2
$(NCCL_STAND_IN): tests/cuda_sim/stand_in/nccl.cc kernels/device/nccl.h tests/cuda_sim/simulator.h
	@mkdir -p $(@D)
	$(Q)$(SIM_CXX) $(filter-out -MMD -MP,$(SIM_CXXFLAGS)) -shared -Wl,-soname,libnccl.so.2 -o $@ $<
$(BUILD)/tests/cuda_sim/test_ranks_cuda $(BUILD)/tests/cuda_sim/test_gpu_check: | $(NCCL_STAND_IN)

# Under the name of NVIDIA's library, for the tests of attention by cuDNN; and for those that compile by the real one, of its
# driver. Both are in folders of their own, where no other test looks.
CUDNN_STAND_IN := $(BUILD)/tests/cuda_sim/stand_in/cudnn/libcudnn.so.9
$(CUDNN_STAND_IN): tests/cuda_sim/stand_in/cudnn.cc kernels/device/cudnn.h tests/cuda_sim/simulator.h
	@mkdir -p $(@D)
	$(Q)$(SIM_CXX) $(filter-out -MMD -MP,$(SIM_CXXFLAGS)) -shared -Wl,-soname,libcudnn.so.9 -o $@ $<
$(BUILD)/tests/cuda_sim/test_attention_cudnn: | $(CUDNN_STAND_IN)
DRIVER_STAND_IN := $(BUILD)/tests/cuda_sim/stand_in/driver/libcuda.so.1
$(DRIVER_STAND_IN): tests/cuda_sim/stand_in/driver.cc
	@mkdir -p $(@D)
	$(Q)$(SIM_CXX) $(filter-out -MMD -MP,$(SIM_CXXFLAGS)) -shared -Wl,-soname,libcuda.so.1 -o $@ $<
$(BUILD)/tests/cuda_sim/test_cudnn_absent: | $(DRIVER_STAND_IN)

# Under the name of NVIDIA's library, for the tests of device metrics: of a driver of today, and of an old one.
NVML_STAND_IN := $(BUILD)/tests/kernels/stand_in/libnvidia-ml.so.1 $(BUILD)/tests/kernels/stand_in/old/libnvidia-ml.so.1
$(NVML_STAND_IN): tests/kernels/stand_in/nvml.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out $(SAN_FLAGS),$(BASE_CFLAGS)) $(if $(findstring /old/,$@),-DOLD_DRIVER) \
	  -fPIC -shared -Wl,-soname,libnvidia-ml.so.1 -o $@ $<
$(BUILD)/tests/kernels/test_gauge $(BUILD)/tests/tui/command/test_metrics $(BUILD)/tests/cuda_sim/test_gpu_metrics: | $(NVML_STAND_IN)
PLUGIN_STAND_IN := $(BUILD)/tests/kernels/stand_in/anneal_cuda.so
$(PLUGIN_STAND_IN): tests/kernels/stand_in/plugin.c $(wildcard kernels/*.def kernels/*.h kernels/device/*.h)
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out $(SAN_FLAGS) -MMD -MP,$(BASE_CFLAGS)) -fPIC -shared -o $@ $<
$(BUILD)/tests/kernels/test_cuda_plugin $(BUILD)/tests/tui/command/test_first_use: | $(PLUGIN_STAND_IN)
STAND_INS := $(BUILD)/tests/runs/stand_in
$(STAND_INS)/%.so: tests/runs/stand_in/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out $(SAN_FLAGS) -fopenmp -MMD -MP,$(BASE_CFLAGS)) -fPIC -shared -o $@ $< -ldl
$(BUILD)/tests/tui/command/test_shared_home: | $(STAND_INS)/mounts.so
$(BUILD)/tests/tui/command/test_sweep: | $(STAND_INS)/processes.so
$(BUILD)/tests/tui/command/test_faults: | $(if $(SAN),,$(STAND_INS)/memory.so)
# NVIDIA's headers, where the toolkit has them, are only compared with.
$(BUILD)/tests/kernels/test_cudnn.o $(BUILD)/tests/kernels/test_nccl.o $(BUILD)/tests/kernels/test_nvml.o $(BUILD)/tests/kernels/test_occupancy.o: BASE_CFLAGS += $(if $(NVCC),-idirafter $(dir $(NVCC))../include)

$(BUILD)/tests/bench/bench_gemm: LIBS += -lopenblas
$(BUILD)/tests/bench/%: $(BUILD)/tests/bench/%.o $(LIB)
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CC) $(BASE_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(TEST_HELP) $(LIB)
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CC) $(BASE_CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka -lvterm -lutil $(LIBS)

# Needs nvcc and cuobjdump, and no GPU.
static: $(if $(NVCC),$(PLUGIN))
	@tests/kernels/test_machine_code.sh $(PLUGIN)

# Tests of the kernels, on what nvcc makes of them instead of their source. Needs nvcc and no GPU, and takes a quarter of
# an hour.
PTX_TESTS := ops attention_bf16 attention_cudnn cache far gemm slices steps training
ptx: $(if $(NVCC),$(PTX) $(PTX_TESTS:%=$(BUILD)/tests/cuda_sim/test_%)) | $(MAIN)
	@$(if $(NVCC),,echo "make ptx: nvcc is not on PATH (install NVIDIA's CUDA Toolkit)" >&2; exit 2)
	@tests/cuda_sim/ptx.sh $(BUILD) $(PTX_TESTS:%=cuda_sim/test_%)

# Built by the script that also builds it where there is no make, around the plugin of this Makefile.
gpu-check: $(if $(NVCC),$(PLUGIN))
	@export ANNEAL_CUDA_PLUGIN=$${ANNEAL_CUDA_PLUGIN:-$(PLUGIN)} && CC=$(CC) tests/gpu/build.sh build/gpu && build/gpu/report.sh build/gpu-report.txt

# Bugs in kernels, planted one at a time: which test finds each? Takes half an hour.
planted: $(SIM_TESTS) $(MAIN) $(MPI_PLUGIN)
	@COMPILE='$(SIM_CXX) -x c++ $(filter-out -MMD -MP,$(SIM_CXXFLAGS))' RACES='$(SIM_RACES)' SIM_OBJ='$(SIM_OBJ)' \
	  PLUGIN_BASE='$(PLUGIN_BASE:%.c=$(BUILD)/cuda/%.o)' OTHER='$(TEST_HELP) $(LIB)' \
	  LINK='$(SIM_CXX) $(CXXFLAGS) $(SAN_FLAGS) -fopenmp -pthread $(LDFLAGS) $(SIM_EXPORTS)' \
	  LIBRARIES='-lcmocka -lvterm -lutil -lboost_context $(LIBS) -lopenblas' tests/cuda_sim/plant.sh $(BUILD) $(BUGS)

# Small bugs at N places of FILES (default: the changed files), drawn with SEED: which do the tests find?
mutate: test-deps
	$(call install_packages,clang libomp-dev python3 util-linux)
	@SOURCES='$(filter-out core/base/preload/%,$(SRC)) $(KERNEL_SRC) $(MPI_SOURCES) tui/main.c $(CUDA_SRC) $(wildcard kernels/*.cuh kernels/device/*.cuh)' \
	  BUILD=$(BUILD) CUDA_FLAGS='-x c++ $(filter-out -MMD -MP -Werror,$(SIM_CXXFLAGS))' \
	  FLAGS='$(filter-out -MMD -MP,$(BASE_CFLAGS)) $(if $(MPICC),$(addprefix -idirafter ,$(shell $(MPICC) --showme:incdirs)))' BUILDER='$(MAKE_COMMAND) CC=$(CC) CUDA=0 MPI=$(MPI)' \
	  python3 tests/mutate/mutate.py $(FILES)

test: test-deps
	@$(MAKE) --no-print-directory run-tests

# Before a release: the tests of endurance, crashes, power cuts and faults run longer, and then the parsers are fuzzed.
test-long: test-deps
	@LONG=1 $(MAKE) --no-print-directory run-tests
	@$(MAKE) --no-print-directory fuzz

# Under ThreadSanitizer the programs whose threads are ours: ring, recorder and its ledger, batches cut ahead,
# checkpoints written during training, metrics, and whole commands. Left out are the simulator of CUDA, one thread whose
# fibers (Boost.Context) the sanitizer would take for threads, and what has no thread but OpenMP's, whose library is not
# instrumented: tests/run.sh gives every team one thread.
THREADED := core/base/test_base core/checkpoint/test_saves core/train/test_step_loop \
            core/train/test_trainer core/train/test_resume datasets/test_prefetch kernels/test_gauge runs/test_crash \
            runs/test_failing_store runs/reservations/test_ledger runs/test_writer tui/command/test_memory_share \
            tui/command/test_steering tui/command/test_train
tests: $(MAIN) $(HEAP_COUNTER) $(MPI_PLUGIN) $(if $(NVCC),$(if $(SAN),,$(PLUGIN))) $(if $(TSAN),$(THREADED:%=$(BUILD)/tests/%),$(TESTS))
run-tests: tests
	@tests/run.sh $(BUILD)

# Every parser of foreign data, for FUZZ_SECONDS in total, with libFuzzer, which comes with clang.
# `tests/fuzz/run.sh build-fuzz/fuzz/fuzz 60 NAME` then tries one alone. No parser needs the kernels.
FUZZ_SECONDS ?= 600
fuzz: test-deps
	$(call install_packages,clang libclang-rt-dev libomp-dev)
	@$(MAKE) --no-print-directory BUILD=build-fuzz CC=clang SAN=1 FUZZ=1 CUDA=0 MPI=0 build-fuzz/fuzz/fuzz
	@tests/fuzz/run.sh build-fuzz/fuzz/fuzz $(FUZZ_SECONDS)

$(BUILD)/fuzz/parsers.a: $(filter $(BUILD)/core/% $(BUILD)/datasets/% $(BUILD)/runs/%,$(OBJ))
	@mkdir -p $(@D)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(BUILD)/fuzz/fuzz: $(BUILD)/tests/fuzz/fuzz.o $(BUILD)/tests/fuzz/parsers.o $(BUILD)/tests/fuzz/rows.o $(BUILD)/fuzz/parsers.a
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CC) $(BASE_CFLAGS) -fsanitize=fuzzer $(LDFLAGS) -o $@ $^ $(LIBS)

# Also where a test fails: it is the tests that are measured.
coverage: test-deps
	$(call install_packages,gcovr)
	@find build-coverage -name '*.gcda' -delete 2>/dev/null || true
	@$(MAKE) --no-print-directory COVERAGE=1 CUDA=0 run-tests || echo "make: some tests failed; the coverage counts what ran" >&2
	@tests/coverage.sh build-coverage

check: test-deps $(MAIN) $(GENERATE) $(MAN)
	@tests/check.sh

# ---- packages ----
# $(call install_packages,LIST): says what is missing, then installs it through apt. Where there is no apt, the
# compiler and the linker will say what they miss.
define install_packages
	@command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || { \
	  echo "No apt here: install the libraries that these Debian packages hold: $(1)"; exit 0; }; \
	missing=; for p in $(1); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then \
	  echo "Installing with apt:$$missing"; \
	  if [ "$$(id -u)" = 0 ]; then sudo=; elif command -v sudo >/dev/null; then sudo=sudo; else \
	    echo "make: these packages are missing and neither root nor sudo is at hand: apt-get install$$missing" >&2; exit 1; fi; \
	  $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends $$missing >/dev/null || exit 1; \
	fi
endef

deps:
	$(call install_packages,$(PACKAGES))
	@if [ "$(CUDA)" != 0 ] && [ -z "$(NVCC)" ]; then \
	  if [ "$(CUDA)" = 1 ]; then echo "make: CUDA=1, but nvcc is not on PATH (install NVIDIA's CUDA Toolkit)" >&2; exit 1; fi; \
	  echo "nvcc not found: building for the CPU only (NVIDIA's CUDA Toolkit adds GPU training)"; fi

test-deps: deps
	$(call install_packages,$(TEST_PACKAGES))

# ---- using it ----
# On a terminal: trains in the background and shows the workbench. Elsewhere: the same run with plain progress, then
# its CSV. Ctrl-C is a way to leave, not an error of make.
demo: deps
	@$(MAKE) -s --no-print-directory $(MAIN)
	@$(MAIN) demo || [ $$? -eq 130 ]
	@{ [ -t 0 ] && [ -t 1 ]; } || { $(MAIN) export demo --table all -o $(BUILD)/demo-csv && \
	  echo "The run as CSV: $(BUILD)/demo-csv"; }

# Trains in the foreground, for some half an hour on two cores: the model of the verses, and two classifiers from it.
demo-classify: deps
	@$(MAKE) -s --no-print-directory $(MAIN)
	@docs/examples/classify_kjv.sh $(MAIN)

bench: $(MAIN) $(BENCHES)
	@tests/bench/run.sh $(BUILD) $(PARTS)

# The same program, linked to find its libraries in the bundle, also those of its libraries (hence no new dtags).
BUNDLE_MAIN := $(BUILD)/bundle/anneal
$(BUNDLE_MAIN): $(BUILD)/tui/main.o $(LIB)
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CC) $(BASE_CFLAGS) $(LDFLAGS) -o $@ $^ $(filter-out -Wl$(comma)-rpath%,$(LIBS)) -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../lib'

bundle: $(BUNDLE_MAIN) $(HEAP_COUNTER) $(MAN) $(MPI_PLUGIN) $(if $(NVCC),$(PLUGIN))
	$(if $(NVCC),@ANNEAL_CUDA_PLUGIN=$(PLUGIN) CC=$(CC) tests/gpu/build.sh build/gpu)
	@packaging/bundle.sh $(BUNDLE_MAIN) $(HEAP_COUNTER) "$(if $(NVCC),$(PLUGIN))" "$(MPI_PLUGIN)" $(BUILD)

release:
	@MAKE="$(MAKE)" packaging/release.sh $(BUILD)

# Libraries go where the binary looks for them: see file_of_program.
INSTALLED_LIBS := $(HEAP_COUNTER) $(MPI_PLUGIN) $(if $(NVCC),$(if $(SAN),,$(PLUGIN)))
INSTALLED_DOCS = $(wildcard README.md CHANGELOG.md CONTRIBUTING.md HACKING.md LICENSE docs/*.md docs/images/*.svg docs/reference/*.md)
ZSH_FUNCTIONS ?= $(PREFIX)/share/zsh/site-functions
install: $(MAIN) $(INSTALLED_LIBS) $(MAN)
	install -D -m 755 $(MAIN) "$(DESTDIR)$(PREFIX)/bin/anneal"
	$(if $(INSTALLED_LIBS),install -D -m 644 -t "$(DESTDIR)$(PREFIX)/lib/anneal" $(INSTALLED_LIBS))
	install -D -m 644 -t "$(DESTDIR)$(PREFIX)/share/man/man1" $(BUILD)/man/*.1
	install -D -m 644 -t "$(DESTDIR)$(PREFIX)/share/man/man5" $(BUILD)/man/*.5
	install -D -m 644 packaging/completion/anneal.bash "$(DESTDIR)$(PREFIX)/share/bash-completion/completions/anneal"
	install -D -m 644 packaging/completion/anneal.fish "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/anneal.fish"
	install -D -m 644 packaging/completion/_anneal "$(DESTDIR)$(ZSH_FUNCTIONS)/_anneal"
	for file in $(INSTALLED_DOCS); do install -D -m 644 "$$file" "$(DESTDIR)$(PREFIX)/share/doc/anneal/$$file" || exit 1; done

# Folders that are there for such files only are removed when they are empty; bin, lib, share and share/man stay.
uninstall:
	rm -f "$(DESTDIR)$(ZSH_FUNCTIONS)/_anneal"
	cd "$(DESTDIR)$(PREFIX)" 2>/dev/null || exit 0; \
	rm -rf bin/anneal lib/anneal/anneal_{cuda,heap,mpi}.so share/man/man1/anneal{,-*}.1 share/man/man5/anneal.ini.5 \
	  share/{bash-completion/completions/anneal,fish/vendor_completions.d/anneal.fish,doc/anneal}; \
	rmdir lib/anneal share/doc share/man/man{1,5} share/{bash-completion{/completions,},fish{/vendor_completions.d,}} \
	  share/zsh{/site-functions,} 2>/dev/null || :

clean:
	rm -rf build{,-san,-tsan}{,-debug}{,-coverage} build-mutate

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
