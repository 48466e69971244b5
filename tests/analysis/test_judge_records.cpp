#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "analysis/judge_records.hpp"
#include "analysis/report.hpp"
#include "analysis/report_parts.hpp"
#include "driftbound/num/errors.hpp"
#include "support/json_schema.hpp"
#include "support/recording.hpp"
#include "support/report_schema.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

using namespace driftbound;
using namespace driftbound::analysis;
using namespace driftbound::test;

namespace {

Tensor<float> random_floats(Shape shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensor<float> tensor(std::move(shape));
  for (float& x : tensor.values) x = static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-52 - 1.0);
  return tensor;
}

/// a b + c as a plain loop of float32 operations has it, `read` applied to every factor.
template <class Read>
Tensor<float> product(const Tensor<float>& a, const Tensor<float>& b, const Tensor<float>& c, const Read& read) {
  const auto m = static_cast<std::size_t>(a.shape[0]), k = static_cast<std::size_t>(a.shape[1]);
  const auto n = static_cast<std::size_t>(b.shape[1]);
  Tensor<float> y({a.shape[0], b.shape[1]});
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      float sum = 0.0f;
      for (std::size_t p = 0; p < k; ++p) sum += read(a.values[i * k + p]) * read(b.values[p * n + j]);
      y.values[i * n + j] = sum + c.values[j];
    }
  return y;
}

float unrounded(float x) {
  return x;
}
float in_tf32(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & ~std::uint32_t{0x1fff});
}

/// x W + b, its Relu, and the softmax of that.
struct Network {
  Tensor<float> x = random_floats({9, 64}, 1), w = random_floats({64, 20}, 2), b = random_floats({20}, 3);
  Tensor<float> product_of = product(x, w, b, unrounded), rectified = product_of, weights = product_of;

  Network() {
    for (float& y : rectified.values) y = std::max(y, 0.0f);
    for (std::size_t row = 0; row < 9; ++row) {
      float* line = weights.values.data() + 20 * row;
      const float* scores = rectified.values.data() + 20 * row;
      const float largest = *std::max_element(scores, scores + 20);
      float sum = 0.0f;
      for (int j = 0; j < 20; ++j) sum += line[j] = std::exp(scores[j] - largest);
      for (int j = 0; j < 20; ++j) line[j] /= sum;
    }
  }

  RecordingWriter recording() const {
    RecordingWriter writer;
    writer.value("x", StoredTensor::from(x));
    writer.value("w", StoredTensor::from(w));
    writer.value("b", StoredTensor::from(b));
    writer.value("p", StoredTensor::from(product_of));
    writer.value("r", StoredTensor::from(rectified));
    writer.value("s", StoredTensor::from(weights));
    writer.record("aten::addmm", {"b", "x", "w"}, {"p"}, {{"alpha", 1}, {"beta", 1}}, "net.fc");
    writer.record("aten::relu", {"p"}, {"r"}, {}, "net.act");
    writer.record("aten::_softmax", {"r"}, {"s"}, {{"dim", 1}, {"half_to_float", false}}, "net");
    return writer;
  }
};

Comparison judged(const RecordingWriter& writer, const AuditOptions& audit = {}) {
  const TemporaryFolder folder;
  RecordingWriter copy = writer;
  copy.write(folder.path() / "run.safetensors");
  const RecordedRun run(folder.path() / "run.safetensors");
  return judge_records(run, {}, audit).comparison;
}

/// The same with errors from the input on.
Comparison judged_from_input(const RecordingWriter& writer, const JudgeOptions& options = {},
                             std::int64_t most_numbers = std::int64_t{1} << 30) {
  const TemporaryFolder folder;
  RecordingWriter copy = writer;
  copy.write(folder.path() / "run.safetensors");
  const RecordedRun run(folder.path() / "run.safetensors");
  Judgement judgement = judge_records(run, options);
  judge_from_input(run, chain_records(run, most_numbers), options, judgement);
  return judgement.comparison;
}

Document document(const Comparison& comparison) {
  Report report;
  report.context.model_file = "run.safetensors";
  report.comparison = comparison;
  return document_of(report);
}

}  // namespace

