#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "driftbound/evaluate/evaluate_as.hpp"
#include "evaluate/small_graphs.hpp"

// Ops by their defining formulas, loop by loop in double, against evaluate_as<double> and the fp64 evaluator.

namespace {

using namespace driftbound;
using namespace driftbound::tests;
using Values = std::vector<double>;
using Tensors = std::vector<Tensor<double>>;

void check_values(const Op& op, const Tensors& operands, const Tensor<double>& expected, double tolerance = 1e-12) {
  CAPTURE(name_of(op));
  const ArithmeticModel fp64 = cpu_arithmetic("fp64", {SummationOrder::Kind::sequential, 0, false});
  const Tensor<double> evaluated = apply<double>(op, operands, fp64);
  CHECK(to_string(evaluated.shape) == to_string(expected.shape));
  for (const Tensor<double>& y : {evaluated, evaluate_as<double>(graph_of(op, operands), inputs_of(operands)).at(0)}) {
    REQUIRE(y.size() == expected.size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      CAPTURE(i);
      CHECK(std::abs(y.values[i] - expected.values[i]) <= tolerance * std::max(1.0, std::abs(expected.values[i])));
    }
  }
}

void check_function(const Op& op, const std::function<double(double)>& f, bool is_positive = false) {
  Tensor<double> x({9}, {-6.5, -2.0, -1.25, -0.5, 0.0, 0.5, 1.25, 2.0, 6.5});
  if (is_positive) {
    for (double& value : x.values) value = std::abs(value) + 0.125;
  }
  Tensor<double> expected = x;
  for (double& value : expected.values) value = f(value);
  check_values(op, {x}, expected);
}

/// Row-major element of a tensor of rank 4.
double at(const Tensor<double>& x, std::int64_t n, std::int64_t c, std::int64_t i, std::int64_t j) {
  return x.values[static_cast<std::size_t>(((n * x.shape[1] + c) * x.shape[2] + i) * x.shape[3] + j)];
}

/// One number a row of a matrix.
Tensor<double> by_rows(const Tensor<double>& x, const std::function<double(const Values&)>& f) {
  Tensor<double> result({x.shape[0], 1}, {});
  const auto length = static_cast<std::ptrdiff_t>(x.shape[1]);
  for (auto row = x.values.begin(); row != x.values.end(); row += length) {
    result.values.push_back(f(Values(row, row + length)));
  }
  return result;
}

double sum(const Values& row, const std::function<double(double)>& f) {
  double total = 0.0;
  for (const double x : row) total += f(x);
  return total;
}

TEST_CASE("functions of one element") {
  check_function(op::Abs{}, [](double x) { return std::fabs(x); });
  check_function(
      op::Reciprocal{}, [](double x) { return 1 / x; }, true);
  check_function(
      op::Log{}, [](double x) { return std::log(x); }, true);
  check_function(op::Tan{}, [](double x) { return std::tan(x); });
  check_function(op::Atan{}, [](double x) { return std::atan(x); });
  check_function(op::Sinh{}, [](double x) { return std::sinh(x); });
  check_function(op::Cosh{}, [](double x) { return std::cosh(x); });
  check_function(op::Floor{}, [](double x) { return std::floor(x); });
  check_function(op::Ceil{}, [](double x) { return std::ceil(x); });
  check_function(op::Round{}, [](double x) {
    const double down = std::floor(x), rest = x - down;
    return rest < 0.5 || (rest == 0.5 && std::fmod(down, 2.0) == 0.0) ? down : down + 1.0;
  });
  check_function(op::Sign{}, [](double x) { return x < 0 ? -1.0 : x > 0 ? 1.0 : 0.0; });
  check_function(op::Pow{3.0}, [](double x) { return x * x * x; });
  check_function(
      op::Pow{-0.75}, [](double x) { return std::pow(x, -0.75); }, true);
  check_function(op::Clip{-1.0, 1.5}, [](double x) { return std::clamp(x, -1.0, 1.5); });
  check_function(op::ThresholdedRelu{0.75}, [](double x) { return x > 0.75 ? x : 0.0; });
}

TEST_CASE("activations that are composites") {
  check_function(op::Selu{1.5, 1.25}, [](double x) { return 1.25 * (x < 0 ? 1.5 * std::expm1(x) : x); });
  check_function(op::Celu{2.0}, [](double x) { return x < 0 ? 2 * std::expm1(x / 2) : x; });
  check_function(op::HardSigmoid{0.25, 0.5}, [](double x) { return std::clamp(x / 4 + 0.5, 0.0, 1.0); });
  check_function(op::HardSwish{}, [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); });
  check_function(op::Swish{1.5}, [](double x) { return x / (1 + std::exp(-1.5 * x)); });
  check_function(op::Mish{}, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); });
  check_function(op::Softsign{}, [](double x) { return x / (1 + std::fabs(x)); });
  check_function(op::Gelu{false}, [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); });
  check_function(op::Gelu{true}, [](double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  });
}

