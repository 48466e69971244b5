#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "driftbound/num/errors.hpp"
#include "model/calls/call_writer.hpp"
#include "model/shapes.hpp"
#include "model/text.hpp"

// Views, copies and choices of elements.

namespace driftbound::calls {
namespace {

constexpr std::int64_t to_the_end = std::numeric_limits<std::int64_t>::max();

void copy(CallWriter& call) {
  call.ignore({"memory_format", "dtype", "layout", "device", "pin_memory", "non_blocking", "copy", "p", "train"});
  call.result(0, call.moved(0));
}

/// Makes numbers of its arguments alone: there is nothing to judge.
void created(CallWriter& call) {
  call.ignore_all();
}

/// Randomness is for training.
void dropout(CallWriter& call) {
  if (call.truth("train", false)) refuse("it drops elements at random (train)");
  copy(call);
}

void cast(CallWriter& call) {
  call.ignore({"layout", "device", "pin_memory", "non_blocking", "memory_format", "copy"});
  const std::optional<ElementType> type = call.type("dtype");
  call.result(0, type ? call.add(op::Cast{*type}, {call.x(0)}) : call.x(0));
}

/// copy_(self, src): src in the type of self.
/// copy_(self, src): src in the shape and type of self, which recordings may leave out: it is overwritten.
void copied_to(CallWriter& call) {
  call.ignore({"non_blocking"});
  const CallResult target = call.recorded_result(0);
  const ValueId source = call.moved(1);
  const ValueId spread = call.shape(source) == target.shape ? source : call.add(op::Expand{target.shape}, {source});
  const bool is_cast = is_float(target.type) && target.type != call.type_of(1);
  call.result(0, is_cast ? call.add(op::Cast{target.type}, {spread}) : spread);
}

void view(CallWriter& call) {
  std::vector<std::int64_t> size = call.integers(call.has("size") ? "size" : "shape");
  call.ignore({"stride"});
  call.result(0, call.add(op::Reshape{std::move(size), true}, {call.moved(0)}));
}

void flatten(CallWriter& call) {
  const Shape shape = call.shape_of(0);
  if (shape.empty()) return call.result(0, call.reshape(call.moved(0), {1}));
  const std::size_t first = normalized_axis(call.integer("start_dim", 0), shape.size());
  const std::size_t last = normalized_axis(call.integer("end_dim", -1), shape.size());
  Shape target(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(first));
  target.push_back(element_count(Shape(shape.begin() + static_cast<std::ptrdiff_t>(first),
                                       shape.begin() + static_cast<std::ptrdiff_t>(last) + 1)));
  target.insert(target.end(), shape.begin() + static_cast<std::ptrdiff_t>(last) + 1, shape.end());
  call.result(0, call.reshape(call.moved(0), target));
}

ValueId exchanged(CallWriter& call, std::int64_t a, std::int64_t b) {
  const ValueId x = call.moved(0);
  const std::size_t rank = call.shape(x).size();
  if (rank == 0) return x;
  std::vector<std::int64_t> permutation(rank);
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[normalized_axis(a, rank)], permutation[normalized_axis(b, rank)]);
  return call.add(op::Transpose{permutation}, {x});
}

void matrix_transposed(CallWriter& call) {
  call.result(0, call.shape_of(0).size() < 2 ? call.moved(0) : exchanged(call, 0, 1));
}

void transposed(CallWriter& call) {
  call.result(0, exchanged(call, call.integer("dim0", 0), call.integer("dim1", 1)));
}

void permuted(CallWriter& call) {
  const auto rank = static_cast<std::int64_t>(call.shape_of(0).size());
  std::vector<std::int64_t> dims = call.integers("dims");
  for (std::int64_t& dim : dims) dim = dim < 0 ? dim + rank : dim;
  call.result(0, call.add(op::Transpose{dims}, {call.moved(0)}));
}

void expanded(CallWriter& call) {
  call.ignore({"implicit"});
  Shape size = call.integers("size");
  const Shape& shape = call.shape_of(0);
  if (size.size() < shape.size()) throw ShapeMismatch("its size has fewer axes than its operand");
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::int64_t& extent = size[size.size() - shape.size() + i];
    if (extent == -1) extent = shape[i];
  }
  call.result(0, call.add(op::Expand{size}, {call.moved(0)}));
}

