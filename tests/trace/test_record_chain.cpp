#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/evaluate/evaluate_as.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/trace/record_chain.hpp"
#include "support/recording.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

using namespace driftbound;
using namespace driftbound::test;

// The network of a run is evaluated in double from its inputs on: every layer is what plain loops in this file recorded.

namespace {

constexpr std::int64_t any = std::int64_t{1} << 40;
constexpr float hidden = -std::numeric_limits<float>::infinity();

Tensor<float> random_matrix(Shape shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensor<float> tensor(std::move(shape));
  for (float& x : tensor.values) x = static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-52 - 1.0);
  return tensor;
}

Tensor<float> product(const Tensor<float>& a, const Tensor<float>& b) {
  const auto m = static_cast<std::size_t>(a.shape[0]), k = static_cast<std::size_t>(a.shape[1]);
  const auto n = static_cast<std::size_t>(b.shape[1]);
  Tensor<float> y({a.shape[0], b.shape[1]});
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0.0;
      for (std::size_t p = 0; p < k; ++p)
        sum += static_cast<double>(a.values[i * k + p]) * static_cast<double>(b.values[p * n + j]);
      y.values[i * n + j] = static_cast<float>(sum);
    }
  return y;
}

Tensor<float> transposed(const Tensor<float>& x) {
  Tensor<float> y({x.shape[1], x.shape[0]});
  for (std::int64_t i = 0; i < x.shape[0]; ++i)
    for (std::int64_t j = 0; j < x.shape[1]; ++j)
      y.values[static_cast<std::size_t>(j * x.shape[0] + i)] = x.values[static_cast<std::size_t>(i * x.shape[1] + j)];
  return y;
}

Tensor<float> softmax_of_rows(Tensor<float> x) {
  const auto width = static_cast<std::size_t>(x.shape[1]);
  for (std::size_t first = 0; first < x.size(); first += width) {
    double sum = 0.0;
    for (std::size_t j = 0; j < width; ++j) sum += std::exp(static_cast<double>(x.values[first + j]));
    for (std::size_t j = 0; j < width; ++j)
      x.values[first + j] = static_cast<float>(std::exp(static_cast<double>(x.values[first + j])) / sum);
  }
  return x;
}

Tensor<float> mapped(Tensor<float> x, const std::function<float(float)>& f) {
  for (float& value : x.values) value = f(value);
  return x;
}

StoredTensor as_stored(const Tensor<float>& tensor) {
  return StoredTensor::from(tensor);
}

RecordChain chain_of(RecordingWriter writer, std::int64_t most_numbers = any) {
  const TemporaryFolder folder;
  writer.write(folder.path() / "run.safetensors");
  return chain_records(RecordedRun(folder.path() / "run.safetensors"), most_numbers);
}

/// The largest difference between layers as recorded and as computed in double from the inputs on.
double largest_difference(const RecordChain& chain) {
  const std::vector<Tensor<double>> values = evaluate_as<double>(chain.graph, chain.trace.inputs);
  double largest = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Tensor<double> recorded = chain.trace.layers[i].output.to_double();
    REQUIRE(values[i].shape == recorded.shape);
    for (std::size_t e = 0; e < recorded.size(); ++e)
      largest = std::max(largest, std::abs(values[i].values[e] - recorded.values[e]));
  }
  return largest;
}

std::vector<std::string> layers_of(const RecordChain& chain) {
  std::vector<std::string> names;
  for (const Node& node : chain.graph.nodes) names.push_back(node.name);
  return names;
}

std::vector<std::string> ops_of(const RecordChain& chain) {
  std::vector<std::string> names;
  for (const Node& node : chain.graph.nodes) names.emplace_back(name_of(node.op));
  return names;
}

using Names = std::vector<std::string>;

/// Single-head attention as programs with a mask of their own compute it: scores of queries and keys, some of them minus
/// infinity, weights, and the weighted values.
struct MaskedAttention {
  Tensor<float> q = random_matrix({5, 8}, 1), k = random_matrix({5, 8}, 2), v = random_matrix({5, 3}, 3);
  Tensor<float> scores = product(q, transposed(k)), masked = scores, weights = scores, attended = v;

  MaskedAttention() {
    for (std::size_t i = 0; i < 5; ++i)
      for (std::size_t j = i + 1; j < 5; ++j) masked.values[5 * i + j] = hidden;
    weights = softmax_of_rows(masked);
    attended = product(weights, v);
  }

