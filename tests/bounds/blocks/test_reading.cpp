#include <doctest/doctest.h>

#include "bounds/blocks/reading.hpp"
#include "support/approach.hpp"
#include "support/matrix_unit.hpp"
#include "support/rounded_checks.hpp"

using namespace checks;

namespace {

constexpr std::int64_t width = 12, samples = 6;

Tensor<float> random_floats(const Shape& shape, Generator& generator) {
  Tensor<float> values(shape);
  for (float& x : values.values) x = static_cast<float>(uniform(generator, -1.0, 1.0));
  return values;
}

/// A tie of TF32, whose neighbours above and below are 2^-9 apart.
float tie(Generator& generator) {
  const auto x = static_cast<float>(uniform(generator, 1.0, 2.0));
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) & ~std::uint32_t{0x1fff}) | 0x1000u);
}

/// x [n, c, h, w] with w [m, c, 3, 3], in the order of the elements.
Tensor<float> convolved(const Tensor<float>& x, const Tensor<float>& w) {
  const auto [n, c, h, l] = std::tuple(x.shape[0], x.shape[1], x.shape[2], x.shape[3]);
  Tensor<float> y({n, w.shape[0], h - 2, l - 2});
  const auto at = [](std::int64_t index) { return static_cast<std::size_t>(index); };
  for (std::int64_t out = 0; out < element_count(y.shape); ++out) {
    const std::int64_t column = out % (l - 2), row = out / (l - 2) % (h - 2), pixel = (l - 2) * (h - 2);
    const std::int64_t filter = out / pixel % w.shape[0], sample = out / pixel / w.shape[0];
    float sum = 0.0f;
    for (std::int64_t k = 0; k < 9 * c; ++k) {
      const std::int64_t from = (sample * c + k / 9) * h * l + (row + k % 9 / 3) * l + column + k % 3;
      sum += x.values[at(from)] * w.values[at(9 * c * filter + k)];
    }
    y.values[at(out)] = sum;
  }
  return y;
}

/// gemm, relu, gemm, relu, gemm.
Graph three_products(Generator& generator) {
  Graph graph;
  ValueId value = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {width, ""}});
  for (const char* name : {"first", "second", "third"}) {
    const ValueId weights =
        graph.add_constant(name + std::string("/W"), StoredTensor::from(random_floats({width, width}, generator)));
    value = graph.add_node(name, op::Gemm{}, {value, weights});
    if (name != std::string("third")) value = graph.add_node(name + std::string("/relu"), op::Relu{}, {value});
  }
  graph.outputs = {value};
  return graph;
}

/// A run in which every product, by its place, reads its operands so.
Trace run_of(const Graph& graph, const Tensor<float>& input, const std::vector<UnitReading>& readings,
             Generator& generator, const MatrixUnit& unit = {}, FormatId output = FormatId::fp32) {
  UnitRun run(unit, generator);
  std::vector<Tensor<float>> values(graph.values.size());
  for (ValueId id = 0; id < graph.values.size(); ++id)
    if (graph.is_constant(id)) values[id] = convert<float>(graph.value(id).constant.to_double());
  values[graph.inputs[0]] = input;
  Trace trace;
  trace.inputs.tensors.emplace_back("x", StoredTensor::from(input));
  trace.arithmetic = unit.arithmetic();
  trace.arithmetic.output = output;
  trace.provenance = foreign_provenance;
  trace.samples = input.shape[0];
  std::size_t product = 0;
  for (const Node& node : graph.nodes) {
    Operands<float> operands;
    for (const ValueId id : node.inputs) operands.push_back(&values[id]);
    Tensor<float>& result = values[node.output];
    if (std::holds_alternative<op::Relu>(node.op)) {
      result = *operands[0];
      for (float& x : result.values) x = std::max(x, 0.0f);
    } else {
      run.read(readings[product++]);
      result = unit_product(run, node.op, operands, {input.shape[0], width});
      for (float& x : result.values) x = naive::as_operand(x, output);
    }
    trace.layers.push_back({node.name, StoredTensor::from(result)});
  }
  return trace;
}

Bounds bounds_of_run(const Graph& graph, const Trace& trace) {
  BoundOptions options;
  options.requests = {BoundKind::adjoint_any_order, BoundKind::rounded_shadow};
  return bound(graph, trace, options);
}

std::vector<std::optional<Reading>> readings_of_products(const Bounds& bounds) {
  return {bounds.layers[0].reading, bounds.layers[2].reading, bounds.layers[4].reading};
}

std::string reading_condition(const Bounds& bounds) {
  for (const std::string& condition : bounds.assumptions)
    if (condition.find("(A-07)") != std::string::npos) return condition;
  return "";
}

