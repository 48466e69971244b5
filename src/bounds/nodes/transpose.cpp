#include "bounds/nodes/transpose.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "bounds/nodes/operand_cache.hpp"
#include "bounds/nodes/product_node.hpp"
#include "bounds/nodes/shares.hpp"
#include "bounds/nodes/transposed_product.hpp"
#include "bounds/theorems/defects.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::bounds {
namespace {

using Shares = std::vector<Transposed>;

/// Computes p (d - p·d) and its defects for one row of a softmax; consecutive elements are `step` apart.
void softmax_row(const double* p, const double* d, std::size_t n, std::size_t step, double* values, double* defects) {
  double sum = 0.0, size = 0.0;
  for (std::size_t i = 0; i < n * step; i += step) {
    const double term = p[i] * d[i];
    sum += term;
    size += std::abs(term);
  }
  const auto terms = static_cast<std::int64_t>(n);
  const double of_sum = theorems::defect(size, terms, terms);
  constexpr double outward = 1.0 + 0x1p-50;
  for (std::size_t i = 0; i < n * step; i += step) {
    values[i] = p[i] * (d[i] - sum);
    if (p[i] != 0.0) defects[i] = std::abs(p[i]) * of_sum * outward + theorems::defect(std::abs(values[i]), 2, 3);
  }
}

/// Each overload computes the shares J^T d of the operands of one op.
class Transposing {
public:
  Transposing(const NodeView& view, const std::vector<std::vector<double>>& slopes, std::span<const double> d,
              const std::vector<bool>& wanted, const Setting& setting)
      : view_(view), slopes_(slopes), d_(d), wanted_(wanted), setting_(setting) {}

  Shares operator()(const op::Neg&) const {
    return each_wanted([&](std::size_t slot) { return by_factor(slot, -1.0); });
  }
  Shares operator()(const op::Cast&) const {
    return each_wanted([&](std::size_t slot) {
      const bool is_identity = slopes_.empty() || slopes_[slot].empty();
      return is_identity ? by_factor(slot, 1.0) : elementwise_share(slopes_[slot], d_);
    });
  }
  Shares operator()(const ElementwiseUnary auto&) const {
    return each_wanted([&](std::size_t slot) { return elementwise_share(slopes_of(slot, d_.size()), d_); });
  }
  Shares operator()(const op::Add&) const {
    return each_wanted([&](std::size_t slot) { return by_factor(slot, 1.0); });
  }
  Shares operator()(const op::Sub&) const {
    return each_wanted([&](std::size_t slot) { return by_factor(slot, slot == 0 ? 1.0 : -1.0); });
  }
  Shares operator()(const OneOf<op::Mul, op::Div, op::Min, op::Max, op::PRelu, op::Choice> auto&) const {
    return each_wanted([&](std::size_t slot) { return by_slopes(slot, slopes_of(slot, d_.size())); });
  }
  Shares operator()(const Comparison auto&) const {
    return each_wanted([&](std::size_t slot) { return by_slopes(slot, slopes_of(slot, d_.size())); });
  }

  Shares operator()(const Reshaping auto&) const {
    return each_wanted([&](std::size_t) { return as_it_is(); });
  }
  Shares operator()(const Selection auto&) const { return scattered(); }

  Shares operator()(const op::ReduceSum&) const {
    return each_wanted([&](std::size_t) {
      Transposed share{spread_over_groups(), {}};
      judge_finiteness(share);
      return share;
    });
  }
  Shares operator()(const OneOf<op::ReduceMax, op::ReduceMin> auto&) const {
    return each_wanted([&](std::size_t slot) {
      return elementwise_share(slopes_of(slot, view_.input(slot).size()), spread_over_groups());
    });
  }
  Shares operator()(const op::Softmax& softmax) const {
    return each_wanted([&](std::size_t slot) {
      const ReductionPlan plan = plan_reduction(softmax, view_.input(slot).shape);
      const std::size_t size = view_.input(slot).size();
      Transposed share{std::vector<double>(size), std::vector<double>(size)};
      for (std::int64_t o = 0; o < plan.outer; ++o) {
        for (std::int64_t i = 0; i < plan.inner; ++i) {
          const std::size_t first = plan.index(o, 0, i);
          softmax_row(view_.output->values.data() + first, d_.data() + first, static_cast<std::size_t>(plan.length),
                      static_cast<std::size_t>(plan.inner), share.values.data() + first, share.defect.data() + first);
        }
      }
      judge_finiteness(share);
      return share;
    });
  }

