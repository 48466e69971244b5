#include "driftbound/reference/reference.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "bounds/rows/double_run.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/environment.hpp"
#include "driftbound/num/errors.hpp"
#include "reference/apply.hpp"
#include "reference/ladder.hpp"
#include "reference/ledger.hpp"
#include "reference/near_recorded.hpp"
#include "reference/pair_apply.hpp"

namespace driftbound {

namespace {

constexpr int fewest_bits = 64;
constexpr int wide_bits = 256;
constexpr int bits_of_the_first_product = 128, bits_per_product = 4;

// Precision that the caller names is that of balls of any precision.
bool starts_with_pairs(const PrecisionPolicy& policy) {
  return policy.initial_bits == 0 && policy.max_bits >= pair_bits;
}

// Whether numbers in double can answer: for outputs alone, and a radius of this much of them or more.
bool starts_with_doubles(const PrecisionPolicy& policy, const Graph& graph, const Trace* computed) {
  constexpr double coarse = 0x1p-44;
  if (!starts_with_pairs(policy) || policy.max_bits == pair_bits || !policy.outputs_only) return false;
  if (computed == nullptr) return policy.relative_radius >= coarse;
  return std::all_of(graph.outputs.begin(), graph.outputs.end(), [&](ValueId output) {
    const std::optional<std::size_t> node = graph.producer(output);
    const std::optional<FormatId> type = node ? float_format(computed->layers[*node].output.type()) : std::nullopt;
    return type && policy.of_rounding * unit_roundoff(format(*type), Rounding::nearest_even) >= coarse;
  });
}

// What every rounding on the way may cost: more bits for a deeper network, by the products on the longest path.
int wide_bits_of(const Graph& graph) {
  std::vector<int> products(graph.values.size(), 0);  // on the longest path to a value
  int most = 0;
  for (const Node& node : graph.nodes) {
    int before = 0;
    for (const ValueId input : node.inputs) before = std::max(before, products[input]);
    products[node.output] = before + (multiplies_matrices(node.op) ? 1 : 0);
    most = std::max(most, products[node.output]);
  }
  const int bits = bits_of_the_first_product + bits_per_product * most;
  return std::max(wide_bits, (bits + 63) / 64 * 64);
}

// Row r of a value that depends on the inputs of a batched graph is its sample r; anything else is one row.
class Rows {
public:
  Rows(const Graph& graph, std::size_t samples)
      : batched_(batch_layout(graph).batched), samples_(batched_ ? samples : 1), varies_(depends_on_input(graph)) {}

  bool batched() const { return batched_; }
  bool are_samples(ValueId value) const { return batched_ && varies_[value]; }
  std::size_t of(ValueId value) const { return are_samples(value) ? samples_ : 1; }
  std::size_t samples() const { return samples_; }
  bool varies(ValueId value) const { return varies_[value]; }

private:
  bool batched_;
  std::size_t samples_;
  std::vector<bool> varies_;
};

// Values of a graph as doubles, by ValueId: inputs, and what a trace recorded.
class KnownValues {
public:
  explicit KnownValues(std::size_t values) : values_(values, nullptr) {}

  const Tensor<double>* operator[](ValueId value) const { return values_[value]; }
  void see(ValueId value, const Tensor<double>& tensor) { values_[value] = &tensor; }
  void hold(ValueId value, Tensor<double> tensor) { see(value, held_.emplace_back(std::move(tensor))); }

private:
  std::vector<const Tensor<double>*> values_;
  std::deque<Tensor<double>> held_;
};

// A constant of a graph, and its matrices packed for products of pairs.
class Constant {
public:
  /// `norm`: of the matrix that it is, where somebody knows it, else empty.
  Constant(const StoredTensor& stored, std::function<Magnitude()> norm)
      : stored_(stored), pairs_(stored.to_double()), matrices_(std::move(norm)) {}

