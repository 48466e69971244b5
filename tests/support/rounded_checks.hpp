#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "bounds/blocks/rounded_shadow.hpp"
#include "num/exact_rounding.hpp"
#include "support/trajectory_checks.hpp"

/// Rounded shadows (T-76) held against roundings in exact integers, and against float runs that read and store in
/// narrow formats and add in random orders.
namespace checks {

inline const std::vector<FormatId>& narrow_formats() {
  static const std::vector<FormatId> formats = {FormatId::tf32, FormatId::bf16, FormatId::fp16};
  return formats;
}

/// Every number that t may be rounded to.
inline std::vector<double> all_roundings_of(double t, const bounds::NarrowRounding& how) {
  const driftbound_tests::ExactRounding exact(t, *how.format);
  std::vector<double> results = {exact(how.rounding)};
  if (how.ties_are_open) {
    const double even = exact(Rounding::nearest_even), away = exact(Rounding::nearest_away);
    const double inward = exact(Rounding::toward_zero);
    results.push_back(even);
    results.push_back(away);
    if (even != away || std::abs(t - inward) == std::abs(t - away)) results.push_back(inward);
  }
  if (how.may_flush && std::abs(t) < how.format->smallest_normal) results.push_back(0.0);
  return results;
}

inline bounds::NarrowRounding random_rounding(Generator& generator) {
  bounds::NarrowRounding how;
  how.format = &format(narrow_formats()[generator() % 3]);
  how.rounding = driftbound_tests::all_roundings[generator() % 5];
  const bool is_to_nearest = how.rounding == Rounding::nearest_even || how.rounding == Rounding::nearest_away;
  how.ties_are_open = is_to_nearest && generator() % 2 == 0;
  how.may_flush = generator() % 3 == 0;
  return how;
}

/// A number near the format's smallest or largest ones or anywhere, often at a tie or a hair from one.
inline double random_operand(const bounds::NarrowRounding& how, Generator& generator) {
  const std::size_t kind = generator() % 8;
  const int highest = std::ilogb(how.format->largest);
  const int binade = kind < 2    ? how.format->min_exponent - static_cast<int>(generator() % 4)
                     : kind == 2 ? highest + static_cast<int>(generator() % 2)
                                 : static_cast<int>(generator() % 12) - 6;
  const double x = std::ldexp(uniform(generator, 1.0, 2.0), binade);
  const double gap = ulp(x, *how.format);
  const double tie = (std::floor(x / gap) + 0.5) * gap;
  const double near = generator() % 2 == 0 ? tie : tie + std::ldexp(uniform(generator, -1.0, 1.0) * gap, -16);
  const double chosen = generator() % 2 == 0 ? x : near;
  return generator() % 2 == 0 ? chosen : -chosen;
}

struct RoundedTallies {
  std::int64_t outside_hull = 0, checked = 0;
  Tally roundings, radii, remainders, norms;
  std::int64_t violations() const {
    return outside_hull + roundings.violations + radii.violations + remainders.violations + norms.violations;
  }
};

/// One number, all that may become of it.
inline void check_rounding(double x, double radius, double t, const bounds::NarrowRounding& how,
                           RoundedTallies& tallies) {
  const bounds::Hull hull = bounds::hull_rounded(x, radius, how);
  const Magnitude largest = bounds::largest_rounding((Magnitude(x) + Magnitude(radius)).value(), how);
  const bounds::RoundedElement element = bounds::rounded_element(x, radius, hull, largest);
  for (const double y : all_roundings_of(t, how)) {
    ++tallies.checked;
    if (!std::isfinite(y)) {
      if (std::isfinite(element.radius)) ++tallies.outside_hull;
      continue;
    }
    if (!(hull.lower <= y && y <= hull.upper)) ++tallies.outside_hull;
    tallies.roundings.add(y, Real(t), largest.value());
    tallies.radii.add(y, Real(element.centre), element.radius);
    const Real passed = Real(element.slope) * (Real(t) - Real(x));
    tallies.remainders.add(y, Real(element.centre) + passed, element.remainder);
  }
}

/// Numbers within many radii, from a hundredth of a quantum to several.
inline RoundedTallies check_roundings(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  RoundedTallies tallies;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const bounds::NarrowRounding how = random_rounding(generator);
    const double x = random_operand(how, generator);
    const double quantum = ulp(x, *how.format);
    for (const double radius : {0.0, 0.01 * quantum, 0.3 * quantum, 1.2 * quantum, 7.0 * quantum}) {
      for (const double t : {x, x - radius, x + radius, x + uniform(generator, -radius, radius)})
        if (abs(Real(t) - Real(x)) <= Real(radius)) check_rounding(x, radius, t, how, tallies);
    }
  }
  return tallies;
}

