#include "soundness/matrix_unit_networks.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "soundness/random_values.hpp"
#include "support/matrix_unit.hpp"
#include "support/small_networks.hpp"

namespace driftbound::soundness {
namespace {

/// Of fp8 operands: as measured on Ada and Hopper, or like units of wider operands.
TensorCore random_fp8_declaration(Random& random) {
  if (random.chance(0.3)) return {25, 16};
  TensorCore unit{13, random.pick(std::vector<int>{4, 16, 32}), 13, 0};
  if (random.chance(0.5)) unit.promotion = unit.block * static_cast<int>(random.integer(1, 4));
  return unit;
}

checks::MatrixUnit random_unit(Random& random) {
  checks::MatrixUnit unit;
  unit.input = random.pick(
      std::vector<FormatId>{FormatId::tf32, FormatId::bf16, FormatId::fp16, FormatId::fp8_e4m3, FormatId::fp8_e5m2});
  unit.declared.fraction_bits = static_cast<int>(random.integer(23, 25));
  unit.declared.block = random.pick(std::vector<int>{4, 8, 16});
  if (format(unit.input).precision <= 4) unit.declared = random_fp8_declaration(random);
  unit.built = unit.declared;
  unit.built.fraction_bits += static_cast<int>(random.integer(0, 2));
  unit.built.block *= random.pick(std::vector<int>{1, 1, 2});
  unit.built.sum_bits = static_cast<int>(random.integer(unit.declared.sum_bits, 23));
  unit.may_flush = random.chance(0.3);
  unit.saturates = random.chance(0.5);
  unit.zeros_are_lowest = random.chance(0.5);
  unit.splits_and_pads = random.chance(0.7);
  if (format(unit.input).min_exponent == -126) unit.declared.cuts_operands = random.chance(0.3);
  return unit;
}

std::string described(const TensorCore& unit) {
  return fmt::format("{} x {} (sums {}, promotion {}{})", unit.fraction_bits, unit.block, unit.sum_bits, unit.promotion,
                     unit.cuts_operands ? ", cuts operands" : "");
}

class Builder {
public:
  Builder(Random& random, Family family) : random_(random), family_(family) {
    width_ = random.integer(1, 24);
    has_rows_ = random.chance(0.3);
    Shape shape = {samples, width_};
    std::vector<DeclaredDimension> declared = {{-1, "batch"}, {width_, ""}};
    if (has_rows_) {
      shape.insert(shape.begin() + 1, 3);
      declared.insert(declared.begin() + 1, {3, ""});
    }
    value_ = graph_.add_input("x", ElementType::f32, declared);
    input_ = store(ElementType::f32, shape, draw_values(random, family, Role::input, shape, shape.size() - 1));
  }

  static constexpr std::int64_t samples = 2;

  Graph build() {
    for (std::int64_t layers = random_.integer(1, 3); layers > 0; --layers) {
      if (has_rows_ && random_.chance(0.3))
        attention();
      else
        dense();
      if (random_.chance(0.8)) activation();
    }
    graph_.outputs = {value_};
    return graph_;
  }

  const StoredTensor& input() const { return input_; }

private:
  ValueId constant(const Shape& shape) {
    return graph_.add_constant(fmt::format("c{}", graph_.values.size()),
                               store(ElementType::f32, shape, draw_values(random_, family_, Role::weight, shape, 0)));
  }
  ValueId add(const Op& op, const std::vector<ValueId>& inputs) {
    return graph_.add_node(fmt::format("n{}", graph_.nodes.size()), op, inputs);
  }

  void dense() {
    const ValueId before = value_;
    const std::int64_t width = random_.chance(0.3) ? width_ : random_.integer(1, random_.chance(0.2) ? 80 : 24);
    const ValueId weights = constant({width_, width});
    if (!has_rows_ && random_.chance(0.6)) {
      op::Gemm gemm;
      if (random_.chance(0.2)) gemm.alpha = random_.pick(std::vector<double>{-1.0, 0.5, 0.3});
      if (random_.chance(0.2)) gemm.beta = random_.pick(std::vector<double>{-1.0, 0.7});
      std::vector<ValueId> operands = {value_, weights};
      if (random_.chance(0.7)) operands.push_back(constant({width}));
      value_ = add(gemm, operands);
    } else {
      value_ = add(op::MatMul{}, {value_, weights});
      if (random_.chance(0.5)) value_ = add(op::Add{}, {value_, constant({width})});
    }
    if (width == width_ && random_.chance(0.5)) value_ = add(op::Add{}, {value_, before});
    width_ = width;
  }

