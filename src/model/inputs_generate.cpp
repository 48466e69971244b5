#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>

#include "driftbound/model/inputs.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/num/format.hpp"
#include "model/convert.hpp"

namespace driftbound {
namespace {

constexpr std::int64_t max_grid_coordinates = 6;

/// xoshiro256** 1.0 (Blackman, Vigna), its state filled by SplitMix64.
class RandomBits {
public:
  explicit RandomBits(std::uint64_t seed) {
    for (std::uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15;
      std::uint64_t mixed = seed;
      mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
      mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
      word = mixed ^ (mixed >> 31);
    }
  }

  std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// The upper 53 bits as a number in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

private:
  std::array<std::uint64_t, 4> state_{};
};

/// log(x) for 0 < x < 1 normal, by + - * / alone: the same bits everywhere, a few ulp from the logarithm.
double reproducible_log(double x) {
  int exponent = 0;
  double fraction = std::frexp(x, &exponent);
  if (fraction < 0.70710678118654752) {
    fraction *= 2.0;
    --exponent;
  }
  const double s = (fraction - 1.0) / (fraction + 1.0);
  double series = 0.0;
  for (int k = 21; k >= 1; k -= 2) series = series * (s * s) + 1.0 / k;
  return exponent * 0.69314718055994531 + 2.0 * s * series;
}

/// Standard normal, Marsaglia's polar method (one of its two numbers).
double standard_normal(RandomBits& bits) {
  while (true) {
    const double u = 2.0 * bits.unit() - 1.0;
    const double v = 2.0 * bits.unit() - 1.0;
    const double s = u * u + v * v;
    if (s > 0.0 && s < 1.0) return u * std::sqrt(-2.0 * reproducible_log(s) / s);
  }
}

/// One coordinate of a sample: an element of one of the graph's inputs, all inputs in turn.
struct Coordinate {
  double lower = 0.0;
  double upper = 0.0;
};

/// Number i of n evenly spaced ones from the lower to the upper bound; the midpoint where n is 1.
double evenly_spaced(const Coordinate& c, std::int64_t i, std::int64_t n) {
  if (n == 1) return c.lower + (c.upper - c.lower) * 0.5;
  if (i == n - 1) return c.upper;
  return c.lower + (c.upper - c.lower) * (static_cast<double>(i) / static_cast<double>(n - 1));
}

double uniform(const Coordinate& c, RandomBits& bits) {
  return std::min(c.lower + (c.upper - c.lower) * bits.unit(), c.upper);
}

double normal(const Coordinate& c, RandomBits& bits) {
  return (c.lower + c.upper) * 0.5 + (c.upper - c.lower) * 0.5 * standard_normal(bits);
}

/// The largest p with p^dimensions <= samples.
std::int64_t points_per_axis(std::int64_t samples, std::int64_t dimensions) {
  const auto fits = [&](std::int64_t p) {
    std::int64_t room = samples;
    for (std::int64_t i = 0; i < dimensions; ++i) room /= p;
    return room >= 1;
  };
  std::int64_t least = 1;
  std::int64_t most = samples;
  while (least < most) {
    const std::int64_t middle = least + (most - least + 1) / 2;
    if (fits(middle)) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  return least;
}

/// The coordinates of one sample, the inputs in turn.
std::vector<Coordinate> coordinates_of(const std::vector<Shape>& samples, const InputGenerator& generator) {
  std::int64_t count = 0;
  for (const Shape& sample : samples) count += element_count(sample);
  if (generator.domain.empty() ||
      static_cast<std::int64_t>(generator.domain.size()) > std::max<std::int64_t>(count, 1)) {
    throw InvalidArgument(
        fmt::format("the domain has {} ranges lo:hi, a sample has {} coordinates; give between 1 and {} "
                    "(the last repeats)",
                    generator.domain.size(), count, count));
  }
  for (const auto& [lower, upper] : generator.domain) {
    if (!(lower <= upper) || !std::isfinite(upper - lower)) {
      throw InvalidArgument(fmt::format("{}:{} is no domain; give finite bounds lo:hi with lo <= hi", lower, upper));
    }
  }
  std::vector<Coordinate> coordinates;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const auto& [lower, upper] = generator.domain[std::min(i, generator.domain.size() - 1)];
    coordinates.push_back({lower, upper});
  }
  return coordinates;
}

std::int64_t number_of_samples(const InputGenerator& generator, std::int64_t points_each, std::size_t coordinates) {
  if (generator.distribution != InputDistribution::grid) return generator.samples;
  std::int64_t samples = 1;
  for (std::size_t i = 0; i < coordinates; ++i) samples *= points_each;
  return samples;
}

std::int64_t grid_points_each(const InputGenerator& generator, std::size_t coordinates) {
  if (generator.distribution != InputDistribution::grid) return 1;
  if (coordinates == 0 || coordinates > max_grid_coordinates) {
    throw InvalidArgument(fmt::format("a grid over {} coordinates; grids are for 1 to {}, take uniform or segment",
                                      coordinates, max_grid_coordinates));
  }
  return points_per_axis(generator.samples, static_cast<std::int64_t>(coordinates));
}

/// All samples one after the other, each with all its coordinates.
std::vector<double> generated_values(const InputGenerator& generator, const std::vector<Coordinate>& coordinates) {
  const std::int64_t points_each = grid_points_each(generator, coordinates.size());
  const std::int64_t samples = number_of_samples(generator, points_each, coordinates.size());
  RandomBits bits(generator.seed);
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(element_count({samples, static_cast<std::int64_t>(coordinates.size())})));
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    std::int64_t stride = samples;  // grid: the last coordinate runs fastest
    for (const Coordinate& c : coordinates) {
      switch (generator.distribution) {
        case InputDistribution::uniform:
          values.push_back(uniform(c, bits));
          break;
        case InputDistribution::normal:
          values.push_back(normal(c, bits));
          break;
        case InputDistribution::segment:
          values.push_back(evenly_spaced(c, sample, samples));
          break;
        case InputDistribution::grid:
          stride /= points_each;
          values.push_back(evenly_spaced(c, sample / stride % points_each, points_each));
          break;
      }
    }
  }
  return values;
}

