// anneal.c: rounds of simulated annealing from the best schedule. Kicks change little at a time; a round at a high
// temperature leaves the neighbourhood, which near the smallest feasible budget is the only way to something better.
#include <math.h>

#include "search.h"

void remat_anneal_round(RematSearch *search, int64_t moves, double heat) {
  RematState *state = &search->state;
  static const double RATE = 1.0 / 1024;
  double price = search->anneal_price;
  search->insertion_limit = 24;
  search->kick++;   // opens all locks
  for (int64_t i = 0; i < moves; i++) {
    if ((i & 255) == 255 && (remat_search_out_of_time(search) || remat_search_is_done(search))) return;
    // The price hovers where the schedule is now within the budget and now above it.
    price *= state->n_over > 0 ? 1 + RATE : 1 - RATE / 2;
    double left = 1 - (double)i / (double)moves;
    remat_search_step(search, heat * search->step_cost * left * left, price);
    if (state->n_over == 0 && state->cost < search->best_cost) remat_search_note(search);
  }
  search->anneal_price = price;
  if (state->n_over > 0) remat_greedy_descend(search, search->best_cost * 1.02);
  remat_greedy_trim(search);
  remat_search_note(search);
}
