// Calls of kernels that a target makes one launch (NnTarget.groups_updates), as the step tables see them.
#ifndef NNC_CODEGEN_KERNEL_GROUPS_H
#define NNC_CODEGEN_KERNEL_GROUPS_H

#include "ir/ir.h"
#include "support/ptr_map.h"

// Calls that are made one launch, which runs where the last of them stands. No step in between, and none of them,
// touches what another writes.
typedef struct KernelGroup {
  int n;
  MlirOperation *calls;   // Owned; in order
  int64_t *offsets;       // Owned; n rows of one arena offset for each argument and result of the kernel
  int64_t *elements;      // Owned; n
  int body;               // into KernelGroups.bodies
  int launch;             // of the body's kernel; of large totals the first of two
  int64_t workspace;      // large totals: where the last call's workspace is, which holds the partial sums of all
} KernelGroup;

// Sums over whole tensors: a block for each or, of large ones, a block for each part, whose sums a second launch adds
// up. They are always made in groups, of one call if need be, so that their order of additions depends on nothing but
// their sizes.
typedef enum GroupBodyKind { GROUP_MAP, GROUP_TOTAL, GROUP_LARGE_TOTAL } GroupBodyKind;
enum { GROUP_TOTAL_PARTS = 2112 };   // of a group; each has 8 bytes of the workspace

// Kernels that differ in their shapes alone: one function serves their groups.
typedef struct GroupBody {
  char *name;             // Owned; of the function
  MlirOperation kernel;   // one of them, from which it is written
  char *signature;        // Owned; of what they have in common
  int n_buffers;          // arguments and results of the kernel
  int n_rows;             // of its table: the calls of its groups
  GroupBodyKind kind;
} GroupBody;

typedef struct KernelGroups {
  int n;
  KernelGroup *items;   // Owned
  int n_bodies;
  GroupBody *bodies;     // Owned
  PtrMap of_call;        // op -> group
  PtrMap only_grouped;   // kernel function -> 1: no call of it is left
} KernelGroups;

void kernel_groups_free(KernelGroups *groups);   // NULL allowed
// The group of a call; NULL: it has none, or there are no groups.
const KernelGroup *kernel_group_of(const KernelGroups *groups, MlirOperation call);

#endif
