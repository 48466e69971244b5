#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/evaluate/evaluate_as.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/trace/record_parts.hpp"
#include "support/recording.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

using namespace driftbound;
using namespace driftbound::test;

// A part of a record is compared with the whole record: both graphs are evaluated in double, and every element of every
// part is the element of the whole result that it says it is.

namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

class Numbers {
public:
  double real() { return static_cast<double>(static_cast<std::int64_t>(random_() % 2001) - 1000) / 512.0; }
  Tensor<double> tensor(Shape shape) {
    Tensor<double> result(std::move(shape));
    for (double& x : result.values) x = real();
    return result;
  }
  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(end));
  }

private:
  std::mt19937_64 random_{7};
};

struct Call {
  std::string op;
  std::vector<std::optional<StoredTensor>> operands;
  nlohmann::json attributes = nlohmann::json::object();
};

/// What the call computes, in double, by its whole graph.
std::vector<std::optional<Tensor<double>>> results_of(const Call& call) {
  RecordedCall recorded{call.op, 21, {}, {}};
  for (const auto& item : call.attributes.items()) {
    Attribute attribute;
    if (item.value().is_boolean()) attribute.value = item.value().get<bool>();
    if (item.value().is_number_integer()) attribute.value = item.value().get<std::int64_t>();
    if (item.value().is_number_float()) attribute.value = item.value().get<double>();
    if (item.value().is_string()) attribute.value = item.value().get<std::string>();
    if (item.value().is_array()) {
      Attribute::List list;
      for (const auto& element : item.value()) list.emplace_back().value = element.get<std::int64_t>();
      attribute.value = std::move(list);
    }
    recorded.attributes.emplace(item.key(), attribute);
  }
  for (const auto& operand : call.operands) {
    if (!operand) {
      recorded.operands.emplace_back();
      continue;
    }
    recorded.operands.push_back(CallOperand{operand->type(), operand->shape(), [&operand] { return *operand; }});
  }
  const CallMeaning meaning = meaning_of(recorded);
  Inputs inputs;
  for (std::size_t i = 0; i < meaning.slots.size(); ++i)
    inputs.tensors.emplace_back(meaning.graph.value(meaning.graph.inputs[i]).name, *call.operands[meaning.slots[i]]);
  const std::vector<Tensor<double>> values = evaluate_as<double>(meaning.graph, inputs);
  std::vector<Shape> given;
  for (const std::size_t slot : meaning.slots) given.push_back(call.operands[slot]->shape());
  const std::vector<Shape> shapes = infer_shapes(meaning.graph, given);
  std::vector<std::optional<Tensor<double>>> results;
  for (const auto& id : meaning.results) {
    if (!id) {
      results.emplace_back();
      continue;
    }
    const auto producer = meaning.graph.producer(*id);
    if (producer) {
      results.emplace_back(Tensor<double>(shapes[*id], values[*producer].values));  // without the axis of samples
    } else {
      const auto at = std::find(meaning.graph.inputs.begin(), meaning.graph.inputs.end(), *id);
      const std::size_t slot = meaning.slots[static_cast<std::size_t>(at - meaning.graph.inputs.begin())];
      results.emplace_back(call.operands[slot]->to_double());
    }
  }
  return results;
}

bool are_close(double a, double b) {
  return a == b || std::abs(a - b) <= 1e-12 * (1.0 + std::abs(b));
}

