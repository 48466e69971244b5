#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "analysis/judge.hpp"
#include "analysis/report.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "support/json_schema.hpp"
#include "support/report_schema.hpp"
#include "support/structured_sums.hpp"
#include "tests/analysis/hand_made.hpp"

// Norms, attention and Gelu that plain float32 loops compute otherwise than the graph says (T-135).

using namespace driftbound;
using namespace driftbound::analysis;

namespace {

using Rows = std::vector<std::vector<float>>;

const structured::Order in_turn = structured::orders().front();

Rows normal_rows(std::size_t count, std::size_t n, std::uint64_t seed, float size = 1.0F) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0F, size);
  Rows rows(count, std::vector<float>(n));
  for (std::vector<float>& row : rows)
    for (float& x : row) x = normal(random);
  return rows;
}

Tensor<float> tensor_of(const Rows& rows) {
  Tensor<float> tensor({static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows.front().size())});
  std::size_t at = 0;
  for (const std::vector<float>& row : rows)
    for (const float x : row) tensor.values[at++] = x;
  return tensor;
}

float sum_of_products(const std::vector<float>& a, const std::vector<float>& b, const structured::Order& order) {
  return structured::sum({a, b}, order);
}

/// How a loop computes a norm of a row with scale 1.5 and shift 0.25.
struct NormSteps {
  float epsilon = 1e-5F;
  bool subtracts_mean = true, divides_by_fewer = false, shifts = true;
};

std::vector<float> norm_of(std::vector<float> row, const NormSteps& steps, const structured::Order& order) {
  const auto n = static_cast<float>(row.size());
  const std::vector<float> ones(row.size(), 1.0F);
  if (steps.subtracts_mean) {
    const float mean = sum_of_products(row, ones, order) / n;
    for (float& x : row) x -= mean;
  }
  const float variance = sum_of_products(row, row, order) / (steps.divides_by_fewer ? n - 1.0F : n);
  const float deviation = std::sqrt(variance + steps.epsilon);
  for (float& x : row) x = x / deviation * 1.5F + (steps.shifts ? 0.25F : 0.0F);
  return row;
}

/// The verdict on a one-node graph of rows, with these recorded results.
Report report_on(const Op& op, const std::vector<std::pair<StoredTensor, bool>>& operands, const StoredTensor& result) {
  Graph graph;
  Inputs inputs;
  std::vector<ValueId> ids;
  for (const auto& [tensor, is_input] : operands) {
    const std::string name = "x" + std::to_string(ids.size());
    if (!is_input) {
      ids.push_back(graph.add_constant(name, tensor));
      continue;
    }
    std::vector<DeclaredDimension> declared = {{-1, "rows"}};
    for (std::size_t axis = 1; axis < tensor.shape().size(); ++axis) declared.push_back({tensor.shape()[axis], ""});
    ids.push_back(graph.add_input(name, tensor.type(), declared));
    graph.values[ids.back()].has_declared_shape = true;
    inputs.tensors.emplace_back(name, tensor);
  }
  graph.outputs = {graph.add_node("layer", op, ids)};
  Trace trace = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("sequential"))).run(graph, inputs);
  trace.layers[0].output = result;
  trace.provenance.program = "plain loops";
  trace.arithmetic.order = {};
  JudgeOptions options;
  options.bounds = {BoundKind::componentwise};
  Report report = HandMade().report();
  report.comparison = judge(graph, trace, options).comparison;
  return report;
}

Report report_on_norm(const Op& op, const Rows& rows, const NormSteps& steps,
                      const structured::Order& order = in_turn) {
  Rows results;
  for (const std::vector<float>& row : rows) results.push_back(norm_of(row, steps, order));
  const Shape of_row = {static_cast<std::int64_t>(rows.front().size())};
  const auto n = rows.front().size();
  std::vector<std::pair<StoredTensor, bool>> operands = {
      {StoredTensor::from(tensor_of(rows)), true},
      {StoredTensor::from(Tensor<float>(of_row, std::vector<float>(n, 1.5F))), false}};
  if (std::holds_alternative<op::LayerNormalization>(op))
    operands.emplace_back(StoredTensor::from(Tensor<float>(of_row, std::vector<float>(n, 0.25F))), false);
  return report_on(op, operands, StoredTensor::from(tensor_of(results)));
}