TEST_CASE("An audit finds the one wrong element of a product of 100,000") {
  const Tensor<float> x = random_floats({256, 48}, 1), w = random_floats({48, 400}, 2), b = random_floats({400}, 3);
  Tensor<float> y = product(x, w, b, unrounded);
  const auto recorded = [&] {
    RecordingWriter writer;
    writer.value("x", StoredTensor::from(x));
    writer.value("w", StoredTensor::from(w));
    writer.value("b", StoredTensor::from(b));
    writer.value("y", StoredTensor::from(y));
    writer.record("aten::addmm", {"b", "x", "w"}, {"y"}, {{"alpha", 1}, {"beta", 1}}, "fc");
    return writer;
  };
  CHECK(judged(recorded(), {20, 1}).verdict <= Status::approaches);
  float& wrong = y.values[static_cast<std::size_t>(400 * 77 + 123)];
  wrong += 1e-3f;
  const Comparison comparison = judged(recorded(), {20, 1});
  CHECK(comparison.verdict == Status::violated);
  REQUIRE(comparison.layers.front().local.worst);
  CHECK(comparison.layers.front().local.worst->element == 400 * 77 + 123);
}

TEST_CASE("An honest run holds, record by record, whole and by drawn elements") {
  for (const std::int64_t draws : {0, 30}) {
    const Comparison comparison = judged(Network().recording(), {draws, 1});
    CHECK(comparison.verdict <= Status::approaches);
    REQUIRE(comparison.layers.size() == 3);
    CHECK(comparison.layers[0].name == "net.fc/aten::addmm");
    CHECK(comparison.layers[0].record->module == "net.fc");
    CHECK(comparison.layers[0].fan_in == 64);
    CHECK(comparison.layers[2].op == "Softmax");
    for (const LayerSummary& layer : comparison.layers) {
      CHECK(layer.checked == layer.compared);
      CHECK(layer.compared == layer.record->judged);
      if (draws == 0) CHECK(layer.record->judged == 180);
    }
    CHECK(exit_status(comparison, {}) == 0);
  }
}

TEST_CASE("The JSON of a recorded run satisfies the schema") {
  const Document made = document(judged(Network().recording(), {30, 1}));
  CHECK(schema_errors(schema_file, made.fields) == "");
  CHECK(made.fields["recording"]["records"] == 3);
  CHECK(made.fields["layers"][0]["record"]["op"] == "aten::addmm");
}

TEST_CASE("A wrong element is found where it is, in every kind of record") {
  const std::vector<std::pair<std::string, std::size_t>> faults = {{"p", 47}, {"r", 133}, {"s", 179}};
  for (std::size_t record = 0; record < faults.size(); ++record) {
    Network network;
    for (float& y : network.rectified.values) y = std::max(y, 0.25f);
    Network honest;
    RecordingWriter writer;
    Tensor<float>* const tensors[] = {&honest.product_of, &honest.rectified, &honest.weights};
    float& wrong = tensors[record]->values[faults[record].second];
    wrong += 0.01f;
    writer = honest.recording();
    const Comparison comparison = judged(writer);
    CHECK(comparison.verdict == Status::violated);
    CHECK(comparison.layers[record].status == Status::violated);
    const BoundSummary* const bound = find_bound(comparison.layers[record].local, BoundKind::componentwise);
    REQUIRE(bound != nullptr);
    CHECK(bound->violations == 1);
    CHECK(bound->worst->element == static_cast<std::int64_t>(faults[record].second));
    CHECK(bound->worst->sample == 0);
    CHECK(exit_status(comparison, {}) == 2);
  }
}

TEST_CASE("The worst element of drawn ones is named by its number in the whole result") {
  Network network;
  for (float& y : network.product_of.values) y += 0.5f;
  const Comparison comparison = judged(network.recording(), {10, 4});
  const BoundSummary* const bound = find_bound(comparison.layers[0].local, BoundKind::componentwise);
  REQUIRE(bound->worst);
  const auto element = static_cast<std::size_t>(bound->worst->element);
  REQUIRE(element < 180);
  CHECK(bound->worst->computed == static_cast<double>(network.product_of.values[element]));
}

