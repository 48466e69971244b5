#include "bounds/nodes/product_node.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/matrices/matrix.hpp"
#include "bounds/nodes/plain_sums.hpp"
#include "bounds/sums/one_sided.hpp"
#include "bounds/sums/operand.hpp"
#include "bounds/sums/running_sums.hpp"
#include "bounds/sums/signed_squares.hpp"
#include "bounds/sums/unit_sum.hpp"
#include "bounds/theorems/chance.hpp"
#include "bounds/theorems/matrix_unit_sums.hpp"
#include "bounds/theorems/propagation.hpp"
#include "bounds/theorems/roundings.hpp"
#include "bounds/theorems/rows.hpp"
#include "bounds/theorems/sums.hpp"
#include "driftbound/num/directed.hpp"
#include "num/parallel.hpp"

namespace driftbound::bounds {
namespace {

/// The operands as the product reads them, and sums of magnitudes of the products.
struct Sums {
  Operand a, b;
  std::vector<double> a_used, b_used;  ///< magnitudes of the operands as read
  std::vector<double> total;           ///< sum_k |a_ik b_kj| over the operands as read
  std::vector<double> squares;         ///< sum_k (a_ik b_kj)^2; empty if T-68 does not apply
  std::vector<double> one_sided;  ///< the same over the positive or the negative terms, the larger; empty like squares
  std::vector<double> operand;    ///< error of the sum caused by reading the operands (T-13); empty: 0
  NonzeroCounts nonzero;
};

/// Whether T-68 applies: roundings to nearest, one sum that is neither split nor scaled, and a recorded result.
bool bounds_partial_sums(const Product& product, const Machine& machine) {
  return machine.to_nearest() && !machine.tensor_core && !machine.reduced && std::abs(product.alpha) == 1.0 &&
         !product.operands_are_bounds;
}

std::vector<double> squares_of(std::vector<double> values) {
  for (double& value : values) value = mul_up(value, value);
  return values;
}

Sums sums_of(const Product& product, const NodeView& view, const Setting& setting) {
  const Machine& machine = setting.machine;
  const ProductPlan& plan = product.plan;
  Sums sums;
  sums.a = round_operand(view.input(0), *machine.input, machine);
  sums.b = round_operand(view.input(1), *machine.input, machine);
  sums.a_used = magnitudes(sums.a.used);
  sums.b_used = magnitudes(sums.b.used);
  sums.total = product_up(plan, sums.a_used, sums.b_used, setting.threads);
  if (bounds_partial_sums(product, machine)) {
    std::vector<double> a = squares_of(sums.a_used), b = squares_of(sums.b_used);
    sums.squares = product_up(plan, a, b, setting.threads);
    sums.one_sided =
        theorems::one_sided_squares(plan, signed_squares(sums.a.used, std::move(a)),
                                    signed_squares(sums.b.used, std::move(b)), sums.squares, setting.threads);
  }
  // A run may bypass the matrix unit and then does not round operands: one that is 0 only by rounding counts as
  // nonzero.
  const bool may_be_unrounded = machine.tensor_core.has_value();
  sums.nonzero = may_be_unrounded ? count_nonzero(plan, view.input(0).values, view.input(1).values)
                                  : count_nonzero(plan, sums.a_used, sums.b_used);
  if (!sums.a.is_exact()) sums.operand = product_up(plan, sums.a.error, sums.b_used, setting.threads);
  if (!sums.b.is_exact()) {
    const std::vector<double> a_recorded = magnitudes(view.input(0).values);
    const std::vector<double> more = product_up(plan, a_recorded, sums.b.error, setting.threads);
    if (sums.operand.empty()) sums.operand.assign(more.size(), 0.0);
    for (std::size_t i = 0; i < more.size(); ++i) sums.operand[i] = add_up(sums.operand[i], more[i]);
  }
  return sums;
}

/// The addend beta c of one element.
struct Addend {
  Magnitude magnitude;      ///< |beta c| for beta and c as read
  Magnitude error;          ///< error of reading beta and c
  bool is_present = false;  ///< whether c is nonzero
  bool is_rounded = false;  ///< whether the product beta c is rounded
};

class Addends {
public:
  Addends(const Product& product, const NodeView& view, const Setting& setting)
      : machine_(setting.machine), present_(product.has_addend && product.beta != 0.0) {
    if (!present_) return;
    recorded_ = &view.input(2);
    used_ = round_operand(*recorded_, *machine_.accumulator, machine_);
    index_.emplace(recorded_->shape, view.output->shape);
    beta_ = product.beta;
    beta_used_ = round_to(beta_, *machine_.accumulator, machine_.rounding);
  }

