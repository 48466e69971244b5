#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/trace/trace.hpp"
#include "support/json_schema.hpp"
#include "support/report_schema.hpp"
#include "support/run_program.hpp"
#include "support/text.hpp"

// Whether a recorded run is the one that its arithmetic declares (T-97).

using namespace driftbound;
using driftbound::test::TemporaryFolder;

namespace {

const std::string models = std::string(DRIFTBOUND_SOURCE_DIR) + "/examples/models/";
const std::string oscillator = models + "oscillator_d2_w16.onnx", siren = models + "siren.onnx";

/// In one line, however it was wrapped.
std::string unwrapped(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

StoredTensor in_float(const Tensor<double>& y) {
  return StoredTensor::from(Tensor<float>(y.shape, std::vector<float>(y.values.begin(), y.values.end())));
}

/// Reports on a run of another program in the order sequential, after `change`.
struct Reported {
  TemporaryFolder folder;
  std::string options;

  explicit Reported(const std::function<void(Trace&)>& change, const std::string& model = oscillator) {
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
  CHECK(contains(unwrapped(text.out), "another order of summation, another arithmetic, another model, or a bug"));
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

TEST_CASE("a function's value that its library does not give is no matter of the order") {
  const Reported report(
      [](Trace& trace) {
        trace.arithmetic = cpu_arithmetic("fp32", parse_summation_order("sequential"));  // whose functions are known
        const auto is_sin = [](const LayerTrace& layer) { return contains(layer.name, "Sin"); };
        LayerTrace& layer = *std::find_if(trace.layers.begin(), trace.layers.end(), is_sin);
        Tensor<double> y = layer.output.to_double();
        y.values[0] = static_cast<double>(std::nextafter(static_cast<float>(y.values[0]), 2.0f));
        layer.output = in_float(y);
      },
      siren);
  const std::string text = unwrapped(report.text().out);
  CHECK(contains(text, "(Sin) is the first layer with other numbers, 1 of"));
  CHECK(contains(text, "It sums nothing, so that no order explains it: another function library"));
  CHECK_FALSE(contains(text, "could explain it"));
}

TEST_CASE("NaN of a rectifier with finite operands is told as what it is, and no order is offered for it") {
  const Reported report([](Trace& trace) {
    const auto is_relu = [](const LayerTrace& layer) { return contains(layer.name, "Relu"); };
    LayerTrace& layer = *std::find_if(trace.layers.begin(), trace.layers.end(), is_relu);
    Tensor<double> y = layer.output.to_double();
    y.values[3] = std::numeric_limits<double>::quiet_NaN();
    layer.output = in_float(y);
  });
  const ProgramResult result = report.text();
  const std::string text = unwrapped(result.out);
  CHECK(result.status != 0);
  CHECK(contains(text, "is nan, its operand is "));
  CHECK(contains(text, "the exact value is "));
  CHECK(contains(text, "no rounding makes that of it, a bug does"));
  CHECK(contains(text, "without an exact value: operands are not finite"));
  CHECK_FALSE(contains(text, "could explain it"));
  CHECK_FALSE(contains(text, "--max-precision"));
}

TEST_CASE("inputs that the model's type rounds are said to be part of the errors") {
  const Reported report([](Trace& trace) {
    Tensor<double> x = trace.inputs.tensors[0].second.to_double();
    x.values[0] += 1e-12;
    trace.inputs.tensors[0].second = StoredTensor::from(x);
  });
  CHECK(
      contains(unwrapped(report.text().out), "The inputs are float64, the model takes float32: rounding them is part"));
  CHECK_FALSE(contains(Reported([](Trace&) {}).text().out, "rounding them"));
}

TEST_CASE("a run that the report makes is not made twice, and has the bound") {
  const ProgramResult text = run_program("report " + oscillator + " --samples 10 --order pairwise --backend cpu");
  CHECK(text.status == 0);
  CHECK_FALSE(contains(text.out, "The recorded run"));
  CHECK(contains(text.out, "replay                proven        T-97"));
}

TEST_CASE("where no order is declared the kernels found make the run again") {
  const Reported report([](Trace& trace) { trace.arithmetic.order = {}; });
  const ProgramResult text = report.text();
  CHECK(text.status == 0);
  CHECK(contains(unwrapped(text.out),
                 "that of fp32 by the kernels found in its bits, made again here: the same numbers"));
  CHECK(contains(text.out, "replay                conditional   T-171"));
  CHECK(contains(unwrapped(text.out), "by the same kernels (T-170)"));
  CHECK(report.json()["run"]["replay"]["same"] == true);
}

TEST_CASE("where no order is declared or found there is no replay, and who asks is told why") {
  const Reported report([](Trace& trace) { trace.arithmetic.order = {}; });
  const ProgramResult text = report.text("--no-explain-kernels");
  CHECK(text.status == 0);
  CHECK_FALSE(contains(text.out, "replay"));
  const ProgramResult asked = report.text("--no-explain-kernels --bounds shadow,componentwise,replay");
  CHECK(asked.status == 0);
  CHECK(contains(unwrapped(asked.out), "replay not applicable to 40 of 40 values"));
  CHECK(contains(unwrapped(asked.out), "order of summation is unknown"));
}
