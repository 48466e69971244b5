#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "analysis/judge.hpp"
#include "analysis/report.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "support/json_schema.hpp"
#include "support/report_schema.hpp"
#include "support/structured_sums.hpp"
#include "tests/analysis/hand_made.hpp"

// Verdicts by chance: runs above a probabilistic bound, and runs that read operands otherwise than declared.

using namespace driftbound;
using namespace driftbound::analysis;

namespace {

/// How a plain loop reads a float32 operand: all bits, or so many behind the point, to nearest even or cut.
struct Read {
  std::string name;  ///< of the reading that explains it
  int bits = 23;
  bool is_cut = false;

  float operator()(float x) const {
    if (bits == 23) return x;
    const std::uint32_t unit = std::uint32_t{1} << (23 - bits);
    std::uint32_t i = std::bit_cast<std::uint32_t>(x);
    if (!is_cut) i += unit / 2 - 1 + (i / unit & 1);
    return std::bit_cast<float>(i & ~(unit - 1));
  }
};

const std::vector<Read> planted = {
    {"tf32", 10, false}, {"tf32 (cut)", 10, true}, {"bf16", 7, false}, {"bf16 (cut)", 7, true}};

/// x W of float32 numbers, as a plain loop computes it.
struct Product {
  Graph graph;
  Trace trace;

  Product(const std::vector<structured::Factors>& lines, const Read& read_x, const Read& read_w,
          const structured::Order& order) {
    const auto size = static_cast<std::int64_t>(lines.size()), n = static_cast<std::int64_t>(lines[0].x.size());
    Tensor<float> x({size, n}), w({n, size}), y({size, size});
    for (std::size_t i = 0; i < lines.size(); ++i)
      for (std::size_t k = 0; k < lines[i].x.size(); ++k) {
        x.values[i * lines[i].x.size() + k] = lines[i].x[k];
        w.values[k * lines.size() + i] = lines[i].w[k];
      }
    std::vector<structured::Factors> read = lines;
    for (structured::Factors& line : read) {
      for (float& value : line.x) value = read_x(value);
      for (float& value : line.w) value = read_w(value);
    }
    for (std::size_t i = 0; i < lines.size(); ++i)
      for (std::size_t j = 0; j < lines.size(); ++j)
        y.values[i * lines.size() + j] = structured::sum({read[i].x, read[j].w}, order);
    const ValueId input = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {n, ""}});
    graph.outputs = {graph.add_node("layer", op::MatMul{}, {input, graph.add_constant("w", StoredTensor::from(w))})};
    Inputs inputs;
    inputs.tensors = {{"x", StoredTensor::from(x)}};
    trace = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("sequential"))).run(graph, inputs);
    trace.layers[0].output = StoredTensor::from(y);
    trace.provenance.program = "plain loops";
    trace.arithmetic.order = {};
  }

  Report report() const {
    JudgeOptions options;
    options.bounds = {BoundKind::componentwise, BoundKind::partial_sums, BoundKind::probabilistic};
    Report result = HandMade().report();
    result.comparison = judge(graph, trace, options).comparison;
    return result;
  }
};

std::vector<structured::Factors> normal_lines(std::size_t count, std::size_t n, std::mt19937_64& random) {
  std::vector<structured::Factors> lines;
  for (std::size_t i = 0; i < count; ++i) {
    lines.push_back(structured::kinds().front().make(n, random));
    for (float& value : lines.back().w) value *= 0.02F;
  }
  return lines;
}

const structured::Order sequential = structured::orders().front();
const Read as_it_is = {"as it is"};

}  // namespace

TEST_CASE("operands that were rounded are named at every length, and the run is improbable or violated" *
          doctest::test_suite("campaign")) {
  std::mt19937_64 random(134);
  for (const std::size_t n : {64U, 512U, 3072U, 32768U}) {
    const std::vector<structured::Factors> lines = normal_lines(n > 8192 ? 8 : 12, n, random);
    for (const Read& read : planted) {
      const Comparison comparison = Product(lines, read, read, sequential).report().comparison;
      const NearestReading reading = comparison.layers[0].nearest_reading.value();
      CHECK(to_string(reading.nearest) == read.name);
      CHECK(to_string(reading.other) == "as it is");
      CHECK(reading.is_decisive);
      CHECK_FALSE(reading.is_declared);
      const bool rounds_to_10_bits = read.bits == 10 && !read.is_cut;
      CHECK(std::count(reading.alike.begin(), reading.alike.end(),
                       ReadingPair{OperandReading::fp16, OperandReading::fp16}) <= (rounds_to_10_bits ? 1 : 0));
      CHECK(reading.ratio > 10.0);
      CHECK((comparison.verdict == Status::improbable || comparison.verdict == Status::violated));
      CHECK(comparison.layers[0].status == comparison.verdict);
    }
    const Comparison one_side = Product(lines, as_it_is, planted[1], sequential).report().comparison;
    CHECK(to_string(one_side.layers[0].nearest_reading->nearest) == "as it is and tf32 (cut)");
    CHECK(one_side.verdict >= Status::improbable);
  }
}

