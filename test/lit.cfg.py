# How lit finds and runs the tests. A test is a file with RUN lines; .nn files without any are inputs of other tests.
# Substitutions: %nnc %nnc_opt %nnc_plan (the tools), %unit (the folder of test programs), %python, %mpirun (in tests that require mpi; of one MPI %mpirun_openmpi, %mpirun_mpich), %cuda (a CUDA toolkit with headers, in tests that require cuda-headers), %nccl (NCCL's folder, in tests that require nccl-headers), %unshare (a shell command of its own mounts), %cmake, %build_dir, %source_dir (the repository), and lit's own %s %t %S %T.
import ctypes
import gzip
import os
import shutil
import subprocess
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

# Real data sets, for the tests that take them: in the folder NNC_DATA.
if os.path.exists(os.path.join(os.environ.get("NNC_DATA", ""), "cora.safetensors")):
    config.available_features.add("cora")

config.environment["PATH"] = os.pathsep.join([os.path.join(config.test_source_root, "bin"), config.build_dir, config.llvm_bin_dir, os.environ.get("PATH", "")])
# Fashion-MNIST, which takes half a second to decompress in each of some hundred runs, decompressed once.
fashion_mnist, data = "/usr/share/datasets/fashion-mnist", os.path.join(config.build_dir, "test", "data")
if "NNC_DATA" not in os.environ and os.path.isdir(fashion_mnist):
    os.makedirs(data, exist_ok=True)
    for name in os.listdir(fashion_mnist):
        path = os.path.join(data, name)
        if not os.path.exists(path):
            with gzip.open(os.path.join(fashion_mnist, name)) as compressed, open(path + ".part", "wb") as out:
                shutil.copyfileobj(compressed, out)
            os.replace(path + ".part", path)
    config.environment["NNC_DATA"] = data
for name in ("HOME", "TMPDIR", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "LD_LIBRARY_PATH", "NNC_DATA"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
# Threads that wait for one another leave the processor to other tests; small programs would spend most of their time in turning around.
config.environment.setdefault("OMP_WAIT_POLICY", "passive")
if config.sanitize:
    config.available_features.add("sanitize")
    # An exit status of 1 would look like a diagnostic. Libraries that are loaded into programs of other people, and
    # those that stand in for the system's, come before the sanitizer.
    for name, options in (("ASAN_OPTIONS", "exitcode=99:verify_asan_link_order=0"), ("UBSAN_OPTIONS", "exitcode=99")):
        config.environment[name] = ":".join(filter(None, [options, os.environ.get(name)]))
ptxas = shutil.which("ptxas", path=config.environment["PATH"])
if ptxas:
    config.available_features.add("ptxas")
    if any(shutil.which(tool, path=config.environment["PATH"]) for tool in ("nvdisasm", "cuobjdump")):
        config.available_features.add("sass")
toolkits = [os.environ.get("CUDA_HOME"), "/usr/local/cuda", ptxas and os.path.dirname(os.path.dirname(os.path.realpath(ptxas)))]
config.cuda = next((t for t in toolkits if t and os.path.exists(os.path.join(t, "include", "cublas_v2.h"))), "")
if config.cuda and shutil.which("cc") and shutil.which("nm"):
    config.available_features.add("cuda-headers")
# NCCL with its header: of the toolkit, a package, or the wheel (its folder in NCCL_HOME).
config.nccl = next((t for t in [os.environ.get("NCCL_HOME"), config.cuda, "/usr/local/cuda", "/usr"] if t and os.path.exists(os.path.join(t, "include", "nccl.h"))), "")
if config.nccl and shutil.which("cc") and shutil.which("nm"):
    config.available_features.add("nccl-headers")
# Scripts of tests are run by the Python that runs lit, or by the one of PATH where that alone has numpy: what is found there may be a script that looks for
# an interpreter, at each of some thousand calls.
def has_numpy(python):
    return subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0
if has_numpy(sys.executable) or not has_numpy(config.python):
    config.python = sys.executable
if has_numpy(config.python):
    config.available_features.add("numpy")
if shutil.which("git"):
    config.available_features.add("git")
try:
    ctypes.CDLL("libcuda.so.1")
except OSError:
    config.available_features.add("no-cuda")
try:
    ctypes.CDLL("libnccl.so.2")
except OSError:
    config.available_features.add("no-nccl")
# Read-only and full file systems need a mount of their own: root's, or that of a user who may make namespaces.
config.unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
try:
    subprocess.run(config.unshare + ["mount", "-t", "tmpfs", "none", "/mnt"], check=True, capture_output=True, timeout=60)
    config.available_features.add("mount")
except (OSError, subprocess.SubprocessError):
    lit_config.note("no file systems can be mounted here: tests of read-only and full folders are left out")

# Distributed programs: the MPIs that nnc was built with. Not under the sanitizers, which find the leaks of the MPI.
config.mpiruns = {}
config.available_features.update(name for name in config.readers if name)
for name in ("openmpi", "mpich", "mpi"):
    starter = config.mpirun if name == config.mpi_name else shutil.which(f"mpirun.{name}", path=config.environment["PATH"])
    if not config.sanitize and starter and os.path.exists(starter) and os.path.exists(os.path.join(config.build_dir, f"libnncrt_{name}.a")):
        config.available_features.update([name, "mpi"])
        config.mpiruns[name] = starter

tools = config.build_dir
config.substitutions += [
    (r"%nnc\b", os.path.join(tools, "nnc")),
    (r"%nnc_opt\b", os.path.join(tools, "nnc-opt")),
    (r"%nnc_plan\b", os.path.join(tools, "nnc-plan")),
    (r"%unit\b", os.path.join(tools, "unit-tests")),
    (r"%python\b", config.python),
    (r"%unshare\b", " ".join(config.unshare)),
    (r"%mpirun_openmpi\b", config.mpiruns.get("openmpi", "")),
    (r"%mpirun_mpich\b", config.mpiruns.get("mpich", "")),
    (r"%mpirun\b", config.mpirun),
    (r"%cmake\b", config.cmake),
    (r"%cuda\b", config.cuda),
    (r"%nccl\b", config.nccl),
    (r"%build_dir\b", config.build_dir),
    (r"%source_dir\b", os.path.dirname(config.test_source_root)),
]
