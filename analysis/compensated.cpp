#include "analysis/compensated.hpp"

#include "driftbound/evaluate/evaluate_as.hpp"

namespace driftbound::analysis {
namespace {

/// A float32 number, and what its additions have lost.
struct CompensatedSum {
  float sum = 0.0F, lost = 0.0F;

  CompensatedSum() = default;
  explicit CompensatedSum(double x) : sum(static_cast<float>(x)) {}
  CompensatedSum(float of_sum, float of_lost) : sum(of_sum), lost(of_lost) {}
  float value() const { return sum + lost; }

  friend CompensatedSum operator+(const CompensatedSum& a, const CompensatedSum& b) {
    const float both = a.sum + b.sum, of_b = both - a.sum, of_a = both - of_b;
    const float left_over = (a.sum - of_a) + (b.sum - of_b);  // exactly a.sum + b.sum - both
    return {both, (a.lost + b.lost) + left_over};
  }
  friend CompensatedSum operator-(const CompensatedSum& a) { return {-a.sum, -a.lost}; }
  friend CompensatedSum operator-(const CompensatedSum& a, const CompensatedSum& b) { return a + (-b); }
  friend CompensatedSum operator*(const CompensatedSum& a, const CompensatedSum& b) {
    return {a.value() * b.value(), 0.0F};
  }
  friend CompensatedSum operator/(const CompensatedSum& a, const CompensatedSum& b) {
    return {a.value() / b.value(), 0.0F};
  }
  friend CompensatedSum max(const CompensatedSum& a, const CompensatedSum& b) { return a.value() < b.value() ? b : a; }
  friend CompensatedSum min(const CompensatedSum& a, const CompensatedSum& b) { return b.value() < a.value() ? b : a; }
};

}  // namespace

Tensor<double> evaluate_compensated(const Graph& graph, const Inputs& inputs) {
  const std::vector<Tensor<CompensatedSum>> layers = evaluate_as<CompensatedSum>(graph, inputs);
  Tensor<double> result(layers.back().shape);
  for (std::size_t i = 0; i < result.size(); ++i)
    result.values[i] = static_cast<double>(layers.back().values[i].value());
  return result;
}

}  // namespace driftbound::analysis