TEST_CASE("A product in TF32 that is declared float32 is named, in whole records and in drawn elements") {
  const Tensor<float> a = random_floats({24, 512}, 11), b = random_floats({512, 24}, 12);
  const Tensor<float> y = product(a, b, Tensor<float>({24}), in_tf32);
  RecordingWriter writer;
  writer.value("a", StoredTensor::from(a));
  writer.value("b", StoredTensor::from(b));
  writer.value("y", StoredTensor::from(y));
  writer.record("aten::mm", {"a", "b"}, {"y"});
  for (const std::int64_t draws : {0, 200}) {
    const Comparison comparison = judged(writer, {draws, 1});
    CHECK(comparison.verdict >= Status::improbable);
    REQUIRE(comparison.layers[0].nearest_reading);
    CHECK(comparison.layers[0].nearest_reading->is_decisive);
    CHECK(comparison.layers[0].nearest_reading->nearest.left == OperandReading::tf32_cut);
    CHECK(comparison.layers[0].nearest_reading->nearest.right == OperandReading::tf32_cut);
    CHECK(exit_status(comparison, {}) != 0);
    writer.last_record()["arithmetic"] = "tf32 (cut)";
    writer.metadata()["arithmetics"] =
        nlohmann::json{{"tf32 (cut)",
                        {{"name", "tf32 (cut)"},
                         {"input", "tf32"},
                         {"accumulator", "fp32"},
                         {"output", "fp32"},
                         {"tensor_core", {{"fraction_bits", 23}, {"block", 4}, {"cuts_operands", true}}}}}}
            .dump();
    CHECK(judged(writer, {draws, 1}).verdict <= Status::approaches);
    writer.last_record().erase("arithmetic");
  }
}

TEST_CASE("A kernel that nobody declared is named, with the declaration by which the run holds") {
  const auto in_bf16 = [](float x) {
    return static_cast<float>(round_to(static_cast<double>(x), format(FormatId::bf16), Rounding::nearest_even));
  };
  const Tensor<float> a = random_floats({24, 512}, 13), b = random_floats({512, 24}, 14);
  RecordingWriter writer;
  writer.value("a", StoredTensor::from(a));
  writer.value("b", StoredTensor::from(b));
  writer.value("y", StoredTensor::from(product(a, b, Tensor<float>({24}), in_bf16)));
  writer.record("aten::mm", {"a", "b"}, {"y"});
  const auto judged_with_kernels = [&] {
    const TemporaryFolder folder;
    writer.write(folder.path() / "run.safetensors");
    JudgeOptions options;
    options.kernel_searches = KernelSearches::all;
    return judge_records(RecordedRun(folder.path() / "run.safetensors"), options).comparison;
  };
  const Comparison comparison = judged_with_kernels();
  CHECK(comparison.verdict >= Status::improbable);  // float32 is what is judged
  const std::string text = undeclared_kernel(comparison, comparison.run->arithmetics);
  CHECK(contains(text, "Nothing was declared, fp32 is assumed, and all bits of the product are those of bf16, "));
  const std::size_t first = text.find("declare {") + 8, last = text.find(" as the arithmetic");
  REQUIRE(last != std::string::npos);
  const auto declaration = nlohmann::json::parse(text.substr(first, last - first));
  writer.last_record()["arithmetic"] = declaration["name"];
  writer.metadata()["arithmetics"] = nlohmann::json{{declaration["name"].get<std::string>(), declaration}}.dump();
  const Comparison declared = judged_with_kernels();
  CHECK(declared.verdict <= Status::approaches);
  CHECK(undeclared_kernel(declared, declared.run->arithmetics) == "");
}

TEST_CASE(
    "Results stored in bfloat16 are judged as stored, and float32 results that were rounded to it are not honest") {
  const Tensor<float> a = random_floats({6, 40}, 5), b = random_floats({40, 6}, 6);
  const Tensor<float> y = product(a, b, Tensor<float>({6}), unrounded);
  std::vector<std::byte> bytes;
  Tensor<float> widened = y;
  for (float& one : widened.values) {
    auto bits = std::bit_cast<std::uint32_t>(one);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    one = std::bit_cast<float>(bits);
    bytes.push_back(static_cast<std::byte>(bits >> 16 & 0xff));
    bytes.push_back(static_cast<std::byte>(bits >> 24));
  }
  RecordingWriter writer;
  writer.value("a", StoredTensor::from(a));
  writer.value("b", StoredTensor::from(b));
  RecordingWriter in_float32 = writer;
  writer.value("y", StoredTensor(ElementType::bf16, {6, 6}, bytes));
  writer.record("aten::mm", {"a", "b"}, {"y"});
  CHECK(judged(writer).verdict <= Status::approaches);
  in_float32.value("y", StoredTensor::from(widened));
  in_float32.record("aten::mm", {"a", "b"}, {"y"});
  CHECK(judged(in_float32).verdict == Status::violated);
}

