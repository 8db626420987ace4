// What the lanes of a warp do together: shuffles, votes, reductions, bar.warp.sync (PTX ISA, "Data Movement:
// shfl.sync", "Parallel Synchronization").
#include "runtime/cuda/emulator/internal.h"

static inline int lane_of(const EmuThread *t) { return t->index % EMU_LANES; }
#define FOR_LANES(lane, mask) \
  for (uint32_t rest_ = (mask), lane; rest_ && (lane = (uint32_t)__builtin_ctz(rest_), true); rest_ &= rest_ - 1)

// ---------------------------------------------------------------------------------------------------------------------
// Shuffles. in: value, b (lane, offset or xor mask), c (clamp and segment mask); out: value, whether the source lane
// was in range

static void shuffle(EmuThread *warp, uint32_t mask, char mode) {
  FOR_LANES(lane, mask) {
    EmuThread *t = &warp[lane];
    int b = (int)(t->in.u[1] & 31), clamp = (int)(t->in.u[2] & 31), segment = (int)(t->in.u[2] >> 8 & 31),
        l = (int)lane;
    int least = l & segment, most = least | (clamp & ~segment), source = l;
    bool in_range;
    switch (mode) {
    case 'u':
      source = l - b;
      in_range = source >= most;
      break;
    case 'd':
      source = l + b;
      in_range = source <= most;
      break;
    case 'x':
      source = l ^ b;
      in_range = source <= most;
      break;
    case 'i':
      source = least | (b & ~segment);
      in_range = source <= most;
      break;
    }
    if (!in_range) source = l;
    if (!(mask >> source & 1)) {
      emu_describe(t->worker, EMU_BAD_LANES, t, t->site,
                   "shuffle: lane %d reads lane %d, which is not in the mask 0x%08x", l, source, mask);
      return;
    }
    t->out.u[0] = warp[source].in.u[0];
    t->out.u[1] = in_range;
  }
}
static void shuffle_up(EmuThread *warp, uint32_t mask) { shuffle(warp, mask, 'u'); }
static void shuffle_down(EmuThread *warp, uint32_t mask) { shuffle(warp, mask, 'd'); }
static void shuffle_bfly(EmuThread *warp, uint32_t mask) { shuffle(warp, mask, 'x'); }
static void shuffle_idx(EmuThread *warp, uint32_t mask) { shuffle(warp, mask, 'i'); }

#define SHUFFLE(mode)                                                                                                 \
  static void run_##mode(uint32_t mask, uint32_t value, uint32_t b, uint32_t c, const NncEmuSite *site) {             \
    EmuThread *t = emu_thread();                                                                                      \
    t->in.u[0] = value;                                                                                               \
    t->in.u[1] = b;                                                                                                   \
    t->in.u[2] = c;                                                                                                   \
    emu_warp_operation(shuffle_##mode, mask, site);                                                                   \
  }                                                                                                                   \
  uint32_t nnc_emu_shfl_##mode##_i32(uint32_t mask, uint32_t value, uint32_t b, uint32_t c, const NncEmuSite *site) { \
    run_##mode(mask, value, b, c, site);                                                                              \
    return emu_thread()->out.u[0];                                                                                    \
  }                                                                                                                   \
  float nnc_emu_shfl_##mode##_f32(uint32_t mask, float value, uint32_t b, uint32_t c, const NncEmuSite *site) {       \
    run_##mode(mask,                                                                                                  \
               (union {                                                                                               \
                 float f;                                                                                             \
                 uint32_t u;                                                                                          \
               }){.f = value}                                                                                         \
                   .u,                                                                                                \
               b, c, site);                                                                                           \
    return emu_thread()->out.f[0];                                                                                    \
  }                                                                                                                   \
  void nnc_emu_shfl_##mode##_i32p(uint64_t *out, uint32_t mask, uint32_t value, uint32_t b, uint32_t c,               \
                                  const NncEmuSite *site) {                                                           \
    run_##mode(mask, value, b, c, site);                                                                              \
    out[0] = emu_thread()->out.u[0];                                                                                  \
    out[1] = emu_thread()->out.u[1];                                                                                  \
  }                                                                                                                   \
  void nnc_emu_shfl_##mode##_f32p(uint64_t *out, uint32_t mask, float value, uint32_t b, uint32_t c,                  \
                                  const NncEmuSite *site) {                                                           \
    nnc_emu_shfl_##mode##_i32p(out, mask,                                                                             \
                               (union {                                                                               \
                                 float f;                                                                             \
                                 uint32_t u;                                                                          \
                               }){.f = value}                                                                         \
                                   .u,                                                                                \
                               b, c, site);                                                                           \
  }
