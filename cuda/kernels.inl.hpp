// What a device computes, one index at a time: every functor below gives element i of its result by itself, so that
// no result depends on how the work is spread over threads. CUDA runs them as kernels, the tests as plain loops.
#pragma once

#include <cmath>
#include <cstdint>

#include "evaluate/device/interface.h"
#include "evaluate/shared/device_functions.inl.hpp"
#include "evaluate/shared/elements.inl.hpp"
#include "num/ieee.inl.hpp"
#include "num/narrow.inl.hpp"

namespace driftbound::device {

/// Where element `index` of a view lies, in elements.
DRIFTBOUND_HD inline std::int64_t position(const driftbound_view& view, std::int64_t index) {
  std::int64_t at = view.offset;
  for (int d = view.rank - 1; d > 0; --d) {
    const std::int64_t rest = index / view.extent[d];
    at += (index - rest * view.extent[d]) * view.stride[d];
    index = rest;
  }
  return view.rank > 0 ? at + index * view.stride[0] : at;
}

template <class Element>
struct Move {
  const Element* from;
  driftbound_view from_view;
  Element* to;
  driftbound_view to_view;

  DRIFTBOUND_HD void operator()(std::int64_t i) const { to[position(to_view, i)] = from[position(from_view, i)]; }
};

template <class Real, driftbound_unary function>
struct Unary {
  const Real* x;
  Real* y;
  double exact_parameter;

  DRIFTBOUND_HD void operator()(std::int64_t i) const { y[i] = narrow::canonical(value(x[i])); }

private:
  DRIFTBOUND_HD Real value(Real v) const {
    using Functions = shared::DeviceFunctions<Real>;
    const Real parameter = static_cast<Real>(exact_parameter);
    if constexpr (function == DRIFTBOUND_NEG) {
      return -v;
    } else if constexpr (function == DRIFTBOUND_RELU) {
      return shared::relu(v);
    } else if constexpr (function == DRIFTBOUND_LEAKY_RELU) {
      return shared::leaky_relu(v, parameter);
    } else if constexpr (function == DRIFTBOUND_ELU) {
      return shared::elu<Functions>(v, parameter);
    } else if constexpr (function == DRIFTBOUND_TANH) {
      return Functions::tanh(v);
    } else if constexpr (function == DRIFTBOUND_SIGMOID) {
      return Functions::sigmoid(v);
    } else if constexpr (function == DRIFTBOUND_SOFTPLUS) {
      return Functions::softplus(v);
    } else if constexpr (function == DRIFTBOUND_SIN) {
      return Functions::sin(v);
    } else if constexpr (function == DRIFTBOUND_COS) {
      return Functions::cos(v);
    } else if constexpr (function == DRIFTBOUND_EXP) {
      return Functions::exp(v);
    } else if constexpr (function == DRIFTBOUND_ERF) {
      return Functions::erf(v);
    } else if constexpr (function == DRIFTBOUND_SQRT) {
      return ieee::square_root(v);
    } else if constexpr (function == DRIFTBOUND_ABS) {
      return v < 0 || v == 0 ? Real(0) - v : v;
    } else if constexpr (function == DRIFTBOUND_RECIPROCAL) {
      return Real(1) / v;
    } else if constexpr (function == DRIFTBOUND_LOG) {
      return Functions::log(v);
    } else if constexpr (function == DRIFTBOUND_TAN) {
      return Functions::tan(v);
    } else if constexpr (function == DRIFTBOUND_ATAN) {
      return Functions::atan(v);
    } else if constexpr (function == DRIFTBOUND_SINH) {
      return Functions::sinh(v);
    } else if constexpr (function == DRIFTBOUND_COSH) {
      return Functions::cosh(v);
    } else if constexpr (function == DRIFTBOUND_FLOOR) {
      return std::floor(v);
    } else if constexpr (function == DRIFTBOUND_CEIL) {
      return std::ceil(v);
    } else if constexpr (function == DRIFTBOUND_ROUND) {
      return std::rint(v);
    } else if constexpr (function == DRIFTBOUND_SIGN) {
      return shared::sign(v);
    } else if constexpr (function == DRIFTBOUND_POW) {
      return Functions::pow(v, exact_parameter);
    } else if constexpr (function == DRIFTBOUND_RAISE) {
      return shared::raise(v, parameter);
    } else if constexpr (function == DRIFTBOUND_LOWER) {
      return shared::lower(v, parameter);
    } else if constexpr (function == DRIFTBOUND_THRESHOLDED_RELU) {
      return shared::thresholded_relu(v, parameter);
    } else {
      static_assert(function == DRIFTBOUND_SCALE);
      return parameter * v;
    }
  }
};

template <class Real, driftbound_binary function>
struct Binary {
  const Real* a;
  driftbound_view a_view;
  const Real* b;
  driftbound_view b_view;
  Real* y;

