#include "model/onnx_given.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "driftbound/num/errors.hpp"
#include "model/convert.hpp"
#include "model/onnx_attributes.hpp"
#include "model/onnx_integers.hpp"
#include "model/onnx_tensor.hpp"
#include "model/text.hpp"

namespace driftbound::onnx {
namespace {

bool is_open(const Dimension& dimension) {
  return !dimension.value || *dimension.value <= 0;
}

/// Whether an open extent of this name is also that of an axis other than the first.
bool names_another_axis(std::string_view symbol, std::span<const ValueInfoProto> inputs) {
  if (symbol.empty()) return false;
  for (const ValueInfoProto& input : inputs)
    for (std::size_t axis = 1; axis < input.shape.size(); ++axis)
      if (is_open(input.shape[axis]) && input.shape[axis].symbol == symbol) return true;
  return false;
}

/// Whether the extents that the file fixes are those of data whose further axes in front are left out.
bool has_fixed_extents(const ValueInfoProto& input, std::span<const std::int64_t> extents) {
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    if (!is_open(input.shape[axis]) && *input.shape[axis].value != extents[axis]) return false;
  return true;
}

std::string declared_shape(const ValueInfoProto& input, bool of_samples) {
  std::string text = of_samples ? "[N" : "[";
  for (const Dimension& dimension : input.shape) {
    if (text.size() > 1) text += ", ";
    if (!is_open(dimension))
      text += std::to_string(*dimension.value);
    else
      text += dimension.symbol.empty() ? "?" : printable(dimension.symbol);
  }
  return text + "]";
}

/// Throws:    ShapeMismatch where data are neither one sample, nor rows of an axis 0 of one, nor samples stacked
void require_declared(const ValueInfoProto& input, const Shape& shape) {
  if (!input.has_shape) return;
  const std::size_t rank = input.shape.size();
  const std::span<const std::int64_t> extents = shape;
  if (shape.size() == rank + 1 && has_fixed_extents(input, extents.subspan(1))) return;
  if (shape.size() == rank) {
    Shape one = shape;
    if (rank > 0 && input.shape[0].value == 1) one[0] = 1;
    if (has_fixed_extents(input, one)) return;
  }
  throw ShapeMismatch("input " + in_quotes(input.name) + " has shape " + to_string(shape) + ", the model takes " +
                      declared_shape(input, false) + " or " + declared_shape(input, true) + " (N samples)");
}

/// Throws:    ShapeMismatch where extents of one name differ and one of the inputs holds integers
void require_equal_names(const GivenShapes& given, std::span<const ValueInfoProto> inputs) {
  struct Seen {
    const ValueInfoProto* input = nullptr;
    std::int64_t extent = 0;
  };
  std::map<std::string_view, std::vector<Seen>> seen;
  const auto holds_integers = [](const ValueInfoProto& input) {
    const auto type = element_type(input.element_type);
    return type && !is_float(*type);
  };
  for (const ValueInfoProto& input : inputs) {
    const Shape* shape = given.shape_of(input.name);
    const std::size_t rank = input.shape.size();
    if (shape == nullptr || !input.has_shape || shape->size() < rank || shape->size() > rank + 1) continue;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      if (!is_open(input.shape[axis]) || input.shape[axis].symbol.empty()) continue;
      const std::int64_t extent = (*shape)[axis + shape->size() - rank];
      std::vector<Seen>& others = seen[input.shape[axis].symbol];
      for (const Seen& other : others)
        if (other.extent != extent && (holds_integers(input) || holds_integers(*other.input)))
          throw ShapeMismatch("axis " + in_quotes(input.shape[axis].symbol) + " has " + std::to_string(other.extent) +
                              " elements in input " + in_quotes(other.input->name) + " and " + std::to_string(extent) +
                              " in input " + in_quotes(input.name));
      others.push_back({&input, extent});
    }
  }
}

/// Tensors of one shape one after the other along an axis.
StoredTensor joined_along(const std::vector<StoredTensor>& parts, std::size_t axis) {
  Shape shape = parts.front().shape();
  std::size_t outer = 1;
  for (std::size_t i = 0; i < axis; ++i) outer *= static_cast<std::size_t>(shape[i]);
  const std::size_t bytes = parts.front().bytes().size(), inner = outer == 0 ? 0 : bytes / outer;
  std::vector<std::byte> all;
  all.reserve(bytes * parts.size());
  for (std::size_t o = 0; o < outer; ++o)
    for (const StoredTensor& part : parts) {
      const auto first = part.bytes().begin() + static_cast<std::ptrdiff_t>(o * inner);
      all.insert(all.end(), first, first + static_cast<std::ptrdiff_t>(inner));
    }
  shape[axis] *= static_cast<std::int64_t>(parts.size());
  return StoredTensor(parts.front().type(), std::move(shape), std::move(all));
}

StoredTensor stacked(const std::vector<StoredTensor>& parts) {
  std::vector<StoredTensor> rows;
  for (const StoredTensor& part : parts) {
    Shape shape = part.shape();
    shape.insert(shape.begin(), 1);
    rows.push_back(reshaped(part, std::move(shape)));
  }
  return joined_along(rows, 0);
}

/// The axis that counts samples: the one along which all together are longer than one alone.
std::optional<std::size_t> axis_of_samples(const Shape& one, const Shape& all, std::int64_t samples) {
  std::optional<std::size_t> axis;
  for (std::size_t i = 0; i < one.size(); ++i) {
    if (one[i] == all[i]) continue;
    if (axis || all[i] != one[i] * samples) return std::nullopt;
    axis = i;
  }
  return axis;
}

constexpr const char* depends_on_others =
    "its integers depend on other samples, or on how many there are, so that rows are no samples";

}  // namespace

