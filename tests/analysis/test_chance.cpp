#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "analysis/judge.hpp"
#include "analysis/report.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/num/errors.hpp"
#include "support/json_schema.hpp"
#include "support/report_schema.hpp"
#include "tests/analysis/hand_made.hpp"

// Bounds that leave roundings to chance, and condition numbers, in reports.

using namespace driftbound;
using namespace driftbound::analysis;

namespace {

/// relu(x W) V with one number a sample; of equal weights and inputs, if `constant`.
struct Judged {
  Graph graph;
  Inputs inputs;

  explicit Judged(bool constant = false) {
    constexpr std::int64_t width = 32, samples = 5;
    const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {width, ""}});
    const auto numbers = [&](std::int64_t rows, std::int64_t columns, float scale) {
      Tensor<float> tensor({rows, columns});
      for (std::size_t i = 0; i < tensor.size(); ++i)
        tensor.values[i] = constant ? scale * 0.1f : scale * std::sin(1.7f * static_cast<float>(i + 1));
      return StoredTensor::from(tensor);
    };
    const ValueId w = graph.add_constant("w", numbers(width, 6, 1.0f));
    const ValueId v = graph.add_constant("v", numbers(6, 1, 0.5f));
    const ValueId r = graph.add_node("relu", op::Relu{}, {graph.add_node("hidden", op::MatMul{}, {x, w})});
    graph.outputs = {graph.add_node("sdf", op::MatMul{}, {r, v})};
    inputs.tensors = {{"x", numbers(samples, width, 2.0f)}};
  }

  Comparison compared(JudgeOptions options = {}) const {
    const Evaluator evaluator = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("sequential")));
    return judge(graph, evaluator.run(graph, inputs), options).comparison;
  }
  Report report(const JudgeOptions& options = {}) const {
    Report result = HandMade().report();
    result.comparison = compared(options);
    return result;
  }
};

}  // namespace

TEST_CASE("probabilistic bounds state what they risk, in all blocks together no more than what was asked for") {
  JudgeOptions options;
  options.block = 2;
  options.failure_probability = 1e-6;
  const Comparison comparison = Judged().compared(options);
  const BoundSummary* bound = find_bound(comparison.outputs[0].scope, BoundKind::adjoint_probabilistic);
  REQUIRE(bound != nullptr);
  CHECK(bound->guarantee == Guarantee::probabilistic);
  CHECK(bound->failure_probability.value_or(1.0) <= 1e-6);
  CHECK(bound->failure_probability.value_or(0.0) > 0.99e-6);
  CHECK(bound->violations == 0);
  CHECK(bound->max_bound < find_bound(comparison.outputs[0].scope, BoundKind::adjoint_any_order)->max_bound);
  double of_layers = 0.0;
  for (const LayerSummary& layer : comparison.layers) {
    const BoundSummary* local = find_bound(layer.local, BoundKind::probabilistic);
    CHECK((local != nullptr) == (layer.op == "MatMul"));
    if (local != nullptr) of_layers += local->failure_probability.value_or(1.0);
  }
  CHECK(of_layers <= 1e-6);
  CHECK(of_layers > 0.99e-6);
}

TEST_CASE("JSON has failure probabilities, condition numbers and reasons, as the schema says") {
  for (const bool constant : {false, true}) {
    const nlohmann::json json = nlohmann::json::parse(to_json(document_of(Judged(constant).report())));
    CHECK(schema_errors(schema_file, json) == "");
    const nlohmann::json output = json["end_to_end"]["outputs"][0];
    const auto bound = [&](const std::string& name) {
      for (const nlohmann::json& one : output["bounds"])
        if (one["name"] == name) return one;
      return nlohmann::json();
    };
    CHECK(bound("adjoint/statistical")["guarantee"] == "heuristic");
    CHECK(bound("adjoint/statistical")["failure_probability"].is_null());
    CHECK(bound("adjoint/any-order")["failure_probability"].is_null());
    CHECK(bound("adjoint/probabilistic")["failure_probability"].is_number());
    CHECK(bound("adjoint/probabilistic")["without_statement"] == (constant ? 5 : 0));
    CHECK(bound("adjoint/probabilistic")["not_applicable"].is_string() == constant);
    CHECK(output["condition"]["median"].get<double>() > 1.0);
  }
}

