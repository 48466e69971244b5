#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "driftbound/num/errors.hpp"
#include "model/onnx_attributes.hpp"
#include "model/onnx_integers.hpp"
#include "model/onnx_rules.hpp"
#include "model/onnx_steps.hpp"
#include "model/onnx_tensor.hpp"
#include "model/shapes.hpp"
#include "model/text.hpp"

// Resize, one axis after the other: elements along an axis are neighbours of the input's times weights. Coordinates and
// weights are fractions, exactly as ONNX defines them. Weights that the element type does not represent are computed by
// steps of their own.

namespace driftbound::onnx {
namespace {

using Input = MappedOps::Input;
using Integers64 = std::vector<std::int64_t>;
__extension__ typedef __int128 Wide;

constexpr std::int64_t longest_axis = 1 << 20;

/// A fraction with a positive denominator.
struct Fraction {
  Wide over = 0, under = 1;
};

Wide floor_of(const Fraction& x) {
  return x.over >= 0 ? x.over / x.under : -((-x.over + x.under - 1) / x.under);
}

/// Ordered, for denominators of less than 64 bits.
bool is_less(const Fraction& a, const Fraction& b) {
  return a.over * b.under < b.over * a.under;
}

Fraction reduced(Fraction x) {
  Wide a = x.over < 0 ? -x.over : x.over, b = x.under;
  while (b != 0) {
    const Wide rest = a % b;
    a = b;
    b = rest;
  }
  return a == 0 ? Fraction{} : Fraction{x.over / a, x.under / a};
}

// ---- what is asked for ----------------------------------------------------------------------------------------------

enum class Place { half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric, whole_pixel };
enum class Mode { nearest, linear, cubic };

/// One axis that is resized.
struct ResizedAxis {
  std::size_t axis = 0;
  std::int64_t input = 1, output = 1;
  Fraction scale;
  double stored_scale = 0.0;  ///< the scale where the file holds it as a float; 0 where it follows from extents
};

Place place_of(const NodeView& node) {
  if (node.opset < 11) return Place::asymmetric;
  const std::string_view name = text_or(node.proto, "coordinate_transformation_mode", "half_pixel");
  if (name == "half_pixel") return Place::half_pixel;
  if (name == "half_pixel_symmetric") return Place::half_pixel_symmetric;
  if (name == "pytorch_half_pixel") return Place::pytorch_half_pixel;
  if (name == "align_corners") return Place::align_corners;
  if (name == "asymmetric") return Place::asymmetric;
  if (name == "tf_half_pixel_for_nn" && node.opset < 13) return Place::whole_pixel;
  if (name == "tf_crop_and_resize")
    throw Unsupported("takes a region of its input (tf_crop_and_resize); export the model with another mode");
  fail("attribute 'coordinate_transformation_mode' is " + in_quotes(name));
}

Mode mode_of(const NodeView& node) {
  const std::string_view name = text_or(node.proto, "mode", "nearest");
  if (name == "nearest") return Mode::nearest;
  if (name != "linear" && name != "cubic") fail("attribute 'mode' is " + in_quotes(name));
  if (node.opset < 11)
    throw Unsupported(
        "interpolates in the way of opsets before 11, which do not say at which coordinates; export the model for "
        "opset "
        "11 or newer");
  return name == "cubic" ? Mode::cubic : Mode::linear;
}

/// The axes that scales and sizes refer to: all, or those that an attribute names since opset 18.
std::vector<std::size_t> axes_resized(const NodeView& node, std::size_t rank) {
  std::vector<std::size_t> result;
  if (const auto named = find_integers(node.proto, "axes")) {
    for (const std::int64_t axis : checked_rank(*named)) {
      result.push_back(normalized_axis(axis, rank));
      if (std::count(result.begin(), result.end(), result.back()) > 1) fail("attribute 'axes' names an axis twice");
    }
    return result;
  }
  result.resize(rank);
  std::iota(result.begin(), result.end(), std::size_t{0});
  return result;
}

Fraction fraction_of(double scale) {
  int exponent = 0;
  constexpr int digits = std::numeric_limits<float>::digits;
  const auto mantissa = static_cast<std::int64_t>(std::ldexp(std::frexp(scale, &exponent), digits));
  const int shift = exponent - digits;
  const Fraction result = shift >= 0 ? Fraction{static_cast<Wide>(mantissa) << shift, 1}
                                     : Fraction{mantissa, static_cast<Wide>(1) << -shift};
  return reduced(result);
}

std::int64_t known_extent(const OpenShape& shape, std::size_t axis) {
  if (!shape[axis].is_number())
    throw Unsupported(
        "resizes an axis whose extent is not known when loading; export the model with fixed input shapes");
  const std::int64_t extent = shape[axis].value();
  if (extent < 1 || extent > longest_axis) throw Unsupported("an axis without elements, or of more than 2^20");
  return extent;
}

ResizedAxis resized_by(const OpenShape& shape, std::size_t axis, double scale) {
  constexpr double largest = 65536.0;
  if (!(scale >= 1.0 / largest && scale <= largest)) throw Unsupported("a scale outside [2^-16, 2^16]");
  ResizedAxis result{axis, known_extent(shape, axis), 1, fraction_of(scale), scale};
  result.output = static_cast<std::int64_t>(floor_of({result.scale.over * result.input, result.scale.under}));
  return result;
}

/// Scales or sizes, those of axes that do not change left out.
std::vector<ResizedAxis> by_scales(const OpenShape& shape, const std::vector<std::size_t>& axes,
                                   const Tensor<double>& scales) {
  std::vector<ResizedAxis> result;
  if (scales.size() != axes.size())
    throw Unsupported(std::to_string(scales.size()) + " scales for " + std::to_string(axes.size()) +
                      " axes; export the model with one for each, or name some axes ('axes', since opset 18)");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const double scale = static_cast<double>(static_cast<float>(scales.values[i]));
    if (scale != 1.0) result.push_back(resized_by(shape, axes[i], scale));
  }
  return result;
}

enum class Aspect { stretched, not_larger, not_smaller };

Aspect aspect_of(const NodeView& node) {
  const std::string_view name = text_or(node.proto, "keep_aspect_ratio_policy", "stretch");
  if (name == "stretch") return Aspect::stretched;
  if (name == "not_larger") return Aspect::not_larger;
  if (name == "not_smaller") return Aspect::not_smaller;
  fail("attribute 'keep_aspect_ratio_policy' is " + in_quotes(name));
}

std::vector<ResizedAxis> by_sizes(const OpenShape& shape, const std::vector<std::size_t>& axes, const Integers& sizes,
                                  Aspect aspect) {
  std::vector<ResizedAxis> all;
  if (sizes.size() != axes.size())
    throw Unsupported(std::to_string(sizes.size()) + " sizes for " + std::to_string(axes.size()) + " axes");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (aspect == Aspect::stretched && certainly_equal(sizes[i], shape[axes[i]])) continue;
    if (!sizes[i].is_number()) throw Unsupported("its sizes are computed, or not known when loading");
    ResizedAxis one{axes[i], known_extent(shape, axes[i]), sizes[i].value(), {}, 0.0};
    if (one.output < 1 || one.output > longest_axis)
      throw Unsupported("an axis without elements, or of more than 2^20");
    one.scale = reduced({one.output, one.input});
    all.push_back(one);
  }
  if (aspect == Aspect::stretched || all.empty()) return all;
  Fraction common = all.front().scale;
  for (const ResizedAxis& one : all) {
    const bool is_taken = aspect == Aspect::not_larger ? is_less(one.scale, common) : is_less(common, one.scale);
    if (is_taken) common = one.scale;
  }
  for (ResizedAxis& one : all) {
    one.scale = common;
    one.output = static_cast<std::int64_t>(floor_of({2 * common.over * one.input + common.under, 2 * common.under}));
    if (one.output < 1 || one.output > longest_axis)
      throw Unsupported("an axis without elements, or of more than 2^20");
  }
  std::erase_if(all,
                [](const ResizedAxis& one) { return one.input == one.output && one.scale.over == one.scale.under; });
  return all;
}

