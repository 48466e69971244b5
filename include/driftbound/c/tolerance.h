#ifndef DRIFTBOUND_C_TOLERANCE_H
#define DRIFTBOUND_C_TOLERANCE_H

#include <stddef.h>
#include <stdint.h>

#include "driftbound/c/status.h"

/**
 * What the results of a kernel may be off by, in C99: `driftbound tolerance` without a process. docs/tolerances.md says
 * what the numbers mean. Link with driftbound::analysis, or by `pkg-config driftbound-analysis`.
 *
 * A request begins with the defaults:
 *     driftbound_tolerance_request request = driftbound_tolerance_defaults();
 *     request.op = "gemm";
 *     request.k = 4096;
 * Fields are named as the options of the program, and messages name the options: --split-k is `split_k`. All functions
 * may be called from several threads. None of them changes a request or its arrays, or keeps a pointer to them.
 */

#ifdef __cplusplus
extern "C" {
#endif

typedef enum driftbound_type {
  DRIFTBOUND_FLOAT64 = 0,
  DRIFTBOUND_FLOAT32 = 1,
  DRIFTBOUND_FLOAT16 = 2,
  DRIFTBOUND_BFLOAT16 = 3,
  DRIFTBOUND_BOOL = 4           /**< one byte each, 0 or not: of masks alone */
} driftbound_type;

/** An operand: numbers in the order of the last index, without gaps. */
typedef struct driftbound_array {
  const void* numbers;
  driftbound_type type;
  const int64_t* shape;
  size_t axes;
} driftbound_array;

typedef struct driftbound_tolerance_request {
  const char* op;               /**< "gemm", "softmax" …: driftbound_tolerance_ops() */
  int64_t k;                    /**< length of the sum or row; 0: not given */
  int64_t keys;                 /**< attention: number of keys; 0: not given */
  int bias;                     /**< not 0: a bias is added to the product */
  const double* epsilon;        /**< of norms; NULL: 1e-5 for layernorm, 1e-6 for rmsnorm */
  const double* scale;          /**< attention: factor of the scores; NULL: 1 / sqrt(size of a head) */
  int causal;                   /**< not 0: attention, query i sees keys up to i */
  int stored_inside;            /**< not 0: steps inside of an op are stored in the format of the results */
  const char* in;               /**< format of the operands; NULL: "fp32" */
  const char* acc;              /**< format of sums and of all steps inside; NULL: "fp32" */
  const char* out;              /**< format of the results; NULL: that of the sums */
  const char* order;            /**< of the sums, as "blocked:8+fma"; NULL: any */
  int64_t split_k;              /**< so many parts of the sum, each added up in turn; 0: not given */
  const char* device;           /**< whose matrix unit adds up products, as "h100"; NULL: sums are as `acc` says */
  int64_t promotion;            /**< a unit's sum is added to a float32 after at most so many products; 0: at the end */
  double magnitude;             /**< of operands that are made; 1 */
  uint64_t seed;                /**< of normal data that are made; 1 */
  const char* functions;        /**< library whose functions are called; NULL: "cuda" */
  double failure_probability;   /**< of `by_chance`; 1e-9 */
  int threads;                  /**< 1 */
  const driftbound_array* data; /**< operands in order, and a mask of attention; NULL: they are made */
  size_t data_count;
} driftbound_tolerance_request;

/** Everything at its default; `op` is NULL. */
driftbound_tolerance_request driftbound_tolerance_defaults(void);

/** What is said of some data and some kernels. */
typedef struct driftbound_tolerance_part {
  const char* data;             /**< "any data within ±1", "normal data, standard deviation 1", "the data given" */
  const char* kernels;          /**< that `proven` holds for: "sums in fp32, in any order and rounded to nearest" … */
  const char* device;           /**< whose matrix unit they use; NULL: none */
  double largest_result;        /**< of the exact results, in magnitude */
  const char* guarantee;        /**< of `proven`: "proven", or "conditional" on the accuracy of a function */
  double proven;                /**< none of these kernels is off by more; the largest of the elements */
  double by_chance;             /**< an honest kernel is off by more with the failure probability at most */
  double estimate;              /**< six standard deviations of sums in random order; NaN: none is made */
  size_t axes;                  /**< of the result */
  const int64_t* shape;
  size_t elements;
  const double* exact;          /**< the exact results, element by element */
  const double* proven_of;      /**< their tolerances */
  const double* by_chance_of;
} driftbound_tolerance_part;

typedef struct driftbound_tolerance_answer {
  const char* summary;          /**< one sentence with the numbers and what they are for */
  const char* formula;          /**< of the bound, to first order */
  const char* operands;         /**< that the op reads, with shapes */
  size_t assumption_count;
  const char* const* assumptions;
  /**
   * Of the kernels that are asked for: one part for data; else any data, where there is a bound for them, and normal
   * data. Behind these stand those of the weakest matrix unit that is known, where one reads the operands and `device`
   * is NULL.
   */
  size_t part_count;
  const driftbound_tolerance_part* parts;
} driftbound_tolerance_answer;

/**
 * Answers a request. `*answer` is NULL unless the status is DRIFTBOUND_OK or DRIFTBOUND_NO_TOLERANCE; it belongs to the
 * caller, who frees it with driftbound_tolerance_free().
 */
driftbound_status driftbound_tolerance(const driftbound_tolerance_request* request,
                                       const driftbound_tolerance_answer** answer);

/** Frees an answer and all that it points to. NULL is allowed. */
void driftbound_tolerance_free(const driftbound_tolerance_answer* answer);

/** "gemm, conv, …": the ops that there are. */
const char* driftbound_tolerance_ops(void);

#ifdef __cplusplus
}
#endif

#endif
