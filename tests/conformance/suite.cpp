#include "conformance/suite.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "driftbound/evaluate/evaluate_as.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/format.hpp"
#include "support/temporary_folder.hpp"

namespace conformance {
namespace {

using tests::every_op;
using tests::graph_of;
using tests::inputs_of;

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
const double another_nan = std::bit_cast<double>(std::uint64_t{0xfff8012345678abc});

const std::string no_model = sha256_of({});

RunOptions in_batches(std::int64_t batch) {
  RunOptions options;
  options.batch = batch;
  return options;
}

/// The one layer's output, without the axis of its one sample.
Tensor<double> output_of(const Backend& backend, const OpCase& one) {
  return backend.run(graph_of(one.op, one.operands), inputs_of(one.operands), {}).layers.at(0).output.to_double();
}

/// double, but max and min hand NaN on.
struct Number {
  double value = 0.0;

  Number() = default;
  explicit Number(double x) : value(x) {}
  friend Number operator+(Number a, Number b) { return Number(a.value + b.value); }
  friend Number operator-(Number a, Number b) { return Number(a.value - b.value); }
  friend Number operator*(Number a, Number b) { return Number(a.value * b.value); }
  friend Number operator/(Number a, Number b) { return Number(a.value / b.value); }
  friend Number operator-(Number a) { return Number(-a.value); }
  friend bool operator<(Number a, Number b) { return a.value < b.value; }
  friend bool operator==(Number a, Number b) { return a.value == b.value; }
  friend Number max(Number a, Number b) { return std::isnan(b.value) || a < b ? b : a; }
  friend Number min(Number a, Number b) { return std::isnan(b.value) || b < a ? b : a; }
  friend Number pow(Number a, Number b) { return Number(std::pow(a.value, b.value)); }
};

#define FUNCTION(name)                 \
  Number name(Number x) {              \
    return Number(std::name(x.value)); \
  }
FUNCTION(exp)
FUNCTION(expm1)
FUNCTION(log)
FUNCTION(log1p)
FUNCTION(tanh)
FUNCTION(sin)
FUNCTION(cos)
FUNCTION(erf)
FUNCTION(sqrt)
FUNCTION(tan)
FUNCTION(atan)
FUNCTION(sinh)
FUNCTION(cosh)
FUNCTION(floor)
FUNCTION(ceil)
FUNCTION(rint)
#undef FUNCTION

std::vector<double> formula_of(const OpCase& one) {
  const Tensor<Number> y = evaluate_as<Number>(graph_of(one.op, one.operands), inputs_of(one.operands)).at(0);
  std::vector<double> result;
  for (const Number x : y.values) result.push_back(x.value);
  return result;
}

/// 0 times a slope that is no finite number is NaN in the formula; the op takes no slope there.
bool formula_says(const OpCase& one, std::size_t slot) {
  return !(std::holds_alternative<op::PRelu>(one.op) && slot == 1);
}

/// A comparison with NaN is false, and chooses as such.
bool is_false_of_nan(const OpCase& one, std::size_t slot) {
  return std::visit(
      [slot]<class T>(const T&) {
        return Comparison<T> || OneOf<T, op::ArgMax, op::TopK> || (std::same_as<T, op::Choice> && slot == 0);
      },
      one.op);
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

void check_trace_says(const Backend& backend, const Graph& graph, const Inputs& given, const Trace& trace) {
  REQUIRE(trace.layers.size() == graph.nodes.size());
  CHECK(trace.layers[0].name == graph.nodes[0].name);
  CHECK(to_json(trace.arithmetic) == to_json(backend.arithmetic));
  CHECK(trace.provenance.backend == backend.provenance);
  CHECK(trace.provenance.program != "");
  CHECK(trace.provenance.observer_effect != ObserverEffect::changed);
  REQUIRE(trace.inputs.tensors.size() == given.tensors.size());
  for (const auto& [name, tensor] : given.tensors) CHECK(trace.inputs.at(name).identical(tensor));
}

/// Every NaN is the one that traces can be compared by.
void check_nans(const Backend& backend, const Tensor<double>& y) {
  if (!backend.declares_its_bits) return;
  for (const double x : y.values)
    if (std::isnan(x)) CHECK(same_bits(x, nan));
}

void check_same_as_twin(const Backend& backend, const OpCase& one) {
  const Graph graph = graph_of(one.op, one.operands);
  const Inputs given = inputs_of(one.operands);
  const StoredTensor twin = cpu_evaluator(*backend.twin).run(graph, given).layers.at(0).output;
  CHECK(backend.run(graph, given, {}).layers.at(0).output.identical(twin));
}

void check_poisoned(const Backend& backend, const OpCase& clean, const Tensor<double>& clean_result, std::size_t slot,
                    std::size_t element, double poison) {
  OpCase one = clean;
  one.operands[slot].values[element] = poison;
  CAPTURE(slot);
  CAPTURE(element);
  CAPTURE(poison);
  const Tensor<double> y = output_of(backend, one);
  const std::vector<double> expected = formula_of(one);
  REQUIRE(y.size() == expected.size());
  check_nans(backend, y);
  if (backend.twin) check_same_as_twin(backend, one);
  for (std::size_t i = 0; i < y.size(); ++i) {
    CAPTURE(i);
    CHECK(std::isnan(y.values[i]) == std::isnan(expected[i]));
    if (std::isinf(expected[i])) CHECK(y.values[i] == expected[i]);
    const bool is_left_out = std::isnan(poison) && !std::isnan(y.values[i]) && !is_false_of_nan(one, slot);
    if (is_left_out) CHECK(same_bits(y.values[i], clean_result.values[i]));
  }
}

// ---- special values -------------------------------------------------------------------------------------------------

struct SpecialCase {
  Op op;
  std::vector<Tensor<double>> operands;
  std::vector<double> results;
};

Tensor<double> row(std::vector<double> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return Tensor<double>({size}, std::move(values));
}

/// f(x) = y, one by one.
SpecialCase at(Op op, const std::vector<std::pair<double, double>>& points) {
  std::vector<double> x, y;
  for (const auto& [argument, result] : points) {
    x.push_back(argument);
    y.push_back(result);
  }
  return {std::move(op), {row(x)}, y};
}

SpecialCase of_two(Op op, std::vector<double> a, std::vector<double> b, std::vector<double> results) {
  return {std::move(op), {row(std::move(a)), row(std::move(b))}, std::move(results)};
}

/// `least` and `most` are the smallest and the largest number of the accumulator.
std::vector<SpecialCase> functions_at_special_values(double least, double most) {
  return {
      at(op::Neg{}, {{0.0, -0.0}, {-0.0, 0.0}, {inf, -inf}, {most, -most}, {-least, least}, {nan, nan}}),
      at(op::Abs{}, {{-0.0, 0.0}, {-inf, inf}, {-most, most}, {-least, least}, {nan, nan}}),
      at(op::Relu{}, {{-0.0, -0.0}, {-inf, 0.0}, {inf, inf}, {most, most}, {least, least}, {-least, 0.0}, {nan, nan}}),
      at(op::LeakyRelu{0.5}, {{-0.0, -0.0}, {-inf, -inf}, {inf, inf}, {-most, -most / 2.0}, {nan, nan}}),
      at(op::Elu{1.0}, {{-0.0, -0.0}, {-inf, -1.0}, {inf, inf}, {-most, -1.0}, {-least, -least}, {nan, nan}}),
      at(op::Tanh{}, {{-0.0, -0.0}, {-inf, -1.0}, {inf, 1.0}, {most, 1.0}, {least, least}, {nan, nan}}),
      at(op::Sigmoid{}, {{0.0, 0.5}, {-inf, 0.0}, {inf, 1.0}, {most, 1.0}, {-most, 0.0}, {nan, nan}}),
      at(op::Softplus{}, {{-inf, 0.0}, {inf, inf}, {most, most}, {-most, 0.0}, {nan, nan}}),
      at(op::Sin{}, {{-0.0, -0.0}, {inf, nan}, {-inf, nan}, {-least, -least}, {nan, nan}}),
      at(op::Cos{}, {{0.0, 1.0}, {inf, nan}, {-inf, nan}, {least, 1.0}, {nan, nan}}),
      at(op::Tan{}, {{-0.0, -0.0}, {inf, nan}, {least, least}, {nan, nan}}),
      at(op::Exp{}, {{0.0, 1.0}, {-inf, 0.0}, {inf, inf}, {most, inf}, {-most, 0.0}, {least, 1.0}, {nan, nan}}),
      at(op::Erf{}, {{-0.0, -0.0}, {-inf, -1.0}, {inf, 1.0}, {most, 1.0}, {nan, nan}}),
      at(op::Sqrt{}, {{-0.0, -0.0}, {0.0, 0.0}, {-1.0, nan}, {-least, nan}, {inf, inf}, {-inf, nan}, {nan, nan}}),
      at(op::Reciprocal{}, {{0.0, inf}, {-0.0, -inf}, {inf, 0.0}, {-inf, -0.0}, {least, inf}, {nan, nan}}),
      at(op::Log{}, {{1.0, 0.0}, {0.0, -inf}, {-0.0, -inf}, {-1.0, nan}, {inf, inf}, {-inf, nan}, {nan, nan}}),
      at(op::Atan{}, {{-0.0, -0.0}, {least, least}, {nan, nan}}),
      at(op::Sinh{}, {{-0.0, -0.0}, {inf, inf}, {-inf, -inf}, {-most, -inf}, {least, least}, {nan, nan}}),
      at(op::Cosh{}, {{-0.0, 1.0}, {inf, inf}, {-inf, inf}, {-most, inf}, {nan, nan}}),
      at(op::Floor{}, {{-0.0, -0.0}, {-least, -1.0}, {least, 0.0}, {most, most}, {-inf, -inf}, {nan, nan}}),
      at(op::Ceil{}, {{-0.0, -0.0}, {-least, -0.0}, {least, 1.0}, {-most, -most}, {inf, inf}, {nan, nan}}),
      at(op::Round{},
         {{-0.0, -0.0}, {least, 0.0}, {0.5, 0.0}, {1.5, 2.0}, {-2.5, -2.0}, {-most, -most}, {inf, inf}, {nan, nan}}),
      at(op::Sign{}, {{0.0, 0.0}, {-least, -1.0}, {most, 1.0}, {-inf, -1.0}, {nan, nan}}),
      at(op::Pow{3.0}, {{-0.0, -0.0}, {-inf, -inf}, {most, inf}, {-least, -0.0}, {nan, nan}}),
      at(op::Pow{0.5}, {{0.0, 0.0}, {inf, inf}, {-1.0, nan}, {nan, nan}}),
      at(op::Pow{-1.25}, {{0.0, inf}, {inf, 0.0}, {-1.0, nan}, {least, inf}, {nan, nan}}),
      at(op::Clip{-1.0, 2.0}, {{-0.0, -0.0}, {-inf, -1.0}, {inf, 2.0}, {least, least}, {nan, nan}}),
      at(op::ThresholdedRelu{0.5}, {{-inf, 0.0}, {inf, inf}, {0.5, 0.0}, {most, most}, {nan, nan}}),
      at(op::Identity{}, {{-0.0, -0.0}, {inf, inf}, {most, most}, {least, least}, {nan, nan}}),
      at(op::Cast{ElementType::f16}, {{-0.0, -0.0}, {65504.0, 65504.0}, {65520.0, inf}, {-inf, -inf}, {nan, nan}}),
      at(op::Cast{ElementType::bf16}, {{-0.0, -0.0}, {0x1p-133, 0x1p-133}, {most, inf}, {nan, nan}}),
  };
}

std::vector<SpecialCase> operations_at_special_values(double least, double most) {
  const Tensor<double> pair({2, 1}, {1.0, 1.0});
  const auto product = [&](double a, double b, double result) {
    return SpecialCase{op::MatMul{}, {Tensor<double>({1, 2}, {a, b}), pair}, {result}};
  };
  return {
      of_two(op::Add{}, {inf, most, -0.0, -0.0, least, nan}, {-inf, most, -0.0, 0.0, least, 1.0},
             {nan, inf, -0.0, 0.0, 2.0 * least, nan}),
      of_two(op::Sub{}, {inf, -most, -0.0, 0.0, 1.0}, {inf, most, 0.0, 0.0, nan}, {nan, -inf, -0.0, 0.0, nan}),
      of_two(op::Mul{}, {inf, most, -0.0, least, least, nan}, {0.0, -2.0, 1.0, 2.0, 0.5, 0.0},
             {nan, -inf, -0.0, 2.0 * least, 0.0, nan}),
      of_two(op::Div{}, {0.0, 1.0, inf, -0.0, 1.0, least, 1.0}, {0.0, -0.0, inf, 1.0, inf, 2.0, nan},
             {nan, -inf, nan, -0.0, 0.0, 0.0, nan}),
      of_two(op::Min{}, {nan, 1.0, -inf, least}, {1.0, nan, inf, 0.0}, {nan, nan, -inf, 0.0}),
      of_two(op::Max{}, {nan, 1.0, -inf, least}, {1.0, nan, inf, 0.0}, {nan, nan, inf, least}),
      of_two(op::PRelu{}, {-inf, -1.0, 1.0, -least, nan}, {0.0, nan, nan, 1.0, 1.0}, {nan, nan, 1.0, -least, nan}),
      of_two(op::Greater{}, {nan, 1.0, inf, -inf, least, -0.0, most}, {1.0, nan, most, -most, 0.0, 0.0, inf},
             {0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0}),
      of_two(op::GreaterOrEqual{}, {nan, 1.0, inf, -inf, -least, -0.0}, {1.0, nan, inf, -most, 0.0, 0.0},
             {0.0, 0.0, 1.0, 0.0, 0.0, 1.0}),
      of_two(op::Equal{}, {nan, 1.0, inf, -inf, least, -0.0}, {nan, 1.0, inf, inf, 0.0, 0.0},
             {0.0, 1.0, 1.0, 0.0, 0.0, 1.0}),
      {op::Choice{},
       {row({1.0, 0.0, 1.0, 0.0, nan, inf, 0.5}), row({-0.0, nan, nan, 1.0, 1.0, -inf, 1.0}),
        row({nan, least, 1.0, inf, most, nan, -least})},
       {-0.0, least, nan, inf, most, -inf, -least}},
      product(inf, 1.0, inf),
      product(inf, -inf, nan),
      product(nan, 1.0, nan),
      product(-inf, 3.0, -inf),
      {op::MatMul{}, {Tensor<double>({1, 2}, {inf, 1.0}), Tensor<double>({2, 1}, {0.0, 1.0})}, {nan}},
      {op::Gemm{}, {Tensor<double>({1, 1}, {1.0}), Tensor<double>({1, 1}, {1.0}), row({nan})}, {nan}},
      {op::ReduceSum{{}, false}, {row({most, most})}, {inf}},
      {op::ReduceSum{{}, false}, {row({inf, -inf})}, {nan}},
      {op::ReduceSum{{}, false}, {row({least, least, least})}, {3.0 * least}},
      {op::ReduceMax{{}, false}, {row({nan, 1.0})}, {nan}},
      {op::ReduceMax{{}, false}, {row({1.0, nan, 2.0})}, {nan}},
      {op::ReduceMax{{}, false}, {row({-inf, -most})}, {-most}},
      {op::ReduceMin{{}, false}, {row({1.0, nan})}, {nan}},
      {op::ReduceMin{{}, false}, {row({inf, least})}, {least}},
      {op::Softmax{}, {row({-inf, 0.0})}, {0.0, 1.0}},
      {op::Softmax{}, {row({most, most})}, {0.5, 0.5}},
      {op::Softmax{}, {row({-most, most})}, {0.0, 1.0}},
      {op::Softmax{}, {row({inf, 0.0})}, {nan, nan}},
      {op::Softmax{}, {row({nan, 0.0})}, {nan, nan}},
  };
}

void check_special(const Backend& backend, const SpecialCase& special) {
  CAPTURE(std::string(name_of(special.op)));
  const Tensor<double> y = output_of(backend, {special.op, special.operands});
  REQUIRE(y.size() == special.results.size());
  check_nans(backend, y);
  if (backend.twin) check_same_as_twin(backend, {special.op, special.operands});
  for (std::size_t i = 0; i < y.size(); ++i) {
    CAPTURE(i);
    CAPTURE(y.values[i]);
    CAPTURE(special.results[i]);
    if (std::isnan(special.results[i])) {
      CHECK(std::isnan(y.values[i]));
    } else {
      CHECK(same_bits(y.values[i], special.results[i]));
    }
  }
}

// ---- samples --------------------------------------------------------------------------------------------------------

/// An op whose first operand is the graph's input; the others are constants.
Graph of_first_operand(const OpCase& one, bool is_open) {
  Graph graph;
  Shape declared = one.operands[0].shape;
  if (is_open) declared.at(0) = tests::open;
  std::vector<ValueId> ids = {graph.add_input("x", ElementType::f64, tests::dimensions(declared))};
  for (std::size_t slot = 1; slot < one.operands.size(); ++slot)
    ids.push_back(graph.add_constant("c" + std::to_string(slot), StoredTensor::from(one.operands[slot])));
  graph.outputs = {graph.add_node("y", one.op, ids)};
  return graph;
}

bool keeps_samples_apart(const OpCase& one) {
  if (one.operands[0].shape.empty()) return false;
  try {
    return batch_layout(of_first_operand(one, true)).batched;
  } catch (const Error&) {
    return false;
  }
}

/// The first operand as it is, then with its elements in other places.
Inputs samples_of(const OpCase& one, bool is_open, std::int64_t count) {
  Tensor<double> all = one.operands[0];
  std::vector<double> next = all.values;
  for (std::int64_t i = 1; i < count; ++i) {
    std::rotate(next.begin(), next.begin() + (next.empty() ? 0 : 1), next.end());
    all.values.insert(all.values.end(), next.begin(), next.end());
  }
  if (is_open) {
    all.shape[0] *= count;
  } else {
    all.shape.insert(all.shape.begin(), count);
  }
  return tests::inputs({{"x", StoredTensor::from(all)}});
}

}  // namespace

Backend backend_of(const Evaluator& evaluator, std::string name, std::string provenance) {
  Backend backend;
  backend.name = std::move(name);
  backend.run = [evaluator](const Graph& graph, const Inputs& inputs, const RunOptions& options) {
    return evaluator.run(graph, inputs, options);
  };
  backend.arithmetic = evaluator.arithmetic();
  backend.provenance = std::move(provenance);
  return backend;
}

Backend device(const CudaOptions& options) {
  const bool is_ordered = options.product == CudaProduct::ordered;
  const std::string name = (is_ordered ? "our product on a device, " : "the vendor's product on a device, ") +
                           options.arithmetic + " " + to_string(options.order);
  Backend backend = backend_of(cuda_evaluator(options), name, "cuda");
  backend.declares_its_bits = is_ordered;
  if (is_ordered && options.arithmetic != "fp64") backend.twin = cpu_arithmetic(options.arithmetic, options.order);
  return backend;
}

Backend recorded(const Backend& backend) {
  Backend result = backend;
  result.name += ", recorded";
  result.run = [run = backend.run](const Graph& graph, const Inputs& inputs, const RunOptions& options) {
    const driftbound::test::TemporaryFolder folder;
    Trace trace = run(graph, inputs, options);
    trace.model_sha256 = no_model;
    write_trace(trace, folder.file("run.safetensors"));
    return read_trace(graph, no_model, folder.file("run.safetensors"));
  };
  return result;
}

void check_every_op(const Backend& backend) {
  CAPTURE(backend.name);
  std::mt19937_64 random(71);
  for (const OpCase& one : every_op(random)) {
    CAPTURE(std::string(name_of(one.op)));
    const Graph graph = graph_of(one.op, one.operands);
    const Inputs given = inputs_of(one.operands);
    const Trace trace = backend.run(graph, given, {});
    check_trace_says(backend, graph, given, trace);
    std::vector<Shape> shapes;
    for (const Tensor<double>& operand : one.operands) shapes.push_back(operand.shape);
    Shape expected = infer_shapes(graph, shapes).at(graph.outputs[0]);
    if (!batch_layout(graph).batched) expected.insert(expected.begin(), 1);
    CHECK(trace.layers[0].output.shape() == expected);
    CHECK(trace.layers[0].output.identical(backend.run(graph, given, {}).layers[0].output));
    if (backend.twin) check_same_as_twin(backend, one);
  }
}

void check_poisoned_operands(const Backend& backend) {
  CAPTURE(backend.name);
  std::mt19937_64 random(72);
  for (const OpCase& one : every_op(random)) {
    CAPTURE(std::string(name_of(one.op)));
    const Tensor<double> clean = output_of(backend, one);
    for (std::size_t slot = 0; slot < one.operands.size(); ++slot) {
      const std::size_t element = random() % one.operands[slot].size();
      if (!formula_says(one, slot)) continue;
      for (const double poison : {nan, another_nan, inf, -inf})
        check_poisoned(backend, one, clean, slot, element, poison);
    }
  }
}

void check_special_values(const Backend& backend) {
  CAPTURE(backend.name);
  const Format& numbers = format(backend.arithmetic.accumulator);
  const double least = numbers.smallest_subnormal, most = numbers.largest;
  for (const SpecialCase& special : functions_at_special_values(least, most)) check_special(backend, special);
  for (const SpecialCase& special : operations_at_special_values(least, most)) check_special(backend, special);
}

void check_samples(const Backend& backend) {
  CAPTURE(backend.name);
  constexpr std::int64_t count = 5;
  std::mt19937_64 random(73);
  int batched = 0;
  for (const OpCase& one : every_op(random)) {
    CAPTURE(std::string(name_of(one.op)));
    const bool is_open = keeps_samples_apart(one);
    batched += is_open ? 1 : 0;
    const Graph graph = of_first_operand(one, is_open);
    const Inputs all = samples_of(one, is_open, count);
    const Trace together = backend.run(graph, all, {});
    const std::int64_t samples = is_open ? count * one.operands[0].shape[0] : count;
    CHECK(together.samples == samples);
    for (const std::int64_t batch : {1, 2, 3}) {
      if (!is_open && batch > 1) continue;
      const Trace split = backend.run(graph, all, in_batches(batch));
      CHECK(split.samples == samples);
      CHECK(split.layers.at(0).output.shape() == together.layers.at(0).output.shape());
      if (backend.declares_its_bits) CHECK(split.layers[0].output.identical(together.layers[0].output));
    }
    const Trace alone = backend.run(graph, samples_of(one, is_open, 1), {});
    const Tensor<double> first = alone.layers.at(0).output.to_double(), every = together.layers[0].output.to_double();
    if (!backend.declares_its_bits) continue;
    for (std::size_t i = 0; i < first.size(); ++i) CHECK(same_bits(first.values[i], every.values[i]));
  }
  CHECK(batched > 50);
}

void check_all(const Backend& backend) {
  check_every_op(backend);
  check_poisoned_operands(backend);
  check_special_values(backend);
  check_samples(backend);
}

}  // namespace conformance