  void attention() {
    const ValueId scores = add(op::MatMul{}, {value_, add(op::Transpose{{0, 2, 1}}, {value_})});
    value_ = add(op::MatMul{}, {add(op::Softmax{}, {scores}), value_});
  }

  void activation() {
    value_ = add(random_.pick(std::vector<Op>{op::Relu{}, op::Relu{}, op::Tanh{}, op::Sin{}, op::Sigmoid{},
                                              op::Softplus{}, op::LeakyRelu{0.1}, op::Softmax{}}),
                 {value_});
  }

  Random& random_;
  Family family_;
  Graph graph_;
  ValueId value_ = 0;
  std::int64_t width_ = 1;
  bool has_rows_ = false;
  StoredTensor input_;
};

std::vector<LayerTrace> evaluate(const Graph& graph, const StoredTensor& input, checks::UnitRun& run,
                                 const ArithmeticModel& arithmetic) {
  const std::vector<Shape> shapes = infer_shapes(graph, {input.shape()});
  std::vector<Tensor<float>> values(graph.values.size());
  for (ValueId id = 0; id < graph.values.size(); ++id)
    if (graph.is_constant(id)) values[id] = checks::convert<float>(graph.value(id).constant.to_double());
  values[graph.inputs[0]] = checks::convert<float>(input.to_double());
  std::vector<LayerTrace> layers;
  for (const Node& node : graph.nodes) {
    checks::Operands<float> operands;
    for (const ValueId id : node.inputs) operands.push_back(&values[id]);
    const bool is_product = std::holds_alternative<op::Gemm>(node.op) || std::holds_alternative<op::MatMul>(node.op);
    run.read_by_chance();
    values[node.output] = is_product ? checks::unit_product(run, node.op, operands, shapes[node.output])
                                     : checks::apply(node.op, operands, shapes[node.output], arithmetic.order);
    for (float& x : values[node.output].values) x = naive::as_operand(x, arithmetic.output);
    layers.push_back({node.name, StoredTensor::from(values[node.output])});
  }
  return layers;
}

}  // namespace

UnitNetwork random_unit_network(std::uint64_t seed) {
  Random random(seed);
  const checks::MatrixUnit unit = random_unit(random);
  const Family family = random.pick(all_families());
  const SummationOrder order = random.pick(checks::declared_orders());  // of Softmax
  Builder builder(random, family);
  UnitNetwork result;
  result.graph = builder.build();
  checks::Generator generator(random.bits());
  checks::UnitRun run(unit, generator);
  const ArithmeticModel products = unit.arithmetic();
  result.trace.arithmetic = checks::float_arithmetic(order);
  result.trace.arithmetic.name = products.name;
  result.trace.arithmetic.input = products.input;
  result.trace.arithmetic.tensor_core = products.tensor_core;
  result.trace.arithmetic.products_may_flush = products.products_may_flush;
  if (random.chance(0.4)) result.trace.arithmetic.output = random.chance(0.5) ? FormatId::fp16 : FormatId::bf16;
  result.trace.provenance = checks::foreign_provenance;
  result.trace.inputs.tensors.emplace_back("x", builder.input());
  result.trace.samples = Builder::samples;
  result.trace.layers = evaluate(result.graph, builder.input(), run, result.trace.arithmetic);
  result.description =
      fmt::format("network {:#x} of a matrix unit: {}, input {}, output {}, declared {}, built {}{}", seed,
                  family_name(family), format(unit.input).name, format(result.trace.arithmetic.output).name,
                  described(unit.declared), described(unit.built), unit.may_flush ? ", may flush" : "");
  return result;
}

void check_unit_network(const UnitNetwork& network, CheckOptions options, Tally& tally) {
  check_run(
      network.graph, [&] { return network.trace; }, [&] { return network.description; }, options, tally);
}

}  // namespace driftbound::soundness
