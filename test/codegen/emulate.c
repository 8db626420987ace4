// See emulate.h. MCJIT compiles the rewritten module; the emulator's functions are given to it by address.
#include "test/codegen/emulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/cuda/cuda.h"
#include "codegen/cuda/emulate/emulate.h"
#include "codegen/cuda/template/template.h"
#include "test/codegen/record.c"
#include "llvm-c/Analysis.h"
#include "llvm-c/ExecutionEngine.h"
#include "llvm-c/IRReader.h"
#include "llvm-c/Support.h"
#include "llvm-c/Target.h"
#include "llvm-c/TargetMachine.h"
#include "llvm-c/Transforms/PassBuilder.h"

struct Emulated {
  LLVMContextRef llvm;             // Owned
  LLVMExecutionEngineRef engine;   // Owned
  const NncEmuModule *module;
  Record *record;     // Owned; NULL: launches are not recorded
  Emulated *of_ptx;   // Owned; the same from the module's PTX, or NULL
};

static void die(const char *what, const char *detail) {
  printf("test: %s: %s\n", what, detail);
  exit(1);
}

static char *read_text(const char *path) {
  FILE *f = fopen(path, "r");
  if (!f) die("cannot read", path);
  char *text = NULL;
  size_t size = 0, n;
  char buf[4096];
  FILE *out = open_memstream(&text, &size);
  while ((n = fread(buf, 1, sizeof buf, f)) > 0) fwrite(buf, 1, n, out);
  fclose(out);
  fclose(f);
  return text;
}

char *emulate_read(const char *name) {
  char path[4096];
  snprintf(path, sizeof path, NNC_SOURCE_DIR "/test/codegen/Inputs/cuda/%s", name);
  return read_text(path);
}

char *emulate_edit(char *text, const char *from, const char *to) {
  const char *at = strstr(text, from);
  if (!at) die("not in the kernel", from);
  char *edited = NULL;
  if (asprintf(&edited, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) < 0) abort();
  free(text);
  return edited;
}

static LLVMModuleRef parse(const char *ir, LLVMContextRef llvm, char **error) {
  LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(ir, strlen(ir), "kernel.ll");
  LLVMModuleRef module = NULL;
  char *message = NULL;
  if (!LLVMParseIRInContext(llvm, buffer, &module, &message)) return module;
  if (error) *error = strdup(message);
  else printf("%s\n", message);
  LLVMDisposeMessage(message);
  return NULL;
}

static LLVMTargetMachineRef machine_create(const char *triple, const char *cpu, const char *features,
                                           LLVMCodeGenOptLevel level, LLVMCodeModel model) {
  char *message = NULL;
  LLVMTargetRef target;
  if (LLVMGetTargetFromTriple(triple, &target, &message)) die("no back end", message);
  return LLVMCreateTargetMachine(target, triple, cpu, features, level, LLVMRelocPIC, model);
}

static bool optimise(LLVMModuleRef module, LLVMTargetMachineRef machine, const char *passes) {
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef error = LLVMRunPasses(module, passes, machine, options);
  LLVMDisposePassBuilderOptions(options);
  if (!error) return true;
  char *message = LLVMGetErrorMessage(error);
  printf("%s\n", message);
  LLVMDisposeErrorMessage(message);
  return false;
}

// What the code generator calls for bf16 on processors without instructions for it: the emulator's own, which linked
// programs find by name.
extern float __truncsfbf2(float x), __truncdfbf2(double x);

static void bind_symbols(LLVMModuleRef module, LLVMExecutionEngineRef engine) {
  int n;
  LLVMAddSymbol("__truncsfbf2", (void *)(uintptr_t)__truncsfbf2);
  LLVMAddSymbol("__truncdfbf2", (void *)(uintptr_t)__truncdfbf2);
  const NncEmuSymbol *symbols = nnc_emu_symbols(&n);
  for (int i = 0; i < n; i++) {
    LLVMValueRef f = LLVMGetNamedFunction(module, symbols[i].symbol);
    if (f) LLVMAddGlobalMapping(engine, f, (void *)(uintptr_t)symbols[i].address);
  }
}

// For record.c; the text of a test's only module at a time is kept until the next.
static const char *recorded_ptx(void *module, const char *arch) {
  static char *ptx;
  free(ptx);
  char *ir = LLVMPrintModuleToString(module);
  ptx = emulate_ptx(ir, arch);
  LLVMDisposeMessage(ir);
  return ptx ? ptx : "";
}