  PairInput input() { return {&pairs_, &matrices_}; }
  const Tensor<double>& numbers() {
    std::call_once(numbers_made_, [this] { numbers_ = stored_.to_double(); });
    return numbers_;
  }

private:
  const StoredTensor stored_;  // shares its bytes with the graph
  PairTensor pairs_;
  KeptMatrices matrices_;
  std::once_flag numbers_made_;
  Tensor<double> numbers_;
};

using Constants = std::vector<std::unique_ptr<Constant>>;  // by ValueId

Constants constants_of(const Graph& graph, const ReferenceMaker::SpectralNorm& norm) {
  const auto norm_of = [&](ValueId id) -> std::function<Magnitude()> {
    const bool is_matrix = graph.value(id).constant.shape().size() == 2;
    if (!norm || !is_matrix) return {};
    return [norm, id] { return norm(id); };
  };
  Constants constants(graph.values.size());
  for (const Node& node : graph.nodes)
    for (const ValueId input : node.inputs)
      if (graph.is_constant(input) && constants[input] == nullptr)
        constants[input] = std::make_unique<Constant>(graph.value(input).constant, norm_of(input));
  return constants;
}

void add_inputs(KnownValues& values, const Graph& graph, const Inputs& inputs) {
  const BatchLayout layout = batch_layout(graph);
  const std::int64_t samples = sample_count(graph, layout, inputs);
  const Inputs evaluation = slice(graph, layout, inputs, 0, samples);
  for (const ValueId input : graph.inputs) values.hold(input, evaluation.at(graph.value(input).name).to_double());
}

// Shapes of all values, for some of the samples if asked.
std::vector<Shape> shapes_of(const Graph& graph, const KnownValues& values, std::optional<std::size_t> samples = {}) {
  std::vector<Shape> inputs;
  for (const ValueId input : graph.inputs) {
    inputs.push_back(values[input]->shape);
    if (samples) inputs.back().at(0) = static_cast<std::int64_t>(*samples);
  }
  return infer_shapes(graph, inputs);
}

std::size_t samples_of(const Graph& graph, const KnownValues& values) {
  if (graph.inputs.empty() || values[graph.inputs[0]]->shape.empty()) return 1;
  return static_cast<std::size_t>(values[graph.inputs[0]]->shape[0]);
}

// What the run computed, in the shapes of the graph.
void add_layers(KnownValues& values, const Graph& graph, const Trace& trace, const std::vector<Shape>& shapes) {
  if (trace.layers.size() != graph.nodes.size())
    throw InvalidArgument("the trace holds " + std::to_string(trace.layers.size()) + " layers, the graph " +
                          std::to_string(graph.nodes.size()) + "; read it with read_trace for this graph");
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Shape& shape = shapes[graph.nodes[i].output];
    Tensor<double> recorded = trace.layers[i].output.to_double();
    if (element_count(recorded.shape) != element_count(shape))
      throw ShapeMismatch("layer '" + graph.nodes[i].name + "' of the trace has shape " + to_string(recorded.shape) +
                          ", these inputs give " + to_string(shape) + "; slice inputs and trace alike");
    values.hold(graph.nodes[i].output, Tensor<double>(shape, std::move(recorded.values)));
  }
}

using Ledgers = std::vector<std::optional<LayerLedger>>;  // by node; empty: nobody asks for the layer

Ledgers open_ledgers(const Graph& graph, const std::vector<Shape>& shapes, const Rows& rows, const KnownValues& known,
                     const Trace* computed, const PrecisionPolicy& policy) {
  Ledgers ledgers(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const ValueId id = graph.nodes[i].output;
    if (policy.outputs_only && std::find(graph.outputs.begin(), graph.outputs.end(), id) == graph.outputs.end())
      continue;
    const bool is_judged = computed != nullptr;
    ledgers[i].emplace(shapes[id], rows.of(id), is_judged ? known[id] : nullptr,
                       is_judged ? computed->layers[i].output.type() : ElementType::f64, policy);
  }
  return ledgers;
}

Reference close_ledgers(Ledgers& ledgers, int bits) {
  Reference reference;
  for (std::optional<LayerLedger>& ledger : ledgers) {
    if (ledger) {
      ledger->close(reference);
    } else {
      reference.layers.emplace_back().shape = {0};
    }
  }
  reference.max_bits_used = bits;
  return reference;
}

const std::size_t the_only_row[] = {0};

// The constants as balls of one precision, by ValueId.
std::vector<std::unique_ptr<const ConstantBalls>> as_balls(const Constants& constants, int bits) {
  std::vector<std::unique_ptr<const ConstantBalls>> balls(constants.size());
  for (ValueId value = 0; value < constants.size(); ++value)
    if (constants[value] != nullptr) balls[value] = std::make_unique<ConstantBalls>(constants[value]->numbers(), bits);
  return balls;
}

// The whole graph on balls of one precision.
class Evaluation {
public:
  Evaluation(const Graph& graph, const Constants& constants, const KnownValues& known, const Rows& rows, int bits)
      : graph_(graph),
        constants_(constants),
        known_(known),
        rows_(rows),
        bits_(bits),
        constant_balls_(as_balls(constants, bits)),
        fixed_(graph.values.size()) {}

