#include "model/onnx_tensor.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "driftbound/num/errors.hpp"
#include "model/text.hpp"

namespace driftbound::onnx {
namespace {

/// One varint ends at each byte below 0x80.
std::size_t count_varints(const Pieces& pieces) {
  std::size_t count = 0;
  for (const Bytes piece : pieces) {
    count += static_cast<std::size_t>(
        std::count_if(piece.begin(), piece.end(), [](std::byte b) { return b < std::byte{0x80}; }));
  }
  return count;
}

std::size_t total_size(const Pieces& pieces) {
  std::size_t size = 0;
  for (const Bytes piece : pieces) size += piece.size();
  return size;
}

/// The numbers of a repeated float or double as one block of bytes.
std::vector<std::byte> joined(const Pieces& pieces) {
  std::vector<std::byte> bytes;
  bytes.reserve(total_size(pieces));
  for (const Bytes piece : pieces) bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}

class TensorReader {
public:
  TensorReader(const TensorProto& tensor, const std::shared_ptr<const void>& owner, const std::string& where,
               DataFiles* data_files)
      : tensor_(tensor), owner_(owner), where_(where), data_files_(data_files) {}

  StoredTensor read() const {
    if (tensor_.data_type == DataType::undefined) throw ParseError(where_ + " has no element type");
    const std::optional<ElementType> type = element_type(tensor_.data_type);
    if (!type)
      throw Unsupported(where_ + " has element type " + onnx::name_of(tensor_.data_type) + ", which is not supported");
    if (tensor_.is_segment) throw Unsupported(where_ + " is one segment of a tensor, which is not supported");
    if (tensor_.dims.size() > highest_rank) throw ParseError(where_ + " has more than 64 dimensions");
    if (tensor_.is_external) return read_external(*type);
    try {
      return tensor_.raw_data ? StoredTensor(*type, tensor_.dims, *tensor_.raw_data, owner_) : read_typed(*type);
    } catch (const ShapeMismatch& error) {
      throw ShapeMismatch(where_ + ": " + error.what());
    }
  }

private:
  StoredTensor read_external(ElementType type) const {
    const std::string where = where_ + ", stored in " + in_quotes(tensor_.external.location.value_or("")) + ": ";
    if (data_files_ == nullptr) throw Unsupported(where + "data outside the file are not read here");
    if (has_own_data()) throw ParseError(where + "the model's file holds data of it as well");
    try {
      const auto elements = static_cast<std::uint64_t>(element_count(tensor_.dims));
      if (elements > std::numeric_limits<std::uint64_t>::max() / bytes_per_element(type))
        throw ShapeMismatch("shape " + to_string(tensor_.dims) + " has more bytes than a file can have");
      auto [bytes, owner] = data_files_->find(tensor_.external, elements * bytes_per_element(type));
      return StoredTensor(type, tensor_.dims, bytes, std::move(owner));
    } catch (const ShapeMismatch& error) {
      throw ShapeMismatch(where + error.what());
    } catch (const ParseError& error) {
      throw ParseError(where + error.what());
    } catch (const FileError& error) {
      throw FileError(where + error.what());
    }
  }

  bool has_own_data() const {
    return tensor_.raw_data || !tensor_.float_data.empty() || !tensor_.double_data.empty() ||
           !tensor_.int32_data.empty() || !tensor_.int64_data.empty() || !tensor_.uint64_data.empty();
  }

  StoredTensor read_typed(ElementType type) const {
    switch (type) {
      case ElementType::f32:
        return from_numbers(type, tensor_.float_data);
      case ElementType::f64:
        return from_numbers(type, tensor_.double_data);
      case ElementType::i64:
        return from_varints<std::int64_t>(type, tensor_.int64_data);
      case ElementType::u64:
        return from_varints<std::uint64_t>(type, tensor_.uint64_data);
      case ElementType::u32:
        return from_varints<std::uint32_t>(type, tensor_.uint64_data);
      case ElementType::i32:
        return from_varints<std::int32_t>(type, tensor_.int32_data);
      case ElementType::i16:
        return from_varints<std::int16_t>(type, tensor_.int32_data);
      case ElementType::i8:
        return from_varints<std::int8_t>(type, tensor_.int32_data);
      case ElementType::f16:
      case ElementType::bf16:
      case ElementType::u16:
        return from_varints<std::uint16_t>(type, tensor_.int32_data);
      case ElementType::u8:
      case ElementType::boolean:
        return from_varints<std::uint8_t>(type, tensor_.int32_data);
    }
    return {};
  }

