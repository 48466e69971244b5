#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "driftbound/model/ops.hpp"
#include "driftbound/model/tensor.hpp"

namespace driftbound {

/// Index into Graph::values.
using ValueId = std::size_t;

enum class ValueKind { input, constant, computed };

/// A declared extent: a number, or symbolic (a named or missing dimension).
struct DeclaredDimension {
  std::int64_t extent = -1;  ///< -1: symbolic
  std::string symbol;        ///< name of the symbolic dimension, may be empty
};

struct Value {
  std::string name;
  ValueKind kind = ValueKind::computed;
  ElementType type = ElementType::f32;
  std::vector<DeclaredDimension> declared;  ///< inputs only; empty with has_declared_shape == false: unknown rank
  bool has_declared_shape = false;
  StoredTensor constant;  ///< constants only
};

/// One op application; it computes one value.
struct Node {
  std::string name;  ///< layer name: the node's name, else its output's, made unique
  Op op;
  std::vector<ValueId> inputs;
  ValueId output = 0;
};

/// A network as the file stores it. Nodes are in an order in which every input is computed before
/// it is used. The exact function is the graph over the reals: every constant is the number its
/// stored float denotes, and no op rounds.
struct Graph {
  std::string name;
  std::string source;  ///< file the graph came from, for messages; may be empty
  std::string format;  ///< "onnx (IR 8, opset 13)", "npz layer dump" …
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;

  ValueId add_input(std::string name, ElementType type, std::vector<DeclaredDimension> shape);
  ValueId add_constant(std::string name, StoredTensor tensor);
  /// Appends a node; its output takes the node's name and the widest float type of its inputs (Cast: its target).
  /// Throws:    InvalidArgument where an input does not exist, the arity is wrong or a Clip's limits leave no number;
  ///            Unsupported for integer arithmetic and casts to integers, which are not the op over the reals
  ValueId add_node(std::string name, Op op, std::vector<ValueId> inputs);

  const Value& value(ValueId id) const { return values.at(id); }
  bool is_constant(ValueId id) const { return values.at(id).kind == ValueKind::constant; }
  /// Node that computes a value; empty for inputs and constants.
  std::optional<std::size_t> producer(ValueId id) const;
  /// Elements of all float constants.
  std::int64_t parameter_count() const;
  /// The element type of the network: the widest float type among inputs and float constants.
  ElementType working_type() const;
};

/// Checks the invariants that loaders promise: topological order, arity, limits of Clip, unique names of layers,
/// inputs and outputs that exist.
/// Throws:    InvalidArgument naming the node
void validate(const Graph& graph);

/// Shapes of every value (by ValueId) for concrete input shapes (by position in Graph::inputs).
/// Throws:    ShapeMismatch naming the node and the shapes that do not fit; also for an inner dimension of 0
///            and for values of more than 2^40 elements
std::vector<Shape> infer_shapes(const Graph& graph, const std::vector<Shape>& input_shapes);

/// How many samples a model takes at a time and how data for it are cut into samples.
struct BatchLayout {
  /// Extent of axis 0 of every input and output is the number of samples and no op mixes samples, so
  /// that any number of rows may be evaluated together or apart. Otherwise one evaluation is one sample.
  bool batched = false;
  /// Shape of one evaluation's input with a single sample, by position in Graph::inputs.
  std::vector<Shape> sample_shapes;
};

/// Decides the layout by the declared input shapes (a symbolic or missing axis 0, or one declared for a single
/// sample, may count samples; any other fixed extent is one evaluation) and by following axis 0 through every op. A
/// symbolic axis 0 of a graph that mixes samples, or is not seen not to, is taken as 1: one row an evaluation.
/// Throws:    Unsupported where a symbolic extent other than axis 0 leaves the shape open
BatchLayout batch_layout(const Graph& graph);

/// The first node that mixes the rows of an open axis 0, so that they cannot be samples: a sequence, say. Such a model
/// means another function for every extent; export it with a fixed one. Empty where axis 0 counts samples, is fixed,
/// can only be 1, or is seen to count samples on its way through other axes: such a model is evaluated row by row.
/// A graph that runs with any number of rows is judged by one such run. A graph that does not (it adds a constant of
/// extent 4 along the rows, say) computes with one row what the row alone gives; where `samples` > 1 it is judged by a
/// run of that many rows, and by a run of each other number that agrees with an extent of the graph.
std::optional<std::size_t> node_that_mixes_samples(const Graph& graph, std::int64_t samples);

/// Throws:    Unsupported naming the node, where node_that_mixes_samples finds one
void require_samples_apart(const Graph& graph, std::int64_t samples);

/// For every value whether it depends on a graph input. Values that do not (constants, and ops of
/// constants only) are the same for every sample and carry no sample axis.
std::vector<bool> depends_on_input(const Graph& graph);

/// Summation length of a node: inner dimension of Gemm and MatMul, reduced length of Softmax and reductions, the
/// longest in a composite, else 0.
std::int64_t fan_in(const Graph& graph, const Node& node, const std::vector<Shape>& shapes);

}  // namespace driftbound
