#include "bounds/rows/pair_step.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bounds/nodes/body_rounding.hpp"
#include "bounds/nodes/centre.hpp"
#include "bounds/nodes/forward.hpp"
#include "bounds/rows/expanded_row.hpp"
#include "bounds/rows/pair_norms.hpp"
#include "bounds/rows/step.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {
namespace {

using namespace steps;

/// One row of both operands and of what is known of them.
struct PairRow {
  Tensor<double> a, b;
  Radii radius_a, radius_b;

  std::vector<const Tensor<double>*> operands() const { return {&a, &b}; }
  std::vector<Radii> radii() const { return {radius_a, radius_b}; }
};

/// By centre_of_node(), linearise(), propagate() and body_rounding(), row by row.
class PairFunctionStep : public Step {
public:
  PairFunctionStep(const Setting& setting, const Node& node, std::vector<double> constants,
                   std::set<std::string>& conditions)
      : Step(setting, 2), setting_(setting), node_(node), constants_(std::move(constants)) {
    setting_.threads = 1;
    const Tensor<double> half({1, 1}, {0.5});
    body_rounding({{&node_, {&half, &half}, &half}, {{}, {}}, {}, true}, setting_, conditions);
  }

  void forward(std::span<const RunRows* const> operands, const RunRequest& request, RunRows& y, RunErrors& errors,
               std::vector<char>& undecided, RunScratch&) const override {
    const std::size_t n = y.size(), all = y.centre.size();
    errors.rounds_once = request.chance.any();
    allocate_added(errors, all, request);
    allocate_remainder(errors, all, request);
    if (request.chance.any()) errors.residuals.resize(all);
    for (std::size_t slot = 0; slot < 2; ++slot) errors.pair_slopes[slot].resize(operands[slot] == nullptr ? 0 : all);
    for (std::size_t row = 0; row < y.rows(); ++row) {
      const auto first = static_cast<std::ptrdiff_t>(row * n);
      const auto radii_of = [&](std::size_t slot) {
        return operands[slot] == nullptr ? Radii() : Radii(operands[slot]->radius).subspan(row * n, n);
      };
      PairRow pair{tensor_of(operands, 0, row, n), tensor_of(operands, 1, row, n), radii_of(0), radii_of(1)};
      const Centre centre = centre_of_node({&node_, pair.operands(), nullptr}, pair.a.shape, setting_);
      std::copy(centre.value.values.begin(), centre.value.values.end(), y.centre.begin() + first);
      if (request.chance.any()) std::copy(centre.error.begin(), centre.error.end(), errors.residuals.begin() + first);
      const ExpandedRow any_order = expand(pair, centre, true);
      for (std::size_t slot = 0; slot < 2; ++slot) {
        const std::vector<double>& slopes = any_order.linear.slopes[slot];
        if (operands[slot] != nullptr)
          std::copy(slopes.begin(), slopes.end(), errors.pair_slopes[slot].begin() + first);
      }
      any_order.write_errors(row * n, errors.added, errors.remainder);
      any_order.write_moved(row * n, y.radius);
      const Magnitude own = theorems::norm_of_vector(centre.error);
      const auto norm_of_operand = [&](std::size_t slot, const auto& norm_in) {
        return operands[slot] == nullptr ? Magnitude() : Magnitude(norm_in(*operands[slot]));
      };
      const auto norms_in = [&](const auto& norm_in) {
        return std::pair(norm_of_operand(0, norm_in), norm_of_operand(1, norm_in));
      };
      const auto [norm_a, norm_b] = norms_in([&](const RunRows& x) { return x.norm[row]; });
      finish(y, row, moved_norm(pair, norm_a, norm_b) + norm_of(errors.added, row, n));
      const auto [exact_a, exact_b] = norms_in([&](const RunRows& x) { return x.exact[row]; });
      y.exact[row] = (exact_norm(pair, centre, exact_a, exact_b) + own).value();
      if (!std::isfinite(y.norm[row]) || !std::isfinite(y.exact[row])) undecided[row] = 1;
      if (!request.in_order) continue;
      const auto ordered_radii_of = [&](std::size_t slot) {
        return operands[slot] == nullptr ? Radii() : Radii(operands[slot]->in_order.radius).subspan(row * n, n);
      };
      pair.radius_a = ordered_radii_of(0), pair.radius_b = ordered_radii_of(1);
      const ExpandedRow in_order = expand(pair, centre, false);
      in_order.write_errors(row * n, errors.added_in_order, errors.remainder_in_order);
      in_order.write_moved(row * n, y.in_order.radius);
      const auto [ordered_a, ordered_b] = norms_in([&](const RunRows& x) { return x.in_order.norm[row]; });
      finish_in_order(y, row, moved_norm(pair, ordered_a, ordered_b) + norm_of(errors.added_in_order, row, n));
    }
  }

