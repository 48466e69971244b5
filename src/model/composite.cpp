#include "driftbound/model/composite.hpp"

#include <fmt/core.h>

#include <type_traits>

#include "driftbound/num/errors.hpp"
#include "model/composites/body.hpp"
#include "model/variant.hpp"

namespace driftbound {

bool is_composite(const Op& op) {
  return std::visit([](const auto& which) { return Composite<std::decay_t<decltype(which)>>; }, op);
}

Graph composite_body(const Op& op, std::span<const Shape> inputs) {
  return std::visit(
      [&](const auto& which) -> Graph {
        if constexpr (Composite<std::decay_t<decltype(which)>>) {
          composites::Body body(inputs);
          const ValueId output = write(body, which);
          return body.finish(output);
        } else {
          throw InvalidArgument(fmt::format("{} is no composite of simpler ops", name_of(op)));
        }
      },
      op);
}

Shape composite_shape(const Op& op, std::span<const Shape> inputs) {
  const Graph body = composite_body(op, inputs);
  return infer_shapes(body, {inputs.begin(), inputs.end()})[body.outputs.front()];
}

}  // namespace driftbound
