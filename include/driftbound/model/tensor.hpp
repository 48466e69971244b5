#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driftbound/num/format.hpp"

namespace driftbound {

/// Extents, outermost first; tensors are stored row-major (the last index runs fastest).
using Shape = std::vector<std::int64_t>;

/// Product of the extents (1 for a scalar).
/// Throws:    ShapeMismatch on a negative extent or on overflow of 2^62
std::int64_t element_count(const Shape& shape);
std::string to_string(const Shape& shape);  // "[64, 3]"

/// The shape both operands broadcast to (NumPy and ONNX rule).
/// Throws:    ShapeMismatch
Shape broadcast(const Shape& a, const Shape& b);

/// A dense array of computed values of type Real.
template <class Real>
struct Tensor {
  Shape shape;
  std::vector<Real> values;

  Tensor() = default;
  explicit Tensor(Shape s) : shape(std::move(s)), values(static_cast<std::size_t>(element_count(shape))) {}
  Tensor(Shape s, std::vector<Real> v) : shape(std::move(s)), values(std::move(v)) {}
  std::size_t size() const { return values.size(); }
};

enum class ElementType { f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, boolean };

std::string_view name_of(ElementType type);  // "float32", "int64", "bfloat16" …
std::size_t bytes_per_element(ElementType type);
bool is_float(ElementType type);
/// Format of a float element type; empty for integers and booleans.
std::optional<FormatId> float_format(ElementType type);

/// A tensor as a file stores it: element type, shape and raw little-endian bytes, never converted
/// without being asked. The bytes may belong to a memory-mapped file that `owner` keeps alive.
class StoredTensor {
public:
  StoredTensor() = default;
  /// Throws:    ShapeMismatch unless bytes.size() == element_count(shape) * bytes_per_element(type)
  StoredTensor(ElementType type, Shape shape, std::vector<std::byte> bytes);
  StoredTensor(ElementType type, Shape shape, std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  static StoredTensor from(const Tensor<double>& values);
  static StoredTensor from(const Tensor<float>& values);
  static StoredTensor from(const Tensor<std::int64_t>& values);

  ElementType type() const { return type_; }
  const Shape& shape() const { return shape_; }
  std::size_t size() const;
  std::span<const std::byte> bytes() const { return bytes_; }

  /// Every element as a double, exactly.
  /// Throws:    Unsupported where an integer element exceeds 2^53
  Tensor<double> to_double() const;
  /// Every element as an integer.
  /// Throws:    Unsupported for float element types
  Tensor<std::int64_t> to_int64() const;
  bool all_finite() const;
  /// SHA-256 is taken over these bytes; equality is bitwise.
  bool identical(const StoredTensor& other) const;

private:
  ElementType type_ = ElementType::f32;
  Shape shape_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

}  // namespace driftbound
