#ifndef DRIFTBOUND_C_PROBE_H
#define DRIFTBOUND_C_PROBE_H

#include <stddef.h>
#include <stdint.h>

#include "driftbound/c/status.h"

/**
 * In which order a kernel adds, and in which arithmetic, in C99: `driftbound probe` of a function of this process.
 * docs/probe.md says how it is found. Link with driftbound::analysis, or by `pkg-config driftbound-analysis`.
 *
 * A request begins with the defaults:
 *     driftbound_probe_request request = driftbound_probe_defaults();
 *     request.multiply = my_kernel;
 * Fields are named as the options of the program, and messages name the options. All functions may be called from
 * several threads. None of them changes a request or its arrays, or keeps a pointer to them.
 */

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A kernel: C [m, n] = A [m, k] B [k, n] of float32 numbers, row by row without gaps.
 *
 * It is called in the thread that calls driftbound_probe(), one call at a time; it may start threads of its own. A and B
 * are copies made for this call. Every number of C is a NaN before the call.
 *
 * It returns 0. Any other number ends the probe with DRIFTBOUND_BAD_INPUT, and the message has the number. So do a call
 * that changes A or B, leaves a number of C as it was, leaves the thread with another rounding mode or with subnormal
 * numbers flushed, or throws a C++ exception, and a NaN or infinity in C where the sum of products is finite. It must
 * return: leaving by longjmp(), or ending the thread, is undefined behaviour.
 */
typedef int (*driftbound_multiply)(void* context, int64_t m, int64_t k, int64_t n, const float* a, const float* b,
                                   float* c);

/** A kernel that adds up rows: c[i] is the sum of a[i, 0], ..., a[i, k - 1]. All else as of driftbound_multiply. */
typedef int (*driftbound_add_up)(void* context, int64_t m, int64_t k, const float* a, float* c);

typedef struct driftbound_probe_request {
  driftbound_multiply multiply; /**< the kernel; NULL: it is `add_up` */
  driftbound_add_up add_up;     /**< the kernel; NULL: it is `multiply` */
  void* context;                /**< handed to the kernel as it is */
  const char* name;             /**< of the kernel, in words and JSON; NULL: "the function" */
  int64_t m, k, n;              /**< --shape: 256, 512, 8; sums of rows have no n */
  const int64_t* batch;         /**< several m in place of that one, one after the other; NULL: there are none */
  size_t batch_count;
  const char* expect;           /**< the order to find, as "blocked:8+fma"; NULL: any */
  int64_t determinism;          /**< so many calls with the same numbers are compared in place of all that; 0 */
  int64_t calls;                /**< for the masks of one tree, at most; 20000 */
  double seconds;               /**< for these, at most, as the calls before tell; 300 */
  uint64_t seed;                /**< of the random data; 1 */
} driftbound_probe_request;

/** Everything at its default; `multiply` and `add_up` are NULL. */
driftbound_probe_request driftbound_probe_defaults(void);

typedef enum driftbound_probe_verdict {
  DRIFTBOUND_PROBE_CONFIRMED = 0,        /**< the trees give the kernel's bits, and are as expected; all calls agree */
  DRIFTBOUND_PROBE_DIFFERS = 1,          /**< the order found is not the expected one */
  DRIFTBOUND_PROBE_NOT_VERIFIED = 2,     /**< some elements have no tree, or none that was verified */
  DRIFTBOUND_PROBE_NOT_DETERMINISTIC = 3 /**< repeated calls differ */
} driftbound_probe_verdict;

/** What was found of one shape. With `determinism` there are the two counts of calls alone. */
typedef struct driftbound_probed_shape {
  int64_t m, k, n;
  const char* order;            /**< of most elements: "blocked:8+fma", "height:12"; NULL with `determinism` */
  const char* words;            /**< their tree: "512 terms: 64 blocks of 8 ..."; NULL with `determinism` */
  int64_t height;               /**< of that tree */
  const char* svg;              /**< that tree, drawn; NULL for one term */
  size_t classes;               /**< of elements that are computed alike; `json` has all their trees */
  int64_t calls;                /**< of the kernel */
  const char* arithmetic;       /**< as --export writes it, to judge runs by; NULL: there is none */
  const char* no_arithmetic;    /**< why there is none; NULL: there is one */
  int64_t differing_calls;      /**< with `determinism`: that differ from the first in a bit */
} driftbound_probed_shape;

typedef struct driftbound_probe_answer {
  driftbound_probe_verdict verdict;
  const char* summary;          /**< one sentence: verdict and tree */
  const char* text;             /**< what the program prints */
  const char* json;             /**< what --json writes: docs/schema/probe-1.json; its `command` is empty */
  size_t shape_count;
  const driftbound_probed_shape* shapes;
} driftbound_probe_answer;

/**
 * Answers a request. `*answer` is NULL unless the status is DRIFTBOUND_OK (the verdict is DRIFTBOUND_PROBE_CONFIRMED) or
 * DRIFTBOUND_NOT_CONFIRMED (another one); it belongs to the caller, who frees it with driftbound_probe_free(). A kernel
 * that no tree explains is DRIFTBOUND_BAD_INPUT, and the message says why.
 */
driftbound_status driftbound_probe(const driftbound_probe_request* request, const driftbound_probe_answer** answer);

/** Frees an answer and all that it points to. NULL is allowed. */
void driftbound_probe_free(const driftbound_probe_answer* answer);

#ifdef __cplusplus
}
#endif

#endif