/// Empty where they are computed.
std::optional<std::vector<ResizedAxis>> axes_of_resize(const NodeView& node, const OpenShape& shape) {
  const std::vector<std::size_t> axes = axes_resized(node, shape.size());
  if (node.proto.op_type == "Upsample" && node.opset < 9) {
    const auto attribute = find_attribute(node.proto, "scales", AttributeType::reals);
    if (!attribute) fail("its scales are missing");
    return by_scales(shape, axes, to_float_vector(attribute->reals).to_double());
  }
  const std::size_t scales = node.proto.op_type == "Resize" && node.opset >= 11 ? 2 : 1;
  const StoredTensor* constant = is_given(node, scales) ? node.operands[scales].constant : nullptr;
  if (constant != nullptr && constant->size() > highest_rank) fail("a list of more than 64 scales");
  if (constant != nullptr && constant->size() > 0) return by_scales(shape, axes, constant->to_double());
  const auto sizes = is_given(node, 3) ? Integers::of(node.operands[3]) : std::nullopt;
  if (!sizes) return std::nullopt;
  return by_sizes(shape, axes, *sizes, aspect_of(node));
}

// ---- coordinates ----------------------------------------------------------------------------------------------------

/// Element i of the result lies at (first + i step) / under of the input.
struct Coordinates {
  Wide first = 0, step = 0, under = 1;
  Fraction operator()(std::int64_t i) const { return {first + i * step, under}; }
};

