#include "implicit/ladder.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "implicit/sign_of.hpp"

namespace driftbound::implicit {
namespace {

/// Points that are left, gathered row by row, and where their signs go.
struct Open {
  std::vector<std::size_t> rows;
  std::vector<double> points;
};

bool is_open(const PointSign& sign) {
  return sign.sign == Sign::undecided;
}

/// Those whose values so far are not below `least` in magnitude.
Open open_rows(std::span<const double> points, std::span<const PointSign> signs, double least) {
  Open open;
  const std::size_t dimension = signs.empty() ? 0 : points.size() / signs.size();
  for (std::size_t row = 0; row < signs.size(); ++row) {
    if (!is_open(signs[row]) || std::fabs(signs[row].value) < least) continue;
    open.rows.push_back(row);
    const auto point = points.begin() + static_cast<std::ptrdiff_t>(row * dimension);
    open.points.insert(open.points.end(), point, point + static_cast<std::ptrdiff_t>(dimension));
  }
  return open;
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
    counts_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

private:
  SignStatistics::Stage& counts_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Runs a stage over rows that are left, and counts what it decides and how long it takes.
template <class Stage>
void run(SignStage name, std::span<const double> points, std::span<PointSign> out, SignStatistics& statistics,
         const Stage& stage, double least = 0.0) {
  const Open open = open_rows(points, out, least);
  if (open.rows.empty()) return;
  Timer timer(name, statistics);
  std::vector<PointSign> signs(open.rows.size());
  stage(std::span<const double>(open.points), std::span<PointSign>(signs));
  for (std::size_t i = 0; i < signs.size(); ++i) out[open.rows[i]] = signs[i];
  timer.stop(signs);
}

void evaluate_points(const PointStage& stage, std::span<const double> points, std::span<PointSign> out) {
  std::vector<double> values(out.size()), bounds(out.size());
  stage.evaluate(points, values, bounds);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = sign_of(values[i], bounds[i], SignStage::float64_point, 53);
}

/// Spread all over a box, the same ones always: multiples of powers of the golden ratio, modulo 1.
std::vector<double> points_of(const Box& box, std::size_t rows) {
  constexpr double golden_ratio = 0.6180339887498949;
  std::vector<double> points;
  for (std::size_t row = 0; row < rows; ++row) {
    double step = 1.0;
    for (std::size_t c = 0; c < box.lower.size(); ++c) {
      step *= golden_ratio;
      const double multiple = (static_cast<double>(row) + 0.5) * step, part = multiple - std::floor(multiple);
      points.push_back((1.0 - part) * box.lower[c] + part * box.upper[c]);
    }
  }
  return points;
}

}  // namespace

Ladder::Ladder(const Graph& graph, const SignOptions& options)
    : options_(options),
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
}

void Ladder::decide(std::span<const double> points, bool are_many, std::span<PointSign> out,
                    SignStatistics& statistics) const {
  const bool is_evaluated = domain_stage_ != nullptr && (are_many || domain_stage_->is_bounded());
  if (is_evaluated) {
    Timer timer(SignStage::float64_domain, statistics);
    const std::size_t decided = domain_stage_->decide(points, out);
    timer.stop(static_cast<std::int64_t>(decided));
    if (decided == out.size()) return;
  } else {
    std::fill(out.begin(), out.end(), PointSign{});
  }
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