static LLVMTargetMachineRef machine_for_host(LLVMCodeModel model) {
  char *triple = LLVMGetDefaultTargetTriple(), *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
  LLVMInitializeNativeTarget();
  LLVMInitializeNativeAsmPrinter();
  LLVMTargetMachineRef machine = machine_create(triple, cpu, features, LLVMCodeGenLevelNone, model);
  LLVMDisposeMessage(triple);
  LLVMDisposeMessage(cpu);
  LLVMDisposeMessage(features);
  return machine;
}

void emulate_library(LLVMModuleRef module, const char *folder, const char *name) {
  char object[4096], command[9000], *message = NULL;
  snprintf(object, sizeof object, "%s/%s.o", folder, name);
  LLVMTargetMachineRef machine = machine_for_host(LLVMCodeModelDefault);
  LLVMModuleRef copy = LLVMCloneModule(module);
  if (!cuda_emulate_module(copy, machine, "test_kernels", &message) ||
      !optimise(copy, machine, "function(early-cse,instcombine<no-verify-fixpoint>)") ||
      LLVMTargetMachineEmitToFile(machine, copy, object, LLVMObjectFile, &message))
    die("no object", message ? message : "");
  snprintf(command, sizeof command, "cc -shared -o '%.*s.so' '%s' && rm '%s'", (int)strlen(object) - 2, object, object,
           object);
  if (system(command) != 0) die("cannot link", object);
  LLVMDisposeModule(copy);
  LLVMDisposeTargetMachine(machine);
}

// With NNC_TEST_PTX_READER=test/ptx/read_ptx.py kernels also go through the NVPTX back end, and the reader makes IR of
// the PTX, whose results are what the test goes on with. Other bytes than the IR's are counted: the two back ends may
// fuse other products with sums.
static long ptx_launches, ptx_differences;

static void report_ptx(void) {
  printf("from PTX: %ld launches, %ld with other bytes\n", ptx_launches, ptx_differences);
}

static Emulated *take_module(LLVMModuleRef module, char **error);

static Emulated *through_ptx(LLVMModuleRef module, const char *reader) {
  char path[] = "/tmp/nnc-test-XXXXXX", command[4200];
  int fd = mkstemp(path);
  FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
  if (!f) die("cannot write", path);
  fputs(recorded_ptx(module, "sm_90a"), f);
  fclose(f);
  snprintf(command, sizeof command, "python3 '%s' %s -o %s.ll", reader, path, path);
  if (system(command) != 0) die("the reader of PTX fails", path);
  snprintf(command, sizeof command, "%s.ll", path);
  char *ir = read_text(command);
  unlink(path);
  unlink(command);
  LLVMContextRef llvm = LLVMContextCreate();
  LLVMModuleRef read = parse(ir, llvm, NULL);
  free(ir);
  if (!read) die("what the reader of PTX makes is no IR", path);
  static bool reports;
  if (!reports) reports = atexit(report_ptx) == 0;
  return take_module(read, NULL);
}

// Runs the same from PTX, which leaves its results, after that from IR has left its own: buffers are as they were
// before it.
static EmuFault run_ptx(const Emulated *e, const char *kernel, const EmulateLaunch *launch, char **before,
                        EmuFault of_ir, char *message, int size) {
  char *results[128] = {0};
  for (int i = 0; i < launch->n; i++) {
    uint64_t bytes = launch->arguments[i].bytes;
    if (!bytes) continue;
    results[i] = memcpy(malloc(bytes), launch->arguments[i].data, bytes);
  }
  for (int i = 0; i < launch->n; i++)   // behind the loop above: two may be one
    if (results[i]) memcpy(launch->arguments[i].data, before[i], launch->arguments[i].bytes);
  EmulateLaunch again = *launch;
  again.traffic = NULL;
  EmuFault fault = emulate_run(e->of_ptx, kernel, &again, message, size);
  ptx_launches++;
  bool same = fault == of_ir;
  for (int i = 0; i < launch->n; i++) {
    const EmulateArgument *a = &launch->arguments[i];
    uint64_t at = 0;
    while (results[i] && fault == EMU_OK && at < a->bytes && results[i][at] == ((char *)a->data)[at]) at++;
    if (results[i] && fault == EMU_OK && at < a->bytes) {
      if (getenv("NNC_TEST_TABLE"))
        printf("kernel '%s': other bytes from PTX, at %llu of '%s'\n", kernel, (unsigned long long)at, a->name);
      same = false;
    }
    free(results[i]);
  }
  if (fault != of_ir) printf("kernel '%s': fault %d from PTX, %d from IR\n", kernel, (int)fault, (int)of_ir);
  ptx_differences += !same;
  return fault;
}

