#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/model/tensor.hpp"

/// Exact functions of three coordinates whose surfaces are known.
namespace mesh_networks {

using namespace driftbound;

/// Builds sums and products of x.
class Builder {
public:
  Builder() : x_(graph_.add_input("x", ElementType::f32, {{-1, "batch"}, {3, ""}})) {}

  ValueId x() const { return x_; }
  /// values W + b, W of `rows` rows.
  ValueId affine(ValueId values, std::int64_t rows, std::vector<float> w, std::vector<float> b) {
    const auto columns = static_cast<std::int64_t>(b.size());
    const ValueId weights =
        graph_.add_constant(name(), StoredTensor::from(Tensor<float>({rows, columns}, std::move(w))));
    const ValueId bias = graph_.add_constant(name(), StoredTensor::from(Tensor<float>({columns}, std::move(b))));
    return graph_.add_node(name(), op::Gemm{}, {values, weights, bias});
  }
  /// A number a coordinate.
  ValueId constant(std::vector<float> numbers) {
    const auto size = static_cast<std::int64_t>(numbers.size());
    return graph_.add_constant(name(), StoredTensor::from(Tensor<float>({size}, std::move(numbers))));
  }
  template <class Op>
  ValueId apply(Op op, std::vector<ValueId> values) {
    return graph_.add_node(name(), op, std::move(values));
  }
  /// (x - c)² + (y - c')² + (z - c'')² - r²
  ValueId sphere(float cx, float cy, float cz, float square) {
    const ValueId moved = affine(x_, 3, {1, 0, 0, 0, 1, 0, 0, 0, 1}, {-cx, -cy, -cz});
    return affine(apply(op::Mul{}, {moved, moved}), 3, {1, 1, 1}, {-square});
  }
  Graph result(ValueId output) {
    graph_.outputs = {output};
    return graph_;
  }

private:
  std::string name() { return "v" + std::to_string(count_++); }