TEST_CASE("arithmetic of two and of many") {
  const Tensor<double> a({2, 3}, {-3, 1, 2, 0.5, -0.25, 4}), b({3}, {-1, 0.75, 2}), c({}, {0.5});
  const auto combined = [&](const std::function<double(double, double)>& f) {
    Tensor<double> y = a;
    for (std::size_t i = 0; i < 6; ++i) y.values[i] = f(a.values[i], b.values[i % 3]);
    return y;
  };
  check_values(op::Min{}, {a, b}, combined([](double x, double y) { return std::min(x, y); }));
  check_values(op::Max{}, {a, b}, combined([](double x, double y) { return std::max(x, y); }));
  check_values(op::PRelu{}, {a, b}, combined([](double x, double y) { return x < 0 ? x * y : x; }));
  const Tensor<double> half_equal({3}, {-1, 1, 2});
  const auto truth = [&](const std::function<bool(double, double)>& f) {
    Tensor<double> y = a;
    for (std::size_t i = 0; i < 6; ++i) y.values[i] = f(a.values[i], half_equal.values[i % 3]) ? 1.0 : 0.0;
    return y;
  };
  check_values(op::Greater{}, {a, half_equal}, truth([](double x, double y) { return x > y; }));
  check_values(op::GreaterOrEqual{}, {a, half_equal}, truth([](double x, double y) { return x >= y; }));
  check_values(op::Equal{}, {a, half_equal}, truth([](double x, double y) { return x == y; }));
  check_values(op::Choice{}, {Tensor<double>({2, 1}, {1, 0}), a, b}, {{2, 3}, {-3, 1, 2, -1, 0.75, 2}});
  check_values(op::Choice{}, {Tensor<double>({3}, {0.5, 0.75, -1}), c, a}, {{2, 3}, {-3, 0.5, 2, 0.5, 0.5, 4}});
  check_values(op::SumOf{}, {a, b, c}, combined([](double x, double y) { return x + y + 0.5; }));
  check_values(op::MeanOf{}, {a, b, c}, combined([](double x, double y) { return (x + y + 0.5) / 3; }));
  check_values(op::MinOf{}, {a, b, c}, combined([](double x, double y) { return std::min({x, y, 0.5}); }));
  check_values(op::MaxOf{}, {a, b, c}, combined([](double x, double y) { return std::max({x, y, 0.5}); }));
}

TEST_CASE("reductions of rows") {
  std::mt19937_64 random(1);
  const Tensor<double> x = random_tensor<double>({3, 5}, random, 2.0);
  Tensor<double> positive = x;
  for (double& value : positive.values) value = std::fabs(value) + 0.25;
  const auto identity = [](double v) { return v; };
  const auto square = [](double v) { return v * v; };
  const auto check = [&](const Op& op, const Tensor<double>& operand, const std::function<double(const Values&)>& f) {
    check_values(op, {operand}, by_rows(operand, f));
  };
  check(op::ReduceSum{{1}, true}, x, [&](const Values& row) { return sum(row, identity); });
  check(op::ReduceMax{{1}, true}, x, [](const Values& row) { return *std::max_element(row.begin(), row.end()); });
  check(op::ReduceMin{{1}, true}, x, [](const Values& row) { return *std::min_element(row.begin(), row.end()); });
  check(op::ReduceMean{{1}, true}, x, [&](const Values& row) { return sum(row, identity) / 5; });
  check(op::ReduceL1{{1}, true}, x, [&](const Values& row) { return sum(row, [](double v) { return std::fabs(v); }); });
  check(op::ReduceL2{{1}, true}, x, [&](const Values& row) { return std::sqrt(sum(row, square)); });
  check(op::ReduceSumSquare{{1}, true}, x, [&](const Values& row) { return sum(row, square); });
  check(op::ReduceLogSum{{1}, true}, positive, [&](const Values& row) { return std::log(sum(row, identity)); });
  check(op::ReduceLogSumExp{{1}, true}, x,
        [&](const Values& row) { return std::log(sum(row, [](double v) { return std::exp(v); })); });
}