Coordinates coordinates_of(const ResizedAxis& axis, Place place) {
  const Wide p = axis.scale.over, q = axis.scale.under;
  switch (place) {
    case Place::asymmetric:
      return {0, q, p};
    case Place::whole_pixel:
      return {q, 2 * q, 2 * p};
    case Place::align_corners:
      if (axis.output * q != axis.input * p)
        throw Unsupported(
            "aligns corners by a scale that gives no whole number of elements, where runtimes disagree on the length; "
            "export the model with sizes");
      return axis.output == 1 ? Coordinates{} : Coordinates{0, axis.input - 1, axis.output - 1};
    case Place::half_pixel_symmetric:
      return {q - p + axis.input * p - axis.output * q, 2 * q, 2 * p};
    case Place::pytorch_half_pixel:
      if (axis.output == 1) return {};
      break;
    case Place::half_pixel:
      break;
  }
  return {q - p, 2 * q, 2 * p};
}

// ---- nearest neighbours ---------------------------------------------------------------------------------------------

enum class Rounding { prefer_floor, prefer_ceil, floor, ceil };

Rounding rounding_of(const NodeView& node) {
  if (node.opset < 11) return Rounding::floor;
  const std::string_view name = text_or(node.proto, "nearest_mode", "round_prefer_floor");
  if (name == "round_prefer_floor") return Rounding::prefer_floor;
  if (name == "round_prefer_ceil") return Rounding::prefer_ceil;
  if (name == "floor") return Rounding::floor;
  if (name == "ceil") return Rounding::ceil;
  fail("attribute 'nearest_mode' is " + in_quotes(name));
}

Wide rounded(const Fraction& x, Rounding rounding) {
  switch (rounding) {
    case Rounding::floor:
      return floor_of(x);
    case Rounding::ceil:
      return -floor_of({-x.over, x.under});
    case Rounding::prefer_ceil:
      return floor_of({2 * x.over + x.under, 2 * x.under});
    case Rounding::prefer_floor:
      break;
  }
  return -floor_of({x.under - 2 * x.over, 2 * x.under});
}

