#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bounds/nodes/operand_cache.hpp"
#include "bounds/rows/run_step.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "support/tally.hpp"
#include "support/trajectory_checks.hpp"

/// Shares of adjoints in single precision (T-72) against sums of exact products.
namespace checks {

/// A product of rows of k numbers with a matrix [k, n], as a RunWalk takes it.
class HeldProduct {
public:
  /// x W, W held as it is or, for Gemm with transB, the other way round.
  HeldProduct(const Tensor<float>& operands, std::int64_t rows, bool is_transposed = false)
      : is_transposed_(is_transposed),
        graph_(graph_of(operands, is_transposed)),
        operands_(graph_.value(graph_.nodes[0].inputs[1]).constant.to_double()),
        arithmetic_(cpu_arithmetic("fp32", parse_summation_order("pairwise"))),
        setting_(setting_of(arithmetic_)),
        program_(graph_, {{rows, static_cast<std::int64_t>(k())}}, rows),
        step_(bounds::run_step_of({program_, program_.nodes()[0], {nullptr, &operands_}}, {}, setting_, packed_,
                                  conditions_)) {}

  const bounds::RunStep& step() const { return *step_; }
  std::size_t k() const { return static_cast<std::size_t>(operands_.shape[is_transposed_ ? 1 : 0]); }
  double weight(std::size_t k, std::size_t j) const {
    const auto width = static_cast<std::size_t>(operands_.shape[1]);
    return operands_.values[is_transposed_ ? j * width + k : k * width + j];
  }

private:
  static Graph graph_of(const Tensor<float>& operands, bool is_transposed) {
    Graph graph;
    const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {operands.shape[0], ""}});
    const ValueId w = graph.add_constant("w", StoredTensor::from(is_transposed ? transposed(operands) : operands));
    const Op product = is_transposed ? Op(op::Gemm{.transpose_b = true}) : Op(op::MatMul{});
    graph.outputs = {graph.add_node("y", product, {x, w})};
    return graph;
  }
  static Tensor<float> transposed(const Tensor<float>& operands) {
    Tensor<float> result({operands.shape[1], operands.shape[0]});
    const auto k = static_cast<std::size_t>(operands.shape[0]), n = static_cast<std::size_t>(operands.shape[1]);
    for (std::size_t i = 0; i < k; ++i)
      for (std::size_t j = 0; j < n; ++j) result.values[j * k + i] = operands.values[i * n + j];
    return result;
  }

  bool is_transposed_;
  Graph graph_;
  Tensor<double> operands_;
  ArithmeticModel arithmetic_;
  bounds::Setting setting_;
  Program program_;
  bounds::OperandCache packed_;
  std::set<std::string> conditions_;
  std::unique_ptr<const bounds::RunStep> step_;
};

inline void check_shares(const HeldProduct& product, const bounds::SingleAdjoint& d, Tally& tally) {
  const std::size_t rows = d.defect.size(), n = d.d.size() / rows, k = product.k();
  std::vector<std::size_t> of(rows);
  for (std::size_t row = 0; row < rows; ++row) of[row] = row % 2;
  bounds::SingleAdjoint share;
  share.d.resize(rows * k);
  share.defect.resize(rows);
  product.step().pull_back(0, bounds::RunErrors(), std::span<const float>(), of, d, share);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < k; ++i) {
      Real exact;
      for (std::size_t j = 0; j < n; ++j) exact += Real(d.d[row * n + j]) * Real(product.weight(i, j));
      tally.add(share.d[row * k + i], exact, share.defect[row]);
    }
  }
}

/// A row of n numbers and a matrix of one row: the first of each, and n - 1 times another.
struct ShareCase {
  std::size_t n = 1;
  float d = 0.0F, w = 0.0F, other_d = 0.0F, other_w = 0.0F;
};

inline Tally check_share_cases(const std::vector<ShareCase>& cases) {
  Tally tally;
  for (const ShareCase& one : cases) {
    Tensor<float> operands({1, static_cast<std::int64_t>(one.n)});
    operands.values.assign(one.n, one.other_w);
    bounds::SingleAdjoint d{std::vector<float>(one.n, one.other_d), {0.0}, {}};
    operands.values[0] = one.w;
    d.d[0] = one.d;
    check_shares(HeldProduct(operands, 1), d, tally);
  }
  return tally;
}

/// A product that lies in the middle between two numbers; a sum that loses all but its first term.
inline Tally check_rounded_shares() {
  constexpr float little = 0x1p-12F;
  return check_share_cases({{1, 1.0F + little, 1.0F + little}, {400, 1.0F, 1.0F, little, little * (1.0F - little)}});
}

/// Products that become 0, and a matrix that single precision would overflow with.
inline Tally check_underflowing_shares() {
  return check_share_cases({{1, 0x1p-149F, 0.5F},
                            {400, 0x1p-149F, 0.5F, 0x1p-149F, 0.5F},
                            {40, 0.5F, 0x1p-149F, 0.5F, 0x1p-149F},
                            {2, 0x1p50F, 0x1p100F, 0x1p-140F, 1.0F}});
}

/// A slope and its product that both lie in the middle between two numbers.
inline Tally check_rounded_slope() {
  const double slope = 1.0 + 0x1p-12 + 0x1p-24, e = 1.0;
  const float d = 1.0F + 0x1p-12F;
  float left = 0.0F, share = 0.0F;
  bounds::row_kernels().leave_flat(&slope, &e, -1.0, &left, 1);
  const double error = bounds::single_rounding(bounds::row_kernels().single_product(&d, &left, &share, 1));
  Tally tally;
  tally.add(share, Real(static_cast<double>(d)) * Real(slope), error);
  return tally;
}

}  // namespace checks