/// Holds the parts against the whole. Returns the elements that parts have, by result.
std::vector<std::set<std::int64_t>> check_parts(const RecordedRun& run, std::size_t record,
                                                const std::vector<std::optional<Tensor<double>>>& whole,
                                                const CutOptions& options,
                                                std::vector<ResultCoverage>* coverage = nullptr) {
  std::vector<std::set<std::int64_t>> seen(whole.size());
  std::vector<double> shares(whole.size(), 0.0);
  const std::vector<ResultCoverage> covered = cut_record(run, record, options, [&](RecordPart&& part) {
    const std::vector<Tensor<double>> values = evaluate_as<double>(part.graph, part.trace.inputs);
    REQUIRE(values.size() == 1);
    const Tensor<double> recorded = part.trace.layers.at(0).output.to_double();
    REQUIRE(recorded.size() == values[0].size());
    REQUIRE(part.places.size() == static_cast<std::size_t>(part.trace.samples));
    const std::size_t of_sample = recorded.size() / part.places.size();
    const std::vector<double>& expected = whole.at(part.result)->values;
    for (std::size_t i = 0; i < recorded.size(); ++i) {
      const std::int64_t place =
          part.place_of(static_cast<std::int64_t>(i / of_sample), static_cast<std::int64_t>(i % of_sample));
      const double exact = expected.at(static_cast<std::size_t>(place));
      CHECK(are_close(values[0].values[i], exact));
      CHECK(recorded.values[i] == static_cast<double>(static_cast<float>(exact)));
      CHECK(seen[part.result].insert(place).second);
    }
    shares[part.result] += part.share;
    return true;
  });
  for (const ResultCoverage& one : covered) {
    CAPTURE(one.why_not);
    CHECK(one.judged == static_cast<std::int64_t>(seen.at(one.result).size()));
    if (one.judged > 0) CHECK(shares[one.result] <= 1.0 + 1e-9);
  }
  if (coverage != nullptr) *coverage = covered;
  return seen;
}

StoredTensor in_float32(const Tensor<double>& tensor) {
  Tensor<float> narrow(tensor.shape);
  for (std::size_t i = 0; i < tensor.size(); ++i) narrow.values[i] = static_cast<float>(tensor.values[i]);
  return StoredTensor::from(narrow);
}

/// Writes a recording of one call with all its results whole, and returns what its results are.
std::vector<std::optional<Tensor<double>>> write_call(const Call& call, RecordingWriter& writer) {
  const auto results = results_of(call);
  RecordingWriter::Ids operands, ids;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    operands.push_back(call.operands[i] ? std::optional("x" + std::to_string(i)) : std::nullopt);
    if (call.operands[i]) writer.value(*operands.back(), *call.operands[i]);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    ids.push_back(results[i] ? std::optional("y" + std::to_string(i)) : std::nullopt);
    if (results[i]) writer.value(*ids.back(), in_float32(*results[i]));
  }
  writer.record(call.op, operands, ids, call.attributes);
  return results;
}