/// Whether a program that computes the coordinate in float32 finds the same neighbour: it does where the coordinate is
/// far from the next decision, and where it is one that divisions of floats give exactly.
bool is_decided(const Fraction& x, Rounding rounding, bool is_exact) {
  const bool halves = rounding == Rounding::prefer_floor || rounding == Rounding::prefer_ceil;
  const Fraction moved = halves ? Fraction{2 * x.over + x.under, 2 * x.under} : x;
  const Wide below = moved.over - floor_of(moved) * moved.under;
  const Wide distance = std::min(below, moved.under - below);
  if (distance == 0) return is_exact;
  const double relative = static_cast<double>(distance) / static_cast<double>(moved.under);
  return relative > 1e-6 * (1.0 + std::abs(static_cast<double>(x.over) / static_cast<double>(x.under)));
}

Input nearest(StepWriter& steps, Input x, const ResizedAxis& axis, Place place, Rounding rounding) {
  const Coordinates at = coordinates_of(axis, place);
  const bool is_power_of_2 = (axis.scale.under & (axis.scale.under - 1)) == 0;
  const bool is_exact =
      axis.stored_scale != 0.0 || place == Place::align_corners || (is_power_of_2 && axis.scale.over < (1 << 24));
  op::Gather gather{static_cast<std::int64_t>(axis.axis), {axis.output}, {}};
  for (std::int64_t i = 0; i < axis.output; ++i) {
    const auto index = static_cast<std::int64_t>(std::clamp<Wide>(rounded(at(i), rounding), 0, axis.input - 1));
    if (axis.input > 1 && at(i).over != 0 && !is_decided(at(i), rounding, is_exact))
      throw Unsupported("element " + std::to_string(i) + " of axis " + std::to_string(axis.axis) +
                        " lies half-way between two neighbours, or nearly so, where rounding decides");
    gather.indices.push_back(index);
  }
  return steps.apply(std::move(gather), {x});
}

// ---- weights --------------------------------------------------------------------------------------------------------

/// Where elements along an axis come from: their first neighbour, and how far they lie behind the middle one.
struct Neighbours {
  Integers64 floors;                ///< floor of the coordinate
  std::vector<Fraction> fractions;  ///< what is left, in [0, 1)
};

Neighbours neighbours_of(const ResizedAxis& axis, const Coordinates& at, bool is_clamped) {
  Neighbours result;
  for (std::int64_t i = 0; i < axis.output; ++i) {
    const Fraction x = at(i);
    const Wide floor = floor_of(x);
    const bool is_outside = is_clamped && (floor < 0 || floor >= axis.input - 1);
    const Wide kept = is_outside ? std::clamp<Wide>(floor, 0, axis.input - 1) : floor;
    result.floors.push_back(static_cast<std::int64_t>(kept));
    result.fractions.push_back(is_outside ? Fraction{} : reduced({x.over - floor * x.under, x.under}));
  }
  return result;
}

/// Weights of one neighbour, an entry for every element along the axis.
using Weights = std::vector<Fraction>;

/// 1 - t and t
std::vector<Weights> linear_weights(const std::vector<Fraction>& fractions) {
  std::vector<Weights> result(2);
  for (const Fraction& t : fractions) {
    result[0].push_back({t.under - t.over, t.under});
    result[1].push_back(t);
  }
  return result;
}

/// Over d^3 c, for t = n / d and a = b / c: near (a + 2) t^3 - (a + 3) t^2 + 1, for t in [0, 1], and far a t^3 - 5 a t^2 +
/// 8 a t - 4 a, for t in [1, 2].
Fraction cubic_weight(Wide n, Wide d, const Fraction& a) {
  const Wide b = a.over, c = a.under, cube = d * d * d;
  const Wide near = (b + 2 * c) * n * n * n - (b + 3 * c) * n * n * d + c * cube;
  const Wide far = b * (n * n * n - 5 * n * n * d + 8 * n * d * d - 4 * cube);
  return {n <= d ? near : far, cube * c};
}

