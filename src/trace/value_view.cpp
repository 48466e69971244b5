#include "trace/value_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <variant>

#include "driftbound/model/layout.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/errors.hpp"
#include "model/fold.hpp"
#include "model/shapes.hpp"
#include "model/variant.hpp"

namespace driftbound {
namespace {

std::vector<std::int64_t> strides_of(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

}  // namespace

ValueView::ValueView(StoredTensor stored, Shape shape, const std::optional<RecordedPart>& part)
    : stored_(std::move(stored)), shape_(std::move(shape)) {
  const std::vector<std::int64_t> strides = strides_of(stored_.shape());
  if (part && part->elements) {
    std::unordered_map<std::int64_t, std::int64_t> places;
    for (std::size_t i = 0; i < part->elements->size(); ++i)
      places.emplace((*part->elements)[i], static_cast<std::int64_t>(i));
    elements_ = std::make_shared<const std::unordered_map<std::int64_t, std::int64_t>>(std::move(places));
    const std::vector<std::int64_t> own = strides_of(shape_);
    for (const std::int64_t stride : own) axes_.push_back({stride, nullptr});
  } else {
    for (std::size_t axis = 0; axis < shape_.size(); ++axis) {
      axes_.push_back({strides[axis], nullptr});
      const auto found =
          part ? part->axes.find(axis) : std::map<std::size_t, std::vector<std::int64_t>>::const_iterator();
      if (!part || found == part->axes.end()) continue;
      if (static_cast<std::int64_t>(found->second.size()) == shape_[axis]) continue;  // all of them
      std::vector<std::int64_t> places(static_cast<std::size_t>(shape_[axis]), -1);
      for (std::size_t i = 0; i < found->second.size(); ++i)
        places[static_cast<std::size_t>(found->second[i])] = static_cast<std::int64_t>(i);
      axes_.back().places = std::make_shared<const std::vector<std::int64_t>>(std::move(places));
    }
  }
  settle();
}

bool ValueView::is_there(std::size_t axis, std::int64_t index) const {
  const Axis& one = axes_[axis];
  return one.places == nullptr || (*one.places)[static_cast<std::size_t>(one.first + one.step * index)] >= 0;
}

void ValueView::settle() {
  size_ = element_count(shape_);
  is_whole_ = elements_ == nullptr;
  is_contiguous_ = elements_ == nullptr;
  const std::vector<std::int64_t> rows = strides_of(shape_);
  for (std::size_t axis = 0; axis < shape_.size(); ++axis) {
    const Axis& one = axes_[axis];
    for (std::int64_t i = 0; i < shape_[axis] && one.places != nullptr; ++i) is_whole_ = is_whole_ && is_there(axis, i);
    is_contiguous_ = is_contiguous_ && one.places == nullptr && (shape_[axis] <= 1 || one.stride == rows[axis]);
  }
}

std::int64_t ValueView::place_of(std::int64_t number) const {
  if (is_contiguous_) return offset_ + number;
  std::int64_t place = offset_;
  for (std::size_t axis = shape_.size(); axis-- > 0;) {
    const std::int64_t index = number % shape_[axis];
    number /= shape_[axis];
    const Axis& one = axes_[axis];
    if (one.places == nullptr) {
      place += index * one.stride;
      continue;
    }
    const std::int64_t at = (*one.places)[static_cast<std::size_t>(one.first + one.step * index)];
    if (at < 0) return -1;
    place += at * one.stride;
  }
  if (elements_ == nullptr) return place;
  const auto found = elements_->find(place);
  return found == elements_->end() ? -1 : found->second;
}

std::optional<std::size_t> ValueView::line_axis(std::int64_t first, std::int64_t step, std::int64_t count) const {
  if (elements_ != nullptr || step < 1) return std::nullopt;
  std::int64_t stride = 1;
  for (std::size_t axis = shape_.size(); axis-- > 0; stride *= shape_[axis]) {
    const std::int64_t extent = std::max<std::int64_t>(shape_[axis], 1);
    const bool runs_along = stride == step && (first / step) % extent + count <= extent;
    if (runs_along && axes_[axis].places == nullptr) return axis;
  }
  return std::nullopt;
}

bool ValueView::has(std::int64_t first, std::int64_t step, std::int64_t count) const {
  if (is_whole_ || count == 0) return true;
  if (line_axis(first, step, count)) return place_of(first) >= 0;
  for (std::int64_t i = 0; i < count; ++i)
    if (place_of(first + i * step) < 0) return false;
  return true;
}

std::vector<std::int64_t> ValueView::recorded() const {
  std::vector<std::int64_t> numbers;
  if (elements_ != nullptr) {
    // The places in the whole value, of which this view may show some.
    const bool is_plain = [&] {
      std::int64_t stride = 1;
      for (std::size_t axis = shape_.size(); axis-- > 0; stride *= shape_[axis])
        if (shape_[axis] > 1 && axes_[axis].stride != stride) return false;
      return offset_ == 0;
    }();
    if (is_plain) {
      for (const auto& [number, place] : *elements_)
        if (number < size_) numbers.push_back(number);
      std::sort(numbers.begin(), numbers.end());
      return numbers;
    }
    for (std::int64_t number = 0; number < size_; ++number)
      if (place_of(number) >= 0) numbers.push_back(number);
    return numbers;
  }
  numbers = {0};
  for (std::size_t axis = 0; axis < shape_.size(); ++axis) {
    std::vector<std::int64_t> longer;
    for (const std::int64_t number : numbers)
      for (std::int64_t i = 0; i < shape_[axis]; ++i)
        if (is_there(axis, i)) longer.push_back(number * shape_[axis] + i);
    numbers = std::move(longer);
  }
  return numbers;
}

bool ValueView::copy(std::int64_t first, std::int64_t step, std::int64_t count, std::byte* out) const {
  const std::size_t width = bytes_per_element(type());
  const std::byte* from = stored_.bytes().data();
  if (count == 0) return true;
  if (is_contiguous_ && step == 1) {
    std::memcpy(out, from + static_cast<std::size_t>(offset_ + first) * width, static_cast<std::size_t>(count) * width);
    return true;
  }
  if (const std::optional<std::size_t> axis = line_axis(first, step, count)) {
    const std::int64_t start = place_of(first), distance = axes_[*axis].stride;
    if (start < 0) return false;
    for (std::int64_t i = 0; i < count; ++i)
      std::memcpy(out + static_cast<std::size_t>(i) * width,
                  from + static_cast<std::size_t>(start + i * distance) * width, width);
    return true;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t place = place_of(first + i * step);
    if (place < 0) return false;
    std::memcpy(out + static_cast<std::size_t>(i) * width, from + static_cast<std::size_t>(place) * width, width);
  }
  return true;
}

void ValueView::require_room(std::int64_t elements) const {
  constexpr std::int64_t few = std::int64_t{1} << 22, copies = 16;
  if (elements > std::max(few, copies * static_cast<std::int64_t>(stored_.size())))
    throw Unsupported(
        fmt::format("a view repeats {} stored elements, and {} of it are needed at once", stored_.size(), elements));
}

StoredTensor ValueView::range(std::int64_t first, Shape shape) const {
  const std::size_t width = bytes_per_element(type());
  const auto count = static_cast<std::size_t>(element_count(shape));
  if (is_contiguous_)
    return StoredTensor(type(), std::move(shape),
                        stored_.bytes().subspan(static_cast<std::size_t>(offset_ + first) * width, count * width),
                        std::make_shared<const StoredTensor>(stored_));
  require_room(static_cast<std::int64_t>(count));
  std::vector<std::byte> bytes(count * width);
  const std::int64_t line = shape_.empty() ? 1 : shape_.back();
  for (std::int64_t done = 0; done < static_cast<std::int64_t>(count);) {
    const std::int64_t number = first + done;
    const std::int64_t next = std::min(line - number % line, static_cast<std::int64_t>(count) - done);
    if (!copy(number, 1, next, bytes.data() + static_cast<std::size_t>(done) * width))
      throw Unsupported("a part of the value that this needs is not recorded");
    done += next;
  }
  return StoredTensor(type(), std::move(shape), std::move(bytes));
}

std::optional<ValueView> ValueView::reshaped(const Shape& shape) const {
  if (shape == shape_) return *this;
  ValueView result = *this;
  result.shape_ = shape;
  result.axes_.clear();
  if (element_count(shape) != size_) return std::nullopt;
  if (size_ == 0) {
    result.axes_.assign(shape.size(), {0, nullptr});
    return result;
  }
  // Axes of the result from the back, each within a run of axes of this view that lie as one.
  std::size_t own = shape_.size();
  std::int64_t left = 1, stride = 1;  // of the run: elements not yet taken, and the distance of the next ones
  const Axis* special = nullptr;      // an axis with places is kept whole
  std::vector<Axis> axes(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] == 1) {
      axes[axis] = {0, nullptr};
      continue;
    }
    while (left == 1) {
      if (own == 0) return std::nullopt;
      --own;
      if (shape_[own] == 1) {
        if (axes_[own].places != nullptr) return std::nullopt;
        continue;
      }
      left = shape_[own];
      stride = axes_[own].stride;
      special = axes_[own].places != nullptr ? &axes_[own] : nullptr;
    }
    if (special != nullptr) {
      if (left != shape[axis]) return std::nullopt;
      axes[axis] = *special;
      left = 1;
      continue;
    }
    std::int64_t wanted = shape[axis];
    while (left < wanted) {  // joins the next axis where it lies as one with this
      if (own == 0 || axes_[own - 1].places != nullptr) return std::nullopt;
      --own;
      if (shape_[own] == 1) continue;
      if (axes_[own].stride != stride * left) return std::nullopt;
      left *= shape_[own];
    }
    if (left % wanted != 0) return std::nullopt;
    axes[axis] = {stride, nullptr};
    left /= wanted;
    stride *= wanted;
  }
  if (left != 1) return std::nullopt;
  for (; own > 0; --own)
    if (shape_[own - 1] != 1 || axes_[own - 1].places != nullptr) return std::nullopt;
  result.axes_ = std::move(axes);
  result.settle();
  return result;
}

