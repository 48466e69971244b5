#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/trace/trace.hpp"
#include "support/json_schema.hpp"
#include "support/report_schema.hpp"
#include "support/run_program.hpp"
#include "support/text.hpp"

using namespace driftbound;
using driftbound::test::TemporaryFolder;

namespace {

const std::string model = std::string(DRIFTBOUND_SOURCE_DIR) + "/examples/models/mlp_2_10_10_2.onnx";

/// A run that some device with a matrix unit might have recorded: tf32 operands, sums to nearest in float32.
Trace recorded_trace() {
  const Graph graph = load_model(model);
  InputGenerator inputs;
  inputs.samples = 8;
  Trace trace = cpu_evaluator(cpu_arithmetic("tf32", parse_summation_order("blocked:8+fma")))
                    .run(graph, generate_inputs(graph, inputs));
  trace.model_sha256 = sha256_of_file(model);
  trace.arithmetic.tensor_core = TensorCore{25, 8};
  trace.arithmetic.products_may_flush = true;
  trace.arithmetic.evidence = Evidence::assumed;
  trace.arithmetic.source = "a library that says nothing";
  trace.provenance.backend = "elsewhere";
  return trace;
}

}  // namespace

TEST_CASE("a report on a matrix unit's trace holds on a condition, and says which in text and JSON") {
  const TemporaryFolder folder;
  const std::string file = folder.file("t.safetensors");
  write_trace(recorded_trace(), file);

  const ProgramResult text = run_program("report " + model + " --trace " + file);
  CHECK(text.status == 0);
  CHECK(contains(text.out, "Assumes matrix products"));
  CHECK(contains(text.out, "A-03"));
  CHECK(contains(text.out, "Assumes the arithmetic of the run is tf32"));

  const ProgramResult json = run_program("report " + model + " --trace " + file + " --json -");
  const auto report = nlohmann::json::parse(json.out);
  CHECK(schema_errors(schema_file, report) == "");
  CHECK((report["verdict"] == "holds" || report["verdict"] == "approaches"));
  CHECK(contains(report["run"]["assumptions"].dump(), "A-03"));
  CHECK(contains(report["run"]["assumptions"].dump(), "assumed by a library that says nothing"));
  CHECK(report["run"]["arithmetic"]["tensor_core"]["block"] == 8);
  for (const auto& layer : report["layers"]) {
    if (layer["op"] != "Gemm" && layer["op"] != "MatMul") continue;
    const auto& bound = layer["local"]["bounds"][0];
    CAPTURE(bound.dump());
    CHECK(bound["name"] == "componentwise");
    CHECK(bound["guarantee"] == "conditional");
    CHECK(bound["theorem"] == "T-21");
    CHECK(contains(bound["condition"].get<std::string>(), "at least 8 exact products"));
  }
}

TEST_CASE("a report says how many kernels give a product, of how many, and by chance, and which product none gives") {
  const TemporaryFolder folder;
  const std::string siren = std::string(DRIFTBOUND_SOURCE_DIR) + "/examples/models/siren.onnx";
  const std::string file = folder.file("t.safetensors");
  CHECK(run_program("capture " + siren + " --backend sim --device h100 --arithmetic tf32 --samples 64 -o " + file)
            .status == 0);
  const std::string report = "report " + siren + " --trace " + file + " --explain-kernels";
  const ProgramResult explained = run_program(report);
  CHECK(contains(explained.out, "by chance"));
  CHECK(contains(explained.out, "family"));
  CHECK_FALSE(contains(explained.out, "No member of the family"));

  Trace trace = read_trace(load_model(siren), sha256_of_file(siren), file);
  const auto product = std::find_if(trace.layers.begin(), trace.layers.end(),
                                    [](const LayerTrace& one) { return contains(one.name, "hidden2/Gemm"); });
  REQUIRE(product != trace.layers.end());
  const Tensor<double> numbers = product->output.to_double();
  Tensor<float> changed(numbers.shape, {numbers.values.begin(), numbers.values.end()});
  changed.values[100] = std::nextafter(changed.values[100], 1e9F);
  product->output = StoredTensor::from(changed);
  write_trace(trace, file);
  const ProgramResult text = run_program(report);
  CHECK(contains(text.out, "No member of the family gives the numbers of"));
  const auto json = nlohmann::json::parse(run_program(report + " --json -").out);
  CHECK(schema_errors(schema_file, json) == "");
  const auto& layer = json["layers"][static_cast<std::size_t>(product - trace.layers.begin())];
  const auto& search = layer["kernel_search"];
  CHECK(layer["kernel"].is_null());
  CHECK(search["of"] == 64 * 64);
  CHECK(search["equal_bits"] == 64 * 64 - 1);
  CHECK(search["nearest"]["differing"] == 1);
  CHECK(search["nearest"]["most_ulps"] == 1.0);
  CHECK(search["nearest"]["first"] == 100);
  CHECK(json["layers"][0]["kernel_search"]["nearest"].is_null());
}