/// Rows of numbers that move to the ends of their radii, and the norm of what their roundings move by.
inline Tally check_rounded_norms(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const bounds::NarrowRounding how{&format(narrow_formats()[generator() % 3]), Rounding::nearest_even, false, false};
    const double quanta = generator() % 2 == 0 ? 8.0 : 0.6;
    Real squares, propagated, by_elements, roundings;
    bool passes_on = false;
    for (int i = 0; i < 8; ++i) {
      const double x = uniform(generator, 1.0, 1.9),
                   radius = quanta * uniform(generator, 0.0, 1.0) * ulp(x, *how.format);
      const double t = generator() % 2 == 0 ? x + radius : x - radius;
      const double off = std::abs(t - x);
      const bounds::Hull hull = bounds::hull_rounded(x, off, how);
      const Magnitude largest = bounds::largest_rounding(2.0, how);
      const bounds::RoundedElement element = bounds::rounded_element(x, off, hull, largest);
      const Real moved = Real(round_to(t, *how.format, how.rounding)) - Real(element.centre);
      squares += moved * moved;
      propagated += Real(off) * Real(off);
      by_elements += Real(element.radius) * Real(element.radius);
      roundings += Real(element.remainder) * Real(element.remainder);
      passes_on = passes_on || element.slope != 0.0;
    }
    const auto norm = [](const Real& sum) { return Magnitude(sum.apply(mpfr_sqrt).to_double() * (1.0 + 0x1p-40)); };
    const Magnitude passed = passes_on ? norm(propagated) : Magnitude();
    tally.add(0.0, squares.apply(mpfr_sqrt), bounds::rounded_norm(norm(by_elements), passed, norm(roundings)).value());
  }
  return tally;
}

/// What a run in narrow formats does.
struct NarrowRun {
  FormatId input = FormatId::tf32, output = FormatId::fp32;
  bool products_may_flush = false;  ///< operands, now and then: every product of two numbers for itself
};

inline ArithmeticModel arithmetic_of(const NarrowRun& run) {
  ArithmeticModel arithmetic = float_arithmetic({});
  arithmetic.input = run.input;
  arithmetic.output = run.output;
  arithmetic.products_may_flush = run.products_may_flush;
  return arithmetic;
}

class NarrowRunner {
public:
  NarrowRunner(const NarrowRun& run, Generator& generator) : run_(run), generator_(generator) {}

  std::vector<Tensor<float>> operator()(const Graph& graph, const Tensor<double>& x) const {
    std::vector<Tensor<float>> values(graph.values.size());
    for (ValueId id = 0; id < graph.values.size(); ++id)
      if (graph.is_constant(id)) values[id] = convert<float>(graph.value(id).constant.to_double());
    values[graph.inputs[0]] = convert<float>(x);
    const std::vector<Shape> shapes = infer_shapes(graph, {x.shape});
    for (const Node& node : graph.nodes) {
      Operands<float> operands;
      for (const ValueId id : node.inputs) operands.push_back(&values[id]);
      Tensor<float> y = evaluate(node.op, operands, shapes[node.output]);
      for (float& value : y.values) value = naive::as_operand(value, run_.output);
      values[node.output] = std::move(y);
    }
    return values;
  }

private:
  Tensor<float> evaluate(const Op& op, const Operands<float>& in, const Shape& shape) const {
    if (const auto* matmul = std::get_if<op::MatMul>(&op))
      return products(plan_product(*matmul, in[0]->shape, in[1]->shape), in, shape, 1.0f, 1.0f);
    if (const auto* gemm = std::get_if<op::Gemm>(&op))
      return products(plan_product(*gemm, in[0]->shape, in[1]->shape), in, shape, static_cast<float>(gemm->alpha),
                      static_cast<float>(gemm->beta));
    return apply(op, in, shape, {});
  }

