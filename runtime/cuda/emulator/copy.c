// cp.async: the bytes land when the thread waits for their group, not before; until then the destination is poisoned
// and may not be touched.
#include "runtime/cuda/emulator/internal.h"

#include <stdlib.h>
#include <string.h>

static void issue(void *to, const void *from, uint32_t bytes, uint32_t source_bytes, const NncEmuSite *site) {
  EmuThread *t = emu_thread();
  if (source_bytes > bytes)
    emu_fail(EMU_OUT_OF_BOUNDS, site, "cp.async: source size %u of %u bytes", source_bytes, bytes);
  emu_global_access(t, from, source_bytes, bytes, EMU_READ, site);
  if ((uintptr_t)from & (bytes - 1))
    emu_fail(EMU_MISALIGNED, site, "misaligned: cp.async of %u bytes from global address %p", bytes, from);
  emu_mark_copying(t, to, bytes, site);
  if (t->n_copies == t->max_copies) {
    int larger = t->max_copies ? 2 * t->max_copies : 16;
    EmuCopy *copies = realloc(t->copies, (size_t)larger * sizeof *copies);
    if (!copies) emu_fail(EMU_BAD_LAUNCH, site, "the emulator is out of memory");
    t->copies = copies;
    t->max_copies = larger;
  }
  t->copies[t->n_copies++] = (EmuCopy){.to = (uint32_t)((char *)to - t->worker->shared),
                                       .bytes = bytes,
                                       .source_bytes = source_bytes,
                                       .from = from,
                                       .group = t->groups};
}

// Lands all copies but those of the last groups_pending committed groups and those not committed.
void emu_copies_finish(EmuThread *t, uint64_t groups_pending) {
  int kept = 0;
  for (int i = 0; i < t->n_copies; i++) {
    EmuCopy *c = &t->copies[i];
    if (c->group + groups_pending >= t->groups) {
      t->copies[kept++] = *c;
      continue;
    }
    char *to = t->worker->shared + c->to;
    memcpy(to, c->from, c->source_bytes);
    memset(to + c->source_bytes, 0, c->bytes - c->source_bytes);
    emu_mark_copied(t, c->to, c->bytes);
  }
  t->n_copies = kept;
}

void nnc_emu_copy4(void *to, const void *from, const NncEmuSite *site) { issue(to, from, 4, 4, site); }
void nnc_emu_copy8(void *to, const void *from, const NncEmuSite *site) { issue(to, from, 8, 8, site); }
void nnc_emu_copy16(void *to, const void *from, const NncEmuSite *site) { issue(to, from, 16, 16, site); }
void nnc_emu_copy4_s(void *to, const void *from, uint32_t n, const NncEmuSite *site) { issue(to, from, 4, n, site); }
void nnc_emu_copy8_s(void *to, const void *from, uint32_t n, const NncEmuSite *site) { issue(to, from, 8, n, site); }
void nnc_emu_copy16_s(void *to, const void *from, uint32_t n, const NncEmuSite *site) { issue(to, from, 16, n, site); }
void nnc_emu_copy_commit(void) { emu_thread()->groups++; }
void nnc_emu_copy_wait_group(uint32_t n) { emu_copies_finish(emu_thread(), n); }
void nnc_emu_copy_wait_all(void) {
  emu_thread()->groups++;
  emu_copies_finish(emu_thread(), 0);
}