TEST_CASE("What is not judged is counted, named once, and does not stop the rest") {
  RecordingWriter writer = Network().recording();
  writer.record("aten::fft", {"x"}, {"x2"});
  writer.record("aten::fft", {"x"}, {"x3"});
  writer.record("aten::relu", {"nowhere"}, {"r"});
  writer.value("x2", StoredTensor::from(random_floats({9, 64}, 4)));
  writer.value("x3", StoredTensor::from(random_floats({9, 64}, 5)));
  const Comparison comparison = judged(writer);
  CHECK(comparison.verdict <= Status::approaches);
  REQUIRE(comparison.run);
  CHECK(comparison.run->not_judged == 3);
  REQUIRE(comparison.run->reasons.size() == 2);
  CHECK(comparison.run->reasons[0].op == "aten::fft");
  CHECK(comparison.run->reasons[0].count == 2);
  CHECK(contains(comparison.run->reasons[1].why, "'nowhere' is not in the recording"));
}

TEST_CASE("Where nothing can be judged, the reasons are given") {
  RecordingWriter writer;
  writer.value("x", StoredTensor::from(random_floats({3}, 1)));
  writer.value("y", StoredTensor::from(random_floats({3}, 2)));
  writer.record("aten::fft", {"x"}, {"y"});
  CHECK_THROWS_WITH_AS(judged(writer), doctest::Contains("does not know the op 'aten::fft'"), Unsupported);
  CHECK_THROWS_WITH_AS(judged(RecordingWriter()), doctest::Contains("it has no records"), Unsupported);
}

TEST_CASE("A value that is no number where the op has one is void") {
  Network network;
  network.rectified.values[7] = std::numeric_limits<float>::quiet_NaN();
  RecordingWriter writer;
  writer.value("p", StoredTensor::from(network.product_of));
  writer.value("r", StoredTensor::from(network.rectified));
  writer.record("aten::relu", {"p"}, {"r"});
  const Comparison comparison = judged(writer);
  CHECK(comparison.verdict == Status::invalid);
  CHECK(comparison.layers[0].first_void->element == 7);
}

TEST_CASE("Elements drawn at random miss a share of violations with the stated probability") {
  CHECK(share_missed_with(1e-9, 2000) == doctest::Approx(0.0103082).epsilon(1e-5));
  CHECK(std::pow(1.0 - share_missed_with(1e-9, 57), 57) == doctest::Approx(1e-9));
  CHECK(share_missed_with(1e-9, 0) == 1.0);
}

TEST_CASE("The order in which records are judged side by side changes nothing") {
  const TemporaryFolder folder;
  RecordingWriter writer = Network().recording();
  writer.write(folder.path() / "run.safetensors");
  const RecordedRun run(folder.path() / "run.safetensors");
  JudgeOptions one, two;
  two.precision.threads = 2;
  const auto of = [&](const JudgeOptions& options) {
    nlohmann::json fields = document(judge_records(run, options).comparison).fields;
    for (auto& layer : fields["layers"])
      for (auto& bound : layer["local"]["bounds"]) bound.erase("seconds");
    return fields["layers"];
  };
  CHECK(of(one) == of(two));
}

