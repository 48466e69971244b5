#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "driftbound/model/inputs.hpp"
#include "driftbound/num/errors.hpp"
#include "model/safetensors.hpp"
#include "support/npy_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

using namespace driftbound;
using namespace driftbound::test;

namespace {

Graph one_input(std::vector<DeclaredDimension> shape, ElementType type = ElementType::f32) {
  Graph graph;
  const ValueId x = graph.add_input("x", type, std::move(shape));
  graph.outputs = {graph.add_node("y", op::Identity{}, {x})};
  return graph;
}

Graph batched() {
  return one_input({{-1, "N"}, {3, ""}});
}
Graph single() {
  return one_input({{2, ""}, {3, ""}});
}

Graph two_inputs() {
  Graph graph;
  const ValueId a = graph.add_input("a", ElementType::f32, {{-1, "N"}, {2, ""}});
  const ValueId b = graph.add_input("b/c", ElementType::f32, {{-1, "N"}, {2, ""}});
  graph.outputs = {graph.add_node("y", op::Add{}, {a, b})};
  return graph;
}

template <class Exception>
std::string error_of(const Graph& graph, const std::filesystem::path& file) {
  try {
    read_inputs(graph, file);
  } catch (const Exception& error) {
    return error.what();
  }
  return "";
}

const std::string six_floats = npy_of<float>("<f4", {2, 3}, {1, 2, 3, 4, 5, 6});
const std::string six_doubles = npy_of<double>("<f8", {2, 3}, {0.1, 2, 3, 4, 5, 6});
const std::string four_floats = npy_of<float>("<f4", {2, 2}, {1, 2, 3, 4});

}  // namespace

TEST_CASE("one array without a name feeds a model with one input and keeps its type") {
  const TemporaryFolder folder;
  for (const auto& file : {folder.write("x.npy", six_doubles), folder.write("X.NPY", six_doubles),
                           folder.write("a.npz", zip_of({{"arr_0.npy", six_doubles}})),
                           folder.write("b.npz", zip_of({{"labels.npy", four_floats}, {"x.npy", six_doubles}}))}) {
    const Inputs inputs = read_inputs(batched(), file);
    REQUIRE(inputs.tensors.size() == 1);
    CHECK(inputs.tensors[0].first == "x");
    CHECK(inputs.at("x").type() == ElementType::f64);
    CHECK(inputs.at("x").to_double().values[0] == 0.1);
  }
}

TEST_CASE("a line of a CSV file is a sample of whatever shape the model takes") {
  const TemporaryFolder folder;
  const auto file = folder.write("x.csv", "a,b,c\n0.1,2,3\n4,5,6\n");
  CHECK(read_inputs(batched(), file).at("x").shape() == Shape{2, 3});
  CHECK(read_inputs(one_input({{1, ""}, {1, ""}, {3, ""}}), file).at("x").shape() == Shape{2, 1, 3});
  CHECK(read_inputs(batched(), file).at("x").to_double().values[0] == 0.1);
  CHECK(read_inputs(single(), folder.write("s.csv", "1,2,3,4,5,6\n1,2,3,4,5,6\n")).at("x").shape() == Shape{2, 2, 3});
  CHECK(contains(error_of<ShapeMismatch>(one_input({{-1, ""}, {4, ""}}), file), "4"));
}

TEST_CASE("several inputs come by name, also from a trace's keys") {
  const TemporaryFolder folder;
  const StoredTensor tensor = StoredTensor::from(Tensor<float>({2, 2}, {1, 2, 3, 4}));
  write_safetensors(folder / "plain.safetensors", {{"a", &tensor}, {"b/c", &tensor}}, {});
  write_safetensors(folder / "trace.safetensors", {{"input/a", &tensor}, {"input/b.c", &tensor}}, {});
  for (const auto& file : {folder / "plain.safetensors", folder / "trace.safetensors",
                           folder.write("n.npz", zip_of({{"b/c.npy", four_floats}, {"a.npy", four_floats}}))}) {
    const Inputs inputs = read_inputs(two_inputs(), file);
    REQUIRE(inputs.tensors.size() == 2);
    CHECK(inputs.at("b/c").shape() == Shape{2, 2});
  }
}

TEST_CASE("names that do not match list what is wanted and what is there") {
  const TemporaryFolder folder;
  const std::string message = error_of<InvalidArgument>(
      two_inputs(), folder.write("n.npz", zip_of({{"a.npy", four_floats}, {"d.npy", four_floats}})));
  for (const std::string part : {"n.npz", "'a'", "'b/c'", "'d'"}) CHECK(contains(message, part));
  CHECK(contains(error_of<InvalidArgument>(batched(), folder.write("o.npz", zip_of({{"y.npy", six_floats}}))), "'y'"));
  CHECK(contains(error_of<InvalidArgument>(two_inputs(), folder.write("x.npy", six_floats)), "2 inputs"));
  CHECK(contains(error_of<InvalidArgument>(batched(), folder.write("x.mat", six_floats)), ".mat"));
}

TEST_CASE("wrong shapes say what is expected and what was found") {
  const TemporaryFolder folder;
  const std::string message = error_of<ShapeMismatch>(batched(), folder.write("x.npy", four_floats));
  CHECK(contains(message, "x.npy"));
  CHECK(contains(message, "[2, 2]"));
  CHECK(contains(message, "[N, 3]"));
  const auto uneven =
      folder.write("n.npz", zip_of({{"a.npy", four_floats}, {"b/c.npy", npy_of<float>("<f4", {1, 2}, {1, 2})}}));
  CHECK(contains(error_of<ShapeMismatch>(two_inputs(), uneven), "samples"));
}

TEST_CASE("integer inputs of a model take whole numbers only") {
  const TemporaryFolder folder;
  const Graph graph = one_input({{-1, "N"}, {3, ""}}, ElementType::i64);
  CHECK(read_inputs(graph, folder.write("a.csv", "1,2,3\n")).at("x").type() == ElementType::f64);
  CHECK(contains(error_of<ShapeMismatch>(graph, folder.write("b.csv", "1,2.5,3\n")), "2.5"));
}

TEST_CASE("input files that are missing or broken are told apart") {
  const TemporaryFolder folder;
  for (const std::string name : {"x.npy", "x.npz", "x.csv", "x.safetensors"}) {
    CHECK(contains(error_of<FileError>(batched(), folder / name), name));
    CHECK(contains(error_of<ParseError>(batched(), folder.write(name, "")), name));
  }
}
