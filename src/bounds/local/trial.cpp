#include "bounds/local/trial.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/local/other_orders.hpp"
#include "bounds/theorems/chance.hpp"
#include "bounds/theorems/roundings.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/num/directed.hpp"
#include "num/parallel.hpp"

namespace driftbound::bounds {
namespace {

/// An error of this share of a bound in another order refutes the model.
constexpr double refuting_share = 0.5;

/// |y - exact|, approximately, and its radius on top: no smaller than what is certain of the error.
double largest_error(double y, const Ball& exact) {
  return std::abs((y - exact.hi) - exact.lo) + exact.radius.value();
}

bool is_exceeded(double bound, double y, const Ball& exact) {
  return std::isfinite(bound) && std::isfinite(y) && exact.is_finite() &&
         largest_error(y, exact) > bound * (1.0 - 0x1p-20);
}

/// How often the most frequent magnitude of a term occurs. Rounded products of equal factors are equal.
std::int64_t most_repeats(const Factors& factors) {
  std::vector<double> terms(factors.left.size());
  for (std::size_t k = 0; k < terms.size(); ++k) terms[k] = std::abs(factors.left[k] * factors.right[k]);
  std::sort(terms.begin(), terms.end());
  std::int64_t most = 1, repeats = 1;
  for (std::size_t k = 1; k < terms.size(); ++k) {
    repeats = terms[k] == terms[k - 1] ? repeats + 1 : 1;
    most = std::max(most, repeats);
  }
  return most;
}

/// Whether the sum of these terms errs by more than `most` in one of the orders.
bool errs_by_more(const OtherOrders& sums, const Factors& factors, const Ball& exact, double most) {
  for (std::size_t order = 0; order < OtherOrders::count(); ++order)
    if (!(largest_error(sums.sum(factors, order), exact) <= most)) return true;
  return false;
}

/// The elements of a node's result that a bound from end to end speaks of: every `stride`-th from `first` on.
struct Elements {
  std::size_t node = 0, first = 0, stride = 0;
};

/// A bound adjoint/probabilistic, of elements or of the differences of two.
struct Followed {
  BoundResult* bound = nullptr;
  Elements positive;
  std::optional<Elements> negative;
};

/// The bounds adjoint/probabilistic of targets and outputs.
class EndToEnd {
public:
  EndToEnd(const Graph& graph, const Trace& trace, const std::vector<Tensor<Ball>>& exact, const BoundOptions& options,
           Bounds& bounds)
      : graph_(graph), trace_(trace), exact_(exact), varies_(depends_on_input(graph)) {
    for (std::size_t node = 0; node < graph.nodes.size(); ++node)
      for (BoundResult& bound : bounds.layers[node].accumulated)
        if (bound.kind == BoundKind::adjoint_probabilistic) followed_.push_back({&bound, {node, 0, 1}, std::nullopt});
    for (std::size_t t = 0; t < bounds.targets.size(); ++t)
      for (BoundResult& bound : bounds.targets[t].bounds) {
        if (bound.kind != BoundKind::adjoint_probabilistic) continue;
        const Target& target = options.targets[t];
        Followed one{&bound, elements_of(target.positive, bound.values.size()), std::nullopt};
        if (target.negative) one.negative = elements_of(*target.negative, bound.values.size());
        followed_.push_back(one);
      }
  }

  void attempt(bool fits) {
    std::erase_if(followed_, [&](const Followed& one) { return !errs_by_more(one, trace_, 1.0); });
    if (!fits) refuse("a layer's sums repeat terms, or err alike in other orders");
    for (const SummationOrder& order : tried_orders()) {
      if (followed_.empty()) return;
      const char* const arithmetic = trace_.arithmetic.accumulator == FormatId::fp64 ? "fp64" : "fp32";
      const Trace run = cpu_evaluator(cpu_arithmetic(arithmetic, order)).run(graph_, trace_.inputs);
      const bool are_near = std::any_of(followed_.begin(), followed_.end(),
                                        [&](const Followed& one) { return errs_by_more(one, run, refuting_share); });
      if (are_near) refuse("in another order the network errs by more than half of it");
    }
  }

private:
  Elements elements_of(const OutputElement& element, std::size_t samples) const {
    const std::size_t node = graph_.producer(graph_.outputs[element.output]).value();
    const bool is_per_sample = varies_[graph_.nodes[node].output] && samples > 0;
    return {node, static_cast<std::size_t>(element.element), is_per_sample ? exact_[node].size() / samples : 0};
  }

  /// Whether a value of the run errs by more than this share of its bound.
  bool errs_by_more(const Followed& one, const Trace& run, double share) const {
    const Tensor<double> positive = run.layers[one.positive.node].output.to_double();
    const Tensor<double> negative = one.negative ? run.layers[one.negative->node].output.to_double() : Tensor<double>();
    for (std::size_t i = 0; i < one.bound->values.size(); ++i) {
      const std::size_t at = one.positive.first + i * one.positive.stride;
      double y = positive.values[at];
      Ball exact = exact_[one.positive.node].values[at];
      if (one.negative) {
        const std::size_t from = one.negative->first + i * one.negative->stride;
        y -= negative.values[from];
        exact = exact - exact_[one.negative->node].values[from];
      }
      if (is_exceeded(share * one.bound->values.values[i], y, exact)) return true;
    }
    return false;
  }

  void refuse(const std::string& reason) {
    for (const Followed& one : followed_) {
      std::fill(one.bound->values.values.begin(), one.bound->values.values.end(), infinity);
      one.bound->not_applicable = reason + ": their rounding errors are not random (T-133)";
    }
    followed_.clear();
  }

  const Graph& graph_;
  const Trace& trace_;
  const std::vector<Tensor<Ball>>& exact_;
  std::vector<bool> varies_;
  std::vector<Followed> followed_;
};

}  // namespace

bool try_on_data(const NodeView& view, const Setting& setting, const Tensor<Ball>& exact, LocalBound& local) {
  const std::optional<Product> product = product_of(view);
  if (!product) return true;
  std::vector<std::size_t> exceeded;
  for (std::size_t i = 0; i < local.probabilistic.size(); ++i)
    if (is_exceeded(local.probabilistic[i], view.y(i), exact.values[i])) exceeded.push_back(i);
  if (exceeded.empty()) return true;
  const OtherOrders sums(*product, view, setting.machine);
  std::atomic<bool> fits = true;
  parallel_for(static_cast<std::int64_t>(exceeded.size()), setting.threads, [&](std::int64_t first, std::int64_t last) {
    for (auto at = static_cast<std::size_t>(first); at < static_cast<std::size_t>(last); ++at) {
      const std::size_t i = exceeded[at];
      double& bound = local.probabilistic[i];
      const Factors factors = sums.factors_of(i);
      bound = std::min(theorems::with_repeats(Magnitude(bound), most_repeats(factors)).value(), local.partial_sums[i]);
      if (!is_exceeded(bound, view.y(i), exact.values[i])) {
        fits = false;
        continue;
      }
      const double storing = theorems::storing_error(view.y(i), setting.machine).value();
      if (!errs_by_more(sums, factors, exact.values[i], refuting_share * (bound - storing))) continue;
      bound = infinity;
      local.patterns[i] = TermPattern::biased;
      fits = false;
    }
  });
  return fits;
}

void try_end_to_end(const Graph& graph, const Trace& trace, const std::vector<Tensor<Ball>>& exact, bool fits,
                    const BoundOptions& options, Bounds& bounds) {
  EndToEnd(graph, trace, exact, options, bounds).attempt(fits);
}

}  // namespace driftbound::bounds