std::vector<Call> calls() {
  Numbers numbers;
  const auto x = [&](Shape shape) { return std::optional(in_float32(numbers.tensor(std::move(shape)))); };
  const auto integers = [&](Shape shape, std::int64_t below) {
    Tensor<std::int64_t> tensor(std::move(shape));
    for (std::int64_t& i : tensor.values) i = numbers.below(below);
    return std::optional(StoredTensor::from(tensor));
  };
  const auto truths = [&](Shape shape) {
    std::vector<std::byte> bytes;
    for (std::int64_t i = 0; i < element_count(shape); ++i) bytes.push_back(std::byte{numbers.below(3) != 0});
    return std::optional(StoredTensor(ElementType::boolean, std::move(shape), std::move(bytes)));
  };
  return {
      {"aten::add", {x({3, 4, 5}), x({4, 1})}, {{"alpha", 0.5}}},
      {"aten::mul", {x({6, 7})}, {{"other", 0.125}}},
      {"aten::gelu", {x({5, 9})}, {{"approximate", "tanh"}}},
      {"aten::addcmul", {x({4, 6}), x({6}), x({4, 1})}, {{"value", 2.0}}},
      {"aten::mm", {x({7, 5}), x({5, 6})}},
      {"aten::addmm", {x({6}), x({7, 5}), x({5, 6})}},
      {"aten::addmm", {x({7, 1}), x({7, 5}), x({5, 6})}, {{"alpha", 0.25}, {"beta", 2.0}}},
      {"aten::addmm", {x({7, 6}), x({7, 5}), x({5, 6})}},
      {"aten::addmm", {x({}), x({7, 5}), x({5, 6})}},
      {"aten::baddbmm", {x({3, 1, 6}), x({3, 7, 5}), x({3, 5, 6})}},
      {"aten::bmm", {x({3, 7, 5}), x({3, 5, 6})}},
      {"aten::matmul", {x({2, 1, 4, 5}), x({3, 5, 6})}},
      {"aten::linear", {x({2, 3, 5}), x({6, 5}), x({6})}},
      {"aten::addmv", {x({6}), x({6, 5}), x({5})}, {{"beta", 0.5}}},
      {"Gemm", {x({5, 7}), x({6, 5}), x({6})}, {{"transA", 1}, {"transB", 1}, {"alpha", 0.5}}},
      {"aten::_softmax", {x({4, 6, 5})}, {{"dim", -1}, {"half_to_float", false}}},
      {"aten::_softmax", {x({4, 6, 5})}, {{"dim", 1}, {"half_to_float", false}}},
      {"aten::_log_softmax", {x({4, 6})}, {{"dim", 1}}},
      {"aten::native_layer_norm", {x({3, 4, 6}), x({6}), x({6})}, {{"normalized_shape", {6}}, {"eps", 1e-3}}},
      {"aten::native_layer_norm",
       {x({3, 4, 6}), x({4, 6}), std::nullopt},
       {{"normalized_shape", {4, 6}}, {"eps", 1e-3}}},
      {"aten::_fused_rms_norm", {x({5, 6}), x({6})}, {{"normalized_shape", {6}}, {"eps", 1e-3}}},
      {"_C::fused_add_rms_norm", {x({5, 6}), x({5, 6}), x({6})}, {{"epsilon", 1e-3}}},
      {"_C::silu_and_mul", {x({5, 8})}},
      {"aten::native_group_norm", {x({2, 4, 3}), x({4}), x({4})}, {{"group", 2}, {"eps", 1e-3}}},
      {"aten::sum", {x({3, 4, 5})}, {{"dim", {1}}, {"keepdim", false}}},
      {"aten::mean", {x({3, 4, 5})}, {{"dim", {0, 2}}, {"keepdim", true}}},
      {"aten::amax", {x({3, 4, 5})}, {{"dim", {-1}}}},
      {"aten::_scaled_dot_product_flash_attention",
       {x({2, 4, 5, 3}), x({2, 4, 6, 3}), x({2, 4, 6, 2})},
       {{"is_causal", true}}},
      {"aten::scaled_dot_product_attention",
       {x({2, 4, 5, 3}), x({2, 2, 6, 3}), x({2, 2, 6, 2}), x({5, 6})},
       {{"scale", 0.5}}},
      {"aten::scaled_dot_product_attention", {x({4, 5, 3}), x({4, 6, 3}), x({4, 6, 2}), truths({4, 5, 6})}},
      {"aten::embedding", {x({9, 4}), integers({2, 5}, 9)}},
      {"aten::masked_fill", {x({4, 6}), truths({4, 1})}, {{"value", -5.0}}},
      {"aten::cat", {x({2, 3}), x({2, 4})}, {{"dim", 1}}},
      {"aten::where", {truths({4, 6}), x({4, 6}), x({6})}},
      {"c10d::all_reduce", {x({4, 6}), x({4, 6}), x({4, 6})}},
      {"c10d::all_reduce", {x({24}), x({24}), x({24}), x({24})}, {{"reduce", "mean"}}},
      {"aten::convolution", {x({2, 4, 6}), x({3, 4, 3}), x({3})}, {{"stride", {2}}, {"padding", {1}}}},
      {"aten::_adaptive_avg_pool2d", {x({1, 4, 6, 9})}, {{"output_size", {2, 3}}}},
      {"aten::native_group_norm", {x({1, 4, 3}), x({4}), x({4})}, {{"group", 2}, {"eps", 1e-3}}},
      {"aten::_softmax", {x({1, 6, 5})}, {{"dim", 1}, {"half_to_float", false}}},
      {"aten::mul", {x({6, 7})}, {{"other", 0.1}}},
      {"aten::addcdiv", {x({4, 6}), x({6}), x({4, 1})}, {{"value", 0.1}}},
      {"aten::prelu", {x({2, 4, 6}), x({4})}},
      {"aten::log_sigmoid_forward", {x({4, 6})}},
      {"aten::flip", {x({4, 3, 2})}, {{"dims", {0, -1}}}},
      {"aten::roll", {x({4, 5})}, {{"shifts", {1, -2}}, {"dims", {0, 1}}}},
      {"aten::index", {x({4, 5, 3}), std::nullopt, integers({2, 2}, 5)}},
      {"aten::mse_loss", {x({4, 6}), x({4, 6})}, {{"reduction", 1}}},
      {"aten::linalg_vector_norm", {x({4, 6})}, {{"ord", 2.0}, {"dim", {1}}, {"keepdim", true}}},
      {"aten::convolution",
       {x({2, 4, 5, 6}), x({6, 2, 3, 2}), x({6})},
       {{"stride", {2, 1}}, {"padding", {1, 0}}, {"dilation", {1, 2}}, {"groups", 2}}},
      {"aten::batch_norm",
       {x({2, 3, 4}), x({3}), x({3}), x({3}), StoredTensor::from(Tensor<double>({3}, {0.5, 1.0, 2.0}))},
       {{"training", false}, {"eps", 1e-3}}},
      {"com.microsoft::Gelu", {x({4, 6})}},
      {"com.microsoft::BiasGelu", {x({4, 6}), x({6})}},
      {"com.microsoft::FastGelu", {x({4, 6}), x({6})}},
      {"com.microsoft::FusedMatMul", {x({2, 3, 5, 4}), x({2, 3, 6, 4})}, {{"alpha", 0.25}, {"transB", 1}}},
      {"com.microsoft::FusedGemm", {x({5, 7}), x({7, 6}), x({6})}, {{"activation", "Relu"}, {"alpha", 0.5}}},
      {"com.microsoft::FusedConv",
       {x({2, 4, 5, 6}), x({6, 4, 3, 3}), x({6}), x({2, 6, 5, 6})},
       {{"activation", "Relu"}, {"kernel_shape", {3, 3}}, {"pads", {1, 1, 1, 1}}, {"strides", {1, 1}}}},
      {"com.microsoft::SkipLayerNormalization",
       {x({2, 5, 6}), x({2, 5, 6}), x({6}), x({6}), x({6})},
       {{"epsilon", 1e-3}}},
      {"log_probability", {x({5, 7}), integers({5}, 7)}},
      {"aten::cross_entropy_loss", {x({5, 7}), integers({5}, 7)}},
  };
}

}  // namespace

