#include "bounds/local/operand_readings.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/local/other_orders.hpp"
#include "bounds/local/product_inside.hpp"
#include "bounds/nodes/product_node.hpp"
#include "bounds/sums/operand.hpp"
#include "bounds/theorems/chance.hpp"
#include "bounds/theorems/roundings.hpp"
#include "bounds/theorems/sums.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/format.hpp"
#include "linalg/ordered_product.hpp"

namespace driftbound::bounds {
namespace {

constexpr std::size_t most_elements = 128;
constexpr std::size_t readings = 10;
/// Elements whose difference between two readings is below this share of the root mean square do not count.
constexpr double clear_share = 0.25;
/// An honest sum that goes this share of the way to another reading refutes the model.
constexpr double refuting_share_of_way = 0.25;

struct Narrowing {
  FormatId format;
  Rounding rounding;
};

/// In the order of OperandReading, from its second entry on.
constexpr Narrowing narrowings[readings - 1] = {
    {FormatId::fp32, Rounding::nearest_even},    {FormatId::tf32, Rounding::nearest_even},
    {FormatId::tf32, Rounding::nearest_away},    {FormatId::tf32, Rounding::toward_zero},
    {FormatId::fp16, Rounding::nearest_even},    {FormatId::bf16, Rounding::nearest_even},
    {FormatId::bf16, Rounding::toward_zero},     {FormatId::fp8_e4m3, Rounding::nearest_even},
    {FormatId::fp8_e5m2, Rounding::nearest_even}};

/// round_to() of many numbers, quickly where all of them and their neighbours are normal in the format, or 0.
void round_all(std::span<const double> from, const Narrowing& how, std::span<double> to) {
  const Format& target = format(how.format);
  const int dropped = 53 - target.precision;
  const std::uint64_t unit = std::uint64_t{1} << dropped, half = unit >> 1;
  const bool is_even = how.rounding == Rounding::nearest_even;
  const std::uint64_t added = is_even ? half - 1 : how.rounding == Rounding::nearest_away ? half : 0;
  const double least = target.smallest_normal, most = 0.5 * target.largest;
  std::size_t apart = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const double magnitude = std::abs(from[i]);
    apart += magnitude >= least && magnitude <= most ? 0U : magnitude == 0.0 ? 0U : 1U;
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(from[i]);
    const std::uint64_t last = is_even ? bits >> dropped & 1 : 0;
    to[i] = std::bit_cast<double>((bits + added + last) & ~(unit - 1));
  }
  for (std::size_t i = 0; apart > 0 && i < from.size(); ++i) {
    const double magnitude = std::abs(from[i]);
    if (!(magnitude >= least && magnitude <= most)) to[i] = round_to(from[i], target, how.rounding);
  }
}

/// A row or column in all readings, and what each changes.
struct Line {
  std::vector<double> read, change;  ///< [readings, k]
  std::uint64_t computation = 0;     ///< equal for lines that differ by their sign and a power of 2

