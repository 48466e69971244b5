#include "linalg/ordered_product.hpp"

#include <algorithm>

#include "linalg/ordered_product_kernels.hpp"
#include "linalg/summation.hpp"
#include "num/parallel.hpp"

namespace driftbound {
namespace {

constexpr double operations_worth_a_thread = 1 << 20;

template <class Real>
std::vector<Real> packed_matrix(const ProductPlan& plan, const Real* b) {
  const auto width = static_cast<std::int64_t>(panel_width<Real>);
  const std::int64_t panels = (plan.n + width - 1) / width;
  std::vector<Real> packed(static_cast<std::size_t>(panels * plan.k * width));
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    const std::int64_t columns = std::min(width, plan.n - panel * width);
    for (std::int64_t k = 0; k < plan.k; ++k) {
      Real* row = packed.data() + (panel * plan.k + k) * width;
      const Real* source = b + k * plan.b_row + panel * width * plan.b_col;
      for (std::int64_t j = 0; j < columns; ++j) row[j] = source[j * plan.b_col];
    }
  }
  return packed;
}

template <class Real>
std::vector<Real> rows_of(const ProductPlan& plan, std::span<const Real> a) {
  std::vector<Real> rows;
  rows.reserve(static_cast<std::size_t>(plan.batches * plan.m * plan.k));
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    for (std::int64_t i = 0; i < plan.m; ++i) {
      for (std::int64_t k = 0; k < plan.k; ++k) rows.push_back(a[plan.a_index(batch, i, k)]);
    }
  }
  return rows;
}

bool is_row_major(const ProductPlan& plan) {
  if (plan.a_col != 1 || plan.a_row != plan.k) return false;
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    if (plan.a_batch[static_cast<std::size_t>(batch)] != batch * plan.m * plan.k) return false;
  }
  return true;
}

int threads_for(std::int64_t rows, std::size_t n, std::size_t k, int threads) {
  const double operations = static_cast<double>(rows) * static_cast<double>(n) * static_cast<double>(k);
  return operations < operations_worth_a_thread ? 1 : threads;
}

}  // namespace

template <class Real>
const Real* in_rows(const ProductPlan& plan, std::type_identity_t<std::span<const Real>> a,
                    std::vector<Real>& gathered) {
  if (is_row_major(plan)) return a.data();
  gathered = rows_of<Real>(plan, a);
  return gathered.data();
}

template <class Real>
void pack_missing(const ProductPlan& plan, std::type_identity_t<std::span<const Real>> b,
                  PackedMatrices<Real>& packed) {
  for (const std::int64_t offset : plan.b_batch) {
    if (!packed.contains(offset)) packed.emplace(offset, packed_matrix(plan, b.data() + offset));
  }
}

template <class Real>
std::vector<Real> multiply(const ProductPlan& plan, std::type_identity_t<std::span<const Real>> a,
                           const PackedMatrices<Real>& b, const SummationOrder& order, int threads) {
  std::vector<Real> c(static_cast<std::size_t>(plan.batches * plan.m * plan.n));
  multiply_into<Real>(plan, a, b, order, threads, c);
  return c;
}

template <class Real>
void multiply_into(const ProductPlan& plan, std::type_identity_t<std::span<const Real>> a,
                   const PackedMatrices<Real>& b, const SummationOrder& order, int threads,
                   std::type_identity_t<std::span<Real>> c) {
  if (c.empty()) return;
  std::vector<Real> gathered;
  const Real* const rows = in_rows<Real>(plan, a, gathered);
  for (std::int64_t first = 0, last = 0; first < plan.batches; first = last) {  // batches that share a B
    const std::int64_t offset = plan.b_batch[static_cast<std::size_t>(first)];
    while (last < plan.batches && plan.b_batch[static_cast<std::size_t>(last)] == offset) ++last;
    PackedProduct<Real> product;
    product.a = rows + first * plan.m * plan.k;
    product.b = b.at(offset).data();
    product.c = c.data() + first * plan.m * plan.n;
    product.m = static_cast<std::size_t>((last - first) * plan.m);
    product.n = static_cast<std::size_t>(plan.n);
    product.k = static_cast<std::size_t>(plan.k);
    product.chain = chain_length(order, plan.k);
    product.fma = order.fma;
    const std::int64_t count = (last - first) * plan.m;
    parallel_for(count, threads_for(count, product.n, product.k, threads), [&](std::int64_t from, std::int64_t to) {
      fastest_product_kernels().multiply(product, static_cast<std::size_t>(from), static_cast<std::size_t>(to));
    });
  }
}

template const float* in_rows<float>(const ProductPlan&, std::span<const float>, std::vector<float>&);
template const double* in_rows<double>(const ProductPlan&, std::span<const double>, std::vector<double>&);
template void pack_missing<float>(const ProductPlan&, std::span<const float>, PackedMatrices<float>&);
template void pack_missing<double>(const ProductPlan&, std::span<const double>, PackedMatrices<double>&);
template void multiply_into<float>(const ProductPlan&, std::span<const float>, const PackedMatrices<float>&,
                                   const SummationOrder&, int, std::span<float>);
template void multiply_into<double>(const ProductPlan&, std::span<const double>, const PackedMatrices<double>&,
                                    const SummationOrder&, int, std::span<double>);
template std::vector<float> multiply<float>(const ProductPlan&, std::span<const float>, const PackedMatrices<float>&,
                                            const SummationOrder&, int);
template std::vector<double> multiply<double>(const ProductPlan&, std::span<const double>,
                                              const PackedMatrices<double>&, const SummationOrder&, int);

}  // namespace driftbound