GivenShapes::GivenShapes(const GivenInputs& given, std::span<const ValueInfoProto> inputs) : given_(given) {
  const auto require = [&](const std::string& name) {
    const bool exists =
        std::any_of(inputs.begin(), inputs.end(), [&](const ValueInfoProto& i) { return i.name == name; });
    if (!exists) throw InvalidArgument("the model has no input " + in_quotes(name));
  };
  for (const auto& [name, tensor] : given.data.tensors) require(name);
  for (const auto& [name, shape] : given.shapes) require(name);
  require_equal_names(*this, inputs);
  if (!given.rows_are_samples) return;
  for (const ValueInfoProto& input : inputs) {
    const Shape* shape = shape_of(input.name);
    const bool has_rows = shape != nullptr && input.has_shape && !input.shape.empty() &&
                          shape->size() == input.shape.size() && is_open(input.shape[0]) &&
                          !names_another_axis(input.shape[0].symbol, inputs);
    if (!has_rows) continue;
    if (rows_ && *rows_ != shape->front()) {  // no common number of samples
      of_samples_.clear();
      rows_.reset();
      return;
    }
    rows_ = shape->front();
    of_samples_.push_back(input.name);
  }
}

const StoredTensor* GivenShapes::data_of(std::string_view name) const {
  for (const auto& [known, tensor] : given_.data.tensors)
    if (known == name) return &tensor;
  return nullptr;
}

const Shape* GivenShapes::shape_of(std::string_view name) const {
  if (const StoredTensor* data = data_of(name)) return &data->shape();
  for (const auto& [known, shape] : given_.shapes)
    if (known == name) return &shape;
  return nullptr;
}

bool GivenShapes::counts_samples(const ValueInfoProto& input) const {
  return std::find(of_samples_.begin(), of_samples_.end(), input.name) != of_samples_.end();
}

std::optional<std::int64_t> GivenShapes::extent_of(const ValueInfoProto& input, std::size_t axis) const {
  const Shape* shape = shape_of(input.name);
  if (shape == nullptr || (axis == 0 && counts_samples(input))) return std::nullopt;
  const std::size_t rank = input.shape.size();
  if (shape->size() == rank) return (*shape)[axis];
  if (shape->size() == rank + 1) return (*shape)[axis + 1];  // samples are stacked in front
  return std::nullopt;
}