void repeated(CallWriter& call) {
  const std::vector<std::int64_t> repeats = call.integers("repeats");
  Shape shape = call.shape_of(0);
  while (shape.size() < repeats.size()) shape.insert(shape.begin(), 1);
  call.result(0, call.add(op::Tile{repeats}, {call.reshape(call.moved(0), shape)}));
}

void unsqueezed(CallWriter& call) {
  Shape shape = call.shape_of(0);
  const std::size_t axis = normalized_axis(call.integer("dim", 0), shape.size() + 1);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  call.result(0, call.reshape(call.moved(0), shape));
}

void squeezed(CallWriter& call) {
  const Shape& shape = call.shape_of(0);
  std::vector<bool> may_go(shape.size(), !call.has("dim"));
  for (const std::int64_t dim : call.integers("dim"))
    if (!shape.empty()) may_go[normalized_axis(dim, shape.size())] = true;
  Shape target;
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (!may_go[axis] || shape[axis] != 1) target.push_back(shape[axis]);
  call.result(0, call.reshape(call.moved(0), target));
}

ValueId part(CallWriter& call, std::int64_t axis, std::int64_t first, std::int64_t last, std::int64_t step = 1) {
  return call.add(op::Slice{{first}, {last}, {axis}, {step}}, {call.moved(0)});
}

void sliced(CallWriter& call) {
  call.result(0, part(call, call.integer("dim", 0), call.integer("start", 0), call.integer("end", to_the_end),
                      call.integer("step", 1)));
}

void narrowed(CallWriter& call) {
  const std::int64_t first = call.integer("start", 0);
  call.result(0, part(call, call.integer("dim", 0), first, first + call.integer("length", 0)));
}

void selected(CallWriter& call) {
  const std::int64_t axis = call.integer("dim", 0), index = call.integer("index", 0);
  call.result(0, call.add(op::Gather{axis, {}, {index}}, {call.moved(0)}));
}

/// Parts of these lengths along an axis, one result each.
void split_by(CallWriter& call, const std::vector<std::int64_t>& lengths, std::int64_t axis) {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    call.result(i, part(call, axis, first, first + lengths[i]));
    first += lengths[i];
  }
}

std::vector<std::int64_t> lengths_of_parts(std::int64_t extent, std::int64_t part) {
  if (part < 1) throw ShapeMismatch("it splits into parts without elements");
  std::vector<std::int64_t> lengths;
  for (std::int64_t first = 0; first < extent; first += part) lengths.push_back(std::min(part, extent - first));
  return lengths;
}

std::int64_t extent_along(CallWriter& call, std::int64_t axis) {
  const Shape& shape = call.shape_of(0);
  return shape[normalized_axis(axis, shape.size())];
}

void split(CallWriter& call) {
  const std::int64_t axis = call.integer("dim", 0);
  const std::vector<std::int64_t> sizes = call.integers(call.has("split_sizes") ? "split_sizes" : "split_size");
  if (sizes.size() == 1 && !call.has("split_sizes"))
    return split_by(call, lengths_of_parts(extent_along(call, axis), sizes.front()), axis);
  split_by(call, sizes, axis);
}

void chunk(CallWriter& call) {
  const std::int64_t axis = call.integer("dim", 0), chunks = call.integer("chunks", 1);
  const std::int64_t extent = extent_along(call, axis);
  if (chunks < 1) throw ShapeMismatch("it splits into no chunks");
  split_by(call, lengths_of_parts(extent, std::max<std::int64_t>((extent + chunks - 1) / chunks, 1)), axis);
}

void unbound(CallWriter& call) {
  const std::int64_t axis = call.integer("dim", 0), extent = extent_along(call, axis);
  for (std::int64_t i = 0; i < extent; ++i)
    call.result(static_cast<std::size_t>(i), call.add(op::Gather{axis, {}, {i}}, {call.moved(0)}));
}

void concatenated(CallWriter& call) {
  std::vector<ValueId> parts;
  for (const ValueId part : call.all_moved())
    if (call.shape(part) != Shape{0}) parts.push_back(part);  // PyTorch skips empty vectors
  call.result(0, call.add(op::Concat{call.integer("dim", 0)}, parts));
}