TEST_CASE("honest float32 products are nearest as they are, in any order") {
  std::mt19937_64 random(7);
  for (const std::size_t n : {3U, 64U, 1000U, 4096U}) {
    const std::vector<structured::Factors> lines = normal_lines(8, n, random);
    for (const structured::Order& order : structured::orders()) {
      const Comparison comparison = Product(lines, as_it_is, as_it_is, order).report().comparison;
      CHECK(comparison.verdict <= Status::approaches);
      CHECK(comparison.layers[0].nearest_reading->is_declared);
      CHECK(comparison.layers[0].nearest_reading->ratio > 10.0);
      CHECK_FALSE(comparison.layers[0].nearest_reading->is_decisive);
    }
  }
}

TEST_CASE("honest products of structured data are not improbable") {
  std::mt19937_64 random(8);
  const std::vector<structured::Order> orders = structured::orders();
  std::size_t at = 0;
  for (const structured::Kind& kind : structured::kinds()) {
    for (const std::size_t n : {16U, 700U, 2048U}) {
      std::vector<structured::Factors> lines;
      for (int i = 0; i < 8; ++i) lines.push_back(kind.make(n, random));
      const structured::Order& order = orders[at++ * 7 % orders.size()];
      const Comparison comparison = Product(lines, as_it_is, as_it_is, order).report().comparison;
      CHECK_MESSAGE(comparison.verdict <= Status::approaches, kind.name << ", " << n << " terms, " << order.name);
    }
  }
}

TEST_CASE("an honest run above a bound from the inputs on takes the bound away, not its good name (T-133)") {
  std::mt19937_64 random(11);
  std::size_t taken_away = 0;
  for (const structured::Kind& kind : structured::kinds()) {
    if (kind.name.find("runs") == std::string::npos) continue;
    for (int i = 0; i < 4; ++i) {
      const Product product({kind.make(8192, random)}, as_it_is, as_it_is, sequential);
      const Comparison comparison = judge(product.graph, product.trace, {}).comparison;
      const BoundSummary* bound = find_bound(comparison.outputs[0].scope, BoundKind::adjoint_probabilistic);
      REQUIRE(bound != nullptr);
      taken_away += bound->not_applicable.find("not random (T-133)") != std::string::npos ? 1U : 0U;
      CHECK(bound->violations == 0);
      CHECK(comparison.verdict <= Status::approaches);
    }
  }
  CHECK(taken_away > 0);
}

TEST_CASE("small terms that an honest sum loses are not taken for operands in a narrower format (T-134)") {
  std::mt19937_64 random(12);
  std::vector<structured::Factors> lines(8, {std::vector<float>(4096), std::vector<float>(4096)});
  for (structured::Factors& line : lines)
    for (std::size_t k = 0; k < line.x.size(); ++k) {
      line.x[k] = random() % 2 == 0 ? 1.0F : 0.5F;
      line.w[k] = k < 2400 ? 1.0F : std::ldexp(0.5F + 0.5F * structured::detail::uniform(random), -15);
    }
  const Comparison comparison = Product(lines, as_it_is, as_it_is, sequential).report().comparison;
  const NearestReading reading = comparison.layers[0].nearest_reading.value();
  CHECK(to_string(reading.nearest) == "fp8_e4m3");
  CHECK_FALSE(reading.is_decisive);
  CHECK_FALSE(reading.false_alarm.has_value());
  CHECK(comparison.verdict <= Status::approaches);
}

TEST_CASE("a reading that the arithmetic declares is no alarm, and float32 operands under it are") {
  std::mt19937_64 random(9);
  const std::vector<structured::Factors> lines = normal_lines(12, 512, random);
  for (const bool is_honest : {true, false}) {
    Product product(lines, is_honest ? planted[0] : as_it_is, is_honest ? planted[0] : as_it_is, sequential);
    product.trace.arithmetic.input = FormatId::tf32;
    const Comparison comparison = product.report().comparison;
    const NearestReading reading = comparison.layers[0].nearest_reading.value();
    CHECK(to_string(reading.nearest) == (is_honest ? "tf32" : "as it is"));
    CHECK(reading.is_declared == is_honest);
    CHECK(reading.is_decisive != is_honest);
    CHECK((comparison.verdict <= Status::approaches) == is_honest);
  }
}

