#include <doctest/doctest.h>

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