  Graph graph_;
  ValueId x_;
  int count_ = 0;
};

inline Graph sphere(float square, float cx = 0.0F, float cy = 0.0F, float cz = 0.0F) {
  Builder build;
  return build.result(build.sphere(cx, cy, cz, square));
}

/// (|x|² + R² - r²)² - 4 R² (x² + y²), R = 1/2, r = 1/4
inline Graph torus() {
  Builder build;
  const ValueId squares = build.apply(op::Mul{}, {build.x(), build.x()});
  const ValueId sum = build.affine(squares, 3, {1, 1, 1}, {0.25F - 0.0625F});
  const ValueId product = build.apply(op::Mul{}, {sum, sum});
  return build.result(build.apply(op::Sub{}, {product, build.affine(squares, 3, {1, 1, 0}, {0})}));
}

/// What two balls have in common, or their union: a crease, which turns by 69 degrees, in no special direction.
inline Graph crossing_balls(bool is_union) {
  Builder build;
  const ValueId one = build.sphere(0.072F, 0.096F, 0.16F, 0.125F),
                other = build.sphere(-0.072F, -0.096F, -0.16F, 0.125F);
  return build.result(is_union ? build.apply(op::Min{}, {one, other}) : build.apply(op::Max{}, {one, other}));
}

/// Of two spheres the union; two parts, or one within the other by their product.
inline Graph two_spheres(bool is_nested) {
  Builder build;
  if (is_nested)
    return build.result(build.apply(op::Mul{}, {build.sphere(0, 0, 0, 0.0625F), build.sphere(0, 0, 0, 0.5F)}));
  return build.result(
      build.apply(op::Min{}, {build.sphere(-0.5F, 0, 0, 0.125F), build.sphere(0.5F, 0.125F, 0, 0.125F)}));
}

/// |x| + |y| + |z| - 1/2, moved and turned a little where asked.
inline Graph octahedron(bool is_turned) {
  Builder build;
  const std::vector<float> matrix =
      is_turned ? std::vector<float>{0.75F, -0.5F, 0.25F, 0.5F, 0.75F, -0.125F, -0.125F, 0.25F, 0.875F}
                : std::vector<float>{1, 0, 0, 0, 1, 0, 0, 0, 1};
  const float shift = is_turned ? 0.0625F : 0.0F;
  const ValueId moved = build.affine(build.x(), 3, matrix, {shift, -shift, shift});
  const ValueId absolute = build.apply(op::Abs{}, {moved});
  return build.result(build.affine(absolute, 3, {1, 1, 1}, {-0.5F}));
}

/// The largest of |x|, |y|, |z| less 1/2: creases of right angles.
inline Graph cube(float half) {
  Builder build;
  const ValueId sides = build.affine(build.x(), 3, {1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 0, 0});
  const ValueId absolute = build.apply(op::Abs{}, {sides});
  const auto side = [&](std::vector<float> w) { return build.affine(absolute, 3, std::move(w), {-half}); };
  // max(a, b) = b + rectifier(a - b)
  const auto largest = [&](ValueId a, ValueId b) {
    return build.apply(op::Add{}, {b, build.apply(op::Relu{}, {build.apply(op::Sub{}, {a, b})})});
  };
  return build.result(largest(largest(side({1, 0, 0}), side({0, 1, 0})), side({0, 0, 1})));
}

/// |x| + |y| + |z| - 1/2, every |t| the sum of the rectifiers of t and of -t: two kinks in one place.
inline Graph octahedron_of_rectifiers() {
  Builder build;
  const ValueId both =
      build.affine(build.x(), 3, {1, 0, 0, -1, 0, 0, 0, 1, 0, 0, -1, 0, 0, 0, 1, 0, 0, -1}, {0, 0, 0, 0, 0, 0});
  return build.result(build.affine(build.apply(op::Relu{}, {both}), 6, {1, 1, 1, 1, 1, 1}, {-0.5F}));
}

/// |x| + 3/4 |y| - 5/8 |z|: two cones of four faces that touch.
inline Graph two_cones() {
  Builder build;
  return build.result(build.affine(build.apply(op::Abs{}, {build.x()}), 3, {1, 0.75F, -0.625F}, {0}));
}

/// Two layers of rectifiers with random weights.
class Rectifiers {
public:
  template <class Random>
  Rectifiers(std::size_t width, Random& random, bool has_bias = true) : width_(width) {
    const auto draw = [&](std::vector<float>& values, std::size_t count, float scale) {
      std::uniform_real_distribution<float> uniform(-scale, scale);
      for (std::size_t i = 0; i < count; ++i) values.push_back(uniform(random));
    };
    draw(w1_, 3 * width, 2.0F);
    draw(b1_, width, has_bias ? 1.0F : 0.0F);
    draw(w2_, width * width, 1.0F);
    draw(b2_, width, has_bias ? 1.0F : 0.0F);
    draw(w3_, width, 1.0F);
    if (has_bias) b3_ = -static_cast<float>(value<double>({0.0625, 0.125, -0.25}));  // near where the surface passes
  }

  Graph graph() const {
    Builder build;
    const auto rows = static_cast<std::int64_t>(width_);
    const ValueId first = build.apply(op::Relu{}, {build.affine(build.x(), 3, w1_, b1_)});
    const ValueId last = build.apply(op::Relu{}, {build.affine(first, rows, w2_, b2_)});
    return build.result(build.affine(last, rows, w3_, {b3_}));
  }

  template <class Number>
  Number value(const std::array<Number, 3>& x) const {
    const auto rectified = [](std::vector<Number> values) {
      for (Number& value : values)
        if (value < 0) value = 0;
      return values;
    };
    const std::vector<Number> first = rectified(affine<Number>({x[0], x[1], x[2]}, w1_, b1_));
    return affine<Number>(rectified(affine<Number>(first, w2_, b2_)), w3_, {b3_})[0];
  }

