#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "support/load_errors.hpp"

using namespace driftbound;
using namespace driftbound::test;

namespace {

using Integers = std::vector<std::int64_t>;

OnnxModel model_with(const Message& sparse) {
  OnnxModel model;
  model.input("x", {2, 3}).sparse_initializer(sparse).node("Add", {"x", "s"}, "y").output("y");
  return model;
}

Message sparse(const Integers& indices_shape, const Integers& indices, const Integers& shape = {2, 3}) {
  return onnx_sparse_tensor(onnx_tensor("s", {2}, std::vector<float>{5, 7}), onnx_tensor("", indices_shape, indices),
                            shape);
}

std::vector<double> dense(const Message& tensor) {
  const Graph graph = loaded(model_with(tensor));
  const StoredTensor& constant = graph.value(graph.nodes.at(0).inputs[1]).constant;
  CHECK(constant.shape() == Shape{2, 3});
  return constant.to_double().values;
}

std::string refusal(const Message& tensor) {
  const std::string message = load_error<Error>(model_with(tensor));
  CHECK(contains(message, "initialiser 's'"));
  return message;
}

}  // namespace

TEST_CASE("sparse initialisers are written out, by positions or by coordinates") {
  const std::vector<double> expected = {0, 5, 0, 0, 0, 7};
  CHECK(dense(sparse({2}, {1, 5})) == expected);
  CHECK(dense(sparse({2, 2}, {0, 1, 1, 2})) == expected);
}

TEST_CASE("a sparse initialiser may have no values at all") {
  const Message empty =
      onnx_sparse_tensor(onnx_tensor("s", {0}, std::vector<float>{}), onnx_tensor("", {0}, Integers{}), {2, 3});
  CHECK(dense(empty) == std::vector<double>(6, 0.0));
}

TEST_CASE("the value of a Constant may be sparse") {
  OnnxModel model;
  model.input("x", {2, 3})
      .node("Constant", {}, "c", {OnnxAttribute::of_sparse_tensor("sparse_value", sparse({2}, {1, 5}))})
      .node("Add", {"x", "c"}, "y")
      .output("y");
  const Graph graph = loaded(model);
  CHECK(graph.value(graph.nodes.at(0).inputs[1]).constant.to_double().values == std::vector<double>{0, 5, 0, 0, 0, 7});
}

TEST_CASE("sparse indices out of range, out of order or twice are refused") {
  CHECK(contains(refusal(sparse({2}, {1, 6})), "index 6"));
  CHECK(contains(refusal(sparse({2}, {-1, 5})), "index -1"));
  CHECK(contains(refusal(sparse({2, 2}, {0, 1, 0, 3})), "index 3"));
  CHECK(contains(refusal(sparse({2, 2}, {0, 1, -1, 2})), "index -1"));
  CHECK(contains(refusal(sparse({2}, {5, 1})), "ascending"));
  CHECK(contains(refusal(sparse({2}, {5, 5})), "ascending"));
  CHECK(contains(refusal(sparse({2, 2}, {1, 0, 0, 1})), "ascending"));
}

TEST_CASE("sparse indices that do not fit the values or the shape are refused") {
  CHECK(contains(refusal(sparse({3}, {1, 2, 3})), "2 values"));
  CHECK(contains(refusal(sparse({1}, {1})), "2 values"));
  CHECK(contains(refusal(sparse({2, 3}, {0, 0, 1, 0, 0, 2})), "2 values"));
  CHECK(contains(refusal(sparse({2, 1, 2}, {0, 1, 1, 2})), "2 values"));
  const Message values = onnx_tensor("s", {2, 1}, std::vector<float>{5, 7});
  CHECK(contains(refusal(onnx_sparse_tensor(values, onnx_tensor("", {2}, Integers{1, 5}), {2, 3})), "a list"));
  const Message list = onnx_tensor("s", {2}, std::vector<float>{5, 7});
  const Message narrow = onnx_tensor("", {2}, std::vector<std::int32_t>{1, 5});
  CHECK(contains(refusal(onnx_sparse_tensor(list, narrow, {2, 3})), "int64"));
  CHECK(contains(refusal(onnx_sparse_tensor(list, onnx_tensor_header("", onnx_int64, {2}), {2, 3})), "indices"));
}

TEST_CASE("a few bytes cannot ask for a dense tensor of gigabytes") {
  const std::int64_t many = std::int64_t{1} << 30;
  CHECK(contains(refusal(sparse({2}, {1, 5}, {many})), "justifies"));
  CHECK(contains(refusal(sparse({2}, {1, 5}, {many, many})), "justifies"));
  CHECK(contains(refusal(sparse({2}, {1, 5}, {many, many, many})), "2^62"));
  CHECK(contains(refusal(sparse({2}, {1, 5}, {-2, -3})), "negative"));
  CHECK(contains(refusal(sparse({2}, {1, 5}, Integers(65, 1))), "64 dimensions"));

  // each is within bounds, all of them together are not
  OnnxModel model;
  model.input("x", {1});
  std::string sum = "x";
  for (int i = 0; i < 10; ++i) {
    const std::string name = "s" + std::to_string(i);
    const Message values = onnx_tensor(name, {1}, std::vector<float>{1});
    model.sparse_initializer(onnx_sparse_tensor(values, onnx_tensor("", {1}, Integers{0}), {1 << 20}));
    model.node("Add", {sum, name}, "y" + std::to_string(i));
    sum = "y" + std::to_string(i);
  }
  model.output(sum);
  CHECK(contains(load_error<Unsupported>(model), "justifies"));
}
