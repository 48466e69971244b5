#include "implicit/line_graph.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "driftbound/num/errors.hpp"
#include "implicit/scalar_graph.hpp"

namespace driftbound::implicit {
namespace {

[[noreturn]] void fail(const std::string& message) {
  throw InvalidArgument("segment: " + message);
}

class LineGraph {
public:
  LineGraph(const Graph& graph, std::span<const double> a, std::span<const double> b)
      : original_(graph), layout_(batch_layout(graph)), result_(graph), a_(a), b_(b) {
    require_points();
    result_.nodes.clear();
    result_.inputs.clear();
    Value t;
    t.name = unused_name("t");
    t.kind = ValueKind::input;
    t.type = ElementType::f64;
    t.declared = {DeclaredDimension{layout_.batched ? -1 : 1, layout_.batched ? "samples" : ""},
                  DeclaredDimension{1, ""}};
    t.has_declared_shape = true;
    t_ = add(std::move(t));
    result_.inputs = {t_};
  }

  Graph operator()() && {
    std::size_t first = 0;
    for (std::size_t i = 0; i < original_.inputs.size(); ++i) first += place_input(i, first);
    result_.nodes.insert(result_.nodes.end(), original_.nodes.begin(), original_.nodes.end());
    validate(result_);
    return std::move(result_);
  }

private:
  void require_points() const {
    std::size_t size = 0;
    for (const Shape& shape : layout_.sample_shapes) size += static_cast<std::size_t>(element_count(shape));
    for (const std::span<const double> point : {a_, b_}) {
      if (point.size() != size)
        fail("a sample has " + std::to_string(size) + " elements, an end of the segment " +
             std::to_string(point.size()));
      if (!std::all_of(point.begin(), point.end(), [](double x) { return std::isfinite(x); }))
        fail("its ends need finite coordinates");
    }
    for (const ValueId id : original_.inputs) {
      if (!is_float(original_.value(id).type))
        throw Unsupported("segment: input '" + original_.value(id).name + "' holds no floats");
    }
  }

  /// x = a + t (b - a), shaped as the input; the number of its elements.
  std::size_t place_input(std::size_t input, std::size_t first) {
    const Shape& shape = layout_.sample_shapes[input];
    const std::int64_t size = element_count(shape);
    const auto part = [&](std::span<const double> point) {
      const std::span<const double> values = point.subspan(first, static_cast<std::size_t>(size));
      return constant({1, size}, {values.begin(), values.end()});
    };
    const ValueId from = part(a_), to = part(b_);
    const ValueId moved = node(op::Mul{}, {t_, node(op::Sub{}, {to, from})});
    const ValueId x = node(op::Add{}, {from, moved});
    op::Reshape reshape{shape, false};
    if (layout_.batched) reshape.target.front() = -1;
    const ValueId id = original_.inputs[input];
    result_.values[id].kind = ValueKind::computed;
    add_node(reshape, {x}, id);
    return static_cast<std::size_t>(size);
  }

  ValueId add(Value value) {
    result_.values.push_back(std::move(value));
    return result_.values.size() - 1;
  }

  ValueId constant(Shape shape, std::vector<double> values) {
    Value value;
    value.name = unused_name("constant" + std::to_string(result_.values.size()));
    value.kind = ValueKind::constant;
    value.type = ElementType::f64;
    value.constant = StoredTensor::from(Tensor<double>(std::move(shape), std::move(values)));
    return add(std::move(value));
  }

  ValueId node(Op op, std::vector<ValueId> inputs) {
    Value value;
    value.type = ElementType::f64;
    const ValueId id = add(std::move(value));
    add_node(std::move(op), std::move(inputs), id);
    result_.values[id].name = result_.nodes.back().name;
    return id;
  }

  void add_node(Op op, std::vector<ValueId> inputs, ValueId output) {
    const std::string name = unused_name("node" + std::to_string(result_.nodes.size() + original_.nodes.size()));
    result_.nodes.push_back({name, std::move(op), std::move(inputs), output});
  }

  std::string unused_name(const std::string& wish) const {
    std::string name = "segment/" + wish;
    const auto is_taken = [&](const auto& other) { return other.name == name; };
    while (std::any_of(original_.values.begin(), original_.values.end(), is_taken) ||
           std::any_of(original_.nodes.begin(), original_.nodes.end(), is_taken))
      name += "'";
    return name;
  }

  const Graph& original_;
  const BatchLayout layout_;
  Graph result_;
  std::span<const double> a_, b_;
  ValueId t_ = 0;
};

}  // namespace

Graph line_graph(const Graph& graph, const Target& target, double iso, std::span<const double> a,
                 std::span<const double> b) {
  if (!std::isfinite(iso)) fail("the iso value must be finite");
  const Graph line = LineGraph(graph, a, b)();
  return scalar_graph(line, checked_target(line, &target), iso);
}

}  // namespace driftbound::implicit
