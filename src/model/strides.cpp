#include "model/strides.hpp"

namespace driftbound {

std::vector<std::int64_t> row_major_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::vector<std::size_t> strided_offsets(const Shape& shape, const std::vector<std::int64_t>& strides) {
  std::vector<std::size_t> offsets(static_cast<std::size_t>(element_count(shape)));
  std::vector<std::int64_t> index(shape.size(), 0);
  std::int64_t offset = 0;
  for (std::size_t& entry : offsets) {
    entry = static_cast<std::size_t>(offset);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      offset += strides[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= shape[axis] * strides[axis];
      index[axis] = 0;
    }
  }
  return offsets;
}

}  // namespace driftbound