  void evaluate(std::span<const double* const> operands, std::size_t rows, std::vector<double>& result) const override {
    const std::size_t n = result.size() / rows;
    for (std::size_t row = 0; row < rows; ++row) {
      const auto tensor = [&](std::size_t slot) {
        return tensor_of(operands[slot] == nullptr ? constants_.data() : operands[slot] + row * n, n);
      };
      const Tensor<double> a = tensor(0), b = tensor(1);
      const Centre centre = centre_of_node({&node_, {&a, &b}, nullptr}, a.shape, setting_);
      std::copy(centre.value.values.begin(), centre.value.values.end(),
                result.begin() + static_cast<std::ptrdiff_t>(row * n));
    }
  }

  void pull_back(std::size_t slot, const RunErrors& errors, std::span<const std::size_t> rows, const RunAdjoint& y,
                 RunAdjoint& share) const override {
    const std::size_t n = y.d.size() / rows.size();
    for (std::size_t i = 0; i < rows.size(); ++i)
      elements_.mul(y.d.data() + i * n, errors.pair_slopes[slot].data() + rows[i] * n, share.d.data() + i * n, n);
    lose_rounding(share, n);
  }
  void pull_back(std::size_t, std::span<const float> slopes, std::span<const std::size_t> rows, const SingleAdjoint& y,
                 SingleAdjoint& share) const override {
    multiply_by_slopes(slopes, rows, y, share);
  }

  void push(std::span<const float* const> operands, const RunErrors& errors, std::span<const std::size_t> rows,
            std::size_t copies, std::vector<float>& result) const override {
    const std::size_t n = result.size() / (rows.size() * copies);
    for (std::size_t i = 0; i < result.size(); ++i) {
      const std::size_t at = rows[i / (n * copies)] * n + i % n;
      const auto moved = [&](std::size_t slot) {
        return operands[slot] == nullptr ? 0.0F : static_cast<float>(errors.pair_slopes[slot][at]) * operands[slot][i];
      };
      result[i] = moved(0) + moved(1);
    }
  }

private:
  static Tensor<double> tensor_of(const double* values, std::size_t n) {
    return Tensor<double>({1, static_cast<std::int64_t>(n)}, std::vector<double>(values, values + n));
  }
  Tensor<double> tensor_of(std::span<const RunRows* const> operands, std::size_t slot, std::size_t row,
                           std::size_t n) const {
    return tensor_of(operands[slot] == nullptr ? constants_.data() : operands[slot]->centre.data() + row * n, n);
  }

  ExpandedRow expand(const PairRow& pair, const Centre& y, bool any_order) const {
    return expanded_row({&node_, pair.operands(), &y.value}, pair.radii(), y.error, any_order, setting_);
  }

  /// How far the exact function moves a row in the 2-norm when its operands move by these; infinite where elements say
  /// more (T-62).
  Magnitude moved_norm(const PairRow& pair, Magnitude norm_a, Magnitude norm_b) const {
    const MovingRow a{pair.a.values, pair.radius_a, norm_a}, b{pair.b.values, pair.radius_b, norm_b};
    if (std::holds_alternative<op::Min>(node_.op) || std::holds_alternative<op::Max>(node_.op))
      return theorems::norm_of_sum(norm_a, norm_b);
    if (std::holds_alternative<op::Mul>(node_.op)) return norm_of_moving_product(a, b);
    const bool moves_a_alone = norm_b == Magnitude();
    if (std::holds_alternative<op::PRelu>(node_.op) && moves_a_alone) {
      const Magnitude steepest =
          std::max(Magnitude(1.0), Magnitude(rows_.largest(pair.b.values.data(), pair.b.size())));
      return theorems::norm_of_function(steepest, norm_a);
    }
    if (std::holds_alternative<op::Div>(node_.op)) return norm_of_moving_quotient(a, b);
    return Magnitude::infinite();
  }

  /// The same for the exact network, no element of whose operands moves by more than the norms.
  Magnitude exact_norm(const PairRow& pair, const Centre& y, Magnitude norm_a, Magnitude norm_b) const {
    const std::size_t n = y.value.size();
    const std::vector<double> reach_a(n, norm_a.value()), reach_b(n, norm_b.value());
    const PairRow reach{pair.a, pair.b, reach_a, reach_b};
    const Magnitude by_norms = moved_norm(reach, norm_a, norm_b);
    if (by_norms.is_finite()) return by_norms;
    const std::vector<Radii> radii = reach.radii();
    return theorems::norm_of_vector(propagate({&node_, pair.operands(), &y.value}, radii, y.error, setting_));
  }

  Setting setting_;
  const Node node_;
  const std::vector<double> constants_;  ///< the operand that does not vary, one row of it
};

}  // namespace

std::unique_ptr<const RunStep> pair_step(const Setting& setting, const Node& node, std::vector<double> constants,
                                         std::set<std::string>& conditions) {
  return std::make_unique<PairFunctionStep>(setting, node, std::move(constants), conditions);
}

}  // namespace driftbound::bounds
