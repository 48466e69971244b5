#include <algorithm>

#include "driftbound/model/composite.hpp"
#include "driftbound/num/errors.hpp"
#include "model/composites/body.hpp"

namespace driftbound::composites {
namespace {

template <std::size_t choice>
ValueId by_choice(Body& body, const op::Segment& segment) {
  std::vector<ValueId> inputs;
  for (std::size_t slot = 0; slot < body.input_count(); ++slot) inputs.push_back(body.input(slot));
  return body.apply(*segment.graph, inputs, choice);
}

}  // namespace

ValueId write(Body& body, const op::Segment& segment) {
  if (segment.graph == nullptr || segment.graph->outputs.size() != 1)
    throw InvalidArgument("a segment needs a graph with one output as its steps");
  if (segment.graph->inputs.size() != body.input_count())
    throw ShapeMismatch("a segment with " + std::to_string(segment.graph->inputs.size()) + " inputs is given " +
                        std::to_string(body.input_count()));
  return by_choice<0>(body, segment);
}

std::vector<Steps<op::Segment>> other_steps(const op::Segment& segment) {
  static const std::vector<Steps<op::Segment>> choices = {by_choice<1>, by_choice<2>};
  if (segment.graph == nullptr) return {};
  std::size_t most = 0;
  for (const Node& node : segment.graph->nodes) most = std::max(most, count_of_other_bodies(node.op));
  if (most > choices.size()) throw InvalidArgument("a step of a segment has more bodies than segments choose from");
  return {choices.begin(), choices.begin() + static_cast<std::ptrdiff_t>(most)};
}

}  // namespace driftbound::composites
