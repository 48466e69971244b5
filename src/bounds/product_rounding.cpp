#include "bounds/product_rounding.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

std::vector<double> squares_of(std::vector<double> values) {
  for (double& value : values) value = mul_up(value, value);
  return values;
}

std::vector<double> sum_up(std::vector<double> a, std::span<const double> b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = add_up(a[i], b[i]);
  return a;
}

/// The largest magnitudes a factor can have as the product reads it, and how far it is read from what it is.
struct LargestFactor {
  std::vector<double> magnitude;
  std::vector<double> error;  ///< empty: read as it is
};

/// beta c at its largest, and what the constant beta is off.
struct Addend {
  Magnitude magnitude;
  Magnitude error;
};

class LargestAddends {
public:
  LargestAddends(const UnrecordedNode& node, const Product& product, const Setting& setting) {
    if (!product.has_addend || product.beta == 0.0) return;
    const Machine& machine = setting.machine;
    const double beta = round_to(product.beta, *machine.accumulator, machine.rounding);
    const Magnitude beta_error = setting.rules->constant_error(product.beta, machine);
    is_rounded_ = std::abs(beta) != 1.0;
    const Tensor<double>& c = node.view.input(2);
    index_.emplace(c.shape, node.view.output->shape);
    for (std::size_t i = 0; i < c.size(); ++i) {
      const Magnitude largest = Magnitude(c.values[i]) + radius_at(node.operand_radii[2], i);
      addends_.push_back({Magnitude(beta) * largest, beta_error * largest});
    }
  }

  bool any() const { return index_.has_value(); }
  bool is_rounded() const { return is_rounded_; }
  Addend operator()(std::size_t i) const { return any() ? addends_[(*index_)(i)] : Addend(); }

private:
  bool is_rounded_ = false;
  std::optional<BroadcastIndex> index_;
  std::vector<Addend> addends_;
};

/// What the number of terms decides.
struct CountedTerms {
  std::int64_t leaves = 0;
  Magnitude factor;     ///< of T-10, without the last rounding
  Magnitude underflow;  ///< T-12
};

class TermCounts {
public:
  TermCounts(std::int64_t most_products, bool addend_is_rounded, const Setting& setting) {
    const Rules& rules = *setting.rules;
    for (std::int64_t products = 0; products <= most_products; ++products) {
      for (const std::int64_t stored : {0, 1}) {
        CountedTerms terms;
        terms.leaves = rules.leaf_count(products, stored);
        terms.factor = rules.any_order_factor(terms.leaves - 1, setting.machine);
        const std::int64_t rounded = products + (addend_is_rounded ? stored : 0);
        if (rounded > 0) terms.underflow = rules.underflow_term(rounded, terms.leaves, setting.machine);
        terms_.push_back(terms);
      }
    }
  }
  const CountedTerms& operator()(std::int64_t products, bool has_addend) const {
    return terms_[at(2 * products + (has_addend ? 1 : 0))];
  }

private:
  std::vector<CountedTerms> terms_;
};

/// One element: the terms of its sum at their largest.
struct LargestSum {
  std::int64_t products = 0;  ///< upper bound of those that may be other than 0
  Magnitude total;            ///< their magnitudes summed
  Magnitude squares;          ///< their squares summed
  Magnitude path;             ///< T-11; infinite: not asked for
  Addend addend;
  Magnitude misread;  ///< by how much the sum of the terms as read may differ from the exact result
  Magnitude exact;    ///< magnitude of that
};

class ProductRounding {
public:
  ProductRounding(const UnrecordedNode& node, const Setting& setting)
      : node_(node),
        setting_(inside_products(setting)),
        machine_(setting_.machine),
        rules_(*setting.rules),
        product_(product_of(node.view).value()),
        addends_(node, product_, setting_),
        a_(as_read(0)),
        b_(as_read(1)),
        misread_(misread_products()) {}

  std::vector<double> operator()() const {
    const bool is_plain =
        machine_.to_nearest() && !machine_.flushes && !machine_.tensor_core && std::abs(product_.alpha) == 1.0;
    return is_plain ? by_sizes() : in_two_rounds();
  }

private:
  static Setting inside_products(Setting setting) {
    setting.machine = product_machine(setting.machine);
    return setting;
  }