TEST_CASE("Every element of every op's result is in one part, and the part is the op there") {
  const TemporaryFolder folder;
  for (const Call& call : calls()) {
    CAPTURE(call.op);
    CAPTURE(call.attributes.dump());
    RecordingWriter writer;
    const auto whole = write_call(call, writer);
    writer.write(folder.path() / "run.safetensors");
    const RecordedRun run(folder.path() / "run.safetensors");
    std::vector<ResultCoverage> coverage;
    const auto seen = check_parts(run, 0, whole, {}, &coverage);
    for (const ResultCoverage& one : coverage) CHECK(one.why_not == "");
    for (std::size_t i = 0; i < whole.size(); ++i)
      if (whole[i]) CHECK(seen[i].size() == whole[i]->size());
  }
}

TEST_CASE("Products with large right factors are cut by columns as well") {
  Numbers numbers;
  const auto x = [&](Shape shape) { return std::optional(in_float32(numbers.tensor(std::move(shape)))); };
  const std::vector<Call> wide = {{"aten::mm", {x({2, 2100}), x({2100, 1500})}},
                                  {"aten::addmm", {x({1500}), x({2, 2100}), x({2100, 1500})}},
                                  {"aten::addmm", {x({2, 1500}), x({2, 2100}), x({2100, 1500})}},
                                  {"aten::linear", {x({2, 2100}), x({1500, 2100}), x({1500})}}};
  const TemporaryFolder folder;
  for (const Call& call : wide) {
    CAPTURE(call.op);
    RecordingWriter writer;
    const auto whole = write_call(call, writer);
    writer.write(folder.path() / "run.safetensors");
    const RecordedRun run(folder.path() / "run.safetensors");
    std::size_t parts = 0;
    cut_record(run, 0, {}, [&](RecordPart&& part) {
      CHECK(part.graph.values[part.graph.nodes[0].inputs[1]].constant.size() <= (1U << 21));
      ++parts;
      return true;
    });
    CHECK(parts > 1);
    CHECK(check_parts(run, 0, whole, {})[0].size() == 3000);
  }
}

TEST_CASE("Elements drawn at random are as many as asked for, and their parts are the op there") {
  const TemporaryFolder folder;
  for (const Call& call : calls()) {
    CAPTURE(call.op);
    RecordingWriter writer;
    const auto whole = write_call(call, writer);
    writer.write(folder.path() / "run.safetensors");
    const RecordedRun run(folder.path() / "run.safetensors");
    std::vector<ResultCoverage> coverage;
    const auto seen = check_parts(run, 0, whole, {5, 3}, &coverage);
    for (const ResultCoverage& one : coverage) {
      CHECK(one.judged > 0);
      if (one.draws > 0) CHECK(one.draws == 5);
    }
    CHECK(check_parts(run, 0, whole, {5, 3}) == seen);
  }
}

