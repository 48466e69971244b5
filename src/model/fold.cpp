#include "model/fold.hpp"

#include <algorithm>
#include <cstring>
#include <variant>

#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"
#include "model/convert.hpp"
#include "model/shapes.hpp"
#include "model/variant.hpp"

namespace driftbound {
namespace {

/// Whether the elements stay where they are in row-major order.
bool keeps_order(const Op& op) {
  return std::visit(
      []<class T>(const T&) { return OneOf<T, op::Reshape, op::Flatten, op::Squeeze, op::Unsqueeze, op::Identity>; },
      op);
}

}  // namespace

bool ConstantFolder::take(std::size_t bytes) {
  if (bytes > budget_) return false;
  budget_ -= bytes;
  return true;
}

std::optional<StoredTensor> ConstantFolder::fold(const Op& op, const std::vector<const StoredTensor*>& operands) {
  const StoredTensor& first = *operands.front();
  if (const auto* cast = std::get_if<op::Cast>(&op)) {
    if (first.type() == cast->to) return first;
    const std::size_t working_space = first.size() * 2 * sizeof(double);
    if (!take(working_space + first.size() * bytes_per_element(cast->to)) || !converts_exactly(first, cast->to))
      return std::nullopt;
    return converted(first, cast->to, "");
  }
  if (!is_selection(op)) return std::nullopt;
  std::vector<Shape> shapes;
  for (const StoredTensor* operand : operands) shapes.push_back(operand->shape());
  const Shape shape = output_shape(op, shapes);
  return keeps_order(op) ? reshaped(first, shape) : select_elements(op, operands, shape);
}

std::optional<StoredTensor> ConstantFolder::select_elements(const Op& op,
                                                            const std::vector<const StoredTensor*>& operands,
                                                            const Shape& shape) {
  const std::size_t width = bytes_per_element(operands.front()->type());
  std::size_t elements = 0;
  std::vector<Shape> shapes;
  for (const StoredTensor* operand : operands) {
    elements += operand->size();
    shapes.push_back(operand->shape());
  }
  if (!take(elements * (width + sizeof(ElementSource)))) return std::nullopt;
  std::vector<std::byte> bytes(elements * width);
  std::byte* target = bytes.data();
  for (const ElementSource& source : plan_selection(op, shapes, shape)) {
    std::memcpy(target, operands[source.input]->bytes().data() + source.index * width, width);
    target += width;
  }
  return StoredTensor(operands.front()->type(), shape, std::move(bytes));
}

}  // namespace driftbound
