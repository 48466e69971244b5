#include "implicit/slope_walk.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "bounds/matrices/matrix.hpp"
#include "bounds/nodes/product_node.hpp"
#include "bounds/theorems/slope_ranges.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/directed.hpp"
#include "driftbound/num/errors.hpp"
#include "implicit/slope_of_one.hpp"
#include "num/enclosed.hpp"

namespace driftbound::implicit {

using bounds::Deviation;
using bounds::NodeView;
using bounds::Shadow;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The reals within a radius of a number; the whole line where that is not finite.
Interval around(double middle, double radius) {
  const bool is_known = std::isfinite(middle) && std::isfinite(radius);
  return is_known ? Interval(sub_down(middle, radius), add_up(middle, radius)) : Interval::whole();
}

/// Numbers with radii; no radii: they are exact.
struct MiddleRadius {
  std::span<const double> middle, radius;
};

/// The function that a node is, element by element of its output.
class NodeSlopes {
public:
  NodeSlopes(const NodeView& view, const Deviation& deviation, std::span<const Slopes> slopes,
             const std::vector<double>& half_widths, const PackedConstant* constant)
      : view_(view),
        deviation_(deviation),
        slopes_(slopes),
        half_widths_(half_widths),
        constant_(constant),
        size_(view.output->size()) {
    result_.middle.assign(size_, 0.0);
    result_.radius.assign(size_, 0.0);
  }

  void operator()(const op::Neg&) {
    result_ = slopes(0);
    for (double& middle : result_.middle) middle = -middle;
  }
  void operator()(const op::Cast&) { result_ = slopes(0); }
  void operator()(const ElementwiseUnary auto&) {
    for (std::size_t i = 0; i < size_; ++i) {
      const Interval factor = theorems::slope_of_one(view_.node->op, range(0, i));
      const bool is_copied = factor.lower() == 1.0 && factor.upper() == 1.0;
      if (is_copied) {
        result_.middle[i] = slopes(0).middle[i];
        result_.radius[i] = slopes(0).radius[i];
      } else {
        set(i, factor * slopes(0).at(i));
      }
    }
  }

  void operator()(const op::Add&) { add(1.0); }
  void operator()(const op::Sub&) { add(-1.0); }
  void operator()(const op::Max&) {
    each_pair([&](const Interval& a, const Interval& b, const Interval& slope_a, const Interval& slope_b) {
      return theorems::slope_of_larger(a, b, slope_a, slope_b);
    });
  }
  void operator()(const op::Min&) {
    each_pair([&](const Interval& a, const Interval& b, const Interval& slope_a, const Interval& slope_b) {
      return -theorems::slope_of_larger(-a, -b, -slope_a, -slope_b);
    });
  }
  void operator()(const ElementwiseBinary auto&) {
    each_pair([&](const Interval& a, const Interval& b, const Interval& slope_a, const Interval& slope_b) {
      const std::array<Interval, 2> factors = bounds::theorems::slope_ranges(view_.node->op, a, b);
      return factors[0] * slope_a + factors[1] * slope_b;
    });
  }

  void operator()(const op::Choice&) {
    const Index index(*this);
    for (std::size_t i = 0; i < size_; ++i) {
      const Interval condition = range(0, index(0, i));
      if (condition.lower() > 0.5) {
        set(i, slope(1, index(1, i)));
      } else {
        set(i, condition.upper() <= 0.5 ? slope(2, index(2, i)) : Interval::whole());
      }
    }
  }

  void operator()(const Selection auto&) {
    std::vector<Shape> shapes;
    for (const Tensor<double>* input : view_.inputs) shapes.push_back(input->shape);
    const std::vector<ElementSource> sources = plan_selection(view_.node->op, shapes, view_.output->shape);
    for (std::size_t i = 0; i < size_; ++i) {
      const ElementSource& source = sources[i];
      if (source.is_fill() || slopes(source.input).empty()) continue;
      result_.middle[i] = slopes(source.input).middle[source.index];
      result_.radius[i] = slopes(source.input).radius[source.index];
    }
  }

