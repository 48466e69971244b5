#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "support/bound_checks.hpp"
#include "support/tensor_core.hpp"

/// Sums of products as a matrix unit might form them within the assumptions of docs/theory.md T-21, and what is left
/// open there decided by chance: how sums are cut into parts and in which order these are added, what is flushed, what
/// padding does, which way ties of the operands go. In doubles, which hold every number that occurs; shares nothing
/// with tensor_core.hpp.
namespace checks {

struct MatrixUnit {
  TensorCore built{25, 8};     ///< as it is
  TensorCore declared{23, 4};  ///< as the trace says it is at least
  FormatId input = FormatId::tf32;
  bool may_flush = false;
  bool saturates = false;         ///< a sum beyond float32 becomes its largest number, else infinity
  bool zeros_are_lowest = true;   ///< exponent of a zero: -126, else the lowest normal one of the operands' format
  bool splits_and_pads = true;    ///< else one part, without steps of padding
  bool may_be_bypassed = true;    ///< by float32 operations in any order, on operands as read or as given
  bool operands_as_given = true;  ///< in the operands' format already

  int min_exponent() const { return format(input).min_exponent; }
  ArithmeticModel arithmetic() const {
    ArithmeticModel model = cpu_arithmetic("fp32", {});
    model.name = "matrix unit";
    model.input = input;
    model.tensor_core = declared;
    model.products_may_flush = may_flush;
    return model;
  }
};

/// How the sums of one product read their operands: all alike, or each as it happens, rounded or not.
enum class UnitReading { each_its_own, nearest_even, nearest_away, as_given };

class UnitRun {
public:
  UnitRun(const MatrixUnit& unit, Generator& generator) : unit_(unit), generator_(generator) {}

  void read(UnitReading reading) { reading_ = reading; }
  /// Some reading that the unit may have.
  void read_by_chance() {
    const std::size_t readings = unit_.may_be_bypassed ? 4 : 3;
    reading_ = static_cast<UnitReading>(generator_() % readings);
  }

  /// x as the unit reads it.
  double operand(double x) {
    const Format& f = format(unit_.input);
    if (x == 0.0 || !std::isfinite(x)) return x;
    if (unit_.may_flush && std::abs(x) < f.smallest_normal && chance(2)) return 0.0;
    const int quantum = std::max(std::ilogb(x), f.min_exponent) - f.precision + 1;
    const double scaled = std::ldexp(x, -quantum);
    if (unit_.declared.cuts_operands) return std::ldexp(std::trunc(scaled), quantum);
    const bool to_even = reading_ == UnitReading::nearest_even || (reading_ != UnitReading::nearest_away && chance(2));
    const double read = std::ldexp(to_even ? std::nearbyint(scaled) : std::round(scaled), quantum);
    return std::abs(read) > f.largest ? std::copysign(std::numeric_limits<double>::infinity(), x) : read;
  }

  /// The sum of products of numbers as given.
  float product(std::vector<double> a, std::vector<double> b) {
    const bool is_bypassed = reading_ == UnitReading::as_given || (unit_.may_be_bypassed && chance(8));
    const bool may_read_as_given = is_bypassed && reading_ == UnitReading::each_its_own;
    if (reading_ != UnitReading::as_given && !(may_read_as_given && chance(2))) {
      for (double& x : a) x = operand(x);
      for (double& x : b) x = operand(x);
    }
    return is_bypassed ? plain_dot(a, b) : dot(a, b);
  }

  /// Of numbers as read.
  float dot(const std::vector<double>& a, const std::vector<double>& b) {
    const auto is_finite = [](double x) { return std::isfinite(x); };
    if (!std::all_of(a.begin(), a.end(), is_finite) || !std::all_of(b.begin(), b.end(), is_finite))
      return std::numeric_limits<float>::quiet_NaN();
    std::vector<std::size_t> cells = every_cell(a.size());
    if (unit_.splits_and_pads && chance(2)) std::shuffle(cells.begin(), cells.end(), generator_);
    std::vector<float> parts;
    for (std::size_t first = 0; first < cells.size();) {
      const std::size_t left = std::min(cells.size() - first, cells_of_a_part(cells.size()));
      const std::size_t taken = !unit_.splits_and_pads || chance(2) ? left : 1 + generator_() % left;
      const auto begin = cells.begin() + static_cast<std::ptrdiff_t>(first);
      parts.push_back(chain(a, b, {begin, begin + static_cast<std::ptrdiff_t>(taken)}));
      first += taken;
    }
    while (parts.size() > 1) {
      std::shuffle(parts.begin(), parts.end(), generator_);
      const float last = parts.back();
      parts.pop_back();
      parts.back() = flushed(flushed(parts.back()) + flushed(last));
    }
    return parts.front();
  }

private:
  float plain_dot(const std::vector<double>& a, const std::vector<double>& b) {
    return naive::random_tree(std::vector<float>(a.begin(), a.end()), std::vector<float>(b.begin(), b.end()), {},
                              generator_);
  }