/// Of the outputs, how much of a bound the worst error is.
double used(const Graph& graph, const Trace& trace, const Bounds& bounds, BoundKind kind) {
  const std::vector<Tensor<Real>> exact = exact_values(graph, trace.inputs.tensors[0].second.to_double());
  const Tensor<double> computed = trace.layers.back().output.to_double();
  const BoundResult* bound = find_bound(bounds.layers.back().accumulated, kind);
  double most = 0.0;
  for (std::size_t i = 0; i < computed.size(); ++i) {
    const Real error = abs(Real(computed.values[i]) - exact[graph.outputs[0]].values[i]);
    const double share = error.to_double() / bound->values.values[i];
    most = !(share <= most) ? share : most;
  }
  return most;
}

}  // namespace

TEST_CASE("a recorded run shows how each of its products reads its operands, and its bound stands on that (T-130)") {
  using enum UnitReading;
  const std::vector<std::pair<UnitReading, Reading>> kinds = {
      {nearest_even, Reading::nearest_even}, {as_given, Reading::as_given}, {each_its_own, Reading::either_way}};
  Generator generator(1301);
  const Graph graph = three_products(generator);
  double closest = 0.0;
  for (const auto& first : kinds)
    for (const auto& second : kinds)
      for (const auto& third : kinds) {
        const auto& [a, b, c] = std::tuple(first.second, second.second, third.second);
        CAPTURE(name_of(a));
        CAPTURE(name_of(b));
        CAPTURE(name_of(c));
        Tensor<float> input = random_floats({samples, width}, generator);
        const Trace trace = run_of(graph, input, {first.first, second.first, third.first}, generator);
        const Bounds bounds = bounds_of_run(graph, trace);
        const std::vector<std::optional<Reading>> found = readings_of_products(bounds);
        CHECK(found == std::vector<std::optional<Reading>>{a, b, c});
        CHECK_FALSE(bounds.layers[1].reading.has_value());
        const double share = used(graph, trace, bounds, BoundKind::rounded_shadow);
        closest = !(share <= closest) ? share : closest;
        CHECK(used(graph, trace, bounds, BoundKind::adjoint_any_order) <= 1.0);
      }
  CHECK_APPROACH("T-130", closest, 0.9995);
}

TEST_CASE("the rule for ties is that of the run") {
  using enum UnitReading;
  for (const auto& [reads, found] :
       {std::pair(nearest_even, Reading::nearest_even), std::pair(nearest_away, Reading::nearest_away)}) {
    Generator generator(1302);
    const Graph graph = three_products(generator);
    Tensor<float> input({samples, width});
    for (float& x : input.values) x = tie(generator);
    const Trace trace = run_of(graph, input, {reads, reads, reads}, generator);
    const Bounds bounds = bounds_of_run(graph, trace);
    CHECK(bounds.layers[0].reading == found);
    CHECK(used(graph, trace, bounds, BoundKind::rounded_shadow) <= 1.0);
  }
}

TEST_CASE("a run in TF32 that reads nothing rounded is bounded by what float32 does") {
  using enum UnitReading;
  Generator generator(1303);
  const Graph graph = three_products(generator);
  const Trace trace =
      run_of(graph, random_floats({samples, width}, generator), {as_given, as_given, as_given}, generator);
  const Bounds bounds = bounds_of_run(graph, trace);
  const std::vector<BoundResult>& of_output = bounds.layers.back().accumulated;
  const BoundResult* rounded = find_bound(of_output, BoundKind::rounded_shadow);
  const BoundResult* any_order = find_bound(of_output, BoundKind::adjoint_any_order);
  for (std::size_t i = 0; i < rounded->values.size(); ++i)
    CHECK(rounded->values.values[i] < 0.01 * any_order->values.values[i]);
  CHECK(reading_condition(bounds) ==
        "products read their operands as in this run, sample by sample (A-07): all of them as they are, not rounded to "
        "tf32, added up by float32 operations");
}

TEST_CASE("samples that another kernel multiplied leave the reading open in their block") {
  using enum UnitReading;
  Generator generator(1304);
  const Graph graph = three_products(generator);
  const Tensor<float> input = random_floats({samples, width}, generator);
  Trace trace = run_of(graph, input, {nearest_even, nearest_even, nearest_even}, generator);
  const Trace other = run_of(graph, input, {as_given, as_given, as_given}, generator);
  for (std::size_t layer = 0; layer < trace.layers.size(); ++layer) {
    Tensor<double> values = trace.layers[layer].output.to_double();
    const Tensor<double> others = other.layers[layer].output.to_double();
    std::copy(others.values.end() - width, others.values.end(), values.values.end() - width);
    trace.layers[layer].output = StoredTensor::from(convert<float>(values));
  }
  const Bounds bounds = bounds_of_run(graph, trace);
  for (const std::optional<Reading>& reading : readings_of_products(bounds)) CHECK(reading == Reading::either_way);
  CHECK(used(graph, trace, bounds, BoundKind::rounded_shadow) <= 1.0);
}