ValueView ValueView::transposed(const std::vector<std::size_t>& permutation) const {
  ValueView result = *this;
  for (std::size_t axis = 0; axis < permutation.size(); ++axis) {
    result.shape_[axis] = shape_[permutation[axis]];
    result.axes_[axis] = axes_[permutation[axis]];
  }
  result.settle();
  return result;
}

ValueView ValueView::sliced(std::size_t axis, std::int64_t first, std::int64_t step, std::int64_t count) const {
  ValueView result = *this;
  result.shape_[axis] = count;
  Axis& cut = result.axes_[axis];
  if (cut.places != nullptr) {
    cut.first += cut.step * first;
    cut.step *= step;
  } else {
    if (count > 0) result.offset_ += first * cut.stride;
    cut.stride *= step;
  }
  result.settle();
  return result;
}

ValueView ValueView::expanded(const Shape& shape) const {
  ValueView result = *this;
  result.shape_ = shape;
  result.axes_.assign(shape.size(), Axis{});
  const std::size_t added = shape.size() - shape_.size();
  for (std::size_t axis = 0; axis < shape_.size(); ++axis) {
    const bool is_repeated = shape_[axis] == 1 && shape[axis + added] != 1;
    result.axes_[axis + added] = axes_[axis];
    if (!is_repeated) continue;
    result.axes_[axis + added].stride = 0;
    if (axes_[axis].places != nullptr)
      result.axes_[axis + added].places = std::make_shared<const std::vector<std::int64_t>>(
          static_cast<std::size_t>(shape[axis + added]),
          (*axes_[axis].places)[static_cast<std::size_t>(axes_[axis].first)]);
    result.axes_[axis + added].first = 0;
    result.axes_[axis + added].step = 1;
  }
  result.settle();
  return result;
}