  bool any() const { return present_; }

  Addend of(std::size_t i) const {
    Addend addend;
    if (!present_) return addend;
    const std::size_t from = (*index_)(i);
    const double c = used_.used[from];
    addend.magnitude = Magnitude(beta_used_) * Magnitude(c);
    addend.is_present = c != 0.0;
    addend.is_rounded = addend.is_present && std::abs(beta_used_) != 1.0;
    addend.error = Magnitude(beta_) * radius_at(used_.error, from);
    addend.error += theorems::constant_error(beta_, machine_) * Magnitude(c);
    return addend;
  }

  double recorded_magnitude(std::size_t i) const {
    return present_ ? std::abs(beta_ * recorded_->values[(*index_)(i)]) : 0.0;
  }

private:
  const Machine& machine_;
  bool present_ = false;
  const Tensor<double>* recorded_ = nullptr;
  Operand used_;
  std::optional<BroadcastIndex> index_;
  double beta_ = 0.0;
  double beta_used_ = 0.0;
};

/// alpha, and alpha rounded to the accumulator. Scaling by 1 or -1 is exact.
struct Scale {
  double exact = 1.0;
  double used = 1.0;
  bool is_trivial() const { return exact == used && std::abs(exact) == 1.0; }
};

/// Bounds of the error of a sum.
struct SumError {
  Magnitude whole;           ///< all roundings
  Magnitude before_last;     ///< all roundings except the last, for which the stored result gives a smaller bound
  Magnitude underflow = {};  ///< the part of both that is caused by underflow
};

/// The quantities that bound the error of one element of a product.
struct Element {
  std::int64_t length = 0;    ///< number of products
  std::int64_t products = 0;  ///< upper bound of the number of nonzero products
  Magnitude total;            ///< sum of the magnitudes of the products
  Magnitude squares;          ///< sum of the squares of the products
  Magnitude one_sided;        ///< the same over the positive or the negative products, the larger
  Magnitude reach;            ///< BlockSum::reach; matrix unit only
  Magnitude operand;          ///< error of the sum caused by reading the operands
  Addend addend;
  double y = 0.0;  ///< the stored result
  /// The larger sum of the magnitudes of the left or the right factors; 0 unless another program scales the products.
  Magnitude factors = {};
  SumError tree = {};  ///< error of the sum in any order of additions; not used with a matrix unit
};

/// Computes the local bounds of one element.
class ElementBound {
public:
  ElementBound(Scale scale, bool operands_are_bounds, const Setting& setting)
      : scale_(scale),
        operands_are_bounds_(operands_are_bounds),
        is_own_run_(setting.is_own_run),
        machine_(setting.machine) {}

  /// Whether the scaling may happen anywhere: to a factor, a product, or a part of the sum.
  bool may_scale_anywhere() const { return !scale_.is_trivial() && !is_own_run_; }

  /// T-10: the leaves of the summation tree are the products, and the addend unless the sum is scaled before it is
  /// added.
  SumError tree_error(const Element& e) const {
    const Addend addend = scale_.is_trivial() ? e.addend : Addend{};
    return any_order_sum(e.products, addend, e.total + addend.magnitude);
  }

  double any_order(const Element& e) const { return machine_.tensor_core ? by_matrix_unit(e) : by_additions(e); }

  /// Bounds all roundings except the last by T-68 or T-10, whichever is smaller.
  Magnitude before_last(const Element& e) const {
    return std::min(e.tree.before_last, theorems::partial_sums_error(terms_of(e), machine_));
  }

  double partial_sums(const Element& e) const { return finish(e, before_last(e)); }

  /// T-69. `places`: sum of ufp over the partial sums; `products`: sum of ufp over the products that are rounded before
  /// they are added; 0 with fused multiply-add.
  double running(const Element& e, double places, double products) const {
    if (!std::isfinite(e.total.value())) return infinity;  // a single product has no partial sum in `places`
    const Magnitude apart(std::min(products, e.total.value()));
    const Magnitude roundings = Magnitude(machine_.u) * (apart + Magnitude(places));
    return finish(e, roundings + e.tree.underflow + addend_rounding(e));
  }