/// Of the neighbours at -1, 0, 1 and 2, for an element that lies at t; empty where they are fractions too long.
std::optional<std::vector<Weights>> cubic_weights(const std::vector<Fraction>& fractions, const Fraction& a) {
  std::vector<Weights> result(4);
  constexpr std::int64_t largest = 1 << 22;
  for (const Fraction& t : fractions) {
    if (t.under > largest) return std::nullopt;
    const std::array<Wide, 4> distances = {t.under + t.over, t.over, t.under - t.over, 2 * t.under - t.over};
    for (std::size_t k = 0; k < result.size(); ++k) result[k].push_back(cubic_weight(distances[k], t.under, a));
  }
  return result;
}

/// Neighbours outside have weight 0, the others are divided by their sum. All of an element have one denominator.
void exclude_outside(std::vector<Weights>& weights, const Neighbours& neighbours, std::int64_t extent) {
  for (std::size_t i = 0; i < neighbours.floors.size(); ++i) {
    Wide sum = 0;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const std::int64_t at = neighbours.floors[i] + static_cast<std::int64_t>(k) - 1;
      if (at < 0 || at >= extent) weights[k][i].over = 0;
      sum += weights[k][i].over;
    }
    if (sum == 0) throw Unsupported("weights of neighbours inside whose sum is 0");
    for (Weights& each : weights) each[i] = {sum < 0 ? -each[i].over : each[i].over, sum < 0 ? -sum : sum};
  }
}

/// One number an element along the axis, in the shape that broadcasts over a tensor of this rank.
Tensor<double> along(const ResizedAxis& axis, std::size_t rank) {
  Shape shape(rank - axis.axis, 1);
  shape[0] = axis.output;
  return Tensor<double>(shape, {});
}

/// As many bits as a double has.
bool is_short(Wide number) {
  constexpr std::int64_t largest = std::int64_t{1} << 53;
  return number <= largest && number >= -largest;
}

/// Weights as a constant; empty where the element type does not represent them.
std::optional<Input> exact_weights(StepWriter& steps, const Weights& weights, const ResizedAxis& axis,
                                   std::size_t rank) {
  Tensor<double> numbers = along(axis, rank);
  for (const Fraction& each : weights) {
    const Fraction weight = reduced(each);
    const bool is_exact = is_short(weight.over) && (weight.under & (weight.under - 1)) == 0 && is_short(weight.under);
    if (!is_exact) return std::nullopt;
    numbers.values.push_back(static_cast<double>(weight.over) / static_cast<double>(weight.under));
  }
  return steps.is_exact(numbers) ? std::optional(steps.numbers(numbers)) : std::nullopt;
}

[[noreturn]] void refuse_inexact(const StepWriter& steps) {
  throw Unsupported("its weights are not exact in " + std::string(driftbound::name_of(steps.type())));
}

Input scale_of(StepWriter& steps, const ResizedAxis& axis) {
  if (axis.stored_scale != 0.0) return steps.number(axis.stored_scale);
  const auto over = static_cast<double>(axis.scale.over), under = static_cast<double>(axis.scale.under);
  const bool is_exact = (axis.scale.under & (axis.scale.under - 1)) == 0;
  if (is_exact && steps.is_exact(Tensor<double>({}, {over / under}))) return steps.number(over / under);
  const Input output = steps.number(over), input = steps.number(under);
  return steps.divide(output, input);
}