TEST_CASE("Draws are uniform: in 400 draws of 5 among 40 elements every element comes up about as often") {
  const TemporaryFolder folder;
  Numbers numbers;
  Call call{"aten::mul", {in_float32(numbers.tensor({40}))}, {{"other", 2.0}}};
  RecordingWriter writer;
  const auto whole = write_call(call, writer);
  writer.write(folder.path() / "run.safetensors");
  const RecordedRun run(folder.path() / "run.safetensors");
  std::vector<int> count(40, 0);
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const auto seen = check_parts(run, 0, whole, {5, seed});
    for (const std::int64_t place : seen[0]) ++count[static_cast<std::size_t>(place)];
  }
  // Beside the draws, the largest element of each of 16 blocks is always there.
  CHECK(std::count_if(count.begin(), count.end(), [](int c) { return c == 400; }) == 16);
  for (const int c : count) CHECK(c > 15);
  for (const int c : count)
    if (c < 400) CHECK(c < 100);
}

TEST_CASE("Operands may be views of recorded values, in any chain") {
  const TemporaryFolder folder;
  Numbers numbers;
  const Tensor<double> w = numbers.tensor({6, 10}), x = numbers.tensor({2, 3, 8});
  RecordingWriter writer;
  writer.value("w", in_float32(w));
  writer.value("x", in_float32(x));
  writer.derived("w1", ElementType::f32, {6, 4});
  writer.record("aten::slice", {"w"}, {"w1"}, {{"dim", 1}, {"start", 3}, {"end", 7}});
  writer.derived("w2", ElementType::f32, {4, 6});
  writer.record("aten::t", {"w1"}, {"w2"});
  writer.derived("x1", ElementType::f32, {2, 3, 4});
  writer.derived("x2", ElementType::f32, {2, 3, 4});
  writer.record("aten::split", {"x"}, {"x1", "x2"}, {{"split_size", 4}, {"dim", -1}});
  writer.derived("x3", ElementType::f32, {6, 4});
  writer.record("aten::view", {"x2"}, {"x3"}, {{"size", {-1, 4}}});
  Tensor<double> product({6, 6});
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t j = 0; j < 6; ++j)
      for (std::size_t k = 0; k < 4; ++k)
        product.values[6 * i + j] += static_cast<double>(static_cast<float>(x.values[8 * i + 4 + k])) *
                                     static_cast<double>(static_cast<float>(w.values[10 * j + 3 + k]));
  writer.value("y", in_float32(product));
  writer.record("aten::mm", {"x3", "w2"}, {"y"});
  writer.write(folder.path() / "run.safetensors");
  const RecordedRun run(folder.path() / "run.safetensors");
  for (std::size_t view = 0; view < 4; ++view) {
    const auto coverage = cut_record(run, view, {}, [](RecordPart&&) { return true; });
    for (const ResultCoverage& one : coverage) {
      CHECK(one.is_view);
      CHECK(one.why_not.empty());
    }
  }
  CHECK(check_parts(run, 4, {product}, {})[0].size() == 36);
  CHECK(check_parts(run, 4, {product}, {10, 1})[0].size() >= 5);
}

TEST_CASE("Of values recorded in part, what the recorded elements need is used, and what lacks is counted") {
  const TemporaryFolder folder;
  Numbers numbers;
  const Call call{"aten::mm", {in_float32(numbers.tensor({7, 5})), in_float32(numbers.tensor({5, 6}))}};
  const auto whole = results_of(call);
  RecordingWriter writer;
  writer.rows("a", *call.operands[0], {1, 4});
  writer.value("b", *call.operands[1]);
  writer.elements("y", in_float32(*whole[0]), {7, 9, 20, 25, 41});  // rows 1, 1, 3, 4, 6
  writer.description("y")["part"]["draws"] = 5;
  writer.record("aten::mm", {"a", "b"}, {"y"});
  writer.write(folder.path() / "run.safetensors");
  const RecordedRun run(folder.path() / "run.safetensors");
  std::vector<ResultCoverage> coverage;
  const auto seen = check_parts(run, 0, whole, {}, &coverage);
  CHECK(seen[0] == std::set<std::int64_t>{7, 9, 25});
  CHECK(coverage[0].lacking == 2);
  CHECK(coverage[0].draws == 5);
  CHECK(coverage[0].elements == 42);
}