  /// T-74. `tail_factor`: lambda.
  double probabilistic(const Element& e, double tail_factor) const {
    const TermSizes terms = terms_of(e);
    const Magnitude before = before_last(e);
    const Magnitude last = nothing_rounded(e) ? theorems::unrecorded_storing(terms.sum, machine_)
                                              : theorems::unrecorded_rounding(terms.sum + before, machine_);
    const Magnitude squares = theorems::partial_sums_squares(terms, machine_) + last * last;
    const Magnitude rest = e.operand * Magnitude(scale_.exact) + e.addend.error + terms.underflow;
    return checked(e, theorems::with_chance(rest, squares, tail_factor));
  }

  /// T-11. `path`: sum_k ((1 + u)^(d_k) - 1) |a_k b_k|, where d_k excludes the last rounding if the sum is neither
  /// scaled nor followed by an addend.
  double order_aware(const Element& e, Magnitude path) const {
    const Magnitude sum = path + theorems::underflow_term(e.products, e.products, machine_);
    if (!scale_.is_trivial()) return finish_scaled_anywhere(e, sum);
    return finish(e, sum + addend_rounding(e));
  }

private:
  TermSizes terms_of(const Element& e) const {
    TermSizes terms;
    terms.leaves = theorems::leaf_count(e.products, e.addend.is_present ? 1 : 0);
    terms.underflow = e.tree.underflow;
    terms.total = e.total + e.addend.magnitude;
    terms.rounded = e.total + (e.addend.is_rounded ? e.addend.magnitude : Magnitude());
    terms.sum = Magnitude(e.y) + e.tree.before_last + last_rounding(e);
    const Magnitude addend = e.addend.magnitude * e.addend.magnitude;
    terms.norm = sqrt_up(e.squares + addend);
    terms.one_sided = sqrt_up(e.one_sided + addend);
    return terms;
  }

  double by_additions(const Element& e) const {
    return scale_.is_trivial() ? finish(e, e.tree.before_last) : finish_scaled_anywhere(e, e.tree.whole);
  }

  /// T-21. It also covers runs that do not use the matrix unit (T-10). The sum is scaled, and the addend is added,
  /// after the sum, with roundings to nearest.
  double by_matrix_unit(const Element& e) const {
    const BlockSum block{e.length, e.products, e.total, e.reach};
    const SumError sum = block_sum(block);
    if (!scale_.is_trivial()) return finish_scaled_anywhere(e, sum.whole);
    const Magnitude whole = std::min(sum.whole, by_partial_sums(e, block, sum.whole));
    if (e.addend.is_present || e.products == 0)
      return finish(e, whole + addend_rounding(e) + joined_in_parts(e, e.total + whole));
    const Magnitude last = theorems::last_cut_error(e.y, machine_);
    const Magnitude error = std::min(sum.before_last + last, whole + theorems::storing_error(e.y, machine_));
    return checked(e, error + e.operand * Magnitude(scale_.exact));
  }

  /// T-21 (c). `whole`: a bound of the error of the sum, from which, with y, the magnitude of the exact sum is bounded.
  Magnitude by_partial_sums(const Element& e, const BlockSum& block, Magnitude whole) const {
    if (machine_.reduced || e.products == 0) return whole;
    const Magnitude addend = e.addend.magnitude + e.addend.error + addend_rounding(e);
    const Magnitude computed = Magnitude(e.y) + last_rounding(e) + addend;
    UnitSum sum{e.products, theorems::block_steps(e.length, e.products, *machine_.tensor_core), e.total, {}, {}};
    sum.largest = std::min(e.total, Magnitude(0.5) * (e.total + computed + whole));
    sum.absolute = absolute_term(block, sum.steps);
    return unit_sum_error(sum, machine_);
  }

  Magnitude absolute_term(const BlockSum& sum, std::int64_t steps) const {
    return theorems::alignment_term(sum, steps, machine_) +
           theorems::underflow_term(sum.products, theorems::leaf_count(sum.products, 0), machine_);
  }

