#include "region/piece_network.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "implicit/packer.hpp"
#include "region/kernels/cells.hpp"
#include "simd/dispatch.hpp"

namespace driftbound::region {
namespace {

/// A step as the packer places it, with what it does.
class PlacedPiece final : public implicit::PackedStep<double> {
public:
  explicit PlacedPiece(PieceStep step) : step_(std::move(step)) { features = step_.outputs; }
  bool run(double*, std::size_t, double*) const override { return false; }
  const PieceStep& step() const { return step_; }

private:
  PieceStep step_;
};

class PlacedLayer final : public implicit::DenseLayer<double> {
public:
  PlacedLayer(std::size_t inputs, std::size_t outputs) {
    features = outputs;
    step_.inputs = inputs;
    step_.outputs = outputs;
    step_.width = (outputs + cell_lanes - 1) / cell_lanes * cell_lanes;
    step_.weights.resize(inputs * step_.width);
    step_.shifts.resize(outputs);
  }
  void set_weight(std::size_t k, std::size_t j, double value) override { step_.weights[k * step_.width + j] = value; }
  void set_bias(std::size_t j, double value) override { step_.shifts[j] = value; }
  bool run(double*, std::size_t, double*) const override { return false; }
  const PieceStep& step() const { return step_; }
  bool is_rectified() const { return rectified_; }

private:
  PieceStep step_;
};

/// What is computed of constants alone is refused, as it would be rounded.
class PieceSteps final : public implicit::StepMaker<double> {
public:
  using Kind = PieceStep::Kind;

