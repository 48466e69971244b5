#include "evaluate/probe/reading.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "driftbound/num/errors.hpp"

namespace driftbound::probe {
namespace {

float two_to(int exponent) {
  return std::ldexp(1.0F, exponent);
}

/// Numbers with a whole part of 1 or -1: what the kernel reads beside it. Results of few bits hold that alone, so that
/// another product takes the whole part away.
std::vector<float> read_beside_whole(Caller& caller, const Lanes& lanes, const ProbedResult& result,
                                     const std::vector<float>& numbers) {
  std::vector<SumProbe> probes;
  for (const float x : numbers) {
    probes.push_back({{{0, x}}});
    if (result.is_narrow()) probes.back().at.emplace_back(1, std::copysign(1.0F, -x));
  }
  std::vector<float> read = run_probes(caller, lanes, probes, 1.0F);
  for (std::size_t i = 0; i < read.size() && !result.is_narrow(); ++i) read[i] -= std::copysign(1.0F, numbers[i]);
  return read;
}

/// The first of some powers of two that the kernel reads as it is, times a power of two for each.
std::optional<int> first_kept(Caller& caller, const Lanes& lanes, const std::vector<int>& exponents,
                              const std::function<int(int)>& other_of) {
  for (const int exponent : exponents) {
    const int other = caller.has_right_operand() ? other_of(exponent) : 0;
    const float read = run_probes(caller, lanes, {{{{0, two_to(exponent)}}}}, two_to(other)).front();
    if (read == two_to(exponent + other)) return exponent;
  }
  return std::nullopt;
}

/// Of sums whose results do not reach as far: x - x/2 - x/2.
std::optional<int> first_cancelled(Caller& caller, const Lanes& lanes, const std::vector<int>& exponents) {
  for (const int exponent : exponents) {
    const float half = two_to(exponent - 1);
    if (run_probes(caller, lanes, {{{{0, 2.0F * half}, {1, -half}, {2, -half}}}}).front() == 0.0F) return exponent;
  }
  return std::nullopt;
}

std::optional<int> highest_read(Caller& caller, const Lanes& lanes, const ProbedResult& result) {
  const std::vector<int> exponents = {127, 15, 8};
  constexpr int within_result = 7;
  if (!result.is_narrow()) return first_kept(caller, lanes, exponents, [](int) { return 0; });
  if (!caller.has_right_operand() && caller.shape().k > 2) return first_cancelled(caller, lanes, exponents);
  return first_kept(caller, lanes, exponents, [](int exponent) { return within_result - exponent; });
}

int precision_read(Caller& caller, const Lanes& lanes, const ProbedResult& result) {
  constexpr int most = 24;
  std::vector<float> numbers;
  for (int t = 1; t < most; ++t) numbers.push_back(1.0F + two_to(-t));
  const std::vector<float> read = read_beside_whole(caller, lanes, result, numbers);
  int precision = 1;
  while (precision < most && read[static_cast<std::size_t>(precision - 1)] == two_to(-precision)) ++precision;
  return precision;
}

std::optional<Rounding> rounding_read(Caller& caller, const Lanes& lanes, const ProbedResult& result, int precision) {
  constexpr int most = 23;  // half a unit beside a number needs one bit more
  if (precision > most) return std::nullopt;
  const float unit = two_to(1 - precision);
  const float above = 1.0F + 1.5F * unit, below = 1.0F + 0.5F * unit;
  std::array<double, 4> units{};
  const std::vector<float> read = read_beside_whole(caller, lanes, result, {above, below, -above, -below});
  for (std::size_t i = 0; i < units.size(); ++i) units[i] = static_cast<double>(read[i] / unit);
  return rounding_with(units);
}

}  // namespace

std::optional<Rounding> rounding_with(const std::array<double, 4>& units) {
  struct Known {
    std::array<double, 4> units;
    Rounding rounding;
  };
  constexpr std::array<Known, 5> all = {{{{2, 0, -2, 0}, Rounding::nearest_even},
                                         {{2, 1, -2, -1}, Rounding::nearest_away},
                                         {{1, 0, -1, 0}, Rounding::toward_zero},
                                         {{2, 1, -1, 0}, Rounding::up},
                                         {{1, 0, -2, -1}, Rounding::down}}};
  for (const Known& known : all)
    if (known.units == units) return known.rounding;
  return std::nullopt;
}

ProbedResult find_result(Caller& caller, const Lanes& lanes, const std::vector<float>& results) {
  ProbedResult found;
  if (caller.shape().k < 2) return found;
  for (const FormatId id : {FormatId::bf16, FormatId::fp16}) {
    const Format& f = format(id);
    const auto is_held = [&](float x) {
      return round_to(static_cast<double>(x), f, Rounding::nearest_even) == static_cast<double>(x);
    };
    if (!std::all_of(results.begin(), results.end(), is_held)) continue;
    constexpr float whole = 0x1p7F;  // operands of all formats reach as far, and as far down as half a unit
    const float unit = whole * two_to(1 - f.precision);
    std::vector<SumProbe> probes;
    for (const float sign : {1.0F, -1.0F})
      for (const float units : {1.5F, 0.5F}) probes.push_back({{{0, sign * whole}, {1, sign * units * unit}}});
    probes.push_back({{{0, whole}, {1, unit}}});
    const std::vector<float> sums = run_probes(caller, lanes, probes);
    if (!std::all_of(sums.begin(), sums.end(), is_held)) continue;  // few bits of data, not of the format
    if (sums.back() != whole + unit) continue;                      // even fewer of sums
    found.format = id;
    std::array<double, 4> units{};
    for (std::size_t i = 0; i < units.size(); ++i)
      units[i] = static_cast<double>((sums[i] - (i < 2 ? whole : -whole)) / unit);
    found.rounding = rounding_with(units);
    return found;
  }
  return found;
}

ProbedReading read_operand(Caller& caller, const Lanes& lanes, const ProbedResult& result) {
  ProbedReading reading;
  const std::optional<int> highest = highest_read(caller, lanes, result);
  if (!highest)
    throw Unsupported("probe: the kernel reads no power of two from 2^8 on as it is (" + caller.place() +
                      "): it is no sum of products, or scales them");
  reading.highest_power = *highest;
  // Products of subnormal numbers are normal: how results are stored is another question.
  const int other = *highest <= 100 ? 8 : result.format == FormatId::fp16 ? 126 : 40;
  reading.sees_lowest = caller.has_right_operand() || result.format != FormatId::fp16;
  const std::vector<int> lowest = {-149, -136, -133, -126, -24, -16, -14, -9, -6, 0};
  reading.lowest_power = first_kept(caller, lanes, lowest, [&](int) { return other; }).value_or(0);
  reading.precision = precision_read(caller, lanes, result);
  reading.rounding = rounding_read(caller, lanes, result, reading.precision);
  return reading;
}

}  // namespace driftbound::probe

namespace driftbound {

std::optional<FormatId> ProbedReading::format() const {
  for (const FormatId id :
       {FormatId::fp32, FormatId::tf32, FormatId::bf16, FormatId::fp16, FormatId::fp8_e4m3, FormatId::fp8_e5m2}) {
    const Format& f = driftbound::format(id);
    if (f.precision == precision && f.max_exponent == highest_power) return id;
  }
  return std::nullopt;
}

std::optional<bool> ProbedReading::keeps_subnormals() const {
  const std::optional<FormatId> id = format();
  if (!id || !sees_lowest) return std::nullopt;
  return lowest_power < driftbound::format(*id).min_exponent;
}

}  // namespace driftbound