const LayerSummary& layer_of(const Report& report) {
  return report.comparison.layers.front();
}

/// Whether a variant is the nearest one or alike to it.
bool names(const Report& report, const std::string& variant) {
  const NearestReading& reading = layer_of(report).nearest_reading.value();
  const auto is_it = [&](const ReadingPair& pair) { return pair.variant == variant; };
  return reading.is_decisive &&
         (is_it(reading.nearest) || std::any_of(reading.alike.begin(), reading.alike.end(), is_it));
}

constexpr double layer_epsilon = 1e-5;

}  // namespace

TEST_CASE("an epsilon that is not the recorded one is named, where no bound on any order sees it" *
          doctest::test_suite("campaign")) {
  for (const std::size_t n : {768U, 4096U}) {
    const Rows rows = normal_rows(96, n, n);
    for (const float epsilon : {1e-6F, 1e-12F}) {
      NormSteps steps;
      steps.epsilon = epsilon;
      const Report report = report_on_norm(op::LayerNormalization{-1, layer_epsilon}, rows, steps);
      CHECK(names(report, epsilon == 1e-6F ? "epsilon 1e-06" : "epsilon 1e-12"));
      CHECK(report.comparison.verdict >= Status::improbable);
      if (n == 4096) CHECK(report.comparison.verdict == Status::improbable);
    }
    const Report honest = report_on_norm(op::LayerNormalization{-1, layer_epsilon}, rows, {});
    CHECK(layer_of(honest).nearest_reading->is_declared);
    CHECK_FALSE(layer_of(honest).nearest_reading->is_decisive);
    CHECK(honest.comparison.verdict <= Status::approaches);
  }
}

TEST_CASE("other mistakes of norms are named" * doctest::test_suite("campaign")) {
  const Rows rows = normal_rows(64, 2048, 3);
  NormSteps fewer, shiftless, centred, uncentred;
  fewer.divides_by_fewer = true;
  shiftless.shifts = false;
  CHECK(names(report_on_norm(op::LayerNormalization{-1, layer_epsilon}, rows, fewer), "variance divided by N - 1"));
  CHECK(names(report_on_norm(op::LayerNormalization{-1, layer_epsilon}, rows, shiftless), "shift left out"));
  uncentred.subtracts_mean = false;
  CHECK(names(report_on_norm(op::LayerNormalization{-1, layer_epsilon}, rows, uncentred), "mean not subtracted"));
  centred.shifts = false;
  CHECK(names(report_on_norm(op::RMSNormalization{-1, layer_epsilon}, rows, centred), "mean subtracted"));
}

TEST_CASE("honest norms of structured data raise no alarm, in whatever order they sum" *
          doctest::test_suite("campaign")) {
  std::mt19937_64 random(5);
  const std::vector<structured::Order> orders = structured::orders();
  std::size_t at = 0;
  for (const structured::Kind& kind : structured::kinds()) {
    Rows rows;
    for (int i = 0; i < 48; ++i) rows.push_back(kind.make(400, random).x);
    const Op ops[] = {op::LayerNormalization{-1, layer_epsilon}, op::RMSNormalization{-1, layer_epsilon}};
    for (const Op& op : ops) {
      NormSteps steps;
      steps.subtracts_mean = steps.shifts = std::holds_alternative<op::LayerNormalization>(op);
      const structured::Order& order = orders[at++ % orders.size()];
      const Report report = report_on_norm(op, rows, steps, order);
      INFO(kind.name, ", ", order.name);
      if (layer_of(report).nearest_reading) CHECK_FALSE(layer_of(report).nearest_reading->is_decisive);
      CHECK(report.comparison.verdict <= Status::undecided);
    }
  }
}