TEST_CASE("normalisations of rows") {
  std::mt19937_64 random(2);
  const Tensor<double> x = random_tensor<double>({3, 5}, random, 2.0);
  const Tensor<double> scale = random_tensor<double>({5}, random), bias = random_tensor<double>({5}, random);
  const auto normalised = [&](bool is_centred, double epsilon, const Tensor<double>& shift) {
    Tensor<double> y = x;
    for (std::size_t row = 0; row < 3; ++row) {
      const Values values(x.values.begin() + static_cast<std::ptrdiff_t>(5 * row),
                          x.values.begin() + static_cast<std::ptrdiff_t>(5 * row + 5));
      const double mean = is_centred ? sum(values, [](double v) { return v; }) / 5 : 0.0;
      const double variance = sum(values, [&](double v) { return (v - mean) * (v - mean); }) / 5;
      for (std::size_t j = 0; j < 5; ++j) {
        y.values[5 * row + j] = (values[j] - mean) / std::sqrt(variance + epsilon) * scale.values[j] + shift.values[j];
      }
    }
    return y;
  };
  check_values(op::LayerNormalization{-1, 0.125}, {x, scale, bias}, normalised(true, 0.125, bias));
  check_values(op::LayerNormalization{1, 0.125}, {x, scale}, normalised(true, 0.125, Tensor<double>({5})));
  check_values(op::RMSNormalization{-1, 0.125}, {x, scale}, normalised(false, 0.125, Tensor<double>({5})));
  Tensor<double> log_softmax = x;
  for (std::size_t i = 0; i < 15; ++i) {
    double total = 0.0;
    for (std::size_t j = 0; j < 5; ++j) total += std::exp(x.values[i / 5 * 5 + j]);
    log_softmax.values[i] = x.values[i] - std::log(total);
  }
  check_values(op::LogSoftmax{}, {x}, log_softmax);

  const std::vector<bool> kept = {true, false, true, true, false};
  Tensor<double> masked = x;
  for (std::size_t i = 0; i < 15; ++i) {
    double total = 0.0;
    for (std::size_t j = 0; j < 5; ++j) total += kept[j] ? std::exp(x.values[i / 5 * 5 + j]) : 0.0;
    masked.values[i] = kept[i % 5] ? std::exp(x.values[i]) / total : 0.0;
  }
  check_values(op::MaskedSoftmax{-1, {5}, kept}, {x}, masked);
}

TEST_CASE("BatchNormalization by channels") {
  std::mt19937_64 random(3);
  const Tensor<double> x = random_tensor<double>({2, 3, 2, 2}, random), variance({3}, {0.5, 2.0, 1.25});
  const Tensor<double> scale = random_tensor<double>({3}, random), bias = random_tensor<double>({3}, random),
                       mean = random_tensor<double>({3}, random);
  Tensor<double> expected = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i / 4 % 3;
    expected.values[i] =
        (x.values[i] - mean.values[c]) / std::sqrt(variance.values[c] + 0.01) * scale.values[c] + bias.values[c];
  }
  check_values(op::BatchNormalization{0.01}, {x, scale, bias, mean, variance}, expected);
}

struct Geometry {
  std::int64_t kernel, stride, dilation, before, after;
  std::int64_t outputs(std::int64_t extent) const {
    return (extent + before + after - dilation * (kernel - 1) - 1) / stride + 1;
  }
};

op::WindowGeometry both(const Geometry& rows, const Geometry& columns) {
  return {{rows.kernel, columns.kernel},
          {rows.stride, columns.stride},
          {rows.dilation, columns.dilation},
          {rows.before, columns.before},
          {rows.after, columns.after},
          op::WindowGeometry::AutoPad::none,
          false};
}

