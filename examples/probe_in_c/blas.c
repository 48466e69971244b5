/* In which orders the BLAS adds up products: in C99. */
#include <cblas.h>
#include <stdio.h>

#include "driftbound/c/probe.h"

static int multiply(void* context, int64_t m, int64_t k, int64_t n, const float* a, const float* b, float* c) {
  (void)context;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)m, (int)n, (int)k, 1.0f, a, (int)k, b, (int)n, 0.0f, c,
              (int)n);
  return 0;
}

int main(void) {
  driftbound_probe_request request = driftbound_probe_defaults();
  const driftbound_probe_answer* answer;
  request.multiply = multiply;
  request.name = "cblas_sgemm";
  request.m = 64;
  request.k = 300;
  request.n = 20;
  if (driftbound_probe(&request, &answer) != DRIFTBOUND_OK) {
    fprintf(stderr, "%s\n", answer != NULL ? answer->summary : driftbound_message());
    driftbound_probe_free(answer);
    return 1;
  }
  printf("%s", answer->text);
  driftbound_probe_free(answer);
  return 0;
}