TEST_CASE("Where records chain, errors from the input on are measured and bounded, layer by layer and at the output") {
  const Network network;
  const Comparison comparison = judged_from_input(network.recording());
  CHECK(comparison.verdict <= Status::approaches);
  CHECK(comparison.run->from_input == 3);
  CHECK(comparison.run->not_from_input == "");
  // The network in double from the input on, by loops of this file.
  double largest_of_product = 0.0, largest_of_weights = 0.0;
  for (std::size_t row = 0; row < 9; ++row) {
    std::vector<double> y(20);
    double sum = 0.0;
    for (std::size_t j = 0; j < 20; ++j) {
      y[j] = static_cast<double>(network.b.values[j]);
      for (std::size_t p = 0; p < 64; ++p)
        y[j] += static_cast<double>(network.x.values[64 * row + p]) * static_cast<double>(network.w.values[20 * p + j]);
      const auto recorded = static_cast<double>(network.product_of.values[20 * row + j]);
      largest_of_product = std::max(largest_of_product, std::abs(recorded - y[j]));
      sum += std::exp(std::max(y[j], 0.0));
    }
    for (std::size_t j = 0; j < 20; ++j) {
      const auto recorded = static_cast<double>(network.weights.values[20 * row + j]);
      largest_of_weights = std::max(largest_of_weights, std::abs(recorded - std::exp(std::max(y[j], 0.0)) / sum));
    }
  }
  REQUIRE(comparison.layers.size() == 3);
  CHECK(comparison.layers[0].accumulated.max_error == doctest::Approx(largest_of_product).epsilon(1e-6));
  CHECK(comparison.layers[2].accumulated.max_error == doctest::Approx(largest_of_weights).epsilon(1e-6));
  for (const LayerSummary& layer : comparison.layers) {
    const BoundSummary* const forward = find_bound(layer.accumulated, BoundKind::forward);
    REQUIRE(forward != nullptr);
    CHECK(forward->max_bound >= layer.accumulated.max_error);
    CHECK(forward->violations == 0);
  }
  REQUIRE(comparison.outputs.size() == 1);
  CHECK(comparison.outputs[0].name == "net/aten::_softmax");
  CHECK(comparison.outputs[0].scope.max_error == comparison.layers[2].accumulated.max_error);
  CHECK(schema_errors(schema_file, document(comparison).fields) == "");
}

TEST_CASE("A fault that records hand on is named where it is, and explains what follows") {
  Network network;
  for (float& y : network.product_of.values) y += 0.01f;
  Network honest = network;
  for (std::size_t i = 0; i < honest.rectified.size(); ++i)
    honest.rectified.values[i] = std::max(honest.product_of.values[i], 0.0f);
  RecordingWriter writer;
  writer.value("x", StoredTensor::from(honest.x));
  writer.value("w", StoredTensor::from(honest.w));
  writer.value("b", StoredTensor::from(honest.b));
  writer.value("p", StoredTensor::from(honest.product_of));
  writer.value("r", StoredTensor::from(honest.rectified));
  writer.record("aten::addmm", {"b", "x", "w"}, {"p"}, {}, "fc");
  writer.record("aten::relu", {"p"}, {"r"}, {}, "act");
  const Comparison comparison = judged_from_input(writer);
  CHECK(comparison.verdict == Status::violated);
  CHECK(comparison.layers[0].status == Status::violated);
  CHECK(find_bound(comparison.layers[1].local, BoundKind::componentwise)->violations == 0);
  CHECK(find_bound(comparison.layers[1].accumulated, BoundKind::forward)->violations > 0);
  CHECK(comparison.layers[1].explained_by == "fc/aten::addmm");
}

TEST_CASE("Parts of an error are those of the records") {
  JudgeOptions options;
  options.bounds = {BoundKind::adjoint_any_order, Diagnostic::attribution};
  const TemporaryFolder folder;
  RecordingWriter writer = Network().recording();
  writer.write(folder.path() / "run.safetensors");
  const RecordedRun run(folder.path() / "run.safetensors");
  const RecordChain chain = chain_records(run, std::int64_t{1} << 30);
  options.scalars = {parse_scalar(chain.graph, "net/aten::_softmax[7]")};
  Judgement judgement = judge_records(run, options);
  judge_from_input(run, chain, options, judgement);
  const Comparison& comparison = judgement.comparison;
  REQUIRE(comparison.outputs.size() == 2);
  REQUIRE(comparison.outputs[1].breakdown);
  const Breakdown& parts = *comparison.outputs[1].breakdown;
  REQUIRE(parts.layers.size() == comparison.layers.size());
  double sum = parts.inputs;
  for (std::size_t i = 0; i < parts.layers.size(); ++i) {
    CHECK(parts.layers[i].layer == comparison.layers[i].name);
    sum += parts.layers[i].part;
  }
  CHECK(sum == doctest::Approx(parts.error).epsilon(0.02));
}

