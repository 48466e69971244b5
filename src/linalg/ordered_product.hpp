#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <type_traits>
#include <vector>

#include "driftbound/model/layout.hpp"
#include "driftbound/trace/arithmetic.hpp"

namespace driftbound {

/// The matrices of a product's right operand, packed for the kernels, by the offset at which each lies.
template <class Real>
using PackedMatrices = std::map<std::int64_t, std::vector<Real>>;

/// A[batch, i, k] as one row-major matrix of batches * m rows: `a` itself, or `gathered`, into which it is copied.
template <class Real>
const Real* in_rows(const ProductPlan& plan, std::type_identity_t<std::span<const Real>> a,
                    std::vector<Real>& gathered);

/// Packs the matrices of b that the plan names and `packed` lacks.
template <class Real>
void pack_missing(const ProductPlan& plan, std::type_identity_t<std::span<const Real>> b, PackedMatrices<Real>& packed);

/// C[batch, i, j] = sum_k A[batch, i, k] B[batch, k, j] in the declared order, row-major.
/// Guarantee: the same bits for every number of threads and every instruction set
template <class Real>
std::vector<Real> multiply(const ProductPlan& plan, std::type_identity_t<std::span<const Real>> a,
                           const PackedMatrices<Real>& b, const SummationOrder& order, int threads);

/// The same, written to c.
/// Shapes:    c [batches * m * n]
template <class Real>
void multiply_into(const ProductPlan& plan, std::type_identity_t<std::span<const Real>> a,
                   const PackedMatrices<Real>& b, const SummationOrder& order, int threads,
                   std::type_identity_t<std::span<Real>> c);

template <class Real>
void pack_missing(const ProductPlan& plan, const Tensor<Real>& b, PackedMatrices<Real>& packed) {
  pack_missing<Real>(plan, std::span<const Real>(b.values), packed);
}

template <class Real>
std::vector<Real> multiply(const ProductPlan& plan, const Tensor<Real>& a, const PackedMatrices<Real>& b,
                           const SummationOrder& order, int threads) {
  return multiply<Real>(plan, std::span<const Real>(a.values), b, order, threads);
}

}  // namespace driftbound
