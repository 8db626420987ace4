# How lit finds and runs the tests. A test is a file with RUN lines; .nn files without any are inputs of other tests.
# Substitutions: %nnc %nnc_opt %nnc_plan (the tools), %unit (the folder of test programs), %python, %cmake, %build_dir, %source_dir (the repository), and lit's own %s %t %S %T.
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
from lit_format import ShTestsWithRunLines

config.name = "nnc"
config.test_format = ShTestsWithRunLines(execute_external=True)
config.suffixes = [".mlir", ".test", ".nn"]
config.test_source_root = os.path.dirname(os.path.abspath(__file__))
config.test_exec_root = os.path.join(config.build_dir, "test", "lit")
config.excludes = ["goldens", "Inputs"]

config.environment["PATH"] = os.pathsep.join([config.build_dir, config.llvm_bin_dir, os.environ.get("PATH", "")])
for name in ("HOME", "TMPDIR", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "OMP_NUM_THREADS", "LD_LIBRARY_PATH", "NNC_DATA"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
if config.sanitize:
    config.available_features.add("sanitize")
if os.geteuid() == 0:
    config.available_features.add("root")

tools = config.build_dir
config.substitutions += [
    (r"%nnc\b", os.path.join(tools, "nnc")),
    (r"%nnc_opt\b", os.path.join(tools, "nnc-opt")),
    (r"%nnc_plan\b", os.path.join(tools, "nnc-plan")),
    (r"%unit\b", os.path.join(tools, "unit-tests")),
    (r"%python\b", config.python),
    (r"%cmake\b", config.cmake),
    (r"%build_dir\b", config.build_dir),
    (r"%source_dir\b", os.path.dirname(config.test_source_root)),
]
