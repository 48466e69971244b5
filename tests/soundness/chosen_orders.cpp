#include "soundness/chosen_orders.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <stdexcept>
#include <utility>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "driftbound/num/format.hpp"
#include "soundness/chosen_sums.hpp"
#include "soundness/foreign_runs.hpp"
#include "soundness/lone_node.hpp"
#include "soundness/plain_network.hpp"
#include "soundness/random.hpp"

namespace driftbound::soundness {
namespace {

using Values = PlainNetwork::Values;
using Elements = std::vector<std::size_t>;

constexpr std::size_t trials_at_once = 64;
constexpr int sweeps = 20;

/// One sample, once. Nodes up to some point are run; those behind it are planned in double, each sum as far off as it
/// can be taken, in the direction that it is to err in.
class ChosenRun {
public:
  ChosenRun(const PlainNetwork& network, const ArithmeticModel& arithmetic, const ChosenError& error)
      : network_(network),
        graph_(network.graph()),
        arithmetic_(arithmetic),
        evaluator_(cpu_arithmetic(arithmetic.name, parse_summation_order("sequential"))),
        error_(error),
        is_narrow_(arithmetic.input != arithmetic.accumulator),
        random_(error.seed),
        varies_(depends_on_input(graph_)),
        weights_(graph_.values.size()),
        reach_(graph_.nodes.size()),
        towards_(graph_.nodes.size()) {
    for (const Node& node : graph_.nodes)
      if (PlainNetwork::is_product(node)) weights_[node.output] = read(network.weights(node));
  }

  /// The values of all nodes.
  Values operator()(const std::vector<double>& input) && {
    values_ = network_.exact(input);
    read_ = values_;
    read_[graph_.inputs.front()] = read(input);
    choose_directions();
    plan_from(0);
    if (is_narrow_) search();
    for (std::size_t index = 0; index < graph_.nodes.size(); ++index) {
      run(index);
      plan_from(index + 1);
      if (is_narrow_) improve(index + 1);
    }
    return std::move(values_);
  }

private:
  /// The farthest that a sum was taken from its exact value, up and down, when it was planned first.
  struct Reach {
    std::vector<double> up, down;
  };

  std::vector<double> read(std::vector<double> values) const {
    if (is_narrow_)
      for (double& x : values) x = round_to(x, format(arithmetic_.input), Rounding::nearest_even);
    return values;
  }

  const Node& node(std::size_t index) const { return graph_.nodes[index]; }
  bool is_product(std::size_t index) const { return PlainNetwork::is_product(node(index)); }

  std::vector<float> terms(std::size_t index, const std::vector<double>& x, std::size_t column) const {
    const std::vector<double>& w = weights_[node(index).output];
    const std::size_t columns = w.size() / x.size();
    std::vector<float> result;
    for (std::size_t k = 0; k < x.size(); ++k)
      result.push_back(static_cast<float>(x[k]) * static_cast<float>(w[k * columns + column]));
    return result;
  }

  /// While the values are those of the exact network.
  void choose_directions() {
    const Values d = network_.adjoint(values_, error_.target);
    for (std::size_t index = 0; index < graph_.nodes.size(); ++index) {
      if (!is_product(index)) continue;
      const std::vector<double>& of_node = d[node(index).output];
      towards_[index].assign(values_[node(index).output].size(), 1.0);
      for (std::size_t j = 0; j < of_node.size(); ++j)
        if (of_node[j] * error_.direction < 0.0) towards_[index][j] = -1.0;
    }
  }

  Reach reach_of(std::size_t index, const std::vector<double>& x) const {
    Reach reach;
    for (std::size_t j = 0; j < towards_[index].size(); ++j) {
      const std::vector<float> all = terms(index, x, j);
      double sum = 0.0;
      for (const float term : all) sum += term;
      reach.up.push_back(sum_erring(all, 1.0) - sum);
      reach.down.push_back(sum_erring(all, -1.0) - sum);
    }
    return reach;
  }

  double planned_error(std::size_t index, std::size_t j, double towards) const {
    return towards > 0.0 ? reach_[index].up[j] : reach_[index].down[j];
  }

  void plan_from(std::size_t first) {
    for (std::size_t index = first; is_narrow_ && index < graph_.nodes.size(); ++index) {
      std::vector<double>& y = values_[node(index).output];
      y = is_product(index) ? planned_product(index) : network_.value_of(node(index), values_);
      read_[node(index).output] = read(y);
    }
    value_ = error_.direction * network_.value_of(error_.target, values_);
  }

