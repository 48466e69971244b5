#pragma once

#include <string>
#include <string_view>

#include "driftbound/model/tensor.hpp"

namespace driftbound {

/// What an .npy file begins with; the elements of the array follow, in row-major order.
/// `type`:    as NumPy writes it: "<f8", "|i1"
std::string npy_header(std::string_view type, const Shape& shape);

}  // namespace driftbound