void stacked(CallWriter& call) {
  const std::int64_t dim = call.integer("dim", 0);
  std::vector<ValueId> parts;
  for (const ValueId part : call.all_moved()) {
    Shape shape = call.shape(part);
    const std::size_t axis = normalized_axis(dim, shape.size() + 1);
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    parts.push_back(call.reshape(part, shape));
  }
  const std::int64_t rank = parts.empty() ? 1 : call.rank(parts.front());
  call.result(0, call.add(op::Concat{dim < 0 ? dim + rank : dim}, parts));
}

/// Rows of a table by integers.
void embedding(CallWriter& call) {
  call.ignore({"padding_idx", "scale_grad_by_freq", "sparse"});
  call.result(0, call.add(op::Gather{0, call.shape_of(1), call.integers_of(1)}, {call.moved(0)}));
}

/// Operand 0 with other slices along an axis in the places that are given.
ValueId with_slices(CallWriter& call, std::int64_t axis, const std::vector<std::int64_t>& given, ValueId slices) {
  const std::int64_t extent = call.shape_of(0).at(static_cast<std::size_t>(axis));
  Tensor<std::int64_t> places({extent});
  std::iota(places.values.begin(), places.values.end(), std::int64_t{0});
  std::int64_t next = extent;  // behind the slices of operand 0
  for (std::int64_t place : given) {
    if (place < 0) place += extent;
    if (place < 0 || place >= extent) throw ShapeMismatch("an index is outside its operand");
    std::int64_t& taken = places.values[static_cast<std::size_t>(place)];
    if (taken >= extent) refuse("an index comes twice, and PyTorch does not say which slice counts");
    taken = next++;
  }
  const ValueId both = call.add(op::Concat{axis}, {call.moved(0), slices});
  return call.add(op::Gather{axis, places.shape, places.values}, {both});
}

void index_copied(CallWriter& call) {
  const std::size_t axis = normalized_axis(call.integer("dim", 0), call.shape_of(0).size());
  call.result(0, with_slices(call, static_cast<std::int64_t>(axis), call.integers_of(1), call.moved(2)));
}

/// The slot of the one tensor of integers among the indices of a call, which stands for the axis before it.
std::size_t slot_of_indices(const CallWriter& call, std::size_t end) {
  std::optional<std::size_t> given;
  for (std::size_t slot = 1; slot < end; ++slot) {
    if (!call.is_given(slot)) continue;
    if (given) refuse("it has several tensors of indices");
    given = slot;
  }
  if (!given) refuse("its indices are not recorded");
  if (call.type_of(*given) == ElementType::boolean) refuse("its indices are truth values");
  return *given;
}

/// index(self, indices): one tensor of integers, along the axis that it stands for.
void indexed(CallWriter& call) {
  const std::size_t slot = slot_of_indices(call, call.operand_count());
  const auto axis = static_cast<std::int64_t>(slot) - 1;
  call.result(0, call.add(op::Gather{axis, call.shape_of(slot), call.integers_of(slot)}, {call.moved(0)}));
}

/// index_put(self, indices, values): one vector of integers, and values as many as it has slices.
void index_put(CallWriter& call) {
  if (call.truth("accumulate", false)) refuse("it adds to what is there (accumulate)");
  call.ignore({"unsafe"});
  if (call.operand_count() < 3) refuse("its indices are not recorded");
  const std::size_t last = call.operand_count() - 1, slot = slot_of_indices(call, last);
  if (call.shape_of(slot).size() != 1) refuse("its indices have several axes");
  Shape slices = call.shape_of(0);
  slices.at(slot - 1) = call.shape_of(slot)[0];
  ValueId values = call.moved(last);
  if (call.shape(values) != slices) values = call.add(op::Expand{slices}, {values});
  call.result(0, with_slices(call, static_cast<std::int64_t>(slot) - 1, call.integers_of(slot), values));
}

/// Axes in reverse.
void flipped(CallWriter& call) {
  op::Slice slice;
  for (const std::int64_t axis : call.integers("dims")) {
    slice.starts.push_back(-1);
    slice.ends.push_back(std::numeric_limits<std::int64_t>::min());
    slice.axes.push_back(axis);
    slice.steps.push_back(-1);
  }
  const ValueId x = call.moved(0);
  call.result(0, slice.axes.empty() ? x : call.add(slice, {x}));
}