TEST_CASE("Why nothing is judged from the input on is said") {
  const Comparison comparison = judged_from_input(Network().recording(), {}, 10);
  CHECK(comparison.run->from_input == 0);
  CHECK(contains(comparison.run->not_from_input, "more than 10 numbers"));
  CHECK(comparison.verdict <= Status::approaches);
  CHECK(comparison.outputs.empty());
  CHECK(document(comparison).fields["recording"]["from_input"]["reason"].is_string());
}

/// x w with rows of 2048 products in one fused chain, those from `first_in_lanes` on in two lanes in turn.
struct LongSums {
  static constexpr std::int64_t k = 2048;
  Graph graph;
  Trace trace;

  LongSums(std::int64_t rows, std::int64_t first_in_lanes) {
    const Tensor<float> x = random_floats({rows, k}, 21), w = random_floats({k, 1}, 22);
    Tensor<float> y({rows, 1});
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::size_t lanes = row < first_in_lanes ? 1 : 2;
      float sums[2] = {};
      for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i)
        sums[i % lanes] = std::fma(x.values[static_cast<std::size_t>(row * k) + i], w.values[i], sums[i % lanes]);
      y.values[static_cast<std::size_t>(row)] = lanes == 1 ? sums[0] : sums[0] + sums[1];
    }
    const ValueId input = graph.add_input("x", ElementType::f32, {{-1, "rows"}, {k, ""}});
    graph.outputs = {graph.add_node("y", op::MatMul{}, {input, graph.add_constant("w", StoredTensor::from(w))})};
    trace.arithmetic = cpu_arithmetic("fp32", {});
    trace.samples = rows;
    trace.inputs.tensors.emplace_back("x", StoredTensor::from(x));
    trace.layers = {{"y", StoredTensor::from(y)}};
  }

  Comparison judged_alone() const {
    JudgeOptions options;
    options.kernel_searches = KernelSearches::all;
    Comparer comparer(graph, {}, options.threshold);
    FoundInParts kernels(1, options, comparer);
    search_layers_alone(graph, trace, kernels);
    add_layers_alone(graph, trace, options, 0, kernels.arithmetics(trace.arithmetic), comparer);
    return comparer.finish(options.failure_probability);
  }
};

TEST_CASE("Bounds take an order that was found only where it gives the whole result") {
  const auto running = [](const Comparison& comparison) {
    return find_bound(comparison.layers.front().local, BoundKind::running);
  };
  const Comparison whole = LongSums(40, 40).judged_alone();
  CHECK(whole.layers.front().kernel->kernel.has_value());
  REQUIRE(running(whole) != nullptr);
  CHECK(running(whole)->violations == 0);
  const Comparison in_parts = LongSums(1100, 1050).judged_alone();  // more rows than are judged at a time
  CHECK(in_parts.verdict <= Status::approaches);
  CHECK(running(in_parts) == nullptr);
  CHECK(find_bound(in_parts.layers.front().local, BoundKind::componentwise)->violations == 0);
}

/// Scores of attention as they are recorded op by op: eight products of [40, 48] with [48, 40], each sum a chain, or two
/// lanes from one batch on. `flipped`: a number whose last bit is another one.
Comparison judged_scores(std::size_t in_lanes_from, std::optional<std::size_t> flipped = {}) {
  constexpr std::size_t batches = 8, rows = 40, k = 48;
  std::mt19937 random(39);
  std::normal_distribution<float> normal;
  const auto numbers = [&](const Shape& shape) {
    Tensor<float> tensor(shape);
    for (float& x : tensor.values) x = normal(random);
    return tensor;
  };
  const Tensor<float> q = numbers({batches, rows, k}), key = numbers({batches, k, rows});
  Tensor<float> scores({batches, rows, rows});
  for (std::size_t e = 0; e < scores.values.size(); ++e) {
    const std::size_t batch = e / (rows * rows), row = e / rows % rows, lanes = batch < in_lanes_from ? 1 : 2;
    float sums[2] = {};
    for (std::size_t i = 0; i < k; ++i)
      sums[i % lanes] = std::fma(q.values[(batch * rows + row) * k + i], key.values[(batch * k + i) * rows + e % rows],
                                 sums[i % lanes]);
    scores.values[e] = lanes == 1 ? sums[0] : sums[0] + sums[1];
  }
  if (flipped) scores.values[*flipped] = std::nextafter(scores.values[*flipped], 0.0F);
  const TemporaryFolder folder;
  RecordingWriter writer;
  writer.value("q", StoredTensor::from(q));
  writer.value("k", StoredTensor::from(key));
  writer.value("scores", StoredTensor::from(scores));
  writer.record("aten::bmm", {"q", "k"}, {"scores"});
  writer.write(folder.path() / "run.safetensors");
  JudgeOptions options;
  options.kernel_searches = KernelSearches::all;
  return judge_records(RecordedRun(folder.path() / "run.safetensors"), options).comparison;
}

