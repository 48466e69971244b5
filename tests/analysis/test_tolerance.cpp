#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "analysis/tolerance.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/trace/matrix_units.hpp"
#include "support/approach.hpp"
#include "support/json_schema.hpp"
#include "support/text.hpp"

using namespace driftbound;
using namespace driftbound::analysis;

// Kernels that are plain float32 loops of this file, against sums in long double.

namespace {

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

Tensor<double> random_tensor(Shape shape, std::mt19937_64& random) {
  Tensor<double> tensor(std::move(shape));
  for (double& x : tensor.values)
    x = static_cast<double>(static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-52 - 1.0));
  return tensor;
}

double narrow(double x, FormatId id) {
  return round_to(x, format(id), Rounding::nearest_even);
}

/// One element of a product, in one of several ways, stored in a format.
double kernel(const Tensor<double>& a, const Tensor<double>& b, std::int64_t row, std::int64_t column, int way,
              FormatId stored) {
  const std::int64_t k = a.shape[1], n = b.shape[1];
  const auto product = [&](std::int64_t i) {
    return std::pair(static_cast<float>(a.values[at(row * k + i)]), static_cast<float>(b.values[at(i * n + column)]));
  };
  float sum = 0.0F, other = 0.0F;
  for (std::int64_t step = 0; step < k; ++step) {
    const auto [x, y] = product(way % 2 == 0 ? step : k - 1 - step);
    float& part = way >= 4 && step % 2 == 1 ? other : sum;
    part = way % 3 == 0 ? std::fma(x, y, part) : part + x * y;
  }
  return narrow(static_cast<double>(sum + other), stored);
}

double exact_product(const Tensor<double>& a, const Tensor<double>& b, std::int64_t row, std::int64_t column) {
  long double sum = 0.0L;
  for (std::int64_t i = 0; i < a.shape[1]; ++i)
    sum += static_cast<long double>(a.values[at(row * a.shape[1] + i)]) *
           static_cast<long double>(b.values[at(i * b.shape[1] + column)]);
  return static_cast<double>(sum);
}

ToleranceRequest request_of(const std::string& op, std::vector<Tensor<double>> data = {}) {
  ToleranceRequest request;
  request.op = op;
  for (const Tensor<double>& one : data) request.data.push_back(StoredTensor::from(one));
  return request;
}

