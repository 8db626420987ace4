// Spelling suggestions: the candidate nearest to a misspelt word.
#ifndef NNC_SUPPORT_NAMES_H
#define NNC_SUPPORT_NAMES_H

// Offer candidates one by one, then read `best`: NULL when none is near enough (a third of the word's length, at most
// 3).
//   NameSearch search = name_search(word);
//   for (…) name_consider(&search, candidate);
//   if (search.best) diag_hint(d, "did you mean '%s'?", search.best);
typedef struct NameSearch {
  const char *word, *best;
  int distance;
} NameSearch;
NameSearch name_search(const char *word);
void name_consider(NameSearch *search, const char *candidate);   // Borrows the candidate

// The same distance between a pattern, in which '*' stands for any text and '?' for any character, and the nearest text
// it matches; case counts.
int name_pattern_distance(const char *pattern, const char *text, int limit);
int name_pattern_limit(const char *pattern);   // how far a misspelt pattern may be from what was meant

#endif