  // Nodes that are the same for every sample; to be called once and first.
  void evaluate_constants(const std::vector<Shape>& shapes, Ledgers& ledgers) {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (rows_.varies(node.output)) continue;
      fixed_[node.output].emplace(result_of(node, shapes, {}));
      if (ledgers[i]) ledgers[i]->record(the_only_row, *fixed_[node.output]);
    }
  }

  // Nodes that depend on the inputs, for some samples.
  void evaluate(std::span<const std::size_t> samples, Ledgers& ledgers) const {
    const std::vector<Shape> shapes =
        shapes_of(graph_, known_, rows_.batched() ? std::optional(samples.size()) : std::nullopt);
    std::vector<std::optional<BallTensor>> values(graph_.values.size());
    for (const ValueId input : graph_.inputs) {
      if (rows_.are_samples(input)) {
        values[input].emplace(*known_[input], samples, bits_);
      } else {
        values[input].emplace(*known_[input], bits_);
      }
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (!rows_.varies(node.output)) continue;
      values[node.output].emplace(result_of(node, shapes, values));
      if (ledgers[i]) ledgers[i]->record(samples, *values[node.output]);
    }
  }

private:
  BallTensor result_of(const Node& node, const std::vector<Shape>& shapes,
                       const std::vector<std::optional<BallTensor>>& values) const {
    std::vector<BallInput> operands;
    for (const ValueId input : node.inputs) {
      if (constants_[input] != nullptr) {
        operands.emplace_back(*constant_balls_[input], constants_[input]->input());
      } else {
        operands.emplace_back(fixed_[input] ? *fixed_[input] : *values.at(input));
      }
    }
    return apply(node.op, operands, shapes[node.output], bits_);
  }

  const Graph& graph_;
  const Constants& constants_;
  const KnownValues& known_;
  const Rows& rows_;
  int bits_;
  std::vector<std::unique_ptr<const ConstantBalls>> constant_balls_;
  std::vector<std::optional<BallTensor>> fixed_;  // what depends on constants alone
};

// The node after which no node needs a value, by ValueId.
std::vector<std::size_t> last_uses(const Graph& graph) {
  std::vector<std::size_t> last(graph.values.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    last[graph.nodes[i].output] = i;
    for (const ValueId input : graph.nodes[i].inputs) last[input] = i;
  }
  return last;
}

// The same in double-double.
class PairEvaluation {
public:
  /// `local`: the local reference of what is known of layers, or null
  PairEvaluation(const Graph& graph, const Constants& constants, const KnownValues& known, const Rows& rows,
                 const Reference* local)
      : graph_(graph),
        constants_(constants),
        known_(known),
        rows_(rows),
        local_(local),
        last_uses_(last_uses(graph)),
        fixed_(graph.values.size()) {}

  // Nodes that are the same for every sample; to be called once and first.
  void evaluate_constants(const std::vector<Shape>& shapes, Ledgers& ledgers) {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (rows_.varies(node.output)) continue;
      fixed_[node.output].emplace(apply(node.op, operands_of(node, {}), shapes[node.output], 1));
      if (ledgers[i]) ledgers[i]->record(the_only_row, *fixed_[node.output]);
    }
  }

  // Nodes that depend on the inputs, for some samples.
  void evaluate(std::span<const std::size_t> samples, Ledgers& ledgers) const {
    const std::vector<Shape> shapes =
        shapes_of(graph_, known_, rows_.batched() ? std::optional(samples.size()) : std::nullopt);
    Values values(graph_.values.size());
    for (const ValueId input : graph_.inputs) {
      if (rows_.are_samples(input)) {
        values[input].emplace(*known_[input], samples);
      } else {
        values[input].emplace(*known_[input]);
      }
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (!rows_.varies(node.output)) continue;
      const std::vector<PairInput> operands = operands_of(node, values);
      const std::size_t parts = rows_.are_samples(node.output) ? samples.size() : 1;
      values[node.output] = near_recorded(i, operands, samples, shapes[node.output]);
      if (!values[node.output]) values[node.output].emplace(apply(node.op, operands, shapes[node.output], parts));
      if (ledgers[i]) ledgers[i]->record(samples, *values[node.output]);
      for (const ValueId input : node.inputs)
        if (last_uses_[input] == i) values[input].reset();
    }
  }