/// t as a quotient of two constants.
Input quotients(StepWriter& steps, const Neighbours& neighbours, const ResizedAxis& axis, std::size_t rank) {
  Tensor<double> over = along(axis, rank), under = over;
  for (const Fraction& t : neighbours.fractions) {
    if (!is_short(t.over) || !is_short(t.under)) refuse_inexact(steps);
    over.values.push_back(static_cast<double>(t.over));
    under.values.push_back(static_cast<double>(t.under));
  }
  if (!steps.is_exact(over) || !steps.is_exact(under)) refuse_inexact(steps);
  const Input dividend = steps.numbers(over), divisor = steps.numbers(under);
  return steps.divide(dividend, divisor);
}

/// t by the steps of its definition, as programs take them: i / scale, (i + 1/2) / scale - 1/2, or
/// i (input - 1) / (output - 1), less the floor.
Input computed_fractions(StepWriter& steps, const Neighbours& neighbours, const ResizedAxis& axis, Place place,
                         std::size_t rank) {
  if (place == Place::half_pixel_symmetric) return quotients(steps, neighbours, axis, rank);
  const bool aligns = place == Place::align_corners;
  const double shift = aligns || place == Place::asymmetric ? 0.0 : 0.5;
  const double back = place == Place::whole_pixel ? 0.0 : shift;
  Tensor<double> over = along(axis, rank), less = over;
  for (std::size_t i = 0; i < neighbours.floors.size(); ++i) {
    const bool is_zero = neighbours.fractions[i].over == 0;
    const double at = (static_cast<double>(i) + shift) * (aligns ? static_cast<double>(axis.input - 1) : 1.0);
    over.values.push_back(is_zero ? 0.0 : at);
    less.values.push_back(is_zero ? 0.0 : static_cast<double>(neighbours.floors[i]) + back);
  }
  const Input places = steps.numbers(over);
  const Input divisor = aligns ? steps.number(static_cast<double>(axis.output - 1)) : scale_of(steps, axis);
  const Input floors = steps.numbers(less);
  return steps.subtract(steps.divide(places, divisor), floors);
}

/// ((a + 2) t - (a + 3)) t^2 + 1
Input near_weight(StepWriter& steps, Input t, double a) {
  const Input first = steps.number(a + 2.0), second = steps.number(a + 3.0), one = steps.number(1.0);
  const Input inner = steps.subtract(steps.multiply(first, t), second);
  return steps.add(steps.multiply(steps.multiply(inner, t), t), one);
}

/// ((a t - 5 a) t + 8 a) t - 4 a
Input far_weight(StepWriter& steps, Input t, double a) {
  const Input first = steps.number(a), five = steps.number(5.0 * a), eight = steps.number(8.0 * a),
              four = steps.number(4.0 * a);
  Input inner = steps.subtract(steps.multiply(first, t), five);
  inner = steps.add(steps.multiply(inner, t), eight);
  return steps.subtract(steps.multiply(inner, t), four);
}

std::vector<Input> computed_weights(StepWriter& steps, Input t, Mode mode, double a) {
  const Input one = steps.number(1.0), rest = steps.subtract(one, t);
  if (mode == Mode::linear) return {rest, t};
  return {far_weight(steps, steps.add(t, one), a), near_weight(steps, t, a), near_weight(steps, rest, a),
          far_weight(steps, steps.add(rest, one), a)};
}

struct Interpolation {
  Mode mode = Mode::linear;
  Place place = Place::half_pixel;
  double cubic_a = -0.75;
  bool excludes_outside = false;
};

/// Neighbours outside get weight 0, the others are divided by their sum.
void exclude_outside(StepWriter& steps, std::vector<Input>& weights, const Neighbours& neighbours,
                     const ResizedAxis& axis, std::size_t rank) {
  std::optional<Input> sum;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    Tensor<double> inside = along(axis, rank);
    for (const std::int64_t floor : neighbours.floors) {
      const std::int64_t at = floor + static_cast<std::int64_t>(k) - 1;
      inside.values.push_back(at >= 0 && at < axis.input ? 1.0 : 0.0);
    }
    weights[k] = steps.multiply(steps.numbers(inside), weights[k]);
    sum = sum ? steps.add(*sum, weights[k]) : weights[k];
  }
  for (Input& each : weights) each = steps.divide(each, *sum);
}

