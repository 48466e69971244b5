#include "bounds/nodes/product_rounding.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/matrices/matrix.hpp"
#include "bounds/sums/one_sided.hpp"
#include "bounds/sums/running_sums.hpp"
#include "bounds/sums/signed_squares.hpp"
#include "bounds/theorems/rounded_shadow.hpp"
#include "bounds/theorems/roundings.hpp"
#include "bounds/theorems/sums.hpp"
#include "driftbound/num/directed.hpp"
#include "num/parallel.hpp"

namespace driftbound::bounds {
namespace {

/// Returns an upper bound of a nonnegative expression that is computed with fewer than 4 roundings to nearest; 0 for 0.
double up(double x) {
  return x == 0.0 ? 0.0 : x * (1.0 + 0x1p-50) + 0x1p-1070;
}

std::vector<double> squares_of(std::vector<double> values) {
  for (double& value : values) value = value == 0.0 ? 0.0 : value * value * (1.0 + 0x1p-50) + 0x1p-1070;
  return values;
}

std::vector<double> sum_up(std::vector<double> a, std::span<const double> b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = add_up(a[i], b[i]);
  return a;
}

std::vector<double> smaller(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::min(a[i], b[i]);
  return a;
}

/// Bounds of an operand of the product in any run.
struct LargestFactor {
  std::vector<double> magnitude;  ///< bounds of |operand as read|
  std::vector<double> error;      ///< bounds of |operand as read - operand|; empty: 0
};

/// An operand of the product in any run, as read, by a centre and a radius.
struct CentredFactor {
  std::vector<double> centre;
  std::vector<double> distance;  ///< bounds of |operand as read - centre|
};

/// Bounds of the addend beta c of one element in any run.
struct Addend {
  double magnitude = 0.0;  ///< bound of |beta c|
  double error = 0.0;      ///< error of rounding beta and of reading c
  double centre = 0.0;     ///< beta times the centre of c
};

class LargestAddends {
public:
  LargestAddends(const UnrecordedNode& node, const Product& product, const Setting& setting) {
    if (!product.has_addend || product.beta == 0.0) return;
    const Machine& machine = setting.machine;
    const double beta = round_to(product.beta, *machine.accumulator, machine.rounding);
    const Magnitude beta_error = theorems::constant_error(product.beta, machine);
    const Magnitude misread = Magnitude(beta) * Magnitude(machine.flushes ? machine.accumulator->smallest_normal : 0.0);
    is_rounded_ = std::abs(beta) != 1.0;
    const Tensor<double>& c = node.view.input(2);
    index_.emplace(c.shape, node.view.output->shape);
    for (std::size_t i = 0; i < c.size(); ++i) {
      const Magnitude largest = Magnitude(c.values[i]) + radius_at(node.operand_radii[2], i);
      addends_.push_back(
          {(Magnitude(beta) * largest).value(), (beta_error * largest + misread).value(), beta * c.values[i]});
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

/// The constants of the bounds that depend on the number of terms only.
struct CountedTerms {
  std::int64_t leaves = 0;
  double factor = 0.0;     ///< the factor of T-10 without the last rounding
  double underflow = 0.0;  ///< the underflow term of T-12
};

/// A table of CountedTerms, by the number of nonzero products and whether there is an addend.
class TermCounts {
public:
  TermCounts(std::int64_t most_products, bool addend_is_rounded, const Setting& setting) {
    for (std::int64_t products = 0; products <= most_products; ++products) {
      for (const std::int64_t stored : {0, 1}) {
        CountedTerms terms;
        terms.leaves = theorems::leaf_count(products, stored);
        terms.factor = theorems::any_order_factor(terms.leaves - 1, setting.machine).value();
        const std::int64_t rounded = products + (addend_is_rounded ? stored : 0);
        if (rounded > 0) terms.underflow = theorems::underflow_term(rounded, terms.leaves, setting.machine).value();
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

/// Upper bounds of the sizes of the terms of one element, for all operands within their radii.
struct LargestSum {
  std::int64_t products = 0;  ///< number of products that may be nonzero
  double total = 0.0;         ///< sum of the magnitudes of the products
  double squares = 0.0;       ///< sum of the squares of the products
  double one_sided = 0.0;     ///< the same over the positive or the negative products, the larger
  std::int64_t small = 0;     ///< number of products that are treated as small terms (T-68)
  double small_total = 0.0;   ///< sum of the magnitudes of the small terms
  double exact = 0.0;         ///< magnitude of the exact sum of all terms as read
  Addend addend;
};

/// The same for all elements.
struct LargestSums {
  std::vector<double> total, squares, one_sided;
  NonzeroCounts nonzero;
  std::vector<double> small_total;      ///< over products with a small element of A; empty: no term is treated as small
  std::vector<std::int64_t> not_small;  ///< by row of A: number of elements that are not small
};

/// The elements of A that are small compared with the largest of their row. Their products are treated as the small
/// terms of T-68.
struct SmallFactors {
  std::vector<double> magnitude;        ///< 0 for elements that are not small
  std::vector<std::int64_t> not_small;  ///< by row: number of elements that are not small
  bool worth_it = false;                ///< whether there are enough small elements to pay for another product
};

bool has_zero(const std::vector<double>& values) {
  return std::find(values.begin(), values.end(), 0.0) != values.end();
}

/// Computes the bounds of product_rounding() and unrecorded_sums().
class ProductRounding {
public:
  ProductRounding(const UnrecordedNode& node, const Setting& setting)
      : node_(node),
        setting_(inside_products(setting)),
        machine_(setting_.machine),
        product_(product_of(node.view).value()),
        addends_(node, product_, setting_),
        a_(as_read(0)),
        b_(as_read(1)),
        misread_(misread_products()),
        counts_(product_.plan.k, addends_.is_rounded(), setting_),
        may_have_zeros_(has_zero(a_.magnitude) || has_zero(b_.magnitude)) {}

  std::vector<double> operator()() const {
    const bool is_one_sum =
        machine_.to_nearest() && !machine_.tensor_core && !machine_.reduced && std::abs(product_.alpha) == 1.0;
    const bool may_flush_in_order = machine_.flushes && follows_order();
    return is_one_sum && !may_flush_in_order ? by_sizes() : in_two_rounds();
  }

  std::vector<UnrecordedSum> sums() const {
    const LargestSums largest = largest_sums();
    std::vector<UnrecordedSum> all;
    for (std::size_t i = 0; i < largest.total.size(); ++i) {
      const LargestSum sum = sum_at(largest, i);
      all.push_back({terms_of(sum), Magnitude(any_order_error(sum)), Magnitude(up(misread(i) + sum.addend.error))});
    }
    return all;
  }

private:
  static Setting inside_products(Setting setting) {
    setting.machine = product_machine(setting.machine);
    return setting;
  }

  std::vector<double> largest_operand(std::size_t slot) const {
    std::vector<double> largest = magnitudes(node_.view.input(slot).values);
    const Radii radii = node_.operand_radii[slot];
    for (std::size_t i = 0; i < radii.size(); ++i)
      largest[i] = radii[i] == 0.0 ? largest[i] : up(largest[i] + radii[i]);
    return largest;
  }
  /// Returns the largest magnitude of the exact result at the run's operands.
  double result(std::size_t i) const {
    return up(std::abs(node_.view.y(i)) + (node_.moved.empty() ? 0.0 : node_.moved[i]));
  }

  bool reads_exactly() const {
    return !machine_.flushes && (node_.operands_are_read || machine_.input == machine_.accumulator);
  }
  bool follows_order() const { return !node_.any_order && machine_.order.kind != SummationOrder::Kind::unknown; }

  /// Rounds upper bounds of magnitudes down to the input format. They remain upper bounds if the operands are numbers
  /// of that format.
  void to_input_format(std::vector<double>& magnitudes) const {
    for (double& x : magnitudes) x = std::isfinite(x) ? round_to(x, *machine_.input, Rounding::down) : infinity;
  }

  LargestFactor as_read(std::size_t slot) const {
    LargestFactor read{largest_operand(slot), {}};
    if (node_.operands_are_read) to_input_format(read.magnitude);
    if (reads_exactly()) return read;
    for (std::size_t i = 0; i < read.magnitude.size(); ++i) {
      double& largest = read.magnitude[i];
      read.error.push_back(largest == 0.0 ? 0.0 : reading_error(slot, i, largest).value());
      largest = std::isfinite(largest) ? round_to(largest, *machine_.input, Rounding::up) : infinity;
    }
    return read;
  }

  Magnitude reading_error(std::size_t slot, std::size_t i, double largest) const {
    const double x = node_.view.input(slot).values[i];
    if (node_.operands_are_read) {
      const double radius = radius_at(node_.operand_radii[slot], i).value();
      return theorems::read_otherwise(x, radius, Magnitude(largest), *machine_.input);
    }
    const bool is_known = radius_at(node_.operand_radii[slot], i) == Magnitude() && std::isfinite(x);
    if (is_known && !machine_.flushes) {
      return Magnitude(theorems::operand_error(x, round_to(x, *machine_.input, machine_.operand_rounding)));
    }
    const Magnitude flushed = machine_.flushes ? Magnitude(machine_.input->smallest_normal) : Magnitude();
    Machine reader = machine_;
    reader.rounding = machine_.operand_rounding;
    return theorems::unrecorded_cast(Magnitude(largest), *machine_.input, reader) + flushed;
  }

  std::vector<double> product(std::span<const double> a, std::span<const double> b) const {
    return product_up(product_.plan, a, b, setting_.threads);
  }

  /// Returns sum_k |R(a) - a| |R(b)| + |a| |R(b) - b|, the error of reading the operands (T-13); empty: 0.
  std::vector<double> misread_products() const {
    if (reads_exactly()) return {};
    return sum_up(product(a_.error, b_.magnitude), product(largest_operand(0), b_.error));
  }

  /// Returns an operand as read, by centre and radius. An element with radius 0 is rounded to the input format.
  CentredFactor centred(std::size_t slot, const LargestFactor& read) const {
    CentredFactor factor{node_.view.input(slot).values, std::vector<double>(read.magnitude.size(), 0.0)};
    for (std::size_t i = 0; i < factor.centre.size(); ++i) {
      const double radius = radius_at(node_.operand_radii[slot], i).value();
      const double misread = read.error.empty() ? 0.0 : read.error[i];
      if (radius == 0.0) factor.centre[i] = round_to(factor.centre[i], *machine_.input, machine_.operand_rounding);
      if (radius != 0.0) factor.distance[i] = add_up(radius, misread);
    }
    return factor;
  }

  std::vector<double> totals() const {
    if (!node_.sizes || !reads_exactly()) return product(a_.magnitude, b_.magnitude);
    std::vector<double> total(node_.sizes->total.begin(), node_.sizes->total.end());
    return node_.sizes->spread.empty() ? total : sum_up(std::move(total), node_.sizes->spread);
  }

  /// Returns a bound of the difference between the sums of the products as read and of the exact products.
  double misread(std::size_t i) const { return misread_.empty() ? 0.0 : misread_[i]; }

  /// Returns the squares with the signs of the operand where these are certain. Reading keeps the sign or gives 0.
  SignedSquares with_signs(std::size_t slot, std::vector<double> squares) const {
    return signed_squares(node_.view.input(slot).values, node_.operand_radii[slot], std::move(squares));
  }

  LargestSums largest_sums() const {
    std::vector<double> a = squares_of(a_.magnitude), b = squares_of(b_.magnitude);
    LargestSums sums{totals(), product(a, b), {}, count_nonzero(product_.plan, a_.magnitude, b_.magnitude), {}, {}};
    sums.one_sided = theorems::one_sided_squares(product_.plan, with_signs(0, std::move(a)),
                                                 with_signs(1, std::move(b)), sums.squares, setting_.threads);
    SmallFactors small = small_factors();
    if (!small.worth_it) return sums;
    sums.small_total = product(small.magnitude, b_.magnitude);
    sums.not_small = std::move(small.not_small);
    return sums;
  }
  std::int64_t products_at(const LargestSums& sums, std::size_t i) const {
    if (!may_have_zeros_) return product_.plan.k;
    const std::size_t row = i / at(product_.plan.n);
    const std::size_t column = row / at(product_.plan.m) * at(product_.plan.n) + i % at(product_.plan.n);
    return std::min(sums.nonzero.rows[row], sums.nonzero.columns[column]);
  }
  LargestSum sum_at(const LargestSums& sums, std::size_t i) const {
    const Addend addend = addends_(i);
    LargestSum sum;
    sum.products = products_at(sums, i);
    sum.total = sums.total[i];
    sum.squares = sums.squares[i];
    sum.one_sided = sums.one_sided[i];
    if (!sums.small_total.empty()) {
      sum.small = sum.products - std::min(sum.products, sums.not_small[i / at(product_.plan.n)]);
      sum.small_total = sums.small_total[i];
    }
    sum.exact = up(result(i) + misread(i) + addend.error);
    sum.addend = addend;
    return sum;
  }

  SmallFactors small_factors() const;
  std::vector<double> by_sizes() const;
  TermSizes terms_of(const LargestSum& sum) const;
  double any_order_error(const LargestSum& sum) const;
  double with_last_rounding(const LargestSum& sum, double before) const;
  std::vector<double> declared_order_errors(const LargestSums& sums) const;
  std::vector<double> running_errors(const LargestSums& sums) const;
  std::vector<double> in_two_rounds() const;
  std::vector<double> where_stored(std::vector<double> errors) const;
  Tensor<double> largest_addend() const;

  const UnrecordedNode& node_;
  const Setting setting_;
  const Machine& machine_;
  const Product product_;
  const LargestAddends addends_;
  const LargestFactor a_, b_;
  const std::vector<double> misread_;
  const TermCounts counts_;
  const bool may_have_zeros_;
};

/// Selects the elements of A that are at most small_share(u) times the largest of their row.
SmallFactors ProductRounding::small_factors() const {
  const ProductPlan& plan = product_.plan;
  SmallFactors small{std::vector<double>(a_.magnitude.size(), 0.0),
                     std::vector<std::int64_t>(at(plan.batches * plan.m)), false};
  std::int64_t count = 0;
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    for (std::int64_t i = 0; i < plan.m; ++i) {
      double largest = 0.0;
      for (std::int64_t k = 0; k < plan.k; ++k) largest = std::max(largest, a_.magnitude[plan.a_index(batch, i, k)]);
      for (std::int64_t k = 0; k < plan.k; ++k) {
        const std::size_t from = plan.a_index(batch, i, k);
        const double factor = a_.magnitude[from];
        const bool is_small = factor <= small_share(machine_.u) * largest;
        if (is_small) small.magnitude[from] = factor;
        if (is_small && factor != 0.0) ++count;
        if (!is_small) ++small.not_small[at(batch * plan.m + i)];
      }
    }
  }
  constexpr std::int64_t worth_a_product = 16;
  small.worth_it = worth_a_product * count >= plan.batches * plan.m * plan.k;
  return small;
}

/// Bounds all roundings except the last by the smallest of T-10, T-68 and, for the declared order, T-11 and T-69; then
/// adds the last rounding and the reading errors.
std::vector<double> ProductRounding::by_sizes() const {
  const LargestSums sums = largest_sums();
  std::vector<double> errors(sums.total.size());
  for (std::size_t i = 0; i < errors.size(); ++i) errors[i] = any_order_error(sum_at(sums, i));
  if (follows_order()) errors = smaller(std::move(errors), declared_order_errors(sums));
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const LargestSum sum = sum_at(sums, i);
    errors[i] = up(with_last_rounding(sum, errors[i]) + misread(i) + sum.addend.error);
  }
  return errors;
}

TermSizes ProductRounding::terms_of(const LargestSum& sum) const {
  const double c = sum.addend.magnitude;
  const CountedTerms& counted = counts_(sum.products, c != 0.0);
  const double total = up(sum.total + c);
  const double square = c == 0.0 ? 0.0 : c * c + 0x1p-1000;
  TermSizes terms;
  terms.leaves = counted.leaves;
  terms.underflow = Magnitude(counted.underflow);
  terms.total = Magnitude(total);
  terms.rounded = Magnitude(addends_.is_rounded() ? total : sum.total);
  terms.sum = Magnitude(std::min(sum.exact, total));
  terms.norm = Magnitude(up(std::sqrt(sum.squares + square)));
  terms.one_sided = Magnitude(up(std::sqrt(sum.one_sided + square)));
  return terms;
}

/// Bounds all roundings except the last in any order by T-10 or T-68, whichever is smaller.
double ProductRounding::any_order_error(const LargestSum& sum) const {
  TermSizes terms = terms_of(sum);
  const CountedTerms& counted = counts_(sum.products, sum.addend.magnitude != 0.0);
  const double classical = up(counted.factor * terms.total.value() + counted.underflow);
  const double smallest = std::min(classical, theorems::partial_sums_error(terms, machine_).value());
  if (sum.small == 0) return smallest;
  terms.small = sum.small;
  terms.small_total = Magnitude(sum.small_total);
  return std::min(smallest, theorems::partial_sums_error(terms, machine_).value());
}

double ProductRounding::with_last_rounding(const LargestSum& sum, double before) const {
  const double c = sum.addend.magnitude;
  const double total = up(sum.total + c), exact = std::min(sum.exact, total);
  const bool nothing_rounded = sum.products == 0 && (c == 0.0 || !addends_.is_rounded());
  const Magnitude last = nothing_rounded ? theorems::unrecorded_storing(Magnitude(exact), machine_)
                                         : theorems::unrecorded_rounding(Magnitude(up(exact + before)), machine_);
  const double error = up(before + last.value());
  return theorems::stays_finite(Magnitude(total), Magnitude(error), machine_) ? error : infinity;
}

/// Bounds all roundings except the last in the declared order by T-11 or T-69, whichever is smaller.
std::vector<double> ProductRounding::declared_order_errors(const LargestSums& sums) const {
  const ProductPlan& plan = product_.plan;
  std::vector<double> errors = path_sums(plan, a_.magnitude, b_.magnitude, !addends_.any(), setting_);
  if (machine_.order.gives_partial_sums()) errors = smaller(std::move(errors), running_errors(sums));
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const double c = addends_(i).magnitude;
    const double addend = addends_.is_rounded() ? theorems::inner_rounding(Magnitude(c), machine_).value() : 0.0;
    errors[i] = up(errors[i] + counts_(products_at(sums, i), c != 0.0).underflow + addend);
  }
  return errors;
}

/// Returns the bound of T-69 without the underflow term.
std::vector<double> ProductRounding::running_errors(const LargestSums& sums) const {
  const ProductPlan& plan = product_.plan;
  const CentredFactor a = centred(0, a_), b = centred(1, b_);
  const std::vector<double> spread =
      sum_up(product(a.distance, magnitudes(b.centre)), product(a_.magnitude, b.distance));
  std::vector<double> slack(sums.total.size());
  for (std::size_t i = 0; i < slack.size(); ++i) {
    LargestSum products = sum_at(sums, i);
    products.exact += products.addend.magnitude;
    products.addend = {};
    slack[i] = theorems::running_slack(plan.k, any_order_error(products), spread[i], products.total);
  }
  const RunningTerms terms{a.centre, b.centre, a_.magnitude, slack};
  std::vector<double> errors = theorems::running_ufps(plan, terms, machine_.order, !addends_.any(), setting_.threads);
  std::vector<double> products(errors.size(), 0.0);
  if (!machine_.order.fma) products = theorems::product_ufps(plan, terms, setting_.threads);
  for (std::size_t i = 0; i < errors.size(); ++i)
    errors[i] = up(machine_.u * (std::min(products[i], sums.total[i]) + errors[i]));
  return errors;
}

/// T-10 to T-12 and T-21 for the largest operands. The first evaluation bounds the magnitude of the computed result
/// from that of the exact result; the second uses this magnitude as the stored result.
std::vector<double> ProductRounding::in_two_rounds() const {
  Product product = product_;
  product.operands_are_bounds = true;
  const Tensor<double> a(node_.view.input(0).shape, a_.magnitude), b(node_.view.input(1).shape, b_.magnitude);
  const Tensor<double> c = largest_addend();
  Tensor<double> output(node_.view.output->shape);
  NodeView view{node_.view.node, {&a, &b}, &output};
  if (product.has_addend) view.inputs.push_back(&c);
  const Magnitude omega(machine_.flushes ? machine_.accumulator->smallest_normal : 0.0);
  const Magnitude flushed = theorems::storing_error(0.0, machine_) + omega + Magnitude(product.beta) * omega;
  std::vector<double> misread(output.size(), 0.0);
  for (std::size_t i = 0; i < output.size(); ++i) {
    misread[i] = (Magnitude(product.alpha) * radius_at(misread_, i) + flushed).value();
    output.values[i] = up(result(i) + misread[i]);
  }
  const auto chosen = [&]() {
    ProductBounds bounds = product_bounds(product, view, setting_);
    return node_.any_order || bounds.order_aware.empty() ? std::move(bounds.any_order) : std::move(bounds.order_aware);
  };
  output.values = sum_up(output.values, chosen());
  return where_stored(sum_up(chosen(), misread));
}

/// T-22: sets errors to infinity where the result may overflow in the output format.
std::vector<double> ProductRounding::where_stored(std::vector<double> errors) const {
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const Magnitude largest = Magnitude(result(i)) + Magnitude(errors[i]);
    if (!std::isfinite(theorems::unrecorded_storing(largest, machine_).value())) errors[i] = infinity;
  }
  return errors;
}

Tensor<double> ProductRounding::largest_addend() const {
  if (!product_.has_addend) return {};
  Tensor<double> largest(node_.view.input(2).shape, largest_operand(2));
  for (double& c : largest.values) {
    c = std::isfinite(c) ? round_to(c, *machine_.accumulator, Rounding::up) : infinity;
  }
  return largest;
}

}  // namespace

std::vector<double> product_rounding(const UnrecordedNode& node, const Setting& setting) {
  return ProductRounding(node, setting)();
}

std::vector<UnrecordedSum> unrecorded_sums(const UnrecordedNode& node, const Setting& setting) {
  return ProductRounding(node, setting).sums();
}

}  // namespace driftbound::bounds