TEST_CASE("the condition names the products that differ") {
  using enum UnitReading;
  Generator generator(1305);
  const Graph graph = three_products(generator);
  const Trace trace =
      run_of(graph, random_floats({samples, width}, generator), {nearest_even, as_given, nearest_even}, generator);
  CHECK(
      reading_condition(bounds_of_run(graph, trace)) ==
      "products read their operands as in this run, sample by sample (A-07): 'first', 'third' rounded to nearest, ties "
      "to even, in tf32; 'second' as they are, not rounded to tf32, added up by float32 operations");
}

TEST_CASE("a run shows whether numbers below the normal range are taken for 0") {
  Generator generator(1308);
  const Graph graph = three_products(generator);
  Tensor<float> input = random_floats({samples, width}, generator);
  for (float& x : input.values) x *= 0x1p-14f;
  double kept = 0.0;
  for (const bool flushes : {false, true}) {
    CAPTURE(flushes);
    MatrixUnit unit;
    unit.input = FormatId::fp16;
    unit.may_flush = flushes;
    const Trace trace =
        run_of(graph, input, {UnitReading::nearest_even, UnitReading::nearest_even, UnitReading::nearest_even},
               generator, unit);
    Trace declared = trace;
    declared.arithmetic.products_may_flush = true;
    const Bounds bounds = bounds_of_run(graph, declared);
    CHECK(bounds.layers[0].reading == Reading::nearest_even);
    const bool all_kept =
        reading_condition(bounds).find("all of them rounded to nearest, ties to even, in fp16, nothing flushed") !=
        std::string::npos;
    CHECK(all_kept == !flushes);
    CHECK(used(graph, trace, bounds, BoundKind::rounded_shadow) <= 1.0);
    const double bound = find_bound(bounds.layers.back().accumulated, BoundKind::rounded_shadow)->values.values[0];
    if (flushes) CHECK(kept < 0.5 * bound);
    kept = bound;
  }
}

namespace {

/// One product of x [1, 2] and its elements' sum, as a unit of fp16 that may flush has made them.
Trace sum_of_product(const std::vector<float>& x, const std::vector<float>& y) {
  Trace trace;
  trace.inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>({1, 2}, x)));
  MatrixUnit unit;
  unit.input = FormatId::fp16;
  unit.may_flush = true;
  trace.arithmetic = unit.arithmetic();
  trace.provenance = foreign_provenance;
  trace.samples = 1;
  trace.layers.push_back({"product", StoredTensor::from(Tensor<float>({1, 3}, y))});
  trace.layers.push_back({"sum", StoredTensor::from(Tensor<float>({1, 1}, {y[0] + y[1] + y[2]}))});
  return trace;
}

}  // namespace

TEST_CASE("sums that read a number each in its own way are not taken for a product that reads it in one") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {2, ""}});
  const ValueId w =
      graph.add_constant("w", StoredTensor::from(Tensor<float>({2, 3}, {1.0f, 2.0f, -3.0f, 1.0f, -1.0f, 0.0f})));
  const ValueId product = graph.add_node("product", op::MatMul{}, {x, w});
  graph.outputs = {graph.add_node("sum", op::ReduceSum{{1}, true}, {product})};
  const float r = 0x1p-15f;  // below the normal range of fp16: 0 or itself
  for (const float k : {0.5f, 1.0f, 1.25f, 1.5f, 1.75f, 2.0f}) {
    CAPTURE(k);
    const float first = 0.5f + k * r;  // rounded to 0.5 by the third sum alone
    const Trace trace = sum_of_product({first, r}, {first + r, 2.0f * first - r, -1.5f});
    const Bounds bounds = bounds_of_run(graph, trace);
    const double error = std::abs(trace.layers.back().output.to_double().values[0]);  // it is 0 over the reals
    CHECK(error <= find_bound(bounds.layers.back().accumulated, BoundKind::rounded_shadow)->values.values[0]);
  }
}