  SumError block_sum(const BlockSum& sum) const {
    if (sum.products == 0) return {};
    const std::int64_t leaves = theorems::leaf_count(sum.products, 0);
    const std::int64_t steps = theorems::block_steps(sum.length, sum.products, *machine_.tensor_core);
    const PartSize part = theorems::longest_part(sum, steps, *machine_.tensor_core);
    const std::int64_t promotions = steps - part.steps;
    const Magnitude in_part = theorems::alignment_factor(part.products, part.steps, machine_) +
                              theorems::any_order_factor(promotions, machine_);
    const auto error = [&](std::int64_t cuts, std::int64_t additions) {
      const Magnitude by_unit = in_part + theorems::cutting_factor(cuts, machine_);
      const Magnitude factor = std::max(by_unit, theorems::any_order_factor(additions, machine_));
      return with_parts(factor, sum.total, absolute_term(sum, steps));
    };
    const Magnitude whole = error(part.steps, leaves);
    return {whole, machine_.reduced || promotions > 0 ? whole : error(steps - 1, leaves - 1)};
  }

  SumError any_order_sum(std::int64_t products, const Addend& addend, Magnitude total) const {
    const std::int64_t leaves = theorems::leaf_count(products, addend.is_present ? 1 : 0);
    const std::int64_t rounded_products = products + (addend.is_rounded ? 1 : 0);
    const Magnitude underflow =
        rounded_products > 0 ? theorems::underflow_term(rounded_products, leaves, machine_) : Magnitude();
    const auto error = [&](std::int64_t additions) {
      return with_parts(theorems::any_order_factor(additions, machine_), total, underflow);
    };
    const Magnitude whole = error(leaves);
    return {whole, machine_.reduced ? whole : error(leaves - 1), underflow};
  }

  /// Returns factor * total + absolute, the error of a sum; if parts of the sum are rounded once more, that of T-23, in
  /// which the absolute error grows by these roundings.
  Magnitude with_parts(Magnitude factor, Magnitude total, Magnitude absolute) const {
    if (!machine_.reduced) return factor * total + absolute;
    const Magnitude growth = Magnitude(1.0) + theorems::with_rounded_parts(Magnitude(), machine_);
    return theorems::with_rounded_parts(factor, machine_) * total + growth * absolute +
           theorems::part_underflow(factor, machine_);
  }

  Magnitude addend_rounding(const Element& e) const {
    if (!e.addend.is_rounded) return Magnitude();
    return theorems::inner_rounding(e.addend.magnitude, machine_);
  }

  double finish(const Element& e, Magnitude sum_error) const {
    return checked(e, sum_error + e.operand * Magnitude(scale_.exact) + e.addend.error + last_rounding(e));
  }

  static bool nothing_rounded(const Element& e) { return e.products == 0 && !e.addend.is_rounded; }

  Magnitude last_rounding(const Element& e) const {
    return nothing_rounded(e) ? theorems::storing_error(e.y, machine_) : theorems::rounding_error(e.y, machine_);
  }

  double finish_scaled(const Element& e, Magnitude sum_error) const {
    Magnitude error = Magnitude(scale_.used) * sum_error;
    error += theorems::constant_error(scale_.exact, machine_) * e.total;
    if (e.addend.is_present && e.products > 0) {  // the scaled sum is rounded before the addend is added
      error += theorems::inner_rounding(Magnitude(scale_.used) * (e.total + sum_error), machine_);
    }
    return finish(e, error + addend_rounding(e) + joined_in_parts(e, Magnitude(scale_.used) * e.total + error));
  }

  /// T-10: the same where another program scales something else than the complete sum: one more rounding on every path.
  double finish_scaled_anywhere(const Element& e, Magnitude sum_error) const {
    const double of_whole = finish_scaled(e, sum_error);
    if (!may_scale_anywhere()) return of_whole;
    const std::int64_t leaves = theorems::leaf_count(e.products, e.addend.is_present ? 1 : 0);
    const Magnitude growth = theorems::path_factor(leaves, machine_);
    const Magnitude total = Magnitude(scale_.used) * e.total + e.addend.magnitude;
    Magnitude of_factors = theorems::underflow_term(1, leaves + 1, machine_) * e.factors;
    // A factor that underflows when it is scaled loses no more than all of itself, unless it is rounded up.
    if (machine_.to_nearest())
      of_factors = std::min(of_factors, (Magnitude(1.0) + growth) * Magnitude(scale_.used) * e.total);
    const Magnitude absolute = theorems::underflow_term(2 * leaves, leaves + 1, machine_) + of_factors;
    const Magnitude error = with_parts(growth, total, absolute * std::max(Magnitude(1.0), Magnitude(scale_.used))) +
                            theorems::constant_error(scale_.exact, machine_) * e.total;
    return std::max(of_whole, finish(e, error + addend_rounding(e)));
  }

