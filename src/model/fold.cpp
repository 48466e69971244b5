#include "model/fold.hpp"

#include <cmath>
#include <cstring>
#include <variant>

#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"
#include "model/convert.hpp"
#include "model/shapes.hpp"
#include "model/variant.hpp"

namespace driftbound {
namespace {

std::optional<StoredTensor> fold_cast(const StoredTensor& tensor, ElementType to, Allowance& allowance) {
  if (tensor.type() == to) return tensor;
  const std::size_t working_space = tensor.size() * 3 * sizeof(double);
  if (!allowance.take(tensor.size() * bytes_per_element(to), working_space) || !converts_exactly(tensor, to))
    return std::nullopt;
  return converted(tensor, to, "");
}

std::optional<StoredTensor> select_elements(const Op& op, const std::vector<const StoredTensor*>& operands,
                                            const std::vector<Shape>& shapes, const Shape& shape,
                                            Allowance& allowance) {
  const std::size_t width = bytes_per_element(operands.front()->type());
  const auto elements = static_cast<std::size_t>(element_count(shape));
  if (elements > allowance.left() / width || !allowance.take(elements * width, elements * sizeof(ElementSource)))
    return std::nullopt;
  std::vector<std::byte> bytes(elements * width);
  std::byte* target = bytes.data();
  const bool fill_is_zero_bits = fill_value(op) == 0.0 && !std::signbit(fill_value(op));
  for (const ElementSource& source : plan_selection(op, shapes, shape)) {
    if (source.is_fill() && !fill_is_zero_bits) return std::nullopt;
    if (!source.is_fill()) std::memcpy(target, operands[source.input]->bytes().data() + source.index * width, width);
    target += width;
  }
  return StoredTensor(operands.front()->type(), shape, std::move(bytes));
}

/// Transposed weights are as large as a file: they are copied without a plan, which would be several times their size.
std::optional<StoredTensor> fold_transpose(const op::Transpose& transpose, const StoredTensor& tensor,
                                           const Shape& shape, Allowance& allowance) {
  if (!allowance.take(tensor.bytes().size())) return std::nullopt;
  const std::vector<std::size_t> permutation = permutation_of(transpose, shape.size());
  std::vector<std::size_t> strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * static_cast<std::size_t>(tensor.shape()[axis]);
  const std::size_t width = bytes_per_element(tensor.type());
  std::vector<std::byte> bytes(tensor.bytes().size());
  std::vector<std::int64_t> index(shape.size(), 0);
  std::size_t source = 0;
  for (std::size_t target = 0; target < bytes.size(); target += width) {
    std::memcpy(bytes.data() + target, tensor.bytes().data() + source * width, width);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      const std::size_t stride = strides[permutation[axis]];
      source += stride;
      if (++index[axis] < shape[axis]) break;
      source -= stride * static_cast<std::size_t>(shape[axis]);
      index[axis] = 0;
    }
  }
  return StoredTensor(tensor.type(), shape, std::move(bytes));
}

}  // namespace

bool Allowance::take(std::size_t bytes, std::size_t working_space) {
  if (bytes > left_ || working_space > left_ - bytes) return false;
  left_ -= bytes;
  return true;
}

std::optional<StoredTensor> fold(const Op& op, const std::vector<const StoredTensor*>& operands, Allowance& allowance) {
  const StoredTensor& first = *operands.front();
  if (const auto* cast = std::get_if<op::Cast>(&op)) return fold_cast(first, cast->to, allowance);
  if (!is_selection(op)) return std::nullopt;
  std::vector<Shape> shapes;
  for (const StoredTensor* operand : operands) shapes.push_back(operand->shape());
  const Shape shape = output_shape(op, shapes);
  if (keeps_order(op)) return reshaped(first, shape);
  if (const auto* transpose = std::get_if<op::Transpose>(&op))
    return fold_transpose(*transpose, first, shape, allowance);
  return select_elements(op, operands, shapes, shape, allowance);
}

}  // namespace driftbound