  float read(float x) const {
    const float rounded = naive::as_operand(x, run_.input);
    const bool may_be_zero = run_.products_may_flush && std::abs(x) < format(run_.input).smallest_normal;
    return may_be_zero && generator_() % 2 == 0 ? 0.0f : rounded;
  }

  /// Sums over random trees, an addend that is not scaled among their leaves.
  Tensor<float> products(const ProductPlan& plan, const Operands<float>& in, const Shape& shape, float alpha,
                         float beta) const {
    const Tensor<float>&a = *in[0], &b = *in[1];
    Tensor<float> result(shape);
    std::size_t at = 0;
    for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
      for (std::int64_t i = 0; i < plan.m; ++i) {
        for (std::int64_t j = 0; j < plan.n; ++j) {
          std::vector<float> p, q, stored;
          for (std::int64_t k = 0; k < plan.k; ++k) {
            p.push_back(read(a.values[plan.a_index(batch, i, k)]));
            q.push_back(read(b.values[plan.b_index(batch, k, j)]));
          }
          const float addend = in.size() > 2 ? in[2]->values[BroadcastIndex(in[2]->shape, shape)(at)] : 0.0f;
          if (in.size() > 2 && alpha == 1.0f && beta == 1.0f) stored.push_back(addend);
          const float sum = naive::random_tree(p, q, stored, generator_);
          result.values[at++] = in.size() > 2 && stored.empty() ? alpha * sum + beta * addend : alpha * sum;
        }
      }
    }
    return result;
  }

  const NarrowRun& run_;
  Generator& generator_;
};

/// Runs of one network against its rounded shadow, value by value, and against the bounds that it gives.
struct NarrowTallies {
  Tally values, bounds;
  std::int64_t outside_enclosures = 0, missing = 0, ambiguous = 0;
  std::int64_t violations() const { return values.violations + bounds.violations + outside_enclosures + missing; }
  std::string first_violation() const { return values.first_violation + bounds.first_violation; }
  NarrowTallies& operator+=(const NarrowTallies& other) {
    values += other.values;
    bounds += other.bounds;
    outside_enclosures += other.outside_enclosures;
    missing += other.missing;
    ambiguous += other.ambiguous;
    return *this;
  }
};

inline std::vector<Tensor<Real>> exact_values(const Graph& graph, const Tensor<double>& x) {
  std::vector<Tensor<Real>> values(graph.values.size());
  for (ValueId id = 0; id < graph.values.size(); ++id)
    if (graph.is_constant(id)) values[id] = convert<Real>(graph.value(id).constant.to_double());
  values[graph.inputs[0]] = convert<Real>(x);
  const std::vector<Shape> shapes = infer_shapes(graph, {x.shape});
  for (const Node& node : graph.nodes) {
    Operands<Real> operands;
    for (const ValueId id : node.inputs) operands.push_back(&values[id]);
    values[node.output] = apply(node.op, operands, shapes[node.output], {});
  }
  return values;
}

class NarrowCheck {
public:
  NarrowCheck(const Graph& graph, const Tensor<double>& x, const NarrowRun& run)
      : graph_(graph), x_(x), run_(run), arithmetic_(arithmetic_of(run)), exact_(exact_values(graph, x)) {
    bounds::Setting setting = setting_of(arithmetic_);
    setting.is_own_run = false;
    const auto narrowed = bounds::narrowed_program(Program(graph, {x.shape}, std::nullopt), setting.machine);
    bounds::OperandCache operands;
    if (narrowed) rounded_.emplace(bounds::rounded_shadow_of(*narrowed, {x}, {{}}, setting, operands));
    options_.requests = {BoundKind::rounded_shadow};
    options_.most_output_elements = 64;
    options_.targets = {{{0, 1}, OutputElement{0, 0}}};
  }

  NarrowTallies held(int runs, Generator& generator) const {
    NarrowTallies tallies;
    const NarrowRunner runner(run_, generator);
    const Bounds bounds = bounds_from(runner(graph_, x_));
    const BoundResult* bound = find_bound(bounds.layers.back().accumulated, BoundKind::rounded_shadow);
    if (!rounded_ || bound == nullptr) {
      ++tallies.missing;
      return tallies;
    }
    for (const std::int64_t ambiguous : rounded_->ambiguous) tallies.ambiguous += ambiguous;
    for (int i = 0; i < runs; ++i) hold(runner(graph_, x_), *bound, bounds.targets.at(0), tallies);
    return tallies;
  }

private:
  Bounds bounds_from(const std::vector<Tensor<float>>& values) const {
    Trace trace;
    trace.inputs.tensors.emplace_back(graph_.value(graph_.inputs[0]).name, StoredTensor::from(convert<float>(x_)));
    trace.arithmetic = arithmetic_;
    trace.samples = 1;
    for (const Node& node : graph_.nodes) trace.layers.push_back({node.name, StoredTensor::from(values[node.output])});
    return bound(graph_, trace, options_);
  }