  /// T-23: bounds the additional rounding when the addend is added to a sum of magnitude at most `sum`; the result is
  /// rounded as the parts of a sum are.
  Magnitude joined_in_parts(const Element& e, Magnitude sum) const {
    if (!machine_.reduced || !e.addend.is_present) return Magnitude();
    return theorems::with_rounded_parts(Magnitude(), machine_) * (sum + e.addend.magnitude) +
           theorems::part_underflow(Magnitude(), machine_);
  }

  double checked(const Element& e, Magnitude error) const {
    const Magnitude scale = std::max(Magnitude(1.0), Magnitude(scale_.used));
    const Magnitude sum = scale * e.total + e.addend.magnitude;
    const auto is_safe_sum = operands_are_bounds_ ? theorems::stays_finite : theorems::cannot_overflow;
    const bool is_safe = is_safe_sum(sum, scale * error, machine_);
    return is_safe ? error.value() : infinity;
  }

  Scale scale_;
  bool operands_are_bounds_, is_own_run_;
  const Machine& machine_;
};

ProductPlan with_packed_a(ProductPlan plan) {
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) plan.a_batch[at(batch)] = batch * plan.m * plan.k;
  plan.a_row = plan.k;
  plan.a_col = 1;
  return plan;
}

/// Returns the ranges of the magnitudes of rows and columns; only a matrix unit needs them, for the alignment of
/// products. An operand that is below the normal range as recorded may be read as 0, whatever it is rounded to.
LineRanges ranges_of(const Product& product, const NodeView& view, const Sums& sums, const Machine& machine) {
  if (!machine.tensor_core) return {};
  const double smallest_normal = machine.input->smallest_normal;
  LineRanges ranges = line_ranges(product.plan, sums.a_used, sums.b_used, smallest_normal);
  const LineRanges recorded = line_ranges(product.plan, view.input(0).values, view.input(1).values, smallest_normal);
  const auto note = [&](std::vector<LineRange>& lines, const std::vector<LineRange>& as_recorded) {
    for (std::size_t i = 0; i < lines.size(); ++i)
      lines[i].has_small = lines[i].has_small || as_recorded[i].has_small || product.operands_are_bounds;
  };
  note(ranges.rows, recorded.rows);
  note(ranges.columns, recorded.columns);
  return ranges;
}

/// Upper bounds of the sums of the factors' magnitudes.
struct LineSums {
  std::vector<double> rows;     ///< of A: [batches * m]
  std::vector<double> columns;  ///< of B: [batches * n]
};

LineSums sums_of_lines(const ProductPlan& plan, const Sums& sums) {
  LineSums lines{std::vector<double>(at(plan.batches * plan.m)), std::vector<double>(at(plan.batches * plan.n))};
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    for (std::int64_t k = 0; k < plan.k; ++k) {
      for (std::int64_t i = 0; i < plan.m; ++i) {
        double& sum = lines.rows[at(batch * plan.m + i)];
        sum = add_up(sum, sums.a_used[plan.a_index(batch, i, k)]);
      }
      for (std::int64_t j = 0; j < plan.n; ++j) {
        double& sum = lines.columns[at(batch * plan.n + j)];
        sum = add_up(sum, sums.b_used[plan.b_index(batch, k, j)]);
      }
    }
  }
  return lines;
}

/// Adds the bounds of T-74. They are infinite where the terms of a sum have a pattern that makes its roundings
/// correlated (T-75).
void add_probabilistic(const Product& product, const Sums& sums, const std::vector<Element>& elements,
                       const ElementBound& bound, const Setting& setting, ProductBounds& result) {
  result.patterns = patterns_of(product.plan, sums.a.used, sums.b.used);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const bool applies = result.patterns[i] == TermPattern::none && std::isfinite(elements[i].y);
    const double by_chance = applies ? bound.probabilistic(elements[i], setting.tail_factor) : infinity;
    result.probabilistic.push_back(applies ? std::min(by_chance, result.partial_sums[i]) : infinity);
  }
}

