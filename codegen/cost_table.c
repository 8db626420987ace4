// Measured times; cost_table.h.
#include "codegen/cost_table.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/cost_key.h"
#include "support/alloc.h"

void cost_table_add(CostTable *table, const char *key, double seconds, int place) {
  *ARRAY_ADD(table->entries, table->n) = (CostEntry){copy_string(key), seconds, place};
}

static int compare(const void *a, const void *b) {
  const CostEntry *x = a, *y = b;
  int order = strcmp(x->key, y->key);
  return order ? order : (x->place > y->place) - (x->place < y->place);
}

const CostEntry *cost_table_sort(CostTable *table) {
  if (table->n) qsort(table->entries, (size_t)table->n, sizeof *table->entries, compare);
  for (int i = 1; i < table->n; i++)
    if (!strcmp(table->entries[i - 1].key, table->entries[i].key)) return &table->entries[i];
  return NULL;
}

void cost_table_free(CostTable *table) {
  for (int i = 0; i < table->n; i++) free(table->entries[i].key);
  free(table->entries);
  *table = (CostTable){0};
}

static const CostEntry *find(const CostTable *table, MlirOperation op, MlirOperation kernel) {
  char *key = cost_key(op, kernel);
  int low = 0, high = table->n;
  while (key && low < high) {
    int middle = low + (high - low) / 2;
    if (strcmp(table->entries[middle].key, key) < 0) low = middle + 1;
    else high = middle;
  }
  const CostEntry *found = key && low < table->n && !strcmp(table->entries[low].key, key) ? &table->entries[low] : NULL;
  free(key);
  return found;
}

bool cost_table_match(CostTable *table, MlirOperation op, MlirOperation kernel, CostClass class, double roofline) {
  const CostEntry *found = find(table, op, kernel);
  if (!found) return false;
  table->measured[class] += found->seconds;
  table->predicted[class] += roofline;
  table->measured[COST_CLASSES] += found->seconds;
  table->predicted[COST_CLASSES] += roofline;
  return true;
}

double cost_table_seconds(const CostTable *table, MlirOperation op, MlirOperation kernel, CostClass class,
                          double roofline) {
  const CostEntry *found = find(table, op, kernel);
  if (found) return found->seconds;
  int from = table->predicted[class] > 0 ? (int)class : COST_CLASSES;
  return table->predicted[from] > 0 ? roofline * table->measured[from] / table->predicted[from] : roofline;
}