  StoredTensor from_numbers(ElementType type, const Pieces& pieces) const {
    if (pieces.size() == 1) return StoredTensor(type, tensor_.dims, pieces.front(), owner_);
    return StoredTensor(type, tensor_.dims, joined(pieces));
  }

  template <class Stored>
  StoredTensor from_varints(ElementType type, const Pieces& pieces) const {
    const auto expected = static_cast<std::size_t>(element_count(tensor_.dims));
    const std::size_t found = count_varints(pieces);
    if (found != expected) {
      throw ShapeMismatch(std::to_string(found) + " numbers do not fill shape " + to_string(tensor_.dims));
    }
    std::vector<std::byte> bytes;
    bytes.reserve(expected * sizeof(Stored));
    for (Bytes piece : pieces) {
      while (!piece.empty()) append<Stored>(bytes, take_varint(piece));
    }
    return StoredTensor(type, tensor_.dims, std::move(bytes));
  }

  template <class Stored>
  void append(std::vector<std::byte>& bytes, std::uint64_t number) const {
    const auto value = static_cast<Stored>(number);
    const bool fits = std::is_signed_v<Stored> ? static_cast<std::int64_t>(value) == static_cast<std::int64_t>(number)
                                               : static_cast<std::uint64_t>(value) == number;
    if (!fits) throw ParseError(where_ + " holds a number outside the range of its element type");
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), first, first + sizeof value);
  }

  const TensorProto& tensor_;
  const std::shared_ptr<const void>& owner_;
  const std::string& where_;
  DataFiles* data_files_;
};

}  // namespace

std::optional<ElementType> element_type(DataType type) {
  switch (type) {
    case DataType::float64:
      return ElementType::f64;
    case DataType::float32:
      return ElementType::f32;
    case DataType::float16:
      return ElementType::f16;
    case DataType::bfloat16:
      return ElementType::bf16;
    case DataType::int64:
      return ElementType::i64;
    case DataType::int32:
      return ElementType::i32;
    case DataType::int16:
      return ElementType::i16;
    case DataType::int8:
      return ElementType::i8;
    case DataType::uint64:
      return ElementType::u64;
    case DataType::uint32:
      return ElementType::u32;
    case DataType::uint16:
      return ElementType::u16;
    case DataType::uint8:
      return ElementType::u8;
    case DataType::boolean:
      return ElementType::boolean;
    default:
      return std::nullopt;
  }
}

std::string name_of(DataType type) {
  if (const std::optional<ElementType> known = element_type(type)) return std::string(driftbound::name_of(*known));
  switch (type) {
    case DataType::undefined:
      return "undefined";
    case DataType::string:
      return "string";
    case DataType::complex64:
      return "complex64";
    case DataType::complex128:
      return "complex128";
    case DataType::float8e4m3fn:
      return "float8e4m3fn";
    case DataType::float8e4m3fnuz:
      return "float8e4m3fnuz";
    case DataType::float8e5m2:
      return "float8e5m2";
    case DataType::float8e5m2fnuz:
      return "float8e5m2fnuz";
    case DataType::float8e8m0:
      return "float8e8m0";
    case DataType::float4e2m1:
      return "float4e2m1";
    case DataType::uint4:
      return "uint4";
    case DataType::int4:
      return "int4";
    case DataType::uint2:
      return "uint2";
    case DataType::int2:
      return "int2";
    default:
      return "number " + std::to_string(static_cast<std::int64_t>(type)) + " of ONNX";
  }
}

StoredTensor to_stored(const TensorProto& tensor, const std::shared_ptr<const void>& owner, const std::string& where,
                       DataFiles* data_files) {
  return TensorReader(tensor, owner, where, data_files).read();
}

std::vector<std::int64_t> to_integers(const Pieces& varints) {
  std::vector<std::int64_t> values;
  values.reserve(count_varints(varints));
  for (Bytes piece : varints) {
    while (!piece.empty()) values.push_back(static_cast<std::int64_t>(take_varint(piece)));
  }
  return values;
}

StoredTensor to_float_vector(const Pieces& reals) {
  std::vector<std::byte> bytes = joined(reals);
  const auto count = static_cast<std::int64_t>(bytes.size() / sizeof(float));
  return StoredTensor(ElementType::f32, {count}, std::move(bytes));
}

}  // namespace driftbound::onnx