  /// Upper bound of the slope in any direction.
  double lipschitz() const {
    std::vector<double> slopes(3, 1.0);
    for (const auto* const w : {&w1_, &w2_, &w3_}) {
      std::vector<float> sizes;
      for (const float weight : *w) sizes.push_back(std::fabs(weight));
      slopes = affine<double>(slopes, sizes, std::vector<float>(w->size() / slopes.size(), 0.0F));
    }
    return slopes[0] * 1.001;
  }

private:
  template <class Number>
  static std::vector<Number> affine(const std::vector<Number>& x, const std::vector<float>& w,
                                    const std::vector<float>& b) {
    std::vector<Number> y;
    for (std::size_t j = 0; j < b.size(); ++j) {
      Number sum(b[j]);
      for (std::size_t k = 0; k < x.size(); ++k) sum += Number(w[k * b.size() + j]) * x[k];
      y.push_back(sum);
    }
    return y;
  }

  std::size_t width_;
  std::vector<float> w1_, b1_, w2_, b2_, w3_;
  float b3_ = 0.0F;
};

/// Sums, products with constants, largest and smallest values, and a rectifier that leaks.
struct Mixture {
  static Graph graph() {
    Builder build;
    const ValueId scaled = build.apply(op::Mul{}, {build.x(), build.constant({0.3F, -0.7F, 1.1F})});
    const ValueId u = build.apply(op::Add{}, {scaled, build.constant({0.1F, 0.2F, -0.3F})});
    const ValueId a = build.affine(u, 3, {0.6F, -1.3F, 0.2F, 0.9F, 0.4F, -0.7F, -0.5F, 0.8F, 1.7F}, {0, 0, 0});
    const ValueId largest = build.apply(op::Max{}, {a, u});
    const ValueId rest = build.apply(op::Sub{}, {largest, build.apply(op::Abs{}, {scaled})});
    const ValueId least = build.apply(op::Min{}, {rest, build.constant({0.4F, 0.3F, 0.1F})});
    op::LeakyRelu leaky;
    leaky.alpha = slope;
    return build.result(build.affine(build.apply(leaky, {least}), 3, {0.9F, -0.8F, 0.7F}, {0.05F}));
  }

  template <class Number>
  static Number value(const std::array<Number, 3>& x) {
    const float factors[] = {0.3F, -0.7F, 1.1F}, shifts[] = {0.1F, 0.2F, -0.3F}, limits[] = {0.4F, 0.3F, 0.1F};
    const float w[3][3] = {{0.6F, -1.3F, 0.2F}, {0.9F, 0.4F, -0.7F}, {-0.5F, 0.8F, 1.7F}};
    const float last[] = {0.9F, -0.8F, 0.7F};
    std::array<Number, 3> scaled, u;
    for (std::size_t c = 0; c < 3; ++c) {
      scaled[c] = x[c] * Number(factors[c]);
      u[c] = scaled[c] + Number(shifts[c]);
    }
    Number sum(0.05F);
    for (std::size_t c = 0; c < 3; ++c) {
      Number a = 0;
      for (std::size_t k = 0; k < 3; ++k) a += Number(w[k][c]) * u[k];
      Number rest = (a > u[c] ? a : u[c]) - (scaled[c] < 0 ? Number(-scaled[c]) : scaled[c]);
      if (rest > Number(limits[c])) rest = Number(limits[c]);
      if (rest < 0) rest *= Number(slope);
      sum += Number(last[c]) * rest;
    }
    return sum;
  }

  static constexpr float slope = 0.3F;
};

/// The smaller of |x|-|y|, where x < 1, and a ball around (2, 0, 0).
inline Graph crossing_planes_and_a_sphere() {
  Builder build;
  const ValueId moved = build.affine(build.x(), 3, {1, 0, 0, 0, 1, 0, 0, 0, 0}, {0.015625F, 0.015625F, 0});
  const ValueId planes = build.affine(build.apply(op::Abs{}, {moved}), 3, {1, -1, 0}, {0});
  const ValueId wall = build.affine(build.x(), 3, {1, 0, 0}, {-0.75F});
  return build.result(build.apply(op::Min{}, {build.apply(op::Max{}, {planes, wall}), build.sphere(2, 0, 0, 0.25F)}));
}

/// x y: two planes that cross.
inline Graph crossing_planes() {
  Builder build;
  return build.result(build.apply(op::Mul{}, {build.affine(build.x(), 3, {1, 0, 0}, {0.015625F}),
                                              build.affine(build.x(), 3, {0, 1, 0}, {0.015625F})}));
}

}  // namespace mesh_networks