  /// `mask`: writes the record that makes "m" of the scores "s".
  RecordingWriter recording(const std::function<void(RecordingWriter&)>& mask) const {
    RecordingWriter writer;
    writer.value("q", as_stored(q));
    writer.value("k", as_stored(k));
    writer.value("v", as_stored(v));
    writer.value("s", as_stored(scores));
    writer.value("m", as_stored(masked));
    writer.value("w", as_stored(weights));
    writer.value("y", as_stored(attended));
    writer.derived("kt", ElementType::f32, {8, 5});
    writer.record("aten::t", {"k"}, {"kt"});
    writer.record("aten::mm", {"q", "kt"}, {"s"}, {}, "scores");
    mask(writer);
    writer.record("aten::_softmax", {"m"}, {"w"}, {{"dim", -1}}, "softmax");
    writer.record("aten::mm", {"w", "v"}, {"y"}, {}, "values");
    return writer;
  }
};

/// Truth values of queries and keys: whether a key comes after its query, or not.
StoredTensor keys_that_are(bool later) {
  std::vector<std::byte> truths;
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 5; ++j) truths.push_back(std::byte{(j > i) == later});
  return StoredTensor(ElementType::boolean, {5, 5}, std::move(truths));
}

}  // namespace

TEST_CASE("Records whose values chain are a network: its inputs are what no record computes") {
  const Tensor<float> x = random_matrix({4, 6}, 1), w = random_matrix({3, 6}, 2), b = random_matrix({3}, 3);
  Tensor<float> y = product(x, transposed(w));
  for (std::size_t i = 0; i < y.size(); ++i) y.values[i] += b.values[i % 3];
  const Tensor<float> z = mapped(y, [](float t) { return std::tanh(t); });
  RecordingWriter writer;
  writer.value("x", as_stored(x));
  writer.value("w", as_stored(w));
  writer.value("b", as_stored(b));
  writer.value("y", as_stored(y));
  writer.value("z", as_stored(z));
  writer.derived("wt", ElementType::f32, {6, 3});
  writer.record("aten::t", {"w"}, {"wt"});
  writer.record("aten::addmm", {"b", "x", "wt"}, {"y"}, {}, "fc");
  writer.record("aten::tanh", {"y"}, {"z"}, {}, "act");
  const RecordChain chain = chain_of(writer);
  REQUIRE(chain.why_not == "");
  CHECK(chain.given.empty());
  CHECK(layers_of(chain) == Names{"fc/aten::addmm", "act/aten::tanh"});
  CHECK(ops_of(chain) == Names{"Gemm", "Tanh"});
  REQUIRE(chain.graph.inputs.size() == 1);
  CHECK(chain.graph.value(chain.graph.inputs[0]).name == "x");
  REQUIRE(chain.graph.outputs.size() == 1);
  CHECK(chain.graph.value(chain.graph.outputs[0]).name == "act/aten::tanh");
  CHECK(chain.results[0] == RecordedResult{1, 0});
  CHECK(chain.results[1] == RecordedResult{2, 0});
  CHECK(largest_difference(chain) < 1e-6);
}

TEST_CASE("Moves of elements between records are layers whose numbers follow") {
  const Tensor<float> x = random_matrix({2, 6}, 1), y = mapped(x, [](float t) { return t * t; });
  Tensor<float> last = transposed(y);
  last.shape = {3, 4};
  last = mapped(last, [](float t) { return -t; });
  RecordingWriter writer;
  writer.value("x", as_stored(x));
  writer.value("y", as_stored(y));
  writer.derived("t", ElementType::f32, {6, 2});
  writer.derived("v", ElementType::f32, {3, 4});
  writer.value("n", as_stored(last));
  writer.record("aten::square", {"x"}, {"y"});
  writer.record("aten::transpose", {"y"}, {"t"}, {{"dim0", 0}, {"dim1", 1}});
  writer.record("aten::view", {"t"}, {"v"}, {{"size", {3, 4}}});
  writer.record("aten::neg", {"v"}, {"n"});
  const RecordChain chain = chain_of(writer);
  REQUIRE(chain.why_not == "");
  CHECK(ops_of(chain) == Names{"Mul", "Transpose", "Reshape", "Neg"});
  CHECK(chain.results[0].has_value());
  CHECK_FALSE(chain.results[1].has_value());
  CHECK_FALSE(chain.results[2].has_value());
  CHECK(largest_difference(chain) < 1e-7);
}

