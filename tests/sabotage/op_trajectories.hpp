#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "bounds/adjoint/sweep.hpp"
#include "bounds/boxes/box_walk.hpp"
#include "driftbound/num/ball.hpp"
#include "driftbound/reference/reference.hpp"
#include "support/bound_checks.hpp"
#include "support/trajectory_checks.hpp"

/// One op whose inputs are off by amounts that show everything that first order leaves out, with certified references.
namespace checks {

class OpTrajectories {
public:
  using Operands = std::vector<Tensor<double>>;

  /// Inputs anywhere within `half_width` of these, and off by up to `radius` from there.
  OpTrajectories(const Op& op, Operands centre, double half_width, double radius, std::mt19937_64& random)
      : centre_(std::move(centre)), half_width_(half_width), radius_(radius) {
    std::vector<ValueId> ids;
    for (const Tensor<double>& operand : centre_) {
      ids.push_back(add_fixed_input(graph_, name_of_slot(ids.size()), ElementType::f64, operand.shape));
      shapes_.push_back(operand.shape);
    }
    graph_.outputs = {graph_.add_node("y", op, ids)};
    size_ = std::min<std::size_t>(
        4, static_cast<std::size_t>(element_count(infer_shapes(graph_, shapes_)[graph_.outputs[0]])));
    for (std::size_t element = 0; element < size_; ++element) slopes_.push_back(quotients(element, -0x1p-26));
    const std::vector<double> places = half_width == 0.0 ? std::vector<double>{0.0} : std::vector<double>{-1.0, 1.0};
    for (const double place : places) {
      for (std::size_t element = 0; element < size_; ++element) {
        const Operands steepest = signs_of(quotients(element, radius));
        for (const double side : {-1.0, 1.0}) add_move(steepest, side, place, random);
      }
      for (int corner = 0; corner < 4; ++corner) add_move(random_signs(random), 1.0, place, random);
    }
  }

  /// Exact results that are certainly further apart than the bounds by these rules allow.
  std::int64_t violations() const {
    const bounds::Setting setting = setting_of(arithmetic_);
    const Program program(graph_, shapes_, std::nullopt);
    const bounds::Shadow shadow = bounds::shadow_of(program, centre_, setting);
    bounds::OperandCache operands;
    const std::vector<bounds::Deviation> deviations = {deviation(program, shadow, setting, operands)};
    const ValueId output = program.flat().graph.outputs[0];
    const std::vector<ValueId>& inputs = program.flat().graph.inputs;
    std::int64_t violations = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      for (const bool without_slopes : {false, true}) {
        std::vector<bounds::Seed> seeds = {{output, static_cast<std::int64_t>(i), 1.0}};
        for (std::size_t slot = 0; without_slopes && slot < inputs.size(); ++slot) {
          for (std::size_t k = 0; k < slopes_[i][slot].size(); ++k)
            seeds.push_back({inputs[slot], static_cast<std::int64_t>(k), -slopes_[i][slot].values[k]});
        }
        const bounds::Direction c = bounds::direction_of(program, shadow, seeds);
        const double certificate = bounds::sweep(program, shadow, deviations, c, setting).front().total[0];
        for (const Move& move : moves_) {
          Ball apart = move.to.values[i] -
                       (half_width_ == 0.0 ? exact_ball(shadow.values[output].values[i]) : move.from.values[i]);
          for (std::size_t slot = 0; without_slopes && slot < inputs.size(); ++slot) {
            for (std::size_t k = 0; k < slopes_[i][slot].size(); ++k)
              apart = apart - exact_ball(slopes_[i][slot].values[k]) * exact_ball(move.by[slot].values[k]);
          }
          if (apart.is_finite()) violations += apart.enclosure().mignitude() <= certificate ? 0 : 1;
        }
      }
    }
    return violations;
  }

private:
  struct Move {
    Operands by;
    Tensor<Ball> from, to;
  };

