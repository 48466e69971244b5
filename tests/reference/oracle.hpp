#pragma once

#include <boost/multiprecision/cpp_int.hpp>
#include <boost/multiprecision/mpfr.hpp>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "driftbound/model/composite.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/ball.hpp"

/// A second way to the exact values: plain loops over matrices, with its own index rules (every tensor
/// has rank 2 or less, [n] is [1, n]), over a scalar that is exact (Dyadic) or has 400 digits (Real400).
namespace oracle {

using Integer = boost::multiprecision::cpp_int;
using Real400 =
    boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<400>, boost::multiprecision::et_off>;

/// integer * 2^exponent: closed under +, - and *.
struct Dyadic {
  Integer integer = 0;
  int exponent = 0;

  Dyadic() = default;
  Dyadic(double x) {
    if (!std::isfinite(x)) throw std::invalid_argument("not a number");
    int e = 0;
    const double m = std::frexp(x, &e);
    integer = static_cast<long long>(std::ldexp(m, 53));
    exponent = e - 53;
  }
  Dyadic& align(int e) {
    if (exponent > e) {
      integer <<= exponent - e;
      exponent = e;
    }
    return *this;
  }
};

inline Dyadic operator-(Dyadic x) {
  x.integer = -x.integer;
  return x;
}
inline Dyadic operator+(Dyadic x, Dyadic y) {
  if (x.integer == 0) return y;
  if (y.integer == 0) return x;
  const int e = std::min(x.exponent, y.exponent);
  x.align(e);
  x.integer += y.align(e).integer;
  return x;
}
inline Dyadic operator-(const Dyadic& x, const Dyadic& y) {
  return x + -y;
}
inline Dyadic operator*(Dyadic x, const Dyadic& y) {
  x.integer *= y.integer;
  x.exponent += y.exponent;
  return x;
}
inline int sign(const Dyadic& x) {
  return x.integer.sign();
}
inline bool operator<=(const Dyadic& x, const Dyadic& y) {
  return sign(x - y) <= 0;
}
inline Dyadic magnitude(const Dyadic& x) {
  return sign(x) < 0 ? -x : x;
}
inline bool is_number(const Dyadic&) {
  return true;
}

inline int sign(const Real400& x) {
  return x.sign();
}
inline Real400 magnitude(const Real400& x) {
  return abs(x);
}
inline bool is_number(const Real400& x) {
  return (boost::math::isfinite)(x);
}

template <class Real>
struct Matrix {
  std::size_t rows = 1, columns = 1;
  std::vector<Real> values;
  Matrix() = default;
  Matrix(std::size_t r, std::size_t c) : rows(r), columns(c), values(r * c) {}
  Real& at(std::size_t r, std::size_t c) { return values[r * columns + c]; }
  const Real& at(std::size_t r, std::size_t c) const { return values[r * columns + c]; }
  const Real& broadcast(std::size_t r, std::size_t c) const { return at(rows == 1 ? 0 : r, columns == 1 ? 0 : c); }
};

template <class Real>
Real smaller(const Real& a, const Real& b) {
  return a <= b ? a : b;
}
template <class Real>
Real larger(const Real& a, const Real& b) {
  return a <= b ? b : a;
}

/// One number of every row, or of the whole matrix.
template <class Real, class F>
Matrix<Real> fold(const Matrix<Real>& x, const std::vector<std::int64_t>& axes, F f) {
  const bool is_row = axes.size() == 1 && (axes[0] == 1 || axes[0] == -1);
  if (!is_row && !axes.empty()) throw std::logic_error("no reduction of the oracle");
  const std::size_t length = is_row ? x.columns : x.values.size();
  Matrix<Real> y(x.values.size() / length, 1);
  for (std::size_t r = 0; r < y.rows; ++r) {
    y.values[r] = x.values[r * length];
    for (std::size_t c = 1; c < length; ++c) y.values[r] = f(y.values[r], x.values[r * length + c]);
  }
  return y;
}

template <class Real>
Matrix<Real> matrix(const driftbound::Tensor<double>& tensor) {
  const driftbound::Shape& s = tensor.shape;
  Matrix<Real> m(s.size() < 2 ? 1 : static_cast<std::size_t>(s[0]), s.empty() ? 1 : static_cast<std::size_t>(s.back()));
  for (std::size_t i = 0; i < m.values.size(); ++i) m.values[i] = Real(tensor.values[i]);
  return m;
}

template <class Real>
Matrix<Real> transposed(const Matrix<Real>& x, bool really = true) {
  if (!really) return x;
  Matrix<Real> y(x.columns, x.rows);
  for (std::size_t r = 0; r < x.rows; ++r)
    for (std::size_t c = 0; c < x.columns; ++c) y.at(c, r) = x.at(r, c);
  return y;
}

template <class Real>
Matrix<Real> product(const Matrix<Real>& a, const Matrix<Real>& b) {
  Matrix<Real> y(a.rows, b.columns);
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < b.columns; ++j) {
      Real sum = Real(0.0);
      for (std::size_t k = 0; k < a.columns; ++k) sum = sum + a.at(i, k) * b.at(k, j);
      y.at(i, j) = sum;
    }
  return y;
}