GivenValue GivenShapes::value_of(const ValueInfoProto& input) const {
  const StoredTensor& data = *data_of(input.name);
  const std::string where = "input " + in_quotes(input.name);
  const StoredTensor typed = converted(data, *element_type(input.element_type), where);
  const Shape& shape = typed.shape();
  require_declared(input, shape);
  const bool is_stacked = input.has_shape && shape.size() == input.shape.size() + 1;
  const bool has_rows_of_one = input.has_shape && !shape.empty() && shape.size() == input.shape.size() &&
                               input.shape[0].value == 1 && shape.front() > 1;
  GivenValue value;
  if (!counts_samples(input) && !is_stacked && !has_rows_of_one) {
    value.each = {typed};
    return value;
  }
  if (shape.front() == 0) throw ShapeMismatch(where + " " + to_string(shape) + " holds no samples");
  for (std::int64_t row = 0; row < shape.front(); ++row) {
    StoredTensor one = rows_of(typed, row, 1);
    if (is_stacked) one = reshaped(one, Shape(shape.begin() + 1, shape.end()));
    value.each.push_back(std::move(one));
  }
  if (counts_samples(input)) value.all = shape.front() > 1 ? typed : joined_along({value.each[0], value.each[0]}, 0);
  return value;
}

std::optional<std::vector<StoredTensor>> constant_outputs(const NodeView& node) {
  if (std::optional<IntegerTensor> integers = fold_integers(node)) {
    std::optional<StoredTensor> constant = to_constant(*integers);
    if (!constant) return std::nullopt;
    return std::vector<StoredTensor>{std::move(*constant)};
  }
  Mapping mapping = map_node(node);
  if (const auto* constant = std::get_if<MappedConstant>(&mapping)) return std::vector<StoredTensor>{constant->value};
  if (const auto* not_mapped = std::get_if<NotMapped>(&mapping)) throw Unsupported(not_mapped->reason);
  MappedOps ops;
  if (auto* one = std::get_if<MappedOp>(&mapping)) {
    std::vector<MappedOps::Input> inputs;
    for (const std::size_t slot : one->slots) inputs.push_back(MappedOps::slot(slot));
    ops.outputs = {ops.add(std::move(one->op), std::move(inputs))};
  } else {
    ops = std::move(std::get<MappedOps>(mapping));
  }
  std::vector<StoredTensor> results;
  const auto value_of = [&](const MappedOps::Input& input) -> const StoredTensor* {
    if (input.source == MappedOps::Source::slot) return node.operands[input.index].constant;
    if (input.source == MappedOps::Source::step) return &results[input.index];
    return input.source == MappedOps::Source::constant ? &ops.constants[input.index] : nullptr;
  };
  results.reserve(ops.steps.size());
  for (const MappedOps::Step& step : ops.steps) {
    std::vector<const StoredTensor*> operands;
    for (const MappedOps::Input& input : step.inputs) {
      const StoredTensor* value = value_of(input);
      if (value == nullptr || value->type() != (operands.empty() ? value : operands.front())->type())
        return std::nullopt;
      operands.push_back(value);
    }
    std::optional<StoredTensor> folded = operands.empty() ? std::nullopt : fold(step.op, operands, node.allowance);
    if (!folded) return std::nullopt;
    results.push_back(std::move(*folded));
  }
  std::vector<StoredTensor> outputs;
  for (const MappedOps::Input& output : ops.outputs) {
    const StoredTensor* value = value_of(output);
    if (value == nullptr) return std::nullopt;
    outputs.push_back(*value);
  }
  return outputs;
}

std::optional<IntegerTensor> with_rows(const IntegerTensor& integers, std::size_t symbol, std::int64_t rows) {
  IntegerTensor result = integers;
  for (Extent& element : result.elements) {
    if (element.is_number()) continue;
    if (!element.is_open() || element.symbol() != symbol) return std::nullopt;
    element = times(Extent::number(element.factor()), Extent::number(rows));
  }
  return result;
}