/// The last elements of an axis in front of the others.
void rolled(CallWriter& call) {
  const std::vector<std::int64_t> shifts = call.integers("shifts"), axes = call.integers("dims");
  if (shifts.size() != axes.size()) refuse("it rolls all elements as one line");
  ValueId x = call.moved(0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t extent = call.shape(x)[normalized_axis(axes[i], call.shape(x).size())];
    if (extent == 0) continue;
    const std::int64_t front = (extent - shifts[i] % extent) % extent;
    if (front == 0) continue;
    const auto cut = [&](std::int64_t first, std::int64_t last) {
      return call.add(op::Slice{{first}, {last}, {axes[i]}, {1}}, {x});
    };
    x = call.add(op::Concat{axes[i]}, {cut(front, extent), cut(0, front)});
  }
  call.result(0, x);
}

void index_selected(CallWriter& call) {
  call.result(0, call.add(op::Gather{call.integer("dim", 0), call.shape_of(1), call.integers_of(1)}, {call.moved(0)}));
}

/// gather(self, dim, index): one element for every index.
void gathered(CallWriter& call) {
  call.ignore({"sparse_grad"});
  const Shape shape = call.shape_of(0), places = call.shape_of(1);
  if (shape.size() != places.size() || shape.empty()) throw ShapeMismatch("its index has other axes than its operand");
  const std::size_t axis = normalized_axis(call.integer("dim", 0), shape.size());
  const std::vector<std::int64_t> indices = call.integers_of(1);
  std::vector<std::int64_t> flat(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    std::int64_t rest = static_cast<std::int64_t>(i), stride = 1, place = 0;
    for (std::size_t a = shape.size(); a-- > 0;) {
      const std::int64_t at = a == axis ? indices[i] : rest % places[a];
      if (at < 0 || at >= shape[a]) throw ShapeMismatch("it reads an element that is not there");
      place += at * stride;
      stride *= shape[a];
      rest /= places[a];
    }
    flat[i] = place;
  }
  const ValueId all = call.reshape(call.moved(0), {element_count(shape)});
  call.result(0, call.add(op::Gather{0, places, flat}, {all}));
}

/// where(condition, self, other)
void chosen_by(CallWriter& call) {
  const ValueId other = call.is_given(2) ? call.x(2) : call.number(call.real("other", 0.0));
  const ValueId self = call.is_given(1) ? call.x(1) : call.number(call.real("self", 0.0));
  call.result(0, call.add(op::Choice{}, {call.x(0), self, other}));
}

void masked_fill(CallWriter& call) {
  const ValueId filling = call.is_given(2) ? call.x(2) : call.number(call.real("value", 0.0));
  call.result(0, call.add(op::Choice{}, {call.x(1), filling, call.x(0)}));
}

/// Zero above (tril) or below (triu) a diagonal of the last two axes.
void keep_triangle(CallWriter& call, bool lower) {
  const Shape& shape = call.shape_of(0);
  if (shape.size() < 2) throw ShapeMismatch("it needs matrices");
  CallWriter::require_small({shape[shape.size() - 2], shape.back()});
  const std::int64_t diagonal = call.integer("diagonal", 0);
  op::Where keep{{shape[shape.size() - 2], shape.back()}, {}};
  for (std::int64_t i = 0; i < keep.condition_shape[0]; ++i)
    for (std::int64_t j = 0; j < keep.condition_shape[1]; ++j)
      keep.condition.push_back(lower ? j - i <= diagonal : j - i >= diagonal);
  call.result(0, call.add(keep, {call.x(0), call.number(0.0)}));
}
void lower_triangle(CallWriter& call) {
  keep_triangle(call, true);
}
void upper_triangle(CallWriter& call) {
  keep_triangle(call, false);
}

void padded(CallWriter& call) {
  if (call.text("mode", "constant") != "constant") refuse("it pads by other elements");
  const std::vector<std::int64_t> pads = call.integers("pad");
  const std::size_t rank = call.shape_of(0).size();
  if (pads.size() % 2 != 0 || pads.size() / 2 > rank) throw ShapeMismatch("its pads do not fit its operand");
  op::Pad pad{op::Pad::Mode::constant, std::vector<std::int64_t>(rank), std::vector<std::int64_t>(rank),
              call.real("value", 0.0)};
  for (std::size_t i = 0; i < pads.size() / 2; ++i) {
    pad.before[rank - 1 - i] = pads[2 * i];
    pad.after[rank - 1 - i] = pads[2 * i + 1];
  }
  call.result(0, call.add(pad, {call.x(0)}));
}