  void operator()(const op::ReduceSum&) {
    each_group([&](std::span<const std::size_t> elements) {
      Interval sum(0.0);
      for (const std::size_t element : elements) sum += slope(0, element);
      return sum;
    });
  }
  void operator()(const op::ReduceMax&) {
    each_group([&](std::span<const std::size_t> elements) { return extremum(elements, 1.0); });
  }
  void operator()(const op::ReduceMin&) {
    each_group([&](std::span<const std::size_t> elements) { return extremum(elements, -1.0); });
  }

  void operator()(const op::Softmax& softmax) {
    const ReductionPlan plan = plan_reduction(softmax, view_.output->shape);
    const auto length = static_cast<std::size_t>(plan.length);
    std::vector<Interval> x(length), s(length), result(length);
    for (std::int64_t group = 0; group < plan.outer * plan.inner; ++group) {
      const auto place = [&](std::size_t j) {
        return plan.index(group / plan.inner, static_cast<std::int64_t>(j), group % plan.inner);
      };
      for (std::size_t j = 0; j < length; ++j) x[j] = range(0, place(j)), s[j] = slope(0, place(j));
      theorems::slopes_of_softmax(x, s, result);
      for (std::size_t j = 0; j < length; ++j) set(place(j), result[j]);
    }
  }

  void operator()(const OneOf<op::Gemm, op::MatMul> auto&) {
    const bounds::Product product = bounds::product_of(view_).value();
    const ProductPlan& plan = product.plan;
    if (constant_ != nullptr) {
      add_product(plan, {slopes(0).middle, slopes(0).radius}, constant_->middle, constant_->magnitude);
    } else {
      if (!slopes(0).empty()) add_product(plan, {slopes(0).middle, slopes(0).radius}, ranges(1));
      if (!slopes(1).empty()) add_product(plan, ranges(0), {slopes(1).middle, slopes(1).radius});
    }
    const bool adds = product.has_addend && !slopes(2).empty();
    if (product.alpha != 1.0) {
      for (std::size_t i = 0; i < size_; ++i) set(i, Interval(product.alpha) * result_.at(i));
    }
    if (!adds) return;
    const BroadcastIndex addend(view_.input(2).shape, view_.output->shape);
    for (std::size_t i = 0; i < size_; ++i) set(i, result_.at(i) + Interval(product.beta) * slope(2, addend(i)));
  }

  void operator()(const Composite auto&) {
    throw InvalidArgument("segment: " + std::string(name_of(view_.node->op)) + " has no slopes of its own");
  }

  Slopes result() && { return std::move(result_); }

private:
  /// Where the operands of an output element lie.
  class Index {
  public:
    explicit Index(const NodeSlopes& node) {
      for (const Tensor<double>* input : node.view_.inputs)
        of_slot_.emplace_back(input->shape, node.view_.output->shape);
    }
    std::size_t operator()(std::size_t slot, std::size_t i) const { return of_slot_[slot](i); }

  private:
    std::vector<BroadcastIndex> of_slot_;
  };

  const Slopes& slopes(std::size_t slot) const { return slopes_[view_.node->inputs[slot]]; }
  Interval slope(std::size_t slot, std::size_t i) const {
    return slopes(slot).empty() ? Interval(0.0) : slopes(slot).at(i);
  }

  /// How far an operand may be from the shadow anywhere on its piece.
  Magnitude reach(std::size_t slot, std::size_t i) const {
    const ValueId id = view_.node->inputs[slot];
    const std::vector<double>& radii = deviation_.radii[id].element;
    const Magnitude error(radii.empty() ? 0.0 : radii[i]);
    if (slopes(slot).empty()) return error;
    const std::size_t row = i / (view_.input(slot).size() / half_widths_.size());
    return theorems::reach(error.value(), slopes(slot).middle[i], slopes(slot).radius[i], half_widths_[row]);
  }
  Interval range(std::size_t slot, std::size_t i) const {
    return around(view_.input(slot).values[i], reach(slot, i).value());
  }