  Shares operator()(const OneOf<op::Gemm, op::MatMul> auto&) const {
    const Product product = product_of(view_).value();
    return each_wanted([&](std::size_t slot) {
      if (slot == 2) return by_factor(slot, product.beta);
      const ProductShare share = slot == 0 ? share_of_left(product.plan) : share_of_right(product.plan);
      const bool may_be_packed = slot == 0 && !wanted_[1] && setting_.operands != nullptr;
      if (may_be_packed) {
        const PackedFactor& known = setting_.operands->transposed_right(product.plan, view_.input(1));
        return transposed_product(share, d_, known, product.alpha, view_.input(0).size(), setting_);
      }
      const PackedFactor factor = packed_factor(share, view_.input(1 - slot));
      return transposed_product(share, d_, factor, product.alpha, view_.input(slot).size(), setting_);
    });
  }

  Shares operator()(const Composite auto&) const {
    throw InvalidArgument(fmt::format("adjoint of node '{}': {} is a composite; give the nodes that it means",
                                      view_.node->name, name_of(view_.node->op)));
  }

private:
  template <class Share>
  Shares each_wanted(Share share) const {
    Shares shares(view_.inputs.size());
    for (std::size_t slot = 0; slot < shares.size(); ++slot) {
      if (wanted_[slot]) shares[slot] = share(slot);
    }
    return shares;
  }

  const std::vector<double>& slopes_of(std::size_t slot, std::size_t size) const {
    static const std::vector<double> none;
    const std::vector<double>& slopes = slot < slopes_.size() ? slopes_[slot] : none;
    if (slopes.size() != size) {
      throw InvalidArgument(fmt::format("adjoint of node '{}' ({}): {} slopes for operand {}, which needs {}",
                                        view_.node->name, name_of(view_.node->op), slopes.size(), slot, size));
    }
    return slopes;
  }

  /// Returns the shares of a selection: each element of d is added to the operand element that it was copied from.
  Shares scattered() const {
    std::vector<Shape> shapes;
    std::vector<SharedElements> elements;
    for (const Tensor<double>* input : view_.inputs) {
      shapes.push_back(input->shape);
      elements.emplace_back(wanted_[elements.size()] ? input->size() : 0);
    }
    const std::vector<ElementSource> sources = plan_selection(view_.node->op, shapes, view_.output->shape);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const ElementSource& source = sources[i];
      if (!source.is_fill() && wanted_[source.input]) elements[source.input].add(source.index, 1.0, d_[i]);
    }
    return each_wanted([&](std::size_t slot) { return std::move(elements[slot]).result(); });
  }

  Transposed as_it_is() const {
    Transposed share{std::vector<double>(d_.begin(), d_.end()), {}};
    judge_finiteness(share);
    return share;
  }
  /// Returns factor * d, summed over the copies of a broadcast operand.
  Transposed by_factor(std::size_t slot, double factor) const {
    const Tensor<double>& operand = view_.input(slot);
    if (factor == 1.0 && operand.shape == view_.output->shape) return as_it_is();
    return by_slopes(slot, std::vector<double>(d_.size(), factor));
  }
  Transposed by_slopes(std::size_t slot, std::span<const double> slopes) const {
    const BroadcastIndex index(view_.input(slot).shape, view_.output->shape);
    if (index.is_identity()) return elementwise_share(slopes, d_);
    SharedElements elements(view_.input(slot).size());
    for (std::size_t i = 0; i < d_.size(); ++i) elements.add(index(i), slopes[i], d_[i]);
    return std::move(elements).result();
  }

  /// Returns, for every input element of a reduction, the element of d of its group.
  std::vector<double> spread_over_groups() const {
    const GroupPlan plan = plan_groups(view_.node->op, view_.input(0).shape);
    std::vector<double> spread(view_.input(0).size());
    for (std::size_t g = 0; g < d_.size(); ++g) {
      for (const std::size_t element : plan.elements) spread[plan.groups[g] + element] = d_[g];
    }
    return spread;
  }

  const NodeView& view_;
  const std::vector<std::vector<double>>& slopes_;
  std::span<const double> d_;
  const std::vector<bool>& wanted_;
  const Setting& setting_;
};

void require_sizes(const NodeView& view, std::span<const double> d, const std::vector<bool>& wanted) {
  if (d.size() == view.output->size() && wanted.size() == view.inputs.size()) return;
  throw InvalidArgument(fmt::format("adjoint of node '{}': {} numbers for {} output elements, {} flags for {} operands",
                                    view.node->name, d.size(), view.output->size(), wanted.size(), view.inputs.size()));
}

}  // namespace

std::vector<Transposed> transposed(const NodeView& view, const std::vector<std::vector<double>>& slopes,
                                   std::span<const double> d, const std::vector<bool>& wanted, const Setting& setting) {
  require_sizes(view, d, wanted);
  return std::visit(Transposing(view, slopes, d, wanted, setting), view.node->op);
}

}  // namespace driftbound::bounds
