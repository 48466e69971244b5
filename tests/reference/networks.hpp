#pragma once

#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/model/inputs.hpp"

/// Random graphs with data that is awkward on purpose.
namespace networks {

inline int multiplier() {
  const char* text = std::getenv("DRIFTBOUND_TEST_MULTIPLIER");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

enum class Scale { ordinary, integers, float32, wide, subnormal, huge };

class Maker {
public:
  Maker(std::uint64_t seed, Scale scale) : generator_(seed), scale_(scale) {}

  std::size_t below(std::size_t n) { return generator_() % n; }
  bool chance(double p) { return std::uniform_real_distribution<double>()(generator_) < p; }
  double number() {
    const double x = std::normal_distribution<double>()(generator_);
    switch (scale_) {
      case Scale::ordinary:
        return chance(0.05) ? 0.0 : x;
      case Scale::integers:
        return std::floor(3.0 * x);
      case Scale::float32:
        return static_cast<double>(static_cast<float>(x));
      case Scale::wide:
        return std::ldexp(x, static_cast<int>(below(400)) - 200);
      case Scale::subnormal:
        return std::ldexp(x, -1040 - static_cast<int>(below(30)));
      case Scale::huge:
        return std::ldexp(x, 900 + static_cast<int>(below(100)));
    }
    return x;
  }
  driftbound::Tensor<double> tensor(driftbound::Shape shape) {
    driftbound::Tensor<double> t(std::move(shape));
    for (double& v : t.values) v = number();
    return t;
  }
  /// Weights of ordinary size: scales of data must not multiply at every layer.
  driftbound::Tensor<double> weights(driftbound::Shape shape) {
    const Scale kept = scale_;
    if (scale_ == Scale::subnormal || scale_ == Scale::huge) scale_ = Scale::ordinary;
    driftbound::Tensor<double> t = tensor(std::move(shape));
    scale_ = kept;
    return t;
  }

private:
  std::mt19937_64 generator_;
  Scale scale_;
};

struct Network {
  driftbound::Graph graph;
  driftbound::Inputs inputs;
};

inline driftbound::DeclaredDimension extent(std::int64_t n) {
  driftbound::DeclaredDimension d;
  if (n < 0) d.symbol = "N";
  d.extent = n;
  return d;
}

/// A graph of `steps` nodes over a pool of [samples, width] values. `batched` leaves axis 0 open; otherwise
/// products of two activations and transpositions take part.
class Builder {
public:
  Builder(std::uint64_t seed, Scale scale, std::int64_t samples, bool batched)
      : make_(seed, scale), samples_(samples), batched_(batched) {
    const std::int64_t width = 1 + static_cast<std::int64_t>(make_.below(5));
    pool_.push_back(
        {network_.graph.add_input("x", driftbound::ElementType::f64, {extent(batched ? -1 : samples), extent(width)}),
         width});
    network_.inputs.tensors.emplace_back("x", driftbound::StoredTensor::from(make_.tensor({samples, width})));
  }

  Network polynomial(int steps) {
    for (int i = 0; i < steps; ++i) linear_step();
    return finish();
  }
  Network general(int steps) {
    for (int i = 0; i < steps; ++i) make_.chance(0.5) ? linear_step() : curved_step();
    return finish();
  }

private:
  struct Entry {
    driftbound::ValueId id;
    std::int64_t width;
  };

  Network finish() {
    network_.graph.outputs = {pool_.back().id};
    return std::move(network_);
  }
  Entry pick() { return pool_[make_.below(pool_.size())]; }
  Entry pick_recent() { return make_.chance(0.7) ? pool_.back() : pick(); }
  std::string name() { return "node" + std::to_string(counter_++); }
  void push(driftbound::Op op, std::vector<driftbound::ValueId> in, std::int64_t width) {
    pool_.push_back({network_.graph.add_node(name(), std::move(op), std::move(in)), width});
  }
  driftbound::ValueId constant(driftbound::Shape shape) {
    return network_.graph.add_constant("c" + std::to_string(counter_++),
                                       driftbound::StoredTensor::from(make_.weights(std::move(shape))));
  }

  // A partner of the same width: another value of the pool, or a constant that broadcasts.
  driftbound::ValueId partner(const Entry& x) {
    std::vector<driftbound::ValueId> fitting;
    for (const Entry& e : pool_)
      if (e.width == x.width) fitting.push_back(e.id);
    if (make_.chance(0.5)) return fitting[make_.below(fitting.size())];
    return make_.chance(0.5) ? constant({x.width}) : constant({1});
  }

  void linear_step() {
    namespace op = driftbound::op;
    const Entry x = pick_recent();
    const std::int64_t width = 1 + static_cast<std::int64_t>(make_.below(8));
    switch (make_.below(batched_ ? 19 : 22)) {
      case 0:
      case 1: {
        op::Gemm gemm;
        gemm.transpose_b = make_.chance(0.5);
        gemm.alpha = make_.chance(0.5) ? 1.0 : -0.75;
        gemm.beta = make_.chance(0.5) ? 1.0 : 3.0;
        const driftbound::ValueId w =
            constant(gemm.transpose_b ? driftbound::Shape{width, x.width} : driftbound::Shape{x.width, width});
        if (make_.chance(0.3)) return push(gemm, {x.id, w}, width);
        return push(gemm, {x.id, w, make_.chance(0.8) ? constant({width}) : constant({1})}, width);
      }
      case 2:
        return push(op::MatMul{}, {x.id, constant({x.width, width})}, width);
      case 3:
        return push(op::Add{}, {x.id, partner(x)}, x.width);
      case 4:
        return push(op::Sub{}, {x.id, partner(x)}, x.width);
      case 5:
        return push(op::Mul{}, {x.id, constant({x.width})}, x.width);
      case 6:
        return push(op::Neg{}, {x.id}, x.width);
      case 7:
      case 8:
        return push(op::Relu{}, {x.id}, x.width);
      case 9:
        return push(op::LeakyRelu{make_.chance(0.5) ? 0.25 : -1.5}, {x.id}, x.width);
      case 10: {
        if (x.width > 8) return push(op::Identity{}, {x.id}, x.width);
        const Entry other = pick();
        return push(op::Concat{1}, {x.id, other.id}, x.width + other.width);
      }
      case 11:
        return push(op::Abs{}, {x.id}, x.width);
      case 12:
        return make_.chance(0.5) ? push(op::Min{}, {x.id, partner(x)}, x.width)
                                 : push(op::Max{}, {x.id, partner(x)}, x.width);
      case 13:
        return push(op::PRelu{}, {x.id, constant({x.width})}, x.width);
      case 14:
        return make_.chance(0.5) ? push(op::Clip{-0.5, 1.25}, {x.id}, x.width)
                                 : push(op::ThresholdedRelu{0.25}, {x.id}, x.width);
      case 15:
        return reduction(x);
      case 16:
        return selection(x);
      case 17:
        if (make_.chance(0.5)) return choice(x);
        return push(op::SumOf{}, {x.id, partner(x), partner(x)}, x.width);
      case 18:
        return push(op::ReduceSumSquare{{1}, true}, {x.id}, 1);
      case 19: {  // x^T w x'
        op::Gemm left;
        left.transpose_a = true;
        const Entry other = pick();
        push(left, {x.id, other.id}, other.width);  // [x.width, other.width]
        const driftbound::ValueId small = pool_.back().id;
        pool_.pop_back();
        return push(op::MatMul{}, {x.id, small}, other.width);
      }
      case 20: {
        const driftbound::ValueId w = constant({samples_, samples_});
        return push(op::MatMul{}, {w, x.id}, x.width);
      }
      default: {
        push(op::Transpose{{1, 0}}, {x.id}, samples_);
        const driftbound::ValueId turned = pool_.back().id;
        pool_.pop_back();
        return push(op::Reshape{{samples_, x.width}}, {turned}, x.width);
      }
    }
  }

  /// One of two values by a comparison of others.
  void choice(const Entry& x) {
    namespace op = driftbound::op;
    const driftbound::Op comparisons[] = {op::Greater{}, op::GreaterOrEqual{}, op::Equal{}};
    push(comparisons[make_.below(3)], {x.id, partner(x)}, x.width);
    const driftbound::ValueId condition = pool_.back().id;
    pool_.pop_back();
    push(op::Choice{}, {condition, partner(x), partner(x)}, x.width);
  }

  void reduction(const Entry& x) {
    namespace op = driftbound::op;
    switch (make_.below(3)) {
      case 0:
        return push(op::ReduceSum{{1}, true}, {x.id}, 1);
      case 1:
        return push(op::ReduceMax{{-1}, true}, {x.id}, 1);
      default:
        return push(op::ReduceMin{{1}, true}, {x.id}, 1);
    }
  }

  void selection(const Entry& x) {
    namespace op = driftbound::op;
    switch (make_.below(4)) {
      case 0:
        return push(op::Slice{{x.width - 1}, {-x.width - 1}, {1}, {-1}}, {x.id}, x.width);
      case 1:
        return push(op::Gather{1, {3}, {0, -1, 0}}, {x.id}, 3);
      case 2:
        return push(op::Pad{op::Pad::Mode::constant, {0, 1}, {0, 1}, 0.75}, {x.id}, x.width + 2);
      default:
        return x.width > 4 ? push(op::Identity{}, {x.id}, x.width) : push(op::Tile{{1, 2}}, {x.id}, 2 * x.width);
    }
  }

  void curved_step() {
    namespace op = driftbound::op;
    const Entry x = pick_recent();
    switch (make_.below(28)) {
      case 0:
        return push(op::Tanh{}, {x.id}, x.width);
      case 1:
        return push(op::Sigmoid{}, {x.id}, x.width);
      case 2:
        return push(op::Softplus{}, {x.id}, x.width);
      case 3:
        return push(op::Sin{}, {x.id}, x.width);
      case 4:
        return push(op::Cos{}, {x.id}, x.width);
      case 5:
        return push(op::Erf{}, {x.id}, x.width);
      case 6:
        return push(op::Elu{make_.chance(0.5) ? 1.0 : -0.5}, {x.id}, x.width);
      case 7:
        push(op::Tanh{}, {x.id}, x.width);
        return push(op::Exp{}, {pool_.back().id}, x.width);
      case 8:
        return push(op::Sqrt{}, {x.id}, x.width);
      case 9:
        return push(op::Div{}, {x.id, partner(x)}, x.width);
      case 10:
        push(op::Softplus{}, {x.id}, x.width);
        return push(op::Div{}, {pick_of_width(x.width), pool_.back().id}, x.width);
      case 11:
        return push(op::Mul{}, {x.id, pick_of_width(x.width)}, x.width);
      case 12:
        return push(op::Reciprocal{}, {x.id}, x.width);
      case 13:
        push(op::Softplus{}, {x.id}, x.width);
        return push(op::Log{}, {pool_.back().id}, x.width);
      case 14:
        return push(op::Tan{}, {x.id}, x.width);
      case 15:
        return push(op::Atan{}, {x.id}, x.width);
      case 16:
        push(op::Tanh{}, {x.id}, x.width);
        return make_.chance(0.5) ? push(op::Sinh{}, {pool_.back().id}, x.width)
                                 : push(op::Cosh{}, {pool_.back().id}, x.width);
      case 17:
        return make_.chance(0.5) ? push(op::Floor{}, {x.id}, x.width) : push(op::Ceil{}, {x.id}, x.width);
      case 18:
        return make_.chance(0.5) ? push(op::Sign{}, {x.id}, x.width) : push(op::Round{}, {x.id}, x.width);
      case 19: {
        const double exponents[] = {2.0, 3.0, -1.0, 0.5, 1.7};
        return push(op::Pow{exponents[make_.below(5)]}, {x.id}, x.width);
      }
      case 20:
      case 21:
      case 22:
      case 23:
        return activation(x);
      case 24:
        return push(op::MeanOf{}, {x.id, partner(x)}, x.width);
      case 25:
        return push(op::LogSoftmax{}, {x.id}, x.width);
      case 26:
        return push(op::ReduceLogSumExp{{1}, true}, {x.id}, 1);
      default:
        return push(op::Softmax{}, {x.id}, x.width);
    }
  }

  void activation(const Entry& x) {
    namespace op = driftbound::op;
    const driftbound::Op ops[] = {op::Selu{}, op::Celu{0.5},  op::HardSigmoid{}, op::HardSwish{}, op::Swish{1.5},
                                  op::Mish{}, op::Softsign{}, op::Gelu{false},   op::Gelu{true}};
    return push(ops[make_.below(std::size(ops))], {x.id}, x.width);
  }

  driftbound::ValueId pick_of_width(std::int64_t width) {
    std::vector<driftbound::ValueId> fitting;
    for (const Entry& e : pool_)
      if (e.width == width) fitting.push_back(e.id);
    return fitting[make_.below(fitting.size())];
  }

  Maker make_;
  std::int64_t samples_;
  bool batched_;
  std::vector<Entry> pool_;
  Network network_;
  int counter_ = 0;
};

}  // namespace networks