  void set(std::size_t i, const Interval& slope) {
    const Enclosed ball = enclosed(slope);
    result_.middle[i] = ball.value;
    result_.radius[i] = ball.error;
  }

  void add(double sign) {
    const Index index(*this);
    add_operand(0, 1.0, index);
    add_operand(1, sign, index);
  }

  void add_operand(std::size_t slot, double sign, const Index& index) {
    const Slopes& operand = slopes(slot);
    if (operand.empty()) return;
    for (std::size_t i = 0; i < size_; ++i) {
      const std::size_t from = index(slot, i);
      add_rounded(i, sign * operand.middle[from], operand.radius[from]);
    }
  }

  void set_rounded(std::size_t i, double middle, double radius) {
    const bool is_known = std::isfinite(middle) && std::isfinite(radius);
    result_.middle[i] = is_known ? middle : 0.0;
    result_.radius[i] = is_known ? radius : infinity;
  }

  void add_rounded(std::size_t i, double middle, double radius) {
    const double before = result_.middle[i], radius_before = result_.radius[i];
    const bool is_first = before == 0.0 && radius_before == 0.0;
    const double sum = before + middle;
    set_rounded(i, sum, is_first ? radius : theorems::sum_radius(radius_before, radius, sum));
  }

  void each_pair(const auto& slope_of) {
    const Index index(*this);
    for (std::size_t i = 0; i < size_; ++i) {
      const std::size_t a = index(0, i), b = index(1, i);
      set(i, slope_of(range(0, a), range(1, b), slope(0, a), slope(1, b)));
    }
  }

  void each_group(const auto& slope_of) {
    const GroupPlan plan = plan_groups(view_.node->op, view_.input(0).shape);
    std::vector<std::size_t> elements(plan.elements.size());
    for (std::size_t group = 0; group < plan.groups.size(); ++group) {
      for (std::size_t j = 0; j < elements.size(); ++j) elements[j] = plan.groups[group] + plan.elements[j];
      set(group, slope_of(elements));
    }
  }

  /// Of the maximum (sign 1) or minimum: the hull over all elements that may be it.
  Interval extremum(std::span<const std::size_t> elements, double sign) const {
    const Interval turn(sign);
    Interval x = turn * range(0, elements[0]), s = turn * slope(0, elements[0]);
    for (const std::size_t element : elements.subspan(1)) {
      const Interval y = turn * range(0, element);
      s = theorems::slope_of_larger(x, y, s, turn * slope(0, element));
      x = max(x, y);
    }
    return turn * s;
  }

  /// Operand `slot` over the pieces.
  MiddleRadius ranges(std::size_t slot) {
    std::vector<double>& reaches = reaches_[slot];
    reaches.resize(view_.input(slot).size());
    for (std::size_t i = 0; i < reaches.size(); ++i) reaches[i] = reach(slot, i).value();
    return {view_.input(slot).values, reaches};
  }

  /// Adds A B for operands with radii: the middle is the product of the middles.
  void add_product(const ProductPlan& plan, const MiddleRadius& a, const MiddleRadius& b) {
    PackedMatrices<double> middle, magnitude, radius;
    pack_missing<double>(plan, b.middle, middle);
    std::vector<double> sizes(b.middle.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] = add_up(std::abs(b.middle[i]), b.radius[i]);
    pack_missing<double>(plan, sizes, magnitude);
    pack_missing<double>(plan, b.radius, radius);
    const std::vector<double> moved =
        multiply<double>(plan, bounds::magnitudes(a.middle), radius, bounds::fused_chain, 1);
    add_product(plan, a, middle, magnitude, moved);
  }