  bool rounds_constants() const override { return false; }
  std::unique_ptr<implicit::DenseLayer<double>> dense(std::size_t inputs, std::size_t outputs) const override {
    return std::make_unique<PlacedLayer>(inputs, outputs);
  }
  std::unique_ptr<Step> function(implicit::PackedFunction, std::size_t) const override { return nullptr; }
  std::unique_ptr<Step> rectified(std::size_t size) const override { return kink(0.0, 1.0, size); }
  std::unique_ptr<Step> bent(bool exponential, double alpha, std::size_t size) const override {
    return exponential ? nullptr : kink(alpha, 1.0, size);
  }
  std::unique_ptr<Step> of_values(implicit::PackedOperation operation, std::size_t size) const override {
    using Operation = implicit::PackedOperation;
    switch (operation) {
      case Operation::add:
        return placed({.kind = Kind::combined, .outputs = size, .sign = 1.0});
      case Operation::subtract:
        return placed({.kind = Kind::combined, .outputs = size, .sign = -1.0});
      case Operation::maximum:
        return placed({.kind = Kind::extremum, .outputs = size, .sign = 1.0});
      case Operation::minimum:
        return placed({.kind = Kind::extremum, .outputs = size, .sign = -1.0});
      default:
        return nullptr;
    }
  }
  std::unique_ptr<Step> with_constants(implicit::PackedOperation operation,
                                       const std::vector<double>& constants) const override {
    using Operation = implicit::PackedOperation;
    switch (operation) {
      case Operation::add:
        return placed({.kind = Kind::combined, .outputs = constants.size(), .shifts = constants});
      case Operation::multiply:
        return placed({.kind = Kind::combined, .outputs = constants.size(), .factors = constants});
      case Operation::divide:
        return quotient(constants);
      case Operation::maximum:
        return kink(0.0, 1.0, constants.size(), constants);
      case Operation::minimum:
        return kink(1.0, 0.0, constants.size(), constants);
      default:
        return nullptr;
    }
  }
  std::unique_ptr<Step> moved(std::size_t size) const override {
    return placed({.kind = Kind::moved, .outputs = size});
  }

private:
  static std::unique_ptr<Step> placed(PieceStep step) { return std::make_unique<PlacedPiece>(std::move(step)); }
  static std::unique_ptr<Step> kink(double left, double right, std::size_t size, std::vector<double> at = {}) {
    return placed({.kind = Kind::kink, .outputs = size, .shifts = std::move(at), .left = left, .right = right});
  }
  /// Null where a reciprocal is no double.
  static std::unique_ptr<Step> quotient(const std::vector<double>& divisors) {
    std::vector<double> factors;
    for (const double divisor : divisors) {
      int exponent = 0;
      if (!(std::fabs(std::frexp(divisor, &exponent)) == 0.5) || std::abs(exponent) > 1000) return nullptr;
      factors.push_back(1.0 / divisor);
    }
    return placed({.kind = Kind::combined, .outputs = divisors.size(), .factors = std::move(factors)});
  }
};

constexpr double tiny = 0x1p-900;

Integer integer_of(double whole) {
  Integer value;
  mpz_set_d(value.get(), whole);
  return value;
}

ExactNumber exact_constant(double x, const ExactPoint& point) {
  const DoubleDigits parts(x);
  ExactNumber number{integer_of(parts.digits), -parts.exponent};
  mpz_mul(number.digits.get(), number.digits.get(), point.denominator.get());
  return number;
}

void align(ExactNumber& number, long bits) {
  mpz_mul_2exp(number.digits.get(), number.digits.get(), static_cast<mp_bitcnt_t>(bits - number.bits));
  number.bits = bits;
}

ExactNumber sum(ExactNumber a, ExactNumber b, bool is_difference) {
  const long bits = std::max(a.bits, b.bits);
  align(a, bits);
  align(b, bits);
  (is_difference ? mpz_sub : mpz_add)(a.digits.get(), a.digits.get(), b.digits.get());
  return a;
}

ExactNumber multiple(const ExactNumber& a, double factor) {
  const DoubleDigits parts(factor);
  ExactNumber number{integer_of(parts.digits), a.bits - parts.exponent};
  mpz_mul(number.digits.get(), number.digits.get(), a.digits.get());
  return number;
}

}  // namespace

std::optional<PieceNetwork> PieceNetwork::of(const Graph& graph) {
  const auto packed = implicit::packed_steps<double>(graph, PieceSteps());
  if (!packed || packed->dimension != 3) return std::nullopt;
  PieceNetwork network;
  std::vector<std::size_t> first = {0};  // by buffer
  const auto start_of = [&](std::size_t buffer) -> std::size_t& {
    if (first.size() <= buffer) first.resize(buffer + 1, 0);
    return first[buffer];
  };
  network.features_ = packed->dimension;
  const auto add = [&](PieceStep step) {
    step.writes = network.features_;
    network.features_ += std::max(step.outputs, step.width);
    if (step.kind == PieceStep::Kind::kink || step.kind == PieceStep::Kind::extremum) {
      step.first_switch = network.switches_;
      network.switches_ += step.outputs;
    }
    ExactWeights exact;
    if (step.kind == PieceStep::Kind::dense) {
      for (const auto* const numbers : {&step.weights, &step.shifts})
        for (const double x : *numbers) exact.bits = std::max(exact.bits, -DoubleDigits(x).exponent);
      const auto fill = [&](const std::vector<double>& numbers, std::vector<Integer>& out) {
        for (const double x : numbers) {
          const DoubleDigits parts(x);
          out.push_back(integer_of(parts.digits));
          mpz_mul_2exp(out.back().get(), out.back().get(), static_cast<mp_bitcnt_t>(exact.bits + parts.exponent));
        }
      };
      fill(step.weights, exact.weights);
      fill(step.shifts, exact.shifts);
    }
    network.exact_weights_.push_back(std::move(exact));
    network.steps_.push_back(std::move(step));
  };
  for (const auto& step : packed->steps) {
    const auto* const layer = dynamic_cast<const PlacedLayer*>(step.get());
    PieceStep piece = layer != nullptr ? layer->step() : dynamic_cast<const PlacedPiece&>(*step).step();
    for (const implicit::PackedPlace& read : step->reads) piece.reads.push_back(start_of(read.buffer) + read.offset);
    add(std::move(piece));
    if (layer != nullptr && layer->is_rectified())
      add({.kind = PieceStep::Kind::kink, .reads = {network.steps_.back().writes}, .outputs = step->features});
    start_of(step->writes.buffer) = network.steps_.back().writes;
  }
  network.output_ = start_of(packed->result.buffer) + packed->result.offset;
  return network;
}

/// Values of the features at a point x + ξ, |ξ_c| <= half_c: middle + tangent ξ, within radius.
class PieceNetwork::Values {
public:
  struct Row {
    double middle = 0.0, radius = 0.0;
    std::array<double, 3> tangent{};
    bool is_zero() const {
      return middle == 0.0 && radius == 0.0 && tangent[0] == 0.0 && tangent[1] == 0.0 && tangent[2] == 0.0;
    }
  };