TEST_CASE("Elements that a mask makes minus infinity are left out by the softmax that reads them") {
  const MaskedAttention network;
  const auto filled = [](RecordingWriter& writer) {
    writer.value("mask", keys_that_are(true));
    writer.record("aten::masked_fill", {"s", "mask"}, {"m"}, {{"value", "-inf"}}, "fill");
  };
  const auto chosen = [](RecordingWriter& writer) {
    writer.value("mask", keys_that_are(false));
    writer.record("aten::where", {"mask", "s", std::nullopt}, {"m"}, {{"other", "-inf"}}, "where");
  };
  const auto added = [&](RecordingWriter& writer) {
    Tensor<float> mask({5, 5});
    for (std::size_t i = 0; i < 25; ++i) mask.values[i] = network.masked.values[i] == hidden ? hidden : 0.0f;
    writer.value("mask", as_stored(mask));
    writer.record("aten::add", {"s", "mask"}, {"m"}, {}, "add");
  };
  for (const auto& mask : {std::function<void(RecordingWriter&)>(filled), std::function<void(RecordingWriter&)>(chosen),
                           std::function<void(RecordingWriter&)>(added)}) {
    const RecordChain chain = chain_of(network.recording(mask));
    REQUIRE(chain.why_not == "");
    CHECK(ops_of(chain) == Names{"MatMul", "MaskedSoftmax", "MatMul"});
    CHECK(chain.given.empty());
    CHECK(largest_difference(chain) < 1e-6);
  }
}

TEST_CASE("A mask that the run computes leaves what reads it out of the network") {
  const MaskedAttention network;
  const RecordChain chain = chain_of(network.recording([&](RecordingWriter& writer) {
    writer.value("zero", as_stored(Tensor<float>(Shape{})));
    writer.value("mask", keys_that_are(true));
    writer.record("aten::gt", {"s", "zero"}, {"mask"}, {}, "compared");
    writer.record("aten::masked_fill", {"s", "mask"}, {"m"}, {{"value", "-inf"}}, "fill");
  }));
  REQUIRE(chain.why_not == "");
  CHECK(ops_of(chain).front() == "MatMul");
  CHECK(ops_of(chain).back() == "MatMul");
}

TEST_CASE("A record of an arithmetic that is not declared is no part") {
  const Tensor<float> x = random_matrix({6, 4}, 1), y = mapped(x, [](float t) { return std::exp(t); });
  RecordingWriter writer;
  writer.value("x", as_stored(x));
  writer.value("y", as_stored(y));
  writer.value("z", as_stored(mapped(y, [](float t) { return std::sin(t); })));
  writer.record("aten::exp", {"x"}, {"y"});
  writer.last_record()["arithmetic"] = "nobody's";
  writer.record("aten::sin", {"y"}, {"z"});
  const RecordChain chain = chain_of(writer);
  REQUIRE(chain.why_not == "");
  CHECK(ops_of(chain) == Names{"Sin"});
}

TEST_CASE("An added mask may hold numbers beside minus infinity") {
  MaskedAttention network;
  Tensor<float> mask({5, 5});
  for (std::size_t i = 0; i < 25; ++i) {
    const bool is_hidden = network.masked.values[i] == hidden;
    mask.values[i] = is_hidden ? hidden : -0.25f * static_cast<float>(i % 5);
    network.masked.values[i] = network.scores.values[i] + mask.values[i];
  }
  network.weights = softmax_of_rows(network.masked);
  network.attended = product(network.weights, network.v);
  const RecordChain chain = chain_of(network.recording([&](RecordingWriter& writer) {
    writer.value("mask", as_stored(mask));
    writer.record("aten::add", {"s", "mask"}, {"m"}, {}, "add");
  }));
  REQUIRE(chain.why_not == "");
  CHECK(ops_of(chain) == Names{"MatMul", "Segment", "MatMul"});
  CHECK(largest_difference(chain) < 1e-6);
}

