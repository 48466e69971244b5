#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "driftbound/evaluate/evaluate_as.hpp"
#include "driftbound/model/load.hpp"
#include "model/mapped_file.hpp"
#include "model/onnx_tensor.hpp"

using namespace driftbound;

namespace fs = std::filesystem;

namespace {

StoredTensor read_tensor(const fs::path& file) {
  const auto mapped = MappedFile::open(file);
  return onnx::to_stored(onnx::parse_tensor(mapped->bytes()), mapped, file.string());
}

/// How far apart two numbers of a type may be that are computed in different ways: a few units in the last place.
double tolerance(ElementType type) {
  switch (type) {
    case ElementType::f64:
      return 1e-13;
    case ElementType::f32:
      return 1e-5;
    case ElementType::f16:
      return 2e-3;
    default:
      return 1.6e-2;
  }
}

bool close(double found, double expected, double relative) {
  if (std::isnan(expected) || std::isinf(expected)) return std::isnan(found) == std::isnan(expected);
  return std::fabs(found - expected) <= relative * (1.0 + std::fabs(expected));
}

/// Models that take one sample at a time give their single sample an axis of its own.
Shape without_sample_axis(Shape shape, const Shape& expected) {
  if (shape.size() == expected.size() + 1 && shape[0] == 1) shape.erase(shape.begin());
  return shape;
}

}  // namespace

TEST_CASE("single-op models of ONNX compute in double what ONNX says they do") {
  const char* folder = std::getenv("DRIFTBOUND_TEST_DATA");
  if (folder == nullptr) {
    MESSAGE("skipped: DRIFTBOUND_TEST_DATA is not set");
    return;
  }
  std::size_t compared = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(folder) / "onnx-node")) {
    const ModelDescription model = describe_model(entry.path() / "model.onnx");
    if (!model.unsupported.empty()) continue;
    CAPTURE(entry.path().filename().string());
    const fs::path samples = entry.path() / "test_data_set_0";
    Inputs inputs;
    for (std::size_t i = 0; i < model.graph.inputs.size(); ++i) {
      inputs.tensors.emplace_back(model.graph.value(model.graph.inputs[i]).name,
                                  read_tensor(samples / ("input_" + std::to_string(i) + ".pb")));
    }
    const std::vector<Tensor<double>> outputs = evaluate_as<double>(model.graph, inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const StoredTensor stored = read_tensor(samples / ("output_" + std::to_string(i) + ".pb"));
      const Tensor<double> expected = stored.to_double();
      REQUIRE(without_sample_axis(outputs[i].shape, expected.shape) == expected.shape);
      std::size_t wrong = 0;
      for (std::size_t k = 0; k < expected.size(); ++k) {
        if (!close(outputs[i].values[k], expected.values[k], tolerance(stored.type()))) ++wrong;
      }
      CHECK(wrong == 0);
    }
    ++compared;
  }
  CHECK(compared >= 60);
}