namespace {

constexpr std::size_t deepest = 256;  // views of views

/// The moves of a graph, applied to views.
class Mover {
public:
  Mover(const CallMeaning& meaning, std::vector<ValueView> operands) : meaning_(meaning) {
    for (std::size_t i = 0; i < operands.size(); ++i) views_.emplace(meaning.graph.inputs[i], std::move(operands[i]));
  }

  /// Throws:    Unsupported where the value is no move of the operands
  ValueView view(ValueId id) {
    if (const auto known = views_.find(id); known != views_.end()) return known->second;
    const Graph& graph = meaning_.graph;
    if (graph.is_constant(id)) return ValueView(graph.value(id).constant, graph.value(id).constant.shape());
    const Node& node = graph.nodes[graph.producer(id).value()];
    std::vector<ValueView> operands;
    std::vector<Shape> shapes;
    for (const ValueId operand : node.inputs) {
      operands.push_back(view(operand));
      shapes.push_back(operands.back().shape());
    }
    ValueView result = moved(node.op, operands, output_shape(node.op, shapes));
    views_.emplace(id, result);
    return result;
  }

private:
  static ValueView moved(const Op& op, const std::vector<ValueView>& operands, const Shape& shape) {
    const bool is_move = std::visit([]<class T>(const T&) { return Selection<T>; }, op);
    if (!is_move) throw Unsupported("its numbers are not recorded, and an op computes them");
    if (std::optional<ValueView> regular = as_view(op, operands.front(), shape)) return *regular;
    std::vector<StoredTensor> tensors;
    std::vector<const StoredTensor*> pointers;
    for (const ValueView& operand : operands) tensors.push_back(operand.tensor());
    for (const StoredTensor& tensor : tensors) pointers.push_back(&tensor);
    Allowance allowance(std::size_t{1} << 25);
    for (const StoredTensor& tensor : tensors) allowance.add(16 * tensor.bytes().size());
    std::optional<StoredTensor> folded = fold(op, pointers, allowance);
    if (!folded) throw Unsupported("its numbers are not recorded, and do not follow from others exactly");
    return ValueView(std::move(*folded), shape);
  }