/// Weights of every neighbour; empty for one whose weights are all 0.
std::vector<std::optional<Input>> weights_of(StepWriter& steps, const Interpolation& how, const Neighbours& neighbours,
                                             const ResizedAxis& axis, std::size_t rank) {
  const bool is_cubic = how.mode == Mode::cubic;
  auto weights = is_cubic ? cubic_weights(neighbours.fractions, fraction_of(how.cubic_a))
                          : std::optional(linear_weights(neighbours.fractions));
  std::vector<std::optional<Input>> result;
  bool are_written = weights.has_value();
  if (are_written && is_cubic && how.excludes_outside) exclude_outside(*weights, neighbours, axis.input);
  for (std::size_t k = 0; are_written && k < weights->size(); ++k) {
    const bool is_used = std::any_of((*weights)[k].begin(), (*weights)[k].end(),
                                     [](const Fraction& weight) { return weight.over != 0; });
    result.push_back(is_used ? exact_weights(steps, (*weights)[k], axis, rank) : std::nullopt);
    are_written = !is_used || result.back().has_value();
  }
  if (are_written) return result;
  const Input t = computed_fractions(steps, neighbours, axis, how.place, rank);
  std::vector<Input> computed = computed_weights(steps, t, how.mode, how.cubic_a);
  if (is_cubic && how.excludes_outside) exclude_outside(steps, computed, neighbours, axis, rank);
  return {computed.begin(), computed.end()};
}

/// The sum of neighbours times weights.
Input interpolated(StepWriter& steps, Input x, const ResizedAxis& axis, const Interpolation& how, std::size_t rank) {
  const bool is_cubic = how.mode == Mode::cubic;
  const Neighbours neighbours = neighbours_of(axis, coordinates_of(axis, how.place), !is_cubic);
  const std::vector<std::optional<Input>> weights = weights_of(steps, how, neighbours, axis, rank);
  std::optional<Input> sum;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    if (!weights[k]) continue;
    op::Gather gather{static_cast<std::int64_t>(axis.axis), {axis.output}, {}};
    for (const std::int64_t floor : neighbours.floors) {
      const std::int64_t at = floor + static_cast<std::int64_t>(k) - (is_cubic ? 1 : 0);
      gather.indices.push_back(std::clamp<std::int64_t>(at, 0, axis.input - 1));
    }
    const Input product = steps.multiply(steps.apply(std::move(gather), {x}), *weights[k]);
    sum = sum ? steps.add(*sum, product) : product;
  }
  return *sum;
}

/// With antialias (opset 18) neighbours are as many as an element of the result covers, which is no more than usual
/// where no axis shrinks.
void require_no_filter(const NodeView& node, const std::vector<ResizedAxis>& axes, Mode mode) {
  const bool shrinks =
      std::any_of(axes.begin(), axes.end(), [](const ResizedAxis& axis) { return axis.scale.over < axis.scale.under; });
  if (mode != Mode::nearest && shrinks && integer_or(node.proto, "antialias", 0) != 0)
    throw Unsupported("filters what it shrinks (antialias); export the model without");
}

void require_attributes_of_opset(const NodeView& node) {
  for (const char* name :
       {"coordinate_transformation_mode", "nearest_mode", "cubic_coeff_a", "exclude_outside", "extrapolation_value"})
    require_since(node, name, 11);
  for (const char* name : {"antialias", "axes", "keep_aspect_ratio_policy"}) require_since(node, name, 18);
}

