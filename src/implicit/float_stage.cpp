#include "implicit/float_stage.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "driftbound/num/directed.hpp"
#include "implicit/sample_points.hpp"
#include "implicit/sign_of.hpp"

namespace driftbound::implicit {
namespace {

constexpr std::int16_t float_bits = 24;
/// It takes half as long as float64, which takes what is left.
constexpr double least_share = 0.625;
constexpr std::size_t points_of_box = 1024, points_at_first = 2 * block_rows, fewest_points = 4 * points_at_first;

bool are_enough(std::size_t decided, std::size_t points) {
  return static_cast<double>(decided) >= least_share * static_cast<double>(points);
}

}  // namespace

std::unique_ptr<const FloatStage> FloatStage::of(const Graph& graph, double iso, const Box& domain) {
  std::unique_ptr<const FloatNetwork> network = FloatNetwork::of(graph, domain);
  if (network == nullptr) return nullptr;
  return std::unique_ptr<const FloatStage>(new FloatStage(graph, iso, domain, std::move(network)));
}

FloatStage::FloatStage(const Graph& graph, double iso, const Box& domain, std::unique_ptr<const FloatNetwork> network)
    : graph_(graph), iso_(iso), domain_(domain), network_(std::move(network)) {}

void FloatStage::prepare() const {
  std::call_once(once_, [&] {
    // Room for what adding the bound to the rounding of the difference from the iso value rounds off.
    bound_ = mul_up(forward_error_bound(graph_, FloatNetwork::arithmetic(), domain_).error.value(), 1.0 + 0x1p-50);
    const std::vector<double> points = points_of(domain_, points_of_box);
    std::vector<PointSign> signs(points_of_box);
    std::unique_ptr<FloatWorkspace> workspace = network_->workspace();
    pays_ = are_enough(decide_blocks(points, *workspace, signs), points_of_box);
    network_->give_back(std::move(workspace));
    is_prepared_.store(true, std::memory_order_release);
  });
}

std::size_t FloatStage::decide_blocks(std::span<const double> points, FloatWorkspace& workspace,
                                      std::span<PointSign> out) const {
  const std::size_t dimension = network_->dimension();
  const double of_difference = iso_ == 0.0 ? 0.0 : 0x1p-52;
  std::array<float, block_rows> values{};
  std::size_t decided = 0;
  for (std::size_t first = 0; first < out.size(); first += block_rows) {
    const std::size_t count = std::min(block_rows, out.size() - first);
    network_->evaluate(points.subspan(first * dimension, count * dimension), workspace, std::span(values).first(count));
    for (std::size_t row = 0; row < count; ++row) {
      const double value = static_cast<double>(values[row]) - iso_;
      PointSign& sign = out[first + row];
      sign = sign_of(value, bound_ + of_difference * std::fabs(value), SignStage::float32_domain, float_bits);
      decided += static_cast<std::size_t>(sign.sign != Sign::undecided);
    }
  }
  return decided;
}

std::size_t FloatStage::decide(std::span<const double> points, std::span<PointSign> out) const {
  if (!pays_ || out.size() < fewest_points) return 0;
  std::unique_ptr<FloatWorkspace> workspace = network_->workspace();
  const std::size_t at_first = points_at_first * network_->dimension();
  std::size_t decided = decide_blocks(points.first(at_first), *workspace, out.first(points_at_first));
  decided = are_enough(decided, points_at_first)
                ? decided + decide_blocks(points.subspan(at_first), *workspace, out.subspan(points_at_first))
                : 0;
  network_->give_back(std::move(workspace));
  return decided;
}

}  // namespace driftbound::implicit