  Values(const EnclosedPoint& point, std::size_t features, Workspace& workspace) {
    const auto rows = [&](std::vector<double>& numbers) {
      numbers.resize(features);
      return numbers.data();
    };
    middle_ = rows(workspace.middle);
    radius_ = rows(workspace.radius);
    for (std::size_t c = 0; c < 3; ++c) tangent_[c] = rows(workspace.tangent[c]);
    for (std::size_t c = 0; c < 3; ++c) {
      half_[c] = point.at[c].radius;
      is_wide_ = is_wide_ || half_[c] != 0.0;
      Row row{point.at[c].middle, 0.0, {}};
      row.tangent[c] = half_[c] != 0.0 ? 1.0 : 0.0;
      set(c, row);
    }
  }

  bool is_wide() const { return is_wide_; }
  Row at(std::size_t feature) const {
    return {middle_[feature], radius_[feature], {tangent_[0][feature], tangent_[1][feature], tangent_[2][feature]}};
  }
  void set(std::size_t feature, const Row& row) {
    middle_[feature] = row.middle;
    radius_[feature] = row.radius;
    for (std::size_t c = 0; c < 3; ++c) tangent_[c][feature] = row.tangent[c];
  }

  double size(const Row& row) const { return std::fabs(row.middle) + reach(row) + row.radius; }
  EnclosedNumber number(const Row& row) const { return {row.middle, (row.radius + reach(row)) * (1.0 + 0x1p-50)}; }
  /// a + sign b
  Row sum(Row a, const Row& b, double sign) const {
    if (b.is_zero()) return a;
    const double lost = rounded(size(a) + size(b));
    a.middle += sign * b.middle;
    for (std::size_t c = 0; c < 3; ++c) a.tangent[c] += sign * b.tangent[c];
    a.radius = (a.radius + b.radius + lost) * (1.0 + 0x1p-50);
    return a;
  }
  Row multiple(Row a, double factor) const {
    if (factor == 1.0 || a.is_zero()) return a;
    if (factor == 0.0) return {};
    const double lost = factor == -1.0 ? 0.0 : rounded(std::fabs(factor) * size(a));
    a.middle *= factor;
    for (double& tangent : a.tangent) tangent *= factor;
    a.radius = (std::fabs(factor) * a.radius + lost) * (1.0 + 0x1p-50);
    return a;
  }

private:
  /// What a few roundings lose, of numbers of this size.
  static double rounded(double size) { return 0x1p-49 * size + tiny; }
  double reach(const Row& row) const {
    double sum = 0.0;
    for (std::size_t c = 0; c < 3; ++c) sum += std::fabs(row.tangent[c]) * half_[c];
    return sum * (1.0 + 0x1p-50);
  }
  double *middle_ = nullptr, *radius_ = nullptr;
  std::array<double*, 3> tangent_{};
  std::array<double, 3> half_{};
  bool is_wide_ = false;
};

void PieceNetwork::dense(const PieceStep& step, const Values& values, Workspace& workspace) const {
  const double epsilon = static_cast<double>(step.inputs + 8) * 0x1p-52;
  workspace.rows.resize(step.inputs);
  workspace.operands.resize(step.inputs);
  workspace.errors.resize(step.inputs);
  for (auto& numbers : workspace.operand_tangents) numbers.resize(step.inputs);
  std::size_t count = 0;
  for (std::size_t k = 0; k < step.inputs; ++k) {
    const Values::Row x = values.at(step.reads[0] + k);
    if (x.is_zero()) continue;
    workspace.rows[count] = k;
    workspace.operands[count] = x.middle;
    workspace.errors[count] = x.radius + epsilon * values.size(x) + 0x1p-1000;
    for (std::size_t c = 0; c < 3; ++c) workspace.operand_tangents[c][count] = x.tangent[c];
    ++count;
  }
  CellKernels::PointOperand operand{.rows = workspace.rows.data(),
                                    .middle = workspace.operands.data(),
                                    .error = workspace.errors.data(),
                                    .tangents = {},
                                    .count = count,
                                    .has_tangents = values.is_wide()};
  CellKernels::PointResult result{&workspace.middle[step.writes], &workspace.radius[step.writes], {}};
  for (std::size_t c = 0; c < 3; ++c) {
    operand.tangents[c] = workspace.operand_tangents[c].data();
    result.tangents[c] = &workspace.tangent[c][step.writes];
    std::fill_n(result.tangents[c], step.width, 0.0);
  }
  std::fill_n(result.middle, step.width, 0.0);
  std::fill_n(result.radius, step.width, 0.0);
  std::copy(step.shifts.begin(), step.shifts.end(), result.middle);
  for (std::size_t j = 0; j < step.outputs; ++j) result.radius[j] = epsilon * std::fabs(step.shifts[j]);
  simd::fastest<cells_builds>().point_layer(step.weights.data(), operand, result, step.width);
  for (std::size_t j = 0; j < step.outputs; ++j)
    result.radius[j] = operand.count > 0 ? result.radius[j] * (1.0 + epsilon) + tiny : 0.0;
}

bool PieceNetwork::evaluate(const EnclosedPoint& point, std::span<std::int8_t> signs,
                            std::span<EnclosedNumber> arguments, Workspace& workspace) const {
  using Row = Values::Row;
  Values values(point, features_, workspace);
  const auto constant = [](const std::vector<double>& constants, std::size_t j) {
    return Row{constants.empty() ? 0.0 : constants[j], 0.0, {}};
  };
  const auto decide = [&](std::size_t s, const Row& argument) {
    arguments[s] = values.number(argument);
    if (signs[s] == open_sign) signs[s] = arguments[s].sign();
    return signs[s] != open_sign;
  };
  for (const PieceStep& step : steps_) {
    if (step.kind == PieceStep::Kind::dense) {
      dense(step, values, workspace);
      continue;
    }
    for (std::size_t j = 0; j < step.outputs; ++j) {
      Row y;
      switch (step.kind) {
        case PieceStep::Kind::dense:
          break;
        case PieceStep::Kind::moved:
          y = values.at(step.reads[j]);
          break;
        case PieceStep::Kind::combined:
          y = values.at(step.reads[0] + j);
          if (!step.factors.empty()) y = values.multiple(y, step.factors[j]);
          if (step.reads.size() > 1) y = values.sum(y, values.at(step.reads[1] + j), step.sign);
          y = values.sum(y, constant(step.shifts, j), 1.0);
          break;
        case PieceStep::Kind::kink: {
          const Row x = values.at(step.reads[0] + j), k = constant(step.shifts, j);
          const std::size_t s = step.first_switch + j;
          if (!decide(s, values.sum(x, k, -1.0))) return false;
          const double slope = signs[s] > 0 ? step.right : signs[s] < 0 ? step.left : 0.0;
          y = slope == 1.0 ? x : slope == 0.0 ? k : values.multiple(x, slope);
          break;
        }
        case PieceStep::Kind::extremum: {
          const Row first = values.at(step.reads[0] + j), last = values.at(step.reads[1] + j);
          const std::size_t s = step.first_switch + j;
          if (!decide(s, values.sum(first, last, -1.0))) return false;
          y = (signs[s] > 0) == (step.sign > 0.0) ? first : last;
          break;
        }
      }
      values.set(step.writes + j, y);
    }
  }
  return decide(switches_, values.at(output_));
}

void PieceNetwork::dense_exactly(const PieceStep& step, std::size_t number, const ExactPoint& point,
                                 Workspace& workspace) const {
  const ExactWeights& exact = exact_weights_[number];
  long bits = 0;
  for (std::size_t k = 0; k < step.inputs; ++k) bits = std::max(bits, workspace.exact[step.reads[0] + k].bits);
  std::vector<ExactNumber> operands(workspace.exact.begin() + static_cast<std::ptrdiff_t>(step.reads[0]),
                                    workspace.exact.begin() + static_cast<std::ptrdiff_t>(step.reads[0] + step.inputs));
  for (ExactNumber& operand : operands) align(operand, bits);
  for (std::size_t j = 0; j < step.outputs; ++j) {
    ExactNumber y{exact.shifts[j], bits + exact.bits};
    mpz_mul(y.digits.get(), y.digits.get(), point.denominator.get());
    mpz_mul_2exp(y.digits.get(), y.digits.get(), static_cast<mp_bitcnt_t>(bits));
    for (std::size_t k = 0; k < step.inputs; ++k)
      if (operands[k].sign() != 0)
        mpz_addmul(y.digits.get(), exact.weights[k * step.width + j].get(), operands[k].digits.get());
    workspace.exact[step.writes + j] = std::move(y);
  }
}

bool PieceNetwork::evaluate(const ExactPoint& point, std::span<std::int8_t> signs, std::span<ExactNumber> arguments,
                            Workspace& workspace) const {
  workspace.exact.resize(features_);
  std::vector<ExactNumber>& values = workspace.exact;
  const auto decide = [&](std::size_t s, ExactNumber argument) {
    signs[s] = static_cast<std::int8_t>(argument.sign());
    arguments[s] = std::move(argument);
  };
  for (std::size_t c = 0; c < 3; ++c) values[c] = {point.digits[c], 0};
  for (std::size_t number = 0; number < steps_.size(); ++number) {
    const PieceStep& step = steps_[number];
    switch (step.kind) {
      case PieceStep::Kind::dense:
        dense_exactly(step, number, point, workspace);
        break;
      case PieceStep::Kind::moved:
        for (std::size_t j = 0; j < step.outputs; ++j) values[step.writes + j] = values[step.reads[j]];
        break;
      case PieceStep::Kind::combined:
        for (std::size_t j = 0; j < step.outputs; ++j) {
          ExactNumber y = values[step.reads[0] + j];
          if (!step.factors.empty()) y = multiple(y, step.factors[j]);
          if (step.reads.size() > 1) y = sum(std::move(y), values[step.reads[1] + j], step.sign < 0.0);
          if (!step.shifts.empty()) y = sum(std::move(y), exact_constant(step.shifts[j], point), false);
          values[step.writes + j] = std::move(y);
        }
        break;
      case PieceStep::Kind::kink:
        for (std::size_t j = 0; j < step.outputs; ++j) {
          const ExactNumber& x = values[step.reads[0] + j];
          const double k = step.shifts.empty() ? 0.0 : step.shifts[j];
          const std::size_t s = step.first_switch + j;
          decide(s, k == 0.0 ? x : sum(x, exact_constant(k, point), true));
          const double slope = signs[s] >= 0 ? step.right : step.left;
          values[step.writes + j] = slope == 1.0 ? x : slope == 0.0 ? exact_constant(k, point) : multiple(x, slope);
        }
        break;
      case PieceStep::Kind::extremum:
        for (std::size_t j = 0; j < step.outputs; ++j) {
          const ExactNumber &x = values[step.reads[0] + j], &y = values[step.reads[1] + j];
          const std::size_t s = step.first_switch + j;
          decide(s, sum(x, y, true));
          values[step.writes + j] = (signs[s] > 0) == (step.sign > 0.0) ? x : y;
        }
        break;
    }
  }
  decide(switches_, values[output_]);
  return true;
}

}  // namespace driftbound::region