Mapping map_resize(const NodeView& node) {
  require_attributes_of_opset(node);
  if (node.operands[0].shape == nullptr) return NotMapped{"its input has no known shape"};
  const OpenShape& shape = *node.operands[0].shape;
  const Mode mode = mode_of(node);
  const Place place = place_of(node);
  const auto axes = axes_of_resize(node, shape);
  if (!axes) return NotMapped{"its scales or sizes are computed, or missing"};
  require_no_filter(node, *axes, mode);
  const Interpolation how{mode, place, real_or(node.proto, "cubic_coeff_a", -0.75f),
                          integer_or(node.proto, "exclude_outside", 0) != 0};
  constexpr double largest = 1024.0, smallest = 0x1p-16;
  const double size = std::abs(how.cubic_a);
  if (!(size <= largest && (size >= smallest || size == 0.0)))
    return NotMapped{"a cubic_coeff_a outside [2^-16, 2^10]"};
  if (axes->empty()) return MappedOp{op::Identity{}, {0}};
  StepWriter steps(node);
  Input result = steps.slot(0);
  for (const ResizedAxis& axis : *axes) {
    if (axis.output < 1 || axis.output > longest_axis)
      return NotMapped{"an axis without elements, or of more than 2^20"};
    constexpr std::size_t bytes_each = 8 * sizeof(Fraction) + 8 * sizeof(std::int64_t);
    if (!node.allowance.take(0, static_cast<std::size_t>(axis.output) * bytes_each))
      return NotMapped{"more elements along an axis than a file of this size justifies"};
    result = mode == Mode::nearest ? nearest(steps, result, axis, place, rounding_of(node))
                                   : interpolated(steps, result, axis, how, shape.size());
  }
  return steps.finish(result);
}

Mapping map_grid_sample(const NodeView& node) {
  using Sample = op::GridSample;
  Sample sample;
  const std::string_view mode = text_or(node.proto, "mode", node.opset < 20 ? "bilinear" : "linear");
  if (mode == "nearest") {
    sample.mode = Sample::Mode::nearest;
  } else if (mode == "cubic" || mode == "bicubic") {
    sample.mode = Sample::Mode::cubic;
  } else if (mode != "linear" && mode != "bilinear") {
    fail("attribute 'mode' is " + in_quotes(mode));
  }
  const std::string_view outside = text_or(node.proto, "padding_mode", "zeros");
  if (outside == "border") {
    sample.outside = Sample::Outside::border;
  } else if (outside == "reflection") {
    sample.outside = Sample::Outside::reflected;
  } else if (outside != "zeros") {
    fail("attribute 'padding_mode' is " + in_quotes(outside));
  }
  sample.align_corners = integer_or(node.proto, "align_corners", 0) != 0;
  if (rank_of(node, 0).value_or(4) != 4) return NotMapped{"it reads pixels of other than two axes"};
  if (sample.mode == Sample::Mode::cubic && sample.outside == Sample::Outside::border && !sample.align_corners)
    return NotMapped{
        "cubic interpolation with padding_mode border and without align_corners, which jumps at the border"};
  return MappedOp{sample, {0, 1}};
}

constexpr std::array<Rule, 3> rules = {{
    {"GridSample",
     2,
     2,
     means<op::GridSample>(map_grid_sample, "two axes of pixels; cubic at a border with align_corners"),
     {"mode", "padding_mode", "align_corners"},
     16},
    {"Resize",
     1,
     4,
     composes(map_resize,
              "scales or sizes known when loading; neighbours along an axis times weights, one Gather each"),
     {"mode", "coordinate_transformation_mode", "nearest_mode", "cubic_coeff_a", "exclude_outside", "antialias", "axes",
      "keep_aspect_ratio_policy", "extrapolation_value"},
     10,
     {},
     {{{"scales", 2, 11}, {"sizes", 3, 11}}}},
    {"Upsample",
     1,
     2,
     composes(map_resize, "nearest neighbours, constant scales, since opset 7"),
     {"mode", "scales"},
     7,
     {},
     {{{"scales", 1, 9}}}},
}};

}  // namespace

std::span<const Rule> resize_rules() {
  return rules;
}

}  // namespace driftbound::onnx
