#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "driftbound/model/tensor.hpp"
#include "driftbound/trace/recorded_run.hpp"

namespace driftbound {

/// A tensor whose elements lie somewhere in a stored one: axes permuted, repeated, cut; perhaps only a part of it.
class ValueView {
public:
  /// All of a stored tensor, or the part of a value of this shape that is stored.
  ValueView(StoredTensor stored, Shape shape, const std::optional<RecordedPart>& part = std::nullopt);

  ElementType type() const { return stored_.type(); }
  const Shape& shape() const { return shape_; }
  std::int64_t size() const { return size_; }
  /// Whether every element is there.
  bool is_whole() const { return is_whole_; }

  /// Copies the elements with the row-major numbers first, first + step, ... into `out`, as they are stored. False where
  /// one of them is not there.
  bool copy(std::int64_t first, std::int64_t step, std::int64_t count, std::byte* out) const;
  bool has(std::int64_t first, std::int64_t step, std::int64_t count) const;
  /// The row-major numbers of all elements that are there, ascending.
  std::vector<std::int64_t> recorded() const;
  /// Throws:    Unsupported where so many elements are far more than are stored, so that a small file would take much
  ///            memory
  void require_room(std::int64_t elements) const;
  /// Consecutive elements, without copying where they lie so.
  /// Throws:    Unsupported where one of them is not there; as require_room()
  StoredTensor range(std::int64_t first, Shape shape) const;
  /// All elements.
  /// Throws:    as range()
  StoredTensor tensor() const { return range(0, shape_); }

  // ---- views of it; empty where the elements of the result do not lie at regular distances

  std::optional<ValueView> reshaped(const Shape& shape) const;
  ValueView transposed(const std::vector<std::size_t>& permutation) const;
  /// Elements first, first + step, ... of an axis.
  ValueView sliced(std::size_t axis, std::int64_t first, std::int64_t step, std::int64_t count) const;
  ValueView expanded(const Shape& shape) const;

private:
  struct Axis {
    std::int64_t stride = 0;  ///< in elements of the stored tensor
    /// By index: the place along the stored axis, -1 where it is not stored; null: the index itself.
    std::shared_ptr<const std::vector<std::int64_t>> places;
    std::int64_t first = 0, step = 1;  ///< index i is the index first + step i of `places`
  };
  /// The axis along which these numbers lie, all of whose indices are stored; empty where there is none.
  std::optional<std::size_t> line_axis(std::int64_t first, std::int64_t step, std::int64_t count) const;
  /// Place in the stored tensor; -1 where the element is not there.
  std::int64_t place_of(std::int64_t number) const;
  bool is_there(std::size_t axis, std::int64_t index) const;
  void settle();

  StoredTensor stored_;
  Shape shape_;
  std::vector<Axis> axes_;
  std::int64_t offset_ = 0, size_ = 0;
  bool is_whole_ = true, is_contiguous_ = true;
  std::shared_ptr<const std::unordered_map<std::int64_t, std::int64_t>> elements_;  ///< of single elements, by number
};

/// The values of a recorded run, those that follow from others by moves of elements as well.
class RecordedValues {
public:
  explicit RecordedValues(const RecordedRun& run) : run_(run) {}

  /// Throws:    Unsupported where the numbers are neither stored nor follow from others; FileError, ParseError and
  ///            ShapeMismatch of the files
  ValueView view(const std::string& id) const { return view(id, 0); }
  /// The call that a record is, its operands' numbers read when an op asks for them.
  /// Throws:    InvalidArgument where the run does not describe an operand
  RecordedCall call_of(const Record& record) const { return call_of(record, 0); }

private:
  ValueView view(const std::string& id, std::size_t depth) const;
  RecordedCall call_of(const Record& record, std::size_t depth) const;

  const RecordedRun& run_;
};

}  // namespace driftbound