private:
  using Values = std::vector<std::optional<PairTensor>>;

  /// Of layers that a run recorded; inputs that it read may not be those given here.
  std::optional<PairTensor> near_recorded(std::size_t i, std::span<const PairInput> operands,
                                          std::span<const std::size_t> samples, const Shape& shape) const {
    const Node& node = graph_.nodes[i];
    if (local_ == nullptr || !rows_.are_samples(node.output) || operands.size() < 2 || !graph_.producer(node.inputs[0]))
      return std::nullopt;
    return product_near_recorded(node.op, operands, {known_[node.inputs[0]], &local_->layers[i]}, samples, shape);
  }

  std::vector<PairInput> operands_of(const Node& node, const Values& values) const {
    std::vector<PairInput> operands;
    for (const ValueId input : node.inputs) {
      if (constants_[input] != nullptr) {
        operands.push_back(constants_[input]->input());
      } else {
        operands.push_back({fixed_[input] ? &*fixed_[input] : &*values.at(input), nullptr});
      }
    }
    return operands;
  }

  const Graph& graph_;
  const Constants& constants_;
  const KnownValues& known_;
  const Rows& rows_;
  const Reference* local_;
  std::vector<std::size_t> last_uses_;
  Values fixed_;
};

void require_local_of(const Reference& local, const Graph& graph, const Trace* computed) {
  bool fits = computed != nullptr && local.layers.size() == graph.nodes.size();
  for (std::size_t i = 0; fits && i < local.layers.size(); ++i)
    fits = local.layers[i].size() == computed->layers[i].output.size();
  if (!fits) throw ShapeMismatch("reference: the local reference is not that of the trace; give both or none");
}

std::vector<std::size_t> open_rows(const LayerLedger& ledger) {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < ledger.rows(); ++row)
    if (ledger.is_open(row)) rows.push_back(row);
  return rows;
}

// Samples of which some element of some layer is open.
std::vector<std::size_t> open_samples(const Graph& graph, const Ledgers& ledgers, const Rows& rows) {
  std::vector<bool> is_open(rows.samples(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (ledgers[i] && rows.varies(graph.nodes[i].output))
      for (const std::size_t row : open_rows(*ledgers[i])) is_open[row] = true;
  std::vector<std::size_t> samples;
  for (std::size_t sample = 0; sample < is_open.size(); ++sample)
    if (is_open[sample]) samples.push_back(sample);
  return samples;
}

bool constants_are_open(const Graph& graph, const Ledgers& ledgers, const Rows& rows) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (ledgers[i] && !rows.varies(graph.nodes[i].output) && !open_rows(*ledgers[i]).empty()) return true;
  return false;
}

// One node of the local reference: its exact function on recorded values.
class LocalNode {
public:
  LocalNode(const Node& node, const KnownValues& known, const Rows& rows) : node_(node), known_(known), rows_(rows) {}

  void evaluate_pairs(std::span<const std::size_t> samples, const Constants& constants, LayerLedger& ledger) const {
    std::deque<PairTensor> recorded;
    std::vector<PairInput> operands;
    for (const ValueId input : node_.inputs) {
      if (constants[input] != nullptr) {
        operands.push_back(constants[input]->input());
      } else if (rows_.are_samples(input)) {
        operands.push_back({&recorded.emplace_back(*known_[input], samples), nullptr});
      } else {
        operands.push_back({&recorded.emplace_back(*known_[input]), nullptr});
      }
    }
    const std::size_t parts = rows_.are_samples(node_.output) ? samples.size() : 1;
    ledger.record(samples, apply(node_.op, operands, shape_for(samples), parts));
  }

  void evaluate(std::span<const std::size_t> samples, int bits, const Constants& constants, LayerLedger& ledger) const {
    if (is_function_of_one_element()) return evaluate_elements(ledger.open_elements(samples), bits, constants, ledger);
    std::deque<BallTensor> recorded;
    std::deque<ConstantBalls> constant;
    std::vector<BallInput> operands;
    for (const ValueId input : node_.inputs) {
      if (constants[input] != nullptr) {
        operands.emplace_back(constant.emplace_back(constants[input]->numbers(), bits), constants[input]->input());
      } else if (rows_.are_samples(input)) {
        operands.emplace_back(recorded.emplace_back(*known_[input], samples, bits));
      } else {
        operands.emplace_back(recorded.emplace_back(*known_[input], bits));
      }
    }
    ledger.record(samples, apply(node_.op, operands, shape_for(samples), bits));
  }

private:
  bool is_function_of_one_element() const {
    return std::visit([](const auto& op) { return ElementwiseUnary<std::decay_t<decltype(op)>>; }, node_.op);
  }

  void evaluate_elements(const std::vector<std::size_t>& elements, int bits, const Constants& constants,
                         LayerLedger& ledger) const {
    const std::unique_ptr<Constant>& constant = constants[node_.inputs[0]];
    const Tensor<double>& x = constant != nullptr ? constant->numbers() : *known_[node_.inputs[0]];
    Tensor<double> chosen({static_cast<std::int64_t>(elements.size())});
    for (std::size_t i = 0; i < elements.size(); ++i) chosen.values[i] = x.values[elements[i]];
    const BallTensor operand(chosen, bits);
    const BallTensor* const operands[] = {&operand};
    ledger.record_elements(elements, apply(node_.op, operands, chosen.shape, bits));
  }

  Shape shape_for(std::span<const std::size_t> samples) const {
    Shape shape = known_[node_.output]->shape;
    if (rows_.are_samples(node_.output)) shape.at(0) = static_cast<std::int64_t>(samples.size());
    return shape;
  }

  const Node& node_;
  const KnownValues& known_;
  const Rows& rows_;
};

}  // namespace

