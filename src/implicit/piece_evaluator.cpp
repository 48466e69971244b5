#include "implicit/piece_evaluator.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "bounds/matrices/matrix.hpp"
#include "driftbound/num/directed.hpp"
#include "num/parallel.hpp"

namespace driftbound::implicit {
namespace {

/// Any number of the piece, next to its middle.
double middle_of(const Piece& piece) {
  return std::clamp(piece.lower + (piece.upper - piece.lower) / 2.0, piece.lower, piece.upper);
}

Tensor<double> as_input(std::vector<double> t) {
  const auto rows = static_cast<std::int64_t>(t.size());
  return {Shape{rows, 1}, std::move(t)};
}

/// Nothing that rounds is followed; next to a run in float32 centres need not be the nearest doubles.
const ArithmeticModel& of_no_run() {
  static const ArithmeticModel arithmetic = cpu_arithmetic("fp32", bounds::fused_chain);
  return arithmetic;
}

Interval ball(double middle, double radius) {
  const bool is_known = std::isfinite(middle) && std::isfinite(radius);
  return is_known ? Interval(sub_down(middle, radius), add_up(middle, radius)) : Interval::whole();
}

}  // namespace

PieceEvaluator::PieceEvaluator(const Graph& line) {
  setting_.arithmetic = &of_no_run();
  setting_.machine = bounds::machine_of(of_no_run());
  const bool batched = batch_layout(line).batched;
  programs_.push_back(std::make_shared<const Program>(line, std::vector<Shape>{{1, 1}},
                                                      batched ? std::optional<std::int64_t>(1) : std::nullopt));
  for (std::int64_t rows = 2; batched && rows <= most_rows; rows *= 2) {
    std::optional<Program> program = programs_.front()->with_rows(rows);
    if (!program) break;
    programs_.push_back(std::make_shared<const Program>(std::move(*program)));
  }
  const Program& one = *programs_.front();
  const bounds::Shadow shadow = bounds::shadow_of(one, {as_input({0.0})}, setting_);
  constants_ = pack_constants(one, shadow,
                              bounds::deviation_of(bounds::Trajectory::exact, one, shadow, {{}}, setting_, operands_));
}

std::vector<PieceEnclosure> PieceEvaluator::operator()(std::span<const Piece> pieces, int threads) const {
  std::vector<PieceEnclosure> results(pieces.size());
  const auto count = static_cast<std::int64_t>(pieces.size());
  const std::int64_t blocks = (count + most_rows - 1) / most_rows;
  parallel_for(blocks, threads, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t at = first * most_rows; at < std::min(count, last * most_rows);) {
      const std::int64_t rows = rows_for(std::min(count, last * most_rows) - at);
      const auto from = static_cast<std::size_t>(at), size = static_cast<std::size_t>(rows);
      enclose(pieces.subspan(from, size), std::span(results).subspan(from, size));
      at += rows;
    }
  });
  return results;
}

/// The largest block that there is a network for.
std::int64_t PieceEvaluator::rows_for(std::int64_t pieces) const {
  std::int64_t rows = std::int64_t{1} << (programs_.size() - 1);
  while (rows > pieces) rows /= 2;
  return rows;
}

void PieceEvaluator::enclose(std::span<const Piece> pieces, std::span<PieceEnclosure> results) const {
  std::size_t power = 0;
  while (std::size_t{1} << power < pieces.size()) ++power;
  const Program& program = *programs_[power];
  std::vector<double> middles, half_widths;
  for (const Piece& piece : pieces) {
    middles.push_back(middle_of(piece));
    half_widths.push_back(std::max(sub_up(piece.upper, middles.back()), sub_up(middles.back(), piece.lower)));
  }
  const bounds::Shadow shadow = bounds::shadow_of(program, {as_input(middles)}, setting_, &operands_);
  const bounds::Deviation deviation =
      bounds::deviation_of(bounds::Trajectory::exact, program, shadow, {{}}, setting_, operands_);
  const std::vector<Slopes> slopes = slopes_of(program, shadow, deviation, half_widths, constants_);

  const ValueId output = program.flat().graph.outputs.front();
  const std::vector<double>& radii = deviation.radii[output].element;
  for (std::size_t row = 0; row < pieces.size(); ++row) {
    const std::size_t at = program.varies(output) ? row : 0;
    const double centre = shadow.value(output).values[at], error = radii.empty() ? 0.0 : radii[at];
    PieceEnclosure& result = results[row];
    result.middle = middles[row];
    result.value = ball(centre, error);
    const Slopes& slope = slopes[output];
    result.slope = slope.empty() ? Interval(0.0) : slope.at(at);
    const double middle = slope.empty() ? 0.0 : slope.middle[at], radius = slope.empty() ? 0.0 : slope.radius[at];
    result.range = ball(centre, theorems::reach(error, middle, radius, half_widths[row]).value());
  }
}

}  // namespace driftbound::implicit