TEST_CASE(
    "An all-reduce of parts of which some elements are recorded is judged at those, and one without a rank is not") {
  const TemporaryFolder folder;
  Numbers numbers;
  for (const bool is_mean : {false, true}) {
    Call call{"c10d::all_reduce", {in_float32(numbers.tensor({5, 6})), in_float32(numbers.tensor({5, 6}))}};
    if (is_mean) call.attributes["reduce"] = "mean";
    const auto whole = results_of(call);
    RecordingWriter writer;
    const StoredTensor result = in_float32(*whole[0]);
    writer.elements("a", *call.operands[0], {3, 8, 20, 29});
    writer.elements("b", *call.operands[1], {3, 8, 21, 29});
    writer.elements("y", result, {3, 8, 20, 29});
    writer.record("c10d::all_reduce", {"a", "b"}, {"y"}, call.attributes);
    writer.record("c10d::all_reduce", {"a", std::nullopt}, {"y"}, call.attributes);
    writer.write(folder.path() / "run.safetensors");
    const RecordedRun run(folder.path() / "run.safetensors");
    std::vector<ResultCoverage> coverage;
    const auto seen = check_parts(run, 0, whole, {}, &coverage);
    CHECK(seen[0] == std::set<std::int64_t>{3, 8, 29});
    CHECK(coverage[0].lacking == 1);
    const std::vector<ResultCoverage> without = cut_record(run, 1, {}, [](RecordPart&&) { return true; });
    REQUIRE(without.size() == 1);
    CHECK(contains(without[0].why_not, "the part of rank 1 is not recorded"));
  }
}

TEST_CASE("Where no operand has what the recorded elements need, nothing is judged, and the reason is given") {
  const TemporaryFolder folder;
  Numbers numbers;
  const Call call{"aten::mm", {in_float32(numbers.tensor({7, 5})), in_float32(numbers.tensor({5, 6}))}};
  RecordingWriter writer;
  writer.rows("a", *call.operands[0], {0});
  writer.value("b", *call.operands[1]);
  writer.elements("y", in_float32(*results_of(call)[0]), {41});
  writer.record("aten::mm", {"a", "b"}, {"y"});
  writer.write(folder.path() / "run.safetensors");
  const auto coverage =
      cut_record(RecordedRun(folder.path() / "run.safetensors"), 0, {}, [](RecordPart&&) { return true; });
  REQUIRE(coverage.size() == 1);
  CHECK(contains(coverage[0].why_not, "lack what the recorded elements"));
}

TEST_CASE("Minus infinity in scores is a mask to Softmax, and a number to nobody") {
  const TemporaryFolder folder;
  Tensor<double> scores({2, 3}, {1.0, minus_infinity, 2.0, 0.5, 0.25, minus_infinity});
  RecordingWriter writer;
  writer.value("s", in_float32(scores));
  const double e = std::exp(-1.0), f = std::exp(-0.25);
  const Tensor<double> weights({2, 3}, {e / (1 + e), 0, 1 / (1 + e), 1 / (1 + f), f / (1 + f), 0});
  writer.value("p", in_float32(weights));
  writer.record("aten::_softmax", {"s"}, {"p"}, {{"dim", -1}});
  Tensor<double> scaled = scores;
  for (double& x : scaled.values) x *= 0.5;
  writer.value("t", in_float32(scaled));
  writer.record("aten::mul", {"s"}, {"t"}, {{"other", 0.5}});
  writer.write(folder.path() / "run.safetensors");
  const RecordedRun run(folder.path() / "run.safetensors");
  CHECK(check_parts(run, 0, {weights}, {})[0].size() == 6);
  std::vector<ResultCoverage> coverage;
  CHECK(check_parts(run, 1, {scaled}, {}, &coverage)[0].size() == 4);
  CHECK(coverage[0].infinite == 2);
}

