# The short commands. The build itself is CMake's; everything here is a line or two around it.
#
#   make deps      install the Debian packages that are missing (as root)
#   make build     configure and build into $(BUILD)
#   make demo      train LeNet on Fashion-MNIST, twice: without and with a memory budget
#   make demo-ranks  the same network with two ranks (mpirun), compared with one, bit for bit; needs an MPI
#   make demo-all  train on Fashion-MNIST, a text and a graph, about an hour; texts and graphs from NNC_DATA=folder; STEPS=20: a short try
#   make check     build and run all tests; SANITIZE=1 does so under AddressSanitizer and UBSan
#   make check-python  the tests of the Python package; PYTHON=... is one that has torch, torchvision, timm, transformers and pytest
#   make format    give all C the style of .clang-format
#   make fuzz      random input for all that reads files, 10 CPU-minutes for each reader (SECONDS=60: less); needs clang
#   make bench     time the models of bench/
#   make install   into PREFIX (default /usr/local), DESTDIR honoured

SANITIZE ?= 0
SECONDS ?= 600
ifeq ($(SANITIZE),1)
BUILD ?= build-asan
CONFIGURE = -DNNC_SANITIZE=ON
else
BUILD ?= build
endif
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
PYTHON ?= python3

all: build

deps:
	@tools/install-deps

configure: deps
	@cmake -G Ninja -S . -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(CONFIGURE)

build: configure
	@ninja -C $(BUILD) -j $(JOBS)

demo: build
	@BUILD=$(BUILD) tools/demo

demo-ranks: build
	@BUILD=$(BUILD) tools/demo-ranks

demo-all: build
	@BUILD=$(BUILD) tools/demo-all

check: build
	@cd $(BUILD) && ctest --output-on-failure -j $(JOBS)

check-python: build
	@PYTHONPATH=python NNC=$(abspath $(BUILD))/nnc $(PYTHON) -m pytest -q python/tests

format:
	@tools/format

fuzz:
	@NNC_FUZZ=1 tools/install-deps
	@BUILD=build-fuzz tools/fuzz $(SECONDS)

bench: build
	@BUILD=$(BUILD) bench/run

install: build
	@cmake --install $(BUILD)

clean:
	@rm -rf build build-asan build-fuzz

.PHONY: all deps configure build demo demo-ranks demo-all check check-python format fuzz bench install clean