TEST_CASE("The kernel of a product of several batches is found with the factors of each, and bounds take its order") {
  const Comparison all = judged_scores(8);
  const LayerSummary& layer = all.layers.front();
  REQUIRE(layer.kernel.has_value());
  REQUIRE(layer.kernel->kernel.has_value());
  CHECK(layer.kernel->compared == 8 * 40 * 40);
  CHECK(layer.kernel->equal_bits == 8 * 40 * 40);
  const BoundSummary* running = find_bound(layer.local, BoundKind::running);
  REQUIRE(running != nullptr);
  CHECK(running->checked == 8 * 40 * 40);
  CHECK(running->violations == 0);
  CHECK(running->max_bound < 0.5 * find_bound(layer.local, BoundKind::componentwise)->max_bound);

  const Comparison others = judged_scores(5);  // the last batches are added in two lanes
  CHECK_FALSE(others.layers.front().kernel->kernel.has_value());
  CHECK(find_bound(others.layers.front().local, BoundKind::running) == nullptr);
  CHECK(others.verdict <= Status::approaches);

  constexpr std::size_t flipped = 6 * 40 * 40 + 123;
  const Comparison changed = judged_scores(8, flipped);
  REQUIRE(changed.layers.front().kernel->nearest.has_value());
  CHECK(changed.layers.front().kernel->nearest->differing == 1);
  CHECK(changed.layers.front().kernel->nearest->first == flipped);
  CHECK(find_bound(changed.layers.front().local, BoundKind::running) == nullptr);
}

TEST_CASE(
    "A softmax over scores of which some are the least number and others minus infinity is decided, and a fault is "
    "found") {
  constexpr float least = std::numeric_limits<float>::lowest(), none = -std::numeric_limits<float>::infinity();
  const Tensor<float> x({3, 4}, {least, none, none, none,  // a row of padding
                                 least, 0.5F, none, none, least, -1.25F, 2.0F, none});
  const auto softmax_of = [&](float factor) {
    Tensor<float> y = x;
    for (std::size_t row = 0; row < 3; ++row) {
      float* of_row = y.values.data() + 4 * row;
      const float largest = *std::max_element(of_row, of_row + 4);
      float sum = 0.0F;
      for (std::size_t i = 0; i < 4; ++i) sum += of_row[i] = std::exp(of_row[i] - largest);
      for (std::size_t i = 0; i < 4; ++i) of_row[i] = of_row[i] / sum * (row == 2 && i == 1 ? factor : 1.0F);
    }
    return y;
  };
  for (const float factor : {1.0F, 1.0F + 0x1p-18F}) {
    const TemporaryFolder folder;
    RecordingWriter writer;
    writer.value("x", StoredTensor::from(x));
    writer.value("y", StoredTensor::from(softmax_of(factor)));
    writer.record("aten::_softmax", {"x"}, {"y"}, {{"dim", 1}, {"half_to_float", false}});
    writer.write(folder.path() / "run.safetensors");
    const Comparison comparison =
        judge_records(RecordedRun(folder.path() / "run.safetensors"), JudgeOptions()).comparison;
    if (factor == 1.0F)
      CHECK(comparison.verdict <= Status::approaches);
    else
      CHECK(comparison.verdict == Status::violated);
  }
}
