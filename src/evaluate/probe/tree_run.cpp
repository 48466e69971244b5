#include "evaluate/probe/tree_run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "evaluate/probe/arithmetic_probe.hpp"

namespace driftbound::probe {
namespace {

constexpr int of_float = 24, of_double = 53;

/// The format of so many bits whose sums are float32 numbers before they are rounded to it; empty: there is none.
std::optional<FormatId> narrow_format(int precision) {
  for (const FormatId id : {FormatId::bf16, FormatId::fp16})
    if (format(id).precision == precision) return id;
  return std::nullopt;
}

double rounded_to(double x, FormatId id) {
  return round_to(x, format(id), Rounding::nearest_even);
}

/// A number with its exponent, as a step of a matrix unit aligns it: products by the sum of their operands' exponents.
struct Addend {
  double value = 0.0;
  int exponent = 0;
};

class Run {
public:
  Run(const TreeIndex& index, const ElementClass& elements, const TreeArithmetic& arithmetic,
      const std::function<float(std::int64_t)>& a, const std::function<float(std::int64_t)>& b)
      : index_(index),
        elements_(elements),
        tree_(index.tree()),
        arithmetic_(arithmetic),
        has_steps_(!tree_.is_binary()) {
    if (arithmetic.additions) of_additions_ = narrow_format(arithmetic.additions->precision);
    if (arithmetic.parts) of_parts_ = narrow_format(arithmetic.parts->precision);
    for (std::int64_t k = 0; k < tree_.leaves; ++k) {
      a_.push_back(read(a(k), arithmetic.left));
      b_.push_back(read(b(k), arithmetic.right));
    }
    sums_.resize(tree_.nodes.size());
  }

  float result() {
    const Format& f = format(arithmetic_.result.format);
    return static_cast<float>(round_to(sum(), f, arithmetic_.result.rounding.value_or(Rounding::nearest_even)));
  }

private:
  double sum() {
    if (tree_.nodes.empty()) return rounded_product(0);
    for (std::size_t t = 0; t < tree_.nodes.size(); ++t) {
      const std::int64_t node = tree_.leaves + static_cast<std::int64_t>(t);
      const bool is_addition = !is_step(index_, node, has_steps_);
      sums_[t] = is_addition ? addition(tree_.nodes[t]) : step(node);
      if (is_addition && of_additions_) sums_[t] = rounded_to(sums_[t], *of_additions_);
      if (!elements_.rounded_parts.empty() && elements_.rounded_parts[t]) sums_[t] = rounded_to(sums_[t], *of_parts_);
    }
    return sums_.back();
  }

  static float read(float x, const ProbedReading& reading) {
    const Format& f = format(reading.format().value());
    return static_cast<float>(round_to(x, f, reading.rounding.value_or(Rounding::nearest_even)));
  }

  double exact_product(std::int64_t k) const {
    const auto slot = static_cast<std::size_t>(k);
    return static_cast<double>(a_[slot]) * static_cast<double>(b_[slot]);
  }
  bool is_double() const { return arithmetic_.additions && arithmetic_.additions->precision == of_double; }
  double rounded_product(std::int64_t k) const {
    if (is_double()) return exact_product(k);
    const auto product = static_cast<double>(static_cast<float>(exact_product(k)));
    const std::vector<bool>& rounded = elements_.rounded_products;
    const bool is_rounded = of_additions_ && !rounded.empty() && rounded[static_cast<std::size_t>(k)];
    return is_rounded ? rounded_to(product, *of_additions_) : product;
  }
  bool is_fused(std::int64_t id) const {
    return index_.is_product(id) && !tree_.fused.empty() && tree_.fused[static_cast<std::size_t>(id)];
  }
  double value(std::int64_t id) const {
    return index_.is_product(id) ? rounded_product(id) : sums_[static_cast<std::size_t>(id - tree_.leaves)];
  }

  double addition(const std::vector<std::int64_t>& children) const {
    const bool is_first = is_fused(children[0]);
    const std::int64_t x = children[is_first ? 0 : 1], y = children[is_first ? 1 : 0];
    if (is_double()) return value(x) + value(y);
    if (!is_fused(x)) return static_cast<double>(static_cast<float>(value(x)) + static_cast<float>(value(y)));
    const auto slot = static_cast<std::size_t>(x);
    return static_cast<double>(std::fma(a_[slot], b_[slot], static_cast<float>(value(y))));
  }