void require_valid(const PrecisionPolicy& policy) {
  if (policy.max_bits < fewest_bits)
    throw InvalidArgument("max_bits = " + std::to_string(policy.max_bits) + "; a reference needs at least " +
                          std::to_string(fewest_bits));
  if (policy.initial_bits != 0 && policy.initial_bits < fewest_bits)
    throw InvalidArgument("initial_bits = " + std::to_string(policy.initial_bits) + "; give 0 or at least " +
                          std::to_string(fewest_bits));
  if (policy.threads < 1) throw InvalidArgument("threads = " + std::to_string(policy.threads) + "; give at least 1");
  if (!(policy.error_ratio > 0.0) || !(policy.relative_radius > 0.0))
    throw InvalidArgument("error_ratio and relative_radius must be positive");
  if (!(policy.of_rounding >= 0.0)) throw InvalidArgument("of_rounding must not be negative");
}

struct ReferenceMaker::Kept {
  Kept(const Graph& of, const SpectralNorm& norm) : graph(of), constants(constants_of(of, norm)) {}

  /// Null where there is none. Made when it is asked for first.
  const bounds::DoubleRun* doubles() {
    std::call_once(doubles_made, [this] { made_doubles = bounds::DoubleRun::of(graph); });
    return made_doubles.get();
  }

  const Graph& graph;
  Constants constants;
  std::once_flag doubles_made;
  std::unique_ptr<const bounds::DoubleRun> made_doubles;
};

namespace {

// Outputs in double, for samples.
void evaluate_doubles(const bounds::DoubleRun& run, const Graph& graph, const KnownValues& known,
                      std::span<const std::size_t> samples, Ledgers& ledgers) {
  std::vector<std::vector<double>> rows;
  for (const ValueId input : graph.inputs) {
    const Tensor<double>& all = *known[input];
    const std::size_t width = all.size() / samples_of(graph, known);
    std::vector<double>& chosen = rows.emplace_back();
    for (const std::size_t sample : samples) {
      const auto first = all.values.begin() + static_cast<std::ptrdiff_t>(sample * width);
      chosen.insert(chosen.end(), first, first + static_cast<std::ptrdiff_t>(width));
    }
  }
  const std::vector<std::span<const double>> inputs(rows.begin(), rows.end());
  run.run(inputs, samples.size(),
          [&](std::size_t output, std::size_t first, std::span<const double> values, std::span<const double> radii) {
            const std::optional<std::size_t> node = graph.producer(graph.outputs[output]);
            if (!node || !ledgers[*node]) return;
            const std::size_t width = values.size() / radii.size();
            for (std::size_t row = 0; row < radii.size(); ++row)
              ledgers[*node]->record_doubles(samples[first + row], values.subspan(row * width, width), radii[row]);
          });
}

}  // namespace

ReferenceMaker::ReferenceMaker(const Graph& graph, SpectralNorm norm)
    : kept_((require_sound_environment(), std::make_unique<Kept>(graph, norm))) {}
ReferenceMaker::~ReferenceMaker() = default;
ReferenceMaker::ReferenceMaker(ReferenceMaker&&) noexcept = default;
ReferenceMaker& ReferenceMaker::operator=(ReferenceMaker&&) noexcept = default;

