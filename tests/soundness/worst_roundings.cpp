#include "soundness/worst_roundings.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "soundness/plain_network.hpp"

namespace driftbound::soundness {
namespace {

/// Rounds as far off as to nearest may, up (+1), down (-1) or not at all (0).
class Rounding {
public:
  Rounding(double unit, double towards) : u_(unit), direction_(towards) {}

  /// Of a number of the format and the exact product of a fused step.
  double of_step(double sum, double product) const {
    return sum + product + direction_ * std::min(most(sum + product), std::abs(product));
  }
  /// Of two numbers of the format, either of which the sum might be rounded to.
  double of_sum(double a, double b) const {
    return a + b + direction_ * std::min({most(a + b), std::abs(a), std::abs(b)});
  }
  bool is_upwards() const { return direction_ > 0.0; }

private:
  /// u ufp(t), and not beyond the powers of two on both sides of t.
  double most(double t) const {
    if (t == 0.0) return 0.0;
    const double below = std::ldexp(1.0, std::ilogb(t)), above = 2.0 * below;
    return std::min({u_ * below, std::abs(t) - below, above - std::abs(t)});
  }

  double u_, direction_;
};

double added_up(const std::vector<double>& first, const std::vector<double>& then, const Rounding& rounding) {
  double sum = 0.0;
  bool is_empty = true;
  const auto add = [&](double product) {
    sum = is_empty ? product : rounding.of_step(sum, product);
    is_empty = false;
  };
  std::for_each(first.begin(), first.end(), add);
  std::for_each(then.rbegin(), then.rend(), add);
  return sum;
}

double worst_sum(const std::vector<double>& terms, const Rounding& rounding) {
  std::vector<double> positive, negative;
  for (const double term : terms)
    if (term != 0.0) (term > 0.0 ? positive : negative).push_back(term);
  std::sort(positive.begin(), positive.end(), std::greater<>());
  std::sort(negative.begin(), negative.end());
  const double one = added_up(positive, negative, rounding), other = added_up(negative, positive, rounding);
  return (one > other) == rounding.is_upwards() ? one : other;
}

class Runs {
public:
  Runs(const Graph& graph, const std::vector<double>& input, double u)
      : network_(graph), u_(u), input_(input), exact_(network_.exact(input)) {}

  double error(const Target& target, double direction) const {
    const Values run = rounded(network_.adjoint(exact_, target), direction);
    return network_.value_of(target, run) - network_.value_of(target, exact_);
  }

private:
  using Values = PlainNetwork::Values;

  /// Every rounding errs in the direction in which the target moves.
  Values rounded(const Values& adjoints, double direction) const {
    const Graph& graph = network_.graph();
    Values values(graph.values.size());
    values[graph.inputs.front()] = input_;
    for (const Node& node : graph.nodes) {
      const std::vector<double>& d = adjoints[node.output];
      const auto rounding = [&](std::size_t i) {
        const double towards = d.empty() ? 0.0 : d[i] * direction;
        return Rounding(u_, towards == 0.0 ? 0.0 : std::copysign(1.0, towards));
      };
      values[node.output] = rounded(node, values, rounding);
    }
    return values;
  }

  std::vector<double> rounded(const Node& node, const Values& values,
                              const std::function<Rounding(std::size_t)>& rounding) const {
    const std::vector<double>& x = values[node.inputs[0]];
    if (PlainNetwork::is_product(node)) return product(node, x, rounding);
    if (!PlainNetwork::is_sum(node)) return network_.value_of(node, values);
    std::vector<double> y;
    for (std::size_t i = 0; i < x.size(); ++i) y.push_back(rounding(i).of_sum(x[i], values[node.inputs[1]][i]));
    return y;
  }

  std::vector<double> product(const Node& node, const std::vector<double>& x,
                              const std::function<Rounding(std::size_t)>& rounding) const {
    const std::vector<double>&w = network_.weights(node), &addend = network_.addend(node);
    std::vector<double> y, terms(x.size());
    for (std::size_t j = 0; j < addend.size(); ++j) {
      const Rounding of_element = rounding(j);
      for (std::size_t k = 0; k < x.size(); ++k) terms[k] = x[k] * w[k * addend.size() + j];
      y.push_back(of_element.of_sum(worst_sum(terms, of_element), addend[j]));
    }
    return y;
  }

  const PlainNetwork network_;
  const double u_;
  const std::vector<double> input_;
  const Values exact_;
};

}  // namespace

double error_of_worst_roundings(const Graph& graph, const std::vector<double>& input, const Target& target, double u) {
  const Runs runs(graph, input, u);
  return std::max(std::abs(runs.error(target, 1.0)), std::abs(runs.error(target, -1.0)));
}

}  // namespace driftbound::soundness
