#include "driftbound/bounds/bound.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "bounds/blocks/end_to_end.hpp"
#include "bounds/local/determined.hpp"
#include "bounds/local/heuristics.hpp"
#include "bounds/local/local.hpp"
#include "bounds/local/op_variants.hpp"
#include "bounds/local/operand_readings.hpp"
#include "bounds/local/replay.hpp"
#include "bounds/local/trial.hpp"
#include "bounds/nodes/forward.hpp"
#include "bounds/nodes/infinite_reason.hpp"
#include "bounds/nodes/normed_values.hpp"
#include "bounds/nodes/own_run.hpp"
#include "bounds/rows/bound_cache.hpp"
#include "bounds/sums/operand.hpp"
#include "bounds/theorems/chance.hpp"
#include "bounds/theorems/propagation.hpp"
#include "bounds/theorems/roundings.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/directed.hpp"
#include "driftbound/num/environment.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/num/gamma.hpp"

namespace driftbound {

std::string_view name_of(OperandReading reading) {
  switch (reading) {
    case OperandReading::as_it_is:
      return "as it is";
    case OperandReading::fp32:
      return "fp32";
    case OperandReading::tf32:
      return "tf32";
    case OperandReading::tf32_ties_away:
      return "tf32 (ties away)";
    case OperandReading::tf32_cut:
      return "tf32 (cut)";
    case OperandReading::fp16:
      return "fp16";
    case OperandReading::bf16:
      return "bf16";
    case OperandReading::bf16_cut:
      return "bf16 (cut)";
    case OperandReading::fp8_e4m3:
      return "fp8_e4m3";
    case OperandReading::fp8_e5m2:
      break;
  }
  return "fp8_e5m2";
}

void add_to(ReadingTest& test, const ReadingTest& more) {
  for (std::size_t i = 0; i < test.pairs.size(); ++i) {
    test.pairs[i].squares += more.pairs[i].squares;
    test.pairs[i].signs += more.pairs[i].signs;
    test.pairs[i].agreeing += more.pairs[i].agreeing;
  }
  test.elements += more.elements;
  test.computations += more.computations;
  test.is_modelled = test.is_modelled && more.is_modelled;
}

double chance_of_agreement(const ReadingEvidence& evidence) {
  return bounds::theorems::coin_tail(evidence.agreeing, evidence.signs);
}

std::string_view name_of(Guarantee guarantee) {
  switch (guarantee) {
    case Guarantee::proven:
      return "proven";
    case Guarantee::conditional:
      return "conditional";
    case Guarantee::probabilistic:
      return "probabilistic";
    case Guarantee::heuristic:
      return "heuristic";
  }
  return "heuristic";
}

std::string_view name_of(Question question) {
  return question == Question::this_run ? "this-run" : "any-run";
}

std::string_view name_of(Reading reading) {
  switch (reading) {
    case Reading::nearest_even:
      return "nearest-even";
    case Reading::nearest_away:
      return "nearest-away";
    case Reading::as_given:
      return "as-given";
    case Reading::either_way:
      return "either-way";
    case Reading::as_declared:
      break;
  }
  return "as-declared";
}

std::optional<Reading> joined(std::optional<Reading> one, std::optional<Reading> other) {
  if (!one || !other) return one ? one : other;
  return one == other ? one : Reading::either_way;
}

namespace bounds {

namespace {

class Stopwatch {
public:
  /// Seconds since the last call.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// State of one value of the graph during the walk.
struct ValueState {
  Tensor<double> used;                   ///< the values that the run used
  const Tensor<double>* kept = nullptr;  ///< of a constant: its cached values, used in place of `used`
  std::vector<double> error;             ///< bounds of |used - exact network|; empty: all 0
  std::set<std::string> conditions;      ///< the conditions of `error`, but for `found`
  std::set<std::string> found;           ///< the condition of `error` where a kernel was found
  std::set<std::size_t> products;        ///< the nodes with products that the value depends on
  std::optional<CoarseProducts> sums;    ///< if a product computes the value: its sums of magnitudes
};

BoundResult result_of(BoundKind kind, std::string theorem, const std::set<std::string>& conditions, const Shape& shape,
                      std::vector<double> values, double seconds) {
  BoundResult result;
  result.kind = kind;
  result.guarantee = conditions.empty() ? Guarantee::proven : Guarantee::conditional;
  result.theorem = std::move(theorem);
  result.condition = joined(conditions);
  result.values = Tensor<double>(shape, std::move(values));
  result.seconds = seconds;
  return result;
}

/// Returns the result "probabilistic": the local bound with rounding errors of sums modelled as random (T-74).
BoundResult probabilistic_of(const LocalBound& local, const Shape& shape, double tail_factor, double seconds) {
  std::set<std::string> conditions = local.conditions;
  conditions.insert(chance_condition);
  BoundResult result = result_of(BoundKind::probabilistic, "T-74", conditions, shape, local.probabilistic, seconds);
  result.guarantee = Guarantee::probabilistic;
  result.failure_probability =
      failure_probability_of(tail_factor, static_cast<std::int64_t>(local.probabilistic.size()));
  for (const TermPattern pattern : local.patterns)
    if (result.not_applicable.empty()) result.not_applicable = describe(pattern);
  return result;
}

BoundResult heuristic_of(BoundKind kind, Tensor<double> values) {
  BoundResult result;
  result.kind = kind;
  result.guarantee = Guarantee::heuristic;
  result.theorem = "T-19";
  result.values = std::move(values);
  return result;
}

constexpr const char* found_condition =
    "each number of the products whose kernel was found is that of this kernel, as the recorded bits say (T-170)";

/// Of bounds of one node whose products are computed in this arithmetic.
std::set<std::string> conditions_of(const ArithmeticModel& arithmetic) {
  std::set<std::string> conditions = {arithmetic_condition(arithmetic)};
  if (arithmetic.tensor_core) conditions.insert(matrix_unit_condition(*arithmetic.tensor_core));
  return conditions;
}

class Walk {
public:
  Walk(const Graph& graph, const Trace& trace, const KnownExact& exact, const FoundArithmetics& found,
       const KernelsByNode& kernels, const BoundOptions& options, BoundCache& cache)
      : graph_(graph),
        trace_(trace),
        exact_(exact),
        found_(found),
        kernels_(kernels),
        options_(options),
        cache_(cache),
        normed_(graph) {
    setting_.arithmetic = &trace.arithmetic;
    setting_.machine = machine_of(trace.arithmetic, &graph);
    setting_.threads = options.threads;
    setting_.is_own_run = is_own_run(trace);
    setting_.machine.stores_inside = !setting_.is_own_run;
    if (!found_.empty()) setting_.found = &found_;
    folklore_u_ = folklore_unit_roundoff(trace.arithmetic);
    states_.resize(graph.values.size());
    start();
  }

