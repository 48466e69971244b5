/* The interface between driftbound and a module that computes on a device, loaded at run time. It is C, so that
 * module and library may come from different compilers; both include this file, as C++17 or later.
 *
 * A module exports one function, driftbound_device_entry. Pointers to device memory are opaque to the library.
 * Every function returns a driftbound_device_status; after a failure message() says what failed, in one sentence
 * without the name of the layer, which the library adds. Work of one device is in the order of the calls; only
 * download() and synchronize() wait for it. A device is used by one thread at a time.
 *
 * Every NaN that is computed is the quiet NaN 0x7fc00000 or 0x7ff8000000000000; upload() and move() keep the bits they
 * are given, and the vendor's product has the vendor's NaN. */
#ifndef DRIFTBOUND_EVALUATE_DEVICE_INTERFACE_H
#define DRIFTBOUND_EVALUATE_DEVICE_INTERFACE_H

#include <stdint.h>

/* Counts up with every change of this file; a module of another number is refused. */
#define DRIFTBOUND_DEVICE_INTERFACE 5u
#define DRIFTBOUND_DEVICE_MAX_RANK 12
#define DRIFTBOUND_DEVICE_MAX_ALGORITHMS 32

#ifdef __cplusplus
extern "C" {
#endif

typedef struct driftbound_device driftbound_device;

typedef enum driftbound_device_status {
  DRIFTBOUND_DEVICE_OK = 0,
  DRIFTBOUND_DEVICE_NOT_AVAILABLE = 1, /* no driver, driver too old, no device, no cuBLAS */
  DRIFTBOUND_DEVICE_OUT_OF_MEMORY = 2,
  DRIFTBOUND_DEVICE_LOST = 3, /* nothing more can be computed in this process */
  DRIFTBOUND_DEVICE_UNSUPPORTED = 4,
  DRIFTBOUND_DEVICE_FAILED = 5
} driftbound_device_status;

typedef enum driftbound_real { DRIFTBOUND_F32 = 0, DRIFTBOUND_F64 = 1 } driftbound_real;

/* Formats that a Real can be rounded to, to nearest even; TF32 keeps 11 significant bits in a float32. */
typedef enum driftbound_format {
  DRIFTBOUND_FORMAT_FP32 = 0,
  DRIFTBOUND_FORMAT_TF32 = 1,
  DRIFTBOUND_FORMAT_BF16 = 2,
  DRIFTBOUND_FORMAT_FP16 = 3
} driftbound_format;

typedef enum driftbound_unary {
  DRIFTBOUND_NEG = 0,
  DRIFTBOUND_RELU = 1,
  DRIFTBOUND_LEAKY_RELU = 2, /* parameter: alpha */
  DRIFTBOUND_ELU = 3,        /* parameter: alpha */
  DRIFTBOUND_TANH = 4,
  DRIFTBOUND_SIGMOID = 5,
  DRIFTBOUND_SOFTPLUS = 6,
  DRIFTBOUND_SIN = 7,
  DRIFTBOUND_COS = 8,
  DRIFTBOUND_EXP = 9,
  DRIFTBOUND_ERF = 10,
  DRIFTBOUND_SQRT = 11,
  DRIFTBOUND_SCALE = 12, /* parameter * x */
  DRIFTBOUND_ABS = 13,
  DRIFTBOUND_RECIPROCAL = 14,
  DRIFTBOUND_LOG = 15,
  DRIFTBOUND_TAN = 16,
  DRIFTBOUND_ATAN = 17,
  DRIFTBOUND_SINH = 18,
  DRIFTBOUND_COSH = 19,
  DRIFTBOUND_FLOOR = 20,
  DRIFTBOUND_CEIL = 21,
  DRIFTBOUND_SIGN = 22,
  DRIFTBOUND_POW = 23,              /* x^parameter */
  DRIFTBOUND_RAISE = 24,            /* parameter for x below it */
  DRIFTBOUND_LOWER = 25,            /* parameter for x above it */
  DRIFTBOUND_THRESHOLDED_RELU = 26, /* parameter: alpha */
  DRIFTBOUND_ROUND = 27             /* to the nearest integer, the even one of two */
} driftbound_unary;

typedef enum driftbound_binary {
  DRIFTBOUND_ADD = 0,
  DRIFTBOUND_SUB = 1,
  DRIFTBOUND_MUL = 2,
  DRIFTBOUND_DIV = 3,
  DRIFTBOUND_MIN = 4,
  DRIFTBOUND_MAX = 5,
  DRIFTBOUND_PRELU = 6,   /* b: slopes */
  DRIFTBOUND_GREATER = 7, /* a > b: 0 or 1, as the next two */
  DRIFTBOUND_GREATER_OR_EQUAL = 8,
  DRIFTBOUND_EQUAL = 9
} driftbound_binary;

typedef enum driftbound_reduction {
  DRIFTBOUND_REDUCE_SUM = 0,
  DRIFTBOUND_REDUCE_MAX = 1,
  DRIFTBOUND_REDUCE_MIN = 2
} driftbound_reduction;

/* How the vendor's matrix product computes. Operands are float32 (F32, TF32), 16 bits wide (BF16, FP16) or
 * float64; the result is float32 or float64. */
typedef enum driftbound_gemm_mode {
  DRIFTBOUND_GEMM_F32 = 0, /* CUBLAS_COMPUTE_32F */
  DRIFTBOUND_GEMM_F32_PEDANTIC = 1,
  DRIFTBOUND_GEMM_TF32 = 2, /* CUBLAS_COMPUTE_32F_FAST_TF32 */
  DRIFTBOUND_GEMM_BF16 = 3, /* CUBLAS_COMPUTE_32F, operands bfloat16 */
  DRIFTBOUND_GEMM_FP16 = 4, /* CUBLAS_COMPUTE_32F, operands float16 */
  DRIFTBOUND_GEMM_F64 = 5,  /* CUBLAS_COMPUTE_64F */
  DRIFTBOUND_GEMM_F64_PEDANTIC = 6
} driftbound_gemm_mode;

typedef struct driftbound_device_info {
  char backend[16];      /* "cuda" */
  char name[256];        /* "NVIDIA H200" */
  char build_flags[512]; /* compiler and floating-point flags of the module's kernels */
  char environment[512]; /* variables that change the vendor's arithmetic and are set: "NVIDIA_TF32_OVERRIDE=1" */
  int32_t compute_major, compute_minor;
  int32_t multiprocessors;
  int32_t driver_version, runtime_version; /* CUDA versions as the vendor counts: 13000 */
  int32_t blas_version;                    /* 130000 */
  uint64_t memory_bytes;
} driftbound_device_info;

/* Where the elements of a tensor lie: element (i_0, ..., i_{rank-1}) at offset + sum_d i_d stride[d], in elements.
 * The last index runs fastest in the order of the elements. */
typedef struct driftbound_view {
  int32_t rank;
  int64_t offset;
  int64_t extent[DRIFTBOUND_DEVICE_MAX_RANK];
  int64_t stride[DRIFTBOUND_DEVICE_MAX_RANK];
} driftbound_view;

/* C[i, j] = sum_k A[i, k] B[k, j]; C is row-major [m, n] without gaps. Strides in elements. m, n, k >= 1. */
typedef struct driftbound_product {
  int64_t m, n, k;
  const void* a;
  int64_t a_row, a_col;
  const void* b;
  int64_t b_row, b_col;
  void* c;
} driftbound_product;

/* How the sums of the parts of a split inner dimension are added. */
typedef enum driftbound_split_reduction {
  DRIFTBOUND_SPLIT_NONE = 0,           /* it is not split, or the algorithm does not say */
  DRIFTBOUND_SPLIT_IN_PLACE = 1,       /* in the result, one after the other */
  DRIFTBOUND_SPLIT_IN_SUM_TYPE = 2,    /* in the type of the sums, by a step of its own */
  DRIFTBOUND_SPLIT_IN_RESULT_TYPE = 3, /* rounded to the type of the result before, by a step of its own */
  DRIFTBOUND_SPLIT_OTHER = 4
} driftbound_split_reduction;

/* An algorithm of the vendor's product, as the vendor's library describes it. The names are the library's; "" where it
 * has none. */
typedef struct driftbound_algorithm {
  int32_t id;
  char tile[24];    /* "128x64": elements of the vendor's result, the transpose of C, that are computed together */
  char stages[24];  /* "32x3": length of the inner dimension that is loaded at once, and such loads on the way */
  char cluster[24]; /* "2x1x1" */
  int32_t split_k;  /* parts of the inner dimension that are added up apart; 0, 1: one */
  driftbound_split_reduction reduction;
  uint32_t swizzle, custom;
  uint64_t workspace_bytes;
} driftbound_algorithm;

typedef struct driftbound_device_functions {
  uint32_t interface_version; /* DRIFTBOUND_DEVICE_INTERFACE */

  /* What the last failure in this thread was; never NULL. */
  const char* (*message)(void);

  int (*open)(int32_t ordinal, driftbound_device** device, driftbound_device_info* info);
  void (*close)(driftbound_device* device);

  int (*memory)(driftbound_device* device, uint64_t* free_bytes, uint64_t* all_bytes);
  int (*allocate)(driftbound_device* device, uint64_t bytes, void** memory);
  void (*release)(driftbound_device* device, void* memory);
  /* `from` may be changed once this returns. */
  int (*upload)(driftbound_device* device, void* to, const void* from, uint64_t bytes);
  int (*download)(driftbound_device* device, void* to, const void* from, uint64_t bytes);
  int (*synchronize)(driftbound_device* device);

  /* to[i] = from[i] over the elements of two views of the same extents; 2, 4 or 8 bytes an element. */
  int (*move)(driftbound_device* device, int32_t bytes_per_element, const void* from, const driftbound_view* from_view,
              void* to, const driftbound_view* to_view);

  /* y[i] = f(x[i]), count elements without gaps; y may be x. */
  int (*unary)(driftbound_device* device, driftbound_real real, driftbound_unary function, double parameter,
               const void* x, void* y, int64_t count);

  /* y[i] = a[i] op b[i]; y without gaps, in the order of the views' elements; y may be a or b where that view has no
   * gaps either. */
  int (*binary)(driftbound_device* device, driftbound_real real, driftbound_binary function, const void* a,
                const driftbound_view* a_view, const void* b, const driftbound_view* b_view, void* y);

  /* y[i] = a[i] where c[i] > 1/2, else b[i]; y without gaps and none of the operands. */
  int (*choose)(driftbound_device* device, driftbound_real real, const void* c, const driftbound_view* c_view,
                const void* a, const driftbound_view* a_view, const void* b, const driftbound_view* b_view, void* y);

  /* to[i] = from[table[i]] wherever table[i] >= 0; 2, 4 or 8 bytes an element, the table on the device. */
  int (*gather)(driftbound_device* device, int32_t bytes_per_element, const void* from, const int64_t* table, void* to,
                int64_t count);

  /* y[i] = value */
  int (*fill)(driftbound_device* device, driftbound_real real, double value, void* y, int64_t count);

  /* y[g] = the sum, largest or smallest of x[groups[g] + elements[j]] over j; at least one element, both tables on the
   * device. Sums add as in softmax. */
  int (*reduce)(driftbound_device* device, driftbound_real real, driftbound_reduction reduction, const void* x,
                const int64_t* groups, int64_t group_count, const int64_t* elements, int64_t element_count,
                int64_t chain, void* y);

  /* Softmax over j of element j of group (o, i) at (o * length + j) * inner + i. The sum adds chains of `chain`
   * terms, then their sums, one after the other; chain 0: pairwise (trace/arithmetic.hpp). */
  int (*softmax)(driftbound_device* device, driftbound_real real, const void* x, void* y, int64_t outer, int64_t length,
                 int64_t inner, int64_t chain);

  /* y[i] = x[i] rounded to the format, stored as Real; y may be x. */
  int (*round)(driftbound_device* device, driftbound_real real, driftbound_format format, const void* x, void* y,
               int64_t count);

  /* float32 rounded to bfloat16 or float16 and stored in 16 bits. */
  int (*narrow)(driftbound_device* device, driftbound_format format, const void* x, void* y, int64_t count);

  /* The vendor's product. For A one of a_row, a_col is 1, likewise for B; else UNSUPPORTED. */
  int (*gemm)(driftbound_device* device, driftbound_gemm_mode mode, const driftbound_product* product);

  /* The algorithms that the vendor's library offers for a product, the one that it expects to be the fastest first;
   * `found` has room for DRIFTBOUND_DEVICE_MAX_ALGORITHMS. Of A, B and C the alignment alone counts: NULL is aligned. */
  int (*algorithms)(driftbound_device* device, driftbound_gemm_mode mode, const driftbound_product* product,
                    driftbound_algorithm* found, int32_t* count);

  /* The vendor's product by one of these, numbered from 0 on, which `used` describes; UNSUPPORTED where there is none
   * of this number. Strides as of gemm. */
  int (*gemm_by)(driftbound_device* device, driftbound_gemm_mode mode, const driftbound_product* product,
                 int32_t algorithm, driftbound_algorithm* used);

  /* Our own product in its declared order, the same bits for every m: chains of `chain` products, the first product
   * rounded, further ones fused where `fused`, their sums added one after the other; chain 0: pairwise. */
  int (*ordered_product)(driftbound_device* device, driftbound_real real, const driftbound_product* product,
                         int64_t chain, int32_t fused);
} driftbound_device_functions;

/* Returns NULL where the module does not know the interface asked for. */
typedef const driftbound_device_functions* (*driftbound_device_entry_function)(uint32_t interface_version);

#ifdef __cplusplus
}
#endif

#endif