  static std::string name_of_slot(std::size_t slot) { return "x" + std::to_string(slot); }

  bounds::Deviation deviation(const Program& program, const bounds::Shadow& shadow, const bounds::Setting& setting,
                              bounds::OperandCache& operands) const {
    using bounds::Trajectory;
    const auto everywhere = [&](double size) {
      std::vector<std::vector<double>> off;
      for (const Tensor<double>& operand : centre_) off.emplace_back(operand.size(), size);
      return off;
    };
    // Moves are rounded to doubles.
    const auto radii = everywhere(radius_ * (1.0 + 0x1p-20));
    if (half_width_ == 0.0)
      return bounds::deviation_of(Trajectory::any_order, program, shadow, radii, setting, operands);
    const bounds::Deviation ranges = bounds::deviation_of(Trajectory::exact, program, shadow,
                                                          everywhere(half_width_ * (1.0 + 0x1p-20)), setting, operands);
    return bounds::deviation_over_box(Trajectory::any_order, program, shadow, ranges, radii, setting, operands);
  }

  Tensor<Ball> exact_at(const Operands& operands) const {
    Inputs inputs;
    for (std::size_t slot = 0; slot < operands.size(); ++slot)
      inputs.tensors.emplace_back(name_of_slot(slot), StoredTensor::from(operands[slot]));
    return certified_reference(graph_, inputs).layers.back();
  }

  /// Difference quotients of an element over one input at a time.
  Operands quotients(std::size_t element, double step) const {
    const bounds::Setting setting = setting_of(arithmetic_);
    const Program program(graph_, shapes_, std::nullopt);
    const auto value = [&](const Operands& operands) {
      return bounds::shadow_of(program, operands, setting).values[program.flat().graph.outputs[0]].values[element];
    };
    const double at_centre = value(centre_);
    Operands result = centre_, moved = centre_;
    for (std::size_t slot = 0; slot < result.size(); ++slot) {
      for (std::size_t i = 0; i < result[slot].size(); ++i) {
        moved[slot].values[i] += step;
        const double slope = (value(moved) - at_centre) / step;
        result[slot].values[i] = std::isfinite(slope) ? slope : 0.0;
        moved[slot].values[i] = centre_[slot].values[i];
      }
    }
    return result;
  }

  static Operands signs_of(Operands slopes) {
    for (Tensor<double>& slope : slopes) {
      for (double& x : slope.values) x = x < 0.0 ? -1.0 : 1.0;
    }
    return slopes;
  }

  Operands random_signs(std::mt19937_64& random) const {
    Operands signs = centre_;
    for (Tensor<double>& operand : signs) {
      for (double& sign : operand.values) sign = random() % 2 == 0 ? 1.0 : -1.0;
    }
    return signs;
  }

  void add_move(const Operands& signs, double side, double place, std::mt19937_64& random) {
    Operands from = centre_;
    for (Tensor<double>& operand : from) {
      for (double& x : operand.values) x += half_width_ * place * (random() % 4 == 0 ? -1.0 : 1.0);
    }
    Operands to = from;
    for (std::size_t slot = 0; slot < to.size(); ++slot) {
      for (std::size_t i = 0; i < to[slot].size(); ++i) to[slot].values[i] += side * radius_ * signs[slot].values[i];
    }
    Operands by = to;  // operands of few bits: exact
    for (std::size_t slot = 0; slot < to.size(); ++slot) {
      for (std::size_t i = 0; i < to[slot].size(); ++i) by[slot].values[i] -= from[slot].values[i];
    }
    moves_.push_back({by, exact_at(from), exact_at(to)});
  }

  Graph graph_;
  std::vector<Shape> shapes_;
  ArithmeticModel arithmetic_ = double_arithmetic();
  Operands centre_;
  double half_width_, radius_;
  std::size_t size_ = 0;
  std::vector<Operands> slopes_;  ///< by element of the output, about what they are at the centre
  std::vector<Move> moves_;
};

}  // namespace checks
