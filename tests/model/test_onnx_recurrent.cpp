#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "driftbound/evaluate/evaluate_as.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/num/errors.hpp"
#include "support/load_errors.hpp"
#include "support/onnx_writer.hpp"

// RNN, GRU and LSTM against ONNX's equations, element by element.

using namespace driftbound;
using namespace driftbound::test;
using A = OnnxAttribute;

namespace {

constexpr std::int64_t samples = 2, length = 3, inputs = 2, hidden = 3;

/// Numbers that single elements are taken from, as ONNX lays them out.
struct Numbers {
  std::vector<std::int64_t> shape;
  std::vector<float> values;

  double operator()(std::initializer_list<std::int64_t> index) const {
    std::int64_t at = 0;
    std::size_t axis = 0;
    for (const std::int64_t i : index) at = at * shape[axis++] + i;
    return static_cast<double>(values[static_cast<std::size_t>(at)]);
  }
};

Numbers random_numbers(std::mt19937& random, std::vector<std::int64_t> shape) {
  std::uniform_real_distribution<float> draw(-1.0f, 1.0f);
  Numbers result{std::move(shape), {}};
  std::int64_t count = 1;
  for (const std::int64_t extent : result.shape) count *= extent;
  for (std::int64_t i = 0; i < count; ++i) result.values.push_back(draw(random));
  return result;
}

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

/// A node with all that it may have; `gates` are those of its kind.
struct Recurrent {
  std::string op;
  std::int64_t gates = 1, directions = 1;
  bool is_reversed = false, samples_first = false, has_bias = false, has_state = false, has_cell = false,
       has_peepholes = false, resets_behind = false;
  Numbers x, w, r, b, h, c, p;

  void draw(unsigned seed) {
    std::mt19937 random(seed);
    x = random_numbers(random, samples_first ? Shape{samples, length, inputs} : Shape{length, samples, inputs});
    w = random_numbers(random, {directions, gates * hidden, inputs});
    r = random_numbers(random, {directions, gates * hidden, hidden});
    b = random_numbers(random, {directions, 2 * gates * hidden});
    const Shape state = samples_first ? Shape{samples, directions, hidden} : Shape{directions, samples, hidden};
    h = random_numbers(random, state);
    c = random_numbers(random, state);
    p = random_numbers(random, {directions, 3 * hidden});
  }

  OnnxModel model(const std::vector<std::string>& outputs) const {
    OnnxModel result(14);
    result.input("x", {x.shape.begin(), x.shape.end()});
    result.initializer("w", w.shape, w.values).initializer("r", r.shape, r.values);
    std::vector<std::string> names = {"x", "w", "r", has_bias ? "b" : "", "", has_state ? "h" : ""};
    if (has_bias) result.initializer("b", b.shape, b.values);
    if (has_state) result.initializer("h", h.shape, h.values);
    if (op == "LSTM") {
      names.insert(names.end(), {has_cell ? "c" : "", has_peepholes ? "p" : ""});
      if (has_cell) result.initializer("c", c.shape, c.values);
      if (has_peepholes) result.initializer("p", p.shape, p.values);
    }
    std::vector<A> attributes = {A::of_int("hidden_size", hidden), A::of_int("layout", samples_first ? 1 : 0)};
    attributes.push_back(A::of_string("direction", directions == 2 ? "bidirectional"
                                                   : is_reversed   ? "reverse"
                                                                   : "forward"));
    if (op == "GRU") attributes.push_back(A::of_int("linear_before_reset", resets_behind ? 1 : 0));
    result.node(op, names, outputs, attributes);
    for (const std::string& output : outputs) {
      if (!output.empty()) result.output(output);
    }
    return result;
  }

  // ---- by the equations

  double input_at(std::int64_t n, std::int64_t t, std::int64_t i) const {
    return samples_first ? x({n, t, i}) : x({t, n, i});
  }
  double start(const Numbers& state, std::int64_t d, std::int64_t n, std::int64_t j) const {
    return samples_first ? state({n, d, j}) : state({d, n, j});
  }
  double input_sum(std::int64_t d, std::int64_t n, std::int64_t t, std::int64_t row) const {
    double sum = has_bias ? b({d, row}) : 0.0;
    for (std::int64_t i = 0; i < inputs; ++i) sum += input_at(n, t, i) * w({d, row, i});
    return sum;
  }
  double state_sum(std::int64_t d, std::int64_t row, const std::vector<double>& state) const {
    double sum = has_bias ? b({d, gates * hidden + row}) : 0.0;
    for (std::int64_t i = 0; i < hidden; ++i) sum += state[static_cast<std::size_t>(i)] * r({d, row, i});
    return sum;
  }