static Emulated *take_module(LLVMModuleRef module, char **error) {
  LLVMLinkInMCJIT();
  Emulated *e = calloc(1, sizeof *e);
  char name[256], *message = NULL;
  e->record = record_new(recorded_ptx, module, name, sizeof name);
  if (e->record && getenv("NNC_TEST_RECORD_EMULATED")) emulate_library(module, getenv("NNC_TEST_RECORD"), name);
  e->llvm = LLVMGetModuleContext(module);
  LLVMTargetMachineRef machine = machine_for_host(LLVMCodeModelJITDefault);
  bool ok = cuda_emulate_module(module, machine, "test_kernels", &message);
  if (!ok && error) *error = message;
  else if (!ok) printf("%s\n", message);
  if (!ok && !error) free(message);
  message = NULL;
  ok = ok && optimise(module, machine, "function(early-cse,instcombine<no-verify-fixpoint>)");
  if (getenv("NNC_TEST_DUMP")) LLVMDumpModule(module);
  struct LLVMMCJITCompilerOptions options;
  LLVMInitializeMCJITCompilerOptions(&options, sizeof options);
  options.OptLevel = 0;
  if (ok && LLVMCreateMCJITCompilerForModule(&e->engine, module, &options, sizeof options, &message))
    die("no just-in-time compiler", message);
  if (ok) {
    bind_symbols(module, e->engine);
    e->module = (const NncEmuModule *)(uintptr_t)LLVMGetGlobalValueAddress(e->engine, "test_kernels");
  } else {
    LLVMDisposeModule(module);
  }
  LLVMDisposeTargetMachine(machine);
  if (ok) return e;
  emulate_free(e);
  return NULL;
}

Emulated *emulate_take_module(LLVMModuleRef module, char **error) {
  const char *reader = getenv("NNC_TEST_PTX_READER");
  Emulated *of_ptx = reader ? through_ptx(module, reader) : NULL, *e = take_module(module, error);
  if (e) e->of_ptx = of_ptx;
  else emulate_free(of_ptx);
  return e;
}

Emulated *emulate_text(const char *ir, char **error) {
  LLVMContextRef llvm = LLVMContextCreate();
  LLVMModuleRef module = parse(ir, llvm, error);
  if (module) return emulate_take_module(module, error);
  LLVMContextDispose(llvm);
  return NULL;
}

void emulate_free(Emulated *e) {
  if (!e) return;
  emulate_free(e->of_ptx);
  record_free(e->record);
  if (e->engine) LLVMDisposeExecutionEngine(e->engine);
  LLVMContextDispose(e->llvm);
  free(e);
}

const NncEmuModule *emulate_module(const Emulated *e) { return e->module; }

const NncEmuKernel *emulate_kernel(const Emulated *e, const char *name) {
  for (int64_t i = 0; i < e->module->n_kernels; i++)
    if (!strcmp(e->module->kernels[i].name, name)) return &e->module->kernels[i];
  die("no such kernel", name);
  return NULL;
}

static int by_address(const void *a, const void *b) {
  uintptr_t x = ((const EmuRange *)a)->address, y = ((const EmuRange *)b)->address;
  return (x > y) - (x < y);
}

uint64_t emulate_order(void) {
  static uint64_t turn;
  uint64_t n = turn++;
  return n % 3 < 2 ? n % 3 : n;
}

EmuFault emulate_run(const Emulated *e, const char *kernel, const EmulateLaunch *launch, char *message, int size) {
  EmuRange ranges[128];
  void *arguments[128];
  EmuLaunch l = {.kernel = emulate_kernel(e, kernel),
                 .dynamic_bytes = launch->dynamic_bytes,
                 .arguments = arguments,
                 .ranges = ranges,
                 .threads = launch->threads,
                 .equal_stores = launch->equal_stores,
                 .aligned_shared = launch->aligned_shared,
                 .order = launch->order,
                 .traffic = launch->traffic};
  for (int i = 0; i < 3; i++) {
    l.grid[i] = launch->grid[i] ? launch->grid[i] : 1;
    l.block[i] = launch->block[i] ? launch->block[i] : 1;
  }
  for (int i = 0; i < launch->n; i++) {
    const EmulateArgument *a = &launch->arguments[i];
    arguments[i] = a->bytes ? (void *)(uintptr_t)&a->data : a->data;
    if (a->bytes) ranges[l.n_ranges++] = (EmuRange){.name = a->name, .address = (uintptr_t)a->data, .bytes = a->bytes};
  }
  qsort(ranges, (size_t)l.n_ranges, sizeof *ranges, by_address);
  int64_t *before = e->record ? record_before(e->record, l.kernel, launch) : NULL;
  char *buffers[128] = {0};
  for (int i = 0; e->of_ptx && i < launch->n; i++)
    if (launch->arguments[i].bytes)
      buffers[i] = memcpy(malloc(launch->arguments[i].bytes), launch->arguments[i].data, launch->arguments[i].bytes);
  EmuFault fault = emu_launch(&l, message, size);
  if (e->record && fault == EMU_OK) record_after(e->record, l.kernel, launch, before);
  free(before);
  if (e->of_ptx) fault = run_ptx(e, kernel, launch, buffers, fault, message, size);
  for (int i = 0; i < launch->n; i++) free(buffers[i]);
  return fault;
}