TEST_CASE("a Gelu of another form is violated, and named") {
  const Rows rows = normal_rows(20, 50, 7);
  Rows results = rows;
  for (std::vector<float>& row : results)
    for (float& x : row) x = 0.5F * x * (1.0F + std::tanh(0.7978845608F * (x + 0.044715F * x * x * x)));
  const Report report =
      report_on(op::Gelu{false}, {{StoredTensor::from(tensor_of(rows)), true}}, StoredTensor::from(tensor_of(results)));
  CHECK(report.comparison.verdict == Status::violated);
  CHECK(names(report, "Gelu by tanh"));
}

namespace {

/// Attention of one query a row, as a float32 loop computes it.
Report report_on_attention(float scale, std::int64_t keys_read) {
  constexpr std::int64_t rows = 64, keys = 1024, d = 32, width = 8;
  std::mt19937_64 random(11);
  std::normal_distribution<float> normal;
  Tensor<float> q({rows, 1, 1, d}), k({rows, 1, keys, d}), v({rows, 1, keys, width}), y({rows, 1, 1, width});
  for (Tensor<float>* tensor : {&q, &k, &v})
    for (float& x : tensor->values) x = normal(random);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<float> scores(static_cast<std::size_t>(keys_read));
    for (std::int64_t j = 0; j < keys_read; ++j) {
      float score = 0.0F;
      for (std::int64_t i = 0; i < d; ++i)
        score += q.values[static_cast<std::size_t>(row * d + i)] *
                 k.values[static_cast<std::size_t>((row * keys + j) * d + i)];
      scores[static_cast<std::size_t>(j)] = score * scale;
    }
    const float largest = *std::max_element(scores.begin(), scores.end());
    float total = 0.0F;
    for (float& score : scores) total += score = std::exp(score - largest);
    for (std::int64_t c = 0; c < width; ++c) {
      float sum = 0.0F;
      for (std::int64_t j = 0; j < keys_read; ++j)
        sum += scores[static_cast<std::size_t>(j)] / total *
               v.values[static_cast<std::size_t>((row * keys + j) * width + c)];
      y.values[static_cast<std::size_t>(row * width + c)] = sum;
    }
  }
  return report_on(op::Attention{},
                   {{StoredTensor::from(q), true}, {StoredTensor::from(k), true}, {StoredTensor::from(v), true}},
                   StoredTensor::from(y));
}

}  // namespace

TEST_CASE("a scale of attention that is off by one in d, and a key that is left out, are named" *
          doctest::test_suite("campaign")) {
  const float honest = 1.0F / std::sqrt(32.0F);
  CHECK_FALSE(layer_of(report_on_attention(honest, 1024)).nearest_reading->is_decisive);
  CHECK(names(report_on_attention(1.0F / std::sqrt(33.0F), 1024), "scale 1/sqrt(d + 1)"));
  CHECK(names(report_on_attention(honest, 1023), "last key left out"));
}

TEST_CASE("a report says which op was computed in place of the recorded one" * doctest::test_suite("campaign")) {
  NormSteps steps;
  steps.epsilon = 1e-6F;
  const Report report = report_on_norm(op::LayerNormalization{-1, layer_epsilon}, normal_rows(96, 4096, 9), steps);
  const Document document = document_of(report);
  CHECK(document.exit_status == 1);
  CHECK(to_text(document).find("computed as another op: ") != std::string::npos);
  CHECK(to_text(document).find(" times nearer than the recorded one") != std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(to_json(document));
  CHECK(schema_errors(schema_file, json) == "");
  CHECK(json["layers"][0]["nearest_reading"]["nearest"]["variant"].is_string());
}
