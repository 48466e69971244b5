#pragma once

#include <algorithm>
#include <bit>
#include <utility>

#include "support/bound_checks.hpp"

/// Sums over trees of which the bounds are told no more than the height.
namespace checks {

inline SummationOrder order_of_height(std::int64_t height, bool fma = false) {
  return {SummationOrder::Kind::height, height, fma};
}

/// Of a tree over n leaves.
inline std::int64_t least_height(std::size_t n) {
  return static_cast<std::int64_t>(std::bit_width(n - 1));
}

/// A random tree over products in random order, a product beside a sum fused or not.
template <class T>
class TreeOfHeight {
public:
  TreeOfHeight(std::vector<std::pair<T, T>> products, bool fma, Generator& generator)
      : products_(std::move(products)), fma_(fma), generator_(generator) {
    std::shuffle(products_.begin(), products_.end(), generator_);
  }

  T sum(std::int64_t height) { return sum(0, products_.size(), height); }

private:
  T sum(std::size_t first, std::size_t last, std::int64_t height) {
    const auto [p, q] = products_[first];
    const std::size_t n = last - first;
    if (n == 1) return p * q;
    const std::size_t room = std::size_t{1} << (height - 1);
    const std::size_t least = n > room ? n - room : 1, most = std::min(n - 1, room);
    const std::size_t left = least + generator_() % (most - least + 1);
    const T right = sum(first + left, last, height - 1);
    if (left == 1 && fma_ && generator_() % 2 == 0) return std::fma(p, q, right);
    return sum(first, first + left, height - 1) + right;
  }

  std::vector<std::pair<T, T>> products_;
  bool fma_;
  Generator& generator_;
};

/// One Gemm whose sums are random trees of at most `height`, the bias added last.
template <class T>
Tallies check_trees(const ProductSetup& setup, Data data, std::size_t k, Generator& generator) {
  const std::size_t m = 3, n = 4;
  const ArithmeticModel arithmetic = cpu_arithmetic(setup.arithmetic, setup.order);
  std::vector<double> a = operand<T>(data, m * k, false, generator), b = operand<T>(data, k * n, false, generator);
  shape_rows<T>(data, k, a, b);
  const std::vector<double> c = operand<T>(Data::uniform, n, false, generator);
  std::vector<double> computed;
  std::vector<Real> exact;
  for (std::size_t i = 0; i < m * n; ++i) {
    std::vector<std::pair<T, T>> products;
    Real sum;
    for (std::size_t l = 0; l < k; ++l) {
      const double p = a[i / n * k + l], q = b[l * n + i % n];
      products.emplace_back(naive::as_operand(static_cast<T>(p), arithmetic.input),
                            naive::as_operand(static_cast<T>(q), arithmetic.input));
      sum += Real(p) * Real(q);
    }
    const T y = TreeOfHeight<T>(products, setup.order.fma, generator).sum(setup.order.parameter);
    computed.push_back(static_cast<double>(setup.has_bias ? y + static_cast<T>(c[i % n]) : y));
    exact.push_back(setup.has_bias ? sum + Real(c[i % n]) : sum);
  }
  const auto extent = [](std::size_t x) { return static_cast<std::int64_t>(x); };
  std::vector<Tensor<double>> operands{{{extent(m), extent(k)}, a}, {{extent(k), extent(n)}, b}};
  if (setup.has_bias) operands.push_back({{extent(n)}, c});
  OneNode one = one_node(op::Gemm{}, operands, {{extent(m), extent(n)}, computed}, arithmetic);
  one.trace.provenance = foreign_provenance;
  const LayerBounds layer = bounds_of(one);
  Tallies tallies;
  for (std::size_t i = 0; i < m * n; ++i) {
    if (std::isfinite(computed[i])) tallies.add(layer, i, computed[i], exact[i]);
  }
  return tallies;
}

/// Trees from the lowest to chains, over data of every kind.
inline Tallies check_heights(ProductSetup setup, int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tallies tallies;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    for (int data = 0; data < static_cast<int>(Data::last); ++data) {
      const std::size_t k = 2 + generator() % 39;
      const std::int64_t least = least_height(k), heights = static_cast<std::int64_t>(k) - least;
      const auto more = static_cast<std::int64_t>(generator() % 4);
      setup.order = order_of_height(least + std::min(more, heights), generator() % 2 == 0);
      tallies += setup.arithmetic == "fp64" ? check_trees<double>(setup, static_cast<Data>(data), k, generator)
                                            : check_trees<float>(setup, static_cast<Data>(data), k, generator);
    }
  }
  return tallies;
}

/// 2^height numbers that a full tree adds up to 1: on every level 1 meets a sum of half a unit in its last place.
inline std::vector<double> lost_on_every_level(std::int64_t height) {
  std::vector<double> terms = {1.0};
  for (std::int64_t level = 0; level < height; ++level) {
    const std::size_t count = terms.size();
    terms.insert(terms.end(), count, std::ldexp(1.0, -24 - static_cast<int>(level)));
  }
  return terms;
}

/// The same with a product for 1 that is as good as half a unit above it, and rounded to it.
inline Tallies check_full_tree(std::int64_t height) {
  std::vector<double> a = lost_on_every_level(height), b(a.size(), 1.0);
  a[0] = 1.0 + 0x1p-23;
  b[0] = 1.0 - 0x1p-24;
  const std::vector<float> p(a.begin(), a.end()), q(b.begin(), b.end());
  const double computed = static_cast<double>(naive::dot({SummationOrder::Kind::pairwise, 0, false}, p, q));
  Real exact;
  for (std::size_t i = 0; i < a.size(); ++i) exact += Real(a[i]) * Real(b[i]);
  const auto k = static_cast<std::int64_t>(a.size());
  const OneNode one = one_node(op::MatMul{}, {{{1, k}, a}, {{k, 1}, b}}, {{1, 1}, {computed}},
                               cpu_arithmetic("fp32", order_of_height(height)));
  Tallies tallies;
  tallies.add(bounds_of(one), 0, computed, exact);
  return tallies;
}

}  // namespace checks
