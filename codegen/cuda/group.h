// Private to codegen: launches of one kernel over many tensors (group.c, schedule_group.c).
#ifndef NNC_CODEGEN_CUDA_GROUP_H
#define NNC_CODEGEN_CUDA_GROUP_H

#include "codegen/codegen.h"
#include "codegen/kernel/emitted.h"
#include "ir/ir.h"
#include "passes/ptr_map.h"

// Calls that are made one launch, which runs where the last of them stands. No step in between, and none of them,
// touches what another writes.
typedef struct CudaGroup {
  int n;
  MlirOperation *calls;   // Owned; in order
  int64_t *offsets;       // Owned; n rows of one arena offset for each argument and result of the kernel
  int64_t *elements;      // Owned; n
  int body;               // into CudaGroups.bodies
  int launch;             // of the body's kernel; of large totals the first of two
  int64_t workspace;      // large totals: where the last call's workspace is, which holds the partial sums of all
} CudaGroup;

// Sums over whole tensors: a block for each or, of large ones, a block for each part, whose sums a second launch adds
// up. They are always made in groups, of one call if need be, so that their order of additions depends on nothing but
// their sizes.
typedef enum CudaBodyKind { CUDA_BODY_MAP, CUDA_BODY_TOTAL, CUDA_BODY_LARGE_TOTAL } CudaBodyKind;
enum { CUDA_TOTAL_PARTS = 2112 };            // of a group; each has 8 bytes of the workspace
int64_t cuda_total_part(int64_t elements);   // elements of a part of a large tensor

// Kernels that differ in their shapes alone: one function serves their groups.
typedef struct CudaBody {
  char *name;             // Owned; of the function
  MlirOperation kernel;   // one of them, from which it is written
  char *signature;        // Owned; of what they have in common
  int n_buffers;          // arguments and results of the kernel
  int n_rows;             // of its table: the calls of its groups
  CudaBodyKind kind;
} CudaBody;

typedef struct CudaGroups {
  int n;
  CudaGroup *items;   // Owned
  int n_bodies;
  CudaBody *bodies;      // Owned
  PtrMap of_call;        // op -> group
  PtrMap only_grouped;   // kernel function -> 1: no call of it is left
} CudaGroups;

// Finds them in all functions of a planned module. Owned: cuda_groups_free, NULL allowed.
CudaGroups *cuda_groups_build(MlirModule module);
// The part of a group's launches that a call is expected to have, before there is a plan to tell: updates alike in
// their operands stand side by side where memory has room, sums over whole tensors share up to CUDA_TOTAL_PARTS parts.
// 1: it is in none.
double cuda_group_share(MlirOperation call, MlirOperation kernel);
void cuda_groups_free(CudaGroups *groups);
// The group of a call; NULL: it has none, or there are no groups.
const CudaGroup *cuda_group_of(const CudaGroups *groups, MlirOperation call);

#endif
