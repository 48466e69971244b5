#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "driftbound/model/ops.hpp"
#include "driftbound/model/tensor.hpp"

/// Ops by their defining formulas, one index vector at a time: shares no code with src/model/layout.cpp.
namespace naive {

using driftbound::Shape;
using driftbound::Tensor;
namespace op = driftbound::op;

using Index = std::vector<std::int64_t>;

inline std::int64_t count(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

inline Index unravel(std::int64_t flat, const Shape& shape) {
  Index index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = flat % shape[axis];
    flat /= shape[axis];
  }
  return index;
}

inline std::size_t ravel(const Index& index, const Shape& shape) {
  std::int64_t flat = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) flat = flat * shape[axis] + index[axis];
  return static_cast<std::size_t>(flat);
}

/// Where a broadcast operand is read for an index of the result: axes are matched from the last one.
inline Index broadcast_index(const Index& result, const Shape& operand) {
  Index index(operand.size());
  for (std::size_t axis = 0; axis < operand.size(); ++axis) {
    const std::int64_t here = result[result.size() - operand.size() + axis];
    index[axis] = operand[axis] == 1 ? 0 : here;
  }
  return index;
}

inline double at(const Tensor<double>& tensor, const Index& index) {
  return tensor.values[ravel(index, tensor.shape)];
}

inline double gemm(const op::Gemm& gemm, const std::vector<Tensor<double>>& in, const Index& out) {
  const std::int64_t i = out[out.size() - 2], j = out.back();
  const Index batch(out.begin(), out.end() - 2);
  const auto element = [&](const Tensor<double>& matrices, std::int64_t row, std::int64_t column) {
    Index index = broadcast_index(batch, Shape(matrices.shape.begin(), matrices.shape.end() - 2));
    index.insert(index.end(), {row, column});
    return at(matrices, index);
  };
  const std::int64_t inner = in[0].shape[in[0].shape.size() - (gemm.transpose_a ? 2 : 1)];
  double sum = 0.0;
  for (std::int64_t k = 0; k < inner; ++k) {
    sum += (gemm.transpose_a ? element(in[0], k, i) : element(in[0], i, k)) *
           (gemm.transpose_b ? element(in[1], j, k) : element(in[1], k, j));
  }
  const double product = gemm.alpha * sum;
  return in.size() == 3 ? product + gemm.beta * at(in[2], broadcast_index(out, in[2].shape)) : product;
}

inline double matmul(const std::vector<Tensor<double>>& in, const Index& out) {
  const bool row_vector = in[0].shape.size() == 1;
  const bool column_vector = in[1].shape.size() == 1;
  Index batch = out;
  std::int64_t j = 0;
  std::int64_t i = 0;
  if (!column_vector) {
    j = batch.back();
    batch.pop_back();
  }
  if (!row_vector) {
    i = batch.back();
    batch.pop_back();
  }
  double sum = 0.0;
  for (std::int64_t k = 0; k < in[0].shape.back(); ++k) {
    Index a = {k};
    Index b = {k};
    if (!row_vector) {
      a = broadcast_index(batch, Shape(in[0].shape.begin(), in[0].shape.end() - 2));
      a.insert(a.end(), {i, k});
    }
    if (!column_vector) {
      b = broadcast_index(batch, Shape(in[1].shape.begin(), in[1].shape.end() - 2));
      b.insert(b.end(), {k, j});
    }
    sum += at(in[0], a) * at(in[1], b);
  }
  return sum;
}

inline double softmax(const op::Softmax& softmax, const Tensor<double>& in, const Index& out) {
  const auto rank = static_cast<std::int64_t>(in.shape.size());
  const auto axis = static_cast<std::size_t>(softmax.axis < 0 ? softmax.axis + rank : softmax.axis);
  const auto same_group = [&](const Index& other) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const bool reduced = softmax.all_trailing_axes ? i >= axis : i == axis;
      if (!reduced && other[i] != out[i]) return false;
    }
    return true;
  };
  double sum = 0.0;
  for (std::int64_t flat = 0; flat < count(in.shape); ++flat) {
    const Index other = unravel(flat, in.shape);
    if (same_group(other)) sum += std::exp(at(in, other));
  }
  return std::exp(at(in, out)) / sum;
}

/// Whether a reduction over `axes` (none: all) sums over the axis.
inline bool is_reduced(const std::vector<std::int64_t>& axes, std::size_t axis, std::size_t rank) {
  const auto is_it = [&](std::int64_t named) {
    return static_cast<std::size_t>(named < 0 ? named + static_cast<std::int64_t>(rank) : named) == axis;
  };
  return axes.empty() || std::any_of(axes.begin(), axes.end(), is_it);
}

