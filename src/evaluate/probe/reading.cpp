#include "evaluate/probe/reading.hpp"

#include <cmath>

#include "driftbound/num/errors.hpp"

namespace driftbound::probe {
namespace {

float two_to(int exponent) {
  return std::ldexp(1.0F, exponent);
}

/// What the kernel makes of single numbers times `other`, all other products being 0.
std::vector<float> read_alone(Caller& caller, const Lanes& lanes, const std::vector<float>& numbers, float other) {
  std::vector<SumProbe> probes;
  for (const float x : numbers) probes.push_back({{{0, x}}});
  return run_probes(caller, lanes, probes, other);
}

/// The first of some powers of two that the kernel reads as it is.
std::optional<int> first_kept(Caller& caller, const Lanes& lanes, const std::vector<int>& exponents, float other) {
  std::vector<float> numbers;
  for (const int exponent : exponents) numbers.push_back(two_to(exponent));
  const std::vector<float> read = read_alone(caller, lanes, numbers, other);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (read[i] == numbers[i] * other) return exponents[i];
  return std::nullopt;
}

int precision_read(Caller& caller, const Lanes& lanes) {
  constexpr int most = 24;
  std::vector<float> numbers;
  for (int t = 1; t < most; ++t) numbers.push_back(1.0F + two_to(-t));
  const std::vector<float> read = read_alone(caller, lanes, numbers, 1.0F);
  int precision = 1;
  while (precision < most && read[static_cast<std::size_t>(precision - 1)] == 1.0F + two_to(-precision)) ++precision;
  return precision;
}

std::optional<Rounding> rounding_read(Caller& caller, const Lanes& lanes, int precision) {
  constexpr int most = 23;  // half a unit beside a number needs one bit more
  if (precision > most) return std::nullopt;
  const float unit = two_to(1 - precision);
  const float above = 1.0F + 1.5F * unit, below = 1.0F + 0.5F * unit;
  const std::vector<float> read = read_alone(caller, lanes, {above, below, -above, -below}, 1.0F);
  const auto units = [&](float x, float whole) { return static_cast<double>((x - whole) / unit); };
  return rounding_with({units(read[0], 1.0F), units(read[1], 1.0F), units(read[2], -1.0F), units(read[3], -1.0F)});
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

ProbedReading read_operand(Caller& caller, const Lanes& lanes) {
  ProbedReading reading;
  const std::optional<int> highest = first_kept(caller, lanes, {127, 15, 8}, 1.0F);
  if (!highest)
    throw Unsupported("probe: the kernel reads no power of two from 2^8 on as it is (" + caller.place() +
                      "): it is no sum of products, or scales them");
  reading.highest_power = *highest;
  // Products of subnormal numbers are normal: how results are stored is another question.
  const float other = !caller.has_right_operand() ? 1.0F : two_to(*highest > 100 ? 40 : 8);
  const std::vector<int> lowest = {-149, -136, -133, -126, -24, -16, -14, -9, -6, 0};
  reading.lowest_power = first_kept(caller, lanes, lowest, other).value_or(0);
  reading.precision = precision_read(caller, lanes);
  reading.rounding = rounding_read(caller, lanes, reading.precision);
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
  if (!id) return std::nullopt;
  return lowest_power < driftbound::format(*id).min_exponent;
}

}  // namespace driftbound
