#include <doctest/doctest.h>

#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "driftbound/model/inputs.hpp"
#include "model/graphs.hpp"
#include "model/naive.hpp"
#include "model/rows.hpp"

using namespace driftbound;
using graphs::declared;

namespace {

constexpr std::int64_t width = 4;

/// A graph on an open input [N, width], with the constants of one node after the other.
class Draft {
public:
  Draft() : random_(20261127) { last_ = graph_.add_input("x", ElementType::f64, declared({-1, width})); }

  ValueId x() const { return graph_.inputs[0]; }
  ValueId constant(const Shape& shape) {
    return graph_.add_constant("c" + std::to_string(graph_.values.size()),
                               StoredTensor::from(naive::integers(random_, shape)));
  }
  /// The op on the value before, and on others behind it.
  Draft& then(Op op, std::vector<ValueId> others = {}) {
    others.insert(others.begin(), last_);
    return apply(std::move(op), std::move(others));
  }
  Draft& apply(Op op, std::vector<ValueId> operands) {
    last_ = graph_.add_node("n" + std::to_string(graph_.nodes.size()), std::move(op), std::move(operands));
    return *this;
  }
  ValueId last() const { return last_; }
  Graph graph() {
    graph_.outputs = {last_};
    return graph_;
  }

private:
  Graph graph_;
  std::mt19937_64 random_;
  ValueId last_ = 0;
};

/// One number a row: [N].
Draft sums_of_rows() {
  return Draft().then(op::ReduceSum{{1}, false});
}

struct Kind {
  std::string name;
  std::function<Graph(std::int64_t k)> graph;
};

const op::Gemm transposed_a{1.0, 1.0, true, false};

/// Graphs that run with one row and with k, or with any number, and mix rows there.
const Kind mixing[] = {
    {"a constant of k in front of Softmax over the rows",
     [](std::int64_t k) {
       Draft d = sums_of_rows();
       return d.then(op::Mul{}, {d.constant({k})}).then(op::Softmax{0, false}).graph();
     }},
    {"Softmax over the rows, then a constant of k",
     [](std::int64_t k) {
       Draft d = sums_of_rows();
       return d.then(op::Softmax{0, false}).then(op::Add{}, {d.constant({k})}).graph();
     }},
    {"[N] times [k]",
     [](std::int64_t k) {
       Draft d = sums_of_rows();
       return d.then(op::Mul{}, {d.constant({k})}).graph();
     }},
    {"[N, 4] plus [k, 1]",
     [](std::int64_t k) {
       Draft d;
       return d.then(op::Add{}, {d.constant({k, 1})}).graph();
     }},
    {"[N, 4] plus its sums [N]",
     [](std::int64_t) {
       Draft d;
       const ValueId sums = d.then(op::ReduceSum{{1}, false}).last();
       return d.apply(op::Add{}, {d.x(), sums}).graph();
     }},
    {"[N, 1] plus [N]",
     [](std::int64_t) {
       Draft d = sums_of_rows();
       const ValueId sums = d.last();
       return d.then(op::Unsqueeze{{1}}).then(op::Add{}, {sums}).graph();
     }},
    {"[N, 1] times [1, k], added to [N, 4] transposed",
     [](std::int64_t k) {
       Draft d;
       const ValueId outer = d.then(op::ReduceSum{{1}, true}).then(op::Mul{}, {d.constant({1, k})}).last();
       return d.apply(op::Transpose{}, {d.x()}).then(op::MatMul{}, {outer}).graph();
     }},
    {"[4, N] plus [k]",
     [](std::int64_t k) {
       Draft d;
       return d.then(op::Transpose{}).then(op::Add{}, {d.constant({k})}).graph();
     }},
    {"[N, 4] plus its transpose",
     [](std::int64_t) {
       Draft d;
       return d.then(op::Transpose{}).then(op::Add{}, {d.x()}).graph();
     }},
    {"[N, 4] times its transpose",
     [](std::int64_t) {
       Draft d;
       const ValueId turned = d.then(op::Transpose{}).last();
       return d.apply(op::MatMul{}, {d.x(), turned}).graph();
     }},
    {"rows as the inner dimension of MatMul",
     [](std::int64_t k) {
       Draft d;
       return d.then(op::Transpose{}).then(op::MatMul{}, {d.constant({k, 3})}).graph();
     }},
    {"rows as the inner dimension of Gemm",
     [](std::int64_t k) {
       Draft d;
       return d.then(transposed_a, {d.constant({k, 3})}).graph();
     }},
    {"rows as the addend of a Gemm of k rows, then Softmax over them",
     [](std::int64_t k) {
       Draft d;
       const ValueId a = d.constant({k, 3}), b = d.constant({3, width});
       return d.apply(op::Gemm{}, {a, b, d.x()}).then(op::Softmax{0, false}).graph();
     }},
    {"MatMul with k matrices",
     [](std::int64_t k) {
       Draft d;
       return d.then(op::Unsqueeze{{1}}).then(op::MatMul{}, {d.constant({k, width, 2})}).graph();
     }},
    {"the sum of the rows",
     [](std::int64_t) {
       Draft d;
       return d.then(op::ReduceSum{{0}, true}).then(op::Mul{}, {d.x()}).graph();
     }},
    {"the first row times k",
     [](std::int64_t k) {
       Draft d;
       return d.then(op::Slice{{0}, {1}, {0}, {}}).then(op::Mul{}, {d.constant({k, 1})}).graph();
     }},
    {"the first row k times, plus the rows",
     [](std::int64_t k) {
       Draft d;
       const op::Gather first{0, {k}, std::vector<std::int64_t>(static_cast<std::size_t>(k), 0)};
       return d.then(first).then(op::Add{}, {d.x()}).graph();
     }},
    {"rows behind two constant rows, then a constant of k + 2",
     [](std::int64_t k) {
       Draft d;
       const ValueId joined = d.apply(op::Concat{0}, {d.constant({2, width}), d.x()}).last();
       return d.apply(op::Slice{{2}, {1000}, {0}, {}}, {joined}).then(op::Add{}, {d.constant({k, 1})}).graph();
     }},
    {"rows padded by one, then a constant of k + 1",
     [](std::int64_t k) {
       Draft d;
       const op::Pad pad{op::Pad::Mode::constant, {1, 0}, {0, 0}, 0.0};
       return d.then(pad).then(op::Mul{}, {d.constant({k + 1, 1})}).graph();
     }},
    {"rows twice, then a constant of 2 k",
     [](std::int64_t k) {
       Draft d;
       return d.then(op::Tile{{2, 1}}).then(op::Mul{}, {d.constant({2 * k, 1})}).graph();
     }},
    {"rows and columns as one axis, then a constant of 4 k",
     [](std::int64_t k) {
       Draft d;
       return d.then(op::Reshape{{-1}}).then(op::Add{}, {d.constant({width * k})}).graph();
     }},
    {"columns of four in front, then a constant of k",
     [](std::int64_t k) {
       Draft d;
       return d.then(op::Reshape{{width, -1}}).then(op::Mul{}, {d.constant({k})}).graph();
     }},
    {"a choice for each of k rows",
     [](std::int64_t k) {
       Draft d;
       std::vector<bool> condition(static_cast<std::size_t>(k), true);
       condition[0] = false;
       const ValueId other = d.constant({width});
       return d.then(op::Where{{k, 1}, condition}, {other}).graph();
     }},
    {"rows expanded to k, then Softmax over them",
     [](std::int64_t k) {
       Draft d;
       return d.then(op::Expand{{k, width}}).then(op::Softmax{0, false}).graph();
     }},
};

/// Graphs whose rows stay apart, or that run with one row alone.
const Kind apart[] = {
    {"a layer",
     [](std::int64_t) {
       return Draft().then(op::Relu{}).then(op::Softmax{1, false}).graph();
     }},
    {"a product with k columns",
     [](std::int64_t k) {
       Draft d;
       return d.then(op::MatMul{}, {d.constant({width, k})}).then(op::Add{}, {d.constant({k})}).graph();
     }},
    {"rows that pass through axis 1",
     [](std::int64_t k) {
       Draft d;
       return d.then(op::Transpose{}).then(op::Unsqueeze{{0}}).then(op::Mul{}, {d.constant({k, 1, 1})}).graph();
     }},
    {"a transpose and back",
     [](std::int64_t) { return Draft().then(op::Transpose{}).then(op::Relu{}).then(op::Transpose{}).graph(); }},
    {"one row alone, by Reshape",
     [](std::int64_t k) {
       Draft d;
       return d.then(op::Reshape{{1, width}}).then(op::MatMul{}, {d.constant({width, k})}).graph();
     }},
    {"one row alone, by Squeeze",
     [](std::int64_t k) {
       Draft d;
       return d.then(op::Squeeze{{0}}).then(op::MatMul{}, {d.constant({width, k})}).graph();
     }},
};

bool runs(const Graph& graph, std::int64_t rows) {
  try {
    infer_shapes(graph, {{rows, width}});
    return true;
  } catch (const ShapeMismatch&) {
    return false;
  }
}

Inputs data(const Shape& shape) {
  return {{{"x", StoredTensor::from(Tensor<double>(shape))}}};
}

/// The message with which so many rows are refused.
std::optional<std::string> refusal(const Graph& graph, std::int64_t rows) {
  try {
    const std::int64_t counted = sample_count(graph, batch_layout(graph), data({rows, width}));
    CHECK(counted == rows);
  } catch (const Unsupported& error) {
    return error.what();
  }
  return std::nullopt;
}

/// Whether a run of so many rows computes what each row alone gives; a run that does not exist contradicts nothing.
bool rows_are_samples(const Graph& graph, std::int64_t rows, std::mt19937_64& random) {
  if (rows == 1 || !runs(graph, rows)) return true;
  return runs(graph, 1) && rows::stay_apart(graph, random, {-1, width}, rows);
}

bool names_a_node(const std::string& message, const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const Node& node) { return message.find("node '" + node.name + "'") != std::string::npos; });
}

}  // namespace