inline double reduce_sum(const op::ReduceSum& reduction, const Tensor<double>& in, const Index& out) {
  double sum = 0.0;
  for (std::int64_t flat = 0; flat < count(in.shape); ++flat) {
    const Index index = unravel(flat, in.shape);
    Index result;
    for (std::size_t axis = 0; axis < index.size(); ++axis) {
      const bool reduced = is_reduced(reduction.axes, axis, index.size());
      if (!reduced || reduction.keep_axes) result.push_back(reduced ? 0 : index[axis]);
    }
    if (result == out) sum += at(in, index);
  }
  return sum;
}

inline double concat(const op::Concat& concat, const std::vector<Tensor<double>>& in, Index out) {
  const auto rank = static_cast<std::int64_t>(out.size());
  const auto axis = static_cast<std::size_t>(concat.axis < 0 ? concat.axis + rank : concat.axis);
  for (const Tensor<double>& operand : in) {
    if (out[axis] < operand.shape[axis]) return at(operand, out);
    out[axis] -= operand.shape[axis];
  }
  throw std::logic_error("concatenated operands are too short");
}

inline double transpose(const op::Transpose& transpose, const Tensor<double>& in, const Index& out) {
  Index source(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t axis =
        transpose.permutation.empty() ? out.size() - 1 - i : static_cast<std::size_t>(transpose.permutation[i]);
    source[axis] = out[i];
  }
  return at(in, source);
}

/// numpy's rule: bounds count from the end where negative, then are clamped; the k-th element kept along an axis.
inline double slice(const op::Slice& slice, const Tensor<double>& in, Index out) {
  const auto rank = static_cast<std::int64_t>(in.shape.size());
  for (std::size_t i = 0; i < slice.starts.size(); ++i) {
    const std::int64_t named = slice.axes.empty() ? static_cast<std::int64_t>(i) : slice.axes[i];
    const auto axis = static_cast<std::size_t>(named < 0 ? named + rank : named);
    const std::int64_t extent = in.shape[axis], step = slice.steps.empty() ? 1 : slice.steps[i];
    std::int64_t start = slice.starts[i] < 0 ? slice.starts[i] + extent : slice.starts[i];
    start = step > 0 ? std::clamp<std::int64_t>(start, 0, extent) : std::clamp<std::int64_t>(start, -1, extent - 1);
    out[axis] = start + out[axis] * step;
  }
  return at(in, out);
}

inline double gather(const op::Gather& gather, const Tensor<double>& in, const Index& out) {
  const auto rank = static_cast<std::int64_t>(in.shape.size());
  const std::int64_t axis = gather.axis < 0 ? gather.axis + rank : gather.axis;
  const auto behind = axis + static_cast<std::int64_t>(gather.indices_shape.size());
  const Index position(out.begin() + axis, out.begin() + behind);
  const std::int64_t picked = gather.indices[ravel(position, gather.indices_shape)];
  Index source(out.begin(), out.begin() + axis);
  source.push_back(picked < 0 ? picked + in.shape[static_cast<std::size_t>(axis)] : picked);
  source.insert(source.end(), out.begin() + behind, out.end());
  return at(in, source);
}

inline double tile(const Tensor<double>& in, Index out) {
  for (std::size_t axis = 0; axis < out.size(); ++axis) out[axis] %= in.shape[axis];
  return at(in, out);
}

/// Walks back into the tensor: reflected at its last elements, or around, as often as it takes.
inline double pad(const op::Pad& pad, const Tensor<double>& in, Index out) {
  for (std::size_t axis = 0; axis < out.size(); ++axis) {
    const std::int64_t extent = in.shape[axis];
    std::int64_t i = out[axis] - pad.before[axis];
    while (i < 0 || i >= extent) {
      if (pad.mode == op::Pad::Mode::constant) return pad.value;
      if (pad.mode == op::Pad::Mode::edge) i = i < 0 ? 0 : extent - 1;
      if (pad.mode == op::Pad::Mode::wrap) i += i < 0 ? extent : -extent;
      if (pad.mode == op::Pad::Mode::reflect) i = extent == 1 ? 0 : i < 0 ? -i : 2 * (extent - 1) - i;
    }
    out[axis] = i;
  }
  return at(in, out);
}