TEST_CASE("a product of constants shows how it reads them") {
  Generator generator(1309);
  const Tensor<float> a = random_floats({4, 4}, generator), b = random_floats({4, 4}, generator);
  const Tensor<float> x = random_floats({1, 4}, generator);
  Graph graph;
  const ValueId input = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {4, ""}});
  const ValueId fixed =
      graph.add_node("fixed", op::MatMul{},
                     {graph.add_constant("a", StoredTensor::from(a)), graph.add_constant("b", StoredTensor::from(b))});
  graph.outputs = {graph.add_node("product", op::MatMul{}, {input, fixed})};
  for (const UnitReading reading : {UnitReading::nearest_even, UnitReading::as_given}) {
    const MatrixUnit unit;
    UnitRun run(unit, generator);
    run.read(reading);
    const Tensor<float> w = unit_product(run, op::MatMul{}, {&a, &b}, {4, 4});
    const Tensor<float> y = unit_product(run, op::MatMul{}, {&x, &w}, {1, 4});
    Trace trace;
    trace.inputs.tensors.emplace_back("x", StoredTensor::from(x));
    trace.arithmetic = unit.arithmetic();
    trace.provenance = foreign_provenance;
    trace.samples = 1;
    trace.layers.push_back({"fixed", StoredTensor::from(w)});
    trace.layers.push_back({"product", StoredTensor::from(y)});
    const Bounds bounds = bounds_of_run(graph, trace);
    const Reading expected = reading == UnitReading::as_given ? Reading::as_given : Reading::nearest_even;
    CHECK(bounds.layers[0].reading == expected);
    CHECK(bounds.layers[1].reading == expected);
    CHECK(used(graph, trace, bounds, BoundKind::rounded_shadow) <= 1.0);
  }
}

TEST_CASE("operands that are cut, and results that are stored in 16 bits, leave a reading to be seen") {
  Generator generator(1310);
  const Graph graph = three_products(generator);
  const Tensor<float> input = random_floats({samples, width}, generator);
  for (const bool cuts : {false, true})
    for (const bool stores : {false, true})
      for (const UnitReading reading : {UnitReading::nearest_even, UnitReading::as_given}) {
        CAPTURE(cuts);
        CAPTURE(stores);
        MatrixUnit unit;
        unit.declared.cuts_operands = cuts;
        const Trace trace = run_of(graph, input, {reading, reading, reading}, generator, unit,
                                   stores ? FormatId::bf16 : FormatId::fp32);
        const Bounds bounds = bounds_of_run(graph, trace);
        const Reading rounded = cuts ? Reading::as_declared : Reading::nearest_even;
        const Reading expected = reading == UnitReading::as_given ? Reading::as_given : rounded;
        if (!stores) CHECK(bounds.layers[0].reading == expected);
        CHECK(bounds.layers[0].reading != Reading::either_way);
        CHECK(used(graph, trace, bounds, BoundKind::rounded_shadow) <= 1.0);
      }
}

TEST_CASE("a convolution shows how it reads its operands too") {
  Generator generator(1306);
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {3, ""}, {5, ""}, {5, ""}});
  const ValueId weights = graph.add_constant("w", StoredTensor::from(random_floats({4, 3, 3, 3}, generator)));
  graph.outputs = {graph.add_node("conv", op::Conv{}, {x, weights})};
  const Tensor<float> input = random_floats({2, 3, 5, 5}, generator);
  const Tensor<float> w = convert<float>(graph.value(weights).constant.to_double());
  for (const bool is_rounded : {false, true}) {
    const auto read = [&](Tensor<float> values) {
      for (float& value : values.values) value = is_rounded ? naive::as_operand(value, FormatId::tf32) : value;
      return values;
    };
    const Tensor<float> a = read(input), b = read(w);
    const Tensor<float> result = convolved(a, b);
    Trace trace;
    trace.inputs.tensors.emplace_back("x", StoredTensor::from(input));
    trace.arithmetic = MatrixUnit().arithmetic();
    trace.provenance = foreign_provenance;
    trace.samples = 2;
    trace.layers.push_back({"conv", StoredTensor::from(result)});
    CHECK(bounds_of_run(graph, trace).layers[0].reading == (is_rounded ? Reading::nearest_even : Reading::as_given));
  }
}

TEST_CASE("where no matrix unit is declared nothing is left open") {
  Generator generator(1307);
  const Graph graph = three_products(generator);
  using enum UnitReading;
  Trace trace =
      run_of(graph, random_floats({samples, width}, generator), {nearest_even, nearest_even, nearest_even}, generator);
  trace.arithmetic.tensor_core.reset();
  const Bounds bounds = bounds_of_run(graph, trace);
  for (const std::optional<Reading>& reading : readings_of_products(bounds)) CHECK_FALSE(reading.has_value());
  CHECK(reading_condition(bounds).empty());
}

TEST_CASE("what two parts of a run show is one reading, or either") {
  CHECK(joined(Reading::as_given, Reading::as_given) == Reading::as_given);
  CHECK(joined(Reading::as_given, Reading::nearest_even) == Reading::either_way);
  CHECK(joined(std::nullopt, Reading::nearest_even) == Reading::nearest_even);
  CHECK(joined(Reading::nearest_away, std::nullopt) == Reading::nearest_away);
}