  bool chance(std::size_t one_in) { return generator_() % one_in == 0; }
  float flushed(float x) { return unit_.may_flush && std::abs(x) < FLT_MIN && chance(2) ? 0.0f : x; }

  std::vector<std::size_t> every_cell(std::size_t length) const {
    std::vector<std::size_t> cells;
    for (std::size_t first = 0; first < length; first += declared_block()) cells.push_back(first);
    return cells;
  }
  std::size_t cells_of_a_part(std::size_t all) const {
    return unit_.built.promotion == 0 ? all : static_cast<std::size_t>(unit_.built.promotion) / declared_block();
  }
  std::size_t declared_block() const { return static_cast<std::size_t>(unit_.declared.block); }

  int exponent(double x) const {
    if (x == 0.0) return unit_.zeros_are_lowest ? -126 : unit_.min_exponent();
    return std::max(std::ilogb(x), unit_.min_exponent());
  }

  /// All products of some cells, `built.block` a step.
  float chain(const std::vector<double>& a, const std::vector<double>& b, const std::vector<std::size_t>& cells) {
    std::vector<std::pair<double, double>> factors;
    for (const std::size_t first : cells) {
      for (std::size_t k = first; k < std::min(first + declared_block(), a.size()); ++k)
        factors.emplace_back(a[k], b[k]);
    }
    const auto block = static_cast<std::size_t>(unit_.built.block);
    float sum = 0.0f;
    for (std::size_t first = 0; first < factors.size(); first += block) {
      const auto begin = factors.begin() + static_cast<std::ptrdiff_t>(first);
      const std::size_t count = std::min(block, factors.size() - first);
      sum = step(sum, {begin, begin + static_cast<std::ptrdiff_t>(count)});
      if (unit_.splits_and_pads && chance(4)) sum = step(sum, {});
    }
    return sum;
  }

  float step(float c, std::vector<std::pair<double, double>> factors) {
    factors.resize(static_cast<std::size_t>(unit_.built.block), {0.0, 0.0});
    c = flushed(c);
    int largest = c == 0.0f ? -126 : std::max(std::ilogb(c), -126);
    for (const auto& [x, y] : factors) largest = std::max(largest, exponent(x) + exponent(y));
    const int quantum = largest - unit_.built.fraction_bits;
    const auto aligned = [quantum](double x) { return std::trunc(std::ldexp(x, -quantum)); };
    double sum = aligned(static_cast<double>(c));
    for (const auto& [x, y] : factors) {
      const bool lost = unit_.may_flush && std::abs(x * y) < 0x1p-126 && chance(2);
      if (!lost) sum += aligned(x * y);
    }
    return flushed(cut(std::ldexp(sum, quantum)));
  }

  float cut(double x) const {
    constexpr float beyond = std::numeric_limits<float>::infinity();
    if (std::abs(x) >= 0x1p128)
      return std::copysign(unit_.saturates ? FLT_MAX : beyond, static_cast<float>(x > 0) - 0.5f);
    if (x == 0.0) return 0.0f;
    const int quantum = std::max(std::ilogb(x), -126) - unit_.built.sum_bits;
    return static_cast<float>(std::ldexp(std::trunc(std::ldexp(x, -quantum)), quantum));
  }

  const MatrixUnit& unit_;
  Generator& generator_;
  UnitReading reading_ = UnitReading::each_its_own;
};

/// Data for matrix units, each hard on another term of T-21.
enum class UnitData {
  uniform,
  positive,
  cancelling,
  sparse,
  wide,
  quanta,         ///< 1, then products that are just cut off
  returning,      ///< the same, and -1 last
  dominated,      ///< a sum far above every later product
  subnormal,      ///< operands below the normal range of their format
  tiny,           ///< products around the smallest numbers of float32
  zero_huge,      ///< zeros beside the largest numbers, small products else
  huge,           ///< sums around the largest number of float32
  nearly_normal,  ///< one that rounds to the smallest normal number and may be read as 0, products cut off beside it
  last
};

/// Operands of one row against one column. All data is chosen for the format of the operands.
class UnitDraw {
public:
  UnitDraw(const MatrixUnit& unit, UnitData data, Generator& generator)
      : unit_(unit), data_(data), generator_(generator) {}

