#include "implicit/point_stage.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "bounds/rows/double_run.hpp"

namespace driftbound::implicit {
namespace {

class RowWalkStage final : public PointStage {
public:
  explicit RowWalkStage(std::unique_ptr<const bounds::DoubleRun> run) : run_(std::move(run)) {}

  void evaluate(std::span<const double> points, std::span<double> values, std::span<double> bounds) const override {
    std::fill(bounds.begin(), bounds.end(), std::numeric_limits<double>::infinity());
    const auto keep = [&](std::size_t, std::size_t first, std::span<const double> of_rows,
                          std::span<const double> radii) {
      std::copy(of_rows.begin(), of_rows.end(), values.begin() + static_cast<std::ptrdiff_t>(first));
      std::copy(radii.begin(), radii.end(), bounds.begin() + static_cast<std::ptrdiff_t>(first));
    };
    const std::span<const double> inputs[] = {points};
    run_->run(inputs, values.size(), keep);
  }

private:
  std::unique_ptr<const bounds::DoubleRun> run_;
};

}  // namespace

std::unique_ptr<const PointStage> PointStage::of(const Graph& graph) {
  auto run = bounds::DoubleRun::of(graph);
  if (run == nullptr) return nullptr;
  return std::make_unique<const RowWalkStage>(std::move(run));
}

}  // namespace driftbound::implicit