  Bounds run() {
    for (std::size_t node = 0; node < graph_.nodes.size(); ++node) visit(node);
    add_two_trajectories();
    if (exact_.network != nullptr) try_end_to_end(graph_, trace_, *exact_.network, model_fits_, options_, bounds_);
    if (wants_replay()) add_replay();
    return std::move(bounds_);
  }

private:
  void start() {
    if (trace_.layers.size() != graph_.nodes.size()) {
      throw ShapeMismatch("bounds: the trace has " + std::to_string(trace_.layers.size()) + " layers, the graph " +
                          std::to_string(graph_.nodes.size()) +
                          "; read it with read_trace, which fits it to the graph");
    }
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      if (graph_.is_constant(id)) states_[id].kept = &cache_.constant(graph_.value(id).constant);
    }
    require_for_every_node(found_.size(), "found arithmetics");
    require_for_every_node(kernels_.size(), "kernels");
    require_fitting(exact_.local, "local");
    require_fitting(exact_.network, "certified");
    const Inputs used = used_inputs(graph_, trace_);
    std::vector<Shape> input_shapes;
    for (const ValueId id : graph_.inputs) {
      const std::string& name = graph_.value(id).name;
      states_[id].used = used.at(name).to_double();
      states_[id].error = difference(states_[id].used, trace_.inputs.at(name).to_double());
      input_shapes.push_back(states_[id].used.shape);
    }
    shapes_ = infer_shapes(graph_, input_shapes);
    setting_.wants_running = options_.wants(BoundKind::running) || options_.wants(BoundKind::forward);
    const bool is_by_chance = setting_.machine.u <= coarsest_by_chance;
    if (options_.wants(BoundKind::probabilistic) && options_.failure_probability > 0.0 && is_by_chance)
      setting_.tail_factor = local_tail_factor();
  }

