#include "driftbound/model/composite.hpp"

#include <fmt/core.h>

#include <type_traits>

#include "driftbound/num/errors.hpp"
#include "model/composites/activations.hpp"
#include "model/composites/body.hpp"
#include "model/variant.hpp"

namespace driftbound {
namespace {

template <class Write>
Graph body_by(const Write& write_steps, std::span<const Shape> inputs) {
  composites::Body body(inputs);
  const ValueId output = write_steps(body);
  return body.finish(output);
}

/// visit(op::X) for the composite that the op is.
template <class Visit>
auto visit_composite(const Op& op, const Visit& visit) {
  using Result = decltype(visit(op::Softsign()));
  return std::visit(
      [&](const auto& which) -> Result {
        if constexpr (Composite<std::decay_t<decltype(which)>>) return visit(which);
        throw InvalidArgument(fmt::format("{} is no composite of simpler ops", name_of(op)));
      },
      op);
}

}  // namespace

bool is_composite(const Op& op) {
  return std::visit([](const auto& which) { return Composite<std::decay_t<decltype(which)>>; }, op);
}

Graph composite_body(const Op& op, std::span<const Shape> inputs) {
  return visit_composite(op, [&](const auto& composite) {
    return body_by([&](composites::Body& body) { return write(body, composite); }, inputs);
  });
}

std::vector<Graph> composite_bodies(const Op& op, std::span<const Shape> inputs) {
  return visit_composite(op, [&](const auto& composite) {
    std::vector<Graph> bodies = {composite_body(op, inputs)};
    for (const auto steps : composites::other_steps(composite))
      bodies.push_back(body_by([&](composites::Body& body) { return steps(body, composite); }, inputs));
    return bodies;
  });
}

std::size_t count_of_other_bodies(const Op& op) {
  if (!is_composite(op)) return 0;
  return visit_composite(op, [](const auto& composite) { return composites::other_steps(composite).size(); });
}

Shape composite_shape(const Op& op, std::span<const Shape> inputs) {
  const Graph body = composite_body(op, inputs);
  return infer_shapes(body, {inputs.begin(), inputs.end()})[body.outputs.front()];
}

}  // namespace driftbound
