// Faults planted in the kernels of test_emulate.c, each a mistake that a GPU lets pass until it does not: the emulator
// names every one.
#include <stdlib.h>
#include <string.h>

#include "test/check.h"
#include "test/codegen/emulate.c"

#define BARRIER "call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)"

static char message[4096];

static Emulated *compile(char *text) {
  Emulated *e = emulate_text(text, NULL);
  free(text);
  if (!e) exit(1);
  return e;
}

// The launch ends with this fault, and the message has these three parts.
static void expect(Emulated *e, const char *kernel, const EmulateLaunch *launch, EmuFault fault, const char *what,
                   const char *where, const char *instruction) {
  strcpy(message, "");
  EmuFault found = emulate_run(e, kernel, launch, message, sizeof message);
  CHECK(found == fault, "fault %d, expected %d: %s", (int)found, (int)fault, message);
  CHECK(strstr(message, what), "'%s' is not in: %s", what, message);
  CHECK(strstr(message, where), "'%s' is not in: %s", where, message);
  CHECK(strstr(message, instruction), "'%s' is not in: %s", instruction, message);
  emulate_free(e);
}

enum { N = 1000 };
static float x[N], out[N];
static int n = N, rows = 40, columns = 25;

static EmulateArgument sum_arguments[] = {{"x", x, sizeof x}, {"out", out, 16}, {"n", &n, 0}};
static const EmulateLaunch sum_launch = {.grid = {4}, .block = {128}, .n = 3, .arguments = sum_arguments};
static EmulateArgument transpose_arguments[] = {{"x", x, sizeof x},
                                                {"out", out, sizeof out},
                                                {"rows", &rows, 0},
                                                {"columns", &columns, 0}};
static const EmulateLaunch transpose_launch = {.grid = {1, 2},
                                               .block = {32, 8},
                                               .n = 4,
                                               .arguments = transpose_arguments};
static uint16_t a[256] __attribute__((aligned(16))), b[128] __attribute__((aligned(16)));
static float c[128];
static EmulateArgument mma_arguments[] = {{"a", a, sizeof a}, {"b", b, sizeof b}, {"c", c, sizeof c}};
static const EmulateLaunch mma_launch = {.block = {32}, .n = 3, .arguments = mma_arguments, .dynamic_bytes = 512};

static void test_missing_barrier(void) {
  // Fibers run in order, so the first thread reads before the other warps have written.
  Emulated *e = compile(emulate_edit(emulate_read("block_sum.ll"), BARRIER, ""));
  expect(e, "block_sum", &sum_launch, EMU_UNINITIALIZED,
         "kernel 'block_sum', block (0, 0, 0), thread (0, 0, 0): read of shared 'partial' + 4 (of 128 bytes), which "
         "was never written",
         "thread (0, 0, 0)", "%part = load float");
  // In the transpose the first rows are there already: warp 1 meets what warp 0 wrote.
  e = compile(emulate_edit(emulate_read("transpose.ll"), BARRIER, ""));
  expect(e, "transpose", &transpose_launch, EMU_UNINITIALIZED, "never written", "shared 'tile'", "%moved = load float");
}

static void test_read_write_race(void) {
  // The last warp reads all that the others wrote without meeting them: no value is wrong in the emulator's order, but
  // it is a race.
  char *text = emulate_edit(emulate_read("block_sum.ll"), BARRIER, "");
  text = emulate_edit(text, "%first.thread = icmp eq i32 %tid, 0", "%first.thread = icmp eq i32 %tid, 127");
  Emulated *e = compile(text);
  expect(e, "block_sum", &sum_launch, EMU_RACE,
         "race: read of shared 'partial' + 0 (of 128 bytes), which thread (0, 0, 0) wrote without a barrier in between",
         "thread (127, 0, 0)", "%part = load float");
}

static void test_write_write_race(void) {
  // All lanes have the sum of their parity's elements. What two of them store is a race, unless it is one value.
  char *text = emulate_edit(emulate_read("block_sum.ll"), "%leads = icmp eq i32 %lane, 0",
                            "%leads = icmp ult i32 %lane, 2");
  expect(compile(emulate_edit(strdup(text), "store float %a1", "store float %a2")), "block_sum", &sum_launch, EMU_RACE,
         "race: write of shared 'partial' + 0 (of 128 bytes), which thread (0, 0, 0) wrote another value to",
         "thread (1, 0, 0)", "store float %a2");
  // What replaces that value later, behind a barrier, is no race either.
  text = emulate_edit(text, "  br label %done\n\ndone:",
                      "  br label %done\n\ndone:\n  " BARRIER "\n"
                      "  %again = getelementptr [32 x float], ptr addrspace(3) @partial, i32 0, i32 3\n"
                      "  br i1 %first.thread, label %replace, label %end\n\nreplace:\n"
                      "  store float 0x3FB99999A0000000, ptr addrspace(3) %again, align 4\n  br label %end\n\nend:");
  expect(compile(text), "block_sum", &sum_launch, EMU_OK, "", "", "");
}

