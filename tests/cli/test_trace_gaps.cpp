// Reports on traces of real PyTorch runs that lack layers (tests/data/pytorch/record.py).
#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/safetensors.hpp"
#include "support/json_schema.hpp"
#include "support/report_schema.hpp"
#include "support/run_program.hpp"

namespace driftbound::test {
namespace {

const std::string recorded_by_pytorch = std::string(DRIFTBOUND_SOURCE_DIR) + "/tests/data/pytorch/";

ProgramResult report_on(const std::string& model, const std::string& trace, const std::string& options = "") {
  return run_program("report " + recorded_by_pytorch + model + ".onnx --trace " + trace + options);
}

nlohmann::json json_report(const std::string& model, const std::string& trace, int status) {
  const ProgramResult result = report_on(model, trace, " --json -");
  CAPTURE(result.err);
  REQUIRE(result.status == status);
  nlohmann::json report = nlohmann::json::parse(result.out);
  CHECK(schema_errors(schema_file, report) == "");
  return report;
}

/// The trace without some of its layers.
std::string without(const TemporaryFolder& folder, const std::string& trace,
                    const std::function<bool(const std::string&)>& leaves_out) {
  const SafetensorsFile file(recorded_by_pytorch + trace);
  std::vector<std::pair<std::string, StoredTensor>> kept;
  for (const std::string& key : file.names())
    if (!key.starts_with("layer/") || !leaves_out(key)) kept.emplace_back(key, file.tensor(key));
  std::vector<std::pair<std::string, const StoredTensor*>> pointers;
  for (const auto& [key, tensor] : kept) pointers.emplace_back(key, &tensor);
  write_safetensors(folder / "part.safetensors", pointers, file.metadata());
  return folder.file("part.safetensors");
}

/// Names of the layers that are violated, not as a consequence of others.
std::vector<std::string> violated_layers(const nlohmann::json& report) {
  std::vector<std::string> names;
  for (const auto& layer : report["layers"])
    if (layer["status"] == "violated" && layer["explained_by"].is_null()) names.push_back(layer["name"]);
  return names;
}

}  // namespace

TEST_CASE("PyTorch's hooks and final outputs are judged, and hold") {
  for (const std::string model : {"perceptron", "convolutional", "transformer"}) {
    CAPTURE(model);
    const auto output = json_report(model, recorded_by_pytorch + model + "_output.safetensors", 0);
    CHECK(output["layers"].size() == 1);
    CHECK(output["layers"][0]["segment"]["from"] == nlohmann::json{"x"});
    CHECK(output["layers"][0]["segment"]["nodes"].size() == output["model"]["nodes"]);
    CHECK(output["run"]["recorded"]["layers"] == 1);
    CHECK(output["run"]["recorded"]["inside"] == output["model"]["nodes"].get<int>() - 1);
    const auto hooks = json_report(model, recorded_by_pytorch + model + "_hooks.safetensors", 0);
    CHECK(hooks["layers"].size() >= 7);
    CHECK(hooks["end_to_end"]["outputs"][0]["name"] == "y");
    for (const auto& matched : hooks["run"]["recorded"]["matched"]) CHECK(matched["by"] == "module path");
  }
}

TEST_CASE("whatever part of an honest run is recorded, it holds") {
  const TemporaryFolder folder;
  for (const std::string model : {"perceptron", "convolutional", "transformer"})
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {  // of seed 4 nothing is left of two models
      CAPTURE(model);
      CAPTURE(seed);
      std::uint64_t state = seed;
      const std::string part = without(folder, model + "_hooks.safetensors", [&](const std::string& key) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return key.find("drop") != std::string::npos || (state >> 33) % 3 != 0;
      });
      const ProgramResult result = report_on(model, part);
      CAPTURE(result.out);
      CHECK(result.status == 0);
      CHECK(result.out.find("Recorded: ") != std::string::npos);
    }
}

TEST_CASE("a wrong weight is found at its layer, and inside a segment at that segment") {
  const TemporaryFolder folder;
  const auto fault_of = [](const std::string& model) {
    return recorded_by_pytorch + model + "_fault_hooks.safetensors";
  };
  CHECK(violated_layers(json_report("perceptron", fault_of("perceptron"), 2)) ==
        std::vector<std::string>{"/b.1/b.1.3/Gemm"});
  CHECK(violated_layers(json_report("convolutional", fault_of("convolutional"), 2)) ==
        std::vector<std::string>{"/f/f.3/Conv"});
  CHECK(violated_layers(json_report("transformer", fault_of("transformer"), 2)) ==
        std::vector<std::string>{"/b.1/attn/qkv/Add"});
  const std::string inside = without(folder, "convolutional_fault_hooks.safetensors",
                                     [](const std::string& key) { return key.find("f.3") != std::string::npos; });
  CHECK(violated_layers(json_report("convolutional", inside, 2)) == std::vector<std::string>{"/f/f.4/Relu"});
  // From the input on alone: exceeded, or improbable.
  json_report("convolutional", recorded_by_pytorch + "convolutional_fault_output.safetensors", 2);
  json_report("perceptron", recorded_by_pytorch + "perceptron_fault_output.safetensors", 1);
}

TEST_CASE("products in TF32 that declare float32 are found in hooks and in final outputs") {
  for (const std::string model : {"perceptron", "convolutional"})
    for (const std::string kind : {"_tf32_hooks", "_tf32_output"}) {
      CAPTURE(model);
      CAPTURE(kind);
      CHECK(report_on(model, recorded_by_pytorch + model + kind + ".safetensors").status == 2);
    }
  CHECK(report_on("transformer", recorded_by_pytorch + "transformer_tf32_hooks.safetensors").status == 2);
}

TEST_CASE("a report says what is recorded, what segments hold and which outputs are missing") {
  const TemporaryFolder folder;
  const std::string part = without(folder, "perceptron_hooks.safetensors", [](const std::string& key) {
    return key.find("/inp/") == std::string::npos && key.find("/b.0.1/") == std::string::npos;
  });
  const ProgramResult result = report_on("perceptron", part);
  CAPTURE(result.out);
  CHECK(result.status == 0);
  std::string text = result.out;
  for (char& c : text) c = c == '\n' ? ' ' : c;
  CHECK(text.find("Recorded: 2 of ") != std::string::npos);
  CHECK(text.find("no recorded layer depends on ") != std::string::npos);
  CHECK(text.find("from '/inp/Gemm' on") != std::string::npos);
  CHECK(text.find("Found by module path (layer = record): '/inp/Gemm' = 'inp', '/b.0/b.0.1/Gemm' = 'b.0.1'.") !=
        std::string::npos);
  CHECK(text.find("Outputs that are not recorded, and not judged: y.") != std::string::npos);
  CHECK(report_on("perceptron", part, " --scalar 'y[0]'").status == 3);
}

}  // namespace driftbound::test