  Addend addend(std::int64_t id) const {
    if (!index_.is_product(id)) return {value(id), std::ilogb(value(id))};
    const auto slot = static_cast<std::size_t>(id);
    return {exact_product(id), exponent(a_[slot], arithmetic_.left) + exponent(b_[slot], arithmetic_.right)};
  }

  /// That of a subnormal number is the lowest of its format (T-21).
  static int exponent(float x, const ProbedReading& reading) {
    return std::max(std::ilogb(x), format(reading.format().value()).min_exponent);
  }

  double step(std::int64_t node) const {
    std::vector<Addend> addends;
    int largest = std::numeric_limits<int>::min();
    for (const std::int64_t child : index_.children(node)) {
      const Addend one = addend(child);
      if (one.value == 0.0) continue;
      addends.push_back(one);
      largest = std::max(largest, one.exponent);
    }
    if (addends.empty()) return 0.0;
    const StepArithmetic& steps = *arithmetic_.steps;
    const int quantum = largest - *steps.fraction_bits;
    double sum = 0.0;
    for (const Addend& one : addends) sum += std::trunc(std::ldexp(one.value, -quantum));
    sum = std::ldexp(sum, quantum);
    const bool cuts = steps.sums.rounding == Rounding::toward_zero || steps.sums.is_hidden;
    if (steps.sums.precision < of_float && cuts && sum != 0.0) {
      const int unit = std::ilogb(sum) + 1 - steps.sums.precision;
      sum = std::ldexp(std::trunc(std::ldexp(sum, -unit)), unit);
    }
    return round_to(sum, format(FormatId::fp32), steps.sums.rounding.value_or(Rounding::toward_zero));
  }

  const TreeIndex& index_;
  const ElementClass& elements_;
  const SummationTree& tree_;
  const TreeArithmetic& arithmetic_;
  bool has_steps_;
  std::optional<FormatId> of_additions_, of_parts_;  ///< where sums are rounded to fewer bits than those of a float32
  std::vector<float> a_, b_;
  std::vector<double> sums_;
};

std::string obstacle_of_reading(const ProbedReading& reading) {
  if (!reading.format())
    return "operands are read with " + std::to_string(reading.precision) + " bits up to 2^" +
           std::to_string(reading.highest_power) + ", which is no format known here";
  if (reading.precision < of_float && !reading.rounding) return "how operands are rounded is not known";
  return "";
}

std::string obstacle_of_sums(const SumRounding& sums) {
  if (sums.is_hidden) return "";
  const bool is_known = sums.precision == of_float || sums.precision == of_double || narrow_format(sums.precision);
  if (!is_known) return "sums are kept with " + std::to_string(sums.precision) + " bits, which is no format known here";
  if (sums.rounding != Rounding::nearest_even) return "sums are not rounded to nearest even";
  return "";
}

std::string obstacle_of_steps(const StepArithmetic& steps) {
  constexpr int most = 40;  // sums of addends are exact in double
  if (!steps.fraction_bits || *steps.fraction_bits > most) return "steps cut nothing off that could be seen";
  if (steps.sums.precision != of_float && *steps.fraction_bits >= of_float)
    return "sums of steps are kept with " + std::to_string(steps.sums.precision) + " bits";
  return "";
}

}  // namespace

std::string obstacle_to_run(const TreeArithmetic& arithmetic) {
  for (const ProbedReading* reading : {&arithmetic.left, &arithmetic.right})
    if (const std::string obstacle = obstacle_of_reading(*reading); !obstacle.empty()) return obstacle;
  if (arithmetic.result.is_narrow() && !arithmetic.result.rounding)
    return "how results are rounded to " + std::string(format(arithmetic.result.format).name) + " is not known";
  for (const std::optional<SumRounding>* sums : {&arithmetic.additions, &arithmetic.parts})
    if (*sums)
      if (const std::string obstacle = obstacle_of_sums(**sums); !obstacle.empty()) return obstacle;
  return arithmetic.steps ? obstacle_of_steps(*arithmetic.steps) : "";
}

float run_along(const TreeIndex& index, const ElementClass& elements, const TreeArithmetic& arithmetic,
                const std::function<float(std::int64_t)>& a, const std::function<float(std::int64_t)>& b) {
  return Run(index, elements, arithmetic, a, b).result();
}

}  // namespace driftbound::probe