// Atomic accesses race with plain ones, whichever comes first.
static void test_atomic_race(void) {
#define COUNT "%old = atomicrmw add ptr addrspace(3) %bin.address, i32 1 monotonic"
#define PLAIN "store i32 7, ptr addrspace(3) %bin.address, align 4"
  static const char *const both[] = {COUNT "\n  " PLAIN, PLAIN "\n  " COUNT}, *const second[] = {COUNT, PLAIN};
  int values[256] = {0}, counts[8] = {0}, max = -1, tickets = 0, n_values = 256;
  float sum = 0;
  EmulateArgument arguments[] = {{"x", values, sizeof values},
                                 {"counts", counts, sizeof counts},
                                 {"sum", &sum, 4},
                                 {"max", &max, 4},
                                 {"tickets", &tickets, 4},
                                 {"n", &n_values, 0}};
  EmulateLaunch launch = {.block = {128}, .n = 6, .arguments = arguments};
  for (int i = 0; i < 2; i++)
    expect(compile(emulate_edit(emulate_read("atomics.ll"), COUNT, both[i])), "atomics", &launch, EMU_RACE, "race",
           "shared 'bins'", second[i]);
}

static void test_write_after_read_race(void) {
  // A second use of the tile without a barrier between the reads and the writes of the next round.
  char *text = emulate_edit(emulate_read("block_sum.ll"), "  br label %done\n\ndone:",
                            "  br label %done\n\ndone:\n  %again = getelementptr [32 x float], ptr addrspace(3) "
                            "@partial, i32 0, i32 %warp\n"
                            "  br i1 %leads, label %overwrite, label %end\n\noverwrite:\n  store float 0.0, ptr "
                            "addrspace(3) %again, align 4\n  br label %end\n\nend:");
  text = emulate_edit(text, "%first.thread = icmp eq i32 %tid, 0", "%first.thread = icmp eq i32 %tid, 127");
  Emulated *e = compile(text);
  expect(e, "block_sum", &sum_launch, EMU_RACE,
         "race: write of shared 'partial' + 12 (of 128 bytes), which thread (127, 0, 0) read without a barrier in "
         "between",
         "thread (96, 0, 0)", "store float 0.0");
}

// A read of 16 bytes of which the thread has read four: each four are known apart, in a block of as many threads as
// there can be.
static void test_wide_read_race(void) {
  static const char text[] = "@row = internal addrspace(3) global [4 x float] undef, align 16\n"
                             "define ptx_kernel void @wide(ptr addrspace(1) %out) {\n"
                             "  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
                             "  %fills = icmp eq i32 %tid, 0\n"
                             "  br i1 %fills, label %fill, label %filled\nfill:\n"
                             "  store <4 x float> zeroinitializer, ptr addrspace(3) @row, align 16\n"
                             "  br label %filled\nfilled:\n"
                             "  " BARRIER "\n"
                             "  %reads = icmp eq i32 %tid, 1023\n"
                             "  br i1 %reads, label %read, label %next\nread:\n"
                             "  %one = load float, ptr addrspace(3) @row, align 16\n"
                             "  %all = load <4 x float>, ptr addrspace(3) @row, align 16\n"
                             "  %last = extractelement <4 x float> %all, i32 3\n"
                             "  %sum = fadd float %one, %last\n"
                             "  store float %sum, ptr addrspace(1) %out, align 4\n"
                             "  br label %next\nnext:\n"
                             "  %writes = icmp eq i32 %tid, 1021\n"
                             "  br i1 %writes, label %write, label %end\nwrite:\n"
                             "  %fourth = getelementptr [4 x float], ptr addrspace(3) @row, i32 0, i32 3\n"
                             "  store float 1.0, ptr addrspace(3) %fourth, align 4\n"
                             "  br label %end\nend:\n  ret void\n}\n"
                             "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
                             "declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)\n";
  static EmulateArgument arguments[] = {{"out", out, sizeof out}};
  const EmulateLaunch launch = {.block = {1024}, .n = 1, .arguments = arguments};
  expect(compile(strdup(text)), "wide", &launch, EMU_RACE,
         "race: write of shared 'row' + 12 (of 16 bytes), which thread (1023, 0, 0) read without a barrier in between",
         "thread (1021, 0, 0)", "store float 1.0");
}

