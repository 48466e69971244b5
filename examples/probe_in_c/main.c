/* In which order a loop of this file adds up products, and whether a test may rely on it: in C99. */
#include <stdio.h>

#include "driftbound/c/probe.h"

enum { lanes = 4 };

/* Each element: four sums of every fourth product, added pairwise in the end. */
static int multiply(void* context, int64_t m, int64_t k, int64_t n, const float* a, const float* b, float* c) {
  int64_t* calls = (int64_t*)context;
  ++*calls;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sums[lanes] = {0.0f, 0.0f, 0.0f, 0.0f};
      for (int64_t t = 0; t < k; ++t) sums[t % lanes] += a[i * k + t] * b[t * n + j];
      c[i * n + j] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
  return 0;
}

static int complain(void) {
  fprintf(stderr, "%s\n", driftbound_message());
  return 1;
}

static driftbound_probe_request four_sums(int64_t* calls) {
  driftbound_probe_request request = driftbound_probe_defaults();
  request.multiply = multiply;
  request.context = calls;
  request.name = "four sums";
  request.m = 16;
  request.k = 64;
  request.n = 2;
  return request;
}

/* What the loop does, in words. */
static int print_what_is_found(void) {
  int64_t calls = 0;
  driftbound_probe_request request = four_sums(&calls);
  const driftbound_probe_answer* answer;
  if (driftbound_probe(&request, &answer) != DRIFTBOUND_OK) return complain();
  printf("%s\n", answer->summary);
  printf("order %s, height %d, calls were counted: %s\n", answer->shapes[0].order, (int)answer->shapes[0].height,
         answer->shapes[0].calls == calls ? "all" : "not all");
  driftbound_probe_free(answer);
  return 0;
}

/* A test that expects another order fails, and says what was found. */
static int print_a_difference(void) {
  int64_t calls = 0;
  driftbound_probe_request request = four_sums(&calls);
  const driftbound_probe_answer* answer;
  request.expect = "sequential";
  if (driftbound_probe(&request, &answer) != DRIFTBOUND_NOT_CONFIRMED) return complain();
  printf("%s: %s\n", answer->verdict == DRIFTBOUND_PROBE_DIFFERS ? "differs" : "other", answer->summary);
  driftbound_probe_free(answer);
  return 0;
}

static int fail(void* context, int64_t m, int64_t k, int64_t n, const float* a, const float* b, float* c) {
  (void)context, (void)m, (void)k, (void)n, (void)a, (void)b, (void)c;
  return 7;
}

/* What is wrong with a kernel is said. */
static int print_a_mistake(void) {
  driftbound_probe_request request = driftbound_probe_defaults();
  const driftbound_probe_answer* answer;
  request.multiply = fail;
  if (driftbound_probe(&request, &answer) != DRIFTBOUND_BAD_INPUT) return 1;
  printf("%s\n", driftbound_message());
  return 0;
}

int main(void) {
  return print_what_is_found() != 0 || print_a_difference() != 0 || print_a_mistake() != 0;
}