TEST_CASE("constant data leave the verdict alone, and the text says why there is no estimate") {
  const Report report = Judged(true).report();
  CHECK(report.comparison.verdict <= Status::approaches);
  const std::string text = to_text(document_of(report));
  CHECK(text.find("adjoint/statistical not applicable to 5 of 5 values: a sum of 16 terms") != std::string::npos);
  CHECK(to_html(document_of(report)).find("not applicable to 5 of 5 values") != std::string::npos);
}

TEST_CASE("a probabilistic bound or an estimate that is exceeded is counted; the first one alone is a verdict") {
  for (const Guarantee guarantee : {Guarantee::probabilistic, Guarantee::heuristic}) {
    HandMade made;
    BoundResult result = HandMade::make_bound(BoundKind::adjoint_statistical, guarantee);
    result.question = Question::any_run;
    result.values = Tensor<double>({3, 2}, std::vector<double>(6, 1e-30));
    made.accumulated.layers[0].values[0] = exact_ball(0.75);
    made.bounds.layers[0].accumulated.push_back(result);
    const Comparison with = made.compare(0.5, {});
    const BoundSummary* bound = find_bound(with.outputs[0].scope, BoundKind::adjoint_statistical);
    REQUIRE(bound != nullptr);
    CHECK(bound->violations == 1);
    CHECK((with.verdict == Status::improbable) == (guarantee == Guarantee::probabilistic));
    CHECK(with.verdict != Status::violated);
  }
}

TEST_CASE("local error times condition is what a layer has in the bound") {
  const Comparison comparison = Judged().compared();
  const Breakdown& breakdown = comparison.outputs[0].breakdown.value();
  const double bound = find_bound(comparison.outputs[0].scope, BoundKind::adjoint_any_order)->max_bound;
  double sum = 0.0;
  for (const LayerPart& part : breakdown.layers) {
    REQUIRE(part.condition);
    if (part.local) sum += *part.local * *part.condition;
    if (part.local && part.layer != "relu") {
      CHECK(*part.local > 0x1p-25);
      CHECK(*part.local < 64 * 0x1p-24);
    }
  }
  CHECK(sum > 0.0);
  CHECK(std::isfinite(bound));
  const std::string text = to_text(document_of(Judged().report()));
  CHECK(text.find("relative to the output, local error x condition: hidden ") != std::string::npos);
  CHECK(text.find("condition, all layers: median ") != std::string::npos);
  CHECK(text.find("adjoint/probabilistic fails with probability ") != std::string::npos);
  const std::string html = to_html(document_of(Judged().report()));
  CHECK(html.find("<th>local error</th><th>x condition</th>") != std::string::npos);
  for (const char* nothing : {"e-31", "e-32", "-0.0%"}) CHECK(html.find(nothing) == std::string::npos);
}

TEST_CASE("CSV ends with the failure probability and the condition number") {
  const std::string csv = to_csv(document_of(Judged().report()));
  CHECK(csv.find(",status,failure_probability,condition\n") != std::string::npos);
  const std::size_t row = csv.find("adjoint/probabilistic,probabilistic");
  REQUIRE(row != std::string::npos);
  const std::string line = csv.substr(row, csv.find('\n', row) - row);
  CHECK(line.find("e-10,") != std::string::npos);
}

TEST_CASE("--bounds chooses among them") {
  JudgeOptions options;
  options.bounds = {BoundKind::forward, BoundKind::adjoint_statistical};
  const Comparison chosen = Judged().compared(options);
  CHECK(find_bound(chosen.outputs[0].scope, BoundKind::adjoint_statistical) != nullptr);
  CHECK(find_bound(chosen.outputs[0].scope, BoundKind::adjoint_probabilistic) == nullptr);
  CHECK(find_bound(chosen.layers[0].local, BoundKind::probabilistic) == nullptr);
  CHECK_FALSE(chosen.outputs[0].condition);
  options.bounds = {Diagnostic::condition, BoundKind::probabilistic};
  const Comparison other = Judged().compared(options);
  CHECK(other.outputs[0].condition);
  CHECK(find_bound(other.layers[0].local, BoundKind::probabilistic) != nullptr);
  CHECK(find_bound(other.outputs[0].scope, BoundKind::adjoint_statistical) == nullptr);
}