  void require_for_every_node(std::size_t count, const std::string& what) const {
    if (count != 0 && count != graph_.nodes.size())
      throw ShapeMismatch("bounds: there are " + std::to_string(count) + " " + what + " for " +
                          std::to_string(graph_.nodes.size()) + " nodes");
  }

  void require_fitting(const std::vector<Tensor<Ball>>* exact, const std::string& which) const {
    if (exact == nullptr) return;
    bool fits = exact->size() == trace_.layers.size();
    for (std::size_t i = 0; fits && i < exact->size(); ++i) fits = (*exact)[i].size() == trace_.layers[i].output.size();
    if (!fits)
      throw ShapeMismatch("bounds: exact layers are not those of the trace; give its own " + which + "_reference");
  }

  /// Returns lambda of T-74, chosen so that the statements for all sums of the graph hold together.
  double local_tail_factor() const {
    std::int64_t sums = 0;
    for (const Node& node : graph_.nodes) {
      const bool is_product = multiplies_matrices(node.op);
      if (is_product) sums += element_count(shapes_[node.output]);
    }
    return sums > 0 ? theorems::tail_factor(options_.failure_probability, sums) : 0.0;
  }

  /// Returns upper bounds of |used - given|; empty if the tensors are equal.
  std::vector<double> difference(const Tensor<double>& used, const Tensor<double>& given) const {
    if (used.values == given.values) return {};
    std::vector<double> error(used.size());
    for (std::size_t i = 0; i < error.size(); ++i) {
      error[i] = theorems::operand_error(given.values[i], used.values[i]);
    }
    return error;
  }

  static std::optional<ReadingTest> test_readings(const NodeView& view, const Setting& setting,
                                                  const Tensor<Ball>& exact) {
    std::optional<ReadingTest> of_operands = test_operand_readings(view, setting, exact);
    return of_operands ? of_operands : test_op_variants(view, setting, exact);
  }

  NodeView view_of(const Node& node) const {
    NodeView view;
    view.node = &node;
    for (const ValueId id : node.inputs)
      view.inputs.push_back(states_[id].kept != nullptr ? states_[id].kept : &states_[id].used);
    view.output = &states_[node.output].used;
    return view;
  }

  void visit(std::size_t index) {
    const Node& node = graph_.nodes[index];
    ValueState& state = states_[node.output];
    state.used = trace_.layers[index].output.to_double();
    if (state.used.shape != shapes_[node.output]) {
      throw ShapeMismatch("bounds: layer " + node.name + " was recorded as " + to_string(state.used.shape) +
                          ", the graph gives " + to_string(shapes_[node.output]));
    }
    const NodeView view = view_of(node);
    LayerBounds layer;
    layer.fan_in = fan_in(graph_, node, shapes_);
    if (exact_.local != nullptr && options_.tests_readings)
      layer.readings = test_readings(view, declared_setting_of(node), (*exact_.local)[index]);
    layer.gamma_n = layer.fan_in > 0 ? gamma(layer.fan_in, setting_.machine.u).value() : 0.0;
    if (wants_shadow_alone()) {
      bounds_.layers.push_back(std::move(layer));
      return;
    }

    Stopwatch watch;
    const Setting setting = setting_of(index);
    LocalBound local = local_bound(view, setting);
    if (exact_.local != nullptr && !local.probabilistic.empty())
      model_fits_ = try_on_data(view, setting, (*exact_.local)[index], local) && model_fits_;
    const double local_seconds = watch.lap();
    follow(index, view, local);
    state.sums = std::move(local.sums);
    const double forward_seconds = watch.lap();

    const Shape& shape = state.used.shape;
    std::set<std::string> conditions = state.conditions;
    conditions.insert(state.found.begin(), state.found.end());
    note_assumptions(state.found);
    layer.accumulated.push_back(result_of(BoundKind::forward, "T-40", conditions, shape, state.error, forward_seconds));
    add_folklore(node, state, layer, !local.kappa.empty());
    if (!local.kappa.empty()) layer.kappa = Tensor<double>(shape, std::move(local.kappa));
    const auto add_first = [&](BoundKind kind, std::string theorem, std::vector<double>& values) {
      layer.local.insert(layer.local.begin(), result_of(kind, std::move(theorem), local.conditions, shape,
                                                        std::move(values), local_seconds));
    };
    if (!local.probabilistic.empty())
      layer.local.insert(layer.local.begin(), probabilistic_of(local, shape, setting_.tail_factor, local_seconds));
    if (!local.running.empty()) add_first(BoundKind::running, "T-69", local.running);
    if (!local.order_aware.empty()) add_first(BoundKind::order_aware, local.order_theorem, local.order_aware);
    if (!local.partial_sums.empty()) add_first(BoundKind::partial_sums, "T-68", local.partial_sums);
    add_first(BoundKind::componentwise, local.theorem, local.any_order);
    note_assumptions(local.conditions);
    bounds_.layers.push_back(std::move(layer));
  }

