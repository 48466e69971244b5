#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "driftbound/model/inputs.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound {
namespace {

Shape with_axis_0(std::int64_t extent, Shape shape, std::size_t dropped) {
  shape.erase(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(dropped));
  shape.insert(shape.begin(), extent);
  return shape;
}

bool has_one_row(const Shape& sample) {
  return !sample.empty() && sample[0] == 1;
}

std::string expected_shapes(const Shape& sample) {
  const auto many = [](const Shape& tail) {
    const std::string text = to_string(tail);
    return "[N" + std::string(tail.empty() ? "" : ", ") + text.substr(1);
  };
  const std::string short_form =
      has_one_row(sample) ? many(Shape(sample.begin() + 1, sample.end())) : to_string(sample);
  return short_form + " or " + many(sample);
}

/// Samples in data of one input: one sample as it is, its rows, or several stacked; empty for any other shape.
std::optional<std::int64_t> samples_in(const Shape& data, const Shape& sample) {
  if (data == sample) return 1;
  if (data.empty()) return std::nullopt;
  if (has_one_row(sample) && data == with_axis_0(data[0], sample, 1)) return data[0];
  if (data == with_axis_0(data[0], sample, 0)) return data[0];
  return std::nullopt;
}

std::int64_t checked_samples(const std::string& name, const Shape& data, const Shape& sample) {
  const std::optional<std::int64_t> samples = samples_in(data, sample);
  if (!samples) {
    throw ShapeMismatch(fmt::format("input '{}' has shape {}, the model takes {} (N samples)", name, to_string(data),
                                    expected_shapes(sample)));
  }
  if (*samples == 0) throw ShapeMismatch(fmt::format("input '{}' {} holds no samples", name, to_string(data)));
  return *samples;
}

std::int64_t common_count(const Graph& graph, const BatchLayout& layout, const Inputs& inputs) {
  std::optional<std::int64_t> samples;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const std::string& name = graph.value(graph.inputs[i]).name;
    const std::int64_t here = checked_samples(name, inputs.at(name).shape(), layout.sample_shapes.at(i));
    if (samples && *samples != here) {
      throw ShapeMismatch(fmt::format("input '{}' has {} samples, input '{}' has {}", graph.value(graph.inputs[0]).name,
                                      *samples, name, here));
    }
    samples = here;
  }
  return samples.value_or(1);
}

/// Whether some data are rows of one axis 0, as one run of the model would take them, not samples stacked in front of
/// the declared shape.
bool are_rows(const Graph& graph, const BatchLayout& layout, const Inputs& inputs) {
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const Shape& sample = layout.sample_shapes[i];
    if (has_one_row(sample) && inputs.at(graph.value(graph.inputs[i]).name).shape().size() == sample.size())
      return true;
  }
  return false;
}

/// Elements [first, first + count) of a tensor under another shape; shares the bytes.
StoredTensor part_of(const StoredTensor& tensor, std::size_t first, std::size_t count, Shape shape) {
  const auto keep = std::make_shared<const StoredTensor>(tensor);
  const std::size_t width = bytes_per_element(tensor.type());
  return StoredTensor(tensor.type(), std::move(shape), keep->bytes().subspan(first * width, count * width), keep);
}

}  // namespace

const StoredTensor& Inputs::at(const std::string& name) const {
  std::string names;
  for (const auto& [known, tensor] : tensors) {
    if (known == name) return tensor;
    names += (names.empty() ? "'" : ", '") + known + "'";
  }
  throw InvalidArgument(
      fmt::format("no input tensor is named '{}'; there are: {}", name, names.empty() ? "none" : names));
}

std::int64_t sample_count(const Graph& graph, const BatchLayout& layout, const Inputs& inputs) {
  const std::int64_t samples = common_count(graph, layout, inputs);
  if (!layout.batched && samples > 1 && are_rows(graph, layout, inputs)) require_samples_apart(graph, samples);
  return samples;
}

Inputs slice(const Graph& graph, const BatchLayout& layout, const Inputs& inputs, std::int64_t first,
             std::int64_t count) {
  const std::int64_t samples = common_count(graph, layout, inputs);
  if (first < 0 || count < 1 || first > samples || count > samples - first) {
    throw InvalidArgument(fmt::format("samples {} to {} of {}", first, first + count, samples));
  }
  if (!layout.batched && count != 1) {
    throw InvalidArgument(fmt::format("{} samples at a time from a model that takes one", count));
  }
  Inputs part;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const std::string& name = graph.value(graph.inputs[i]).name;
    const Shape& sample = layout.sample_shapes[i];
    const std::int64_t elements = element_count(sample);
    Shape shape = layout.batched ? with_axis_0(count, sample, 1) : sample;
    part.tensors.emplace_back(name, part_of(inputs.at(name), static_cast<std::size_t>(first * elements),
                                            static_cast<std::size_t>(count * elements), std::move(shape)));
  }
  return part;
}

}  // namespace driftbound