  std::pair<std::vector<double>, std::vector<double>> vectors(std::size_t k) {
    std::vector<double> a(k), b(k);
    for (std::size_t i = 0; i < k; ++i) std::tie(a[i], b[i]) = factors(i);
    if (data_ == UnitData::cancelling) cancel(a, b);
    if (data_ == UnitData::returning) std::tie(a.back(), b.back()) = std::pair(-a[0], b[0]);
    for (double& x : a) x = stored(x);
    for (double& x : b) x = stored(x);
    return {a, b};
  }

private:
  double random(int exponent) { return std::ldexp(uniform(generator_, -1.0, 1.0), exponent); }
  double power(int exponent) { return std::ldexp(1.0, exponent); }
  int spread(int n) { return static_cast<int>(generator_() % static_cast<std::size_t>(n)); }
  int lowest() const { return unit_.min_exponent(); }
  int highest() const { return std::ilogb(format(unit_.input).largest); }
  int precision() const { return format(unit_.input).precision; }
  bool is_narrow() const { return highest() < 127; }  // fp16 and fp8

  std::pair<double, double> factors(std::size_t i) {
    switch (data_) {
      case UnitData::positive:
        return {uniform(generator_, 0.5, 1.0), uniform(generator_, 0.5, 1.0)};
      case UnitData::sparse:
        return {generator_() % 2 == 0 ? 0.0 : random(0), generator_() % 4 == 0 ? 0.0 : random(0)};
      case UnitData::wide:
        return is_narrow() ? std::pair(random(spread(highest() - lowest() - 1) + lowest()),
                                       random(spread(highest() - lowest() - 1) + lowest()))
                           : std::pair(random(spread(120) - 60), random(spread(120) - 60));
      case UnitData::quanta:
      case UnitData::returning:
        return quantum_factors(i);
      case UnitData::dominated:
        return i == 0 ? std::pair(power(std::min(10, highest())), uniform(generator_, 0.5, 1.0))
                      : std::pair(random(-5), random(-spread(10)));
      case UnitData::subnormal:
        return {random(lowest() + 2 - spread(8)), is_narrow() ? random(lowest() + 4 - spread(8)) : random(spread(80))};
      case UnitData::tiny:
        return is_narrow() ? std::pair(random(lowest() + 5 - precision()), random(lowest() - spread(precision() - 1)))
                           : std::pair(random(-62 - spread(14)), random(-62 - spread(14)));
      case UnitData::zero_huge:
        return generator_() % 2 == 0
                   ? std::pair(0.0, is_narrow() ? format(unit_.input).largest : random(127))
                   : std::pair(random(lowest() + 1), is_narrow() ? random(lowest() + 3) : random(spread(20)));
      case UnitData::huge:
        return is_narrow() ? std::pair(random(highest()), random(highest())) : std::pair(random(64), random(64));
      case UnitData::nearly_normal:
        return nearly_normal_factors(i);
      default:
        return {random(0), random(0)};
    }
  }

  std::pair<double, double> nearly_normal_factors(std::size_t i) {
    const double below_one = 1.0 - std::ldexp(1.0, -precision());
    if (i == 0) return {power(lowest()) * (1.0 - std::ldexp(1.0, -precision() - 1)), power(highest())};
    const int small = precision() <= 4 ? -2 : -10;
    return {power(small) * below_one, power(lowest() + highest() - unit_.built.fraction_bits - small)};
  }

  /// Just below 2^-F of the first product of its part, and one a step of what is cut off the sum.
  std::pair<double, double> quantum_factors(std::size_t i) {
    const int f = unit_.built.fraction_bits, g = unit_.built.sum_bits;
    const bool is_fp8 = precision() <= 4;
    if (i == 0 || (unit_.built.promotion > 0 && i % static_cast<std::size_t>(unit_.built.promotion) == 0))
      return is_fp8 ? std::pair(power(4), power(4)) : std::pair(1.0, 1.0);
    const bool fills = f > g && i % static_cast<std::size_t>(unit_.built.block) == 1;
    const double below_one = 1.0 - std::ldexp(1.0, -precision());
    const int cut = fills ? g : f;
    return is_fp8 ? std::pair(power(-1) * below_one, power(9 - cut))
                  : std::pair(power(-12) * below_one, power(12 - cut));
  }

  void cancel(std::vector<double>& a, std::vector<double>& b) {
    const std::size_t half = a.size() / 2;
    for (std::size_t i = 0; i < half; ++i) {
      a[half + i] = -a[i];
      b[half + i] = b[i];
    }
  }

  double stored(double x) {
    x = static_cast<double>(static_cast<float>(x));
    return unit_.operands_as_given ? naive_operand(x) : x;
  }
  double naive_operand(double x) const {
    const Format& f = format(unit_.input);
    if (x == 0.0) return x;
    const int quantum = std::max(std::ilogb(x), f.min_exponent) - f.precision + 1;
    return std::ldexp(std::trunc(std::ldexp(x, -quantum)), quantum);
  }