  /// Shapes:    `values` have the strides of an operand
  void take(const double* values, std::int64_t stride, std::size_t k) {
    read.resize(readings * k);
    change.resize(readings * k);
    for (std::size_t l = 0; l < k; ++l) read[l] = values[static_cast<std::int64_t>(l) * stride];
    std::fill_n(change.begin(), k, 0.0);
    const std::span<const double> given(read.data(), k);
    for (std::size_t r = 1; r < readings; ++r) {
      double* const to = read.data() + r * k;
      double* const changed = change.data() + r * k;
      round_all(given, narrowings[r - 1], {to, k});
      for (std::size_t l = 0; l < k; ++l) changed[l] = to[l] - given[l];
    }
    note_computation(given);
  }

private:
  void note_computation(std::span<const double> values) {
    computation = 0;
    const auto first = std::find_if(values.begin(), values.end(), [](double x) { return x != 0.0; });
    if (first == values.end() || !std::isfinite(*first)) return;
    const double scale = std::copysign(std::ldexp(1.0, -std::ilogb(*first)), *first);
    for (const double x : values)
      computation =
          (computation ^ std::bit_cast<std::uint64_t>(scale * x + 0.0)) * 0x9e3779b97f4a7c15u + (computation >> 29);
  }
};

/// C = A B in double.
/// Shapes:    a [m, k], b [n, k], result [m, n]
std::vector<double> products(std::span<const double> a, std::span<const double> b, std::int64_t k) {
  const auto m = static_cast<std::int64_t>(a.size()) / k, n = static_cast<std::int64_t>(b.size()) / k;
  const ProductPlan plan{1, m, n, k, {0}, {0}, k, 1, 1, k};
  PackedMatrices<double> packed;
  pack_missing<double>(plan, b, packed);
  return multiply<double>(plan, a, packed, {SummationOrder::Kind::sequential, 0, false}, 1);
}

/// By pair of readings: the exact product of the operands read so, less that of the operands as they are.
using Differences = std::array<double, readings * readings>;

/// Without `is_exact` the products of two changes are left out, which are below 2^-3 of the others.
Differences differences_of(const Line& left, const Line& right, double alpha, std::int64_t k, bool is_exact) {
  const auto size = static_cast<std::size_t>(k);
  const std::span<const double> left_as_it_is(left.read.data(), size), right_as_it_is(right.read.data(), size);
  const std::vector<double> of_left = products(right_as_it_is, left.change, k);
  const std::vector<double> of_right =
      products(is_exact ? std::span<const double>(left.read) : left_as_it_is, right.change, k);
  Differences differences;
  for (std::size_t l = 0; l < readings; ++l)
    for (std::size_t r = 0; r < readings; ++r)
      differences[l * readings + r] = alpha * (of_left[l] + of_right[is_exact ? l * readings + r : r]);
  return differences;
}

/// Elements of a product that use its rows and columns evenly.
std::vector<std::size_t> chosen_elements(const ProductPlan& plan) {
  const auto rows = static_cast<std::size_t>(plan.batches * plan.m), columns = static_cast<std::size_t>(plan.n);
  std::vector<std::size_t> chosen;
  if (rows * columns <= most_elements) {
    for (std::size_t i = 0; i < rows * columns; ++i) chosen.push_back(i);
    return chosen;
  }
  std::set<std::size_t> elements;
  for (std::size_t t = 0; t < most_elements; ++t) {
    const double golden = 0.6180339887498949 * static_cast<double>(t), share = golden - std::floor(golden);
    const std::size_t row = rows < most_elements ? t % rows : t * rows / most_elements;
    elements.insert(row * columns + static_cast<std::size_t>(share * static_cast<double>(columns)));
  }
  return {elements.begin(), elements.end()};
}

/// The readings that the arithmetic declares, or leaves open: a matrix unit may be bypassed.
std::vector<OperandReading> declared_readings(const NodeView& view, const Machine& machine) {
  const bool cuts = machine.tensor_core && machine.tensor_core->cuts_operands;
  std::vector<OperandReading> declared;
  switch (machine.input->id) {
    case FormatId::fp64:
      return {OperandReading::as_it_is};
    case FormatId::fp32:
      return {are_read_as_they_are(view.input(0).values, *machine.input, machine) &&
                      are_read_as_they_are(view.input(1).values, *machine.input, machine)
                  ? OperandReading::as_it_is
                  : OperandReading::fp32};
    case FormatId::tf32:
      if (cuts) declared = {OperandReading::tf32_cut};
      if (!cuts) declared = {OperandReading::tf32};
      if (machine.tensor_core && !cuts) declared.push_back(OperandReading::tf32_ties_away);
      break;
    case FormatId::bf16:
      declared = {cuts ? OperandReading::bf16_cut : OperandReading::bf16};
      break;
    case FormatId::fp16:
      declared = {OperandReading::fp16};
      break;
    case FormatId::fp8_e4m3:
      declared = {OperandReading::fp8_e4m3};
      break;
    case FormatId::fp8_e5m2:
      declared = {OperandReading::fp8_e5m2};
      break;
  }
  if (machine.tensor_core) declared.push_back(OperandReading::as_it_is);
  return declared;
}

std::size_t pair_of(OperandReading left, OperandReading right) {
  return static_cast<std::size_t>(left) * readings + static_cast<std::size_t>(right);
}

/// One tested element.
struct Tested {
  std::size_t element = 0;
  double error = 0.0;    ///< computed - exact at the recorded operands
  double no_coin = 0.0;  ///< what storing and underflow may make of it, whose signs follow from the exact value
  Differences differences = {};
  bool is_repeated = false;  ///< another one has the same computation
};

class OperandReadings {
public:
  OperandReadings(const Product& product, const NodeView& view, const Setting& setting, const Tensor<Ball>& exact)
      : product_(product), view_(view), machine_(setting.machine), exact_(exact) {}

  std::optional<ReadingTest> test() {
    for (const OperandReading reading : declared_readings(view_, machine_))
      declared_.push_back(pair_of(reading, reading));
    find_elements(false);
    if (tested_.empty()) return std::nullopt;
    ReadingTest test = evidence();
    if (!is_clear(test)) {
      find_elements(true);
      test = evidence();
    }
    test.is_modelled = theorems::refused_by(product_machine(machine_)).empty() && sums_are_random(test.pairs);
    return test;
  }

private:
  void take(std::size_t slot, std::size_t element, Line& line) const {
    const ProductPlan& plan = product_.plan;
    const auto at = static_cast<std::int64_t>(element);
    const std::int64_t column = at % plan.n, row = at / plan.n % plan.m, batch = at / plan.n / plan.m;
    const std::size_t first = slot == 0 ? plan.a_index(batch, row, 0) : plan.b_index(batch, 0, column);
    line.take(view_.input(slot).values.data() + first, slot == 0 ? plan.a_col : plan.b_row,
              static_cast<std::size_t>(plan.k));
  }