inline double where(const op::Where& where, const std::vector<Tensor<double>>& in, const Index& out) {
  const Index position = broadcast_index(out, where.condition_shape);
  const Tensor<double>& chosen = in[where.condition[ravel(position, where.condition_shape)] ? 0 : 1];
  return at(chosen, broadcast_index(out, chosen.shape));
}

/// One element under one window of an image [N, C, H, W]; all lists of the geometry given, no rounding up.
inline double windows(const op::Windows& windows, const Tensor<double>& in, const Index& out) {
  const op::WindowGeometry& g = windows.geometry;
  const auto columns =
      (in.shape[3] + g.pads_before[1] + g.pads_after[1] - g.dilations[1] * (g.kernel[1] - 1) - 1) / g.strides[1] + 1;
  const std::int64_t row = out[3] / columns * g.strides[0] + out[2] / g.kernel[1] * g.dilations[0] - g.pads_before[0];
  const std::int64_t column =
      out[3] % columns * g.strides[1] + out[2] % g.kernel[1] * g.dilations[1] - g.pads_before[1];
  const bool is_inside = row >= 0 && row < in.shape[2] && column >= 0 && column < in.shape[3];
  return is_inside ? at(in, {out[0], out[1], row, column}) : 0.0;
}

inline double element(const driftbound::Op& op, const std::vector<Tensor<double>>& in, const Index& out,
                      std::size_t flat) {
  const auto operand = [&](std::size_t slot) { return at(in[slot], broadcast_index(out, in[slot].shape)); };
  if (const auto* o = std::get_if<op::Gemm>(&op)) return gemm(*o, in, out);
  if (std::holds_alternative<op::MatMul>(op)) return matmul(in, out);
  if (const auto* o = std::get_if<op::Softmax>(&op)) return softmax(*o, in[0], out);
  if (const auto* o = std::get_if<op::ReduceSum>(&op)) return reduce_sum(*o, in[0], out);
  if (const auto* o = std::get_if<op::Concat>(&op)) return concat(*o, in, out);
  if (const auto* o = std::get_if<op::Transpose>(&op)) return transpose(*o, in[0], out);
  if (const auto* o = std::get_if<op::Slice>(&op)) return slice(*o, in[0], out);
  if (const auto* o = std::get_if<op::Gather>(&op)) return gather(*o, in[0], out);
  if (const auto* o = std::get_if<op::Pad>(&op)) return pad(*o, in[0], out);
  if (const auto* o = std::get_if<op::Where>(&op)) return where(*o, in, out);
  if (const auto* o = std::get_if<op::Windows>(&op)) return windows(*o, in[0], out);
  if (std::holds_alternative<op::Tile>(op)) return tile(in[0], out);
  if (std::holds_alternative<op::Expand>(op)) return operand(0);
  if (std::holds_alternative<op::Add>(op)) return operand(0) + operand(1);
  if (std::holds_alternative<op::Mul>(op)) return operand(0) * operand(1);
  if (std::holds_alternative<op::Relu>(op)) return std::max(operand(0), 0.0);
  return in[0].values[flat];  // Reshape, Flatten, Squeeze, Unsqueeze, Identity keep the row-major order
}

inline Tensor<double> evaluate(const driftbound::Op& op, const std::vector<Tensor<double>>& in, const Shape& output) {
  Tensor<double> result;
  result.shape = output;
  for (std::int64_t flat = 0; flat < count(output); ++flat) {
    result.values.push_back(element(op, in, unravel(flat, output), static_cast<std::size_t>(flat)));
  }
  return result;
}

/// A number in [lo, hi]; std::uniform_int_distribution differs from library to library.
inline std::int64_t pick(std::mt19937_64& random, std::int64_t lo, std::int64_t hi) {
  return lo + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(hi - lo + 1));
}

/// Puts the entries from `first` on into a random order.
inline void shuffle(std::mt19937_64& random, std::vector<std::int64_t>& entries, std::int64_t first = 0) {
  for (auto i = static_cast<std::int64_t>(entries.size()) - 1; i > first; --i) {
    std::swap(entries[static_cast<std::size_t>(i)], entries[static_cast<std::size_t>(pick(random, first, i))]);
  }
}

/// Small integers, so that sums of products are exact.
inline Tensor<double> integers(std::mt19937_64& random, const Shape& shape) {
  Tensor<double> tensor;
  tensor.shape = shape;
  for (std::int64_t i = 0; i < count(shape); ++i) tensor.values.push_back(static_cast<double>(pick(random, -9, 9)));
  return tensor;
}

}  // namespace naive
