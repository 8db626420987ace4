// Measured times by key (cost_key.h), and for work that was not measured the roofline, scaled as the measured work of
// its class differs from its own roofline.
#ifndef NNC_CODEGEN_COST_TABLE_H
#define NNC_CODEGEN_COST_TABLE_H

#include "codegen/cost_model.h"

// key Owned; place: whatever the reader wants to remember
typedef struct CostEntry {
  char *key;
  double seconds;
  int place;
} CostEntry;

typedef struct CostTable {
  int n;
  CostEntry *entries;   // Owned; sorted by key after cost_table_sort
  // Summed over the steps that were matched, by class; the last of all classes.
  double measured[COST_CLASSES + 1], predicted[COST_CLASSES + 1];
} CostTable;

void cost_table_add(CostTable *table, const char *key, double seconds, int place);   // copies the key
// Sorts for lookup. Returns an entry whose key occurs twice (the later one), or NULL.
const CostEntry *cost_table_sort(CostTable *table);
void cost_table_free(CostTable *table);

// Notes a step of the program with its roofline. True when it was measured.
bool cost_table_match(CostTable *table, MlirOperation op, MlirOperation kernel, CostClass class, double roofline);
double cost_table_seconds(const CostTable *table, MlirOperation op, MlirOperation kernel, CostClass class,
                          double roofline);

#endif