  bool is_found(std::size_t index) const { return !found_.empty() && found_[index]; }

  /// The setting of a node in the recorded run: that of the kernel which was found, else the declared one.
  Setting setting_of(std::size_t index) const {
    const Node& node = graph_.nodes[index];
    Setting setting = declared_setting_of(node);
    if (!is_found(index)) return setting;
    setting.arithmetic = &*found_[index];
    setting.is_own_run = false;
    setting.machine = machine_of(*found_[index], &graph_);
    setting.machine = machine_at(setting.machine, graph_.value(node.output).type, false);
    return setting;
  }

  /// The cache of packed operands is used only if the node's second operand is a constant.
  Setting declared_setting_of(const Node& node) const {
    Setting setting = setting_;
    setting.machine = machine_at(setting.machine, graph_.value(node.output).type, false);
    if (node.inputs.size() > 1 && graph_.is_constant(node.inputs[1])) setting.operands = &cache_;
    return setting;
  }

  /// Whether "shadow" and "replay" are the only requested bounds. All others need the conditions of the local bounds.
  bool wants_shadow_alone() const {
    const std::vector<BoundRequest>& requests = options_.requests;
    return !requests.empty() && std::all_of(requests.begin(), requests.end(), [](const BoundRequest& request) {
      return request == BoundRequest(BoundKind::shadow) || request == BoundRequest(BoundKind::replay);
    });
  }

  /// If the arithmetic declares no order, "replay" is reported only on request, or where the kernels found determine the run.
  bool wants_replay() const {
    return options_.wants(BoundKind::replay) &&
           (!options_.requests.empty() || trace_.arithmetic.order.gives_partial_sums() ||
            (!kernels_.empty() && undetermined_by(graph_, trace_.arithmetic, kernels_).empty()));
  }

  /// Adds the bound "replay" (T-97, T-171).
  void add_replay() {
    BoundOptions options = options_;
    options.requests = {BoundKind::shadow};
    const auto shadow_of = [&](const Trace& run) {
      return Walk(graph_, run, {nullptr, exact_.network}, {}, {}, options, cache_).run();
    };
    std::vector<const Tensor<double>*> layers;
    for (const Node& node : graph_.nodes) layers.push_back(&states_[node.output].used);
    bounds::add_replay(graph_, trace_, layers, kernels_, options_, setting_, shadow_of, bounds_);
  }

  /// The conditions of bounds of a node, with the declared arithmetic in the place of one that was found.
  std::set<std::string> declared_conditions(std::size_t index, std::set<std::string> conditions) const {
    if (!is_found(index)) return conditions;
    for (const std::string& condition : conditions_of(*found_[index])) conditions.erase(condition);
    if (!setting_.is_own_run) conditions.merge(conditions_of(trace_.arithmetic));
    return conditions;
  }

