#include "implicit/ladder.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "implicit/sample_points.hpp"
#include "implicit/sign_of.hpp"
#include "num/elapsed.hpp"

namespace driftbound::implicit {
namespace {

bool is_open(const PointSign& sign) {
  return sign.sign == Sign::undecided;
}

/// Counts what a stage decides and how long it takes.
class Timer {
public:
  Timer(SignStage stage, SignStatistics& statistics) : counts_(statistics.stages[static_cast<std::size_t>(stage)]) {}
  void stop(std::span<const PointSign> signs) {
    stop(std::count_if(signs.begin(), signs.end(), [](const PointSign& s) { return !is_open(s); }));
  }
  void stop(std::int64_t decided) {
    counts_.decided += decided;
    counts_.seconds += seconds_since(start_);
  }

private:
  SignStatistics::Stage& counts_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void evaluate_points(const PointStage& stage, std::span<const double> points, std::span<PointSign> out) {
  std::vector<double> values(out.size()), bounds(out.size());
  stage.evaluate(points, values, bounds);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = sign_of(values[i], bounds[i], SignStage::float64_point, 53);
}

/// From so many points on, those of earlier calls included, it pays to find a bound that holds for all of them: that of
/// float64 costs what 400 to 3,000 points in batches cost without, that of float32 what 10,000 points gain.
constexpr std::int64_t many_points = 1024, many_points_in_float32 = 65536;

}  // namespace

/// Runs a stage over rows that are left and whose values so far are not below `least` in magnitude, and counts what it
/// decides and how long it takes.
template <class Stage>
void Ladder::run(SignStage name, std::span<const double> points, std::span<PointSign> out, SignStatistics& statistics,
                 const Stage& stage, double least) const {
  std::unique_ptr<Open> open = spares_.take();
  if (open == nullptr) open = std::make_unique<Open>();
  open->rows.clear();
  open->points.clear();
  const std::size_t dimension = out.empty() ? 0 : points.size() / out.size();
  for (std::size_t row = 0; row < out.size(); ++row) {
    if (!is_open(out[row]) || std::fabs(out[row].value) < least) continue;
    open->rows.push_back(row);
    const auto point = points.begin() + static_cast<std::ptrdiff_t>(row * dimension);
    open->points.insert(open->points.end(), point, point + static_cast<std::ptrdiff_t>(dimension));
  }
  if (!open->rows.empty()) {
    Timer timer(name, statistics);
    open->signs.assign(open->rows.size(), PointSign{});
    stage(std::span<const double>(open->points), std::span<PointSign>(open->signs));
    for (std::size_t i = 0; i < open->rows.size(); ++i) out[open->rows[i]] = open->signs[i];
    timer.stop(open->signs);
  }
  spares_.give_back(std::move(open));
}

Ladder::Ladder(const Graph& graph, const Graph& unshifted, const SignOptions& options)
    : options_(options),
      float_stage_(FloatStage::of(unshifted, options.iso, options.domain.value())),
      domain_stage_(DomainStage::of(graph, options.domain.value())),
      point_stage_(PointStage::of(graph)),
      pair_stage_(PairStage::of(graph, options.domain.value())),
      reference_stage_(graph) {}

std::optional<PointSign> Ladder::decide_at_once(std::span<const double> point) const {
  if (domain_stage_ == nullptr || !domain_stage_->is_bounded()) return std::nullopt;
  const PointSign sign = domain_stage_->at(point);
  if (sign.sign == Sign::undecided) return std::nullopt;
  return sign;
}

double Ladder::least_worth_bounding() const {
  constexpr std::size_t tried = 64;
  std::call_once(is_least_found_, [&] {
    std::vector<double> values(tried), bounds(tried);
    point_stage_->evaluate(points_of(options_.domain.value(), tried), values, bounds);
    least_worth_bounding_ = 0.25 * *std::min_element(bounds.begin(), bounds.end());
  });
  return least_worth_bounding_;
}

void Ladder::prepare() const {
  if (domain_stage_ != nullptr) domain_stage_->bound();
  if (float_stage_ != nullptr) float_stage_->prepare();
}

/// Whether it has decided some of them; else nothing is known of `out`.
bool Ladder::decide_in_float32(std::span<const double> points, std::int64_t asked, std::span<PointSign> out,
                               SignStatistics& statistics) const {
  if (float_stage_ == nullptr) return false;
  if (!float_stage_->is_prepared()) {
    if (asked < many_points_in_float32) return false;
    float_stage_->prepare();
  }
  Timer timer(SignStage::float32_domain, statistics);
  const std::size_t decided = float_stage_->decide(points, out);
  timer.stop(static_cast<std::int64_t>(decided));
  return decided > 0;
}

void Ladder::decide_in_float64(std::span<const double> points, std::span<PointSign> out,
                               SignStatistics& statistics) const {
  Timer timer(SignStage::float64_domain, statistics);
  timer.stop(static_cast<std::int64_t>(domain_stage_->decide(points, out)));
}

void Ladder::decide(std::span<const double> points, std::int64_t asked, std::span<PointSign> out,
                    SignStatistics& statistics) const {
  const bool is_evaluated = domain_stage_ != nullptr && (asked >= many_points || domain_stage_->is_bounded());
  if (!is_evaluated)
    std::fill(out.begin(), out.end(), PointSign{});
  else if (decide_in_float32(points, asked, out, statistics))
    run(SignStage::float64_domain, points, out, statistics,
        [&](auto open, auto signs) { domain_stage_->decide(open, signs); });
  else
    decide_in_float64(points, out, statistics);
  if (std::none_of(out.begin(), out.end(), is_open)) return;
  if (point_stage_ != nullptr)
    run(
        SignStage::float64_point, points, out, statistics,
        [&](auto open, auto signs) { evaluate_points(*point_stage_, open, signs); },
        is_evaluated ? least_worth_bounding() : 0.0);
  const auto left = static_cast<std::size_t>(std::count_if(out.begin(), out.end(), is_open));
  if (pair_stage_ != nullptr && pair_stage_->pays_for(left))
    run(SignStage::double_double, points, out, statistics,
        [&](auto open, auto signs) { pair_stage_->decide(open, signs); });
  run(SignStage::double_double, points, out, statistics,
      [&](auto open, auto signs) { reference_stage_.decide_in_pairs(open, signs); });
  run(SignStage::multiprecision, points, out, statistics,
      [&](auto open, auto signs) { reference_stage_.decide(open, options_.max_bits, signs); });
}

}  // namespace driftbound::implicit
