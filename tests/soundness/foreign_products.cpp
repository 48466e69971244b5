#include "soundness/foreign_products.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "soundness/random.hpp"

#ifdef DRIFTBOUND_WITH_EIGEN
#include <Eigen/Core>
#endif
#ifdef DRIFTBOUND_WITH_OPENBLAS
#include <cblas.h>
#endif

// Where the processor has fused multiply-adds, loops over rows use them; results are the same bits without.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define DRIFTBOUND_WITH_FMA_CLONE __attribute__((target_clones("arch=haswell", "default")))
#else
#define DRIFTBOUND_WITH_FMA_CLONE
#endif

namespace driftbound::soundness {
namespace {

DRIFTBOUND_WITH_FMA_CLONE void add_fused(const float* a, float b, float* sum, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] = std::fma(a[i], b, sum[i]);
}

void add_rounded(const float* a, float b, float* sum, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += a[i] * b;
}

/// One column of a product for all rows at once.
class Column {
public:
  /// `transposed`: [k, m]
  Column(const FloatProduct& product, const std::vector<float>& transposed, std::size_t column, Random& random)
      : product_(product), transposed_(transposed), column_(column), random_(random), order_(terms()) {
    for (std::size_t i = order_.size(); i > 1; --i) {
      const auto other = static_cast<std::size_t>(random_.integer(0, static_cast<std::int64_t>(i) - 1));
      std::swap(order_[i - 1], order_[other]);
    }
  }

  std::vector<float> sum() {
    share_fused_ = random_.pick(std::vector<double>{0.0, 0.5, 1.0});
    const bool is_chain = random_.chance(0.5);
    return is_chain ? chain(order_) : tree(order_);
  }

private:
  std::vector<std::size_t> terms() const {
    std::vector<std::size_t> all(product_.k + (product_.bias.empty() ? 0 : 1));
    std::iota(all.begin(), all.end(), std::size_t{0});
    return all;
  }
  bool is_bias(std::size_t term) const { return term == product_.k; }
  const float* row(std::size_t term) const { return transposed_.data() + term * product_.m; }
  float weight(std::size_t term) const { return product_.b[term * product_.n + column_]; }

  std::vector<float> start(std::size_t term) const {
    std::vector<float> sum(product_.m);
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] = is_bias(term) ? product_.bias[column_] : row(term)[i] * weight(term);
    return sum;
  }

  std::vector<float> chain(std::span<const std::size_t> terms) {
    std::vector<float> sum = start(terms.front());
    for (const std::size_t term : terms.subspan(1)) {
      if (is_bias(term)) {
        for (float& x : sum) x += product_.bias[column_];
      } else if (random_.chance(share_fused_)) {
        add_fused(row(term), weight(term), sum.data(), sum.size());
      } else {
        add_rounded(row(term), weight(term), sum.data(), sum.size());
      }
    }
    return sum;
  }

  std::vector<float> tree(std::span<const std::size_t> terms) {
    if (terms.size() <= 3) return chain(terms);
    const auto left = static_cast<std::size_t>(random_.integer(1, static_cast<std::int64_t>(terms.size()) - 1));
    std::vector<float> sum = tree(terms.first(left));
    const std::vector<float> rest = tree(terms.subspan(left));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += rest[i];
    return sum;
  }

  const FloatProduct& product_;
  const std::vector<float>& transposed_;
  std::size_t column_;
  Random& random_;
  double share_fused_ = 0.0;
  std::vector<std::size_t> order_;
};

std::vector<float> permuted(const FloatProduct& product, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> transposed(product.k * product.m), result(product.m * product.n);
  for (std::size_t i = 0; i < product.m; ++i) {
    for (std::size_t l = 0; l < product.k; ++l) transposed[l * product.m + i] = product.a[i * product.k + l];
  }
  for (std::size_t j = 0; j < product.n; ++j) {
    const std::vector<float> column = Column(product, transposed, j, random).sum();
    for (std::size_t i = 0; i < product.m; ++i) result[i * product.n + j] = column[i];
  }
  return result;
}