TEST_CASE("what a simulated device did is found in the recorded run") {
  struct Variant {
    std::string options, found;
  };
  const std::vector<Variant> variants = {
      {"--device h100 --arithmetic tf32 --order lanes:4x8",
       "tf32 unit, block 8, F 25, K in 4 lanes of 8 products in turn"},
      {"--device a100 --arithmetic bf16 --order lanes:2x16/halves", "bf16 unit, block 8, F 24, K in 2 lanes of 16"},
      {"--device h100 --arithmetic tf32 --block 4", "tf32 unit, block 4, F 25, in one chain of steps"},
      {"--device h200 --arithmetic bf16 --order split-k:4 --round-parts parts",
       "bf16 unit, block 16, F 25, K in 4 slices of 16 added one after the other, slices rounded to bf16"},
      {"--device h200 --arithmetic fp16 --order split-k:4 --round-parts sums",
       "K in 4 slices of 16 added one after the other, slices and their sums rounded to fp16"},
      {"--device h100 --arithmetic fp32 --order lanes:32x1/halves+fma",
       "fp32, fused multiply-adds, K in 32 lanes of 1 product in turn added half to half"},
      {"--device v100 --arithmetic fp64 --order slices:16/neighbours",
       "products rounded, K in 4 slices of 16 added neighbour to neighbour"},
      {"--device h100 --arithmetic fp8_e4m3 --promotion 32",
       "fp8_e4m3 unit, block 32, F 13, sums of 13 bits, K in 2 slices of 32 added one after the other"}};
  const std::string siren = std::string(DRIFTBOUND_SOURCE_DIR) + "/examples/models/siren.onnx";
  const TemporaryFolder folder;
  for (const Variant& variant : variants) {
    CAPTURE(variant.options);
    const std::string file = folder.file("t.safetensors");
    const ProgramResult captured =
        run_program("capture " + siren + " --backend sim --samples 64 " + variant.options + " -o " + file);
    REQUIRE_MESSAGE(captured.status == 0, captured.err);
    const auto json = nlohmann::json::parse(
        run_program("report " + siren + " --trace " + file + " --explain-kernels --bounds componentwise --json -").out);
    CHECK((json["verdict"] == "holds" || json["verdict"] == "approaches"));
    int named = 0;
    for (const auto& layer : json["layers"]) {
      if (layer["op"] != "Gemm") continue;
      REQUIRE_FALSE(layer["kernel"].is_null());
      CHECK(layer["kernel"]["equal_bits"] == layer["kernel"]["of"]);
      const auto says = [&](const nlohmann::json& text) { return contains(text.get<std::string>(), variant.found); };
      const auto& alike = layer["kernel"]["alike"];
      named += says(layer["kernel"]["text"]) || std::any_of(alike.begin(), alike.end(), says) ? 1 : 0;
    }
    CHECK(named >= 2);
  }
}

TEST_CASE("what a matrix unit cannot do is refused with what it can") {
  const auto refused = [](const std::string& options, const std::string& reason) {
    const ProgramResult result = run_program("report " + model + " " + options);
    CHECK(result.status == 3);
    CHECK_MESSAGE(contains(result.err, reason), result.err);
  };
  const std::string h100 = "--backend sim --device h100 ";
  refused(h100 + "--arithmetic bf16 --block 4", "adds 16 or 8 products a step, not 4");
  refused("--backend sim --device a100 --arithmetic tf32 --block 8", "adds 4 products a step, not 8");
  refused(h100 + "--arithmetic fp32 --block 4", "uses no matrix unit");
  refused(h100 + "--arithmetic fp8_e4m3 --promotion 100", "no multiple of the unit's 32 products a step");
  refused(h100 + "--arithmetic fp8_e4m3 --promotion 128 --order split-k:4", "no longer than that");
  refused(h100 + "--arithmetic tf32 --round-parts parts --order split-k:4", "in bf16 and fp16, not in tf32");
  refused(h100 + "--arithmetic bf16 --round-parts parts", "need the order split-k:S");
  refused(h100 + "--arithmetic tf32 --order lanes:4x6", "multiples of its 8 products a step, not in lanes:4x6");
  refused(h100 + "--arithmetic tf32 --order lanes:4x8/lanes:2x8", "not in lanes:4x8/lanes:2x8");
  refused(h100 + "--arithmetic tf32 --order lanes:4x8:16", "not in lanes:4x8:16");
  refused("--block 4", "add --backend sim");
  refused("--backend cpu --round-parts sums", "add --backend sim");
}
