/* What a matrix product in bfloat16 may be off by, and whether a kernel of this file stays within that: in C99. */
#include <math.h>
#include <stdio.h>

#include "driftbound/c/tolerance.h"

enum { rows = 2, terms = 8, columns = 3 };

static int complain(void) {
  fprintf(stderr, "%s\n", driftbound_message());
  return 1;
}

/* The tolerance of a kernel for any data, as a unit test needs it. */
static int print_tolerance_of_any_data(void) {
  driftbound_tolerance_request request = driftbound_tolerance_defaults();
  const driftbound_tolerance_answer* answer;
  request.op = "gemm";
  request.k = 4096;
  request.in = "bf16";
  request.out = "bf16";
  if (driftbound_tolerance(&request, &answer) != DRIFTBOUND_OK) return complain();
  for (size_t i = 0; i < answer->part_count; ++i)
    printf("%s: %.2g, %.2g by chance, for %s\n", answer->parts[i].data, answer->parts[i].proven,
           answer->parts[i].by_chance, answer->parts[i].kernels);
  printf("formula: %s\n", answer->formula);
  driftbound_tolerance_free(answer);
  return 0;
}

static void multiply(const float* a, const float* b, float* product) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) {
      float sum = 0.0f;
      for (int t = 0; t < terms; ++t) sum += a[i * terms + t] * b[t * columns + j];
      product[i * columns + j] = sum;
    }
}

/* The tolerance of each element of a product of these operands, next to what a kernel gives. */
static int check_kernel(void) {
  float a[rows * terms], b[terms * columns], product[rows * columns];
  for (int i = 0; i < rows * terms; ++i) a[i] = 1.0f / (float)(i + 3);
  for (int i = 0; i < terms * columns; ++i) b[i] = (i % 2 == 0 ? 1.0f : -1.0f) / (float)(i + 7);
  const int64_t a_shape[] = {rows, terms}, b_shape[] = {terms, columns};
  const driftbound_array data[] = {{a, DRIFTBOUND_FLOAT32, a_shape, 2}, {b, DRIFTBOUND_FLOAT32, b_shape, 2}};
  driftbound_tolerance_request request = driftbound_tolerance_defaults();
  const driftbound_tolerance_answer* answer;
  request.op = "gemm";
  request.data = data;
  request.data_count = 2;
  if (driftbound_tolerance(&request, &answer) != DRIFTBOUND_OK) return complain();
  const driftbound_tolerance_part* part = &answer->parts[0];
  int within = 0;
  multiply(a, b, product);
  for (size_t i = 0; i < part->elements; ++i) within += fabs(product[i] - part->exact[i]) <= part->proven_of[i];
  printf("%d of %d results are within their tolerances\n", within, (int)part->elements);
  driftbound_tolerance_free(answer);
  return 0;
}

/* What is wrong with a request is said. */
static int print_a_mistake(void) {
  driftbound_tolerance_request request = driftbound_tolerance_defaults();
  const driftbound_tolerance_answer* answer;
  request.op = "gemm";
  if (driftbound_tolerance(&request, &answer) != DRIFTBOUND_BAD_INPUT) return 1;
  printf("%s\n", driftbound_message());
  return 0;
}

int main(void) {
  return print_tolerance_of_any_data() != 0 || check_kernel() != 0 || print_a_mistake() != 0;
}
