// Private to codegen/cuda: launches of one kernel over many tensors (group.c, schedule/schedule_group.c).
#ifndef NNC_CODEGEN_CUDA_GROUP_H
#define NNC_CODEGEN_CUDA_GROUP_H

#include "codegen/kernel/groups.h"

int64_t cuda_total_part(int64_t elements);   // elements of a part of a large tensor
// Finds them in all functions of a planned module. Owned: kernel_groups_free.
KernelGroups *cuda_groups_build(MlirModule module);
// The part of a group's launches that a call is expected to have, before there is a plan to tell: updates alike in
// their operands stand side by side where memory has room, sums over whole tensors share up to GROUP_TOTAL_PARTS parts.
// 1: it is in none.
double cuda_group_share(MlirOperation call, MlirOperation kernel);

#endif