struct SignOrder {
  bool positive_first, then_smallest_first;
};

float sum_by_sign(std::vector<float>& terms, SignOrder order) {
  const auto is_first = [&](float x) { return (x > 0.0f) == order.positive_first; };
  const auto is_larger = [](float x, float y) { return std::abs(x) > std::abs(y); };
  const auto second = std::partition(terms.begin(), terms.end(), is_first);
  std::sort(terms.begin(), second, is_larger);
  std::sort(second, terms.end(), is_larger);
  if (order.then_smallest_first) std::reverse(second, terms.end());
  return std::accumulate(terms.begin(), terms.end(), 0.0f);
}

std::vector<float> multiply_by_sign(const FloatProduct& product, SignOrder order) {
  std::vector<float> result(product.m * product.n), terms;
  for (std::size_t i = 0; i < product.m; ++i) {
    for (std::size_t j = 0; j < product.n; ++j) {
      terms.clear();
      for (std::size_t l = 0; l < product.k; ++l)
        terms.push_back(product.a[i * product.k + l] * product.b[l * product.n + j]);
      if (!product.bias.empty()) terms.push_back(product.bias[j]);
      result[i * product.n + j] = sum_by_sign(terms, order);
    }
  }
  return result;
}

#if defined(DRIFTBOUND_WITH_EIGEN) || defined(DRIFTBOUND_WITH_OPENBLAS)
void add_bias(const FloatProduct& product, std::vector<float>& result) {
  if (product.bias.empty()) return;
  for (std::size_t i = 0; i < result.size(); ++i) result[i] += product.bias[i % product.n];
}
#endif

#ifdef DRIFTBOUND_WITH_EIGEN
std::vector<float> by_eigen(const FloatProduct& product) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto at = [](std::size_t i) { return static_cast<Eigen::Index>(i); };
  const Eigen::Map<const Matrix> a(product.a.data(), at(product.m), at(product.k));
  const Eigen::Map<const Matrix> b(product.b.data(), at(product.k), at(product.n));
  std::vector<float> result(product.m * product.n);
  Eigen::Map<Matrix> c(result.data(), at(product.m), at(product.n));
  c.noalias() = a * b;
  add_bias(product, result);
  return result;
}
#endif

#ifdef DRIFTBOUND_WITH_OPENBLAS
std::vector<float> by_openblas(const FloatProduct& product) {
  const auto m = static_cast<int>(product.m), k = static_cast<int>(product.k), n = static_cast<int>(product.n);
  std::vector<float> result(product.m * product.n);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0f, product.a.data(), k, product.b.data(), n, 0.0f,
              result.data(), n);
  add_bias(product, result);
  return result;
}
#endif

}  // namespace

ForeignProduct permuted_product(std::uint64_t seed) {
  return {fmt::format("permuted:{:#x}", seed), [seed](const FloatProduct& product) { return permuted(product, seed); }};
}

std::vector<ForeignProduct> products_by_sign() {
  std::vector<ForeignProduct> products;
  for (const bool positive_first : {true, false}) {
    for (const bool then_smallest_first : {true, false}) {
      products.push_back(
          {fmt::format("{} terms first, then the {} of the others", positive_first ? "positive" : "negative",
                       then_smallest_first ? "smallest" : "largest"),
           [=](const FloatProduct& product) {
             return multiply_by_sign(product, {positive_first, then_smallest_first});
           }});
    }
  }
  return products;
}

std::vector<ForeignProduct> library_products() {
  std::vector<ForeignProduct> products;
#ifdef DRIFTBOUND_WITH_EIGEN
  products.push_back({"Eigen", by_eigen});
#endif
#ifdef DRIFTBOUND_WITH_OPENBLAS
  products.push_back({"OpenBLAS", by_openblas});
#endif
  return products;
}

}  // namespace driftbound::soundness