TEST_CASE("rows that a node mixes are refused for every number of rows with which the graph runs") {
  std::mt19937_64 random(20261127);
  for (const Kind& kind : mixing) {
    int mixed = 0;
    for (const std::int64_t k : {2, 3, 4, 5, 7}) {
      const Graph graph = kind.graph(k);
      for (std::int64_t rows = 2; rows <= 7; ++rows) {
        CAPTURE(kind.name);
        CAPTURE(k);
        CAPTURE(rows);
        if (rows_are_samples(graph, rows, random)) continue;
        ++mixed;
        const std::optional<std::string> message = refusal(graph, rows);
        REQUIRE(message.has_value());
        CHECK(names_a_node(*message, graph));
      }
    }
    CAPTURE(kind.name);
    CHECK(mixed >= 5);
  }
}

TEST_CASE("rows that stay apart, and rows with which no run exists, are samples") {
  std::mt19937_64 random(20261128);
  for (const Kind& kind : apart) {
    for (const std::int64_t k : {2, 3, 4, 5, 7}) {
      const Graph graph = kind.graph(k);
      for (std::int64_t rows = 1; rows <= 7; ++rows) {
        CAPTURE(kind.name);
        CAPTURE(k);
        CAPTURE(rows);
        CHECK(rows_are_samples(graph, rows, random));
        CHECK_FALSE(refusal(graph, rows).has_value());
        CHECK_FALSE(node_that_mixes_samples(graph, rows).has_value());
      }
    }
  }
}