JoinedValue join(std::vector<StoredTensor> each, std::optional<StoredTensor> all, std::size_t symbol) {
  const auto differs = [&](const StoredTensor& one) {
    return one.type() != each.front().type() || one.shape() != each.front().shape();
  };
  if (std::any_of(each.begin(), each.end(), differs))
    throw Unsupported(
        "its shape depends on the values of integers and differs between samples; give one sample at a time");
  JoinedValue joined{{std::move(each), std::move(all)}, {}, false};
  const GivenValue& value = joined.value;
  const StoredTensor& first = value.each.front();
  joined.shape = to_open(first.shape());
  const bool are_equal =
      std::all_of(value.each.begin(), value.each.end(), [&](const StoredTensor& one) { return one.identical(first); });
  if (!value.all) {
    joined.is_same = are_equal;
    return joined;
  }
  const std::vector<StoredTensor> twice = value.each.size() > 1 ? std::vector<StoredTensor>() : std::vector(2, first);
  const std::vector<StoredTensor>& samples = twice.empty() ? value.each : twice;
  if (value.all->type() != first.type() || value.all->shape().size() != first.shape().size())
    throw Unsupported(depends_on_others);
  if (value.all->shape() == first.shape()) {
    joined.is_same = are_equal && value.all->identical(first);
    if (!joined.is_same) throw Unsupported(depends_on_others);
    return joined;
  }
  const auto axis = axis_of_samples(first.shape(), value.all->shape(), static_cast<std::int64_t>(samples.size()));
  if (!axis || !joined_along(samples, *axis).identical(*value.all)) throw Unsupported(depends_on_others);
  joined.shape[*axis] = Extent::open(symbol, first.shape()[*axis]);
  return joined;
}

StoredTensor data_of(const GivenValue& value, const OpenShape& shape) {
  if (!value.all) return value.each.size() == 1 ? value.each.front() : stacked(value.each);
  if (shape.empty() || !shape.front().is_open() || shape.front().factor() != 1)
    throw Unsupported("what its integers select is not one row of axis 0 a sample; give one sample at a time");
  return value.each.size() == 1 ? value.each.front() : *value.all;
}

std::vector<std::pair<std::string, std::int64_t>> index_limits(const GraphProto& graph) {
  static const std::set<std::string_view> moving = {"Identity", "Cast",      "Reshape", "Squeeze", "Unsqueeze",
                                                    "Flatten",  "Transpose", "Slice",   "Gather",  "Expand"};
  std::map<std::string_view, const NodeProto*> producers;
  for (const NodeProto& node : graph.nodes)
    for (const std::string_view output : node.outputs) producers.emplace(output, &node);
  std::map<std::string_view, TensorProto> tables;
  for (const Bytes bytes : graph.initializers) {
    const TensorProto tensor = parse_tensor(bytes);
    tables.emplace(tensor.name, tensor);
  }
  std::vector<std::pair<std::string, std::int64_t>> limits;
  for (const NodeProto& node : graph.nodes) {
    if (node.op_type != "Gather" || node.inputs.size() != 2) continue;
    const auto table = tables.find(node.inputs[0]);
    if (table == tables.end() || table->second.dims.empty()) continue;
    const auto rank = static_cast<std::int64_t>(table->second.dims.size());
    std::int64_t axis = integer_or(node, "axis", 0);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) continue;
    std::string_view name = node.inputs[1];
    for (auto at = producers.find(name);
         at != producers.end() && moving.count(at->second->op_type) != 0 && !at->second->inputs.empty();
         at = producers.find(name))
      name = at->second->inputs[0];
    const auto is_it = [&](const ValueInfoProto& input) { return input.name == name; };
    if (std::none_of(graph.inputs.begin(), graph.inputs.end(), is_it)) continue;
    const std::int64_t rows = table->second.dims[static_cast<std::size_t>(axis)];
    const auto known =
        std::find_if(limits.begin(), limits.end(), [&](const auto& limit) { return limit.first == name; });
    if (known == limits.end()) {
      limits.emplace_back(printable(name), rows);
    } else {
      known->second = std::min(known->second, rows);
    }
  }
  return limits;
}

}  // namespace driftbound::onnx