  Magnitude operand(std::size_t slot, std::size_t i) const {
    return Magnitude(node_.view.input(slot).values[i]) + radius_at(node_.operand_radii[slot], i);
  }
  /// Largest magnitude of the exact result at the run's operands.
  Magnitude result(std::size_t i) const { return Magnitude(node_.view.y(i)) + radius_at(node_.moved, i); }

  bool reads_exactly() const { return machine_.input == machine_.accumulator && !machine_.flushes; }
  bool follows_order() const { return !node_.any_order && machine_.order.kind != SummationOrder::Kind::unknown; }

  LargestFactor as_read(std::size_t slot) const {
    LargestFactor read;
    const std::size_t size = node_.view.input(slot).size();
    read.magnitude.reserve(size);
    for (std::size_t i = 0; i < size; ++i) read.magnitude.push_back(operand(slot, i).value());
    if (reads_exactly()) return read;
    for (std::size_t i = 0; i < size; ++i) {
      double& largest = read.magnitude[i];
      read.error.push_back(largest == 0.0 ? 0.0 : reading_error(slot, i, largest).value());
      largest = std::isfinite(largest) ? round_to(largest, *machine_.input, Rounding::up) : infinity;
    }
    return read;
  }

  Magnitude reading_error(std::size_t slot, std::size_t i, double largest) const {
    const double x = node_.view.input(slot).values[i];
    const bool is_known = radius_at(node_.operand_radii[slot], i) == Magnitude() && std::isfinite(x);
    if (is_known && !machine_.flushes) {
      return Magnitude(rules_.operand_error(x, round_to(x, *machine_.input, machine_.operand_rounding)));
    }
    const Magnitude flushed = machine_.flushes ? Magnitude(machine_.input->smallest_normal) : Magnitude();
    return rules_.unrecorded_cast(Magnitude(largest), *machine_.input, machine_) + flushed;
  }

  std::vector<double> product(std::span<const double> a, std::span<const double> b) const {
    return product_up(product_.plan, a, b, rules_, setting_.threads);
  }

  /// T-13: |R(a) - a| |R(b)| + |a| |R(b) - b|. Empty: none.
  std::vector<double> misread_products() const {
    if (reads_exactly()) return {};
    return sum_up(product(a_.error, b_.magnitude), product(largest_unread(0), b_.error));
  }

  std::vector<double> largest_unread(std::size_t slot) const {
    std::vector<double> largest(node_.view.input(slot).size());
    for (std::size_t i = 0; i < largest.size(); ++i) largest[i] = operand(slot, i).value();
    return largest;
  }

  std::vector<double> totals() const {
    if (!node_.sizes || !reads_exactly()) return product(a_.magnitude, b_.magnitude);
    std::vector<double> total(node_.sizes->total.begin(), node_.sizes->total.end());
    return node_.sizes->spread.empty() ? total : sum_up(std::move(total), node_.sizes->spread);
  }

  std::vector<double> by_sizes() const;
  Magnitude sized_error(const LargestSum& sum, const TermCounts& counts) const;
  std::vector<double> in_two_rounds() const;
  Tensor<double> largest_addend() const;

  const UnrecordedNode& node_;
  const Setting setting_;
  const Machine& machine_;
  const Rules& rules_;
  const Product product_;
  const LargestAddends addends_;
  const LargestFactor a_, b_;
  const std::vector<double> misread_;
};