  DRIFTBOUND_HD void operator()(std::int64_t i) const {
    y[i] = narrow::canonical(value(a[position(a_view, i)], b[position(b_view, i)]));
  }

private:
  DRIFTBOUND_HD static Real value(Real u, Real v) {
    if constexpr (function == DRIFTBOUND_ADD) {
      return u + v;
    } else if constexpr (function == DRIFTBOUND_SUB) {
      return u - v;
    } else if constexpr (function == DRIFTBOUND_MUL) {
      return u * v;
    } else if constexpr (function == DRIFTBOUND_MIN) {
      return shared::minimum(u, v);
    } else if constexpr (function == DRIFTBOUND_MAX) {
      return shared::maximum(u, v);
    } else if constexpr (function == DRIFTBOUND_PRELU) {
      return shared::prelu(u, v);
    } else if constexpr (function == DRIFTBOUND_GREATER) {
      return shared::greater(u, v);
    } else if constexpr (function == DRIFTBOUND_GREATER_OR_EQUAL) {
      return shared::greater_or_equal(u, v);
    } else if constexpr (function == DRIFTBOUND_EQUAL) {
      return shared::equal(u, v);
    } else {
      static_assert(function == DRIFTBOUND_DIV);
      return u / v;
    }
  }
};

template <class Real>
struct Choose {
  const Real* c;
  driftbound_view c_view;
  const Real* a;
  driftbound_view a_view;
  const Real* b;
  driftbound_view b_view;
  Real* y;

  DRIFTBOUND_HD void operator()(std::int64_t i) const {
    y[i] = narrow::canonical(shared::choice(c[position(c_view, i)], a[position(a_view, i)], b[position(b_view, i)]));
  }
};

template <class Element>
struct Gather {
  const Element* from;
  const std::int64_t* table;
  Element* to;

  DRIFTBOUND_HD void operator()(std::int64_t i) const {
    if (table[i] >= 0) to[i] = from[table[i]];
  }
};

template <class Real>
struct Fill {
  Real* y;
  Real value;

  DRIFTBOUND_HD void operator()(std::int64_t i) const { y[i] = value; }
};

/// Chains of terms that a table names.
template <class Real>
struct TableChain {
  const Real* terms;
  const std::int64_t* table;

  DRIFTBOUND_HD Real operator()(std::int64_t first, std::int64_t last) const {
    Real sum = terms[table[first]];
    for (std::int64_t j = first + 1; j < last; ++j) sum += terms[table[j]];
    return sum;
  }
};

/// One group an index.
template <class Real, driftbound_reduction reduction>
struct Reduce {
  const Real* x;
  const std::int64_t* groups;
  const std::int64_t* elements;
  std::int64_t element_count, chain;
  Real* y;

  DRIFTBOUND_HD void operator()(std::int64_t group) const {
    const Real* terms = x + groups[group];
    if constexpr (reduction == DRIFTBOUND_REDUCE_SUM) {
      y[group] = narrow::canonical(shared::OrderedSum{chain}(element_count, TableChain<Real>{terms, elements}));
    } else {
      Real result = terms[elements[0]];
      for (std::int64_t j = 1; j < element_count; ++j) {
        const Real term = terms[elements[j]];
        result = reduction == DRIFTBOUND_REDUCE_MAX ? shared::maximum(result, term) : shared::minimum(result, term);
      }
      y[group] = narrow::canonical(result);
    }
  }
};

/// One Softmax group an index.
template <class Real>
struct Softmax {
  const Real* x;
  Real* y;
  std::int64_t length, inner, chain;

  DRIFTBOUND_HD void operator()(std::int64_t group) const {
    const std::int64_t first = group / inner * length * inner + group % inner;
    shared::softmax<shared::DeviceFunctions<Real>>(x + first, y + first, length, inner, shared::OrderedSum{chain});
  }
};

template <class Real>
struct Round {
  const Real* x;
  Real* y;
  narrow::Layout format;

  DRIFTBOUND_HD void operator()(std::int64_t i) const { y[i] = narrow::rounded(x[i], format); }
};

struct NarrowToBf16 {
  const float* x;
  std::uint16_t* y;

  DRIFTBOUND_HD void operator()(std::int64_t i) const { y[i] = narrow::to_bf16(x[i]); }
};

struct NarrowToFp16 {
  const float* x;
  std::uint16_t* y;

  DRIFTBOUND_HD void operator()(std::int64_t i) const { y[i] = narrow::to_fp16(x[i]); }
};

}  // namespace driftbound::device