/// Returns the bounds of T-69, by the partial sums of the declared order.
std::vector<double> running_bounds(const ProductPlan& plan, const Sums& sums, const std::vector<Element>& elements,
                                   const ElementBound& bound, bool leave_out_last, const Setting& setting) {
  std::vector<double> slack;
  for (const Element& e : elements)
    slack.push_back(theorems::running_slack(plan.k, bound.before_last(e).value(), 0.0, e.total.value()));
  const RunningTerms terms{sums.a.used, sums.b.used, sums.a_used, slack};
  std::vector<double> running =
      theorems::running_ufps(plan, terms, setting.machine.order, leave_out_last, setting.threads);
  std::vector<double> products(elements.size(), 0.0);
  if (!setting.machine.order.fma) products = theorems::product_ufps(plan, terms, setting.threads);
  for (std::size_t i = 0; i < elements.size(); ++i)
    running[i] = std::isfinite(elements[i].y) ? bound.running(elements[i], running[i], products[i]) : infinity;
  return running;
}

/// Returns the condition number total / |y| (T-19); 1 for 0/0, infinity if y is not finite.
double approx_kappa(double total, double y) {
  if (total == 0.0 && y == 0.0) return 1.0;
  return std::isfinite(y) ? total / std::abs(y) : infinity;
}

}  // namespace

std::optional<Product> product_of(const NodeView& view) {
  if (const auto* gemm = std::get_if<op::Gemm>(&view.node->op)) {
    return Product{plan_product(*gemm, view.input(0).shape, view.input(1).shape), gemm->alpha, gemm->beta,
                   view.inputs.size() > 2, false};
  }
  if (const auto* matmul = std::get_if<op::MatMul>(&view.node->op)) {
    return Product{plan_product(*matmul, view.input(0).shape, view.input(1).shape), 1.0, 1.0, false, false};
  }
  return std::nullopt;
}

std::size_t most_uses(const std::vector<std::int64_t>& offsets) {
  std::map<std::int64_t, std::size_t> uses;
  std::size_t most = 1;
  for (const std::int64_t offset : offsets) most = std::max(most, ++uses[offset]);
  return most;
}

std::vector<double> weighted_by_paths(const ProductPlan& plan, std::span<const double> a, bool leave_out_last,
                                      const Setting& setting) {
  const Machine& machine = setting.machine;
  std::vector<double> factors;
  for (std::int64_t d = 0; d <= 2 * plan.k + 1; ++d) factors.push_back(theorems::path_factor(d, machine).value());
  std::vector<double> weighted(at(plan.batches * plan.m * plan.k));
  std::vector<char> nonzero(at(plan.k)), previous;
  std::vector<std::int64_t> roundings(at(plan.k));
  std::vector<double> of_row(at(plan.k));
  for (std::int64_t row = 0; row < plan.batches * plan.m; ++row) {
    const double* const factors_of_row = a.data() + plan.a_index(row / plan.m, row % plan.m, 0);
    double* const values = weighted.data() + row * plan.k;
    for (std::int64_t k = 0; k < plan.k; ++k) values[k] = factors_of_row[k * plan.a_col];
    for (std::int64_t k = 0; k < plan.k; ++k) nonzero[at(k)] = static_cast<char>(values[k] != 0.0);
    if (nonzero != previous) {
      theorems::path_lengths(machine.order, nonzero, roundings);
      for (std::int64_t k = 0; k < plan.k; ++k)
        of_row[at(k)] = factors[at(std::max<std::int64_t>(roundings[at(k)] - (leave_out_last ? 1 : 0), 0))];
      previous = nonzero;
    }
    const bool is_finite = std::isfinite(row_kernels().largest(values, at(plan.k)));
    row_kernels().scale(values, of_row.data(), values, at(plan.k));
    for (std::int64_t k = 0; k < plan.k && !is_finite; ++k)
      if (!std::isfinite(factors_of_row[k * plan.a_col])) values[k] = infinity;  // no bound
  }
  return weighted;
}

std::vector<double> path_sums(const ProductPlan& plan, std::span<const double> a, std::span<const double> b,
                              bool leave_out_last, const Setting& setting) {
  const std::vector<double> weighted = weighted_by_paths(plan, a, leave_out_last, setting);
  return product_up(with_packed_a(plan), weighted, b, setting.threads);
}