/// T-10, T-11 and T-68, whichever is smallest.
std::vector<double> ProductRounding::by_sizes() const {
  const ProductPlan& plan = product_.plan;
  const std::vector<double> total = totals();
  const std::vector<double> squares = product(squares_of(a_.magnitude), squares_of(b_.magnitude));
  const NonzeroCounts nonzero = count_nonzero(plan, a_.magnitude, b_.magnitude);
  const TermCounts counts(plan.k, addends_.is_rounded(), setting_);
  std::vector<double> paths;
  if (follows_order()) paths = path_sums(plan, a_.magnitude, b_.magnitude, !addends_.any(), setting_);
  std::vector<double> errors(total.size());
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const std::size_t row = i / at(plan.n);
    const std::size_t column = row / at(plan.m) * at(plan.n) + i % at(plan.n);
    LargestSum sum;
    sum.products = std::min(nonzero.rows[row], nonzero.columns[column]);
    sum.total = Magnitude(total[i]);
    sum.squares = Magnitude(squares[i]);
    sum.path = paths.empty() ? Magnitude::infinite() : Magnitude(paths[i]);
    sum.addend = addends_(i);
    sum.misread = radius_at(misread_, i) + sum.addend.error;
    sum.exact = result(i);
    errors[i] = (sized_error(sum, counts) + sum.misread).value();
  }
  return errors;
}

Magnitude ProductRounding::sized_error(const LargestSum& sum, const TermCounts& counts) const {
  const Magnitude c = sum.addend.magnitude;
  const bool rounds_addend = c != Magnitude() && addends_.is_rounded();
  const CountedTerms& counted = counts(sum.products, c != Magnitude());
  TermSizes terms;
  terms.leaves = counted.leaves;
  terms.underflow = counted.underflow;
  terms.total = sum.total + c;
  terms.rounded = rounds_addend ? terms.total : sum.total;
  terms.sum = std::min(sum.exact + sum.misread, terms.total);
  terms.norm = sqrt_up(sum.squares + c * c);
  Magnitude before = counted.factor * terms.total + terms.underflow;
  before = std::min(before, rules_.partial_sums_error(terms, machine_));
  if (sum.path.is_finite()) {
    const Magnitude addend = rounds_addend ? rules_.inner_rounding(c, machine_) : Magnitude();
    before = std::min(before, sum.path + terms.underflow + addend);
  }
  const bool nothing_rounded = sum.products == 0 && !rounds_addend;
  const Magnitude last = nothing_rounded ? rules_.unrecorded_storing(terms.sum, machine_)
                                         : rules_.unrecorded_rounding(terms.sum + before, machine_);
  return rules_.stays_finite(terms.total, before + last, machine_) ? before + last : Magnitude::infinite();
}

/// T-10 to T-12 and T-21 at the largest operands: once for the largest result before it is rounded, and once there.
std::vector<double> ProductRounding::in_two_rounds() const {
  Product product = product_;
  product.operands_are_bounds = true;
  const Tensor<double> a(node_.view.input(0).shape, a_.magnitude), b(node_.view.input(1).shape, b_.magnitude);
  const Tensor<double> c = largest_addend();
  Tensor<double> output(node_.view.output->shape);
  NodeView view{node_.view.node, {&a, &b}, &output};
  if (product.has_addend) view.inputs.push_back(&c);
  const Magnitude omega(machine_.flushes ? machine_.accumulator->smallest_normal : 0.0);
  const Magnitude flushed = rules_.storing_error(0.0, machine_) + omega + Magnitude(product.beta) * omega;
  std::vector<double> misread(output.size(), 0.0);
  for (std::size_t i = 0; i < output.size(); ++i) {
    misread[i] = (Magnitude(product.alpha) * radius_at(misread_, i) + flushed).value();
    output.values[i] = (result(i) + Magnitude(misread[i])).value();
  }
  const auto chosen = [&]() {
    ProductBounds bounds = product_bounds(product, view, setting_);
    return node_.any_order || bounds.order_aware.empty() ? std::move(bounds.any_order) : std::move(bounds.order_aware);
  };
  output.values = sum_up(output.values, chosen());
  return sum_up(chosen(), misread);
}

Tensor<double> ProductRounding::largest_addend() const {
  if (!product_.has_addend) return {};
  Tensor<double> largest(node_.view.input(2).shape, largest_unread(2));
  for (double& c : largest.values) {
    c = std::isfinite(c) ? round_to(c, *machine_.accumulator, Rounding::up) : infinity;
  }
  return largest;
}

}  // namespace

std::vector<double> product_rounding(const UnrecordedNode& node, const Setting& setting) {
  return ProductRounding(node, setting)();
}

}  // namespace driftbound::bounds