  std::vector<double> planned_product(std::size_t index) {
    const std::vector<double>& x = read_[node(index).inputs[0]];
    if (reach_[index].up.empty()) reach_[index] = reach_of(index, x);
    std::vector<double> y = network_.addend(node(index));
    for (std::size_t j = 0; j < y.size(); ++j) y[j] += planned_error(index, j, towards_[index][j]);
    add_product(y, x, weights_[node(index).output]);
    return y;
  }

  /// A plan with some sums of a node the other way.
  struct Trial {
    Values values;  ///< empty where nothing changes
    const std::vector<double>& at(ValueId id, const Values& planned) const {
      return values[id].empty() ? planned[id] : values[id];
    }
  };

  Trial turned_over(std::size_t index, const Elements& elements) const {
    Trial trial{Values(values_.size())};
    std::vector<double>& y = trial.values[node(index).output];
    y = values_[node(index).output];
    for (const std::size_t j : elements)
      y[j] += planned_error(index, j, -towards_[index][j]) - planned_error(index, j, towards_[index][j]);
    return trial;
  }

  bool changes(const Trial& trial, std::size_t index) const {
    return std::any_of(node(index).inputs.begin(), node(index).inputs.end(),
                       [&](ValueId id) { return !trial.values[id].empty(); });
  }

  void follow(Trial& trial, std::size_t index) const {
    std::vector<double>& y = trial.values[node(index).output];
    if (!is_product(index)) {
      Values operands(values_.size());
      for (const ValueId id : node(index).inputs) operands[id] = trial.at(id, values_);
      y = network_.value_of(node(index), operands);
      return;
    }
    const ValueId of = node(index).inputs[0];
    std::vector<double> moved = read(trial.values[of]);
    for (std::size_t k = 0; k < moved.size(); ++k) moved[k] -= read_[of][k];
    y = values_[node(index).output];
    add_product(y, moved, weights_[node(index).output]);
  }

  double value_with(std::size_t index, const Elements& elements) const {
    Trial trial = turned_over(index, elements);
    for (std::size_t later = index + 1; later < graph_.nodes.size(); ++later)
      if (changes(trial, later)) follow(trial, later);
    Values outputs(values_.size());
    for (const ValueId id : graph_.outputs) outputs[id] = trial.at(id, values_);
    return error_.direction * network_.value_of(error_.target, outputs);
  }

  /// Sums of a node that, planned the other way, would be read as another number by some product.
  Elements open(std::size_t index) const {
    Elements all(towards_[index].size()), result;
    for (std::size_t j = 0; j < all.size(); ++j) all[j] = j;
    std::vector<bool> is_open(all.size());
    Trial trial = turned_over(index, all);
    for (std::size_t later = index + 1; later < graph_.nodes.size(); ++later) {
      if (!changes(trial, later)) continue;
      if (!is_product(later)) {
        follow(trial, later);
        continue;
      }
      const ValueId of = node(later).inputs[0];
      const std::vector<double> x = read(trial.values[of]);
      for (const std::size_t j : all) is_open[j] = is_open[j] || x[j] != read_[of][j];
    }
    for (const std::size_t j : all)
      if (is_open[j]) result.push_back(j);
    return result;
  }

  void turn_over(std::size_t index, const Elements& elements) {
    for (const std::size_t j : elements) towards_[index][j] = -towards_[index][j];
  }

  void shuffle(Elements& elements) {
    for (std::size_t i = elements.size(); i > 1; --i)
      std::swap(elements[i - 1],
                elements[static_cast<std::size_t>(random_.integer(0, static_cast<std::int64_t>(i) - 1))]);
  }

  /// Turns over those sums of a node that make the target err more, as many of them together as do; whether any did.
  bool ascend(std::size_t index) {
    Elements candidates = open(index);
    shuffle(candidates);
    candidates.resize(std::min(candidates.size(), trials_at_once));
    std::vector<std::pair<double, std::size_t>> helpful;
    for (const std::size_t j : candidates)
      if (const double value = value_with(index, {j}); value > value_) helpful.emplace_back(value, j);
    std::sort(helpful.rbegin(), helpful.rend());
    double best = value_;
    Elements tried, chosen;
    for (const auto& [value, j] : helpful) {
      tried.push_back(j);
      const double together = tried.size() == 1 ? value : value_with(index, tried);
      if (together > best) chosen = tried;
      best = std::max(best, together);
    }
    turn_over(index, chosen);
    if (!chosen.empty()) plan_from(index);
    return !chosen.empty();
  }

  Elements products_from(std::size_t first) const {
    Elements indices;
    for (std::size_t index = first; index < graph_.nodes.size(); ++index)
      if (is_product(index)) indices.push_back(index);
    return indices;
  }