TEST_CASE("one row, and samples in front of the declared shape, are never mixed") {
  for (const Kind& kind : mixing) {
    const Graph graph = kind.graph(5);
    const BatchLayout layout = batch_layout(graph);
    CAPTURE(kind.name);
    CHECK_FALSE(refusal(graph, 1).has_value());
    CHECK(sample_count(graph, layout, data({5, 1, width})) == 5);
    CHECK(slice(graph, layout, data({5, 1, width}), 3, 1).tensors[0].second.shape() == Shape{1, width});
  }
}

TEST_CASE("a graph that mixes k rows is named for every number of rows above 1") {
  const Graph graph = mixing[1].graph(4);
  CHECK_FALSE(node_that_mixes_samples(graph, 1).has_value());
  for (const std::int64_t samples : {2, 3, 4, 100}) {
    CAPTURE(samples);
    REQUIRE(node_that_mixes_samples(graph, samples).has_value());
    CHECK(graph.nodes[*node_that_mixes_samples(graph, samples)].name == "n1");
  }
  CHECK_NOTHROW(require_samples_apart(graph, 1));
  CHECK_THROWS_WITH_AS(require_samples_apart(graph, 4),
                       "axis 0 of the input is left open, but node 'n1' (Softmax) mixes its rows, so that they are no "
                       "samples; export the model with a fixed axis 0",
                       Unsupported);
}

TEST_CASE("a fixed axis 0 has no rows that could be mixed") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f64, declared({1, width}));
  graph.outputs = {graph.add_node("y", op::Softmax{0, false}, {x})};
  CHECK_FALSE(node_that_mixes_samples(graph, 4).has_value());
  CHECK(sample_count(graph, batch_layout(graph), data({4, width})) == 4);
}
