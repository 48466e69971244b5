#pragma once

#include <string_view>
#include <vector>

#include "driftbound/model/tensor.hpp"
#include "soundness/random.hpp"

namespace driftbound::soundness {

/// What the weights and inputs of a random network look like.
enum class Family {
  gaussian,
  integers,
  powers_of_two,
  log_normal,
  subnormal,
  huge,
  cancelling,
  sparse,
  bf16_valued,
  constant,
  stagnating,
  mixed,
  outliers,  ///< one large element a row
  spread     ///< over 2^-60 to 2^60, weights and inputs
};
/// Those that bounds are held against.
const std::vector<Family>& all_families();
/// With the last two, which only certified references are.
const std::vector<Family>& reference_families();
std::string_view family_name(Family family);

enum class Role { weight, input };

/// Float32, or one of the other float types.
ElementType random_element_type(Random& random, double share_of_f32);

/// Values of a family for one tensor. `axis` is the one that products are summed over: cancelling pairs
/// and stagnating sums are laid along it (empty shapes: none). Always finite in float32.
std::vector<double> draw_values(Random& random, Family family, Role role, const Shape& shape, std::size_t axis);

/// The values rounded to a float element type, saturating at its largest finite number.
StoredTensor store(ElementType type, const Shape& shape, std::vector<double> values);
/// Values that are elements of the type already, infinities and NaN included.
StoredTensor store_exactly(ElementType type, const Shape& shape, const std::vector<double>& values);

}  // namespace driftbound::soundness