  void improve(std::size_t first) {
    const Elements products = products_from(first);
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      bool any = false;
      for (auto index = products.rbegin(); index != products.rend(); ++index) any = ascend(*index) || any;
      if (!any) return;
    }
  }

  /// Local search, from what was best so far with up to four sums turned over.
  void search() {
    improve(0);
    const Elements products = products_from(0);
    for (std::int64_t attempt = 0; attempt < error_.attempts && !products.empty(); ++attempt) {
      const auto best = towards_;
      const double best_value = value_;
      for (std::int64_t changed = random_.integer(1, 4); changed > 0; --changed) {
        const std::size_t index = random_.pick(products);
        const Elements candidates = open(index);
        if (candidates.empty()) continue;
        turn_over(index, {random_.pick(candidates)});
        plan_from(index);
      }
      improve(0);
      if (value_ >= best_value) continue;
      towards_ = best;
      plan_from(0);
    }
  }

  /// In float32.
  void run(std::size_t index) {
    const std::vector<double>& x = values_[node(index).inputs[0]];
    std::vector<double>& y = values_[node(index).output];
    y = is_product(index) ? product(index, read(x)) : on_its_own(index);
    read_[node(index).output] = read(y);
  }

  std::vector<double> product(std::size_t index, const std::vector<double>& x) const {
    std::vector<double> y;
    for (const double addend : network_.addend(node(index))) {
      const float sum = sum_erring(terms(index, x, y.size()), towards_[index][y.size()]);
      y.push_back(sum + static_cast<float>(addend));
    }
    return y;
  }

  std::vector<double> on_its_own(std::size_t index) const {
    std::vector<StoredTensor> operands(values_.size());
    for (const ValueId id : node(index).inputs) operands[id] = stored(values_[id]);
    return evaluated_alone(node(index), operands, varies_, evaluator_).to_double().values;
  }

  static StoredTensor stored(const std::vector<double>& values) {
    return StoredTensor::from(
        Tensor<float>({1, static_cast<std::int64_t>(values.size())}, std::vector<float>(values.begin(), values.end())));
  }

  const PlainNetwork& network_;
  const Graph& graph_;
  const ArithmeticModel& arithmetic_;
  const ArithmeticModel evaluator_;  ///< of functions: nothing else is left to it
  const ChosenError& error_;
  const bool is_narrow_;
  Random random_;
  const std::vector<bool> varies_;
  Values weights_;
  Values values_, read_;  ///< read_: as products read values_
  std::vector<Reach> reach_;
  std::vector<std::vector<double>> towards_;  ///< 1 or -1 for every sum
  double value_ = 0.0;                        ///< of the target as planned, times the direction
};

/// Throws:    InvalidArgument for another arithmetic
void require_float32_sums(const ArithmeticModel& arithmetic) {
  if (arithmetic.accumulator != FormatId::fp32 || arithmetic.output != FormatId::fp32 || arithmetic.tensor_core)
    throw InvalidArgument("orders are chosen for sums and results in float32");
}

/// Throws:    std::logic_error where a number is none of float32
float as_float(double x) {
  const auto number = static_cast<float>(x);
  if (number != x && !std::isnan(x)) throw std::logic_error("a planned number is left in a run in chosen orders");
  return number;
}

}  // namespace

Trace run_in_chosen_orders(const Graph& graph, const Inputs& inputs, ArithmeticModel arithmetic,
                           const ChosenError& error) {
  require_float32_sums(arithmetic);
  const PlainNetwork network(graph);
  const std::vector<double> points = inputs.tensors.front().second.to_double().values;
  const std::int64_t samples = sample_count(graph, batch_layout(graph), inputs);
  const std::size_t size = points.size() / static_cast<std::size_t>(samples);
  std::vector<std::vector<float>> layers(graph.nodes.size());
  for (std::size_t first = 0; first < points.size(); first += size) {
    const auto from = points.begin() + static_cast<std::ptrdiff_t>(first);
    const Values run = ChosenRun(network, arithmetic, error)({from, from + static_cast<std::ptrdiff_t>(size)});
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::vector<double>& values = run[graph.nodes[i].output];
      std::transform(values.begin(), values.end(), std::back_inserter(layers[i]), as_float);
    }
  }
  Trace trace = trace_in_unknown_order(graph, inputs, std::move(arithmetic), "orders chosen sum by sum");
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::int64_t width = static_cast<std::int64_t>(layers[i].size()) / samples;
    trace.layers.push_back({graph.nodes[i].name, StoredTensor::from(Tensor<float>({samples, width}, layers[i]))});
  }
  return trace;
}

}  // namespace driftbound::soundness
