// Stacks for CUDA threads and the switch between them: own assembly on x86-64 (a dozen instructions; ucontext makes two
// system calls), ucontext elsewhere. AddressSanitizer is told about every switch.
#include "runtime/cuda/emulator/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

bool emu_stacks_map(EmuContext *contexts, int n, size_t stack_bytes, void **mapping, size_t *mapped) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), stride = stack_bytes + page;
  *mapped = stride * (size_t)n;
  char *base = mmap(NULL, *mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return false;
  *mapping = base;
  for (int i = 0; i < n; i++) {
    char *low = base + stride * (size_t)i;
    if (mprotect(low, page, PROT_NONE) != 0) {
      munmap(base, *mapped);
      return false;
    }
    contexts[i].stack = low + page;
    contexts[i].stack_bytes = stack_bytes;
  }
  return true;
}

void emu_stacks_unmap(void *mapping, size_t mapped) {
  if (!mapping) return;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(mapping, mapped);   // frames of threads that never returned
#endif
  munmap(mapping, mapped);
}

#if defined(__x86_64__)

// emu_swap(save, load): pushes the callee-saved registers, stores rsp in *save, loads it from load and returns there.
void emu_swap(void **save, void *load);
__asm__(".text\n"
        ".globl emu_swap\n"
        ".hidden emu_swap\n"
        ".type emu_swap, @function\n"
        "emu_swap:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n"
        ".size emu_swap, . - emu_swap\n"
        // First entry to a stack: r12 is the function, r13 its argument.
        ".globl emu_start\n"
        ".hidden emu_start\n"
        ".type emu_start, @function\n"
        "emu_start:\n"
        "  movq %r13, %rdi\n"
        "  xorl %ebp, %ebp\n"
        "  callq *%r12\n"
        "  ud2\n"
        ".size emu_start, . - emu_start\n");
void emu_start(void);

void emu_context_make(EmuContext *to, void (*start)(void *), void *argument) {
  // Stacks begin at different places of their pages, so that they do not meet in the same lines of the first cache.
  size_t colour = ((uintptr_t)to->stack >> 12) % 31 * 128;
  void **top = (void **)((char *)to->stack + to->stack_bytes - colour);
  *--top = NULL;
  *--top = NULL;   // two: the call in emu_start finds the stack aligned to 16 bytes
  *--top = (void *)(uintptr_t)emu_start;
  *--top = NULL;                       // rbp
  *--top = NULL;                       // rbx
  *--top = (void *)(uintptr_t)start;   // r12
  *--top = argument;                   // r13
  *--top = NULL;                       // r14
  *--top = NULL;                       // r15
  to->stack_pointer = top;
  to->fake_stack = NULL;
}

static void swap(EmuContext *from, EmuContext *to) { emu_swap(&from->stack_pointer, to->stack_pointer); }

#else

void emu_context_make(EmuContext *to, void (*start)(void *), void *argument) {
  if (!to->platform) to->platform = calloc(1, sizeof(ucontext_t));
  ucontext_t *u = to->platform;
  if (!u) abort();
  getcontext(u);
  u->uc_stack.ss_sp = to->stack;
  u->uc_stack.ss_size = to->stack_bytes;
  u->uc_link = NULL;
  // one pointer argument: what every 64-bit Linux passes through
  makecontext(u, (void (*)(void))(uintptr_t)start, 1, argument);
  to->fake_stack = NULL;
}

static void swap(EmuContext *from, EmuContext *to) {
  if (!from->platform) from->platform = calloc(1, sizeof(ucontext_t));
  if (!from->platform) abort();
  swapcontext(from->platform, to->platform);
}

#endif

void emu_context_switch(EmuContext *from, EmuContext *to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->stack_bytes);
#endif
  swap(from, to);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}

void emu_context_entered(EmuContext *from) {
#if defined(__SANITIZE_ADDRESS__)
  const void *stack = NULL;
  __sanitizer_finish_switch_fiber(NULL, &stack, &from->stack_bytes);
  from->stack = (void *)(uintptr_t)stack;
#else
  (void)from;
#endif
}