TEST_CASE("An infinite result that IEEE arithmetic does not give stays among those that are judged") {
  const TemporaryFolder folder;
  RecordingWriter writer;
  writer.value("s", in_float32(Tensor<double>({3}, {minus_infinity, minus_infinity, 1.0})));
  writer.value("t", in_float32(Tensor<double>({3}, {minus_infinity, 7.0, 0.5})));
  writer.record("aten::mul", {"s"}, {"t"}, {{"other", 0.5}});
  writer.write(folder.path() / "run.safetensors");
  std::vector<std::int64_t> places;
  const auto coverage = cut_record(RecordedRun(folder.path() / "run.safetensors"), 0, {}, [&](RecordPart&& part) {
    places.insert(places.end(), part.places.begin(), part.places.end());
    return true;
  });
  CHECK(places == std::vector<std::int64_t>{1, 2});
  CHECK(coverage[0].infinite == 1);
}

TEST_CASE("A mask and another number may add up to minus infinity in scores, which no other sum may") {
  const TemporaryFolder folder;
  constexpr double least = -std::numeric_limits<float>::max();
  // The last sum rounds to the least number; that of large numbers is no mask; that of a mask and 1 overflows nowhere.
  const Tensor<double> sums({6},
                            {minus_infinity, minus_infinity, minus_infinity, minus_infinity, minus_infinity, least});
  const auto judged = [&](const RecordingWriter::Ids& readers) {
    RecordingWriter writer;
    writer.value("x", in_float32(Tensor<double>({6}, {least, least, -1e32, least, 0.75 * least, least})));
    writer.value("y", in_float32(Tensor<double>({6}, {least, -2e31, least, 1.0, 0.75 * least, -1.0})));
    writer.value("z", in_float32(sums));
    writer.record("aten::add", {"x", "y"}, {"z"}, {{"alpha", 1}});
    for (const auto& op : readers) {
      writer.value("of " + *op, in_float32(Tensor<double>({6})));
      writer.record(*op, {"z"}, {"of " + *op}, *op == "aten::relu" ? nlohmann::json() : nlohmann::json{{"dim", -1}});
    }
    writer.write(folder.path() / "run.safetensors");
    std::vector<std::int64_t> places;
    const auto coverage = cut_record(RecordedRun(folder.path() / "run.safetensors"), 0, {}, [&](RecordPart&& part) {
      places.insert(places.end(), part.places.begin(), part.places.end());
      return true;
    });
    CHECK(coverage[0].infinite + static_cast<std::int64_t>(places.size()) == 6);
    return places;
  };
  CHECK(judged({"aten::_softmax"}) == std::vector<std::int64_t>{3, 4, 5});
  CHECK(judged({}).size() == 6);
  CHECK(judged({"aten::_softmax", "aten::relu"}).size() == 6);
  CHECK(judged({"aten::_log_softmax"}).size() == 6);
}

TEST_CASE("What cannot be judged says why") {
  const TemporaryFolder folder;
  Numbers numbers;
  RecordingWriter writer;
  writer.value("a", in_float32(numbers.tensor({3, 4})));
  writer.value("y", in_float32(numbers.tensor({3, 4})));
  writer.describe("gone", ElementType::f32, {3, 4});
  const auto why = [&](const std::string& op, const RecordingWriter::Ids& operands, nlohmann::json attributes) {
    RecordingWriter one = writer;
    one.record(op, operands, {"y"}, std::move(attributes));
    one.write(folder.path() / "run.safetensors");
    const auto coverage =
        cut_record(RecordedRun(folder.path() / "run.safetensors"), 0, {}, [](RecordPart&&) { return true; });
    REQUIRE(coverage.size() == 1);
    return coverage[0].why_not;
  };
  CHECK(contains(why("aten::fft", {"a"}, {}), "does not know the op 'aten::fft'"));
  CHECK(contains(why("NoSuchOp", {"a"}, {}), "NoSuchOp"));
  CHECK(contains(why("aten::relu", {"b"}, {}), "'b' is not in the recording"));
  CHECK(contains(why("aten::relu", {"gone"}, {}), "'gone' are not recorded"));
  CHECK(contains(why("aten::gelu", {"a"}, {{"approximate", "fast"}}), "of the form 'fast'"));
  CHECK(contains(why("aten::relu", {"a"}, {{"slope", 0.5}}), "'slope' is not known"));
  CHECK(contains(why("aten::mm", {"a", "a"}, {}), "inner dimensions"));
  CHECK(contains(why("aten::sum", {"a"}, {{"dim", {0}}}), "its result is [3, 4]"));
  CHECK(contains(why("aten::add", {"a", std::nullopt}, {}), "second operand is missing"));
}