  /// Computes the `forward` bound of a node (T-40): the propagated errors of its inputs plus its local bound.
  void follow(std::size_t index, const NodeView& view, const LocalBound& local) {
    const Node& node = graph_.nodes[index];
    ValueState& state = states_[node.output];
    std::vector<Radii> radii;
    for (const ValueId id : node.inputs) {
      radii.push_back(states_[id].error);
      state.conditions.insert(states_[id].conditions.begin(), states_[id].conditions.end());
      state.found.insert(states_[id].found.begin(), states_[id].found.end());
      state.products.insert(states_[id].products.begin(), states_[id].products.end());
    }
    const std::set<std::string> own_conditions = declared_conditions(index, local.conditions);
    state.conditions.insert(own_conditions.begin(), own_conditions.end());
    if (is_found(index)) state.found.insert(found_condition);
    if (!local.kappa.empty() || has_products(node.op)) state.products.insert(index);
    const std::vector<double> own = local.best();
    state.error = propagate(view, radii, own, declared_setting_of(node));
    theorems::add_local_errors(own, state.error);
    normed_.limit(view, state.error);
    for (std::size_t i = 0; i < state.error.size(); ++i)
      if (!std::isfinite(state.used.values[i])) state.error[i] = Magnitude::infinite().value();
    if (bounds_.infinite.empty()) note_infinite(index, view, radii);
  }

  /// Notes the node if its `forward` bound is the first infinite one.
  void note_infinite(std::size_t index, const NodeView& view, const std::vector<Radii>& radii) {
    const ValueState& state = states_[graph_.nodes[index].output];
    const std::optional<std::size_t> at = first_infinite(state.error);
    const bool was_finite =
        std::none_of(radii.begin(), radii.end(), [](Radii r) { return first_infinite(r).has_value(); });
    if (!at || !was_finite) return;
    const std::int64_t rows = batch_layout(graph_).batched ? std::max<std::int64_t>(trace_.samples, 1) : 1;
    const auto size = std::max<std::int64_t>(static_cast<std::int64_t>(state.error.size()) / rows, 1);
    const auto element = static_cast<std::int64_t>(*at);
    std::string reason =
        std::isfinite(state.used.values[*at])
            ? infinite_reason(view, radii, *at, declared_setting_of(graph_.nodes[index]).machine.output->largest)
            : "the run's own value is not finite";
    bounds_.infinite.push_back({Question::this_run, index, element / size, element % size, std::move(reason)});
  }

  /// Adds all end-to-end bounds except `forward`.
  void add_two_trajectories() {
    Evaluation evaluation{graph_, {}, {}};
    for (const Node& node : graph_.nodes) {
      const std::optional<CoarseProducts>& sums = states_[node.output].sums;
      evaluation.run.layers.push_back(&states_[node.output].used);
      evaluation.run.sums.push_back(sums ? &*sums : nullptr);
      evaluation.conditions.push_back(states_[node.output].conditions);
    }
    for (const ValueId id : graph_.inputs) {
      evaluation.run.given.push_back(trace_.inputs.at(graph_.value(id).name).to_double());
      evaluation.run.used.push_back(states_[id].used);
      evaluation.run.input_error.push_back(read_error(states_[id]));
    }
    if (exact_.local != nullptr)
      for (const Tensor<Ball>& layer : *exact_.local) evaluation.run.exact.push_back(&layer);
    if (exact_.network != nullptr)
      for (const Tensor<Ball>& layer : *exact_.network) evaluation.run.network.push_back(&layer);
    add_end_to_end(evaluation, options_, setting_, cache_, bounds_);
  }

  /// Returns bounds of the distance of an input, rounded to the accumulator, from the input as given.
  std::vector<double> read_error(const ValueState& input) const {
    const Operand read = round_operand(input.used, *setting_.machine.accumulator, setting_.machine);
    if (read.is_exact()) return input.error;
    std::vector<double> error = read.error;
    for (std::size_t i = 0; i < error.size(); ++i) error[i] = (Magnitude(error[i]) + radius_at(input.error, i)).value();
    return error;
  }

