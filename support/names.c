// Spelling suggestions by edit distance.
#include "support/names.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define MAX_PATH 256   // characters of a parameter's path, or of a pattern for such
#define MAX_WORD 64    // longer words are never suggested for: nobody mistypes them by a letter

static int minimum(int x, int y) { return x < y ? x : y; }

// Optimal string alignment distance (insert, delete, replace, swap of neighbours), ignoring case; stops at limit + 1.
static int name_distance(const char *x, const char *y, int limit) {
  int n = (int)strnlen(x, MAX_WORD + 1), m = (int)strnlen(y, MAX_WORD + 1);
  if (n > MAX_WORD || m > MAX_WORD || n - m > limit || m - n > limit) return limit + 1;
  // Rows i-2, i-1 and i of the table of distances between prefixes.
  int rows[3][MAX_WORD + 1];
  for (int j = 0; j <= m; j++) rows[0][j] = j;
  for (int i = 1; i <= n; i++) {
    int *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
    row[0] = i;
    for (int j = 1; j <= m; j++) {
      int a = tolower((unsigned char)x[i - 1]), b = tolower((unsigned char)y[j - 1]);
      row[j] = minimum(above[j - 1] + (a != b), minimum(above[j], row[j - 1]) + 1);
      if (i > 1 && j > 1 && a == tolower((unsigned char)y[j - 2]) && b == tolower((unsigned char)x[i - 2]))
        row[j] = minimum(row[j], above2[j - 2] + 1);
    }
  }
  return minimum(rows[n % 3][m], limit + 1);
}

NameSearch name_search(const char *word) {
  // A word of four letters of which two differ is another word.
  int length = (int)strnlen(word, MAX_WORD), allowed = minimum((length + 2) / 4, 3);
  return (NameSearch){.word = word, .distance = allowed + 1};
}

void name_consider(NameSearch *search, const char *candidate) {
  int limit = search->distance - 1;
  if (limit < 0 || strcmp(search->word, candidate) == 0) return;
  int distance = name_distance(search->word, candidate, limit);
  if (distance > limit) return;
  search->distance = distance;
  search->best = candidate;
}

int name_pattern_limit(const char *pattern) {
  int letters = 0;
  for (const char *p = pattern; *p && letters < MAX_WORD; p++) letters += *p != '*';
  return minimum((letters + 2) / 3, 3);
}

// As above; '*' matches the next character, or nothing, for free.
int name_pattern_distance(const char *pattern, const char *text, int limit) {
  int n = (int)strnlen(pattern, MAX_PATH + 1), m = (int)strnlen(text, MAX_PATH + 1);
  if (n > MAX_PATH || m > MAX_PATH) return limit + 1;
  int rows[2][MAX_PATH + 1];
  for (int j = 0; j <= m; j++) rows[0][j] = j;
  for (int i = 1; i <= n; i++) {
    int *row = rows[i % 2], *above = rows[(i + 1) % 2];
    bool any = pattern[i - 1] == '*';
    row[0] = above[0] + !any;
    for (int j = 1; j <= m; j++) {
      int other = pattern[i - 1] != '?' && pattern[i - 1] != text[j - 1];
      row[j] = any ? minimum(above[j], row[j - 1]) : minimum(above[j - 1] + other, minimum(above[j], row[j - 1]) + 1);
    }
  }
  return minimum(rows[n % 2][m], limit + 1);
}