Reference ReferenceMaker::accumulated(const Inputs& inputs, const PrecisionPolicy& policy, const Trace* computed,
                                      const Reference* local) const {
  require_sound_environment();
  require_valid(policy);
  const MpfrRange range;
  const Graph& graph = kept_->graph;
  KnownValues known(graph.values.size());
  add_inputs(known, graph, inputs);
  const std::vector<Shape> shapes = shapes_of(graph, known);
  const Rows rows(graph, samples_of(graph, known));
  if (computed != nullptr) add_layers(known, graph, *computed, shapes);
  if (local != nullptr) require_local_of(*local, graph, computed);
  Ledgers ledgers = open_ledgers(graph, shapes, rows, known, computed, policy);

  std::vector<std::size_t> open = open_samples(graph, ledgers, rows);
  if (starts_with_doubles(policy, graph, computed) && kept_->doubles() != nullptr) {
    for_blocks(open, policy.threads, double_block, [&](std::span<const std::size_t> block) {
      evaluate_doubles(*kept_->doubles(), graph, known, block, ledgers);
    });
    open = open_samples(graph, ledgers, rows);
    if (open.empty() && !constants_are_open(graph, ledgers, rows)) return close_ledgers(ledgers, double_bits);
  }
  if (starts_with_pairs(policy)) {
    PairEvaluation evaluation(graph, kept_->constants, known, rows, local);
    evaluation.evaluate_constants(shapes, ledgers);
    for_blocks(open, policy.threads, pair_block,
               [&](std::span<const std::size_t> block) { evaluation.evaluate(block, ledgers); });
    open = open_samples(graph, ledgers, rows);
    const bool is_done = open.empty() && !constants_are_open(graph, ledgers, rows);
    if (is_done || policy.max_bits == pair_bits) return close_ledgers(ledgers, pair_bits);
  }
  const int bits = climb(policy, wide_bits_of(graph), [&](int rung) {
    Evaluation evaluation(graph, kept_->constants, known, rows, rung);
    evaluation.evaluate_constants(shapes, ledgers);
    for_blocks(open, policy.threads, ball_block,
               [&](std::span<const std::size_t> block) { evaluation.evaluate(block, ledgers); });
    open = open_samples(graph, ledgers, rows);
    return !open.empty() || constants_are_open(graph, ledgers, rows);
  });
  return close_ledgers(ledgers, bits);
}

Reference ReferenceMaker::local(const Trace& trace, const PrecisionPolicy& policy) const {
  require_sound_environment();
  require_valid(policy);
  const MpfrRange range;
  const Graph& graph = kept_->graph;
  KnownValues known(graph.values.size());
  add_inputs(known, graph, used_inputs(graph, trace));
  const std::vector<Shape> shapes = shapes_of(graph, known);
  const Rows rows(graph, samples_of(graph, known));
  add_layers(known, graph, trace, shapes);
  PrecisionPolicy of_all = policy;
  of_all.outputs_only = false;
  Ledgers ledgers = open_ledgers(graph, shapes, rows, known, &trace, of_all);

  int most_bits = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const LocalNode node(graph.nodes[i], known, rows);
    std::vector<std::size_t> open = open_rows(*ledgers[i]);
    if (starts_with_pairs(policy)) {
      for_blocks(open, policy.threads, pair_block, [&](std::span<const std::size_t> block) {
        node.evaluate_pairs(block, kept_->constants, *ledgers[i]);
      });
      open = open_rows(*ledgers[i]);
      most_bits = std::max(most_bits, pair_bits);
      if (open.empty() || policy.max_bits == pair_bits) continue;
    }
    const int bits = climb(policy, wide_bits, [&](int rung) {
      for_blocks(open, policy.threads, ball_block, [&](std::span<const std::size_t> block) {
        node.evaluate(block, rung, kept_->constants, *ledgers[i]);
      });
      open = open_rows(*ledgers[i]);
      return !open.empty();
    });
    most_bits = std::max(most_bits, bits);
  }
  return close_ledgers(ledgers, most_bits);
}

Reference certified_reference(const Graph& graph, const Inputs& inputs, const PrecisionPolicy& policy,
                              const Trace* computed) {
  return ReferenceMaker(graph).accumulated(inputs, policy, computed);
}

Reference local_reference(const Graph& graph, const Trace& trace, const PrecisionPolicy& policy) {
  return ReferenceMaker(graph).local(trace, policy);
}

}  // namespace driftbound