template <class Real, class F>
Matrix<Real> zip(const Matrix<Real>& a, const Matrix<Real>& b, F f) {
  Matrix<Real> y(std::max(a.rows, b.rows), std::max(a.columns, b.columns));
  for (std::size_t r = 0; r < y.rows; ++r)
    for (std::size_t c = 0; c < y.columns; ++c) y.at(r, c) = f(a.broadcast(r, c), b.broadcast(r, c));
  return y;
}

template <class Real, class F>
Matrix<Real> map(Matrix<Real> x, F f) {
  for (Real& v : x.values) v = f(v);
  return x;
}

/// Values of a graph; the exact function by the definitions in model/ops.hpp.
template <class Real>
class Evaluation {
public:
  using M = Matrix<Real>;
  const M& value(driftbound::ValueId id) const { return values_.at(id); }
  void set(driftbound::ValueId id, M m) {
    values_.resize(std::max(values_.size(), id + 1));
    values_[id] = std::move(m);
  }
  void set_constants(const driftbound::Graph& graph) {
    for (driftbound::ValueId id = 0; id < graph.values.size(); ++id)
      if (graph.is_constant(id)) set(id, matrix<Real>(graph.value(id).constant.to_double()));
  }
  M result(const driftbound::Node& node) const {
    std::vector<M> in;
    for (const driftbound::ValueId id : node.inputs) in.push_back(value(id));
    return std::visit([&](const auto& op) { return compute(op, in); }, node.op);
  }

private:
  using In = const std::vector<M>&;
  static M compute(const driftbound::op::Gemm& g, In in) {
    M y = product(transposed(in[0], g.transpose_a), transposed(in[1], g.transpose_b));
    y = map(y, [&](const Real& v) { return v * Real(g.alpha); });
    if (in.size() < 3) return y;
    return zip(y, in[2], [&](const Real& v, const Real& c) { return v + c * Real(g.beta); });
  }
  static M compute(const driftbound::op::MatMul&, In in) { return product(in[0], in[1]); }
  static M compute(const driftbound::op::Add&, In in) {
    return zip(in[0], in[1], [](const Real& a, const Real& b) { return a + b; });
  }
  static M compute(const driftbound::op::Sub&, In in) {
    return zip(in[0], in[1], [](const Real& a, const Real& b) { return a - b; });
  }
  static M compute(const driftbound::op::Mul&, In in) {
    return zip(in[0], in[1], [](const Real& a, const Real& b) { return a * b; });
  }
  static M compute(const driftbound::op::Neg&, In in) {
    return map(in[0], [](const Real& x) { return -x; });
  }
  static M compute(const driftbound::op::Relu&, In in) {
    return map(in[0], [](const Real& x) { return is_number(x) && sign(x) < 0 ? Real(0.0) : x; });
  }
  static M compute(const driftbound::op::LeakyRelu& leaky, In in) {
    return map(in[0], [&](const Real& x) { return sign(x) < 0 ? Real(leaky.alpha) * x : x; });
  }
  static M compute(const driftbound::op::Transpose&, In in) { return transposed(in[0]); }
  static M compute(const driftbound::op::Concat&, In in) {
    std::size_t columns = 0;
    for (const M& x : in) columns += x.columns;
    M y(in[0].rows, columns);
    for (std::size_t r = 0; r < y.rows; ++r) {
      std::size_t place = 0;
      for (const M& x : in)
        for (std::size_t c = 0; c < x.columns; ++c) y.at(r, place++) = x.at(r, c);
    }
    return y;
  }
  static M compute(const driftbound::op::Reshape& reshape, In in) {
    M y = in[0];
    y.columns = static_cast<std::size_t>(reshape.target.at(1));
    y.rows = y.values.size() / y.columns;
    return y;
  }
  static M compute(const driftbound::op::Identity&, In in) { return in[0]; }
  static M compute(const driftbound::op::Cast&, In in) { return in[0]; }
  static M compute(const driftbound::op::Flatten&, In in) { return in[0]; }
  static M compute(const driftbound::op::Squeeze&, In in) { return in[0]; }
  static M compute(const driftbound::op::Unsqueeze&, In in) { return in[0]; }
  static M compute(const driftbound::op::Abs&, In in) {
    return map(in[0], [](const Real& x) { return magnitude(x); });
  }
  static M compute(const driftbound::op::Sign&, In in) {
    return map(in[0], [](const Real& x) { return Real(static_cast<double>(sign(x))); });
  }
  static M compute(const driftbound::op::Min&, In in) { return zip(in[0], in[1], smaller<Real>); }
  static M compute(const driftbound::op::Max&, In in) { return zip(in[0], in[1], larger<Real>); }
  static M compute(const driftbound::op::Greater&, In in) {
    return zip(in[0], in[1], [](const Real& a, const Real& b) { return Real(a <= b ? 0.0 : 1.0); });
  }
  static M compute(const driftbound::op::GreaterOrEqual&, In in) {
    return zip(in[0], in[1], [](const Real& a, const Real& b) { return Real(b <= a ? 1.0 : 0.0); });
  }
  static M compute(const driftbound::op::Equal&, In in) {
    return zip(in[0], in[1], [](const Real& a, const Real& b) { return Real(a <= b && b <= a ? 1.0 : 0.0); });
  }
  static M compute(const driftbound::op::Choice&, In in) {
    const auto where = [&](const M& x, bool taken) {
      return zip(in[0], x, [&](const Real& c, const Real& t) { return (c <= Real(0.5)) == taken ? Real(0.0) : t; });
    };
    return zip(where(in[1], true), where(in[2], false), [](const Real& a, const Real& b) { return Real(a + b); });
  }
  static M compute(const driftbound::op::PRelu&, In in) {
    return zip(in[0], in[1], [](const Real& x, const Real& slope) { return sign(x) < 0 ? Real(slope * x) : x; });
  }
  static M compute(const driftbound::op::Clip& clip, In in) {
    return map(in[0], [&](Real x) {
      if (std::isfinite(clip.least)) x = larger(x, Real(clip.least));
      return std::isfinite(clip.most) ? smaller(x, Real(clip.most)) : x;
    });
  }
  static M compute(const driftbound::op::ThresholdedRelu& relu, In in) {
    return map(in[0], [&](const Real& x) { return x <= Real(relu.alpha) ? Real(0.0) : x; });
  }
  static M compute(const driftbound::op::ReduceSum& reduce, In in) {
    return fold(in[0], reduce.axes, [](const Real& a, const Real& b) { return Real(a + b); });
  }
  static M compute(const driftbound::op::ReduceMax& reduce, In in) { return fold(in[0], reduce.axes, larger<Real>); }
  static M compute(const driftbound::op::ReduceMin& reduce, In in) { return fold(in[0], reduce.axes, smaller<Real>); }

