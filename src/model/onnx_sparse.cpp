#include "model/onnx_sparse.hpp"

#include <cstring>

#include "driftbound/num/errors.hpp"
#include "model/onnx_tensor.hpp"

namespace driftbound::onnx {
namespace {

/// Row-major positions of the values: each index is one, or has one coordinate an axis.
std::vector<std::int64_t> positions(const StoredTensor& indices, std::size_t values, const Shape& shape) {
  const std::vector<std::int64_t> numbers = indices.to_int64().values;
  const bool are_linear = indices.shape().size() == 1;
  const Shape extents = are_linear ? Shape{element_count(shape)} : shape;
  const auto count = static_cast<std::int64_t>(values);
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (indices.shape() != (are_linear ? Shape{count} : Shape{count, rank})) {
    throw ShapeMismatch("indices of shape " + to_string(indices.shape()) + " do not place " + std::to_string(values) +
                        " values in " + to_string(shape));
  }
  std::vector<std::int64_t> result;
  result.reserve(values);
  auto next = numbers.begin();
  for (std::size_t i = 0; i < values; ++i) {
    std::int64_t position = 0;
    for (const std::int64_t extent : extents) {
      const std::int64_t index = *next++;
      if (index < 0 || index >= extent)
        throw ParseError("index " + std::to_string(index) + " lies outside the shape " + to_string(shape));
      position = position * extent + index;
    }
    if (!result.empty() && position <= result.back())
      throw ParseError("its indices are not in ascending order without repetition");
    result.push_back(position);
  }
  return result;
}

StoredTensor spread(const StoredTensor& values, const std::vector<std::int64_t>& positions, const Shape& shape) {
  const std::size_t width = bytes_per_element(values.type());
  std::vector<std::byte> bytes(static_cast<std::size_t>(element_count(shape)) * width);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    std::memcpy(bytes.data() + static_cast<std::size_t>(positions[i]) * width, values.bytes().data() + i * width,
                width);
  }
  return StoredTensor(values.type(), shape, std::move(bytes));
}

void take_from(Allowance& allowance, const Shape& shape, std::size_t width) {
  const auto elements = static_cast<std::size_t>(element_count(shape));
  if (elements <= allowance.left() / width && allowance.take(elements * width)) return;
  throw Unsupported("shape " + to_string(shape) + " written out is larger than a file of this size justifies (" +
                    std::to_string(allowance.left()) + " bytes are left); store the tensor dense");
}

}  // namespace

StoredTensor to_dense(const SparseTensorProto& tensor, const std::shared_ptr<const void>& owner,
                      const std::string& where, DataFiles& data_files, Allowance& allowance) {
  const StoredTensor values = to_stored(parse_tensor(tensor.values), owner, where, &data_files);
  const StoredTensor indices = to_stored(parse_tensor(tensor.indices), owner, where + ", its indices", &data_files);
  if (tensor.dims.size() > highest_rank) throw ParseError(where + " has more than 64 dimensions");
  try {
    if (values.shape().size() != 1) throw ShapeMismatch("its values must be a list");
    if (indices.type() != ElementType::i64) throw ParseError("its indices must be int64");
    const std::vector<std::int64_t> places = positions(indices, values.size(), tensor.dims);
    take_from(allowance, tensor.dims, bytes_per_element(values.type()));
    return spread(values, places, tensor.dims);
  } catch (const ShapeMismatch& error) {
    throw ShapeMismatch(where + ": " + error.what());
  } catch (const ParseError& error) {
    throw ParseError(where + ": " + error.what());
  } catch (const Unsupported& error) {
    throw Unsupported(where + ": " + error.what());
  }
}

}  // namespace driftbound::onnx