  static std::optional<ValueView> as_view(const Op& op, const ValueView& x, const Shape& shape) {
    return std::visit(Overloaded{
                          [&](const Reshaping auto&) { return x.reshaped(shape); },
                          [&](const op::Transpose& transpose) -> std::optional<ValueView> {
                            return x.transposed(permutation_of(transpose, x.shape().size()));
                          },
                          [&](const op::Expand&) -> std::optional<ValueView> { return x.expanded(shape); },
                          [&](const op::Slice& slice) -> std::optional<ValueView> { return sliced(slice, x, shape); },
                          [&](const op::Gather& gather) -> std::optional<ValueView> {
                            if (gather.indices.size() != 1 || !gather.indices_shape.empty()) return std::nullopt;
                            const std::size_t axis = normalized_axis(gather.axis, x.shape().size());
                            const std::int64_t index = gather.indices.front();
                            return x.sliced(axis, index < 0 ? index + x.shape()[axis] : index, 1, 1).reshaped(shape);
                          },
                          [](const auto&) -> std::optional<ValueView> { return std::nullopt; },
                      },
                      op);
  }

  static std::optional<ValueView> sliced(const op::Slice& slice, const ValueView& x, const Shape& shape) {
    ValueView result = x;
    for (std::size_t i = 0; i < slice.axes.size(); ++i) {
      const std::size_t axis = normalized_axis(slice.axes[i], x.shape().size());
      const std::int64_t step = slice.steps.empty() ? 1 : slice.steps[i], extent = x.shape()[axis];
      if (step < 1) return std::nullopt;
      const std::int64_t start = slice.starts[i] < 0 ? slice.starts[i] + extent : slice.starts[i];
      result = result.sliced(axis, std::clamp<std::int64_t>(start, 0, extent), step, shape[axis]);
    }
    return result.shape() == shape ? std::optional(result) : std::nullopt;
  }

  const CallMeaning& meaning_;
  std::map<ValueId, ValueView> views_;
};

}  // namespace

ValueView RecordedValues::view(const std::string& id, std::size_t depth) const {
  if (depth > deepest) throw Unsupported("its value " + id + " is a view of a view of … more than 256 times");
  if (run_.is_stored(id)) return ValueView(run_.stored(id), run_.shape_of(id), run_.part_of(id));
  const std::optional<std::size_t> producer = run_.producer_of(id);
  if (!producer) throw Unsupported(fmt::format("the numbers of value '{}' are not recorded", id));
  const Record& record = run_.records()[*producer];
  const CallMeaning meaning = meaning_of(call_of(record, depth + 1));
  const auto at = std::find(record.results.begin(), record.results.end(), std::optional(id));
  const auto index = static_cast<std::size_t>(at - record.results.begin());
  if (index >= meaning.results.size() || !meaning.results[index])
    throw Unsupported(fmt::format("the numbers of value '{}' are not recorded", id));
  std::vector<ValueView> operands;
  for (const std::size_t slot : meaning.slots) operands.push_back(view(record.operands[slot].value(), depth + 1));
  ValueView result = Mover(meaning, std::move(operands)).view(*meaning.results[index]);
  if (result.shape() != run_.shape_of(id))
    throw ShapeMismatch(fmt::format("value '{}' is described as {}, and its record '{}' makes it {}", id,
                                    to_string(run_.shape_of(id)), record.name, to_string(result.shape())));
  return result;
}

RecordedCall RecordedValues::call_of(const Record& record, std::size_t depth) const {
  RecordedCall call{record.op, record.opset, record.attributes, {}, {}};
  for (const std::optional<std::string>& id : record.results) {
    if (id && run_.has(*id)) {
      call.results.push_back(CallResult{run_.type_of(*id), run_.shape_of(*id)});
    } else {
      call.results.emplace_back();
    }
  }
  for (const std::optional<std::string>& id : record.operands) {
    if (!id) {
      call.operands.emplace_back();
      continue;
    }
    call.operands.push_back(CallOperand{run_.type_of(*id), run_.shape_of(*id),
                                        [this, id = *id, depth] { return view(id, depth + 1).tensor(); }});
  }
  return call;
}

}  // namespace driftbound