  void hold(const std::vector<Tensor<float>>& values, const BoundResult& bound, const TargetBounds& target,
            NarrowTallies& tallies) const {
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      const ValueId flat = rounded_->program.flat().of_value[id];
      const std::vector<double>& radius = rounded_->deviation.radii[flat].element;
      for (std::size_t i = 0; i < values[id].size(); ++i)
        tallies.values.add(static_cast<double>(values[id].values[i]), Real(rounded_->shadow.values[flat].values[i]),
                           radius.empty() ? 0.0 : radius[i]);
    }
    const Tensor<float>& output = values[graph_.outputs[0]];
    const Tensor<Real>& exact = exact_[graph_.outputs[0]];
    for (std::size_t i = 0; i < output.size(); ++i)
      tallies.bounds.add(static_cast<double>(output.values[i]), exact.values[i], bound.values.values[i]);
    const Real of_run = Real(static_cast<double>(output.values[1])) - Real(static_cast<double>(output.values[0]));
    const Real of_exact = exact.values[1] - exact.values[0];
    tallies.bounds.add(0.0, of_run - of_exact, target.bounds.at(0).values.values[0]);
    const auto encloses = [](const Interval& interval, const Real& value) {
      return Real(interval.lower()) <= value && value <= Real(interval.upper());
    };
    if (!encloses(target.enclosures->runs[0], of_run)) ++tallies.outside_enclosures;
    if (!encloses(target.enclosures->exact[0], of_exact)) ++tallies.outside_enclosures;
  }

  const Graph& graph_;
  Tensor<double> x_;
  NarrowRun run_;
  ArithmeticModel arithmetic_;
  std::vector<Tensor<Real>> exact_;
  std::optional<bounds::RoundedShadow> rounded_;
  BoundOptions options_;
};

/// Every way of being narrow.
inline std::vector<NarrowRun> narrow_runs() {
  return {{FormatId::tf32, FormatId::fp32, false}, {FormatId::bf16, FormatId::fp32, false},
          {FormatId::fp16, FormatId::fp32, true},  {FormatId::bf16, FormatId::bf16, false},
          {FormatId::fp16, FormatId::fp16, false}, {FormatId::fp32, FormatId::bf16, false}};
}

inline NarrowTallies check_narrow_networks(const std::vector<std::string>& blocks, const std::vector<NarrowRun>& kinds,
                                           int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  NarrowTallies tallies;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    NetworkBuilder builder(generator);
    for (const std::string& block : blocks) builder.add(block);
    const Graph graph = builder.finish();
    for (const NarrowRun& kind : kinds) {
      for (const double scale : {1.0, 0x1p-13}) {
        const NarrowCheck check(graph, network_inputs(scale, false, generator), kind);
        tallies += check.held(6, generator);
      }
    }
  }
  return tallies;
}

/// One number that two columns of a product read, each for itself: x alone, or a sum of inputs.
inline NarrowTallies check_readers(const NarrowRun& run, const std::vector<float>& inputs,
                                   const std::vector<float>& operands, int runs) {
  Graph graph;
  const auto k = static_cast<std::int64_t>(inputs.size());
  ValueId x = add_fixed_input(graph, "x", ElementType::f32, {1, k});
  const auto multiply = [&](const std::string& name, const Tensor<float>& w) {
    x = graph.add_node(name, op::MatMul{}, {x, graph.add_constant(name + "/w", StoredTensor::from(w))});
  };
  if (!operands.empty()) multiply("sum", Tensor<float>({k, 1}, operands));
  multiply("read", Tensor<float>({1, 2}, {1, 1}));
  graph.outputs = {x};
  Generator generator(764);
  const Tensor<double> point({1, k}, std::vector<double>(inputs.begin(), inputs.end()));
  return NarrowCheck(graph, point, run).held(runs, generator);
}

}  // namespace checks
