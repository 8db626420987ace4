// What drawing a text (sample.c) and searching one (beam.c) share.
#ifndef NNC_RUNTIME_SAMPLE_H
#define NNC_RUNTIME_SAMPLE_H

#include "runtime/runtime.h"
#include "runtime/training.h"

typedef struct Sampler {
  const SampleOptions *o;
  Labels labels;
  Session s;
  Safetensors file;                  // of the other inputs, where `opened`
  bool opened, reads;                // the model has other inputs
  InputSource source;                // of these, a record of them for each text
  int64_t record;                    // whose text is written
  const NncTensor *input, *output;   // tokens [B, T], scores [B, T, V]
  int64_t context, tokens;           // T, V
  bool text;                         // tokens are bytes
  bool carries;                      // states go on with the text
  int64_t passed;                    // tokens that have gone into the states, or into decode's caches
  bool told;                         // that the caches are of no use any more
  int64_t end;                       // the token that ends a text; -1: none
  int64_t prompt;                    // tokens that the text begins with
  int beams;                         // texts that are gone on with at once, each in a row of the batch
  int64_t n, capacity, *sequence;    // Owned: (beams, capacity), of which n: the prompt and what was drawn
  double *scores;                    // Owned: (beams, V) of the tokens that come next
} Sampler;

bool sampler_run(Sampler *p, int64_t after);   // sets scores; after: the token behind those of the context
void sampler_print(const Sampler *p, int64_t token, bool first);
// The likeliest text that a search with as many beams as the options say finds, to stdout: of those that are ended, by
// the end token or by their length, the one with the largest sum of logarithms of its tokens' probabilities, divided by
// their number to the power length_penalty.
bool beam_search(Sampler *p);

#endif