/// f(n, c, row, column of every tap inside) of every window.
template <class F>
void for_each_tap(const Tensor<double>& x, const Geometry& rows, const Geometry& columns, std::int64_t i,
                  std::int64_t j, F f) {
  for (std::int64_t p = 0; p < rows.kernel; ++p) {
    for (std::int64_t q = 0; q < columns.kernel; ++q) {
      const std::int64_t row = i * rows.stride + p * rows.dilation - rows.before;
      const std::int64_t column = j * columns.stride + q * columns.dilation - columns.before;
      const bool is_inside = row >= 0 && row < x.shape[2] && column >= 0 && column < x.shape[3];
      f(p, q, row, column, is_inside);
    }
  }
}

TEST_CASE("Conv by direct loops, with groups, strides, dilations and uneven pads") {
  std::mt19937_64 random(4);
  const std::int64_t groups = 2;
  const Tensor<double> x = random_tensor<double>({2, 4, 5, 6}, random), w = random_tensor<double>({6, 2, 3, 2}, random),
                       bias = random_tensor<double>({6}, random);
  const Geometry rows{3, 2, 1, 1, 2}, columns{2, 1, 3, 2, 0};
  Tensor<double> expected({2, 6, rows.outputs(5), columns.outputs(6)}, {});
  for (std::int64_t n = 0; n < 2; ++n) {
    for (std::int64_t m = 0; m < 6; ++m) {
      for (std::int64_t i = 0; i < expected.shape[2]; ++i) {
        for (std::int64_t j = 0; j < expected.shape[3]; ++j) {
          double y = bias.values[static_cast<std::size_t>(m)];
          for_each_tap(x, rows, columns, i, j, [&](auto p, auto q, auto row, auto column, bool is_inside) {
            for (std::int64_t c = 0; is_inside && c < 2; ++c) {
              y += at(w, m, c, p, q) * at(x, n, m / (6 / groups) * 2 + c, row, column);
            }
          });
          expected.values.push_back(y);
        }
      }
    }
  }
  check_values(op::Conv{both(rows, columns), groups}, {x, w, bias}, expected);
}

TEST_CASE("ConvTranspose adds every input element, times the weights, to where its window lies") {
  std::mt19937_64 random(5);
  const Tensor<double> x = random_tensor<double>({2, 4, 3, 2}, random), w = random_tensor<double>({4, 3, 3, 2}, random);
  const Geometry rows{3, 2, 1, 1, 0}, columns{2, 3, 2, 0, 1};
  op::ConvTranspose conv{both(rows, columns), 2, {1, 0}, {}};
  const auto extent = [](const Geometry& g, std::int64_t input, std::int64_t more) {
    return g.stride * (input - 1) + more + g.dilation * (g.kernel - 1) + 1 - g.before - g.after;
  };
  Tensor<double> expected({2, 6, extent(rows, 3, 1), extent(columns, 2, 0)});
  for (std::int64_t n = 0; n < 2; ++n) {
    for (std::int64_t c = 0; c < 4; ++c) {
      for (std::int64_t m = 0; m < 3; ++m) {
        for (std::int64_t i = 0; i < 3; ++i) {
          for (std::int64_t j = 0; j < 2; ++j) {
            const std::int64_t filter = c / 2 * 3 + m;
            for_each_tap(expected, rows, columns, i, j, [&](auto p, auto q, auto row, auto column, bool is_inside) {
              const auto index = ((n * 6 + filter) * expected.shape[2] + row) * expected.shape[3] + column;
              if (is_inside) expected.values[static_cast<std::size_t>(index)] += at(x, n, c, i, j) * at(w, c, m, p, q);
            });
          }
        }
      }
    }
  }
  check_values(conv, {x, w}, expected);
}