  /// Whether the operands are declared to be read as they are, and that is by far the nearest reading of all that make
  /// a difference.
  bool is_clear(const ReadingTest& test) const {
    constexpr double far = 16.0;
    const double declared = test.pairs.front().squares;
    return test.pairs.front().is_declared && std::all_of(test.pairs.begin(), test.pairs.end(), [&](const auto& one) {
             return one.squares == declared || one.squares >= far * declared;
           });
  }

  ReadingTest evidence() const {
    ReadingTest test;
    test.elements = test.computations = static_cast<std::int64_t>(tested_.size());
    for (std::size_t pair = 0; pair < readings * readings; ++pair) test.pairs.push_back(evidence_of(pair));
    return test;
  }

  void find_elements(bool is_exact) {
    tested_.clear();
    std::set<std::pair<std::uint64_t, std::uint64_t>> computations;
    Line left, right;
    std::optional<std::size_t> row;
    for (const std::size_t i : chosen_elements(product_.plan)) {
      const Ball& exact = exact_.values[i];
      if (!std::isfinite(view_.y(i)) || !exact.is_finite()) continue;
      const std::size_t row_of_element = i / static_cast<std::size_t>(product_.plan.n);
      if (row != row_of_element) take(0, i, left);
      row = row_of_element;
      take(1, i, right);
      Tested one;
      one.element = i;
      one.error = (view_.y(i) - exact.hi) - exact.lo;
      one.no_coin = (theorems::storing_error(view_.y(i), machine_) +
                     theorems::underflow_term(product_.plan.k, product_.plan.k, machine_))
                        .value();
      one.differences = differences_of(left, right, product_.alpha, product_.plan.k, is_exact);
      one.is_repeated = !computations.emplace(left.computation, right.computation).second;
      tested_.push_back(one);
    }
  }

  /// The difference of a pair from the declared one, at one element.
  double apart(const Tested& one, std::size_t pair) const {
    return one.differences[pair] - one.differences[declared_.front()];
  }

  ReadingEvidence evidence_of(std::size_t pair) const {
    ReadingEvidence evidence;
    evidence.left = static_cast<OperandReading>(pair / readings);
    evidence.right = static_cast<OperandReading>(pair % readings);
    evidence.is_declared = std::find(declared_.begin(), declared_.end(), pair) != declared_.end();
    double of_differences = 0.0;
    for (const Tested& one : tested_) {
      const double distance = one.error - one.differences[pair];
      evidence.squares += distance * distance;
      of_differences += apart(one, pair) * apart(one, pair);
    }
    if (!std::isfinite(evidence.squares)) evidence.squares = infinity;
    const double clear = clear_share * std::sqrt(of_differences / static_cast<double>(tested_.size()));
    for (const Tested& one : tested_) {
      const double error = one.error - one.differences[declared_.front()];
      const double by = apart(one, pair);
      if (one.is_repeated || !(std::abs(error) > one.no_coin) || by == 0.0 || !(std::abs(by) >= clear)) continue;
      ++evidence.signs;
      if ((error > 0.0) == (by > 0.0)) ++evidence.agreeing;
    }
    return evidence;
  }

  /// Whether honest sums of the tested elements, in all orders tried, stay away from the nearest pair. True where that
  /// is the declared one.
  bool sums_are_random(const std::vector<ReadingEvidence>& pairs) const {
    const auto nearest = std::min_element(pairs.begin(), pairs.end(),
                                          [](const auto& a, const auto& b) { return a.squares < b.squares; });
    if (!(nearest->squares < pairs[declared_.front()].squares)) return true;
    const auto pair = static_cast<std::size_t>(nearest - pairs.begin());
    const OtherOrders sums(product_, view_, machine_);
    std::vector<double> agreement(OtherOrders::count(), 0.0);
    double of_differences = 0.0;
    for (const Tested& one : tested_) {
      const Factors factors = sums.factors_of(one.element);
      const Ball& exact = exact_.values[one.element];
      const double by = apart(one, pair);
      of_differences += by * by;
      for (std::size_t order = 0; order < agreement.size(); ++order) {
        const double error = (sums.sum(factors, order) - exact.hi) - exact.lo - one.differences[declared_.front()];
        agreement[order] += error * by;
      }
    }
    return std::all_of(agreement.begin(), agreement.end(),
                       [&](double one) { return one <= refuting_share_of_way * of_differences; });
  }

  const Product& product_;
  const NodeView& view_;
  const Machine& machine_;
  const Tensor<Ball>& exact_;
  std::vector<Tested> tested_;
  std::vector<std::size_t> declared_;
};

}  // namespace

std::optional<ReadingTest> test_operand_readings(const NodeView& view, const Setting& setting,
                                                 const Tensor<Ball>& exact) {
  if (!multiplies_matrices(view.node->op)) {
    const std::optional<ProductInside> inside = product_inside(view, setting, exact);
    return inside ? test_operand_readings(inside->view(), setting, inside->exact) : std::nullopt;
  }
  const std::optional<Product> product = product_of(view);
  if (!product || product->plan.k == 0) return std::nullopt;
  return OperandReadings(*product, view, setting, exact).test();
}

}  // namespace driftbound::bounds