// ---------------------------------------------------------------------------------------------------------------------

// Templates of attention are optimised by other passes than all else.
static bool is_attention(LLVMModuleRef module) {
  for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
    size_t n;
    const char *name = LLVMGetValueName2(f, &n);
    if (!LLVMIsDeclaration(f) && (strstr(name, "attention") || strstr(name, "backward_q"))) return true;
  }
  return false;
}

char *emulate_ptx(const char *ir, const char *arch) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  LLVMContextRef llvm = LLVMContextCreate();
  LLVMModuleRef module = parse(ir, llvm, NULL);
  char *ptx = NULL, *message = NULL;
  if (module) {
    LLVMTargetMachineRef machine = machine_create("nvptx64-nvidia-cuda", arch,
                                                  !strcmp(arch, "sm_80") || !strcmp(arch, "sm_89") ? "+ptx78"
                                                                                                   : "+ptx87",
                                                  LLVMCodeGenLevelDefault, LLVMCodeModelDefault);
    LLVMSetTarget(module, "nvptx64-nvidia-cuda");
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetModuleDataLayout(module, layout);
    LLVMDisposeTargetData(layout);
    LLVMMemoryBufferRef buffer;
    if (cuda_optimise_templates(module, machine, is_attention(module))) {
      template_expand_assembly(module);
      if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMAssemblyFile, &message, &buffer)) {
        printf("%s\n", message);
        LLVMDisposeMessage(message);
      } else {
        ptx = strndup(LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer));
        LLVMDisposeMemoryBuffer(buffer);
      }
    }
    LLVMDisposeTargetMachine(machine);
    LLVMDisposeModule(module);
  }
  LLVMContextDispose(llvm);
  return ptx;
}

// Of a line like "Used 20 registers, 128 bytes smem": the number before `what`, 0 without one.
static int number_before(const char *line, const char *what) {
  const char *at = strstr(line, what);
  while (at && at > line && at[-1] >= '0' && at[-1] <= '9') at--;
  return at ? atoi(at) : 0;
}

int emulate_resources(const char *ptx, const char *arch, EmulateResources *out, int most) {
  if (system("command -v ptxas >/dev/null 2>&1") != 0) return -1;
  char path[] = "/tmp/nnc-test-XXXXXX", command[256], line[1024];
  int fd = mkstemp(path), n = 0;
  FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
  if (!f) die("cannot write", path);
  fputs(ptx, f);
  fclose(f);
  snprintf(command, sizeof command, "ptxas -arch=%s -v -o /dev/null %s 2>&1", arch, path);
  FILE *said = popen(command, "r");
  char *all = NULL;
  size_t size = 0;
  FILE *log = open_memstream(&all, &size);
  EmulateResources current = {0};
  while (said && fgets(line, sizeof line, said)) {
    const char *entry = strstr(line, "Compiling entry function '");
    if (entry) current = (EmulateResources){0};
    if (entry) sscanf(entry, "Compiling entry function '%255[^']", current.name);
    if (strstr(line, " bytes spill stores")) current.spills = number_before(line, " bytes spill stores");
    if (strstr(line, "Used ")) {
      current.registers = number_before(line, " registers");
      current.shared = number_before(line, " bytes smem");
      if (n == most) die("too many kernels", current.name);
      out[n++] = current;
    }
    fputs(line, log);
  }
  bool ok = said && pclose(said) == 0;
  fclose(log);
  ok = ok && !strstr(all, "serialized");   // products of warpgroups that wait for each other
  if (!ok) printf("%s", all);
  free(all);
  unlink(path);
  return ok ? n : 0;
}

bool emulate_assemble(const char *ptx, const char *arch, int *registers, int *spills) {
  EmulateResources kernels[64];
  int n = emulate_resources(ptx, arch, kernels, 64), most_registers = n < 0 ? -1 : 0, most_spills = most_registers;
  for (int i = 0; i < n; i++) {
    if (kernels[i].registers > most_registers) most_registers = kernels[i].registers;
    if (kernels[i].spills > most_spills) most_spills = kernels[i].spills;
  }
  if (registers) *registers = most_registers;
  if (spills) *spills = most_spills;
  return n != 0;
}

uint16_t emulate_to_bf16(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float emulate_from_bf16(uint16_t bits) {
  uint32_t u = (uint32_t)bits << 16;
  float x;
  memcpy(&x, &u, 4);
  return x;
}