  void add_folklore(const Node& node, const ValueState& state, LayerBounds& layer, bool is_product) const {
    const auto both = [&](std::vector<BoundResult>& list, BoundKind kind, BoundKind note,
                          const std::vector<std::int64_t>& n) {
      list.push_back(heuristic_of(kind, estimate_seed_gamma(n, folklore_u_, state.used)));
      list.push_back(heuristic_of(note, estimate_seed_gamma(n, 2.0 * folklore_u_, state.used)));
    };
    if (is_product && gamma(layer.fan_in, 2.0 * folklore_u_).is_finite())
      both(layer.local, BoundKind::seed_gamma, BoundKind::seed_gamma_note, {layer.fan_in});
    const bool is_output = std::count(graph_.outputs.begin(), graph_.outputs.end(), node.output) > 0;
    if (!is_output || state.products.empty()) return;
    std::vector<std::int64_t> fan_ins;
    for (const std::size_t product : state.products) {
      fan_ins.push_back(fan_in(graph_, graph_.nodes[product], shapes_));
    }
    both(layer.accumulated, BoundKind::seed_sum_gamma, BoundKind::seed_sum_gamma_note, fan_ins);
  }

  void note_assumptions(const std::set<std::string>& conditions) {
    for (const std::string& condition : conditions) {
      const auto& known = bounds_.assumptions;
      if (std::find(known.begin(), known.end(), condition) == known.end()) bounds_.assumptions.push_back(condition);
    }
  }

  const Graph& graph_;
  const Trace& trace_;
  const KnownExact exact_;
  const FoundArithmetics found_;
  const KernelsByNode kernels_;
  const BoundOptions& options_;
  BoundCache& cache_;
  NormedValues normed_;
  Setting setting_;
  double folklore_u_ = 0.0;
  bool model_fits_ = true;  ///< no layer's data refuted the model of T-74 (T-133)
  std::vector<Shape> shapes_;
  std::vector<ValueState> states_;
  Bounds bounds_;
};

}  // namespace
}  // namespace bounds

void add_to(std::vector<NotByRows>& all, const NotByRows& more) {
  const auto known = std::find_if(all.begin(), all.end(), [&](const NotByRows& one) {
    return one.question == more.question && one.obstacle == more.obstacle;
  });
  if (known == all.end())
    all.push_back(more);
  else
    known->seconds += more.seconds;
}

bool BoundOptions::wants(const BoundRequest& request) const {
  return requests.empty() || std::find(requests.begin(), requests.end(), request) != requests.end();
}

struct Bounder::State {
  const Graph& graph;
  BoundOptions options;
  bounds::BoundCache cache;
};

Bounder::Bounder(const Graph& graph, BoundOptions options) : state_(new State{graph, std::move(options), {}}) {
  const double p = state_->options.failure_probability;
  if (!(p >= 0.0 && p < 1.0))
    throw InvalidArgument("bounds: a failure probability is at least 0 and below 1, not " + std::to_string(p));
}
Bounder::~Bounder() = default;
Bounder::Bounder(Bounder&&) noexcept = default;
Bounder& Bounder::operator=(Bounder&&) noexcept = default;

Bounds Bounder::operator()(const Trace& trace, const KnownExact& exact, const FoundArithmetics& found,
                           const KernelsByNode& kernels) const {
  require_sound_environment();
  return bounds::Walk(state_->graph, trace, exact, found, kernels, state_->options, state_->cache).run();
}

Magnitude Bounder::spectral_norm(ValueId constant) const {
  require_sound_environment();
  const Graph& graph = state_->graph;
  if (constant >= graph.values.size() || !graph.is_constant(constant) ||
      graph.value(constant).constant.shape().size() != 2)
    throw InvalidArgument("spectral_norm: value " + std::to_string(constant) + " is no constant matrix of the graph");
  return state_->cache.norm_of_constant(graph.value(constant).constant, state_->options.threads);
}

Bounds bound(const Graph& graph, const Trace& trace, const BoundOptions& options) {
  return Bounder(graph, options)(trace);
}

}  // namespace driftbound
