#include "soundness/foreign_sums.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>
#include <vector>

#include "soundness/random_values.hpp"

namespace driftbound::soundness {
namespace {

/// Something that multiplies and adds: float32 to nearest with the machine's own operations, or fp16 in
/// any rounding, whose exact sums and products are doubles.
struct Machine {
  ArithmeticModel model;

  bool is_float32() const { return model.accumulator == FormatId::fp32; }
  double flush(double x) const {
    const Format& f = format(model.accumulator);
    return model.flushes_subnormals && std::abs(x) < f.smallest_normal ? std::copysign(0.0, x) : x;
  }
  double round(double exact) const { return flush(round_to(exact, format(model.accumulator), model.rounding)); }
  double operand(double x) const {
    const double rounded = round_to(x, format(model.input), Rounding::nearest_even);
    return flush(rounded);
  }
  double multiply(double a, double b) const {
    return is_float32() ? flush(static_cast<float>(a) * static_cast<float>(b)) : round(a * b);
  }
  double add(double a, double b) const {
    return is_float32() ? flush(static_cast<float>(a) + static_cast<float>(b)) : round(a + b);
  }
  double fused(double a, double b, double c) const {
    return flush(std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)));
  }
};

/// A product not yet rounded (a b), or a stored number (a).
struct Term {
  double a = 0.0;
  double b = 0.0;
  bool is_product = false;
};

/// Sums terms over a random tree.
class RandomTree {
public:
  RandomTree(Random& random, const Machine& machine, bool chain)
      : random_(random),
        machine_(machine),
        chain_(chain),
        share_fused_(random.pick(std::vector<double>{0.0, 0.5, 1.0})) {}

  double sum(std::vector<Term> terms) {
    while (terms.size() > 1) {
      const Term x = take(terms, chain_ ? terms.size() - 1 : any(terms));
      const Term y = take(terms, any(terms));
      terms.push_back({combine(x, y), 0.0, false});
    }
    return rounded(terms.front());
  }

private:
  std::size_t any(const std::vector<Term>& terms) {
    return static_cast<std::size_t>(random_.integer(0, static_cast<std::int64_t>(terms.size()) - 1));
  }
  static Term take(std::vector<Term>& terms, std::size_t i) {
    const Term taken = terms[i];
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(i));
    return taken;
  }
  double rounded(const Term& term) const { return term.is_product ? machine_.multiply(term.a, term.b) : term.a; }
  double combine(const Term& x, const Term& y) {
    if (machine_.is_float32() && random_.chance(share_fused_)) {
      if (y.is_product) return machine_.fused(y.a, y.b, rounded(x));
      if (x.is_product) return machine_.fused(x.a, x.b, y.a);
    }
    return machine_.add(rounded(x), rounded(y));
  }

  Random& random_;
  const Machine& machine_;
  bool chain_;
  double share_fused_;
};

Machine random_machine(Random& random) {
  Machine machine;
  machine.model =
      cpu_arithmetic(random.pick(std::vector<std::string>{"fp32", "fp32", "tf32", "bf16", "fp16"}), SummationOrder{});
  if (random.chance(0.25)) {
    machine.model.name = "fp16 accumulator";
    machine.model.input = machine.model.accumulator = machine.model.output = FormatId::fp16;
    machine.model.rounding = random.pick(std::vector<Rounding>{Rounding::nearest_even, Rounding::nearest_away,
                                                               Rounding::toward_zero, Rounding::up, Rounding::down});
  }
  machine.model.flushes_subnormals = random.chance(0.25);
  return machine;
}

Family random_family(Random& random, const Machine& machine) {
  if (machine.is_float32()) return random.pick(all_families());
  return random.pick(std::vector<Family>{Family::gaussian, Family::integers, Family::powers_of_two, Family::cancelling,
                                         Family::sparse, Family::bf16_valued, Family::constant, Family::stagnating});
}

}  // namespace

ForeignSum random_foreign_sum(std::uint64_t seed) {
  Random random(seed);
  const Machine machine = random_machine(random);
  const Family family = random_family(random, machine);
  const std::int64_t samples = random.integer(1, 4), n = random.integer(1, 8);
  const std::int64_t k = random.chance(0.7) ? random.integer(1, 10) : random.integer(10, 60);
  const bool has_bias = random.chance(0.5), is_gemm = has_bias || random.chance(0.5);
  const ElementType type = machine.is_float32() ? ElementType::f32 : ElementType::f16;

  ForeignSum result;
  const StoredTensor x = store(type, {samples, k}, draw_values(random, family, Role::input, {samples, k}, 1));
  const StoredTensor w = store(type, {k, n}, draw_values(random, family, Role::weight, {k, n}, 0));
  const StoredTensor bias = store(type, {n}, draw_values(random, family, Role::weight, {n}, 0));
  Graph& graph = result.graph;
  std::vector<ValueId> operands = {graph.add_input("x", type, {{-1, "batch"}, {k, ""}}), graph.add_constant("w", w)};
  if (has_bias) operands.push_back(graph.add_constant("b", bias));
  graph.outputs.push_back(graph.add_node("sum", is_gemm ? Op(op::Gemm{}) : Op(op::MatMul{}), operands));

  const Tensor<double> a = x.to_double(), b = w.to_double(), c = bias.to_double();
  const bool chain = random.chance(0.4);
  std::vector<double> computed;
  for (std::int64_t i = 0; i < samples; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      std::vector<Term> terms;
      for (std::int64_t l = 0; l < k; ++l)
        terms.push_back({machine.operand(a.values[static_cast<std::size_t>(i * k + l)]),
                         machine.operand(b.values[static_cast<std::size_t>(l * n + j)]), true});
      if (has_bias) terms.push_back({machine.flush(c.values[static_cast<std::size_t>(j)]), 0.0, false});
      computed.push_back(RandomTree(random, machine, chain).sum(std::move(terms)));
    }
  }

  Trace& trace = result.trace;
  trace.arithmetic = machine.model;
  trace.inputs.tensors.emplace_back("x", x);
  trace.samples = samples;
  trace.layers.push_back({"sum", store_exactly(type, {samples, n}, computed)});
  result.description = fmt::format(
      "foreign sum {:#x}: {} ({}, input {}, accumulator {}, {}), k = {}, bias {}, {}", seed, machine.model.name,
      family_name(family), format(machine.model.input).name, format(machine.model.accumulator).name,
      machine.model.flushes_subnormals ? "flushes" : "gradual", k, has_bias, chain ? "chain" : "tree");
  return result;
}

}  // namespace driftbound::soundness