  struct State {
    std::vector<double> h, c;
  };

  State next(std::int64_t d, std::int64_t n, std::int64_t t, const State& before) const {
    State after = before;
    std::vector<double> reset_state = before.h;
    const auto gate = [&](std::int64_t which, std::int64_t j) {
      return input_sum(d, n, t, which * hidden + j) + state_sum(d, which * hidden + j, before.h);
    };
    for (std::int64_t j = 0; j < hidden && op == "GRU"; ++j)
      reset_state[static_cast<std::size_t>(j)] *= sigmoid(gate(1, j));
    for (std::int64_t j = 0; j < hidden; ++j) {
      const auto at = static_cast<std::size_t>(j);
      if (op == "RNN") after.h[at] = std::tanh(gate(0, j));
      if (op == "GRU") {
        const double z = sigmoid(gate(0, j)), reset = sigmoid(gate(1, j));
        const double from_state =
            resets_behind ? reset * state_sum(d, 2 * hidden + j, before.h) : state_sum(d, 2 * hidden + j, reset_state);
        after.h[at] = (1.0 - z) * std::tanh(input_sum(d, n, t, 2 * hidden + j) + from_state) + z * before.h[at];
      }
      if (op == "LSTM") {
        const auto peephole = [&](std::int64_t which, double cell) {
          return has_peepholes ? p({d, which * hidden + j}) * cell : 0.0;
        };
        const double i = sigmoid(gate(0, j) + peephole(0, before.c[at]));
        const double f = sigmoid(gate(2, j) + peephole(2, before.c[at]));
        after.c[at] = f * before.c[at] + i * std::tanh(gate(3, j));
        after.h[at] = sigmoid(gate(1, j) + peephole(1, after.c[at])) * std::tanh(after.c[at]);
      }
    }
    return after;
  }

  struct Outputs {
    std::vector<double> all, h, c;
  };