static void test_off_by_one(void) {
  Emulated *e = compile(
      emulate_edit(emulate_read("block_sum.ll"), "%inside = icmp slt i32 %i, %n", "%inside = icmp sle i32 %i, %n"));
  expect(e, "block_sum", &sum_launch, EMU_OUT_OF_BOUNDS,
         "out of bounds: read of 4 bytes in global memory at 'x' + 4000 (of 4000 bytes)", "block (3, 0, 0)",
         "%value = load float");
  // One column too few in the padded tile: the last element lies behind it.
  char *text = emulate_edit(emulate_read("transpose.ll"), "[32 x [33 x float]] undef", "[31 x [33 x float]] undef");
  expect(compile(text), "transpose", &transpose_launch, EMU_OUT_OF_BOUNDS,
         "out of bounds: write of 4 bytes at shared 'tile' + 4092 (of 4092 bytes)", "thread (0, 7, 0)",
         "store float %value");
  // The smallest block of dynamic memory that is too small.
  EmulateLaunch small = mma_launch;
  small.dynamic_bytes = 496;
  expect(compile(emulate_read("mma_bf16.ll")), "mma_bf16", &small, EMU_OUT_OF_BOUNDS,
         "out of bounds: write of 16 bytes at dynamic shared memory + 496 (of 496 bytes)", "thread (31, 0, 0)",
         "cp.async");
}

static void test_misaligned(void) {
  Emulated *e = compile(emulate_edit(emulate_read("mma_bf16.ll"), "%at = add i32 %row.at, %column",
                                     "%at.even = add i32 %row.at, %column\n  %at = add i32 %at.even, 1"));
  expect(e, "mma_bf16", &mma_launch, EMU_MISALIGNED,
         "misaligned: write of 8 bytes in global memory at 'c' + 228 needs an address that is a multiple of 8",
         "thread (28, 0, 0)", "store <2 x float> %pair");
  e = compile(emulate_edit(emulate_read("mma_bf16.ll"), "%a.half.byte = mul i32 %a.half, 16",
                           "%a.half.byte = mul i32 %a.half, 8"));
  expect(e, "mma_bf16", &mma_launch, EMU_MISALIGNED,
         "misaligned: read of 16 bytes at dynamic shared memory + 488 (of 512 bytes) needs an address that is a "
         "multiple of 16",
         "thread (31, 0, 0)", "ldmatrix");
}

static void test_divergent_barrier(void) {
  // Some threads leave before the barrier.
  Emulated *e = compile(emulate_edit(emulate_read("block_sum.ll"), "br i1 %leads, label %store.partial, label %meet",
                                     "br i1 %leads, label %store.partial, label %done"));
  expect(e, "block_sum", &sum_launch, EMU_DIVERGENCE,
         "divergent barrier: barrier 0 waits for 128 threads, 4 arrived; thread (1, 0, 0) has exited (124 have)",
         "thread (0, 0, 0)", "barrier.cta.sync");
  // Half of the block waits at another one.
  char *text = emulate_edit(emulate_read("block_sum.ll"), BARRIER,
                            "%upper = icmp ugt i32 %warp, 1\n  br i1 %upper, label %one, label %other\n\none:\n  call "
                            "void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 1)\n  br label %go\n\n"
                            "other:\n  " BARRIER "\n  br label %go\n\ngo:");
  expect(compile(text), "block_sum", &sum_launch, EMU_DIVERGENCE,
         "barrier 0 waits for 128 threads, 64 arrived; thread (64, 0, 0) waits elsewhere", "thread (0, 0, 0)",
         "(i32 1)");
  // Lanes of one warp at two places of the same barrier.
  text = emulate_edit(emulate_read("block_sum.ll"), BARRIER,
                      "br i1 %leads, label %one, label %other\n\none:\n  " BARRIER
                      "\n  br label %go\n\nother:\n  " BARRIER "\n  br label %go\n\ngo:");
  expect(compile(text), "block_sum", &sum_launch, EMU_DIVERGENCE,
         "other threads of the same warp reached barrier 0 at another instruction", "thread (1, 0, 0)",
         "barrier.cta.sync");
  // A shuffle that half of the warp does not reach.
  text = emulate_edit(emulate_read("block_sum.ll"), "reduce:\n",
                      "reduce:\n  %low = icmp ult i32 %tid, 100\n  br i1 %low, label %shuffles, label %gone\n\ngone:\n "
                      " ret void\n\nshuffles:\n");
  expect(compile(text), "block_sum", &sum_launch, EMU_DIVERGENCE,
         "divergent warp operation: thread (100, 0, 0), named in mask 0xffffffff, has exited", "thread (96, 0, 0)",
         "%s16 = call");
}

static void test_bad_lanes(void) {
  Emulated *e = compile(emulate_edit(emulate_read("block_sum.ll"), "(i32 -1, float %sum, i32 16, i32 31)",
                                     "(i32 65535, float %sum, i32 16, i32 31)"));
  expect(e, "block_sum", &sum_launch, EMU_BAD_LANES, "not in", "thread (", "%s16 = call");
}

