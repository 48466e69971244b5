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
