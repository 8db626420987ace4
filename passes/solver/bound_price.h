// bound_price.h: the best price of one moment, and the integral optimum of its relaxation by branch and bound.
#ifndef NNC_SOLVER_BOUND_PRICE_H
#define NNC_SOLVER_BOUND_PRICE_H

#include "bound_network.h"
#include "watch.h"

typedef struct PriceResult {
  double bound;        // largest value found, scaled cost; infinite when nothing fits
  double price;        // where it was found; also a good first guess for similar networks
  double attainable;   // cost of the cheapest solution seen that fits the room: the integral optimum is no larger
  int branch_edge;     // priced edge whose value is live in the cut that exceeds the room and not in the one that fits;
                       // -1 when there is none: the bound is exact
} PriceResult;

// Maximises the value of a network of one moment over its price, starting at `first_price`, 0 if unknown. The value is
// concave in the price, and each cut gives a line above it: the next price is where the lines of two cuts meet
// (Newton's method for the Lagrangian dual of one constraint). Stops early once the bound cannot exceed `useless`, or
// once it is at least `enough`. `decisions` (per edge, see bound_network_solve) may be NULL.
PriceResult bound_price_search(BoundNetwork *network, const unsigned char *decisions, double first_price,
                               double useless, double enough);

// The integral optimum of a network of one moment, or as much of a bound as can be had before `deadline` (see
// watch_counted). `root` is the result of bound_price_search. Stops early as above.
double bound_branch(BoundNetwork *network, const PriceResult *root, double useless, double deadline);

#endif