  const MatrixUnit& unit_;
  UnitData data_;
  Generator& generator_;
};

/// A Gemm or MatMul computed by the unit, alpha and the bias in float32 afterwards.
inline Tensor<float> unit_product(UnitRun& run, const Op& op, const std::vector<const Tensor<float>*>& in,
                                  const Shape& shape) {
  const auto* gemm = std::get_if<op::Gemm>(&op);
  const ProductPlan plan = gemm != nullptr ? plan_product(*gemm, in[0]->shape, in[1]->shape)
                                           : plan_product(std::get<op::MatMul>(op), in[0]->shape, in[1]->shape);
  Tensor<float> result(shape);
  std::vector<double> a(static_cast<std::size_t>(plan.k)), b(a.size());
  for (std::size_t at = 0; at < result.size(); ++at) {
    const auto index = static_cast<std::int64_t>(at);
    const std::int64_t j = index % plan.n, i = index / plan.n % plan.m, batch = index / plan.n / plan.m;
    for (std::int64_t k = 0; k < plan.k; ++k) {
      const auto slot = static_cast<std::size_t>(k);
      a[slot] = static_cast<double>(in[0]->values[plan.a_index(batch, i, k)]);
      b[slot] = static_cast<double>(in[1]->values[plan.b_index(batch, k, j)]);
    }
    const float sum = run.product(a, b);
    float y = gemm != nullptr ? static_cast<float>(gemm->alpha) * sum : sum;
    if (gemm != nullptr && in.size() > 2) {
      const float addend = static_cast<float>(gemm->beta) * in[2]->values[BroadcastIndex(in[2]->shape, shape)(at)];
      y = y + addend;
    }
    result.values[at] = y;
  }
  return result;
}

struct UnitSums {
  UnitData data = UnitData::uniform;
  std::size_t k = 1, rows = 3, columns = 3;
  double alpha = 1.0, beta = 1.0;
  bool has_bias = false;
};

/// One Gemm of the unit against the truth, every element computed in a way of its own.
inline Tallies check_unit(const MatrixUnit& unit, const UnitSums& sums, Generator& generator) {
  const auto extent = [](std::size_t x) { return static_cast<std::int64_t>(x); };
  const std::size_t k = sums.k, m = sums.rows, n = sums.columns;
  Tensor<double> a({extent(m), extent(k)}), b({extent(k), extent(n)}), c({extent(n)});
  UnitDraw draw(unit, sums.data, generator);
  for (std::size_t i = 0; i < m; ++i) {
    const std::vector<double> row = draw.vectors(k).first;
    std::copy(row.begin(), row.end(), a.values.begin() + static_cast<std::ptrdiff_t>(i * k));
  }
  for (std::size_t j = 0; j < n; ++j) {
    const std::vector<double> column = draw.vectors(k).second;
    for (std::size_t l = 0; l < k; ++l) b.values[l * n + j] = column[l];
    c.values[j] = static_cast<double>(static_cast<float>(uniform(generator, -1.0, 1.0) * column[0]));
  }
  const auto single = [](const Tensor<double>& x) {
    return Tensor<float>(x.shape, std::vector<float>(x.values.begin(), x.values.end()));
  };
  const Tensor<float> a_single = single(a), b_single = single(b), c_single = single(c);
  const op::Gemm gemm{sums.alpha, sums.beta, false, false};
  UnitRun run(unit, generator);
  std::vector<const Tensor<float>*> in = {&a_single, &b_single};
  if (sums.has_bias) in.push_back(&c_single);
  const Tensor<float> y = unit_product(run, gemm, in, {extent(m), extent(n)});

  std::vector<Tensor<double>> operands = {a, b};
  if (sums.has_bias) operands.push_back(c);
  const Tensor<double> computed(y.shape, std::vector<double>(y.values.begin(), y.values.end()));
  const LayerBounds layer = bounds_of(one_node(gemm, operands, computed, unit.arithmetic()));
  Tallies tallies;
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (!std::isfinite(y.values[i * n + j])) continue;
      Real exact;
      for (std::size_t l = 0; l < k; ++l) exact += Real(a.values[i * k + l]) * Real(b.values[l * n + j]);
      exact = Real(sums.alpha) * exact + (sums.has_bias ? Real(sums.beta) * Real(c.values[j]) : Real());
      tallies.add(layer, i * n + j, computed.values[i * n + j], exact);
    }
  }
  return tallies;
}

/// Sums of 1 to 64 products of every length that matters to blocks of 4 to 16.
inline const std::vector<std::size_t>& unit_lengths() {
  static const std::vector<std::size_t> lengths = {1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 24, 33, 64};
  return lengths;
}

inline Tallies check_unit_lengths(const MatrixUnit& unit, UnitData data, Generator& generator) {
  Tallies tallies;
  UnitSums sums;
  sums.data = data;
  for (const std::size_t k : unit_lengths()) {
    sums.k = k;
    tallies += check_unit(unit, sums, generator);
  }
  return tallies;
}

}  // namespace checks