static void test_missing_wait(void) {
  Emulated *e = compile(
      emulate_edit(emulate_read("mma_bf16.ll"), "call void @llvm.nvvm.cp.async.wait.group(i32 0)", ""));
  expect(e, "mma_bf16", &mma_launch, EMU_PENDING_COPY,
         "read of dynamic shared memory + 496 (of 512 bytes), to which thread 31 copies asynchronously: a wait for its "
         "group (cp.async.wait) is missing",
         "thread (31, 0, 0)", "ldmatrix");
  // A wait that leaves the only group in flight is no wait.
  e = compile(emulate_edit(emulate_read("mma_bf16.ll"), "wait.group(i32 0)", "wait.group(i32 1)"));
  expect(e, "mma_bf16", &mma_launch, EMU_PENDING_COPY, "wait", "thread (31, 0, 0)", "ldmatrix");
  // The wait is there, but what other threads copy needs the barrier too.
  e = compile(emulate_edit(emulate_read("mma_bf16.ll"), BARRIER, ""));
  expect(e, "mma_bf16", &mma_launch, EMU_UNINITIALIZED,
         "read of dynamic shared memory + 32 (of 512 bytes), which was never written", "thread (1, 0, 0)", "ldmatrix");
}

static void test_named_barriers(void) {
  // The producer does not wait until its buffer is read: no barrier orders the second round's writes behind the reads.
  int rounds = 5;
  EmulateArgument arguments[] = {{"out", out, sizeof out}, {"rounds", &rounds, 0}};
  EmulateLaunch launch = {.block = {64}, .n = 2, .arguments = arguments};
#define WAIT "call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 2, i32 64)"
  Emulated *e = compile(emulate_edit(emulate_read("named_barriers.ll"), WAIT, ""));
  expect(e, "named_barriers", &launch, EMU_DIVERGENCE,
         "arrives a second time at barrier 1, for which 1 of 64 threads are there", "thread (0, 0, 0)", "arrive");
  e = compile(emulate_edit(emulate_read("named_barriers.ll"), WAIT,
                           "call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 2, i32 32)"));
  expect(e, "named_barriers", &launch, EMU_DIVERGENCE, "barrier 1, for which", "thread (", "arrive");
  // It waits, but the consumer arrives before it has read.
#define ARRIVE "    call void @llvm.nvvm.barrier.cta.arrive.aligned.count(i32 2, i32 64)\n"
  char *text = emulate_edit(emulate_read("named_barriers.ll"),
                            "  call void @llvm.nvvm.barrier.cta.arrive.aligned.count(i32 2, i32 64)\n", "");
  text = emulate_edit(text, "  %found = load", ARRIVE "  %found = load");
  expect(compile(text), "named_barriers", &launch, EMU_RACE, "race: write of shared 'buffer'",
         "read without a barrier in between", "store i32 %value");
}

static void test_bad_launch(void) {
  EmulateLaunch launch = sum_launch;
  launch.block[0] = 1025;
  expect(compile(emulate_read("block_sum.ll")), "block_sum", &launch, EMU_BAD_LAUNCH, "a block of 1025 threads",
         "block_sum", "1024");
  launch = sum_launch;
  launch.dynamic_bytes = 300000;
  expect(compile(emulate_read("block_sum.ll")), "block_sum", &launch, EMU_BAD_LAUNCH, "300128 bytes of shared memory",
         "block_sum", "limit");
}

static void test_unsupported(void) {
  char *error = NULL;
  Emulated *e = emulate_text("define ptx_kernel void @k() {\n  call void @llvm.nvvm.barrier.cluster.arrive()\n  ret "
                             "void\n}\ndeclare void @llvm.nvvm.barrier.cluster.arrive()\n",
                             &error);
  CHECK(!e && error && strstr(error, "the emulator has no 'barrier.cluster.arrive'"), "%s", error ? error : "no error");
  free(error);
  error = NULL;
  e = emulate_text("define ptx_kernel void @k() {\n  call void asm sideeffect \"bar.sync 0;\", \"\"()\n  ret void\n}\n",
                   &error);
  CHECK(!e && error && strstr(error, "inline assembly"), "%s", error ? error : "no error");
  free(error);
}

int main(void) {
  for (int i = 0; i < N; i++) x[i] = (float)i;
  test_missing_barrier();
  test_read_write_race();
  test_write_write_race();
  test_atomic_race();
  test_write_after_read_race();
  test_wide_read_race();
  test_off_by_one();
  test_misaligned();
  test_divergent_barrier();
  test_bad_lanes();
  test_missing_wait();
  test_named_barriers();
  test_bad_launch();
  test_unsupported();
  return check_report();
}