SHUFFLE(up)
SHUFFLE(down)
SHUFFLE(bfly)
SHUFFLE(idx)

// ---------------------------------------------------------------------------------------------------------------------
// Votes and reductions. in: value; out: the result

static void synchronise(EmuThread *warp, uint32_t mask) {
  (void)mask;
  emu_order_warps(warp->worker, 1u << warp->warp, NULL, 1u << warp->warp);
}

static void ballot(EmuThread *warp, uint32_t mask) {
  uint32_t bits = 0;
  FOR_LANES(lane, mask) bits |= (uint32_t)(warp[lane].in.u[0] != 0) << lane;
  FOR_LANES(lane, mask) warp[lane].out.u[0] = bits;
}

static void match(EmuThread *warp, uint32_t mask) {
  FOR_LANES(lane, mask) {
    warp[lane].out.u[0] = 0;
    FOR_LANES(other, mask) warp[lane].out.u[0] |= (uint32_t)(warp[other].in.u[0] == warp[lane].in.u[0]) << other;
  }
}

#define REDUCE(name, type, field, first, combine)      \
  static void name(EmuThread *warp, uint32_t mask) {   \
    type a = first;                                    \
    FOR_LANES(lane, mask) {                            \
      type b = (type)warp[lane].in.field[0];           \
      a = combine;                                     \
    }                                                  \
    FOR_LANES(lane, mask) warp[lane].out.field[0] = a; \
  }
REDUCE(redux_add, uint32_t, u, 0, a + b)
REDUCE(redux_and, uint32_t, u, UINT32_MAX, a &b)
REDUCE(redux_or, uint32_t, u, 0, a | b)
REDUCE(redux_xor, uint32_t, u, 0, a ^ b)
REDUCE(redux_umin, uint32_t, u, UINT32_MAX, a < b ? a : b)
REDUCE(redux_umax, uint32_t, u, 0, a > b ? a : b)
static void redux_min(EmuThread *warp, uint32_t mask) {
  int32_t a = INT32_MAX;
  FOR_LANES(lane, mask) a = (int32_t)warp[lane].in.u[0] < a ? (int32_t)warp[lane].in.u[0] : a;
  FOR_LANES(lane, mask) warp[lane].out.u[0] = (uint32_t)a;
}
static void redux_max(EmuThread *warp, uint32_t mask) {
  int32_t a = INT32_MIN;
  FOR_LANES(lane, mask) a = (int32_t)warp[lane].in.u[0] > a ? (int32_t)warp[lane].in.u[0] : a;
  FOR_LANES(lane, mask) warp[lane].out.u[0] = (uint32_t)a;
}

static uint32_t collective(EmuWarpOp op, uint32_t mask, uint32_t value, const NncEmuSite *site) {
  EmuThread *t = emu_thread();
  t->in.u[0] = value;
  emu_warp_operation(op, mask, site);
  return t->out.u[0];
}

void nnc_emu_warp_sync(uint32_t mask, const NncEmuSite *site) { collective(synchronise, mask, 0, site); }
uint32_t nnc_emu_vote_ballot(uint32_t mask, uint32_t p, const NncEmuSite *site) {
  return collective(ballot, mask, p, site);
}
uint32_t nnc_emu_vote_any(uint32_t mask, uint32_t p, const NncEmuSite *site) {
  return collective(ballot, mask, p, site) != 0;
}
uint32_t nnc_emu_vote_all(uint32_t mask, uint32_t p, const NncEmuSite *site) {
  return collective(ballot, mask, p, site) == mask;
}
uint32_t nnc_emu_vote_uni(uint32_t mask, uint32_t p, const NncEmuSite *site) {
  uint32_t bits = collective(ballot, mask, p, site);
  return bits == mask || bits == 0;
}
uint32_t nnc_emu_match_any(uint32_t mask, uint32_t value, const NncEmuSite *site) {
  return collective(match, mask, value, site);
}
#define REDUX(name)                                                                      \
  uint32_t nnc_emu_redux_##name(uint32_t value, uint32_t mask, const NncEmuSite *site) { \
    return collective(redux_##name, mask, value, site);                                  \
  }
REDUX(add)
REDUX(and)
REDUX(or)
REDUX(xor)
REDUX(min)
REDUX(max)
REDUX(umin)
REDUX(umax)
// The lowest lane of the mask is elected.
void nnc_emu_elect(uint64_t *out, uint32_t mask, const NncEmuSite *site) {
  collective(synchronise, mask, 0, site);
  uint32_t leader = (uint32_t)__builtin_ctz(mask);
  out[0] = leader;
  out[1] = (uint32_t)lane_of(emu_thread()) == leader;
}