TEST_CASE("a report says what an improbable run is, in every form, and exits with 1") {
  std::mt19937_64 random(10);
  const Report report = Product(normal_lines(16, 8192, random), planted[1], planted[1], sequential).report();
  REQUIRE(report.comparison.verdict == Status::improbable);
  const Document document = document_of(report);
  CHECK(document.exit_status == 1);
  CHECK(exit_status(report.comparison, {FailOn::never}) == 0);
  for (const std::string& text : {to_text(document), to_html(document)}) {
    CHECK(text.find("IMPROBABLE: layer ") != std::string::npos);
    CHECK(text.find("No proven bound is exceeded") != std::string::npos);
    CHECK(text.find("read as tf32 (cut), ") != std::string::npos);
    CHECK(text.find(" times nearer than as it is") != std::string::npos);
  }
  const std::string junit = to_junit(document);
  CHECK(junit.find("failures=\"2\" errors=\"0\"") != std::string::npos);
  CHECK(junit.find("<failure message=\"improbable\">") != std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(to_json(document));
  CHECK(schema_errors(schema_file, json) == "");
  CHECK(json["verdict"] == "improbable");
  const nlohmann::json& reading = json["layers"][0]["nearest_reading"];
  CHECK(reading["nearest"]["left"] == "tf32 (cut)");
  CHECK(reading["nearest"]["right"] == "tf32 (cut)");
  CHECK(reading["decisive"] == true);
  CHECK(reading["declared"] == false);
  CHECK(reading["elements"] == 128);
  CHECK(reading["false_alarm"].get<double>() <= 1e-9);
}

TEST_CASE(
    "a value above a probabilistic bound makes its layer improbable, one that the reference leaves open does not") {
  for (const bool is_certain : {true, false}) {
    HandMade made;
    BoundResult result = HandMade::make_bound(BoundKind::probabilistic, Guarantee::probabilistic);
    result.values.values.assign(6, 0.125);
    made.local.layers[0].values[0] = exact_ball(0.75);
    if (!is_certain) made.local.layers[0].values[0].radius = Magnitude(0.2);
    made.bounds.layers[0].local.push_back(result);
    const Comparison comparison = made.compare();
    CHECK((comparison.layers[0].status == Status::improbable) == is_certain);
    CHECK((comparison.verdict == Status::improbable) == is_certain);
    CHECK(exit_status(comparison, {}) == (is_certain ? 1 : 0));
  }
}

TEST_CASE("operands of convolutions and of einsums that were read as TF32 are named, and honest ones are not") {
  std::mt19937_64 random(77);
  const auto tensor = [&](Shape shape) {
    Tensor<float> made(std::move(shape));
    for (float& x : made.values) x = static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-52 - 1.0);
    return made;
  };
  constexpr std::size_t channels = 24, results = 6, length = 20, taps = 3;
  const Tensor<float> x = tensor({1, channels, length}), w = tensor({results, channels, taps}),
                      bias = tensor({results});
  for (const bool is_einsum : {false, true})
    for (const Read& read : {Read{"as it is"}, planted[0]}) {
      CAPTURE(is_einsum);
      CAPTURE(read.name);
      Graph graph;
      const ValueId input = graph.add_input("x", ElementType::f32, {{1, ""}, {channels, ""}, {length, ""}});
      const ValueId weights = graph.add_constant("w", StoredTensor::from(w));
      Tensor<float> y({1, results, length - taps + 1});
      for (std::size_t r = 0; r < results; ++r)
        for (std::size_t i = 0; i + taps <= length; ++i) {
          float sum = 0.0F;
          for (std::size_t c = 0; c < channels; ++c)
            for (std::size_t t = 0; t < taps; ++t)
              sum += read(x.values[c * length + i + t]) * read(w.values[(r * channels + c) * taps + t]);
          y.values[r * (length - taps + 1) + i] = sum + bias.values[r];
        }
      if (is_einsum) {
        y = Tensor<float>({1, length, results});
        for (std::size_t i = 0; i < length; ++i)
          for (std::size_t r = 0; r < results; ++r) {
            float sum = 0.0F;
            for (std::size_t c = 0; c < channels; ++c)
              sum += read(x.values[c * length + i]) * read(w.values[(r * channels + c) * taps]);
            y.values[i * results + r] = sum;
          }
        const ValueId first = graph.add_node("first", op::Gather{2, {}, {0}}, {weights});
        graph.outputs = {graph.add_node("layer", op::Einsum{"bcl,rc->blr"}, {input, first})};
      } else {
        const ValueId added = graph.add_constant("bias", StoredTensor::from(bias));
        op::Conv conv;
        graph.outputs = {graph.add_node("layer", conv, {input, weights, added})};
      }
      Inputs inputs;
      inputs.tensors = {{"x", StoredTensor::from(x)}};
      Trace trace = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("sequential"))).run(graph, inputs);
      trace.layers.back().output = StoredTensor::from(Tensor<float>(trace.layers.back().output.shape(), y.values));
      trace.provenance.program = "plain loops";
      trace.arithmetic.order = {};
      JudgeOptions options;
      options.bounds = {BoundKind::componentwise};
      const Comparison comparison = judge(graph, trace, options).comparison;
      const LayerSummary& layer = comparison.layers.back();
      const bool is_honest = read.bits == 23;
      CHECK((layer.status < Status::undecided) == is_honest);
      if (is_honest) continue;
      REQUIRE(layer.nearest_reading);
      CHECK(layer.nearest_reading->is_decisive);
      CHECK(to_string(layer.nearest_reading->nearest) == "tf32");
    }
}