  Outputs expected() const {
    Outputs outputs;
    const auto size = static_cast<std::size_t>(length * directions * samples * hidden);
    outputs.all.resize(size);
    outputs.h.resize(size / length);
    outputs.c.resize(size / length);
    for (std::int64_t d = 0; d < directions; ++d) {
      for (std::int64_t n = 0; n < samples; ++n) {
        State state{std::vector<double>(hidden, 0.0), std::vector<double>(hidden, 0.0)};
        for (std::int64_t j = 0; j < hidden; ++j) {
          if (has_state) state.h[static_cast<std::size_t>(j)] = start(h, d, n, j);
          if (has_cell) state.c[static_cast<std::size_t>(j)] = start(c, d, n, j);
        }
        for (std::int64_t step = 0; step < length; ++step) {
          const std::int64_t t = d == 1 || is_reversed ? length - 1 - step : step;
          state = next(d, n, t, state);
          for (std::int64_t j = 0; j < hidden; ++j) {
            const std::int64_t row =
                samples_first ? (n * length + t) * directions + d : (t * directions + d) * samples + n;
            outputs.all[static_cast<std::size_t>(row * hidden + j)] = state.h[static_cast<std::size_t>(j)];
          }
        }
        for (std::int64_t j = 0; j < hidden; ++j) {
          const std::int64_t row = samples_first ? n * directions + d : d * samples + n;
          outputs.h[static_cast<std::size_t>(row * hidden + j)] = state.h[static_cast<std::size_t>(j)];
          outputs.c[static_cast<std::size_t>(row * hidden + j)] = state.c[static_cast<std::size_t>(j)];
        }
      }
    }
    return outputs;
  }
};

void check_close(const Tensor<double>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(std::abs(found.values[i] - expected[i]) < 1e-12);
}

void check(const Recurrent& node) {
  const bool has_cell = node.op == "LSTM";
  const Graph graph =
      loaded(node.model(has_cell ? std::vector<std::string>{"y", "yh", "yc"} : std::vector<std::string>{"y", "yh"}));
  const StoredTensor x = StoredTensor::from(Tensor<float>(node.x.shape, node.x.values));
  const std::vector<Tensor<double>> layers = evaluate_as<double>(graph, Inputs{{{"x", x}}});
  const std::vector<Shape> shapes = infer_shapes(graph, {node.x.shape});
  const auto shape = [&](std::size_t i) { return shapes[graph.outputs.at(i)]; };
  const auto output = [&](std::size_t i) { return layers[*graph.producer(graph.outputs.at(i))]; };
  const Recurrent::Outputs expected = node.expected();
  const std::int64_t d = node.directions;
  CHECK(shape(0) == (node.samples_first ? Shape{samples, length, d, hidden} : Shape{length, d, samples, hidden}));
  CHECK(shape(1) == (node.samples_first ? Shape{samples, d, hidden} : Shape{d, samples, hidden}));
  check_close(output(0), expected.all);
  check_close(output(1), expected.h);
  if (has_cell) check_close(output(2), expected.c);
}

/// Every choice of what a node may have.
void check_all(const std::string& op, std::int64_t gates) {
  unsigned seed = 1;
  for (const int direction : {0, 1, 2}) {
    for (const bool samples_first : {false, true}) {
      for (unsigned parts = 0; parts < 32; ++parts) {
        Recurrent node;
        node.op = op;
        node.gates = gates;
        node.directions = direction == 2 ? 2 : 1;
        node.is_reversed = direction == 1;
        node.samples_first = samples_first;
        node.has_bias = (parts & 1) != 0;
        node.has_state = (parts & 2) != 0;
        node.has_cell = (parts & 4) != 0;
        node.has_peepholes = (parts & 8) != 0;
        node.resets_behind = (parts & 16) != 0;
        const bool is_other_kinds = (op != "LSTM" && (parts & 12) != 0) || (op != "GRU" && node.resets_behind);
        if (is_other_kinds) continue;
        CAPTURE(direction);
        CAPTURE(samples_first);
        CAPTURE(parts);
        node.draw(seed++);
        check(node);
      }
    }
  }
}

/// Why a node is refused; attributes and the lengths of its sequences as given.
std::string refusal(const std::string& op, const std::vector<A>& attributes, const OnnxModel::Dimension& steps = 3,
                    std::optional<std::int32_t> lengths = std::nullopt) {
  const std::int64_t gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1;
  OnnxModel model(14);
  model.input("x", {steps, 2, 2})
      .initializer("w", {1, gates, 2}, std::vector<float>(static_cast<std::size_t>(2 * gates), 0.5f))
      .initializer("r", {1, gates, 1}, std::vector<float>(static_cast<std::size_t>(gates), 0.5f));
  if (lengths) model.initializer("n", {2}, std::vector<std::int32_t>{3, *lengths});
  return load_error<Unsupported>(
      model.node(op, {"x", "w", "r", "", lengths ? "n" : ""}, "y", attributes, "cell").output("y"));
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

A of_strings(std::string_view name, const std::vector<std::string>& texts) {
  Message message = Message().bytes(1, name);
  for (const std::string& text : texts) message.bytes(9, text);
  return {message.varint(20, 8)};
}

}  // namespace

TEST_CASE("an RNN is its equation for every element of the sequence") {
  check_all("RNN", 1);
}

TEST_CASE("a GRU is its equations, with the reset gate before and behind the matrix") {
  check_all("GRU", 3);
}

TEST_CASE("an LSTM is its equations, with and without peepholes") {
  check_all("LSTM", 4);
}

TEST_CASE("activations of recurrent ops may be others, with numbers of their own and a clip") {
  const auto value = [](const std::string& name, const std::vector<A>& numbers, float x) {
    OnnxModel model(14);
    model.input("x", {1, 1, 1})
        .initializer("w", {1, 1, 1}, std::vector<float>{1})
        .initializer("r", {1, 1, 1}, std::vector<float>{1});
    std::vector<A> attributes = {of_strings("activations", {name})};
    attributes.insert(attributes.end(), numbers.begin(), numbers.end());
    const Graph graph = loaded(model.node("RNN", {"x", "w", "r"}, "y", attributes).output("y"));
    const StoredTensor input = StoredTensor::from(Tensor<float>({1, 1, 1}, {x}));
    return evaluate_as<double>(graph, Inputs{{{"x", input}}}).back().values.at(0);
  };
  const A alpha = A::of_floats("activation_alpha", {0.5f}), beta = A::of_floats("activation_beta", {0.25f});
  CHECK(value("Relu", {}, -2) == 0.0);
  CHECK(value("relu", {}, 2) == 2.0);
  CHECK(value("Sigmoid", {}, 0) == 0.5);
  CHECK(value("Softsign", {}, -1) == -0.5);
  CHECK(value("Softplus", {}, 0) == doctest::Approx(std::log(2.0)));
  CHECK(value("Affine", {alpha, beta}, 2) == 1.25);
  CHECK(value("LeakyRelu", {}, -1) == -static_cast<double>(0.01f));
  CHECK(value("LeakyRelu", {alpha}, -1) == -0.5);
  CHECK(value("ScaledTanh", {alpha, beta}, 2) == doctest::Approx(0.5 * std::tanh(0.5)));
  CHECK(value("HardSigmoid", {}, 0) == 0.5);
  CHECK(value("HardSigmoid", {alpha, beta}, 1) == 0.75);
  CHECK(value("Elu", {}, -1) == doctest::Approx(std::expm1(-1.0)));
  CHECK(value("Relu", {A::of_float("clip", 1.5f)}, 2) == 1.5);
  CHECK(mentions(refusal("RNN", {of_strings("activations", {"Affine"})}), "has no activation_alpha"));
  CHECK(mentions(refusal("RNN", {of_strings("activations", {"Relu"}), alpha}), "1 numbers for 0 activations"));
  CHECK(mentions(refusal("RNN", {of_strings("activations", {"Cubic"})}), "'cubic' is not known"));
}

TEST_CASE("what of recurrent ops is refused, and why") {
  CHECK(mentions(refusal("LSTM", {}, "S"), "export the model with a fixed one"));
  CHECK(mentions(refusal("GRU", {}, 1025), "1 to 1024 are supported"));
  CHECK(refusal("GRU", {}, 3, 3).empty());
  CHECK(mentions(refusal("GRU", {}, 3, 2), "sequences shorter than the axis"));
  CHECK(mentions(refusal("LSTM", {A::of_int("input_forget", 1)}), "couples"));
  CHECK(mentions(refusal("LSTM", {A::of_float("clip", 1.0f)}), "a clip"));
  OnnxModel model(14);
  model.input("x", {3, 2, 2})
      .initializer("w", {1, 4, 2}, std::vector<float>(8, 0.5f))
      .initializer("r", {1, 4, 2}, std::vector<float>(8, 0.5f));
  CHECK(mentions(load_error<ShapeMismatch>(model.node("LSTM", {"x", "w", "r"}, "y").output("y")),
                 "its recurrence weights are [1, 4, 2]"));
}

TEST_CASE("an LSTM over samples keeps them apart and says how many there are, also behind another one") {
  OnnxModel model(14);
  model.input("x", {"N", 3, 2})
      .initializer("w", {1, 8, 2}, std::vector<float>(16, 0.5f))
      .initializer("r", {1, 8, 2}, std::vector<float>(16, 0.25f))
      .initializer("axis", {1}, std::vector<std::int64_t>{2})
      .initializer("perm", {1}, std::vector<std::int64_t>{2});
  const A layout = A::of_int("layout", 1);
  model.node("LSTM", {"x", "w", "r"}, std::vector<std::string>{"a", ""}, {layout}, "first")
      .node("Squeeze", {"a", "axis"}, "b")
      .node("LSTM", {"b", "w", "r"}, std::vector<std::string>{"", "yh"}, {layout}, "second")
      .output("yh");
  const Graph graph = loaded(model);
  CHECK(batch_layout(graph).batched);
  CHECK(infer_shapes(graph, {{5, 3, 2}})[graph.outputs[0]] == Shape{5, 1, 2});
}
