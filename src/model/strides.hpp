#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "driftbound/model/tensor.hpp"

namespace driftbound {

/// Distance of neighbours along every axis.
std::vector<std::int64_t> row_major_strides(const Shape& shape);

/// sum_i index_i strides_i for every index of `shape` in row-major order.
std::vector<std::size_t> strided_offsets(const Shape& shape, const std::vector<std::int64_t>& strides);

}  // namespace driftbound
