#include <doctest/doctest.h>

#include "driftbound/model/graph.hpp"
#include "driftbound/model/inputs.hpp"

using namespace driftbound;

namespace {

Graph two_layers(Op last) {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{1, ""}, {4, ""}});
  const ValueId h = graph.add_node("relu", op::Relu{}, {x});
  graph.outputs = {graph.add_node("last", std::move(last), {h})};
  return graph;
}

Inputs data(Shape shape) {
  Inputs inputs;
  inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>(std::move(shape))));
  return inputs;
}

}  // namespace

TEST_CASE("a model declared for one sample whose ops keep samples apart takes many at a time") {
  const Graph graph = two_layers(op::Tanh{});
  const BatchLayout layout = batch_layout(graph);
  CHECK(layout.batched);
  CHECK(layout.sample_shapes[0] == Shape{1, 4});
  CHECK(sample_count(graph, layout, data({7, 4})) == 7);
  CHECK(sample_count(graph, layout, data({7, 1, 4})) == 7);
  CHECK(slice(graph, layout, data({7, 1, 4}), 2, 3).tensors[0].second.shape() == Shape{3, 4});
}

TEST_CASE("a model declared for one sample that would mix samples takes one at a time") {
  for (const Op& mixing : {Op(op::Reshape{{1, -1}}), Op(op::Softmax{0}), Op(op::Transpose{}), Op(op::Reshape{{4}})}) {
    CAPTURE(name_of(mixing));
    CHECK_FALSE(batch_layout(two_layers(mixing)).batched);
  }
}
