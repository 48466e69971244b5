#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/trace/trace.hpp"
#include "support/json_schema.hpp"
#include "support/run_program.hpp"

// Whether a recorded run is the one that its arithmetic declares (T-97).

using namespace driftbound;
using driftbound::test::TemporaryFolder;

namespace {

const std::string model = std::string(DRIFTBOUND_SOURCE_DIR) + "/examples/models/oscillator_d2_w16.onnx";
const std::string schema_file = std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/schema/report-1.json";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// In one line, however it was wrapped.
std::string unwrapped(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

/// Reports on a run of another program in the order sequential, after `change`.
struct Reported {
  TemporaryFolder folder;
  std::string options;

  explicit Reported(const std::function<void(Trace&)>& change) {
    const Graph graph = load_model(model);
    InputGenerator inputs;
    inputs.samples = 20;
    Trace trace = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("sequential")))
                      .run(graph, generate_inputs(graph, inputs));
    trace.model_sha256 = sha256_of_file(model);
    trace.arithmetic.source = "a program that says what it does";
    trace.provenance.program = "elsewhere 1.0";
    change(trace);
    const std::string file = folder.file("t.safetensors");
    write_trace(trace, file);
    options = "report " + model + " --trace " + file;
  }
  ProgramResult text(const std::string& more = "") const { return run_program(options + " " + more); }
  nlohmann::json json() const { return nlohmann::json::parse(run_program(options + " --json -").out); }
};

}  // namespace

TEST_CASE("a recorded run of its declared arithmetic is known as such") {
  const Reported report([](Trace&) {});
  const ProgramResult text = report.text();
  CHECK(text.status == 0);
  CHECK(contains(unwrapped(text.out), "The recorded run is that of fp32 in order sequential, made again here"));
  CHECK(contains(text.out, "replay                conditional   T-97"));
  const nlohmann::json json = report.json();
  CHECK(schema_errors(schema_file, json) == "");
  CHECK(json["run"]["replay"]["same"] == true);
  CHECK(json["run"]["replay"]["first_difference"].is_null());
  for (const auto& layer : json["layers"]) CHECK(layer["differing"] == 0);
}

TEST_CASE("a run in another order than declared is violated, and what would explain it is said") {
  const Reported report([](Trace& trace) { trace.arithmetic.order = parse_summation_order("blocked:8+fma"); });
  const ProgramResult text = report.text();
  CHECK(text.status == 2);
  CHECK(contains(text.out, "VIOLATED"));
  CHECK(contains(unwrapped(text.out), "The recorded run is not that of fp32 in order blocked:8+fma"));
  CHECK(contains(unwrapped(text.out), "another order could explain it"));
  CHECK(report.text("--bounds adjoint/any-order,shadow").status == 0);
  const nlohmann::json json = report.json();
  CHECK(schema_errors(schema_file, json) == "");
  CHECK(json["run"]["replay"]["same"] == false);
  const std::string first = json["run"]["replay"]["first_difference"];
  for (const auto& layer : json["layers"]) {
    if (layer["name"] == first) {
      CHECK(layer["differing"] > 0);
      break;
    }
    CHECK(layer["differing"] == 0);
  }
  const std::string page = report.folder.file("r.html");
  report.text("--quiet --html " + page);
  CHECK(contains(test::read_file(page), "The recorded run is not that of"));
}

TEST_CASE("a fault that no order explains is said to be one") {
  const Reported report([](Trace& trace) {
    Tensor<double> y = trace.layers.back().output.to_double();
    for (double& value : y.values) value = static_cast<double>(static_cast<float>(value * 1.01));
    trace.layers.back().output = StoredTensor::from(y);
  });
  const ProgramResult text = report.text();
  CHECK(text.status == 2);
  CHECK(contains(unwrapped(text.out), "No order of summation explains it"));
}

TEST_CASE("a run that the report makes is not made twice, and has the bound") {
  const ProgramResult text = run_program("report " + model + " --samples 10 --order pairwise --backend cpu");
  CHECK(text.status == 0);
  CHECK_FALSE(contains(text.out, "The recorded run"));
  CHECK(contains(text.out, "replay                proven        T-97"));
}

TEST_CASE("where no order is declared there is no replay, and who asks is told why") {
  const Reported report([](Trace& trace) { trace.arithmetic.order = {}; });
  const ProgramResult text = report.text();
  CHECK(text.status == 0);
  CHECK_FALSE(contains(text.out, "replay"));
  const ProgramResult asked = report.text("--bounds shadow,componentwise,replay");
  CHECK(asked.status == 0);
  CHECK(contains(unwrapped(asked.out), "replay not applicable to 40 of 40 values"));
  CHECK(contains(unwrapped(asked.out), "order of summation is unknown"));
}