std::uint16_t float16_bits(double representable) {
  const unsigned sign = std::signbit(representable) ? 0x8000u : 0u;
  const double magnitude = std::fabs(representable);
  if (magnitude < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<unsigned>(magnitude * 0x1p24));
  const int exponent = std::ilogb(magnitude);
  const auto significand = static_cast<unsigned>(std::ldexp(magnitude, 10 - exponent));
  return static_cast<std::uint16_t>(sign | (static_cast<unsigned>(exponent + 15) << 10) | (significand & 0x3ffu));
}

template <class Stored>
void append_bytes(std::vector<std::byte>& bytes, Stored value) {
  const auto raw = std::as_bytes(std::span<const Stored, 1>(&value, 1));
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

void append_rounded(std::vector<std::byte>& bytes, double x, FormatId to, const std::string& input) {
  const double rounded = round_to(x, format(to), Rounding::nearest_even);
  if (!std::isfinite(rounded)) {
    throw InvalidArgument(
        fmt::format("generated {} for input '{}' overflows {}; give a smaller domain", x, input, format(to).name));
  }
  switch (to) {
    case FormatId::fp64:
      append_bytes(bytes, rounded);
      break;
    case FormatId::fp16:
      append_bytes(bytes, float16_bits(rounded));
      break;
    case FormatId::bf16:
      append_bytes(bytes, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(rounded)) >> 16));
      break;
    default:
      append_bytes(bytes, static_cast<float>(rounded));
      break;
  }
}

/// The seed of an input's integers, which others do not change.
std::uint64_t seed_of(const std::string& input, std::uint64_t seed) {
  std::uint64_t hash = 0xcbf29ce484222325 ^ seed;  // FNV-1a
  for (const char c : input) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

/// Rows of a table, uniform; or masks: ones, then zeros.
Tensor<std::int64_t> generated_integers(const InputGenerator& generator, const std::string& input, Shape shape) {
  Tensor<std::int64_t> result(std::move(shape));
  RandomBits bits(seed_of(input, generator.seed));
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(bits.unit() * static_cast<double>(n)); };
  for (const auto& [name, limit] : generator.index_limits) {
    if (name != input) continue;
    for (std::int64_t& value : result.values) value = below(limit);
    return result;
  }
  const std::int64_t length = result.shape.empty() ? 1 : std::max<std::int64_t>(result.shape.back(), 1);
  for (std::size_t first = 0; first < result.size(); first += static_cast<std::size_t>(length)) {
    const std::int64_t ones = length == 1 ? 1 : 1 + below(length - 1);
    for (std::int64_t i = 0; i < ones; ++i) result.values[first + static_cast<std::size_t>(i)] = 1;
  }
  return result;
}

