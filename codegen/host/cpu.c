// Processors by name and the vector width the kernels are written for.
#include <stdlib.h>
#include <string.h>

#include "codegen/host/host.h"
#include "support/alloc.h"
#include "llvm-c/Core.h"
#include "llvm-c/TargetMachine.h"

typedef struct CpuRow {
  const char *name;
  int vector_bytes;
} CpuRow;

// AVX-512 means F, BW, DQ and VL here. Names LLVM knows but this table does not are refused: LLVM would ignore them
// with a warning.
static const CpuRow cpus[] = {
    {"x86-64", 16},         {"x86-64-v2", 16},      {"x86-64-v3", 32},   {"x86-64-v4", 64},  {"nehalem", 16},
    {"westmere", 16},       {"sandybridge", 16},    {"ivybridge", 16},   {"haswell", 32},    {"broadwell", 32},
    {"skylake", 32},        {"skylake-avx512", 64}, {"cascadelake", 64}, {"cooperlake", 64}, {"cannonlake", 64},
    {"icelake-client", 64}, {"icelake-server", 64}, {"rocketlake", 64},  {"tigerlake", 64},  {"sapphirerapids", 64},
    {"emeraldrapids", 64},  {"graniterapids", 64},  {"alderlake", 32},   {"raptorlake", 32}, {"meteorlake", 32},
    {"arrowlake", 32},      {"lunarlake", 32},      {"gracemont", 32},   {"silvermont", 16}, {"goldmont", 16},
    {"tremont", 16},        {"znver1", 32},         {"znver2", 32},      {"znver3", 32},     {"znver4", 64},
    {"znver5", 64},
};

static bool has_feature(const char *features, const char *name) {
  size_t n = strlen(name);
  for (const char *p = features; (p = strstr(p, name)); p += n)
    if (p > features && p[-1] == '+' && (p[n] == ',' || !p[n])) return true;
  return false;
}

bool host_cpu_detect(const char *name, HostCpu *cpu) {
  *cpu = (HostCpu){0};
  if (name && strcmp(name, "native") != 0) {
    for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++)
      if (!strcmp(cpus[i].name, name)) {
        *cpu = (HostCpu){copy_string(name), copy_string(""), cpus[i].vector_bytes};
        return true;
      }
    return false;
  }
  char *host = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
  bool avx512 = has_feature(features, "avx512f") && has_feature(features, "avx512bw") &&
                has_feature(features, "avx512dq") && has_feature(features, "avx512vl");
  bool avx2 = has_feature(features, "avx2") && has_feature(features, "fma");
  *cpu = (HostCpu){copy_string(host), copy_string(features), avx512 ? 64 : avx2 ? 32 : 16};
  LLVMDisposeMessage(host);
  LLVMDisposeMessage(features);
  return true;
}

void host_cpu_free(HostCpu *cpu) {
  free(cpu->name);
  free(cpu->features);
  *cpu = (HostCpu){0};
}
