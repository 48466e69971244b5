#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "driftbound/model/load.hpp"
#include "driftbound/num/errors.hpp"
#include "model/mapped_file.hpp"
#include "model/onnx_tensor.hpp"

using namespace driftbound;

namespace fs = std::filesystem;

namespace {

/// The folder of models from elsewhere; a test that needs it says so where it is not set.
fs::path test_data() {
  const char* folder = std::getenv("DRIFTBOUND_TEST_DATA");
  if (folder == nullptr) MESSAGE("skipped: DRIFTBOUND_TEST_DATA is not set");
  return folder == nullptr ? fs::path() : fs::path(folder);
}

Shape tensor_shape(const fs::path& file) {
  const auto mapped = MappedFile::open(file);
  return onnx::parse_tensor(mapped->bytes()).dims;
}

}  // namespace

TEST_CASE("networks of the verification competition load, or name the ops they still miss") {
  const fs::path data = test_data();
  if (data.empty()) return;
  struct Expected {
    std::size_t nodes;
    std::int64_t parameters;
    std::vector<std::string> missing;
  };
  const std::map<std::string, Expected> expected = {
      {"ACASXU_run2a_1_1_batch_2000", {22, 13310, {}}},
      {"ACASXU_run2a_2_5_batch_2000", {22, 13310, {}}},
      {"ACASXU_run2a_4_9_batch_2000", {22, 13310, {}}},
      {"ffnnSIGMOID__Point_6x200", {16, 360012, {}}},
      {"mnist-net_256x4", {10, 400906, {}}},
      {"test_nano", {2, 1, {}}},
      {"test_small", {8, 13, {}}},
      {"Convnet_avgpool", {6, 11690, {}}},
      {"resnet_2b", {17, 112006, {}}},
  };
  for (const auto& entry : expected) {
    const std::string& name = entry.first;
    const Expected& model = entry.second;
    CAPTURE(name);
    const fs::path file = data / "vnncomp2021" / (name + ".onnx");
    const ModelDescription description = describe_model(file);
    std::map<std::string, int> missing;
    for (const UnsupportedNode& node : description.unsupported) ++missing[node.op];
    std::vector<std::string> names;
    for (const auto& [op, count] : missing) names.push_back(op);
    CHECK(names == model.missing);
    if (!model.missing.empty()) {
      CHECK_THROWS_AS(load_model(file), Unsupported);
      continue;
    }
    const Graph graph = load_model(file);
    CHECK(graph.nodes.size() == model.nodes);
    CHECK(graph.parameter_count() == model.parameters);
    CHECK(graph.inputs.size() == 1);
    CHECK(graph.outputs.size() == 1);
  }
}

TEST_CASE("layer dumps of neural-implicit-queries load") {
  const fs::path data = test_data();
  if (data.empty()) return;
  for (const auto& [name, parameters] : std::map<std::string, std::int64_t>{{"fox.npz", 7553}, {"bunny.npz", 29441}}) {
    const Graph graph = load_model(data / "neural-implicit-queries" / name);
    CHECK(graph.nodes.size() == 18);
    CHECK(graph.parameter_count() == parameters);
    CHECK(batch_layout(graph).batched);
    CHECK(batch_layout(graph).sample_shapes[0] == Shape{1, 3});
    CHECK(infer_shapes(graph, {{7, 3}}).at(graph.outputs[0]) == Shape{7});
  }
}

TEST_CASE("every single-op model of ONNX loads with the shape it states, or says what is missing") {
  const fs::path data = test_data();
  if (data.empty()) return;
  std::size_t loaded = 0, unsupported = 0;
  for (const auto& entry : fs::directory_iterator(data / "onnx-node")) {
    CAPTURE(entry.path().filename().string());
    const fs::path samples = entry.path() / "test_data_set_0";
    const ModelDescription description = describe_model(entry.path() / "model.onnx");
    if (!description.unsupported.empty()) {
      ++unsupported;
      for (const UnsupportedNode& node : description.unsupported) CHECK_FALSE(node.reason.empty());
      continue;
    }
    ++loaded;
    const Graph& graph = description.graph;
    std::vector<Shape> inputs;
    for (std::size_t i = 0; i < graph.inputs.size(); ++i)
      inputs.push_back(tensor_shape(samples / ("input_" + std::to_string(i) + ".pb")));
    const std::vector<Shape> shapes = infer_shapes(graph, inputs);
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
      CHECK(shapes[graph.outputs[i]] == tensor_shape(samples / ("output_" + std::to_string(i) + ".pb")));
    }
  }
  CHECK(loaded >= 60);
  MESSAGE("onnx-node: " << loaded << " models load, " << unsupported << " name what is missing");
}