TEST_CASE("pools take maxima of what lies inside, and means with or without the padding") {
  std::mt19937_64 random(6);
  Tensor<double> x = random_tensor<double>({2, 3, 5, 6}, random);
  for (double& value : x.values) value -= 5.0;  // padding by zeros would win every maximum
  const Geometry rows{3, 2, 1, 1, 1}, columns{2, 2, 2, 1, 0};
  Tensor<double> largest({2, 3, rows.outputs(5), columns.outputs(6)}, {}), inside = largest, all = largest;
  for (std::int64_t channel = 0; channel < 6; ++channel) {
    for (std::int64_t i = 0; i < largest.shape[2]; ++i) {
      for (std::int64_t j = 0; j < largest.shape[3]; ++j) {
        double most = -1e9, total = 0.0, count = 0.0;
        for_each_tap(x, rows, columns, i, j, [&](auto, auto, auto row, auto column, bool is_inside) {
          if (!is_inside) return;
          const double value = at(x, channel / 3, channel % 3, row, column);
          most = std::max(most, value);
          total += value;
          count += 1.0;
        });
        largest.values.push_back(most);
        inside.values.push_back(total / count);
        all.values.push_back(total / 6.0);
      }
    }
  }
  check_values(op::MaxPool{both(rows, columns)}, {x}, largest);
  check_values(op::AveragePool{both(rows, columns), false}, {x}, inside);
  check_values(op::AveragePool{both(rows, columns), true}, {x}, all);
}

TEST_CASE("Einsum 'bij,bjk->bik' is a product of matrices for every b") {
  std::mt19937_64 random(7);
  const Tensor<double> a = random_tensor<double>({2, 3, 4}, random), b = random_tensor<double>({2, 4, 5}, random);
  Tensor<double> expected({2, 3, 5}, {});
  for (std::size_t n = 0; n < 2; ++n) {
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t k = 0; k < 5; ++k) {
        double y = 0.0;
        for (std::size_t j = 0; j < 4; ++j) y += a.values[(n * 3 + i) * 4 + j] * b.values[(n * 4 + j) * 5 + k];
        expected.values.push_back(y);
      }
    }
  }
  check_values(op::Einsum{"bij,bjk->bik"}, {a, b}, expected);
}

TEST_CASE("Attention weighs values by the softmax of scaled products, of the keys alone that a query sees") {
  std::mt19937_64 random(8);
  const std::int64_t samples = 2, heads = 2, length = 4, size = 3;
  const Shape shape = {samples, heads, length, size};
  const Tensor<double> q = random_tensor<double>(shape, random), k = random_tensor<double>(shape, random),
                       v = random_tensor<double>(shape, random);
  const std::vector<bool> every(16, true);
  // Query 0 does not see key 0, query 2 sees nothing.
  const std::vector<bool> some = {false, true,  false, true,  true, true, true, false,
                                  false, false, false, false, true, true, true, true};
  struct Kind {
    bool is_causal;
    std::int64_t first_query;
    std::vector<bool> visible;
  };
  for (const Kind& kind :
       {Kind{false, 0, {}}, Kind{true, 0, {}}, Kind{true, 2, {}}, Kind{false, 0, some}, Kind{true, 1, some}}) {
    const std::vector<bool>& visible = kind.visible.empty() ? every : kind.visible;
    Tensor<double> expected(shape, {}), expected_weights({samples, heads, length, length}, {});
    for (std::int64_t nh = 0; nh < samples * heads; ++nh) {
      const std::int64_t n = nh / heads, h = nh % heads;
      for (std::int64_t i = 0; i < length; ++i) {
        Values weights;
        for (std::int64_t j = 0; j < length; ++j) {
          double score = 0.0;
          for (std::int64_t d = 0; d < size; ++d) score += at(q, n, h, i, d) * at(k, n, h, j, d);
          const bool is_seen =
              visible[static_cast<std::size_t>(i * length + j)] && (!kind.is_causal || j <= i + kind.first_query);
          weights.push_back(is_seen ? std::exp(score / std::sqrt(3.0)) : 0.0);
        }
        const double total = sum(weights, [](double w) { return w; });
        for (double& weight : weights) weight = total == 0.0 ? 0.0 : weight / total;
        expected_weights.values.insert(expected_weights.values.end(), weights.begin(), weights.end());
        for (std::int64_t d = 0; d < size; ++d) {
          double y = 0.0;
          for (std::size_t j = 0; j < weights.size(); ++j) {
            y += weights[j] * at(v, n, h, static_cast<std::int64_t>(j), d);
          }
          expected.values.push_back(y);
        }
      }
    }
    op::Attention attention;
    attention.is_causal = kind.is_causal;
    attention.first_query = kind.first_query;
    if (!kind.visible.empty()) attention.visible_shape = {length, length};
    attention.visible = kind.visible;
    check_values(attention, {q, k, v}, expected);
    attention.result = op::Attention::Result::weights;
    check_values(attention, {q, k, v}, expected_weights);
  }
}

}  // namespace