  /// `magnitude`: of B with its radii; `moved`: |A| times these, computed; empty where they are 0.
  void add_product(const ProductPlan& plan, const MiddleRadius& a, const PackedMatrices<double>& middle,
                   const PackedMatrices<double>& magnitude, std::span<const double> moved = {}) {
    const double gamma = theorems::product_gamma(plan.k);
    std::vector<double> radii(a.middle.size());
    for (std::size_t i = 0; i < radii.size(); ++i) radii[i] = add_up(a.radius[i], mul_up(gamma, std::abs(a.middle[i])));
    const std::vector<double> middles = multiply<double>(plan, a.middle, middle, bounds::fused_chain, 1);
    const std::vector<double> sums = multiply<double>(plan, radii, magnitude, bounds::fused_chain, 1);
    const std::vector<bool> is_zero = zero_rows(plan, a);
    for (std::size_t i = 0; i < size_; ++i) {
      const bool zero = is_zero[i / static_cast<std::size_t>(plan.n)];
      double radius = theorems::product_radius(sums[i], plan.k, zero);
      if (!moved.empty()) radius = add_up(radius, theorems::product_radius(moved[i], plan.k, zero));
      add_rounded(i, middles[i], radius);
    }
  }

  /// Rows of A of which nothing but 0 is left.
  static std::vector<bool> zero_rows(const ProductPlan& plan, const MiddleRadius& a) {
    std::vector<bool> is_zero;
    for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
      for (std::int64_t i = 0; i < plan.m; ++i) {
        bool zero = true;
        for (std::int64_t k = 0; k < plan.k && zero; ++k) {
          const std::size_t at = plan.a_index(batch, i, k);
          zero = a.middle[at] == 0.0 && a.radius[at] == 0.0;
        }
        is_zero.push_back(zero);
      }
    }
    return is_zero;
  }

  const NodeView& view_;
  const Deviation& deviation_;
  std::span<const Slopes> slopes_;
  const std::vector<double>& half_widths_;
  const PackedConstant* constant_;
  std::size_t size_;
  std::map<std::size_t, std::vector<double>> reaches_;
  Slopes result_;
};

bool is_constant_product(const Program& program, const Node& node) {
  const bool is_product = multiplies_matrices(node.op);
  return is_product && program.varies(node.inputs[0]) && !program.varies(node.inputs[1]);
}

}  // namespace

Interval Slopes::at(std::size_t i) const {
  return around(middle[i], radius[i]);
}

PackedConstants pack_constants(const Program& program, const Shadow& shadow, const Deviation& deviation) {
  PackedConstants packed;
  for (std::size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    if (!is_constant_product(program, node) || !deviation.radii[node.inputs[1]].element.empty()) continue;
    const ProductPlan plan = bounds::product_of(shadow.view_of(node)).value().plan;
    const std::vector<double>& matrix = shadow.value(node.inputs[1]).values;
    pack_missing<double>(plan, matrix, packed[i].middle);
    pack_missing<double>(plan, bounds::magnitudes(matrix), packed[i].magnitude);
  }
  return packed;
}

std::vector<Slopes> slopes_of(const Program& program, const Shadow& shadow, const Deviation& deviation,
                              const std::vector<double>& half_widths, const PackedConstants& constants) {
  std::vector<Slopes> slopes(program.size());
  const ValueId t = program.flat().graph.inputs.front();
  slopes[t] = {std::vector<double>(half_widths.size(), 1.0), std::vector<double>(half_widths.size(), 0.0)};
  for (std::size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    if (!program.varies(node.output)) continue;
    const NodeView view = shadow.view_of(node);
    const auto constant = constants.find(i);
    NodeSlopes of_node(view, deviation, slopes, half_widths, constant == constants.end() ? nullptr : &constant->second);
    std::visit(of_node, node.op);
    slopes[node.output] = std::move(of_node).result();
  }
  return slopes;
}

}  // namespace driftbound::implicit