std::string refusal(const ToleranceRequest& request) {
  try {
    answer(request);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("no kernel is off by more than the tolerance of its data, and some come near it (T-138)") {
  std::mt19937_64 random(138);
  double closest = 0.0;
  for (int draw = 0; draw < 300; ++draw) {
    const std::int64_t k = draw % 10 == 0 ? 200 : 1 + static_cast<std::int64_t>(random() % 4);
    const Tensor<double> a = random_tensor({3, k}, random), b = random_tensor({k, 2}, random);
    ToleranceRequest request = request_of("gemm", {a, b});
    request.output = draw % 2 == 0 ? FormatId::fp32 : FormatId::bf16;
    const OpTolerance tolerance = answer(request).parts.at(0).tolerance;
    CHECK(tolerance.guarantee == Guarantee::conditional);
    for (std::int64_t row = 0; row < 3; ++row)
      for (std::int64_t column = 0; column < 2; ++column) {
        const std::size_t i = at(row * 2 + column);
        CHECK(tolerance.by_chance.values[i] <= tolerance.proven.values[i]);
        for (int way = 0; way < 6; ++way) {
          const double error =
              std::abs(kernel(a, b, row, column, way, request.output) - exact_product(a, b, row, column));
          CHECK(error <= tolerance.proven.values[i]);
          CHECK(error <= tolerance.by_chance.values[i]);
          closest = std::max(closest, error / tolerance.proven.values[i]);
        }
      }
  }
  CHECK_APPROACH("T-138", closest, 0.99);
}

TEST_CASE("the tolerance of a product in blocks is that of the product as a whole, element by element") {
  std::mt19937_64 random(139);
  const Tensor<double> a = random_tensor({8, 600}, random), b = random_tensor({600, 12}, random),
                       bias = random_tensor({12}, random);
  const OpTolerance in_blocks = answer(request_of("gemm", {a, b, bias})).parts.at(0).tolerance;
  Graph graph;
  Inputs inputs;
  std::vector<ValueId> operands;
  for (const auto& [name, tensor] : {std::pair("a", &a), std::pair("b", &b), std::pair("c", &bias)}) {
    std::vector<DeclaredDimension> shape;
    for (const std::int64_t extent : tensor->shape) shape.push_back({extent, ""});
    operands.push_back(graph.add_input(name, ElementType::f64, std::move(shape)));
    inputs.tensors.emplace_back(name, StoredTensor::from(*tensor));
  }
  graph.outputs = {graph.add_node("product", op::Gemm{}, operands)};
  const OpTolerance whole =
      tolerance_of(graph, inputs, cpu_arithmetic("fp32", {}), ToleranceRequest().failure_probability, 1);
  for (std::int64_t row = 0; row < 8; ++row)
    for (std::int64_t column = 0; column < 12; ++column) {
      const std::size_t i = at(row * 12 + column);
      CHECK(in_blocks.exact.values[i] ==
            doctest::Approx(exact_product(a, b, row, column) + bias.values[at(column)]).epsilon(1e-6));
      CHECK(in_blocks.proven.values[i] == doctest::Approx(whole.proven.values[i]).epsilon(1e-6));
      CHECK(in_blocks.by_chance.values[i] == doctest::Approx(whole.by_chance.values[i]).epsilon(1e-6));
      CHECK(in_blocks.estimate.values[i] == doctest::Approx(whole.estimate.values[i]).epsilon(1e-6));
      CHECK(in_blocks.by_chance.values[i] < in_blocks.proven.values[i]);
    }
}

namespace {

/// A product as the matrix unit of a device computes it.
Tensor<double> product_of_unit(const Tensor<double>& a, const Tensor<double>& b, const std::string& device,
                               FormatId format_of_operands, std::int64_t promotion = 0) {
  Graph graph;
  std::vector<ValueId> operands;
  Inputs inputs;
  for (const auto& [name, tensor] : {std::pair("a", &a), std::pair("b", &b)}) {
    operands.push_back(graph.add_input(name, ElementType::f32, {{tensor->shape[0], ""}, {tensor->shape[1], ""}}));
    graph.values[operands.back()].has_declared_shape = true;
    inputs.tensors.emplace_back(name, StoredTensor::from(*tensor));
  }
  graph.outputs = {graph.add_node("product", op::MatMul{}, operands)};
  graph.values[graph.outputs.front()].type = ElementType::f32;
  ArithmeticModel arithmetic =
      simulated_arithmetic(device, format(format_of_operands).name, parse_summation_order("sequential+fma"));
  arithmetic.tensor_core->promotion = static_cast<int>(promotion);
  const Evaluator evaluator = cpu_evaluator(std::move(arithmetic));
  return evaluator.run(graph, inputs, {}).layers.front().output.to_double();
}

/// Numbers of a format within ±1, of both signs or of one, some of them small.
Tensor<double> numbers_of(FormatId id, Shape shape, bool has_signs, std::mt19937_64& random) {
  Tensor<double> tensor = random_tensor(std::move(shape), random);
  for (double& x : tensor.values) {
    if (random() % 16 == 0) x *= 0x1p-12;
    x = narrow(has_signs ? x : std::abs(x), id);
  }
  return tensor;
}

}  // namespace

TEST_CASE(
    "no simulated matrix unit is off by more than the tolerance of its device, and fp8 is by that of float32 sums" *
    doctest::test_suite("campaign")) {
  std::mt19937_64 random(185);
  struct Unit {
    const char* device;
    FormatId operands;
  };
  double closest = 0.0;
  for (const Unit unit : {Unit{"h100", FormatId::fp8_e4m3}, Unit{"l40s", FormatId::fp8_e5m2},
                          Unit{"b200", FormatId::fp8_e4m3}, Unit{"a100", FormatId::bf16}, Unit{"v100", FormatId::fp16},
                          Unit{"a100", FormatId::tf32}, Unit{"h200", FormatId::fp16}})
    for (const std::int64_t k : {std::int64_t{1}, std::int64_t{40}, std::int64_t{2048}})
      for (const bool has_signs : {true, false}) {
        CAPTURE(unit.device);
        CAPTURE(k);
        const Tensor<double> a = numbers_of(unit.operands, {2, k}, has_signs, random),
                             b = numbers_of(unit.operands, {k, 2}, has_signs, random);
        const Tensor<double> computed = product_of_unit(a, b, unit.device, unit.operands);
        ToleranceRequest request = request_of("gemm", {a, b});
        request.input = unit.operands;
        const OpTolerance of_float32 = answer(request).parts.front().tolerance;
        request.device = unit.device;
        const ToleranceReport report = answer(request);
        REQUIRE(report.parts.size() == 1);
        CHECK(report.parts[0].device == unit.device);
        request = request_of("gemm");
        request.k = k;
        request.input = unit.operands;
        request.device = unit.device;
        const double any = answer(request).parts.front().proven;
        CHECK(report.parts[0].proven <= any);
        int beyond = 0;
        for (std::int64_t i = 0; i < 4; ++i) {
          const double error = std::abs(computed.values[at(i)] - exact_product(a, b, i / 2, i % 2));
          CHECK(error <= report.parts[0].tolerance.proven.values[at(i)]);
          beyond += error > of_float32.proven.values[at(i)];
          closest = std::max(closest, error / std::max(report.parts[0].tolerance.proven.values[at(i)], 0x1p-100));
        }
        const bool keeps_13_bits = format(unit.operands).precision <= 4 && std::string(unit.device) != "b200";
        if (k == 2048 && keeps_13_bits && !has_signs) CHECK(beyond == 4);
      }
  CHECK(closest > 0.1);
}

TEST_CASE("sums of a matrix unit that are added to a float32 every 128 products have a tolerance of their own") {
  std::mt19937_64 random(186);
  const std::int64_t k = 2048;
  const Tensor<double> a = numbers_of(FormatId::fp8_e4m3, {2, k}, false, random),
                       b = numbers_of(FormatId::fp8_e4m3, {k, 2}, false, random);
  ToleranceRequest request = request_of("gemm", {a, b});
  request.input = FormatId::fp8_e4m3;
  request.device = "h100";
  const double at_the_end = answer(request).parts.front().proven;
  request.promotion = 128;
  const ToleranceOf part = answer(request).parts.front();
  CHECK(contains(part.kernels, "added up in float32 every 128 products"));
  CHECK(part.proven < 0.2 * at_the_end);
  const Tensor<double> promoted = product_of_unit(a, b, "h100", FormatId::fp8_e4m3, 128);
  const Tensor<double> computed = product_of_unit(a, b, "h100", FormatId::fp8_e4m3);
  double closest = 0.0;
  for (std::int64_t i = 0; i < 4; ++i) {
    const double exact = exact_product(a, b, i / 2, i % 2), most = part.tolerance.proven.values[at(i)];
    closest = std::max(closest, std::abs(promoted.values[at(i)] - exact) / most);
    CHECK(std::abs(promoted.values[at(i)] - exact) <= most);
    CHECK(std::abs(computed.values[at(i)] - exact) > most);  // the unit without promotion
  }
  CHECK(closest > 0.02);
  request.promotion = 16;
  CHECK(contains(refusal(request), "adds up to 32 products in a step"));
  request = request_of("softmax");
  request.k = 8;
  request.promotion = 128;
  CHECK(contains(refusal(request), "softmax has no products"));
}

TEST_CASE("where no device is named the weakest matrix unit stands beside float32 sums, and no other is worse" *
          doctest::test_suite("campaign")) {
  for (const FormatId operands :
       {FormatId::fp8_e4m3, FormatId::fp8_e5m2, FormatId::bf16, FormatId::fp16, FormatId::tf32}) {
    CAPTURE(format(operands).name);
    ToleranceRequest request = request_of("gemm");
    request.k = 512;
    request.input = operands;
    const ToleranceReport report = answer(request);
    REQUIRE(report.parts.size() == 4);
    CHECK(report.asked == 2);
    CHECK(report.last_asked().device.empty());
    CHECK(report.parts[2].proven > report.parts[0].proven);
    const std::string headline = document_of(report).headline;
    CHECK(contains(headline, "with sums in fp32, in any order and rounded to nearest"));
    CHECK(contains(headline, "The weakest matrix unit known for " + std::string(format(operands).name) +
                                 ", the matrix unit of NVIDIA"));
    int found = 0;
    for (const SimulatedDevice& device : simulated_devices()) {
      request.device = device.name;
      try {
        const ToleranceReport of_device = answer(request);
        CHECK(of_device.parts.size() == 2);
        CHECK(of_device.parts[0].proven <= report.parts[2].proven);
        CHECK(of_device.parts[1].proven <= report.parts[3].proven);
        ++found;
      } catch (const NotAvailable&) {
      }
    }
    CHECK(found > 0);
  }
  ToleranceRequest plain = request_of("gemm");
  plain.k = 8;
  CHECK(answer(plain).parts.size() == 2);
  plain.input = FormatId::bf16;
  plain.accumulator = FormatId::fp64;
  CHECK(answer(plain).parts.size() == 2);
  ToleranceRequest attention = request_of("attention");
  attention.k = 16;
  attention.keys = 24;
  attention.input = FormatId::fp8_e4m3;
  const ToleranceReport report = answer(attention);
  REQUIRE(report.parts.size() == 3);
  CHECK(report.parts[2].device == "l40s");
  CHECK(report.parts[2].proven > report.last_asked().proven);
}

TEST_CASE("a device is refused where its matrix unit does not add up the products") {
  const auto refused = [](const char* op, const std::function<void(ToleranceRequest&)>& change) {
    ToleranceRequest request = request_of(op);
    request.k = 8;
    request.input = FormatId::bf16;
    request.device = "a100";
    change(request);
    return refusal(request);
  };
  CHECK(contains(refused("softmax", [](auto&) {}), "softmax has no products; leave --device out"));
  CHECK(contains(refused("gemm", [](auto& r) { r.device = "v100"; }), "has no matrix unit for bf16"));
  CHECK(contains(refused("gemm", [](auto& r) { r.device = "tpu"; }), "no simulated device"));
  CHECK(contains(refused("gemm", [](auto& r) { r.input = FormatId::fp32; }), "without a matrix unit"));
  CHECK(contains(refused("gemm", [](auto& r) { r.accumulator = FormatId::bf16; }), "leave --acc or --device out"));
  CHECK(contains(refused("gemm", [](auto& r) { r.order = parse_summation_order("pairwise"); }), "in any order"));
}

TEST_CASE("a tolerance for magnitudes holds for all data within them, and that of the data is smaller") {
  std::mt19937_64 random(7);
  ToleranceRequest request = request_of("gemm");
  request.k = 300;
  const ToleranceReport report = answer(request);
  REQUIRE(report.parts.size() == 2);
  const double any = report.parts[0].proven;
  CHECK(report.parts[0].data == "any data within ±1");
  CHECK(report.parts[0].largest_result == 300.0);
  CHECK(any < 300.0 * 300.0 * 0x1p-24);
  for (int draw = 0; draw < 20; ++draw) {
    Tensor<double> a = random_tensor({1, 300}, random), b = random_tensor({300, 1}, random);
    if (draw % 2 == 0)
      for (double& x : a.values) x = std::abs(x);
    CHECK(answer(request_of("gemm", {a, b})).parts[0].proven <= any);
    CHECK(std::abs(kernel(a, b, 0, 0, draw % 6, FormatId::fp32) - exact_product(a, b, 0, 0)) <= any);
  }
  CHECK(report.parts[1].proven < any);
  CHECK(report.parts[1].by_chance < report.parts[1].proven);
  REQUIRE(report.parts[1].estimate);
  CHECK(*report.parts[1].estimate < report.parts[1].by_chance);
}

TEST_CASE("operands in TF32 are beyond the tolerance at chance of float32") {
  std::mt19937_64 random(8);
  const Tensor<double> a = random_tensor({4, 512}, random), b = random_tensor({512, 4}, random);
  const OpTolerance tolerance = answer(request_of("gemm", {a, b})).parts[0].tolerance;
  Tensor<double> in_tf32 = a;
  for (double& x : in_tf32.values) x = narrow(x, FormatId::tf32);
  int beyond = 0;
  for (std::int64_t i = 0; i < 16; ++i)
    beyond += std::abs(kernel(in_tf32, b, i / 4, i % 4, 0, FormatId::fp32) - exact_product(a, b, i / 4, i % 4)) >
              tolerance.by_chance.values[at(i)];
  CHECK(beyond > 8);
}

TEST_CASE("what reading operands in TF32 loses is in the tolerance of all data within a magnitude, and attained") {
  for (const double magnitude : {1.0, 0.7, 3.0}) {
    CAPTURE(magnitude);
    ToleranceRequest request = request_of("gemm");
    request.k = 64;
    request.input = FormatId::tf32;
    request.magnitude = magnitude;
    const double any = answer(request).parts[0].proven;
    // Halfway between two numbers of TF32, as near to the magnitude as there are; a unit cuts the operands to the lower one.
    const double unit = ulp(std::nextafter(magnitude, 0.0), format(FormatId::tf32));
    const double lower = round_to(magnitude - 0.75 * unit, format(FormatId::tf32), Rounding::down);
    const double x = lower + 0.5 * unit;
    const double lost = 64.0 * (x * x - lower * lower);
    CHECK(lost <= any);
    CHECK(lost >= 0.9 * any);
  }
}

TEST_CASE("a sum in a narrower format than its terms loses half a unit of each, also where there is one term") {
  ToleranceRequest request = request_of("all-reduce");
  request.accumulator = request.output = FormatId::bf16;
  for (const std::int64_t k : {1, 2, 5}) {
    CAPTURE(k);
    request.k = k;
    const double any = answer(request).parts[0].proven;
    const double x = 1.0 - 0x1p-9 - 0x1p-20;  // float32 numbers that round to 1 - 2^-8
    CHECK(static_cast<double>(k) * (x - narrow(x, FormatId::bf16)) <= any);
    CHECK(any >= static_cast<double>(k) * 0x1p-9);
  }
}

TEST_CASE("numbers of blocks with scales have exact products: their tolerance is that of 16-bit operands") {
  ToleranceRequest scaled = request_of("gemm"), plain = request_of("gemm");
  scaled.k = plain.k = 64;
  scaled.input = FormatId::bf16;
  scaled.scaled_input = "mxfp8";
  const ToleranceReport report = answer(scaled);
  CHECK(report.parts[0].proven <= answer(plain).parts[0].proven);
  CHECK(contains(document_of(report).headline, "mxfp8 operands"));
}

TEST_CASE("an estimate is never above what is proven") {
  for (const char* op : {"gemm", "softmax", "all-reduce", "rmsnorm"})
    for (const char* order : {"", "blocked:8+fma"}) {
      ToleranceRequest request = request_of(op);
      request.k = 64;
      if (*order != 0) request.order = parse_summation_order(order);
      for (const ToleranceOf& part : answer(request).parts)
        if (part.estimate) CHECK(*part.estimate <= part.proven);
    }
}

TEST_CASE("an order, a wide accumulator and few parts make a tolerance smaller; narrow sums make it larger" *
          doctest::test_suite("campaign")) {
  ToleranceRequest request = request_of("gemm");
  request.k = 512;
  request.input = FormatId::bf16;
  const double any = answer(request).parts[0].proven;
  request.order = parse_summation_order("split-k:16+fma");
  const double split = answer(request).parts[0].proven;
  CHECK(split < any / 8);
  request.order = {};
  request.accumulator = FormatId::fp64;
  request.output = FormatId::fp32;
  CHECK(answer(request).parts[0].proven < any / 8);
  request.accumulator = FormatId::bf16;
  request.output = FormatId::bf16;
  CHECK(answer(request).parts[0].proven > 1000 * any);
}

TEST_CASE("a kernel that keeps its steps in the accumulator has a smaller tolerance than one that stores them" *
          doctest::test_suite("campaign")) {
  ToleranceRequest request = request_of("attention");
  request.k = 32;
  request.keys = 64;
  request.input = request.output = FormatId::bf16;
  const double fused = answer(request).last_asked().proven;
  request.stores_inside = true;
  CHECK(answer(request).last_asked().proven > 2.0 * fused);
  request.output = FormatId::fp32;
  CHECK(answer(request).last_asked().proven < fused);
}

TEST_CASE("every op has a finite tolerance, small next to its results") {
  for (const ToleranceOp& op : tolerance_ops()) {
    CAPTURE(op.name);
    ToleranceRequest request = request_of(std::string(op.name));
    request.k = 64;
    if (op.name == "attention") request.keys = 48;
    const ToleranceReport report = answer(request);
    for (const ToleranceOf& part : report.parts) {
      CHECK(part.proven > 0.0);
      CHECK(part.proven < 1e-3 * std::max(part.largest_result, 1e-2));
    }
    const Document document = document_of(report);
    CHECK(document.exit_status == 0);
    CHECK(schema_errors(std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/schema/tolerance-1.json",
                        nlohmann::json::parse(to_json(document))) == "");
    CHECK(contains(to_text(document), std::string(op.name)));
  }
}

TEST_CASE("float32 functions and norms of this file are within the tolerances of their ops") {
  std::mt19937_64 random(9);
  const Tensor<double> x = random_tensor({5, 40}, random);
  const OpTolerance softmax = answer(request_of("softmax", {x})).parts[0].tolerance;
  const OpTolerance norm =
      answer(request_of("rmsnorm", {x, Tensor<double>({40}, std::vector<double>(40, 1.0))})).parts[0].tolerance;
  for (std::int64_t row = 0; row < 5; ++row) {
    float sum = 0.0F, squares = 0.0F;
    double exact_sum = 0.0, exact_squares = 0.0;
    for (std::int64_t j = 0; j < 40; ++j) {
      const double value = x.values[at(row * 40 + j)];
      sum += std::exp(static_cast<float>(value));
      squares += static_cast<float>(value) * static_cast<float>(value);
      exact_sum += std::exp(value);
      exact_squares += value * value / 40.0;
    }
    for (std::int64_t j = 0; j < 40; ++j) {
      const std::size_t i = at(row * 40 + j);
      const auto value = static_cast<float>(x.values[i]);
      const double of_softmax = static_cast<double>(std::exp(value) / sum),
                   of_norm = static_cast<double>(value / std::sqrt(squares / 40.0F + 1e-6F));
      CHECK(std::abs(of_softmax - std::exp(x.values[i]) / exact_sum) <= softmax.proven.values[i]);
      CHECK(std::abs(of_norm - x.values[i] / std::sqrt(exact_squares + 1e-6)) <= norm.proven.values[i]);
    }
  }
}

/// Causal attention of one head in float32, or in double.
template <class Real>
std::vector<double> causal_attention(const Tensor<double>& q, const Tensor<double>& k, const Tensor<double>& v,
                                     double scale) {
  const std::int64_t queries = q.shape[2], size = q.shape[3];
  std::vector<double> results;
  for (std::int64_t i = 0; i < queries; ++i) {
    std::vector<Real> scores;
    for (std::int64_t j = 0; j <= i; ++j) {
      Real sum = 0;
      for (std::int64_t d = 0; d < size; ++d)
        sum += static_cast<Real>(q.values[at(i * size + d)]) * static_cast<Real>(k.values[at(j * size + d)]);
      scores.push_back(sum * static_cast<Real>(scale));
    }
    const Real largest = *std::max_element(scores.begin(), scores.end());
    Real total = 0;
    for (Real& score : scores) total += score = std::exp(score - largest);
    for (std::int64_t d = 0; d < size; ++d) {
      Real sum = 0;
      for (std::int64_t j = 0; j <= i; ++j)
        sum += scores[at(j)] / total * static_cast<Real>(v.values[at(j * size + d)]);
      results.push_back(static_cast<double>(sum));
    }
  }
  return results;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

TEST_CASE("attention has the scale and the causality that are asked for, and float32 loops are within its tolerance") {
  std::mt19937_64 random(10);
  const Tensor<double> q = random_tensor({1, 1, 6, 8}, random), k = random_tensor({1, 1, 6, 8}, random),
                       v = random_tensor({1, 1, 6, 8}, random);
  ToleranceRequest request = request_of("attention", {q, k, v});
  request.scale = -0.7;
  request.is_causal = true;
  const ToleranceReport report = answer(request);
  const OpTolerance& tolerance = report.parts[0].tolerance;
  const std::vector<double> exact = causal_attention<double>(q, k, v, -0.7),
                            computed = causal_attention<float>(q, k, v, -0.7);
  CHECK(largest_difference(tolerance.exact.values, exact) < 1e-13);
  for (std::size_t i = 0; i < exact.size(); ++i) CHECK(std::abs(computed[i] - exact[i]) <= tolerance.proven.values[i]);
  CHECK(contains(document_of(report).headline, "scale -0.7, causal"));
  request.scale.reset();
  CHECK(largest_difference(answer(request).parts[0].tolerance.exact.values,
                           causal_attention<double>(q, k, v, 1.0 / std::sqrt(8.0))) < 1e-13);
}

TEST_CASE("norms have the epsilon that is asked for, also one that outweighs the squares") {
  std::mt19937_64 random(11);
  const Tensor<double> x = random_tensor({4, 12}, random), ones({12}, std::vector<double>(12, 1.0));
  for (const double epsilon : {1e-12, 0.3, 50.0})
    for (const char* op : {"rmsnorm", "layernorm"}) {
      CAPTURE(epsilon);
      CAPTURE(op);
      ToleranceRequest request = request_of(op, {x, ones});
      request.epsilon = epsilon;
      const OpTolerance tolerance = answer(request).parts[0].tolerance;
      for (std::int64_t row = 0; row < 4; ++row) {
        double mean = 0.0, squares = 0.0;
        float mean_f = 0.0F, squares_f = 0.0F;
        const auto element = [&](std::int64_t j) { return x.values[at(row * 12 + j)]; };
        for (std::int64_t j = 0; std::string(op) == "layernorm" && j < 12; ++j) {
          mean += element(j) / 12.0;
          mean_f += static_cast<float>(element(j)) / 12.0F;
        }
        for (std::int64_t j = 0; j < 12; ++j) {
          squares += (element(j) - mean) * (element(j) - mean) / 12.0;
          squares_f += (static_cast<float>(element(j)) - mean_f) * (static_cast<float>(element(j)) - mean_f);
        }
        for (std::int64_t j = 0; j < 12; ++j) {
          const double exact = (element(j) - mean) / std::sqrt(squares + epsilon);
          const float computed =
              (static_cast<float>(element(j)) - mean_f) / std::sqrt(squares_f / 12.0F + static_cast<float>(epsilon));
          const std::size_t i = at(row * 12 + j);
          CHECK(std::abs(tolerance.exact.values[i] - exact) < 1e-12);
          CHECK(std::abs(static_cast<double>(computed) - exact) <= tolerance.proven.values[i]);
        }
      }
    }
}

/// The folded steps of a layer norm in float32, against long double.
void check_folded_norm(const Tensor<double>& x, const Tensor<double>& scale, double bound) {
  const std::int64_t n = x.shape[1];
  for (std::int64_t row = 0; row < x.shape[0]; ++row) {
    float mean = 0.0F, variance = 0.0F;
    long double exact_mean = 0.0L, exact_variance = 0.0L;
    const auto element = [&](std::int64_t j) { return x.values[at(row * n + j)]; };
    for (std::int64_t j = 0; j < n; ++j) {
      mean += static_cast<float>(element(j));
      exact_mean += static_cast<long double>(element(j)) / static_cast<long double>(n);
    }
    mean /= static_cast<float>(n);
    for (std::int64_t j = 0; j < n; ++j) {
      const float centred = static_cast<float>(element(j)) - mean;
      const long double exact_centred = static_cast<long double>(element(j)) - exact_mean;
      variance += centred * centred;
      exact_variance += exact_centred * exact_centred / static_cast<long double>(n);
    }
    const float factor = 1.0F / std::sqrt(variance / static_cast<float>(n) + 1e-5F);
    for (std::int64_t j = 0; j < n; ++j) {
      const auto of_scale = static_cast<float>(scale.values[at(j)]);
      const float computed = (static_cast<float>(element(j)) * factor - factor * mean) * of_scale;
      const long double exact = (static_cast<long double>(element(j)) - exact_mean) /
                                std::sqrt(exact_variance + 1e-5L) * static_cast<long double>(of_scale);
      CHECK(std::abs(static_cast<double>(static_cast<long double>(computed) - exact)) <= bound);
    }
  }
}

TEST_CASE(
    "every op has a tolerance for all data within a magnitude, above those of data, and rotations come near (T-185)" *
    doctest::test_suite("campaign")) {
  std::mt19937_64 random(1850);
  double closest = 0.0;
  for (const char* op : {"softmax", "layernorm", "rmsnorm", "gelu", "silu-and-mul", "rotary", "attention"})
    for (const double magnitude : {0.5, 8.0}) {
      CAPTURE(op);
      CAPTURE(magnitude);
      const bool is_attention = std::string(op) == "attention", is_rotary = std::string(op) == "rotary",
                 is_norm = std::string(op) == "layernorm" || std::string(op) == "rmsnorm";
      ToleranceRequest request = request_of(op);
      request.k = 16;
      if (is_attention) request.keys = 12;
      request.magnitude = magnitude;
      const ToleranceReport report = answer(request);
      REQUIRE(report.parts.size() == 2);
      CHECK(contains(report.parts[0].data, "any data within"));
      const double any = report.parts[0].proven;
      CHECK(std::isfinite(any));
      const bool is_small = is_norm || any < 1e-2 * report.parts[0].largest_result;
      CHECK(is_small);
      for (int draw = 0; draw < 12; ++draw) {
        // Of one sign, of both, of a few large numbers, nearly equal: within the magnitude.
        const auto within = [&](Shape shape, double most) {
          Tensor<double> numbers = random_tensor(std::move(shape), random);
          for (double& x : numbers.values) {
            if (draw % 4 == 0) x = std::abs(x);
            if (draw % 4 == 1) x = std::copysign(1.0, x);
            if (draw % 4 == 2) x = 1.0 + x * 0x1p-12 - 0x1p-12;
            x = narrow(x * most, FormatId::fp32);
          }
          return numbers;
        };
        std::vector<Tensor<double>> data = {within({4, 16}, magnitude)};
        if (is_norm) data.push_back(within({16}, 1.0));
        if (is_rotary) data = {within({1, 1, 64, 16}, magnitude), within({1, 64, 8}, 1.0), within({1, 64, 8}, 1.0)};
        if (is_attention)
          data = {within({1, 1, 5, 16}, magnitude), within({1, 1, 12, 16}, magnitude),
                  within({1, 1, 12, 16}, magnitude)};
        const OpTolerance tolerance = answer(request_of(op, data)).parts[0].tolerance;
        // Bounds of nearly equal data do not see that both terms of a folded layer norm have one factor: theirs are larger.
        const bool is_folded = std::string(op) == "layernorm" && draw % 4 == 2;
        if (is_folded) check_folded_norm(data[0], data[1], any);
        for (std::size_t i = 0; i < tolerance.proven.size(); ++i) {
          if (!is_folded) CHECK(tolerance.proven.values[i] <= any);
          CHECK(std::abs(tolerance.exact.values[i]) <= report.parts[0].largest_result);
        }
        if (!is_rotary) continue;
        for (std::int64_t row = 0; row < 64; ++row)
          for (std::int64_t j = 0; j < 8; ++j) {
            const double a = data[0].values[at(row * 16 + j)], b = data[0].values[at(row * 16 + 8 + j)],
                         c = data[1].values[at(row * 8 + j)], s = data[2].values[at(row * 8 + j)];
            const float first = static_cast<float>(a) * static_cast<float>(c),
                        second = static_cast<float>(b) * static_cast<float>(s);
            const double error = std::abs(static_cast<double>(first - second) - (a * c - b * s));
            CHECK(error <= any);
            closest = std::max(closest, error / any);
          }
      }
    }
  CHECK_APPROACH("T-185", closest, 0.2);
}

TEST_CASE(
    "all data within a magnitude have no tolerance where reading them loses what is not bounded, or results overflow") {
  ToleranceRequest request = request_of("softmax");
  request.k = 16;
  request.accumulator = request.output = FormatId::bf16;
  CHECK(answer(request).parts.size() == 1);  // float32 operands are rounded when they are read
  request.input = FormatId::bf16;
  CHECK(answer(request).parts.size() == 2);
  request.accumulator = FormatId::fp32;
  CHECK(answer(request).parts[0].proven > 0x1p-10);  // stored once in bfloat16
  request.stores_inside = true;
  CHECK(answer(request).parts.size() == 1);
  ToleranceRequest large = request_of("silu-and-mul");
  large.k = 16;
  large.magnitude = 1e18;
  CHECK(answer(large).parts.size() == 2);
  ToleranceRequest apart = request_of("attention");
  apart.k = apart.keys = 16;
  apart.magnitude = 1e5;  // weights of keys that are 10^10 apart may be anything
  CHECK(answer(apart).parts.size() == 1);
}

TEST_CASE("what a tolerance lacks or does not take is said") {
  CHECK(contains(refusal(request_of("gem")), "there is no op 'gem'; there are: gemm, conv"));
  CHECK(contains(refusal(request_of("gemm")), "give --k"));
  ToleranceRequest attention = request_of("attention");
  attention.k = 8;
  CHECK(contains(refusal(attention), "needs --keys"));
  ToleranceRequest rotary = request_of("rotary");
  rotary.k = 7;
  CHECK(contains(refusal(rotary), "--k is odd"));
  CHECK(contains(refusal(request_of("gemm", {Tensor<double>({2, 3}), Tensor<double>({4, 2})})),
                 "have the shapes [2, 3] and [4, 2]"));
  CHECK(contains(refusal(request_of("gelu", {Tensor<double>({1}, {std::nan("")})})), "finite floating-point numbers"));
  CHECK(contains(refusal(request_of("gelu", {Tensor<double>(Shape{})})), "has the shape []"));
  CHECK(contains(refusal(request_of("rmsnorm", {Tensor<double>({2, 3})})),
                 "has 1 array, and rmsnorm reads x [m, k], scale"));
  const Tensor<double> matrix({2, 4});
  CHECK(contains(refusal(request_of("attention", {matrix, matrix, matrix})),
                 "has the shape [2, 4], and attention reads"));
  ToleranceRequest biased = request_of("softmax");
  biased.k = 4;
  biased.has_bias = true;
  CHECK(contains(refusal(biased), "softmax has no bias"));
  biased.has_bias = false;
  biased.keys = 3;
  CHECK(contains(refusal(biased), "softmax has no keys"));
  CHECK(contains(refusal(request_of("silu-and-mul", {Tensor<double>({2, 0})})), "has the shape [2, 0]"));
  CHECK(contains(refusal(request_of("silu-and-mul", {Tensor<double>({3, 7})})), "rows of 7 numbers are odd"));
  ToleranceRequest beyond = request_of("gemm");
  beyond.k = 4;
  beyond.input = FormatId::fp16;
  beyond.magnitude = 70000.0;
  CHECK(contains(refusal(beyond), "above the largest number of fp16"));
  beyond.magnitude = 1e-20;
  CHECK(contains(refusal(beyond), "is 0 in fp16"));
  ToleranceRequest ordered = request_of("gelu");
  ordered.k = 4;
  ordered.order = parse_summation_order("sequential");
  CHECK(contains(refusal(ordered), "gelu has no sums"));
  ordered = request_of("all-reduce");
  ordered.k = 4;
  ordered.input = FormatId::tf32;
  CHECK(contains(refusal(ordered), "reads operands in TF32"));
  ToleranceRequest with_epsilon = request_of("softmax");
  with_epsilon.k = 4;
  with_epsilon.epsilon = 1e-5;
  CHECK(contains(refusal(with_epsilon), "softmax has no epsilon; leave --epsilon out"));
  with_epsilon.epsilon.reset();
  with_epsilon.is_causal = true;
  CHECK(contains(refusal(with_epsilon), "softmax has no keys; leave --causal out"));
  const Tensor<double> four({1, 1, 2, 2}), wrong_mask({3, 3}, std::vector<double>(9, -1.0));
  CHECK(contains(refusal(request_of("attention", {four, four, four, wrong_mask})), "[3, 3]"));
  const Tensor<double> not_a_mask({2, 2}, {0.0, std::nan(""), 0.0, 0.0});
  CHECK(contains(refusal(request_of("attention", {four, four, four, not_a_mask})), "has NaN"));
  ToleranceRequest narrow_data = request_of("gelu", {Tensor<double>({1}, {1e30})});
  narrow_data.input = FormatId::fp16;
  CHECK(contains(refusal(narrow_data), "above the largest one of fp16"));
  ToleranceRequest overflow = request_of("gemm");
  overflow.k = 64;
  overflow.magnitude = 100.0;
  overflow.output = FormatId::fp16;
  const Document document = document_of(answer(overflow));
  CHECK(document.exit_status == 1);
  CHECK(contains(document.headline, "NO TOLERANCE"));
}