  static driftbound::Shape shape_of(const M& x) {
    return {static_cast<std::int64_t>(x.rows), static_cast<std::int64_t>(x.columns)};
  }
  /// Selections whose output is a matrix.
  template <class Selection>
  requires driftbound::Selection<Selection>
  static M compute(const Selection& op, In in) {
    std::vector<driftbound::Shape> shapes;
    for (const M& x : in) shapes.push_back(shape_of(x));
    driftbound::Graph graph;
    std::vector<driftbound::ValueId> inputs;
    for (const driftbound::Shape& shape : shapes) {
      inputs.push_back(graph.add_input("x" + std::to_string(inputs.size()), driftbound::ElementType::f64,
                                       {{shape[0], ""}, {shape[1], ""}}));
    }
    const driftbound::ValueId output = graph.add_node("y", op, inputs);
    graph.outputs = {output};
    const driftbound::Shape shape = infer_shapes(graph, shapes)[output];
    M y(static_cast<std::size_t>(shape.at(0)), static_cast<std::size_t>(shape.at(1)));
    const auto sources = driftbound::plan_selection(op, shapes, shape);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      y.values[i] =
          sources[i].is_fill() ? Real(driftbound::fill_value(op)) : in[sources[i].input].values[sources[i].index];
    }
    return y;
  }
  /// The body is the definition.
  template <class Composite>
  requires driftbound::Composite<Composite>
  static M compute(const Composite& op, In in) {
    std::vector<driftbound::Shape> shapes;
    for (const M& x : in) shapes.push_back(shape_of(x));
    const driftbound::Graph body = driftbound::composite_body(op, shapes);
    Evaluation inner;
    inner.set_constants(body);
    for (std::size_t slot = 0; slot < in.size(); ++slot) inner.set(body.inputs[slot], in[slot]);
    for (const driftbound::Node& node : body.nodes) inner.set(node.output, inner.result(node));
    return inner.value(body.outputs.front());
  }

  template <class Op>
  static M compute(const Op& op, In in) {
    if constexpr (std::is_same_v<Real, Real400>) {
      return transcendental(op, in);
    } else {
      throw std::logic_error("not a function of exact arithmetic");
    }
  }
  static M transcendental(const driftbound::op::Div&, In in) {
    return zip(in[0], in[1], [](const Real& a, const Real& b) { return Real(a / b); });
  }
  static M transcendental(const driftbound::op::Reciprocal&, In in) {
    return map(in[0], [](const Real& x) { return Real(1 / x); });
  }
  static M transcendental(const driftbound::op::Log&, In in) {
    return map(in[0], [](const Real& x) { return Real(log(x)); });
  }
  static M transcendental(const driftbound::op::Tan&, In in) {
    return map(in[0], [](const Real& x) { return Real(tan(x)); });
  }
  static M transcendental(const driftbound::op::Atan&, In in) {
    return map(in[0], [](const Real& x) { return Real(atan(x)); });
  }
  static M transcendental(const driftbound::op::Sinh&, In in) {
    return map(in[0], [](const Real& x) { return Real(sinh(x)); });
  }
  static M transcendental(const driftbound::op::Cosh&, In in) {
    return map(in[0], [](const Real& x) { return Real(cosh(x)); });
  }
  static M transcendental(const driftbound::op::Floor&, In in) {
    return map(in[0], [](const Real& x) { return Real(floor(x)); });
  }
  static M transcendental(const driftbound::op::Ceil&, In in) {
    return map(in[0], [](const Real& x) { return Real(ceil(x)); });
  }
  static M transcendental(const driftbound::op::Round&, In in) {
    return map(in[0], [](const Real& x) {
      const Real down = floor(x), rest = x - down, half = Real(0.5);
      const bool is_even = floor(down / 2) * 2 == down;
      return Real(rest < half || (rest == half && is_even) ? down : down + 1);
    });
  }
  static M transcendental(const driftbound::op::Pow& power, In in) {
    return map(in[0], [&](const Real& x) { return Real(pow(x, Real(power.exponent))); });
  }
  static M transcendental(const driftbound::op::Elu& elu, In in) {
    return map(in[0], [&](const Real& x) { return x < 0 ? Real(Real(elu.alpha) * (exp(x) - 1)) : x; });
  }
  static M transcendental(const driftbound::op::Tanh&, In in) {
    return map(in[0], [](const Real& x) { return Real(1 - 2 / (exp(2 * x) + 1)); });
  }
  static M transcendental(const driftbound::op::Sigmoid&, In in) {
    return map(in[0], [](const Real& x) { return Real(1 / (1 + exp(-x))); });
  }
  static M transcendental(const driftbound::op::Softplus&, In in) {
    return map(in[0], [](const Real& x) { return Real(log(1 + exp(x))); });
  }
  static M transcendental(const driftbound::op::Sin&, In in) {
    return map(in[0], [](const Real& x) { return Real(sin(x)); });
  }
  static M transcendental(const driftbound::op::Cos&, In in) {
    return map(in[0], [](const Real& x) { return Real(cos(x)); });
  }
  static M transcendental(const driftbound::op::Exp&, In in) {
    return map(in[0], [](const Real& x) { return Real(exp(x)); });
  }
  static M transcendental(const driftbound::op::Erf&, In in) {
    return map(in[0], [](const Real& x) { return Real(boost::multiprecision::erf(x)); });
  }
  static M transcendental(const driftbound::op::Sqrt&, In in) {
    return map(in[0], [](const Real& x) { return Real(sqrt(x)); });
  }
  static M transcendental(const driftbound::op::Softmax&, In in) {
    M y = map(in[0], [](const Real& x) { return Real(exp(x)); });
    for (std::size_t r = 0; r < y.rows; ++r) {
      Real sum = 0;
      for (std::size_t c = 0; c < y.columns; ++c) sum += y.at(r, c);
      for (std::size_t c = 0; c < y.columns; ++c) y.at(r, c) /= sum;
    }
    return y;
  }

  std::vector<M> values_;
};

/// |exact - (hi + lo)| <= radius, decided exactly (Dyadic) or with 400 digits. A ball that claims nothing
/// contains everything; a value that does not exist lies only in such a ball.
template <class Real>
bool contains(const driftbound::Ball& ball, const Real& exact) {
  if (!ball.is_finite()) return true;
  return is_number(exact) && magnitude(exact - Real(ball.hi) - Real(ball.lo)) <= Real(ball.radius.value());
}

}  // namespace oracle