ProductBounds product_bounds(const Product& product, const NodeView& view, const Setting& evaluation) {
  if (std::optional<ProductBounds> plain = plain_product_bounds(product, view, evaluation)) return std::move(*plain);
  Setting setting = evaluation;
  setting.machine = product_machine(evaluation.machine);
  const Machine& machine = setting.machine;
  const ProductPlan& plan = product.plan;
  const Sums sums = sums_of(product, view, setting);
  const Addends addends(product, view, setting);
  const Scale scale{product.alpha, round_to(product.alpha, *machine.accumulator, machine.rounding)};
  const ElementBound bound(scale, product.operands_are_bounds, setting);
  const bool order_is_known =
      !machine.tensor_core && !machine.reduced && machine.order.kind != SummationOrder::Kind::unknown;
  const LineRanges ranges = ranges_of(product, view, sums, machine);
  const bool leave_out_last = !addends.any() && scale.is_trivial();
  const std::vector<double> paths =
      order_is_known ? path_sums(plan, sums.a_used, sums.b_used, leave_out_last, setting) : std::vector<double>();

  const LineSums factors = bound.may_scale_anywhere() ? sums_of_lines(plan, sums) : LineSums();

  ProductBounds result;
  const bool keeps_partial_sums = !sums.squares.empty() && !machine.flushes;
  const bool is_left_to_chance = setting.tail_factor > 0.0 && keeps_partial_sums;
  std::vector<Element> elements;
  for (std::size_t i = 0; i < sums.total.size(); ++i) {
    const double y = view.y(i);
    const std::size_t row = i / at(plan.n);
    const std::size_t column = row / at(plan.m) * at(plan.n) + i % at(plan.n);
    Element element{plan.k,
                    std::min(sums.nonzero.rows[row], sums.nonzero.columns[column]),
                    Magnitude(sums.total[i]),
                    radius_at(sums.squares, i),
                    radius_at(sums.one_sided, i),
                    Magnitude(),
                    radius_at(sums.operand, i),
                    addends.of(i),
                    y};
    if (!factors.rows.empty())
      element.factors = std::max(Magnitude(factors.rows[row]), Magnitude(factors.columns[column]));
    if (machine.tensor_core) {
      element.reach =
          theorems::alignment_reach(ranges.rows[row], ranges.columns[column], machine.input->smallest_normal);
    } else {
      element.tree = bound.tree_error(element);
    }
    const double any_order = std::isfinite(y) ? bound.any_order(element) : infinity;
    result.any_order.push_back(any_order);
    if (!sums.squares.empty()) result.partial_sums.push_back(std::isfinite(y) ? bound.partial_sums(element) : infinity);
    if (order_is_known) {
      const double known = std::isfinite(y) ? bound.order_aware(element, Magnitude(paths[i])) : infinity;
      result.order_aware.push_back(std::min(any_order, known));
    }
    result.kappa.push_back(approx_kappa(std::abs(product.alpha) * sums.total[i] + addends.recorded_magnitude(i), y));
    elements.push_back(element);
  }
  const bool wants_running = order_is_known && setting.wants_running && machine.order.gives_partial_sums();
  if (wants_running && keeps_partial_sums)
    result.running = running_bounds(plan, sums, elements, bound, leave_out_last, setting);
  if (is_left_to_chance) add_probabilistic(product, sums, elements, bound, setting, result);
  return result;
}

std::vector<double> propagate_product_node(const Product& product, const NodeView& view, std::span<const Radii> radii,
                                           const Setting& setting) {
  if (std::optional<std::vector<double>> quick = plain_propagation(product, view, radii, setting))
    return std::move(*quick);
  const ProductPlan& plan = product.plan;
  const auto weights = [&](std::size_t slot) {
    std::vector<double> result = view.input(slot).values;
    for (double& value : result) value = theorems::product_weight(value);
    return result;
  };
  std::vector<double> result(at(plan.batches * plan.m * plan.n), 0.0);
  const auto add = [&](const std::vector<double>& more, Magnitude factor) {
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] = (Magnitude(result[i]) + Magnitude(more[i]) * factor).value();
    }
  };
  const Magnitude alpha(product.alpha);
  if (!radii[0].empty()) add(product_up(plan, radii[0], weights(1), setting.threads), alpha);
  if (!radii[1].empty()) {
    std::vector<double> a = weights(0);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = (Magnitude(a[i]) + radius_at(radii[0], i)).value();
    add(product_up(plan, a, radii[1], setting.threads), alpha);
  }
  if (product.has_addend && !radii[2].empty()) {
    const BroadcastIndex index(view.input(2).shape, view.output->shape);
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] = (Magnitude(result[i]) + Magnitude(product.beta) * Magnitude(radii[2][index(i)])).value();
    }
  }
  return result;
}

}  // namespace driftbound::bounds