Shape data_shape(const BatchLayout& layout, const Shape& sample, std::int64_t samples) {
  Shape shape = {samples};
  shape.insert(shape.end(), sample.begin() + (layout.batched ? 1 : 0), sample.end());
  return shape;
}

}  // namespace

Graph inputs_with_shapes(const Graph& graph, const std::vector<std::pair<std::string, Shape>>& shapes) {
  Graph inputs;
  inputs.source = graph.source;
  for (const ValueId id : graph.inputs) {
    Value value = graph.value(id);
    for (const auto& [name, shape] : shapes) {
      if (name != value.name) continue;
      const bool has_rank = value.has_declared_shape;
      if (has_rank && shape.size() != value.declared.size())
        throw ShapeMismatch(fmt::format("the shape {} given for input '{}' has {} axes, the model declares {}",
                                        to_string(shape), name, shape.size(), value.declared.size()));
      value.declared.resize(shape.size());
      value.has_declared_shape = true;
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        std::int64_t& extent = value.declared[axis].extent;
        if (extent >= 0 && extent != shape[axis])
          throw ShapeMismatch(
              fmt::format("the shape {} given for input '{}' contradicts the extent {} that the model "
                          "declares for axis {}",
                          to_string(shape), name, extent, axis));
        const bool counts_samples = axis == 0 && shape[0] == 1 && extent < 0;
        if (!counts_samples) extent = shape[axis];
      }
    }
    inputs.add_input(value.name, value.type, value.declared);
    inputs.values.back().has_declared_shape = value.has_declared_shape;
  }
  for (const auto& [name, shape] : shapes) {
    const bool exists = std::any_of(inputs.values.begin(), inputs.values.end(),
                                    [&, &wanted = name](const Value& value) { return value.name == wanted; });
    if (!exists) throw InvalidArgument(fmt::format("the model has no input '{}' to give a shape to", name));
  }
  return inputs;
}

Inputs generate_inputs(const Graph& graph, const InputGenerator& generator) {
  if (generator.samples < 1)
    throw InvalidArgument(fmt::format("cannot generate {} samples; ask for at least 1", generator.samples));
  const BatchLayout layout = batch_layout(graph);
  std::vector<Shape> of_floats;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i)
    if (is_float(graph.value(graph.inputs[i]).type)) of_floats.push_back(layout.sample_shapes[i]);
  const bool any_floats = !of_floats.empty() || graph.inputs.empty();
  const std::vector<Coordinate> coordinates =
      any_floats ? coordinates_of(of_floats, generator) : std::vector<Coordinate>();
  const std::vector<double> values = generated_values(generator, coordinates);
  const std::size_t samples =
      coordinates.empty() ? static_cast<std::size_t>(generator.samples) : values.size() / coordinates.size();
  Inputs inputs;
  std::size_t first = 0;  // coordinate of a sample at which the input starts
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const Value& input = graph.value(graph.inputs[i]);
    const Shape shape = data_shape(layout, layout.sample_shapes[i], static_cast<std::int64_t>(samples));
    const std::optional<FormatId> to = float_format(input.type);
    if (!to) {
      const StoredTensor integers = StoredTensor::from(generated_integers(generator, input.name, shape));
      inputs.tensors.emplace_back(input.name, converted(integers, input.type, "generated input '" + input.name + "'"));
      continue;
    }
    const auto elements = static_cast<std::size_t>(element_count(layout.sample_shapes[i]));
    std::vector<std::byte> bytes;
    bytes.reserve(samples * elements * bytes_per_element(input.type));
    for (std::size_t sample = 0; sample < samples; ++sample) {
      for (std::size_t e = 0; e < elements; ++e) {
        append_rounded(bytes, values[sample * coordinates.size() + first + e], *to, input.name);
      }
    }
    first += elements;
    inputs.tensors.emplace_back(input.name, StoredTensor(input.type, shape, std::move(bytes)));
  }
  return inputs;
}

}  // namespace driftbound