TEST_CASE("Results that are recorded in part, or not at all, lie inside a segment") {
  const Tensor<float> x = random_matrix({6, 4}, 1), y = mapped(x, [](float t) { return std::exp(t); });
  const Tensor<float> z = mapped(y, [](float t) { return std::sin(t); });
  RecordingWriter writer;
  writer.value("x", as_stored(x));
  writer.rows("y", as_stored(y), {1, 4});
  writer.value("z", as_stored(z));
  writer.record("aten::exp", {"x"}, {"y"});
  writer.record("aten::sin", {"y"}, {"z"});
  const RecordChain chain = chain_of(writer);
  REQUIRE(chain.why_not == "");
  CHECK(ops_of(chain) == Names{"Segment"});
  CHECK(largest_difference(chain) < 1e-6);
}

TEST_CASE("A record that is not known is no part: its result is an input, and it is named") {
  const Tensor<float> x = random_matrix({6, 4}, 1), y = mapped(x, [](float t) { return std::exp(t); }),
                      u = random_matrix({6, 4}, 2);
  Tensor<float> sum = y;
  for (std::size_t i = 0; i < sum.size(); ++i) sum.values[i] += u.values[i];
  RecordingWriter writer;
  writer.value("x", as_stored(x));
  writer.value("y", as_stored(y));
  writer.value("u", as_stored(u));
  writer.value("z", as_stored(sum));
  writer.record("aten::exp", {"x"}, {"y"});
  writer.record("aten::fft", {"x"}, {"u"}, {}, "spectrum");
  writer.record("aten::add", {"y", "u"}, {"z"});
  const RecordChain chain = chain_of(writer);
  REQUIRE(chain.why_not == "");
  CHECK(chain.given == Names{"spectrum/aten::fft"});
  CHECK(chain.graph.inputs.size() == 2);
  CHECK(largest_difference(chain) < 1e-6);
}

TEST_CASE("A scaled product is one layer, and numbers that programs may round are told") {
  const Tensor<float> a = random_matrix({3, 7}, 1), b = random_matrix({7, 2}, 2), c = random_matrix({3, 2}, 3);
  Tensor<float> y = product(a, b);
  for (std::size_t i = 0; i < y.size(); ++i)
    y.values[i] = static_cast<float>(0.3 * static_cast<double>(y.values[i]) - 2.0 * static_cast<double>(c.values[i]));
  RecordingWriter writer;
  writer.value("a", as_stored(a));
  writer.value("b", as_stored(b));
  writer.value("c", as_stored(c));
  writer.value("y", as_stored(y));
  writer.record("aten::addmm", {"c", "a", "b"}, {"y"}, {{"alpha", 0.3}, {"beta", -2.0}});
  const RecordChain chain = chain_of(writer);
  REQUIRE(chain.why_not == "");
  CHECK(ops_of(chain) == Names{"Gemm"});
  CHECK_FALSE(chain.may_round_numbers);
  CHECK(largest_difference(chain) < 1e-6);
  RecordingWriter more;
  more.value("a", as_stored(a));
  more.value("y", as_stored(mapped(a, [](float t) { return 0.3F * t; })));
  more.record("aten::mul", {"a"}, {"y"}, {{"other", 0.3}});
  CHECK(chain_of(more).may_round_numbers);
}

TEST_CASE("There is no network of too many numbers, or of results without operands; arithmetics that differ are named") {
  const Tensor<float> x = random_matrix({6, 4}, 1), y = mapped(x, [](float t) { return std::exp(t); });
  RecordingWriter writer;
  writer.value("x", as_stored(x));
  writer.value("y", as_stored(y));
  writer.value("z", as_stored(mapped(y, [](float t) { return std::sin(t); })));
  writer.record("aten::exp", {"x"}, {"y"});
  writer.record("aten::sin", {"y"}, {"z"});
  CHECK(chain_of(writer, 72).why_not == "");
  CHECK(chain_of(writer, 72).no_arithmetic == "");
  CHECK(contains(chain_of(writer, 71).why_not, "more than 71 numbers"));
  writer.last_record()["arithmetic"] = "bf16";
  CHECK(chain_of(writer).why_not == "");
  CHECK(contains(chain_of(writer).no_arithmetic, "'bf16'"));
  RecordingWriter apart;
  apart.value("x", as_stored(x));
  apart.value("u", as_stored(y));
  apart.record("aten::fft", {"x"}, {"u"});
  CHECK(contains(chain_of(apart).why_not, "no result"));
}