constexpr std::array move_rules = {
    CallRule{"aten::_conj", copy, "x"},
    CallRule{"aten::_reshape_alias", view, "Reshape"},
    CallRule{"aten::_reshape_copy", view, "Reshape"},
    CallRule{"aten::_to_copy", cast, "Cast"},
    CallRule{"aten::_unsafe_view", view, "Reshape"},
    CallRule{"aten::alias", copy, "x"},
    CallRule{"aten::arange", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::bernoulli", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::cat", concatenated, "Concat"},
    CallRule{"aten::chunk", chunk, "Slice"},
    CallRule{"aten::clone", copy, "x"},
    CallRule{"aten::constant_pad_nd", padded, "Pad"},
    CallRule{"aten::contiguous", copy, "x"},
    CallRule{"aten::copy", copied_to, "the second operand, in the type of the first"},
    CallRule{"aten::detach", copy, "x"},
    CallRule{"aten::dropout", dropout, "x, at inference"},
    CallRule{"aten::embedding", embedding, "Gather of rows"},
    CallRule{"aten::empty", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::empty_like", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::empty_strided", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::expand", expanded, "Expand"},
    CallRule{"aten::eye", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::flatten", flatten, "Reshape"},
    CallRule{"aten::flip", flipped, "Slice"},
    CallRule{"aten::full", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::full_like", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::gather", gathered, "GatherElements"},
    CallRule{"aten::index", indexed, "Gather by one tensor of integers"},
    CallRule{"aten::index_copy", index_copied, "slices that replace others: Gather of both"},
    CallRule{"aten::index_put", index_put, "slices that replace others: Gather of both, by one vector of integers"},
    CallRule{"aten::index_select", index_selected, "Gather"},
    CallRule{"aten::lift_fresh", copy, "x"},
    CallRule{"aten::linspace", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::masked_fill", masked_fill, "Where"},
    CallRule{"aten::narrow", narrowed, "Slice"},
    CallRule{"aten::new_empty", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::new_full", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::new_ones", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::new_zeros", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::normal", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::ones", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::ones_like", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::pad", padded, "Pad"},
    CallRule{"aten::permute", permuted, "Transpose"},
    CallRule{"aten::rand", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::rand_like", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::randint", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::randn", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::randn_like", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::randperm", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::repeat", repeated, "Tile"},
    CallRule{"aten::reshape", view, "Reshape"},
    CallRule{"aten::roll", rolled, "Slice, Concat"},
    CallRule{"aten::scalar_tensor", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::select", selected, "Gather of one"},
    CallRule{"aten::slice", sliced, "Slice"},
    CallRule{"aten::split", split, "Slice"},
    CallRule{"aten::split_with_sizes", split, "Slice"},
    CallRule{"aten::squeeze", squeezed, "Reshape"},
    CallRule{"aten::stack", stacked, "Concat"},
    CallRule{"aten::t", matrix_transposed, "Transpose"},
    CallRule{"aten::to", cast, "Cast"},
    CallRule{"aten::transpose", transposed, "Transpose"},
    CallRule{"aten::tril", lower_triangle, "Where"},
    CallRule{"aten::tril_indices", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::triu", upper_triangle, "Where"},
    CallRule{"aten::triu_indices", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::unbind", unbound, "Gather of one"},
    CallRule{"aten::unsafe_chunk", chunk, "Slice"},
    CallRule{"aten::unsafe_split", split, "Slice"},
    CallRule{"aten::unsafe_split_with_sizes", split, "Slice"},
    CallRule{"aten::unsqueeze", unsqueezed, "Reshape"},
    CallRule{"aten::view", view, "Reshape"},
    CallRule{"aten::where", chosen_by, "Where"},
    CallRule{"aten::zeros", created, "numbers of its arguments alone, not judged"},
    CallRule{"aten::zeros_like", created, "numbers of its arguments alone, not judged"},
};

}  // namespace

std::span<const CallRule> move_calls() {
  return move_rules;
}

}  // namespace driftbound::calls
